"""Facts of Lance's columns that changes of the schema lean on. One test a fact, named for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.schema import LanceSchema

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


# --- ids of fields ------------------------------------------------------------------------------------------------------


def ids(handle: LanceDataset) -> dict[str, int]:
    return {field.name(): field.id() for field in handle.lance_schema.fields()}


def values(handle: LanceDataset) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = handle.to_table().sort_by("id").to_pylist()
    return found


def schema_of_arrow(handle: LanceDataset, *names: str) -> LanceSchema:
    return LanceSchema.from_pyarrow(pa.schema([handle.schema.field(name) for name in names]))


def test_a_projection_to_a_schema_made_from_arrow_still_lands_and_cannot_be_read(table: LanceDataset) -> None:
    """Why every changed schema is made of the handle's own fields with their ids."""
    numbered = schema_of_arrow(table, "id", "c")
    assert [field.id() for field in numbered.fields()] == [0, 1] != [ids(table)[name] for name in ("id", "c")]
    landed = commit(table, Transaction(table.version, LanceOperation.Project(numbered)))
    with pytest.raises((OSError, ValueError, RuntimeError)):
        landed.to_table()


def test_ids_are_kept_by_projections_and_new_columns_get_others(table: LanceDataset) -> None:
    before = ids(table)
    landed = project(table, drop=frozenset(["a"]))
    landed = project(landed, rename={"c": "d"})
    landed = commit(landed, evolve.add_columns(landed, [pa.field("a", pa.int32())], ("id", "a", "d")))
    assert ids(landed) == {"id": before["id"], "d": before["c"], "a": table.max_field_id + 1}
    assert values(landed)[0] == {"id": "k0", "a": None, "d": "x"}


def test_more_columns_without_ids_of_their_own_are_refused_after_a_drop(table: LanceDataset) -> None:
    dropped = project(table, drop=frozenset(["a"]))
    schema = LanceSchema.from_pyarrow(pa.schema([*dropped.schema, pa.field("n", pa.int64())]))
    fragments = [fragment.metadata for fragment in dropped.get_fragments()]
    with pytest.raises(OSError, match="field id"):
        commit(dropped, Transaction(dropped.version, LanceOperation.Merge(fragments, schema)))


def test_a_nullable_column_with_nulls_that_is_made_required_still_lands_and_cannot_be_read(table: LanceDataset) -> None:
    """Why the rows are looked at before."""
    more = commit(table, evolve.add_columns(table, [pa.field("n", pa.int64())]))
    landed = project(more, nullable={"n": False})
    assert not landed.schema.field("n").nullable
    with pytest.raises((OSError, ValueError, RuntimeError)):
        landed.to_table()


def test_a_version_is_read_with_its_own_columns_and_a_restore_brings_them_back(table: LanceDataset) -> None:
    before = values(table)
    changed = project(table, drop=frozenset(["a"]), rename={"c": "d"})
    changed = commit(changed, evolve.add_columns(changed, [pa.field("n", pa.int64())]))
    assert values(lance.dataset(table.uri, version=table.version)) == before
    back = commit(changed, evolve.restore(changed, table.version))
    assert back.version == changed.version + 1
    assert (ids(back), values(back)) == (ids(table), before)
    assert back.max_field_id >= table.max_field_id


# --- what a change of columns does to stamps and indexes ----------------------------------------------------------------


def stamps(handle: LanceDataset) -> dict[str, int]:
    rows = handle.to_table(columns=["id", "_row_last_updated_at_version"]).to_pydict()
    return dict(zip(rows["id"], rows["_row_last_updated_at_version"], strict=True))


def test_columns_without_values_leave_the_stamps_of_rows_and_those_with_values_take_them_all(
    table: LanceDataset,
) -> None:
    before = stamps(table)
    assert len(set(before.values())) > 1
    landed = commit(table, evolve.add_columns(table, [pa.field("n", pa.int64())]))
    landed = project(landed, rename={"c": "d"}, drop=frozenset(["a"]))
    assert stamps(landed) == before
    field = pa.field("w", pa.int64())

    def rows(fragment: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        for offsets, batch in read_fragment(landed, fragment, ["id"], None, batch_rows=3):
            if batch.num_rows:
                yield offsets, pa.RecordBatch.from_arrays([pa.array([7] * batch.num_rows)], schema=pa.schema([field]))

    files = [
        write_column_file(landed, one.metadata, pa.schema([field]), rows(one.fragment_id), None)
        for one in landed.get_fragments()
    ]
    filled = commit(landed, evolve.fill_columns(landed, [field], [], files))
    assert set(stamps(filled).values()) == {filled.version}
    assert {row["w"] for row in values(filled)} == {7}


def test_an_index_goes_with_its_column_and_follows_its_new_name(table: LanceDataset) -> None:
    for name in ("a", "c"):
        table.create_scalar_index(name, "BTREE", name=f"by_{name}")
    indexed = lance.dataset(table.uri)
    landed = project(indexed, drop=frozenset(["a"]), rename={"c": "d"})
    assert [one.name for one in landed.describe_indices()] == ["by_c"]
    assert "ScalarIndex" in landed.scanner(filter="d = 'x'").explain_plan()
    assert landed.to_table(filter="d = 'x'").num_rows == 9


# --- rivals -------------------------------------------------------------------------------------------------------------


def rival(handle: LanceDataset, kind: str) -> Transaction:
    if kind == "append":
        rows = pa.table({"id": ["new"], "a": pa.array([1], pa.int32()), "c": ["y"]}, SCHEMA)
        return Transaction(handle.version, LanceOperation.Append(write_files(rows, handle)))
    if kind == "update":
        rows = pa.table({"id": ["k0"], "a": pa.array([1], pa.int32()), "c": ["y"]}, SCHEMA)
        merge = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.execute_uncommitted(rows)[0]
    if kind == "merge":
        return evolve.add_columns(handle, [pa.field("n", pa.int64())])
    if kind == "project":
        return evolve.project(handle, Projection(drop=frozenset(["c"])))
    return evolve.restore(handle, handle.version)


CHANGES = ("merge", "project")
RIVALS = [(first, second) for first in CHANGES for second in ("append", "update", *CHANGES)]
RIVALS += [(first, second) for first in ("append", "update") for second in CHANGES]
RIVALS += [("restore", second) for second in ("append", "update", *CHANGES)]


@pytest.mark.parametrize(("first", "second"), RIVALS, ids=[f"{first} then {second}" for first, second in RIVALS])
def test_a_change_of_columns_and_another_change_of_one_base_do_not_both_land(
    table: LanceDataset, first: str, second: str
) -> None:
    """Help, not proof: the landing rule and the pins decide."""
    staged = rival(table, second)
    landed = commit(table, rival(table, first))
    with pytest.raises(CommitConflictError) as caught:
        commit(table, staged)
    assert caught.value.retryable is not (first == "restore" or (first, second) == ("project", "merge"))
    assert lance.dataset(table.uri).version == landed.version


def test_a_restore_still_lands_over_a_change_of_columns(table: LanceDataset) -> None:
    """Why a Restore is only made by who holds the table."""
    for kind in CHANGES:
        before = lance.dataset(table.uri)
        staged = evolve.restore(before, before.version)
        changed = commit(before, rival(before, kind))
        landed = commit(before, staged)
        assert (landed.version, ids(landed)) == (changed.version + 1, ids(before))
