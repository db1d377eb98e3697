"""A process that has nothing in memory knows from the pin which ids are new, and reads small files only where one may be there."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import omnigraph as og
from omnigraph.manifest import recent
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import recent_faults
from omnigraph.testing.faults import FaultProxy

SCHEMA = "node P { name: String @key  n: I32? }\nedge E: P -> P\n"
GONE = "query gone($n: String) {\n  delete P where name = $n\n}\n"


def person(name: str, n: int = 0) -> dict[str, Any]:
    return {"type": "P", "data": {"name": name, "n": n}}


def link(a: str, b: str) -> dict[str, Any]:
    return {"edge": "E", "from": a, "to": b}


def told_wrong(graph: og.Graph) -> list[str]:
    engine = graph._engine
    pins = engine.latest("main").state.tables.values()
    opened = [(pin, engine.tables.open(TableRef(pin.location, pin.ref), pin.version)) for pin in pins]
    return [fault for pin, handle in opened for fault in recent_faults(pin, handle)]


@pytest.fixture
def counted(proxied_root: str, fault_proxy: FaultProxy) -> Iterator[Callable[[list[dict[str, Any]], str], int]]:
    """Requests of one write of a new process, opening included."""

    def write(rows: list[dict[str, Any]], mode: str = "merge") -> int:
        fault_proxy.drain()
        fault_proxy.reset()
        with og.open(proxied_root) as graph:
            graph.load(rows, mode=mode)
        fault_proxy.drain()
        return sum(fault_proxy.operations().values())

    with og.init(proxied_root, SCHEMA) as graph:
        many = recent.FRAGMENT_ROWS_MAX + 1  # a fragment that is always read
        graph.load([person(f"old{n}") for n in range(many)], mode="append")
        graph.load([link("old0", "old1")], mode="append")
    yield write


def test_the_first_write_of_a_process_costs_the_same_after_many_small_commits(
    proxied_root: str, counted: Callable[..., int]
) -> None:
    def costs(mark: str) -> list[int]:
        return [
            counted([person(f"{mark}1")]),
            counted([person(f"{mark}2")], "append"),
            counted([link("old0", "old2")]),
            counted([link("old1", "old2")], "append"),
        ]

    before = costs("a")
    assert max(before[2:]) <= 23 and max(before[:2]) <= 21
    with og.open(proxied_root) as graph:
        for n in range(20):
            graph.load([person(f"new{n}")], mode="append")
            graph.load([link("old0", "old3")], mode="append")
        assert told_wrong(graph) == []
    assert costs("b") == before
    # What may be there has to be found: the small files of its table are read.
    assert counted([person("new7", 1)]) >= before[0] + 20


def test_upkeep_keeps_what_is_known_of_files_that_it_leaves_alone(local_root: str) -> None:
    with og.init(local_root, SCHEMA) as graph:
        for n in range(6):
            graph.load([person(f"p{n}")], mode="append")
        pin = graph._engine.latest("main").state.tables["node:P"]
        assert pin.recent is not None and len(pin.recent.fragments) == 6
        graph.optimize()
        pin = graph._engine.latest("main").state.tables["node:P"]
        handle = graph._engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
        assert pin.recent is None or set(pin.recent.fragments) <= set(handle.fragment_ids())
        assert told_wrong(graph) == []
        graph.load([person("p0", 5), person("q")], mode="merge")
        assert graph.snapshot().count("P") == 7


@pytest.mark.parametrize("seed", range(3))
def test_processes_that_know_ids_from_the_pin_find_every_row(local_root: str, seed: int) -> None:
    """Each operation by a process of its own, against a dictionary."""
    rng = random.Random(seed)
    expected: dict[str, int] = {}
    og.init(local_root, SCHEMA).close()

    @contextmanager
    def opened() -> Iterator[og.Graph]:
        with og.open(local_root) as graph:
            yield graph
            assert told_wrong(graph) == []
            rows = graph.snapshot().to_arrow("P", ["id", "n"]).to_pylist()
            assert sorted((row["id"], row["n"]) for row in rows) == sorted(expected.items())

    for step in range(30):
        names = rng.sample([f"p{n}" for n in range(25)], rng.choice([1, 1, 2, 5]))
        with opened() as graph:
            act = rng.choice(["merge", "merge", "merge", "delete", "delete", "append", "optimize", "big"])
            if act == "merge":
                graph.load([person(name, step) for name in names], mode="merge")
                expected.update(dict.fromkeys(names, step))
            elif act == "append":
                fresh = [f"x{step}-{name}" for name in names]
                graph.load([person(name, step) for name in fresh], mode="append")
                expected.update(dict.fromkeys(fresh, step))
            elif act == "delete":
                for name in names:
                    graph.mutate(GONE, params={"n": name})
                    expected.pop(name, None)
            elif act == "big":
                many = [f"b{step}-{n}" for n in range(recent.FRAGMENT_ROWS_MAX + 1)]
                graph.load([person(name, step) for name in many], mode="append")
                expected.update(dict.fromkeys(many, step))
            else:
                graph.optimize()
