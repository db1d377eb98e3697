"""Parts that tasks have staged, committed after the schema has changed: taken where every column still is that column and none lacks
a value, and then held against the rules of now."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.distributed import load, placement
from omnigraph.distributed.stage_task import TableRows
from omnigraph.distributed.staged_part import Split
from omnigraph.graph import Graph
from omnigraph.testing.content import faults_of, leftovers_of

BASE = """
node A { name: String @key n: I32? m: I32? }
edge E: A -> A { w: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", BASE) as made:
        made.load([{"type": "A", "data": {"name": "a", "n": 1, "m": 10}}], mode="append")
        yield made
        failpoints.disarm()


class Staged:
    """A batch that tasks have staged: two people and an edge between them."""

    def __init__(self, graph: Graph, mode: str = "append", *, set_aside: bool = False, bad: bool = False) -> None:
        self.mode = mode
        self.txn = graph.begin()
        task = pickle.loads(pickle.dumps(self.txn.task(mode, set_aside=set_aside)))
        rows = {"name": [None if bad else "b", "c"], "n": [5, 6], "m": [50, 60]}
        people = pa.record_batch(
            [pa.array(rows["name"]), *(pa.array(rows[name], pa.int32()) for name in "nm")], names=[*rows]
        )
        edges = pa.record_batch({"from": pa.array(["a"]), "to": pa.array(["c"]), "w": pa.array([7], pa.int32())})
        self.parts = [
            task.stage_table(name, [TableRows(Split(order, 0), [rows])], Split(order, 0).key)
            for order, (name, rows) in enumerate([("E", edges), ("A", people)])
        ]
        self.txn.add_parts(self.parts)

    def load(self, **options: Any) -> og.Receipt:
        try:
            return self.txn.load_parts(self.parts, ["A", "E"], options=og.LoadOptions(mode=self.mode, **options))
        except og.errors.OmnigraphError:
            self.txn.abort()
            raise


def people(graph: Graph) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in graph.snapshot().to_arrow("A").to_pylist())


def sound(graph: Graph) -> None:
    assert faults_of(graph._engine) == []
    assert leftovers_of(graph._engine) == []
    assert graph.verify(deep=True).ok


TAKEN = {
    "another type": (BASE + "node B { k: String @key }\n", [("a", 10, 1, "a"), ("b", 50, 5, "b"), ("c", 60, 6, "c")]),
    "added": (
        BASE.replace("m: I32?", "m: I32? more: String?"),
        [("a", 10, None, 1, "a"), ("b", 50, None, 5, "b"), ("c", 60, None, 6, "c")],
    ),
    "renamed": (
        BASE.replace("n: I32?", 'p: I32? @rename_from("n")'),
        [("a", 10, "a", 1), ("b", 50, "b", 5), ("c", 60, "c", 6)],
    ),
    "a rule that holds": (
        BASE.replace("n: I32?", "n: I32? @unique @range(n, 1..9)"),
        [("a", 10, 1, "a"), ("b", 50, 5, "b"), ("c", 60, 6, "c")],
    ),
}


@pytest.mark.parametrize("change", TAKEN)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_parts_are_taken_where_every_column_lives_and_no_value_is_missing(graph: Graph, change: str, mode: str) -> None:
    text, expected = TAKEN[change]
    staged = Staged(graph, mode)
    graph.schema.apply(text)
    if mode == "overwrite":
        with pytest.raises(og.errors.DataInvalid, match="from"):
            staged.load()  # its edge begins at a person whom it replaces
        return
    staged.load()
    assert people(graph) == expected
    assert graph.snapshot().count("E") == 1
    sound(graph)


BROKEN = {
    "range": (BASE.replace("n: I32?", "n: I32? @index @range(n, ..5)"), "out of range"),
    "unique": (BASE.replace("m: I32?", "m: I32? @unique"), None),
    "cardinality": (BASE.replace("edge E: A -> A", "edge E: A -> A @card(0..1)"), "more than 1"),
    "required": (BASE.replace("w: I32?", "w: I32"), None),
}


@pytest.mark.parametrize("change", BROKEN)
def test_parts_are_held_against_the_rules_of_now(graph: Graph, change: str) -> None:
    text, said = BROKEN[change]
    staged = Staged(graph)
    graph.schema.apply(text)
    if change == "cardinality":
        graph.load([{"edge": "E", "from": "a", "to": "a", "data": {"w": 1}}], mode="append")
    if said is None:
        staged.load()
        assert len(people(graph)) == 3
    else:
        with pytest.raises(og.errors.DataInvalid, match=said):
            staged.load()
        assert len(people(graph)) == 1
    sound(graph)


@pytest.mark.parametrize("case", ["filled", "less", "again", "widened", "type renamed", "type dropped", "merge"])
def test_parts_that_do_not_fit_are_refused(graph: Graph, case: str) -> None:
    text, fill = {
        "filled": (BASE.replace("m: I32?", "m: I32? more: String?"), {"A.more": "x"}),
        "less": (BASE.replace(" m: I32?", ""), None),
        "again": (BASE.replace(" m: I32?", ""), None),
        "widened": (BASE.replace("n: I32?", "n: I64?"), None),
        "type renamed": (BASE.replace("node A", 'node Z @rename_from("A")').replace("A -> A", "Z -> Z"), None),
        "type dropped": ("node A { name: String @key n: I32? m: I32? }\n", None),
        "merge": (BASE.replace("m: I32?", "m: I32? more: String?"), None),
    }[case]
    staged = Staged(graph, "merge" if case == "merge" else "append")
    graph.schema.apply(text, fill=fill)
    if case == "again":
        graph.schema.apply(BASE)
    with pytest.raises(og.errors.SchemaChanged):
        staged.load()
    assert len(graph.snapshot().to_arrow("Z" if case == "type renamed" else "A")) == 1
    sound(graph)


def test_rows_that_a_task_has_set_aside_stay_set_aside(graph: Graph, tmp_path: Path) -> None:
    staged = Staged(graph, set_aside=True, bad=True)
    graph.schema.apply(BASE.replace("m: I32?", "m: I32? more: String?"))
    receipt = staged.load(on_bad_row="quarantine", quarantine_to=tmp_path / "bad.jsonl")
    assert receipt.rejected.total == 1 and [row[-1] for row in people(graph)] == ["a", "c"]
    sound(graph)


def test_planted_parts_that_are_not_read_again_break_a_new_rule(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (load, placement):
        monkeypatch.setattr(module, "evolved", lambda given, txn: False)
    staged = Staged(graph)
    graph.schema.apply(BROKEN["range"][0])
    staged.load()
    assert ("c", 60, 6, "c") in people(graph)
