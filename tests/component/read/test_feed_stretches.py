"""Stretches of small writes are read at once, and come out as if each commit had been compared with the one before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.read import changes as feeds
from omnigraph.read import feed_writes
from omnigraph.read.feed_walk import Counted
from omnigraph.testing.faults import FaultProxy
from omnigraph.wire.changes import Change

SCHEMA = """
node Person { name: String @key age: I32? city: String? tags: [String]? size: F64? }
node Town { title: String @key }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="relaxed") as graph:
        graph.load([person(f"p{number}", age=0) for number in range(8)], mode="append")
        yield graph


@pytest.fixture
def stretches(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How many swaps each stretch has that was read; None for one that is compared swap by swap."""
    found: list[int | None] = []
    read = feed_writes.read_stretch

    def noted(engine: Any, swaps: Any, *rest: Any) -> Any:
        written = read(engine, swaps, *rest)
        found.append(None if written is None else len(swaps))
        return written

    monkeypatch.setattr(feeds, "read_stretch", noted)
    return found


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def knows(id_: str, src: str, dst: str, since: int) -> dict[str, Any]:
    return {"edge": "Knows", "from": src, "to": dst, "data": {"id": id_, "since": since}}


def one_by_one(graph: og.Graph, since: str, branch: str = "main") -> list[Change]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds, "run_of_inserts", lambda _swaps, at, _rows: at)
        patch.setattr(feeds, "stretch_of_writes", lambda pins, *_, **__: (pins,))
        return list(graph.changes(since, before=True, branch=branch))


def head(graph: og.Graph) -> str:
    return str(graph.snapshot().commit_id)


def test_updates_of_one_row_each_are_read_at_once(graph: og.Graph, stretches: list[int | None]) -> None:
    start = head(graph)
    for number in range(12):
        graph.load([person(f"p{number % 5}", age=number)], mode="merge")
    found = list(graph.changes(start, before=True))
    assert stretches == [11], "the first load changed nothing"
    assert [(one.kind, one.key, one.row["age"]) for one in found if one.row] == [
        ("update", f"p{number % 5}", number) for number in range(1, 12)
    ]
    assert found == one_by_one(graph, start)


@pytest.mark.parametrize("seed", range(12))
def test_a_stretch_says_what_comparing_says(graph: og.Graph, seed: int, stretches: list[int | None]) -> None:
    """Writes of every kind in any order: rows that a stretch has brought itself are updated again, deletes and schemas end it."""
    rng = random.Random(seed)
    start, made, added = head(graph), [f"p{number}" for number in range(8)], 0

    def some() -> list[str]:
        return rng.sample(made, min(len(made), rng.randint(1, 3)))

    def insert() -> None:
        made.append(f"n{len(made)}-{rng.random()}")
        graph.load([person(made[-1], age=rng.randrange(3), tags=["x"] * rng.randrange(3))], mode="append")

    def update() -> None:
        graph.load([person(one, age=rng.randrange(3), size=rng.choice([None, 0.5])) for one in some()], mode="merge")

    def both() -> None:
        records = [person(one, city=rng.choice(["x", "y", None])) for one in some()]
        made.append(f"b{len(made)}-{rng.random()}")
        graph.load([*records, person(made[-1]), knows(f"k{rng.randrange(4)}", made[0], made[-1], 1)], mode="merge")

    def patch() -> None:
        graph.load([person(one, tags=rng.choice([[], None, ["a", "b"]])) for one in some()], mode="patch")

    def delete() -> None:
        if len(made) > 4:
            name = made.pop(rng.randrange(1, len(made)))
            graph.mutate("query q($k: String) { delete Person where name = $k }", params={"k": name})

    def schema() -> None:
        nonlocal added
        added += 1
        graph.schema.apply(str(graph.schema.show()).replace("age: I32?", f"age: I32? q{added}: I32?"))

    def upkeep() -> None:
        graph.optimize()

    calls: list[Callable[[], None]] = [insert, update, update, update, both, both, patch, patch]
    for _ in range(40):
        rng.choice([*calls, *calls, *calls, delete, schema, upkeep])()
    found = list(graph.changes(start, before=True))
    assert found == one_by_one(graph, start)
    assert any(one is not None for one in stretches), "the comparison is of two ways"
    cursor = graph.commits()[7].id
    assert list(graph.changes(cursor, before=True)) == one_by_one(graph, cursor)
    assert [one.to_pydict() for one in graph.changes(start).to_batches()]


def test_a_branch_and_its_forks_are_read_at_once(graph: og.Graph, stretches: list[int | None]) -> None:
    start = head(graph)
    graph.branches.create("b")
    for number in range(9):
        graph.load([person(f"p{number % 3}", age=number + 1)], mode="merge", branch="b")
    found = list(graph.changes(start, branch="b", before=True))
    assert found == one_by_one(graph, start, "b") and len(found) == 9
    assert stretches == [8], "what follows the fork"


def test_a_table_that_is_not_asked_for_is_not_read(graph: og.Graph, stretches: list[int | None]) -> None:
    start = head(graph)
    for number in range(6):
        graph.load([person("p1", age=number + 1), {"type": "Town", "data": {"title": f"t{number}"}}], mode="merge")
    assert [one.key for one in graph.changes(start, types=["Town"])] == [f"t{number}" for number in range(6)]
    assert [one.key for one in graph.changes(start, types=["Person"])] == ["p1"] * 6
    assert stretches == [6, 6]


def test_a_stretch_is_as_long_as_it_may_be(graph: og.Graph, stretches: list[int | None], monkeypatch: Any) -> None:
    start = head(graph)
    for number in range(10):
        graph.load([person("p1", age=number + 1)], mode="merge")
    monkeypatch.setattr(feeds, "STRETCH_SWAPS_MAX", 4)
    assert list(graph.changes(start, before=True)) == one_by_one(graph, start)
    assert stretches == [4, 4]
    stretches.clear()
    monkeypatch.setattr(feeds, "STRETCH_ROWS_MAX", 3)
    assert list(graph.changes(start, before=True)) == one_by_one(graph, start)
    assert stretches == [3, 3, 3]


@pytest.mark.parametrize("wrong", [{"inserted": 1, "updated": 0}, {"updated": 2}, {"updated": 0}])
def test_planted_commits_that_count_what_they_did_not_do_are_compared(
    graph: og.Graph, stretches: list[int | None], monkeypatch: pytest.MonkeyPatch, wrong: dict[str, int]
) -> None:
    start = head(graph)
    for number in range(6):
        graph.load([person("p1", age=number + 1)], mode="merge")
    monkeypatch.setattr(feed_writes, "counted_in", lambda *_: replace(Counted(0, 1), **wrong))
    assert list(graph.changes(start, before=True)) == one_by_one(graph, start)
    assert stretches == [None]


def test_planted_a_row_before_that_is_that_of_the_beginning_is_noticed(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every update would begin with what the row was before the stretch."""
    start = head(graph)
    for number in range(6):
        graph.load([person("p1", age=number + 1)], mode="merge")
    placed = feed_writes._placed

    def first(old: Any, new: Any, rows: Any, counted: Any) -> Any:
        found = placed(old, new, rows, counted)
        return found and replace(found, before=found.before * 0)

    monkeypatch.setattr(feed_writes, "_placed", first)
    assert list(graph.changes(start, before=True)) != one_by_one(graph, start)


def test_a_feed_begins_at_a_commit_of_which_only_a_root_is_left(graph: og.Graph) -> None:
    """A cleanup has set its mark after the commit, and a later one took that version: the commit's own is kept by its root."""
    graph.load([person("p1", age=1)], mode="merge")
    since = head(graph)
    graph.checkpoints.create("kept")
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    graph.load([person("p1", age=2)], mode="merge")
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    found = list(og.open(graph.uri).changes(since, before=True))
    assert [(one.key, one.before and one.before["age"], one.row and one.row["age"]) for one in found] == [("p1", 1, 2)]
    graph.checkpoints.delete("kept")
    graph.load([person("p1", age=3)], mode="merge")
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    with pytest.raises(og.errors.Reclaimed):
        list(og.open(graph.uri).changes(since))


def test_a_stretch_on_an_object_store_asks_less_than_comparing(fault_proxy: FaultProxy, proxied_root: str) -> None:
    with og.init(proxied_root, SCHEMA) as graph:
        graph.load([person(f"p{number}", age=0) for number in range(8)], mode="append")
        start = head(graph)
        for number in range(8):
            graph.load([person(f"p{number % 3}", age=number + 1)], mode="merge")

    def asked(read: Callable[[og.Graph], list[Change]]) -> tuple[list[Change], int]:
        with og.open(proxied_root, read_only=True) as reader:
            fault_proxy.drain()
            fault_proxy.reset()
            found = read(reader)
            fault_proxy.drain()
            return found, sum(fault_proxy.operations().values())

    at_once, few = asked(lambda reader: list(reader.changes(start, before=True)))
    compared, many = asked(lambda reader: one_by_one(reader, start))
    assert at_once == compared and len(at_once) == 8
    assert few < many, (few, many)
