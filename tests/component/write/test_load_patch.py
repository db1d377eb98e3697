"""A patch is a merge of rows of which the input names some properties: the others keep their values."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og

SCHEMA = """
node Person { name: String @key  age: I32  mail: String? @unique  tags: [String]?  spot: Vector(2)?  raw: Blob?  @range(age, 0..150) }
node Note { text: String  n: I32? }
edge Knows: Person -> Person { weight: F64?  why: String?  @unique(src, dst) }
"""
ANN: dict[str, Any] = {
    "name": "ann", "age": 30, "mail": "a", "tags": ["x"], "spot": [1.0, 2.0], "raw": "base64:AAEC",
}  # fmt: skip


def person(**data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": data}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        made.load([person(**ANN), person(name="bob", age=40, mail="b")], mode="append")
        made.load([{"type": "Note", "data": {"id": "n1", "text": "t", "n": 1}}], mode="append")
        made.load([{"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "weight": 0.5}}], mode="append")
        yield made


def row(graph: og.Graph, type: str, id: str) -> dict[str, Any]:
    found = graph.snapshot().get(type, id)
    assert found is not None
    return dict(found)


def test_what_a_record_does_not_name_keeps_its_value_and_null_is_null(graph: og.Graph) -> None:
    before = row(graph, "Person", "ann")
    receipt = graph.load([person(name="ann", age=31), person(name="bob", mail=None)], mode="patch")
    change = receipt.tables["node:Person"]
    assert (change.inserted, change.updated) == (0, 2)
    assert row(graph, "Person", "ann") == {**before, "age": 31}
    bob = row(graph, "Person", "bob")
    assert (bob["age"], bob["mail"]) == (40, None)
    assert graph.verify(deep=True).ok


def test_a_column_that_a_table_does_not_have_keeps_its_values(graph: og.Graph) -> None:
    before = row(graph, "Person", "ann")
    graph.load({"Person": pa.table({"name": ["ann", "bob"], "mail": pa.array(["z", None])})}, mode="patch")
    assert row(graph, "Person", "ann") == {**before, "mail": "z"}
    assert row(graph, "Person", "bob")["mail"] is None


def test_a_new_row_needs_what_the_schema_requires(graph: og.Graph) -> None:
    with pytest.raises(og.errors.DataInvalid, match="age is required"):
        graph.load([person(name="ann", age=1), person(name="new", mail="n")], mode="patch")
    receipt = graph.load([person(name="new", age=3)], mode="patch")
    assert receipt.tables["node:Person"].inserted == 1
    assert row(graph, "Person", "new")["mail"] is None


def test_null_is_refused_where_the_schema_requires_a_value(graph: og.Graph) -> None:
    with pytest.raises(og.errors.DataInvalid, match="age is required"):
        graph.load([person(name="ann", age=None)], mode="patch")


def test_the_rules_see_the_whole_row(graph: og.Graph) -> None:
    with pytest.raises(og.errors.DataInvalid, match="unique"):
        graph.load([person(name="ann", mail="b")], mode="patch")
    with pytest.raises(og.errors.DataInvalid, match="unique"):
        graph.load([person(name="new", age=1, mail="c"), person(name="ann", mail="c")], mode="patch")
    graph.load([person(name="ann", mail="b"), person(name="bob", mail="a")], mode="patch")  # two change places
    assert [row(graph, "Person", name)["mail"] for name in ("ann", "bob")] == ["b", "a"]
    with pytest.raises(og.errors.DataInvalid, match="age"):
        graph.load([person(name="ann", age=200)], mode="patch")


def test_a_patch_that_changes_nothing_is_no_commit(graph: og.Graph) -> None:
    assert graph.load([person(name="ann"), person(name="bob", age=40)], mode="patch").commit_id is None


def test_edges_are_patched_by_id_or_by_the_tuple_that_says_which_they_are(graph: og.Graph) -> None:
    graph.load([{"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "why": "x"}}], mode="patch")
    graph.load([{"edge": "Knows", "from": "ann", "to": "bob", "data": {"why": "y"}}], mode="patch")
    found = row(graph, "Knows", "k1")
    assert (found["weight"], found["why"]) == (0.5, "y")
    assert graph.snapshot().count("Knows") == 1
    with pytest.raises(og.errors.DataInvalid, match="to"):
        graph.load([{"edge": "Knows", "from": "ann", "data": {"id": "k1", "why": "z"}}], mode="patch")


def test_a_row_without_an_id_is_a_new_one(graph: og.Graph) -> None:
    with pytest.raises(og.errors.DataInvalid, match="text is required"):
        graph.load([{"type": "Note", "data": {"n": 2}}], mode="patch")
    graph.load([{"type": "Note", "data": {"id": "n1", "n": 2}}], mode="patch")
    assert row(graph, "Note", "n1")["text"] == "t"


def test_a_malformed_patch_says_nothing_of_what_rows_leave_out(graph: og.Graph) -> None:
    """The graph is not asked, so it is not known whether a row is new."""
    with pytest.raises(og.errors.DataInvalid) as raised:
        graph.load([person(name="ann", mail="q"), person(name="bob", age="old")], mode="patch")
    assert [one["code"] for one in raised.value.violations] == ["wrong-kind"]


def test_rows_that_are_set_aside_hold_what_they_named(graph: og.Graph, tmp_path: Path) -> None:
    aside = tmp_path / "bad.jsonl"
    rows = [
        person(name="ann", mail="b", tags=None),
        person(name="new"),
        {"type": "Note", "data": {"id": "n1", "n": 41}},
    ]
    receipt = graph.load(rows, mode="patch", on_bad_row="quarantine", quarantine_to=aside)
    assert receipt.rejected.total == 2
    lines = [json.loads(line)["record"] for line in aside.read_text().splitlines()]
    assert lines == [person(name="ann", mail="b", tags=None), person(name="new")]
    assert row(graph, "Note", "n1") == {**row(graph, "Note", "n1"), "n": 41, "text": "t"}


NAMES = st.sampled_from(["a", "b", "c"])
PATCH = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "age": st.sampled_from([1, 2, None]),
        "mail": st.sampled_from(["x", "y", None]),
        "tags": st.sampled_from([["t"], None]),
    },
)


@settings(deadline=None, max_examples=25)
@given(first=st.lists(PATCH, max_size=3), patches=st.lists(st.lists(PATCH, min_size=1, max_size=3), max_size=3))
def test_a_patch_is_the_merge_of_the_rows_that_it_means(first: list[Any], patches: list[list[Any]]) -> None:
    """The model: what a row does not name is taken from the rows as they are; then it is a merge."""
    schema = "node Person { name: String @key  age: I32  mail: String? @unique  tags: [String]? }"
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(f"{folder}/a", schema) as patched,
        og.init(f"{folder}/b", schema) as merged,
    ):
        start = {one["name"]: {"age": 0, **one} for one in first if one.get("age", 0) is not None}
        for graph in (patched, merged):
            try:
                graph.load([person(**one) for one in start.values()], mode="merge")
            except og.errors.DataInvalid:
                return
        for rows in patches:
            held = {one["id"]: one for one in merged.snapshot().to_arrow("Person").to_pylist()}
            whole = [
                {**{name: value for name, value in held.get(one["name"], {}).items() if name != "id"}, **one}
                for one in rows
            ]
            found: list[Any] = []
            for graph, given_rows, mode in ((patched, rows, "patch"), (merged, whole, "merge")):
                try:
                    receipt = graph.load([person(**one) for one in given_rows], mode=mode)
                    found.append((receipt.commit_id is None, receipt.rejected.total))
                except og.errors.DataInvalid:
                    found.append("refused")  # a merge that lacks a value is malformed, a patch is not
            assert found[0] == found[1]
            assert patched.snapshot().export() == merged.snapshot().export()
