"""Bytes staged by others: the same checks, the same commit, in whichever process; and nothing left where it fails."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.distributed import staging_record
from omnigraph.schema import table_schema

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { weight: F64? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        made.load([{"type": "Person", "data": {"name": "ann"}}], mode="append")
        yield made


def people(graph: og.Graph, *names: str) -> pa.Table:
    schema = table_schema(graph.catalog.node("Person"))
    columns = {"id": list(names), "age": [None] * len(names), "name": list(names)}
    return pa.table(columns, schema=schema)


def stage(graph: og.Graph, txn: Any, *names: str, kind: str = "append") -> Any:
    table = txn.table("Person")
    staged = table.describe(write_fragments(people(graph, *names), table.uri), kind)
    txn.add(staged)
    return staged


def files(graph: og.Graph, folder: str) -> set[str]:
    return {str(path) for path in Path(graph.uri).glob(f"{folder}/**/*") if path.is_file()}


def test_staged_fragments_become_one_commit_and_the_record_goes(graph: og.Graph) -> None:
    txn = graph.begin(actor="spark")
    staged = stage(graph, txn, "bob", "cat")
    assert graph.snapshot().count("Person") == 1
    receipt = txn.load_staged({"node:Person": staged}, mode="append")
    assert receipt.tables["node:Person"].inserted == 2
    assert graph.commits()[0].actor == "spark"
    assert [row["id"] for row in graph.snapshot().to_arrow("Person").to_pylist()] == ["ann", "bob", "cat"]
    with pytest.raises(og.errors.NotFound):
        graph.begin(resume=txn.id)


def test_another_process_takes_a_staging_up(graph: og.Graph) -> None:
    txn = graph.begin()
    stage(graph, txn, "bob")
    script = (
        "import sys, omnigraph as og\n"
        "with og.open(sys.argv[1]) as graph:\n"
        "    txn = graph.begin(resume=sys.argv[2])\n"
        "    print(txn.load_staged(idempotency_key='once').tables['node:Person'].inserted)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, graph.uri, txn.id], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
    assert graph.snapshot().count("Person") == 2


def test_descriptions_survive_json_and_pickle(graph: og.Graph) -> None:
    txn = graph.begin()
    staged = stage(graph, txn, "bob")
    assert og.StagedFragments.from_json(staged.to_json()) == staged
    assert pickle.loads(pickle.dumps(staged)) == staged
    for broken in ("{}", "[]", "nope", '{"format": 2}'):
        with pytest.raises(og.errors.InvalidInput):
            og.StagedFragments.from_json(broken)


@pytest.mark.parametrize(("names", "code"), [(("ann",), "key-conflict"), (("bob", "bob"), "data-invalid")])
def test_what_a_load_refuses_a_staged_load_refuses(graph: og.Graph, names: tuple[str, ...], code: str) -> None:
    txn = graph.begin()
    stage(graph, txn, *names)
    report = og.check_staged(txn, txn.staged)
    assert not report.ok and report.violations
    before = graph.snapshot().commit_id
    for checks in (None, report):
        with pytest.raises(og.errors.OmnigraphError) as refused:
            txn.load_staged(checks=checks)
        assert refused.value.code == code
    assert graph.snapshot().commit_id == before


@pytest.mark.parametrize("kind", ["append", "overwrite"])
def test_a_check_in_passes_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    schema = "node P { name: String @key  age: I32?  mail: String? @unique  @range(age, 0..9) }"
    with og.init(tmp_path / "graph", schema) as graph:
        graph.load([{"type": "P", "data": {"name": "ann", "mail": "taken"}}], mode="append")
        rows = [
            ("ann", 1, None),
            ("bob", 10, None),
            ("cat", 1, "taken"),
            ("dan", 1, "m"),
            ("eve", 1, "m"),
            ("dan", 2, "n"),
        ]
        columns = table_schema(graph.catalog.node("P"))
        found = [{"id": name, "name": name, "age": age, "mail": mail} for name, age, mail in rows]
        txn = graph.begin()
        table = txn.table("P")
        txn.add([table.describe(write_fragments(pa.Table.from_pylist(found[:3], columns), table.uri), kind)])
        txn.add([table.describe(write_fragments(pa.Table.from_pylist(found[3:], columns), table.uri), kind)])
        whole = og.check_staged(txn, txn.staged)
        assert whole.total == (5 if kind == "append" else 3)
        monkeypatch.setattr("omnigraph.distributed.pass_rules.PLAIN_ROWS", 0)
        monkeypatch.setattr("omnigraph.distributed.pass_rules.ROW_BYTES", 1 << 19)  # two rows to a megabyte
        assert og.check_staged(txn, txn.staged, memory_mb=1) == whole


def test_a_report_is_trusted_only_for_these_fragments_at_these_pins(graph: og.Graph) -> None:
    txn = graph.begin()
    staged = stage(graph, txn, "bob")
    report = og.check_staged(txn, staged)
    assert report.ok
    graph.load([{"type": "Person", "data": {"name": "bob"}}], mode="append")
    with pytest.raises(og.errors.KeyConflict):
        txn.load_staged({"node:Person": staged}, checks=report)
    other = graph.begin()
    wrong = stage(graph, other, "ann")
    with pytest.raises(og.errors.KeyConflict):
        other.load_staged({"node:Person": wrong}, checks=report)


def test_missing_or_short_files_are_found_before_anything_is_armed(graph: og.Graph) -> None:
    txn = graph.begin()
    staged = stage(graph, txn, "bob")
    short = staged.model_copy(update={"files": [f.model_copy(update={"size": f.size + 1}) for f in staged.files]})
    before = graph.snapshot().commit_id
    with pytest.raises(og.errors.InvalidInput, match="bytes"):
        txn.load_staged({"node:Person": short})
    table = txn.table("Person")
    Path(table.uri, staged.files[0].path).unlink()
    with pytest.raises(og.errors.InvalidInput, match="is missing"):
        txn.load_staged({"node:Person": staged})
    assert graph.snapshot().commit_id == before
    assert files(graph, "__recovery") == set()


def test_a_file_of_an_earlier_boot_needs_its_digest(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut may take the last bytes of a file that nothing has synced, and leave its size."""
    txn = graph.begin()
    staged = stage(graph, txn, "bob")
    (file,) = staged.files
    assert file.xxh3 is not None
    path = Path(txn.table("Person").uri, file.path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + bytes(8))
    monkeypatch.setattr(staging_record, "started_at_us", lambda: 1 << 60)
    with pytest.raises(og.errors.InvalidInput, match="does not hold the bytes"):
        txn.load_staged({"node:Person": staged})
    unknown = staged.model_copy(update={"files": [file.model_copy(update={"xxh3": None})]})
    with pytest.raises(og.errors.InvalidInput, match="digest is not known"):
        txn.load_staged({"node:Person": unknown})
    assert files(graph, "__recovery") == set()
    path.write_bytes(whole)
    assert txn.load_staged({"node:Person": staged}).tables["node:Person"].inserted == 1


def test_when_this_machine_was_started_is_known() -> None:
    assert 0 < staging_record.started_at_us() < time.time_ns() // 1000


def test_fragments_of_another_staging_are_refused(graph: og.Graph) -> None:
    first, second = graph.begin(), graph.begin()
    staged = stage(graph, first, "bob")
    with pytest.raises(og.errors.InvalidInput, match="staged for"):
        second.add(staged)
    with pytest.raises(og.errors.InvalidInput):
        second.load_staged({"node:Person": staged})
    unlisted = staged.model_copy(update={"files": []})
    with pytest.raises(og.errors.InvalidInput, match="is not listed"):
        first.add(unlisted)


def test_an_abort_deletes_exactly_its_files(graph: og.Graph) -> None:
    before = files(graph, "nodes")
    kept, given_up = graph.begin(), graph.begin()
    stage(graph, kept, "bob")
    with_kept = files(graph, "nodes")
    stage(graph, given_up, "cat")
    assert given_up.abort() == 1
    assert files(graph, "nodes") == with_kept != before
    kept.load_staged()
    assert graph.snapshot().count("Person") == 2


def test_an_overwrite_counts_what_it_replaces(graph: og.Graph) -> None:
    txn = graph.begin()
    stage(graph, txn, "bob", "cat", kind="overwrite")
    change = txn.load_staged(mode="overwrite").tables["node:Person"]
    assert (change.inserted, change.deleted) == (2, 1)


def test_an_update_is_bound_to_its_pin(graph: og.Graph) -> None:
    txn = graph.begin()
    table = txn.table("Person")
    staged = table.describe(write_fragments(people(graph, "bob"), table.uri), "update")
    graph.load([{"type": "Person", "data": {"name": "zoe"}}], mode="append")
    with pytest.raises(og.errors.ReadSetChanged):
        txn.load_staged({"node:Person": staged}, mode="merge")


def test_staged_edges_need_their_nodes(graph: og.Graph) -> None:
    txn = graph.begin()
    table = txn.table("Knows")
    schema = table_schema(graph.catalog.edge("Knows"))
    rows = pa.table({"id": ["e1"], "src": ["ann"], "dst": ["bob"], "weight": [1.0]}, schema=schema)
    edges = table.describe(write_fragments(rows, table.uri))
    txn.add(edges)
    with pytest.raises(og.errors.DataInvalid, match="bob"):
        txn.load_staged({"edge:Knows": edges})
    nodes = stage(graph, txn, "bob")
    receipt = txn.load_staged({"edge:Knows": edges, "node:Person": nodes})
    assert receipt.affected_edges == 1


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_types_with_blobs_are_judged_like_any_other(tmp_path: Path, mode: str) -> None:
    with og.init(tmp_path / "blobs", "node Doc { name: String @key  raw: Blob?  tail: String? @unique }") as graph:
        schema = table_schema(graph.catalog.node("Doc"))
        for tail, ok in (("one", True), ("one", False)):
            txn = graph.begin()
            table = txn.table("Doc")
            names = ["a", "b"] if ok else ["c", "d"]
            tails = ["one", "two"] if ok else [tail, tail]
            columns = {"id": names, "name": names, "raw": [b"bytes", None], "tail": tails}
            rows = pa.table({name: columns[name] for name in schema.names}, schema=schema)
            staged = table.describe(write_fragments(rows, table.uri), mode)
            txn.add(staged)
            assert og.check_staged(txn, staged).ok == ok == og.check_staged(txn, staged, memory_mb=1).ok
            if ok:
                assert txn.load_staged(mode=mode).tables["node:Doc"].inserted == 2
                continue
            with pytest.raises(og.errors.DataInvalid, match="unique"):
                txn.load_staged(mode=mode)
        row = graph.snapshot().get("Doc", "a")
        assert row is not None and row["raw"] == b"bytes"
        assert not list(Path(graph.uri).glob("nodes/*/_versions/d*"))


# --- appends of readers -------------------------------------------------------------------------------------------------


def reader(table: pa.Table, rows: int = 2) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=rows)))


def test_readers_are_appended_with_every_check(graph: og.Graph) -> None:
    names = pa.table({"name": [f"p{n}" for n in range(10)]})
    pairs = pa.table({"from": ["p0", "ann"], "to": ["p9", "p1"]})
    receipt = graph.load(og.Batch({"Person": reader(names)}, {"Knows": reader(pairs)}), mode="append")
    assert {key: change.inserted for key, change in receipt.tables.items()} == {"node:Person": 10, "edge:Knows": 2}
    before = graph.snapshot().commit_id
    left = files(graph, "nodes") | files(graph, "edges")
    bad = [
        og.Batch({"Person": reader(pa.table({"name": ["q0", "p3"]}))}),
        og.Batch({"Person": reader(pa.table({"name": ["q0", "q1", "q0"]}))}),
        og.Batch({"Person": reader(pa.table({"name": ["q0", None]}))}),
        og.Batch({}, {"Knows": reader(pa.table({"from": ["p0", "p1"], "to": ["p1", "nobody"]}))}),
    ]
    for batch in bad:
        with pytest.raises((og.errors.DataInvalid, og.errors.KeyConflict)):
            graph.load(batch, mode="append")
    assert graph.snapshot().commit_id == before
    assert files(graph, "nodes") | files(graph, "edges") == left, "what was staged for a refused load is taken away"


def test_a_streamed_append_is_judged_again_where_the_graph_has_moved(graph: og.Graph) -> None:
    """The rival's insert lands while the batches are being written."""
    rival = og.open(graph.uri)

    def batches() -> Iterator[pa.RecordBatch]:
        table = pa.table({"name": ["q0", "q1"]})
        yield table.to_batches()[0]
        rival.load([{"type": "Person", "data": {"name": "q1"}}], mode="append")

    source = pa.RecordBatchReader.from_batches(pa.schema([("name", pa.string())]), batches())
    with pytest.raises(og.errors.KeyConflict):
        graph.load(og.Batch({"Person": source}), mode="append")

    def more() -> Iterator[pa.RecordBatch]:
        yield pa.table({"name": ["r0", "r1"]}).to_batches()[0]
        rival.load([{"type": "Person", "data": {"name": "other"}}], mode="append")

    source = pa.RecordBatchReader.from_batches(pa.schema([("name", pa.string())]), more())
    graph.load(og.Batch({"Person": source}), mode="append")
    assert graph.snapshot().count("Person") == 5
    rival.close()
