"""From a checked change set to steps on tables: what is staged for each table, and what it will count as.

Decides nothing about validity. Owns the question "which rows really change": a merge stages only those; and has the files of a
large append written while its rows are checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.own_lines import inherited
from omnigraph.commit.steps import (
    AppendRows,
    DeleteRows,
    OverwriteRows,
    ReplaceRows,
    Staged,
    StagedFiles,
    Step,
    stage,
)
from omnigraph.commit.txn import Txn
from omnigraph.core import progress
from omnigraph.core.errors import OmnigraphError
from omnigraph.manifest.rows import Pin
from omnigraph.table.arrays import flags, one_array, positions
from omnigraph.table.dataset import TableRef
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.row_equality import same_rows
from omnigraph.write.base.changes import TypeChange

STAGE_FIRST_BYTES = 64 * 1024 * 1024  # staging that takes longer than a moment ends before the intent is armed
AHEAD_ROWS_MIN = 1_000_000  # fewer are checked sooner than a second processor is found for them


def lower(txn: Txn, changes: Mapping[str, TypeChange], batch: str | None = None) -> tuple[Step, ...]:
    """One step a table that changes; a table that stays as it is has none. In key order. ``batch`` names an input whose
    rows are the same at each plan of a write."""
    found = (_lower_one(txn, changes[key], batch) for key in sorted(changes))
    return tuple(step for step in found if step is not None)


def unchanged_counts(txn: Txn, changes: Mapping[str, TypeChange]) -> dict[str, Counts]:
    """For a receipt without a commit: everything that was given is there already."""
    return {key: Counts(unchanged=change.rows.num_rows) for key, change in changes.items()}


def _lower_one(txn: Txn, change: TypeChange, batch: str | None) -> Step | None:
    pin = txn.pin(change.table_key)
    if change.mode == "overwrite":
        if change.rows.num_rows == 0 and pin.rows == 0:
            return None
        return _overwrite(pin, change.rows)
    if change.deleted_ids is not None and len(change.deleted_ids):
        return _upsert(txn, pin, change)
    if change.rows.num_rows == 0:
        return None
    if change.mode == "append" or pin.rows == 0:
        return AppendRows(pin.key, (Counts(inserted=change.rows.num_rows),), change.rows, batch)
    return _upsert(txn, pin, change)


def _overwrite(pin: Pin, rows: pa.Table) -> OverwriteRows:
    return OverwriteRows(pin.key, (Counts(inserted=rows.num_rows, deleted=pin.rows),), rows)


def _upsert(txn: Txn, pin: Pin, change: TypeChange) -> Step | None:
    """Whole rows by id, less those that are there already, and less the rows that leave."""
    table = txn.pinned(pin.key)
    rows, located, states = _really_new(table, change)
    unchanged = int((states == SAME).sum())
    return replace_step(pin.key, rows, located, _locate_deleted(table, change.deleted_ids), unchanged)


def joint_step(
    txn: Txn, key: str, change: TypeChange
) -> tuple[Callable[[tuple[Counts, ...]], Step | None], npt.NDArray[np.int8]]:
    """How the step of an append or a merge is made once its counts are known, and what becomes of each row."""
    pin = txn.pin(key)
    if change.mode == "append" or pin.rows == 0:
        appended = change.rows
        return (
            lambda counts: AppendRows(key, counts, appended) if appended.num_rows else None,
            np.zeros(appended.num_rows, dtype=np.int8),
        )
    rows, located, states = _really_new(txn.pinned(key), change)
    gone = pa.array([], pa.uint64())
    return lambda counts: replace_step(key, rows, located, gone, 0, counts), states


def replace_step(
    key: str,
    rows: pa.Table,
    located: pa.Table,
    gone: pa.Array[Any],
    unchanged: int,
    counts: tuple[Counts, ...] | None = None,
) -> Step | None:
    """Rows that differ from what is committed, where those that they replace are (``id``, ``_rowaddr``), and the
    addresses of rows that leave. None if there is neither. ``counts``: by request, where there are several."""
    if rows.num_rows == 0:
        if not len(gone):
            return None
        return DeleteRows(key, (Counts(deleted=len(gone), unchanged=unchanged),), gone)
    updated = located.num_rows
    if counts is None:
        counts = (Counts(rows.num_rows - updated, updated, len(gone), unchanged),)
    if updated == 0 and len(gone) == 0:
        return AppendRows(key, counts, rows)
    return ReplaceRows(key, counts, rows, located, gone)


INSERTED, UPDATED, SAME = 0, 1, 2  # what becomes of a row that is given


def _really_new(table: PinnedTable, change: TypeChange) -> tuple[pa.Table, pa.Table, npt.NDArray[np.int8]]:
    """Rows that differ from what is committed, where the rows they replace are, and what becomes of each row given."""
    rows = change.rows
    located = table.locate(_given_ids(change))
    states = np.zeros(rows.num_rows, dtype=np.int8)
    if located.num_rows == 0 or rows.num_rows == 0:
        return rows, located, states
    old = table.take(located.column("_rowaddr").combine_chunks())
    place = np.asarray(pc.index_in(located.column("id"), value_set=rows.column("id").combine_chunks()).to_numpy())
    equal = same_rows(old, rows.take(positions(place)))
    states[place] = UPDATED
    states[place[equal]] = SAME
    if not equal.any():
        return rows, located, states
    return rows.filter(flags(states != SAME)), located.filter(flags(~equal)), states


def _given_ids(change: TypeChange) -> pa.Array[Any]:
    """The ids that may be committed already: ids that this write has minted are new."""
    ids = one_array(change.rows.column("id"), pa.utf8())
    if change.minted is False:
        return ids
    return ids.filter(flags(~change.minted_rows()))


def _locate_deleted(table: PinnedTable, ids: pa.Array[Any] | None) -> pa.Array[Any]:
    if ids is None or len(ids) == 0:
        return pa.array([], pa.uint64())
    addresses: pa.Array[Any] = table.locate(ids).column("_rowaddr").combine_chunks()
    return addresses


# --- files ahead of the verdict -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def staged_beside(txn: Txn, steps: Sequence[Step], files: StagedFiles) -> Iterator[None]:
    """Stage large appends beside the body, which checks them, and wait for the end of both. No version names the files yet: if the
    body fails they are deleted. What a killed process leaves of them is what any staging leaves that ends before its intent is
    armed: a cleanup takes it."""
    appends = [step for step in steps if isinstance(step, AppendRows) and step.batch is not None]
    rows = sum(step.total.inserted for step in appends)
    if rows < AHEAD_ROWS_MIN or inherited(txn.state, [step.key for step in appends]):
        yield
        return
    progress.expect(rows)  # each is written as well as checked
    staging = {step.key: txn.engine.spawn(_stage, txn, step, files) for step in appends}
    try:
        yield
        for future in staging.values():
            future.result()
    except BaseException:
        _give_up(txn, staging, files)
        raise


def _stage(txn: Txn, step: AppendRows, files: StagedFiles) -> Staged:
    mark = txn.state.head.mark
    return stage(step, txn.handle(step.key), tables=txn.engine.tables, files=files, mark=mark, meter=txn.meter)


def _give_up(txn: Txn, staging: dict[str, Future[Staged]], files: StagedFiles) -> None:
    """Delete what was staged, unless a version may name it: then it is not ours to delete, published or not."""
    wait(staging.values())
    if files.sent:
        return
    files.forget()
    written: list[str] = []
    for key, future in staging.items():
        if future.exception() is None:
            written += paths_of(txn.pin(key), future.result().transaction.operation.fragments)
    with contextlib.suppress(OmnigraphError):  # why the body failed is what counts; a cleanup takes them
        txn.engine.store.delete_many(written)


def paths_of(pin: Pin, fragments: Sequence[Any]) -> list[str]:
    """The keys of the data files of fragments that were staged on the line of a pin."""
    base = TableRef(pin.location, pin.ref).relative
    return [f"{base}/data/{file.path}" for fragment in fragments for file in fragment.files]
