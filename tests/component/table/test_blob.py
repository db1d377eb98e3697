"""Bytes put into a blob column come back the same, through every change a table goes through."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.blob import blob_array
from lance.fragment import write_fragments

from omnigraph.table.blob import BLOB_MARK, READ_BYTES, as_stored, blob_columns, is_blob, logical_schema, stored_schema
from omnigraph.table.dataset import TableRef
from omnigraph.table.keys import KeyCache
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.predicate import Compare, IsNull
from omnigraph.table.upsert import stage_delete, stage_upsert

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("data", pa.large_binary(), True, BLOB_MARK | {b"property": b"p1"}),
        pa.field("n", pa.int64()),
    ]
)
SIZES = [None, 0, 1, 5, 1000, 70_000, 5_000_000]
"""Null, empty, and one for each place Lance keeps bytes in: the data file, a shared file, a file of its own."""


def value(seed: int, size: int | None) -> bytes | None:
    return None if size is None else random.Random(seed).randbytes(size)


def rows(values: dict[str, bytes | None], n: int = 0) -> pa.Table:
    return pa.table({"id": list(values), "data": list(values.values()), "n": [n] * len(values)}, schema=SCHEMA)


def create(path: Path) -> LanceDataset:
    return LanceDataset.commit(
        str(path), LanceOperation.Overwrite(stored_schema(SCHEMA), []), enable_stable_row_ids=True
    )


def append(handle: LanceDataset, table: pa.Table) -> LanceDataset:
    return LanceDataset.commit(handle, write_fragments(table, handle, return_transaction=True))


def pinned(handle: LanceDataset) -> PinnedTable:
    return PinnedTable(lambda: handle, TableRef(handle.uri), handle.version, handle.count_rows(), KeyCache())


def held(handle: LanceDataset) -> dict[str, bytes | None]:
    table = pinned(handle).to_table(["id", "data"])
    return dict(zip(table["id"].to_pylist(), table["data"].to_pylist(), strict=True))


def test_bytes_come_back_through_appends_upserts_deletes_and_compactions(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    model = {f"k{k}": value(k, size) for k, size in enumerate(SIZES)}
    handle = append(handle, rows(model))
    assert held(handle) == model
    changed = {"k1": value(90, 3), "k5": None, "k6": b"", "new": value(91, 80_000), "null": None}
    handle = LanceDataset.commit(handle, stage_upsert(pinned(handle), rows(changed, 1)).transaction)
    model |= changed
    assert held(handle) == model
    gone = pinned(handle).locate(pa.array(["k4"]))["_rowaddr"].combine_chunks()
    handle = LanceDataset.commit(handle, stage_delete(handle, gone).transaction)
    del model["k4"]
    handle = append(handle, rows({"last": value(92, 6_000_000), "empty": b""}))
    model |= {"last": value(92, 6_000_000), "empty": b""}
    assert held(handle) == model
    handle = lance.dataset(handle.uri)
    assert handle.optimize.compact_files().fragments_removed > 1
    handle = lance.dataset(handle.uri)
    assert held(handle) == model  # empty stays empty and null stays null
    merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    handle = LanceDataset.commit(handle, merge.execute_uncommitted(rows({"k1": b"merged"}))[0])
    assert held(handle) == model | {"k1": b"merged"}


def test_rows_taken_by_address_carry_their_bytes(tmp_path: Path) -> None:
    model = {f"k{k}": value(k, size) for k, size in enumerate(SIZES)}
    table = pinned(append(create(tmp_path / "t.lance"), rows(model)))
    got = table.fetch("id", pa.array(["k6", "k0", "k2"]), ["id", "data"])
    assert {row["id"]: row["data"] for row in got.to_pylist()} == {one: model[one] for one in ("k6", "k0", "k2")}
    addresses = table.locate(pa.array(["k5", "k1"]))["_rowaddr"].combine_chunks()
    assert sorted(table.take(addresses)["data"].to_pylist()) == sorted([model["k5"], model["k1"]])
    assert table.to_table(["data"], Compare("id", "==", pa.scalar("k4")))["data"].to_pylist() == [model["k4"]]
    assert table.to_table(["id"], IsNull("data"))["id"].to_pylist() == ["k0"]


def test_rows_that_lost_the_mark_on_their_way_can_still_be_staged(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows({"a": b"1"}))
    bare = pa.table({"id": ["a", "b"], "data": pa.array([b"2", None], pa.binary()), "n": [1, 1]})
    assert not blob_columns(bare.schema)
    handle = LanceDataset.commit(handle, stage_upsert(pinned(handle), bare).transaction)
    assert held(handle) == {"a": b"2", "b": None}
    assert as_stored(rows({"a": b"1"}), handle.schema).schema == SCHEMA


def test_the_schema_reads_the_same_stored_and_declared(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    assert handle.schema.field("data").type != pa.large_binary()  # what Lance shows
    assert blob_columns(handle.schema) == blob_columns(SCHEMA) == ["data"]
    assert not is_blob(handle.schema.field("id"))
    assert logical_schema(handle.schema).equals(SCHEMA, check_metadata=True)
    assert pinned(handle).to_table().schema.names == SCHEMA.names
    plain = SCHEMA.remove(1)
    assert logical_schema(plain) is plain
    assert stored_schema(plain) is plain
    assert stored_schema(handle.schema).equals(handle.schema)


def test_a_read_of_other_columns_reads_no_bytes(tmp_path: Path) -> None:
    handle = append(create(tmp_path / "t.lance"), rows({"a": value(1, 5_000_000)}))
    handle = lance.dataset(handle.uri)
    handle.io_stats_incremental()
    assert handle.scanner(columns=["id", "n"], **READ_BYTES).to_table().num_rows == 1
    assert handle.io_stats_incremental().read_bytes < 100_000


def test_a_reference_to_bytes_elsewhere_is_refused(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    (tmp_path / "secret").write_bytes(b"not yours")
    elsewhere = blob_array([f"file://{tmp_path}/secret"])
    reference = pa.table([pa.array(["a"]), elsewhere, pa.array([1])], schema=handle.schema)
    with pytest.raises(OSError, match="outside registered external bases"):
        write_fragments(reference, handle)


def test_a_table_keeps_the_schema_it_was_created_with(tmp_path: Path) -> None:
    handle = create(tmp_path / "t.lance")
    assert append(handle, rows({"a": b"1"})).schema == handle.schema
    # With the mark alone the first append replaces the field by another, which is why tables are not made that way.
    marked = LanceDataset.commit(str(tmp_path / "marked.lance"), LanceOperation.Overwrite(SCHEMA, []))
    assert append(marked, rows({"a": b"1"})).schema != marked.schema
