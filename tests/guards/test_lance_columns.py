"""Facts of Lance's columns that changes of the schema lean on. One test a fact, named for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.table import evolve
from omnigraph.table.column_files import read_fragment, write_column_file
from omnigraph.table.fields import Projection
from omnigraph.table.new_file_checks import write_files

KEY = pa.field("id", pa.utf8(), nullable=False, metadata={b"lance-schema:unenforced-primary-key": b"true"})
SCHEMA = pa.schema([KEY, pa.field("a", pa.int32()), pa.field("c", pa.utf8())])
ADDED = [
    pa.field("l", pa.list_(pa.field("item", pa.utf8()))),
    pa.field("b", pa.int64(), nullable=False),
    pa.field("v", pa.list_(pa.field("item", pa.float32()), 2)),
]


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    empty = Transaction(0, LanceOperation.Overwrite(SCHEMA, []))
    handle = LanceDataset.commit(
        str(tmp_path / "t.lance"), empty, enable_stable_row_ids=True, enable_v2_manifest_paths=True
    )
    for first in (0, 10):
        numbers = range(first, first + 5)
        rows = pa.table({"id": [f"k{n}" for n in numbers], "a": pa.array(numbers, pa.int32()), "c": ["x"] * 5}, SCHEMA)
        handle = commit(handle, Transaction(handle.version, LanceOperation.Append(write_files(rows, handle))))
    handle.delete("id = 'k1'")
    return lance.dataset(handle.uri)


def commit(handle: LanceDataset, transaction: Transaction) -> LanceDataset:
    return LanceDataset.commit(handle, transaction, max_retries=0)


def project(handle: LanceDataset, **change: Any) -> LanceDataset:
    return commit(handle, evolve.project(handle, Projection(**change)))


def test_the_number_of_a_dropped_field_comes_back_once_no_file_has_it(table: LanceDataset) -> None:
    """So a column is told by property and number together, never by its number."""
    before = table.max_field_id
    dropped = project(table, drop=frozenset(["c"]))
    assert dropped.max_field_id == before
    dropped.optimize.compact_files()
    assert lance.dataset(table.uri).max_field_id < before


def test_columns_may_stand_in_another_order_than_in_their_files(table: LanceDataset) -> None:
    turned = project(table, order=("id", "c", "a"))
    assert turned.schema.names == ["id", "c", "a"]
    assert turned.to_table().sort_by("id").slice(0, 1).to_pylist() == [{"id": "k0", "c": "x", "a": 0}]
    turned.optimize.compact_files()
    assert lance.dataset(table.uri).to_table().num_rows == 9


def test_an_overwrite_that_nobody_commits_writes_one_file_of_any_columns(table: LanceDataset) -> None:
    """Field ids of the file count from zero, in the order in which a schema counts them; a list has the id of its items."""
    schema = pa.schema(ADDED)
    for fragment in table.get_fragments():
        rows = (
            (offsets, pa.RecordBatch.from_arrays([pa.array([["p"]] * n, schema.field(0).type), pa.array(range(n)), pa.array([[1, 2]] * n, schema.field(2).type)], schema=schema))
            for offsets, batch in read_fragment(table, fragment.fragment_id, ["id"], None, batch_rows=3)
            if (n := batch.num_rows)
        )  # fmt: skip
        file = write_column_file(table, fragment.metadata, schema, rows, None)
        assert (file.fields, file.columns) == ((1, 2, 3), (0, 1, 2))
    assert lance.dataset(table.uri).version == table.version


def test_an_append_goes_by_names_and_may_lack_a_nullable_column(table: LanceDataset) -> None:
    more = commit(table, evolve.add_columns(table, [pa.field("n", pa.int64())], ("id", "a", "c", "n")))
    turned = pa.table({"n": [7], "c": ["y"], "a": pa.array([1], pa.int32()), "id": ["z1"]})
    turned = turned.cast(pa.schema([pa.field("n", pa.int64()), SCHEMA.field("c"), SCHEMA.field("a"), KEY]))
    landed = commit(more, Transaction(more.version, LanceOperation.Append(write_files(turned, more))))
    old = write_files(pa.table({"id": ["z2"], "a": pa.array([2], pa.int32()), "c": ["w"]}, SCHEMA), table)
    landed = commit(landed, Transaction(landed.version, LanceOperation.Append(old)))
    assert landed.to_table(filter="id >= 'z'").sort_by("id").to_pylist() == [
        {"id": "z1", "a": 1, "c": "y", "n": 7},
        {"id": "z2", "a": 2, "c": "w", "n": None},
    ]
