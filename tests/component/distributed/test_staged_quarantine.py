"""Rows of staged fragments that are left out: as many, for the same reasons, as where a load reads the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.distributed.placement import Checker
from omnigraph.distributed.staging_record import Records
from omnigraph.schema import table_schema

SCHEMA = """
node Person @stub(assumed) { name: String @key  age: I32?  mail: String? @unique  assumed: Bool?  @range(age, 0..150) }
edge Knows: Person -> Person { weight: F64? }
"""
PEOPLE = [
    ("bob", 30, "b"),
    ("cat", 999, None),  # out of range
    ("dan", 40, "d"),
    ("eve", 41, "d"),  # the mail of another row
    ("ann", 20, None),  # is in the graph
    ("fay", None, None),
]
KNOWS = [("bob", "dan"), ("bob", "cat"), ("fay", "nobody"), ("fay", "bob")]
MISSING = ["fail", "quarantine", "drop", "stub"]


def make(place: Path) -> og.Graph:
    graph = og.init(place, SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "ann", "age": 1}}], mode="append")
    return graph


def records() -> list[dict[str, Any]]:
    people = [{"type": "Person", "data": {"name": name, "age": age, "mail": mail}} for name, age, mail in PEOPLE]
    knows = [{"edge": "Knows", "from": a, "to": b, "data": {"id": f"{a}-{b}"}} for a, b in KNOWS]
    return [*people, *knows]


def staged(graph: og.Graph, txn: Any, kind: str = "append") -> dict[str, Any]:
    """Each type as two fragments."""
    people = [{"id": name, "name": name, "age": age, "mail": mail, "assumed": False} for name, age, mail in PEOPLE]
    knows = [{"id": f"{a}-{b}", "src": a, "dst": b, "weight": None} for a, b in KNOWS]
    found = {}
    for name, rows in (("Person", people), ("Knows", knows)):
        table, schema = txn.table(name), table_schema(graph.catalog.type(name))
        for part in (rows[:2], rows[2:]):
            one = table.describe(write_fragments(pa.Table.from_pylist(part, schema), table.uri), kind)
            txn.add(one)
            found.setdefault(table.key, []).append(one)
    return found


def content(graph: og.Graph) -> dict[str, list[dict[str, Any]]]:
    snapshot = graph.snapshot()
    return {name: snapshot.to_arrow(name).sort_by("id").to_pylist() for name in ("Person", "Knows")}


def asked_for(options: dict[str, Any]) -> str:
    return "-".join(str(one) for one in options.values())


OPTIONS: list[dict[str, Any]] = [
    {"on_bad_row": "quarantine", **({"on_missing_endpoint": one} if one else {})} for one in ("", *MISSING)
]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("options", OPTIONS, ids=asked_for)
def test_staged_rows_leave_as_those_of_a_load_do(tmp_path: Path, options: dict[str, Any], mode: str) -> None:
    def load(graph: og.Graph) -> og.Receipt:
        return graph.load(records(), mode=mode, **options)

    def load_staged(graph: og.Graph) -> og.Receipt:
        txn = graph.begin()
        return txn.load_staged(staged(graph, txn, mode), mode=mode, **options)

    found = []
    for number, act in enumerate((load, load_staged)):
        with make(tmp_path / str(number)) as graph:
            try:
                receipt = act(graph)
            except og.errors.DataInvalid as error:
                found.append((error.code, content(graph)))
                continue
            rejected = receipt.rejected
            told = (rejected.total, dict(rejected.by_reason), dict(rejected.missing_ids))
            changes = {key: (one.inserted, one.deleted) for key, one in receipt.tables.items()}
            found.append((told, dict(receipt.stubs), dict(receipt.dropped), changes, content(graph)))
            assert graph.verify(deep=True).ok
            named = {str(path) for path in Path(graph.uri).glob("*/*/data/*")}
            graph.cleanup(keep=1, min_age="0s", confirm=True)
            assert {str(path) for path in Path(graph.uri).glob("__staging/*")} == set()
            assert named and content(graph) == found[-1][-1]
    assert found[0] == found[1]


def test_rows_that_were_left_out_are_in_a_file_that_can_be_loaded(tmp_path: Path) -> None:
    with make(tmp_path / "graph") as graph:
        txn = graph.begin()
        aside = tmp_path / "aside.jsonl"
        receipt = txn.load_staged(staged(graph, txn), mode="append", on_bad_row="quarantine", quarantine_to=aside)
        lines = [json.loads(line) for line in aside.read_text().splitlines()]
        assert len(lines) == receipt.rejected.total == 7
        assert {reason["code"] for line in lines for reason in line["reasons"]} == set(receipt.rejected.by_reason)
        again = graph.load(aside, mode="merge", on_bad_row="quarantine")
        assert again.rejected.total < 7
        with pytest.raises(og.errors.NotFound):
            graph.begin(resume=txn.id)


def test_more_bad_rows_than_allowed_refuse_the_batch_and_leave_it_staged(tmp_path: Path) -> None:
    with make(tmp_path / "graph") as graph:
        txn = graph.begin()
        given = staged(graph, txn)
        before, files = graph.snapshot().commit_id, {str(path) for path in Path(graph.uri).glob("*/*/data/*")}
        for bounds in ({"bad_rows_max": 2}, {"bounds": {"values": 0}}, {"bounds": {"duplicates": 0.1}}):
            with pytest.raises(og.errors.DataInvalid):
                txn.load_staged(given, mode="append", on_bad_row="quarantine", **bounds)  # type: ignore[arg-type]
        assert graph.snapshot().commit_id == before
        assert {str(path) for path in Path(graph.uri).glob("*/*/data/*")} == files
        done = txn.load_staged(given, mode="append", on_bad_row="quarantine", bad_rows_max=7)
        assert done.rejected.total == 7


def test_where_bad_values_fail_a_missing_end_alone_is_let_go(tmp_path: Path) -> None:
    with make(tmp_path / "graph") as graph:
        txn = graph.begin()
        given = staged(graph, txn)
        with pytest.raises(og.errors.DataInvalid, match="999"):
            txn.load_staged(given, mode="append", on_missing_endpoint="drop")
        edges = {"edge:Knows": given["edge:Knows"]}
        receipt = txn.load_staged(edges, mode="append", on_missing_endpoint={"Knows": "drop"})
        assert dict(receipt.dropped) == {"Knows": 4} and receipt.commit_id is None


def test_rows_of_an_update_are_not_left_out(tmp_path: Path) -> None:
    with make(tmp_path / "graph") as graph:
        txn = graph.begin()
        given = staged(graph, txn, "update")
        for mode in ("merge", "append"):
            with pytest.raises(og.errors.InvalidInput, match="update") as refused:
                txn.load_staged(given, mode=mode, on_bad_row="quarantine")
            assert "check_staged" in refused.value.hint


def test_a_batch_is_sifted_again_where_the_graph_has_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rival's row lands after the batch was sifted, and before it is announced."""
    with make(tmp_path / "graph") as graph, og.open(graph.uri) as rival:
        txn = graph.begin()
        given = staged(graph, txn)

        def sift(checker: Checker, *inputs: Any) -> Any:
            found = sift_once(checker, *inputs)
            if not sifted:
                rival.load([{"type": "Person", "data": {"name": "fay", "age": 77}}], mode="append")
            sifted.append(len(found.left.rejected))
            return found

        sift_once, sifted = Checker.sift, list[int]()
        monkeypatch.setattr(Checker, "sift", sift)
        receipt = txn.load_staged(given, mode="append", on_bad_row="quarantine", idempotency_key="once")
        assert sifted == [7, 8]
        assert receipt.rejected.total == 8 and receipt.rejected.by_reason["key-conflict"] == 2
        row = graph.snapshot().get("Person", "fay")
        assert row is not None and row["age"] == 77
        again = graph.begin()
        repeated = again.load_staged(
            staged(graph, again), mode="append", on_bad_row="quarantine", idempotency_key="once"
        )
        assert repeated.replayed and repeated.commit_id == receipt.commit_id
        assert graph.verify(deep=True).ok


def test_the_files_of_a_record_that_a_cleanup_took_are_not_loaded(tmp_path: Path) -> None:
    with make(tmp_path / "graph") as graph:
        txn = graph.begin()
        given = staged(graph, txn)
        Records(graph._engine.store).delete(txn.id)
        with pytest.raises(og.errors.NotFound, match="staging record"):
            txn.load_staged(given, mode="append", on_bad_row="quarantine")
