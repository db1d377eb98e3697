"""Questions to the committed side, asked in bulk.

Owns the choice between looking up values and reading a column whole. Every question of the checks goes through here or
through the view itself, which notes what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from omnigraph.table.arrays import chunked
from omnigraph.table.key_set import KeySet
from omnigraph.write.base.changes import PinnedView

pc: Any = pyarrow.compute

# Values of one look-up: more make a filter that costs more than it spares.
_VALUES_AT_ONCE: Final = 8_192
# Up to so many values a look-up is always right; beyond, only if they are few among many rows.
_VALUES_FEW: Final = 1_024
_SCAN_SHARE: Final = 20


def distinct(arrays: Iterable[pa.Array[Any]], kind: pa.DataType) -> pa.Array[Any]:
    """The distinct values of arrays of one kind, in order of first appearance."""
    found: pa.Array[Any] = pc.unique(chunked(list(arrays), kind))
    return found


def committed_rows(
    view: PinnedView, table_key: str, column: str, values: pa.Array[Any] | None, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Rows whose ``column`` is one of ``values``, and perhaps others: the caller has to look again. All rows without."""
    rows = view.rows(table_key)
    if not rows or (values is not None and not len(values)):
        return
    if values is None or is_scanned(len(values), rows):
        yield from view.scan(table_key, columns)
        return
    for start in range(0, len(values), _VALUES_AT_ONCE):
        yield from view.fetch(table_key, column, values.slice(start, _VALUES_AT_ONCE), columns).to_batches()


def is_scanned(values: int, rows: int) -> bool:
    """Whether reading a column of ``rows`` rows whole is better than looking so many values up."""
    return values > _VALUES_FEW and values * _SCAN_SHARE > rows


def without(batch: pa.RecordBatch, ids: Sequence[KeySet | None]) -> pa.RecordBatch:
    """The rows of a committed batch whose id is in none of the sets: those that the change set leaves as they are."""
    for known in ids:
        if known is not None and len(known) and batch.num_rows:
            batch = batch.filter(pa.array(~known.has(batch.column("id"))))
    return batch
