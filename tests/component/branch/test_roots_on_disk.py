"""Whoever makes a root in whatever mode of durability first makes durable what it rests on: also where others write relaxed.

The worst cut is played for each: all that was written for the root itself has reached the disk by luck, and of what was there
before only what somebody has synced.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.errors import OmnigraphError, Reclaimed
from omnigraph.manifest.durable import DurabilityRules, Sync
from tests.component.branch.power import Power, files

SCHEMA = "node Person { name: String @key age: I32? }"
MODES = ("relaxed", "commit")
Check = Callable[[og.Graph], None]
MakesRoot = Callable[[og.Graph, og.Graph], Check]


def person(name: str, age: int) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, "age": age}}


def ages(graph: og.Graph, at: str | None = None, branch: str = "main") -> dict[str, int]:
    return {row["id"]: row["age"] for row in graph.snapshot(branch, at).to_arrow("Person").to_pylist()}


def load(graph: og.Graph, name: str, age: int, branch: str = "main") -> str:
    return str(graph.load([person(name, age)], mode="merge", branch=branch).commit_id)


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Power:
    return Power(tmp_path / "g", monkeypatch)


# --- who makes a root: each returns what must hold after the cut ------------------------------------------------------------
# ``careless`` has written relaxed before, ``maker`` makes the root.


def a_branch(careless: og.Graph, maker: og.Graph) -> Check:
    source = load(careless, "eve", 1)

    def check(graph: og.Graph) -> None:
        assert ages(graph, branch="new") == {"ann": 1, "eve": 1}
        assert ages(graph, at=source) == {"ann": 1, "eve": 1}

    maker.branches.create("new")
    return check


def a_branch_at_a_commit(careless: og.Graph, maker: og.Graph) -> Check:
    source = load(careless, "eve", 1)
    load(careless, "eve", 2)
    maker.branches.create("new", at=source)
    return lambda graph: _same(ages(graph, branch="new"), {"ann": 1, "eve": 1})


def a_branch_of_a_branch(careless: og.Graph, maker: og.Graph) -> Check:
    load(careless, "eve", 1, "side")
    maker.branches.create("new", from_="side")
    return lambda graph: _same(ages(graph, branch="new"), {"ann": 1, "eve": 1})


def a_fork_point(careless: og.Graph, maker: og.Graph) -> Check:
    load(careless, "eve", 1)
    maker.branches.create("new")
    load(maker, "fay", 1, "new")
    return lambda graph: _same(ages(graph, branch="new"), {"ann": 1, "eve": 1, "fay": 1})


def a_checkpoint(careless: og.Graph, maker: og.Graph) -> Check:
    kept = load(careless, "eve", 1)
    load(careless, "eve", 2)
    maker.checkpoints.create("kept", at=kept)
    return lambda graph: _same(ages(graph, at="kept"), {"ann": 1, "eve": 1})


def a_checkpoint_of_a_branch(careless: og.Graph, maker: og.Graph) -> Check:
    load(careless, "eve", 1, "side")
    maker.checkpoints.create("kept", branch="side")
    return lambda graph: _same(ages(graph, at="kept"), {"ann": 1, "eve": 1})


def a_merge(careless: og.Graph, maker: og.Graph) -> Check:
    source = load(careless, "eve", 1, "side")
    maker.branches.merge("side")

    def check(graph: og.Graph) -> None:
        assert ages(graph) == ages(graph, branch="side") == ages(graph, at=source, branch="side")
        assert graph.branches.merge("side").outcome == "up_to_date"

    return check


def an_adoption(careless: og.Graph, maker: og.Graph) -> Check:
    """The pin of the branch is main's, and main's commit is not synced."""
    load(careless, "eve", 1)
    maker.branches.merge("main", into="side")
    return lambda graph: _same(ages(graph, branch="side"), {"ann": 1, "eve": 1})


def an_undo(careless: og.Graph, maker: og.Graph) -> Check:
    """The version that is put back, and its bases, stay."""
    load(careless, "eve", 1, "side")
    bad = load(careless, "eve", 2, "side")
    maker.revert(bad, "side")
    return lambda graph: _same(ages(graph, branch="side"), {"ann": 1, "eve": 1})


def a_return(careless: og.Graph, maker: og.Graph) -> Check:
    good = load(careless, "eve", 1, "side")
    load(careless, "eve", 2, "side")
    maker.restore(good, "side")
    return lambda graph: _same(ages(graph, branch="side"), {"ann": 1, "eve": 1})


def _same(found: object, expected: object) -> None:
    assert found == expected


MAKERS = (
    a_branch, a_branch_at_a_commit, a_branch_of_a_branch, a_fork_point, a_checkpoint, a_checkpoint_of_a_branch, a_merge,
    an_adoption, an_undo, a_return,
)  # fmt: skip


def played(power: Power, makes: MakesRoot, mode: str) -> None:
    """Make the root, cut the power, and look."""
    with og.init(power.root, SCHEMA, durability="commit") as graph:
        load(graph, "ann", 1)
        graph.branches.create("side")
        load(graph, "ann", 1, "side")
    with og.open(power.root, durability="relaxed") as careless, og.open(power.root, durability=mode) as maker:
        before: set[str] = set()
        check = makes(_Noting(careless, lambda: before.update(files(power.root))), maker)  # type: ignore[arg-type]
        new = set(files(power.root)) - before
    power.cut(lucky=new)
    with og.open(power.root) as graph:
        check(graph)
        assert graph.verify().ok


class _Noting:
    """A graph whose loads tell when they are over."""

    def __init__(self, graph: og.Graph, over: Callable[[], None]) -> None:
        self._graph, self._over = graph, over

    def load(self, *args: object, **facts: object) -> object:
        receipt = self._graph.load(*args, **facts)  # type: ignore[arg-type]
        self._over()
        return receipt


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("makes", MAKERS, ids=lambda one: one.__name__)
def test_what_a_root_rests_on_survives_a_power_cut(power: Power, makes: MakesRoot, mode: str) -> None:
    played(power, makes, mode)


@pytest.mark.parametrize("makes", [a_checkpoint, a_checkpoint_of_a_branch, a_merge, an_adoption, an_undo, a_return])
def test_a_root_on_what_nobody_has_synced_is_noticed(
    power: Power, makes: MakesRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted defect: in the relaxed mode nothing is synced, also not for a root."""
    monkeypatch.setattr(DurabilityRules, "before_root", lambda *_: Sync.NOTHING)
    with pytest.raises((AssertionError, OmnigraphError)):
        played(power, makes, "relaxed")


def test_a_cursor_that_a_power_cut_took_back_begins_nothing_in_silence(power: Power) -> None:
    """A reader may see what is not on disk. It learns so afterwards."""
    with og.init(power.root, SCHEMA, durability="commit") as graph:
        load(graph, "ann", 1)
        graph.branches.create("side")
    with og.open(power.root, durability="relaxed") as careless:
        first = careless.snapshot("side").commit_id
        load(careless, "eve", 1, "side")
        feed = careless.changes(first, branch="side")
        assert [one.key for one in feed] == ["eve"]
    power.cut()
    with og.open(power.root) as graph, pytest.raises(Reclaimed) as caught:
        list(graph.changes(feed.cursor, branch="side"))
    assert caught.value.reason == "cursor"
