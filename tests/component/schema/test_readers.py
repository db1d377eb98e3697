"""Readers across changes of the schema: a snapshot has the columns of then in every library, what is exported of then is input for a
graph of then, and names that move about stay with their tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.read.snapshot import Snapshot
from omnigraph.testing.content import faults_of, leftovers_of

STAGES: list[tuple[str, dict[str, object] | None]] = [
    ("node A { k: String @key n: I32? m: String? }\nedge E: A -> A\n", None),
    ("node A { k: String @key n: I64? m: String? w: F64 }\nedge E: A -> A { since: I32? }\n", {"A.w": 0.5}),
    ('node A { k: String @key n: I64? text: String? @rename_from("m") w: F64 }\nedge E: A -> A { since: I32? }\n', None),
    ('node Z @rename_from("A") { k: String @key text: String? w: F64 }\nedge E: Z -> Z { since: I32? }\nnode B { k: String @key }\n', None),
]  # fmt: skip
ROWS: list[list[dict[str, Any]]] = [
    [{"k": "a", "m": "x", "n": 1}, {"k": "b", "m": None, "n": None}],
    [{"k": "a", "m": "x", "n": 1, "w": 0.5}, {"k": "b", "m": None, "n": None, "w": 0.5}, {"k": "c1", "m": "s1", "n": 2**40, "w": 1.5}],
    [
        {"k": "a", "n": 1, "text": "x", "w": 0.5}, {"k": "b", "n": None, "text": None, "w": 0.5},
        {"k": "c1", "n": 2**40, "text": "s1", "w": 1.5}, {"k": "c2", "n": 7, "text": "s2", "w": 1.5},
    ],
    [
        {"k": "a", "text": "x", "w": 0.5}, {"k": "b", "text": None, "w": 0.5}, {"k": "c1", "text": "s1", "w": 1.5},
        {"k": "c2", "text": "s2", "w": 1.5}, {"k": "c3", "text": "s3", "w": 1.5},
    ],
]  # fmt: skip
NAMES = ["A", "A", "A", "Z"]
STAGE = pytest.mark.parametrize("stage", range(len(STAGES)))


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Graph, list[str]]]:
    """A graph with one row more at each stage, and the commit of each. Upkeep has rewritten the last one."""
    commits = []
    with og.init(tmp_path_factory.mktemp("evolved") / "g", STAGES[0][0]) as graph:
        graph.load(
            [{"type": "A", "data": row} for row in ROWS[0]] + [{"edge": "E", "from": "a", "to": "b"}], mode="append"
        )
        commits.append(graph.snapshot().commit_id)
        for number, (text, fill) in enumerate(STAGES[1:], start=1):
            graph.schema.apply(text, fill=fill)
            graph.load([{"type": NAMES[number], "data": ROWS[number][-1]}], mode="append")
            commits.append(graph.snapshot().commit_id)
        graph.optimize()
        yield graph, commits


def at(evolved: tuple[Graph, list[str]], stage: int) -> tuple[Snapshot, str]:
    graph, commits = evolved
    return graph.snapshot(at=commits[stage]), NAMES[stage]


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{name: value for name, value in row.items() if name != "id"} for row in rows]
    return sorted(kept, key=lambda row: str(row["k"]))


@STAGE
def test_arrow_has_the_columns_of_then(evolved: tuple[Graph, list[str]], stage: int) -> None:
    snap, name = at(evolved, stage)
    assert plain(snap.to_arrow(name).to_pylist()) == ROWS[stage]
    assert snap.schema(name).names == ["id", *sorted(ROWS[stage][0])]
    assert next(batch.schema.names for batch in snap.to_batches(name)) == snap.schema(name).names
    assert snap.catalog.source == STAGES[stage][0]


@STAGE
def test_duckdb_has_the_columns_of_then(evolved: tuple[Graph, list[str]], stage: int) -> None:
    snap, name = at(evolved, stage)
    columns = ", ".join(sorted(ROWS[stage][0]))
    with snap.duckdb() as views:
        assert plain(views.sql(f"select {columns} from {name}").to_arrow_table().to_pylist()) == ROWS[stage]
        assert views.sql(f"select count(*) from {name} x join E on E.src = x.id").fetchall() == [(1,)]
        for other in {"m", "text", "n"} - set(ROWS[stage][0]):
            with pytest.raises(duckdb.Error, match=other):
                views.sql(f"select {other} from {name}").fetchall()


@STAGE
def test_pandas_and_polars_have_the_columns_of_then(evolved: tuple[Graph, list[str]], stage: int) -> None:
    snap, name = at(evolved, stage)
    pandas = snap.to_pandas(name)
    assert list(pandas.columns) == snap.schema(name).names and sorted(pandas["k"]) == [row["k"] for row in ROWS[stage]]
    assert plain(snap.to_polars(name).to_dicts()) == ROWS[stage]


@STAGE
def test_an_export_of_then_is_input_for_a_graph_of_then(
    evolved: tuple[Graph, list[str]], stage: int, tmp_path: Path
) -> None:
    snap, name = at(evolved, stage)
    snap.export(tmp_path / "then.jsonl")
    with og.init(tmp_path / "then", snap.catalog.source) as other:
        other.load(tmp_path / "then.jsonl", mode="append")
        assert plain(other.snapshot().to_arrow(name).to_pylist()) == ROWS[stage]
        assert other.snapshot().count("E") == 1 and other.catalog.hash == snap.catalog.hash


def test_the_history_shows_what_each_change_did(evolved: tuple[Graph, list[str]]) -> None:
    graph, _ = evolved
    steps = [
        [step["step"] for step in commit.schema["steps"]] for commit in graph.commits() if commit.schema is not None
    ]
    assert [sorted(one) for one in steps[::-1]] == [
        ["add_property", "add_property", "widen"],
        ["rename_property"],
        ["add_type", "drop_property", "rename_type", "rule"],
    ]


def test_planted_a_snapshot_that_reads_the_newest_version_has_other_columns(evolved: tuple[Graph, list[str]]) -> None:
    graph, _ = evolved
    assert plain(graph.snapshot().to_arrow("Z").to_pylist()) != ROWS[0]


# --- names that move about ------------------------------------------------------------------------------------------------


def test_base_pins_stay_with_their_tables_when_names_go_round(tmp_path: Path) -> None:
    """Two types swap their names over a third one. Pins in the base fragment are told by identity, whatever the key says now."""

    def text(first: str, second: str, was: tuple[str, str] | None = None) -> str:
        notes = ["", ""] if was is None else [f' @rename_from("{old}")' if old else "" for old in was]
        return f"node {first}{notes[0]} {{ k: String @key }}\nnode {second}{notes[1]} {{ k: String @key }}\nnode C {{ k: String @key }}\n"

    with og.init(tmp_path / "g", text("A", "B")) as graph:
        graph.load([{"type": "A", "data": {"k": "one"}}, {"type": "B", "data": {"k": "two"}}], mode="append")
        seen = [(graph.snapshot().commit_id, ["A", "B"])]
        for names, was in ((("T", "B"), ("A", "")), (("T", "A"), ("", "B")), (("B", "A"), ("T", ""))):
            graph.schema.apply(text(*names, was))
            seen.append((graph.snapshot().commit_id, list(names)))
            graph.load(
                [{"type": "C", "data": {"k": f"c{len(seen)}"}}], mode="append"
            )  # a swap whose current fragment names C alone
    with og.open(tmp_path / "g") as cold:
        for commit_id, (first, second) in seen:
            snap = cold.snapshot(at=commit_id)
            assert [snap.to_arrow(name)["k"].to_pylist() for name in (first, second)] == [["one"], ["two"]]
        cold.load([{"type": "B", "data": {"k": "more"}}], mode="append")
        assert sorted(map(str, cold.snapshot().to_arrow("B")["k"].to_pylist())) == ["more", "one"]
        assert faults_of(cold._engine) == [] and leftovers_of(cold._engine) == []
        assert cold.verify(deep=True).ok


# --- the way back ---------------------------------------------------------------------------------------------------------


def test_a_property_that_was_dropped_and_added_again_is_no_way_back(tmp_path: Path) -> None:
    """Same shape, other identities: the values of then belong to a property that is gone."""
    with og.init(tmp_path / "g", STAGES[0][0]) as graph:
        graph.load([{"type": "A", "data": {"k": "a", "m": "x"}}], mode="append")
        then = graph.snapshot().commit_id
        graph.schema.apply(STAGES[0][0].replace("m: String?", ""))
        graph.schema.apply(STAGES[0][0])
        assert graph.schema.show().hash == graph.schema.show(at=then).hash
        with pytest.raises(og.errors.Refused) as caught:
            graph.restore(then)
        assert caught.value.reason == "schema-differs"
        assert [row["m"] for row in graph.snapshot().to_arrow("A").to_pylist()] == [None]
        assert faults_of(graph._engine) == [] and leftovers_of(graph._engine) == []
