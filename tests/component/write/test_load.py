"""Loading records: one call, one commit, one receipt; and nothing at all where anything is wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og

SCHEMA = """
node Person @description("people") {
  name: String @key
  age: I32? @range(age, 0..150)
  mood: enum(glad, sad)?
  mail: String? @unique
  code: String? @check(code, "^[a-z]+$")
}
node Note { text: String }
edge Knows: Person -> Person { since: Date?  weight: F64? @index }
edge Owns: Person -> Note @card(0..2)
edge Likes: Person -> Person { @unique(src, dst) }
"""

ANN = {"type": "Person", "data": {"name": "ann"}}
BOB = {"type": "Person", "data": {"name": "bob"}}
KNOWS = {"edge": "Knows", "from": "ann", "to": "bob"}


def text(*records: Any) -> str:
    return "\n".join(json.dumps(record) for record in records)


@pytest.fixture
def graph(any_root: str) -> Iterator[og.Graph]:
    with og.init(f"{any_root}/graph", SCHEMA) as made:
        yield made


@pytest.fixture
def local(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        yield made


def state(graph: og.Graph) -> tuple[str, dict[str, int], str]:
    snapshot = graph.snapshot()
    return snapshot.commit_id, {key: entry.version for key, entry in snapshot.tables.items()}, snapshot.export()


# --- one commit ---------------------------------------------------------------------------------------------------------


def test_one_load_of_several_tables_is_one_commit(graph: og.Graph) -> None:
    before = len(graph.commits())
    receipt = graph.load(text(KNOWS, ANN, BOB), mode="append", actor="me")
    assert {key: change.inserted for key, change in receipt.tables.items()} == {"node:Person": 2, "edge:Knows": 1}
    assert (receipt.affected_nodes, receipt.affected_edges, receipt.replayed) == (2, 1, False)
    commits = graph.commits()
    assert len(commits) == before + 1
    assert (commits[0].id, commits[0].actor) == (receipt.commit_id, "me")
    assert graph.snapshot().commit_id == receipt.commit_id


def test_an_empty_input_makes_no_commit(graph: og.Graph) -> None:
    before = state(graph)
    for source in ([], "  {}"[:0] or [], iter(())):
        receipt = graph.load(source, mode="append")
        assert receipt.commit_id is None and receipt.tables == {}
    assert state(graph) == before


def test_append_is_strict_merge_replaces_and_overwrite_leaves_other_types_alone(graph: og.Graph) -> None:
    graph.load([ANN, BOB, KNOWS], mode="append")
    with pytest.raises(og.errors.KeyConflict) as refused:
        graph.load([ANN], mode="append")
    assert refused.value.ids == ["ann"] and refused.value.table_key == "node:Person"
    changed = {"type": "Person", "data": {"name": "ann", "age": 7}}
    receipt = graph.load([changed, BOB, {"type": "Person", "data": {"name": "cat"}}], mode="merge")
    change = receipt.tables["node:Person"]
    assert (change.inserted, change.updated, change.unchanged, change.deleted) == (1, 1, 1, 0)
    again = graph.load([changed, BOB], mode="merge")
    assert again.commit_id is None and again.tables["node:Person"].unchanged == 2
    receipt = graph.load([{**KNOWS, "data": {"weight": 2}}], mode="overwrite")
    assert (receipt.tables["edge:Knows"].deleted, receipt.tables["edge:Knows"].inserted) == (1, 1)
    assert graph.snapshot().count("Person") == 3
    assert [row["weight"] for row in graph.snapshot().to_arrow("Knows").to_pylist()] == [2.0]


def test_a_merge_replaces_whole_rows(local: og.Graph) -> None:
    local.load([{"type": "Person", "data": {"name": "ann", "age": 3, "mood": "glad"}}], mode="append")
    local.load([{"type": "Person", "data": {"name": "ann", "mood": "sad"}}], mode="merge")
    row = local.snapshot().get("Person", "ann")
    assert row is not None and row["age"] is None and row["mood"] == "sad"


def test_edges_with_a_unique_pair_merge_into_themselves(local: og.Graph) -> None:
    likes = {"edge": "Likes", "from": "ann", "to": "bob"}
    local.load([ANN, BOB, likes], mode="merge")
    assert local.load([likes], mode="merge").commit_id is None
    assert local.snapshot().count("Likes") == 1


# --- sources ------------------------------------------------------------------------------------------------------------


def test_every_kind_of_source_says_the_same(local: og.Graph, tmp_path: Path) -> None:
    lines = text(ANN, BOB) + "\n\n" + json.dumps(KNOWS, indent=2)
    plain = tmp_path / "in.jsonl"
    plain.write_text(lines)
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(lines.encode()))
    people = pa.table({"name": ["ann", "bob"]})
    pq.write_table(people, tmp_path / "people.parquet")
    (tmp_path / "knows.csv").write_text("from,to\nann,bob\n")
    sources: list[Any] = [
        lines,
        plain,
        str(packed),
        iter([ANN, BOB, KNOWS]),
        {"Person": str(tmp_path / "people.parquet"), "Knows": tmp_path / "knows.csv"},
        og.Batch(nodes={"Person": people}, edges={"Knows": pa.table({"from": ["ann"], "to": ["bob"]})}),
        og.Batch(nodes={"Person": people.to_reader()}, edges={"Knows": pa.table({"from": ["ann"], "to": ["bob"]})}),
    ]
    for source in sources:
        receipt = local.load(source, mode="overwrite")
        assert {key: change.inserted for key, change in receipt.tables.items()} == {"edge:Knows": 1, "node:Person": 2}
        snapshot = local.snapshot()
        assert [row["id"] for row in snapshot.to_arrow("Person").to_pylist()] == ["ann", "bob"]


# --- keys, preconditions, deadlines -------------------------------------------------------------------------------------


def test_a_known_idempotency_key_returns_the_old_receipt(graph: og.Graph) -> None:
    first = graph.load([ANN], mode="append", idempotency_key="crm/1")
    graph.load([BOB], mode="append")
    second = graph.load([ANN], mode="append", idempotency_key="crm/1")
    assert second.replayed and second.commit_id == first.commit_id
    assert second.tables == first.tables
    with og.open(graph.uri) as other:
        assert other.load([ANN], mode="append", idempotency_key="crm/1").commit_id == first.commit_id
    assert graph.snapshot().count("Person") == 2


def test_a_key_is_remembered_after_its_row_was_archived(local: og.Graph) -> None:
    first = local.load([ANN], mode="append", idempotency_key="old")
    for number in range(140):
        local.load([{"type": "Note", "data": {"text": str(number)}}], mode="append")
    with og.open(local.uri) as other:
        assert other.load([ANN], mode="append", idempotency_key="old").commit_id == first.commit_id
        assert other.outcome(first.commit_id or "").landed


def test_expect_head_refuses_a_moved_branch(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    graph.load([ANN], mode="append", expect_head=head)
    before = state(graph)
    with pytest.raises(og.errors.PreconditionFailed) as refused:
        graph.load([BOB], mode="append", expect_head=head)
    assert refused.value.expected == head and refused.value.actual == before[0]
    assert state(graph) == before


@pytest.mark.parametrize("options", [{"deadline_s": 0}, {"mode": "upsert"}, {"on_bad_row": "skip"}])
def test_bad_options_are_refused(local: og.Graph, options: dict[str, Any]) -> None:
    with pytest.raises(og.errors.InvalidInput):
        local.load([ANN], **{"mode": "append", **options})
    with pytest.raises(og.errors.NotFound):
        local.load([ANN], mode="append", branch="feature")
    assert local.snapshot().count("Person") == 0


def test_limits_are_checked_before_anything_is_armed(local: og.Graph) -> None:
    before = state(local)
    with pytest.raises(og.errors.LimitExceeded) as refused:
        local.load([ANN], mode="append", idempotency_key="k" * 257)
    assert refused.value.limit == "idempotency_key_bytes"
    with pytest.raises(og.errors.LimitExceeded):
        local.load([ANN], mode="append", actor="a" * 257)
    local.load([ANN], mode="append", actor="a" * 256, idempotency_key="k" * 256)
    assert before[0] != local.snapshot().commit_id
    assert not list((Path(local.uri) / "__recovery").glob("*"))


# --- bad input ----------------------------------------------------------------------------------------------------------

HOSTILE = ["../x", "'; drop --", "a\x00b", "x" * 300, "Реrson", "Person\n"]

BAD: dict[str, tuple[Any, str, str]] = {
    "malformed json": (text(BOB) + "\n{nope", "data-invalid", "record 2"),
    "unknown type": ([{"type": "Robot", "data": {}}], "data-invalid", "Robot"),
    "missing endpoint": ([{"edge": "Knows", "from": "ann", "to": "zed"}], "data-invalid", "zed"),
    "duplicate ids": ([BOB, BOB], "data-invalid", "bob"),
    "enum": ([{"type": "Person", "data": {"name": "x", "mood": "meh"}}], "data-invalid", "glad"),
    "range": ([{"type": "Person", "data": {"name": "x", "age": 151}}], "data-invalid", "150"),
    "check": ([{"type": "Person", "data": {"name": "x", "code": "A1"}}], "data-invalid", "A1"),
    "unique in the input": (
        [{"type": "Person", "data": {"name": n, "mail": "m"}} for n in "xy"],
        "data-invalid",
        "unique",
    ),
    "unique in the graph": ([{"type": "Person", "data": {"name": "x", "mail": "taken"}}], "data-invalid", "taken"),
    "cardinality": (
        [{"edge": "Owns", "from": "ann", "to": "n1", "data": {"id": f"o{n}"}} for n in range(3)],
        "data-invalid",
        "more than 2",
    ),
    "wrong kind": ([{"type": "Person", "data": {"name": "x", "age": "old"}}], "data-invalid", "age"),
    "overflow": ([{"type": "Person", "data": {"name": "x", "age": 2**31}}], "data-invalid", "age"),
    "unknown property": ([{"type": "Person", "data": {"name": "x", "size": 1}}], "data-invalid", "size"),
    "required": ([{"type": "Person", "data": {}}], "data-invalid", "name"),
    "not finite": (
        [{"edge": "Knows", "from": "ann", "to": "ann", "data": {"weight": float("nan")}}],
        "data-invalid",
        "",
    ),
    **{f"type {name!r}": ([{"type": name, "data": {}}], "data-invalid", "no such node type") for name in HOSTILE},
    **{
        f"property {name!r}": ([{"type": "Person", "data": {"name": "x", name: 1}}], "data-invalid", "")
        for name in HOSTILE
    },
    "no such file": ("nowhere.jsonl", "not-found", "nowhere.jsonl"),
}


@pytest.mark.parametrize("case", sorted(BAD))
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_bad_input_is_a_typed_error_and_changes_nothing(local: og.Graph, case: str, mode: str) -> None:
    note = {"type": "Note", "data": {"id": "n1", "text": "t"}}
    local.load([{"type": "Person", "data": {"name": "ann", "mail": "taken"}}, note], mode="append")
    before = state(local)
    source, code, named = BAD[case]
    with pytest.raises(og.errors.OmnigraphError) as refused:
        local.load(source, mode=mode)
    assert refused.value.code == code
    assert named in str(refused.value)
    assert state(local) == before
    assert not list((Path(local.uri) / "__recovery").glob("*"))
    local.load([{"type": "Person", "data": {"name": "next"}}], mode=mode)


@pytest.mark.parametrize("value", ['it\'s "quoted"', "two\nlines", "z" * 1_000_000, "\u2028 \U0001f600", "back\\slash"])
def test_odd_values_survive(local: og.Graph, value: str) -> None:
    local.load([{"type": "Note", "data": {"id": "n", "text": value}}], mode="append")
    row = local.snapshot().get("Note", "n")
    assert row is not None and row["text"] == value
    odd = value[:900]
    local.load([{"type": "Person", "data": {"name": odd}}], mode="append")
    with pytest.raises(og.errors.KeyConflict):
        local.load([{"type": "Person", "data": {"name": odd}}], mode="append")
    local.load([{"edge": "Knows", "from": odd, "to": odd}], mode="append")
    found = local.snapshot().get("Person", odd)
    assert found is not None and found["name"] == odd


def test_an_overwrite_that_would_orphan_an_edge_is_refused(local: og.Graph) -> None:
    local.load([ANN, BOB, KNOWS], mode="append")
    before = state(local)
    with pytest.raises(og.errors.DataInvalid) as refused:
        local.load([ANN], mode="overwrite")
    assert "bob" in str(refused.value)
    assert state(local) == before
    local.load([ANN, {"edge": "Knows", "from": "ann", "to": "ann"}], mode="overwrite")


def test_check_says_what_load_would_and_writes_nothing(local: og.Graph) -> None:
    local.load([ANN], mode="append")
    before = state(local)
    report = local.check([ANN, {"edge": "Knows", "from": "ann", "to": "zed"}], mode="append")
    assert not report.ok and report.total == 2
    assert {violation["code"] for violation in report.violations} == {"key-conflict", "missing-endpoint"}
    assert local.check([BOB], mode="append").ok
    assert state(local) == before


# --- not a graph --------------------------------------------------------------------------------------------------------


def test_what_is_no_graph_is_not_found(any_root: str) -> None:
    with pytest.raises(og.errors.NotFound):
        og.open(f"{any_root}/nothing")


def test_a_graph_is_not_made_twice(graph: og.Graph) -> None:
    graph.load([ANN], mode="append")
    before = state(graph)
    with pytest.raises(og.errors.AlreadyExists):
        og.init(graph.uri, "node Other {}")
    assert state(graph) == before


def test_a_bad_schema_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(og.errors.SchemaInvalid):
        og.init(tmp_path / "graph", "node person {}")
    with pytest.raises(og.errors.InvalidInput):
        og.init(tmp_path / "graph", tmp_path / "missing.pg")
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize(("stamp", "named"), [("4", "export"), ("6", "newer release")])
@pytest.mark.parametrize("read_only", [False, True])
def test_another_storage_version_is_refused_both_ways(tmp_path: Path, stamp: str, named: str, read_only: bool) -> None:
    import lance

    og.init(tmp_path / "graph", SCHEMA).close()
    manifest = lance.dataset(str(tmp_path / "graph" / "__manifest"))
    manifest.update_schema_metadata({"omnigraph:internal_schema_version": stamp})
    with pytest.raises(og.errors.UnsupportedStorage) as refused:
        og.open(tmp_path / "graph", read_only=read_only)
    assert named in refused.value.hint and refused.value.found == stamp


def test_a_read_only_graph_refuses_writes(local: og.Graph) -> None:
    with og.open(local.uri, read_only=True) as reader, pytest.raises(og.errors.InvalidInput):
        reader.load([ANN], mode="append")


# --- exclusive use ------------------------------------------------------------------------------------------------------


def test_a_closed_graph_says_so(local: og.Graph) -> None:
    other = og.open(local.uri)
    other.close()
    other.close()
    with pytest.raises(og.errors.InvalidInput):
        other.snapshot()


def test_an_exclusive_owner_fences_everybody_else(any_root: str) -> None:
    uri = f"{any_root}/graph"
    with og.init(uri, SCHEMA) as first, og.open(uri, exclusive=True) as owner:
        owner.load([ANN], mode="append")
        with pytest.raises(og.errors.WriterFenced) as fenced:
            first.load([BOB], mode="append")
        assert fenced.value.owner and fenced.value.epoch == 1
        assert first.snapshot().count("Person") == 1
        with og.open(uri, exclusive=True) as next_owner:
            with pytest.raises(og.errors.WriterFenced):
                owner.load([BOB], mode="append")
            next_owner.load([BOB], mode="append")
        first.load([KNOWS], mode="append")
        owner.close()
        first.load([KNOWS], mode="append")


def test_a_plan_made_before_somebody_took_over_is_fenced(local: og.Graph) -> None:
    from omnigraph.commit import exclusive
    from omnigraph.core import failpoints
    from omnigraph.core.meter import Meter

    other = og.open(local.uri)

    def take_over(**_: Any) -> None:
        failpoints.disarm("publish.before_swap")
        exclusive.claim(other._engine, Meter())

    with failpoints.armed("publish.before_swap", take_over), pytest.raises(og.errors.WriterFenced):
        local.load([ANN], mode="append")
    assert local.snapshot().count("Person") == 0
    exclusive.release(other._engine, Meter())
    local.load([ANN], mode="append")
    other.close()
