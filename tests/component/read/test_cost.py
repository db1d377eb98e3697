"""What reading asks of a store, counted at the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from omnigraph.commit.engine import Engine
from omnigraph.read.commits import find_commit, list_commits
from omnigraph.read.places import snapshot_at
from omnigraph.read.snapshot import snapshot_of_branch
from omnigraph.testing.faults import FaultProxy
from tests.component.read.material import cold, new_graph, people, put


@pytest.fixture
def graph(proxied_root: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, list[str]]:
    """Two archives deep, which takes fewer commits here than by default."""
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_ROLL", 8)
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_KEEP", 4)
    engine = new_graph(proxied_root)
    return engine, [put(engine, "Person", people(f"p{k:03d}")) for k in range(13)]


def requests(proxy: FaultProxy, work: Callable[[], Any]) -> int:
    proxy.reset()
    work()
    proxy.drain()
    return sum(proxy.operations().values())


def test_opening_costs_the_same_whatever_the_history(fault_proxy: FaultProxy, graph: tuple[Engine, list[str]]) -> None:
    engine, commits = graph
    archives = len(engine.latest("main").handle.get_fragments()) - 3
    assert archives == 2
    head = commits[-1]
    in_tail = len(engine.latest("main").state.tail)

    def cost(work: Callable[[Engine], Any]) -> int:
        opened = cold(engine)
        return requests(fault_proxy, lambda: work(opened))

    # The branch's newest version: a listing, its manifest, and schema, base and current side by side.
    assert cost(snapshot_of_branch) == 5
    assert cost(lambda opened: snapshot_at(opened, head)) == 5
    # Another one: whether it is there, its manifest, its current fragment; base too where the tail has rolled since.
    assert cost(lambda opened: snapshot_at(opened, commits[-2])) == 5 + 3
    assert cost(lambda opened: snapshot_at(opened, commits[-in_tail - 1])) == 5 + 4 + 1
    assert cost(lambda opened: snapshot_at(opened, commits[0])) == 5 + 4 + archives
    # Again: neither the newest state nor the archive is read twice, nor is a version opened twice.
    opened = cold(engine)
    snapshot_at(opened, commits[0])
    assert requests(fault_proxy, lambda: snapshot_at(opened, commits[0])) == 1
    assert cost(lambda opened: list_commits(opened, limit=in_tail)) == 5
    assert cost(list_commits) == 5 + archives
    assert cost(lambda opened: find_commit(opened, commits[-1])) == 5


def test_a_warm_handle_asks_twice_whether_it_is_current(
    fault_proxy: FaultProxy, graph: tuple[Engine, list[str]]
) -> None:
    engine, commits = graph
    assert requests(fault_proxy, lambda: snapshot_of_branch(engine)) == 2
    # A commit that it knows needs no such question.
    assert requests(fault_proxy, lambda: snapshot_at(engine, commits[-1])) == 0


def test_reading_a_table_opens_it_once(fault_proxy: FaultProxy, graph: tuple[Engine, list[str]]) -> None:
    opened = cold(graph[0])
    snap = snapshot_of_branch(opened)
    assert requests(fault_proxy, lambda: snap.tables["node:Person"].rows) == 0
    assert requests(fault_proxy, lambda: snap.count("Person")) == 0
    assert requests(fault_proxy, lambda: snap.to_arrow("Company")) == 0  # empty: the pin knows
    assert requests(fault_proxy, lambda: snap.get("Company", "x")) == 0
    fragments = len(snap.fragments("Person"))
    assert requests(fault_proxy, lambda: snap.to_arrow("Person")) == fragments
    assert requests(fault_proxy, lambda: snap.fragments("Person")) == 0
    first = requests(fault_proxy, lambda: snap.get("Person", "p007"))
    assert requests(fault_proxy, lambda: snap.get("Person", "p008")) <= min(first, 2)
