"""The rows that were appended to a table between two of its versions, with the version that appended each.

Many small commits are read at once here: comparing each pair of versions would look at all fragments of the table every time. It
answers only where nothing but new fragments came: where a row was deleted or written anew, versions have to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.core import meter as m
from omnigraph.table.arrays import positions
from omnigraph.table.delta import Side
from omnigraph.table.files import data_file_name
from omnigraph.table.reading import reading
from omnigraph.table.stamps import Numbers

if TYPE_CHECKING:
    from lance import LanceDataset

_STAMP: Final = "_row_last_updated_at_version"
_Kept = tuple[tuple[str, ...], tuple[int, int] | None]


@dataclass(frozen=True)
class Appended:
    """Rows in the order of the versions that appended them. ``versions``: those, position by position."""

    rows: pa.Table
    versions: Numbers

    def between(self, after: int, until: int) -> pa.Table:
        """The rows of the versions after one and up to another."""
        first, end = np.searchsorted(self.versions, np.array([after, until], dtype=np.uint64), side="right")
        return self.rows.slice(int(first), int(end - first))


def appended(before: Side | None, after: Side, columns: Sequence[str], meter: m.Meter | None = None) -> Appended | None:
    """What was appended. None: more than that happened, or it cannot be known. ``before``: None is a table without rows."""
    old = {} if before is None else _fragments(before.handle)
    new = _fragments(after.handle)
    if before is not None and before.lines[0].ref != after.lines[0].ref:
        return None
    if any(new.get(number) != kept for number, kept in old.items()):
        return None
    numbers = [number for number in new if number not in old]
    if any(new[number][1] is not None for number in numbers):
        return None
    return _read(after.handle, numbers, columns, meter)


def _fragments(handle: LanceDataset) -> dict[int, _Kept]:
    """The fragments of a version by number: their data files, and which of their rows are deleted."""
    found = {}
    for fragment in handle.get_fragments():
        meta = fragment.metadata
        deleted = meta.deletion_file
        gone = None if deleted is None else (deleted.read_version, deleted.id)
        found[meta.id] = tuple(data_file_name(file) for file in meta.files), gone
    return found


def _read(handle: LanceDataset, numbers: Sequence[int], columns: Sequence[str], meter: m.Meter | None) -> Appended:
    chosen: list[Any] = [handle.get_fragment(number) for number in numbers]
    if not chosen:
        return Appended(
            pa.schema([handle.schema.field(name) for name in columns]).empty_table(), np.empty(0, np.uint64)
        )
    with reading(handle, meter, m.DATA, "reading appended rows"):
        rows = handle.scanner(columns=[*columns, _STAMP], fragments=chosen, scan_in_order=True).to_table()
    versions = np.asarray(rows.column(_STAMP).to_numpy(), dtype=np.uint64)
    order = np.argsort(versions, kind="stable")
    if not (np.diff(order) == 1).all():
        rows = rows.take(positions(order))
    return Appended(rows.select(list(columns)), versions[order])
