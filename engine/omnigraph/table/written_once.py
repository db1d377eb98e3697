"""What commits did to a table, told by addresses, where none of them touched what another had written: the values that rows had
before are not read.

Two things are known without them. A row that is replaced keeps its row id, so a row that was written since stands in the place of the
one with the same row id. And no writer puts a row in the place of an equal one, so each of these rows has changed. Of a row
that was written twice that is not known: the second commit may have taken back what the first one did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core import meter as m
from omnigraph.table.arrays import one_array
from omnigraph.table.blob import blob_columns
from omnigraph.table.delta import Column, Looked, Side, candidates_of, compared, read_rows
from omnigraph.table.stamps import Candidates, Numbers, commits_since, kept_at


@dataclass(frozen=True)
class WrittenOnce:
    """Addresses: of rows in the version before, and of rows in the version after. ``replaced`` and ``new`` are one row each,
    position by position."""

    replaced: Numbers
    new: Numbers
    deleted: Numbers
    inserted: Numbers

    @property
    def touched(self) -> Numbers:
        """The rows of the version before that are no more as they were."""
        return np.concatenate([self.replaced, self.deleted])


@dataclass(frozen=True)
class WrittenRows:
    """``rows``: as they are now, replaced ones first. ``ids``: of the rows touched, in the order of ``WrittenOnce.touched``; the first
    ``replaced`` are those of rows that were not deleted."""

    rows: pa.Table
    ids: pa.Array[Any]
    replaced: int

    @property
    def deleted(self) -> pa.Array[Any]:
        return self.ids.slice(self.replaced)


def written_once(
    before: Side, after: Side, columns: Sequence[Column], meter: m.Meter | None = None
) -> WrittenOnce | None:
    """What the commits between two versions did; None where a row may have been written twice, or a column."""
    if commits_since(before.lines, after.lines) is None or not _same_columns(before, after, columns):
        return None
    return written_by(candidates_of(before, after, columns, meter, Looked()))


def written_by(found: Candidates) -> WrittenOnce | None:
    """What was done to the rows that may differ. Pure."""
    if found.reason is not None or found.replaced is None:
        return None
    replaced, new = found.replaced
    return WrittenOnce(
        replaced,
        new,
        np.setdiff1d(found.before, replaced, assume_unique=True),
        np.setdiff1d(found.after, new, assume_unique=True),
    )


def read_written(
    write: WrittenOnce, before: Side, after: Side, columns: Sequence[Column], meter: m.Meter | None = None
) -> WrittenRows | None:
    """Read the rows that were written, and of those that were deleted the ids. None if a row was written that was deleted before:
    the two have to be compared."""
    names = [column.after for column in columns if column.after is not None]
    rows = read_rows(after, names, np.concatenate([write.new, write.inserted]), meter)
    gone = one_array(read_rows(before, ["id"], write.deleted, meter).column("id"), pa.utf8())
    ids = one_array(rows.column("id"), pa.utf8())
    if len(gone) and pc.any(pc.is_in(ids, value_set=gone)).as_py():
        return None
    return WrittenRows(rows, pa.concat_arrays([ids.slice(0, len(write.new)), gone]), len(write.new))


def untouched_at(
    before: Side, other: Side, columns: Sequence[Column], wanted: Numbers, meter: m.Meter | None = None
) -> Numbers | None:
    """Where rows of one version are in another one, if all of them still lie there in the same files; None otherwise."""
    if not _same_columns(before, other, columns):
        return None
    names = [column.before for column in columns]
    return kept_at(compared(before, names), compared(other, names), wanted, meter)


def _same_columns(before: Side, after: Side, columns: Sequence[Column]) -> bool:
    """Whether two versions have the same columns under the same names. Blobs are left to the way that reads them bit by bit."""
    old, new = before.handle.schema, after.handle.schema
    return not blob_columns(old) and all(
        column.before is not None
        and column.before == column.after
        and old.field(column.before).equals(new.field(column.before))
        for column in columns
    )
