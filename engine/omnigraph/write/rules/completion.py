"""Complete the rows of a patch: what the input does not name is what the committed row has.

Owns that look-up. A row that is not committed yet keeps nulls, and the rules say what it lacks. Afterwards the change is a merge
of whole rows like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.table.arrays import one_array, positions
from omnigraph.write.base.changes import PinnedView, TypeChange

pc: Any = pyarrow.compute

_IDS_AT_ONCE: Final = 1 << 16


def complete(change: TypeChange, view: PinnedView) -> TypeChange:
    """Return the change with every property of its rows that are committed. A change that names all is returned as it is."""
    if not change.unnamed or change.completed:
        return change
    rows = change.rows
    names = [name for name in rows.column_names if name in change.unnamed]
    committed = _committed(change, view, names) if rows.num_rows else None
    if committed is None or not committed.num_rows:
        return replace(change, completed=True)
    place = pc.index_in(one_array(rows.column("id"), pa.utf8()), value_set=one_array(committed.column("id"), pa.utf8()))
    for name in names:
        kind = rows.schema.field(name).type
        kept = one_array(committed.column(name).take(place), kind)
        kept = kept if kept.type == kind else kept.cast(kind)
        unnamed = change.unnamed[name]
        mask = pa.array(np.full(rows.num_rows, True) if isinstance(unnamed, bool) else unnamed)
        own = one_array(rows.column(name), kind)
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), _chosen(mask, kept, own))
    return replace(change, rows=rows, completed=True)


def _chosen(mask: pa.BooleanArray, kept: pa.Array[Any], own: pa.Array[Any]) -> pa.Array[Any]:
    """For each row one of the two. By position: not every type has a kernel that chooses."""
    taken = np.where(mask.to_numpy(zero_copy_only=False), 0, len(kept)) + np.arange(len(kept), dtype=np.int64)
    return pa.concat_arrays([kept, own]).take(positions(taken))


def _committed(change: TypeChange, view: PinnedView, names: list[str]) -> pa.Table | None:
    """The committed rows that the change means: their ids, and the properties named."""
    if not view.rows(change.table_key):
        return None
    given = np.flatnonzero(~change.minted_rows())
    ids: pa.Array[Any] = pc.unique(one_array(change.rows.column("id"), pa.utf8()).take(positions(given)))
    parts = [
        view.fetch(change.table_key, "id", ids.slice(start, _IDS_AT_ONCE), ["id", *names])
        for start in range(0, len(ids), _IDS_AT_ONCE)
    ]
    return pa.concat_tables(parts) if parts else None
