"""Appends that are checked batch by batch give the verdict of the same input read whole, and hold none of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.core.errors import DataInvalid, InvalidInput
from omnigraph.write.rules.streamed_append import StreamedAppend, can_stream
from omnigraph.write.rules.validate import Verdict, validate
from omnigraph.write.sources.batch import Batch
from tests.unit.write.support import MemoryView, catalog_of, codes, committed, edge, item, person, read

CATALOG = catalog_of()


def reader(table: pa.Table, rows: int = 3) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows))


def draw(stream: StreamedAppend) -> tuple[dict[str, pa.Table], Verdict]:
    tables = {}
    for declared in stream.types:
        batches = list(stream.batches(declared.table_key))
        if batches:
            tables[declared.table_key] = pa.Table.from_batches(batches)
    return tables, stream.finish()


def batch(nodes: dict[str, pa.Table], edges: dict[str, pa.Table], streamed: bool) -> Batch:
    turn = reader if streamed else (lambda table: table)
    return Batch(nodes={k: turn(t) for k, t in nodes.items()}, edges={k: turn(t) for k, t in edges.items()})


def both(
    nodes: dict[str, Any], edges: dict[str, Any], view: MemoryView
) -> tuple[Verdict, Verdict, dict[str, pa.Table]]:
    node_tables = {name: pa.Table.from_pylist(rows) for name, rows in nodes.items()}
    edge_tables = {name: pa.Table.from_pylist(rows) for name, rows in edges.items()}
    given = read(CATALOG, batch(node_tables, edge_tables, False))
    whole = validate(given.changes("append"), CATALOG, view, malformed=given.malformed)
    tables, streamed = draw(StreamedAppend(batch(node_tables, edge_tables, True), CATALOG, view))
    return whole, streamed, tables


def test_a_clean_stream_hands_out_everything_nodes_first() -> None:
    nodes = {"Person": [{"name": f"p{i}", "mail": f"m{i}"} for i in range(10)], "Item": [{"sku": 1}]}
    edges = {"Likes": [{"from": f"p{i}", "to": 1} for i in range(10)], "Knows": [{"from": "p0", "to": "p9"}]}
    stream = StreamedAppend(
        batch(
            {k: pa.Table.from_pylist(v) for k, v in nodes.items()},
            {k: pa.Table.from_pylist(v) for k, v in edges.items()},
            True,
        ),
        CATALOG,
        MemoryView(CATALOG),
    )
    assert [t.table_key for t in stream.types] == ["node:Item", "node:Person", "edge:Knows", "edge:Likes"]
    tables, verdict = draw(stream)
    assert verdict.ok
    assert {key: table.num_rows for key, table in tables.items()} == stream.rows
    assert stream.records == 22
    assert tables["edge:Likes"]["dst"].to_pylist() == ["1"] * 10


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"Person": [{"name": f"p{i % 7}"} for i in range(10)]}, {}),
    ({"Person": [{"name": f"p{i}", "mail": f"m{i % 7}"} for i in range(10)]}, {}),
    ({"Person": [{"name": f"p{i}", "age": 148 + i} for i in range(5)]}, {}),
    ({"Person": [{"name": n} for n in ("new", "old", "x", "other")]}, {}),
    ({"Person": [{"name": "n", "mail": "taken"}]}, {}),
    ({"Person": [{"name": "a"}]}, {"Knows": [{"from": t, "to": "a"} for t in ("a", "old", "none", "a", "q")]}),
    ({}, {"Likes": [{"from": "old", "to": 1} for _ in range(7)]}),
    ({}, {"Likes": [{"from": "old", "to": 1}]}),
    ({}, {"Wrote": [{"from": "old", "to": "n1"}, {"from": "other", "to": "n1"}, {"from": "old", "to": "n2"}]}),
    (
        {},
        {
            "Owns": [
                {"from": "old", "to": 1},
                {"from": "old", "to": 2},
                {"from": "old", "to": 1},
                {"from": "other", "to": 1},
            ]
        },
    ),
    ({"Person": [{"name": None}, {"name": "a"}]}, {"Knows": [{"from": "zz", "to": "a"}]}),
    ({"Item": [{"sku": 5}]}, {}),
    # A malformed record: the graph is asked nothing, whether the record comes before or after what it would be asked about.
    ({"Person": [{"name": "old"}, {"name": "a", "mail": "taken"}, {"name": "b", "age": 1 << 40}]}, {}),
    ({"Person": [{"name": "b", "age": 1 << 40}, {"name": "old"}]}, {"Knows": [{"from": "zz", "to": "old"}]}),
    ({"Person": [{"name": "b"}]}, {"Knows": [{"from": "zz", "to": "old"}], "Owns": [{"from": None, "to": 1}]}),
]


@pytest.mark.parametrize(("nodes", "edges"), CASES)
def test_the_verdict_is_that_of_the_whole(nodes: dict[str, Any], edges: dict[str, Any]) -> None:
    view = committed(
        CATALOG,
        [
            person("old", mail="taken"),
            person("other"),
            item(1),
            item(2),
            {"type": "Note", "data": {"id": "n1"}},
            edge("Likes", "old", 1),
            edge("Owns", "other", 1),
        ],
    )
    whole, streamed, tables = both(nodes, edges, view)
    assert codes(streamed) == codes(whole)
    assert [v.message for v in streamed.violations] == [v.message for v in whole.violations]
    assert (streamed.total, streamed.conflicts) == (whole.total, whole.conflicts)
    if whole.ok:
        assert sum(table.num_rows for table in tables.values()) == sum(map(len, [*nodes.values(), *edges.values()]))


def test_nothing_more_is_handed_out_after_the_first_fault_but_all_is_judged() -> None:
    names = [f"p{i}" for i in range(10)]
    names[4] = names[9] = "p0"
    stream = StreamedAppend(batch({"Person": pa.table({"name": names})}, {}, True), CATALOG, MemoryView(CATALOG))
    got = list(stream.batches("node:Person"))
    assert sum(b.num_rows for b in got) == 3
    assert codes(stream.finish()) == [("duplicate-id", 5), ("duplicate-id", 10)]


def test_the_input_is_drawn_one_batch_at_a_time() -> None:
    drawn: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        for i in range(5):
            drawn.append(i)
            yield pa.record_batch({"name": [f"p{i}"]})

    given = pa.RecordBatchReader.from_batches(pa.schema({"name": pa.utf8()}), source())
    stream = StreamedAppend(Batch(nodes={"Person": given}), CATALOG, MemoryView(CATALOG))
    assert drawn == []
    batches = stream.batches("node:Person")
    next(batches)
    assert len(drawn) <= 2


def test_tables_are_drawn_in_order_and_to_the_end() -> None:
    source = batch({"Person": pa.table({"name": ["a"]})}, {"Knows": pa.table({"from": ["a"], "to": ["a"]})}, True)
    stream = StreamedAppend(source, CATALOG, MemoryView(CATALOG))
    with pytest.raises(InvalidInput):
        next(stream.batches("edge:Knows"))
    with pytest.raises(InvalidInput):
        stream.finish()


def test_a_reader_that_fails_half_way_is_bad_input() -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"name": ["a"]})
        raise pa.ArrowInvalid("the wire broke")

    given = pa.RecordBatchReader.from_batches(pa.schema({"name": pa.utf8()}), source())
    stream = StreamedAppend(Batch(nodes={"Person": given}), CATALOG, MemoryView(CATALOG))
    with pytest.raises(DataInvalid):
        draw(stream)


def test_records_are_not_streamed() -> None:
    assert not can_stream([person("a")])
    assert not can_stream("x.jsonl")
    assert can_stream(Batch())
    assert can_stream({"Person": "p.parquet"})


def test_committed_endpoints_are_asked_for_once_and_can_be_asked_again_elsewhere() -> None:
    view = committed(CATALOG, [person("a"), person("b")])
    table = pa.table({"from": ["a"] * 9, "to": ["b"] * 9})
    stream = StreamedAppend(batch({}, {"Knows": table}, True), CATALOG, view)
    _, verdict = draw(stream)
    assert verdict.ok
    assert verdict.reads == {"node:Person"}
    assert sum(what == "contains" for what, _ in view.asked) <= 2
    assert stream.still_fits(view)
    assert not stream.still_fits(committed(CATALOG, [person("a")]))


def test_what_stays_of_a_stream_is_its_key_columns(tmp_path: Path) -> None:
    """Batches of a message share its memory: one key column kept would keep the rest."""
    wide = "x" * 10_000
    table = pa.table(
        {"name": [f"p{i}" for i in range(2_000)], "mail": [f"m{i}" for i in range(2_000)], "zip": [wide] * 2_000}
    )
    catalog = catalog_of("node Person { name: String @key  mail: String? @unique  zip: String? }")
    path = str(tmp_path / "people.arrows")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    source = pa.ipc.open_stream(pa.OSFile(path))
    stream = StreamedAppend(Batch(nodes={"Person": source}), catalog, MemoryView(catalog))
    before = pa.total_allocated_bytes()
    most = 0
    for drawn in stream.batches("node:Person"):
        del drawn
        most = max(most, pa.total_allocated_bytes() - before)
    assert stream.finish().ok
    assert most < 6_000_000, "twenty messages of a megabyte each went by"
