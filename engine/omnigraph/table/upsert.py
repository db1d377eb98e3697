"""Staging updates, upserts and deletes of located rows as one Lance transaction.

The rows to replace are known by address, so nothing is joined or scanned here: one data file with the new rows, one
deletion file for each fragment that loses some of its rows, and a transaction that names them. A fragment that loses
its last row is dropped without a file. A replaced row keeps its stable row id, as with Lance's own ``merge_insert``;
the commit derives created-at and updated-at versions from it.

Nothing here moves a version. Committing, and what it means to land elsewhere than at the pin + 1, belongs to others.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation, Transaction
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.core import meter as m
from omnigraph.table.blob import as_stored
from omnigraph.table.key_columns import split_addresses
from omnigraph.table.new_file_checks import delete_rows, write_files
from omnigraph.table.reading import reading
from omnigraph.table.rowids import row_ids

if TYPE_CHECKING:
    from lance import LanceDataset

    from omnigraph.table.pinned import PinnedTable

_WRITERS = 16
"""Deletion files written side by side; each is one small request."""


@dataclass(frozen=True)
class StagedChange:
    """A transaction ready to commit at the version it was staged on, and what the key cache wants to know of it."""

    transaction: Transaction
    rows: pa.Table | None
    """The rows of the new fragments, in the order written."""
    deleted: pa.Array[Any]
    """Addresses that are gone once it has landed."""
    inserted: int
    updated: int

    @property
    def is_empty(self) -> bool:
        return self.rows is None and len(self.deleted) == 0


def stage_upsert(
    table: PinnedTable,
    rows: pa.Table,
    *,
    located: pa.Table | None = None,
    also_deleted: pa.Array[Any] | None = None,
    meter: m.Meter | None = None,
    **limits: Any,
) -> StagedChange:
    """Whole rows by ``id``: those that exist at the pin are replaced, the others inserted. ``also_deleted``: addresses of
    other rows that leave in the same transaction.

    ``located`` is what ``table.locate(ids)`` said, where the caller has it already; ids in it that are not in ``rows``
    stay as they are. ``rows`` holds each id once.
    """
    ids = rows.column("id").combine_chunks()
    found = table.locate(ids) if located is None else located
    return stage_located(table.handle, rows, located=found, also_deleted=also_deleted, meter=meter, **limits)


def stage_located(
    handle: LanceDataset,
    rows: pa.Table,
    *,
    located: pa.Table,
    also_deleted: pa.Array[Any] | None = None,
    meter: m.Meter | None = None,
    **limits: Any,
) -> StagedChange:
    """``stage_upsert`` where it is known already which rows are there, and at which addresses of the handle's version."""
    place = pc.index_in(rows.column("id").combine_chunks(), value_set=located.column("id"))
    replaces = located.column("_rowaddr").combine_chunks().take(place)
    deleted = replaces.drop_null()
    if also_deleted is not None and len(also_deleted):
        deleted = pa.concat_arrays([deleted, also_deleted])
    return stage_update(handle, deleted, rows, replaces=replaces, meter=meter, **limits)


def stage_update(
    handle: LanceDataset,
    deleted: pa.Array[Any],
    new_rows: pa.Table | None,
    *,
    replaces: pa.Array[Any] | None = None,
    meter: m.Meter | None = None,
    **limits: Any,
) -> StagedChange:
    """Take away the rows at ``deleted`` and add ``new_rows``, in one transaction based on the handle's version.

    ``replaces`` says for each new row the address of the row that it is a new state of, null where it is new; these
    addresses are part of ``deleted``. Without it every new row is a new one to Lance, with a row id of its own.
    """
    if new_rows is None or new_rows.num_rows == 0:
        return stage_delete(handle, deleted, meter=meter)
    rows, carried = _replacing_first(as_stored(new_rows, handle.schema), replaces)
    with (
        reading(handle, meter, m.DATA, "write data and deletion files"),
        ThreadPoolExecutor(max_workers=_WRITERS, thread_name_prefix="stage") as pool,
    ):
        writing = pool.submit(lambda: write_files(rows, handle, **limits))
        updated, removed = _mark_deleted(handle, deleted, pool)
        kept_ids = row_ids(handle, _numbers(carried)) if len(carried) else None
        fragments = writing.result()
    if kept_ids is not None:
        _carry_row_ids(fragments, pa.array(kept_ids))
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=fragments,
        fields_modified=[],
        # Every field of the new fragments is new to every index, so no index may claim to cover them.
        fields_for_preserving_frag_bitmap=sorted(_field_ids(handle.lance_schema.fields())),
        update_mode="rewrite_rows",
    )
    return StagedChange(
        transaction=Transaction(handle.version, operation),
        rows=rows,
        deleted=deleted,
        inserted=rows.num_rows - len(carried),
        updated=len(carried),
    )


def stage_delete(handle: LanceDataset, addresses: pa.Array[Any], *, meter: m.Meter | None = None) -> StagedChange:
    """Take away the rows at ``addresses``: one request for each fragment that keeps some of its rows."""
    with (
        reading(handle, meter, m.DATA, "write deletion files"),
        ThreadPoolExecutor(max_workers=_WRITERS, thread_name_prefix="stage") as pool,
    ):
        updated, removed = _mark_deleted(handle, addresses, pool)
    # The predicate is a note for people; the rows are named by the deletion files.
    operation = LanceOperation.Delete(updated, removed, f"{len(addresses)} rows by address")
    return StagedChange(Transaction(handle.version, operation), None, addresses, 0, 0)


def _mark_deleted(
    handle: LanceDataset, addresses: pa.Array[Any], pool: ThreadPoolExecutor
) -> tuple[list[FragmentMetadata], list[int]]:
    """New metadata of the fragments that keep rows, and the ids of those that keep none."""
    by_fragment = split_addresses(addresses)

    def mark(item: tuple[int, np.ndarray[Any, Any]]) -> FragmentMetadata | None:
        fragment_id, offsets = item
        return delete_rows(handle, fragment_id, offsets.tolist())

    updated: list[FragmentMetadata] = []
    removed: list[int] = []
    for fragment_id, kept in zip(by_fragment, pool.map(mark, by_fragment.items()), strict=True):
        if kept is None:
            removed.append(fragment_id)
        else:
            updated.append(kept)
    return updated, removed


def _replacing_first(rows: pa.Table, replaces: pa.Array[Any] | None) -> tuple[pa.Table, pa.Array[Any]]:
    """The rows with replacements in front, and the addresses they replace: row ids bind to leading rows only."""
    if replaces is None or replaces.null_count == len(replaces):
        return rows, pa.array([], pa.uint64())
    if replaces.null_count == 0:
        return rows, replaces
    old = replaces.is_valid().to_numpy(zero_copy_only=False)
    order: Any = pa.array(np.concatenate([np.flatnonzero(old), np.flatnonzero(~old)]))
    return rows.take(order), replaces.drop_null()


# --- stable row ids -----------------------------------------------------------------------------------------------------


def _carry_row_ids(fragments: list[FragmentMetadata], kept_ids: pa.Array[Any]) -> None:
    start = 0
    for fragment in fragments:
        mine = kept_ids.slice(start, fragment.physical_rows)
        if len(mine):
            fragment.row_id_meta = RowIdSequence(mine).to_inline_metadata()
        start += fragment.physical_rows


def _numbers(addresses: pa.Array[Any]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.asarray(addresses.to_numpy(zero_copy_only=False), np.uint64)


def _field_ids(fields: list[Any]) -> Iterator[int]:
    for field in fields:
        yield field.id()
        yield from _field_ids(field.children())
