"""From a checked change set to table actions: what is staged for each table, and what it will count as.

Decides nothing about validity. Owns the question "which rows really change": a merge stages only those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.plan import Counts
from omnigraph.commit.run import Action
from omnigraph.commit.txn import Txn
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.table.arrays import one_array
from omnigraph.table.dataset import TableRef
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.upsert import stage_delete, stage_upsert
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.base.row_equality import same_rows

STAGE_FIRST_BYTES = 64 * 1024 * 1024  # staging that takes longer than a moment ends before the intent is armed
CACHED_ROWS_MAX = 200_000  # own writes beyond this are not worth their room in the key cache


class StagedAppends:
    """Files of an append, kept across the plans of one write: they do not depend on what they were planned on.

    Only as long as no cleanup has begun since they were written: it may have taken them together with a version of ours
    that somebody has undone.
    """

    def __init__(self) -> None:
        self._fragments: dict[str, tuple[str | None, Any]] = {}

    def transaction(self, key: str, handle: Any, mark: str | None) -> Any | None:
        from omnigraph.table.dataset import append_of

        written_at, fragments = self._fragments.get(key, (None, None))
        return None if fragments is None or written_at != mark else append_of(handle, fragments)

    def keep(self, key: str, transaction: Any, mark: str | None) -> Any:
        self._fragments[key] = (mark, transaction.operation.fragments)
        return transaction


def lower(txn: Txn, changes: Mapping[str, TypeChange], staged: StagedAppends) -> tuple[Action, ...]:
    """One action a table that changes; a table that stays as it is has none. In key order."""
    actions = []
    for key in sorted(changes):
        action = _lower_one(txn, changes[key], staged)
        if action is not None:
            actions.append(action)
    return tuple(actions)


def unchanged_counts(txn: Txn, changes: Mapping[str, TypeChange]) -> dict[str, Counts]:
    """For a receipt without a commit: everything that was given is there already."""
    return {key: Counts(unchanged=change.rows.num_rows) for key, change in changes.items()}


def _lower_one(txn: Txn, change: TypeChange, staged: StagedAppends) -> Action | None:
    pin = txn.pin(change.table_key)
    if change.mode == "overwrite":
        if change.rows.num_rows == 0 and pin.rows == 0:
            return None
        return _overwrite(txn, pin, change.rows)
    if change.deleted_ids is not None and len(change.deleted_ids):
        return _upsert(txn, pin, change)
    if change.rows.num_rows == 0:
        return None
    if change.mode == "append" or pin.rows == 0:
        return append_action(txn, pin, change.rows, Counts(inserted=change.rows.num_rows), staged)
    return _upsert(txn, pin, change)


def append_action(txn: Txn, pin: Pin, rows: pa.Table, counts: Counts, staged: StagedAppends) -> Action:
    engine = txn.engine

    mark = txn.state.head.mark

    def stage(handle: Any, meter: Meter) -> Any:
        known = staged.transaction(pin.key, handle, mark)
        if known is not None:
            return known
        return staged.keep(pin.key, engine.tables.stage_append(handle, rows, meter), mark)

    def landed(handle: Any) -> None:
        note = rows if rows.num_rows <= CACHED_ROWS_MAX else None
        _note(txn, pin, handle, handle_operation(staged, pin.key, handle, mark), note, None)

    return Action(pin.key, stage, counts, landed)


def handle_operation(staged: StagedAppends, key: str, handle: Any, mark: str | None) -> Any:
    transaction = staged.transaction(key, handle, mark)
    return None if transaction is None else transaction.operation


def _overwrite(txn: Txn, pin: Pin, rows: pa.Table) -> Action:
    def stage(handle: Any, meter: Meter) -> Any:
        return txn.engine.tables.stage_overwrite(handle, rows, meter)

    return Action(pin.key, stage, Counts(inserted=rows.num_rows, deleted=pin.rows))


def _upsert(txn: Txn, pin: Pin, change: TypeChange) -> Action | None:
    """Whole rows by id, less those that are there already, and less the rows that leave."""
    table = txn.pinned(pin.key)
    rows, located, unchanged = _really_new(table, change.rows)
    return replace_action(txn, pin, rows, located, _locate_deleted(table, change.deleted_ids), unchanged)


def replace_action(
    txn: Txn, pin: Pin, rows: pa.Table, located: pa.Table, gone: pa.Array[Any], unchanged: int
) -> Action | None:
    """Rows that differ from what is committed, where those that they replace are (``id``, ``_rowaddr``), and the
    addresses of rows that leave. None if there is neither."""
    if rows.num_rows == 0:
        return _delete(txn, pin, gone, unchanged) if len(gone) else None
    updated = located.num_rows
    counts = Counts(rows.num_rows - updated, updated, len(gone), unchanged)
    if updated == 0 and len(gone) == 0:
        return append_action(txn, pin, rows, counts, StagedAppends())
    table = txn.pinned(pin.key)
    kept: list[Any] = []

    def stage(_handle: Any, meter: Meter) -> Any:
        change_ = stage_upsert(table, rows, located=located, also_deleted=gone, meter=meter)
        kept[:] = [change_]
        return change_.transaction

    def landed(handle: Any) -> None:
        if kept:
            _note(txn, pin, handle, kept[0].transaction.operation, kept[0].rows, kept[0].deleted)

    return Action(pin.key, stage, counts, landed)


def _delete(txn: Txn, pin: Pin, addresses: pa.Array[Any], unchanged: int) -> Action:
    kept: list[Any] = []

    def stage(handle: Any, meter: Meter) -> Any:
        change = stage_delete(handle, addresses, meter=meter)
        kept[:] = [change]
        return change.transaction

    def landed(handle: Any) -> None:
        if kept:
            _note(txn, pin, handle, kept[0].transaction.operation, None, kept[0].deleted)

    return Action(pin.key, stage, Counts(deleted=len(addresses), unchanged=unchanged), landed)


def _really_new(table: PinnedTable, rows: pa.Table) -> tuple[pa.Table, pa.Table, int]:
    """Rows that differ from what is committed, where the rows they replace are, and how many are the same."""
    located = table.locate(one_array(rows.column("id"), pa.utf8()))
    if located.num_rows == 0 or rows.num_rows == 0:
        return rows, located, 0
    old = table.take(located.column("_rowaddr").combine_chunks())
    place = pc.index_in(located.column("id"), value_set=rows.column("id").combine_chunks())
    equal = same_rows(old, rows.take(place))
    count = int(equal.sum())
    if count == 0:
        return rows, located, 0
    keep = np.ones(rows.num_rows, dtype=np.bool_)
    keep[np.asarray(place.to_numpy())[equal]] = False
    return rows.filter(pa.array(keep)), located.filter(pa.array(~equal)), count


def _locate_deleted(table: PinnedTable, ids: pa.Array[Any] | None) -> pa.Array[Any]:
    if ids is None or len(ids) == 0:
        return pa.array([], pa.uint64())
    addresses: pa.Array[Any] = table.locate(ids).column("_rowaddr").combine_chunks()
    return addresses


def _note(
    txn: Txn, pin: Pin, handle: Any, operation: Any, rows: pa.Table | None, deleted: pa.Array[Any] | None
) -> None:
    ref = TableRef(pin.location, pin.ref)
    if operation is not None:
        if pin.rows == 0:
            # Nobody has asked an empty table anything; told its layout, the cache can follow what becomes of it.
            txn.engine.keys.put_layout(ref.relative, txn.pinned(pin.key).layout)
        txn.engine.keys.note_commit(ref.location, ref.relative, pin.version, handle, operation, rows, deleted)
