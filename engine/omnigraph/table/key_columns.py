"""Values of key columns in the form in which they are compared, deleted rows, and addresses by fragment. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.table.distinct import sorted_distinct


@dataclass(frozen=True, slots=True)
class Deletions:
    """Deleted offsets of one fragment under one deletion file, sorted."""

    offsets: np.ndarray[Any, np.dtype[np.int64]]

    def __contains__(self, offset: int) -> bool:
        at = int(np.searchsorted(self.offsets, offset))
        return at < len(self.offsets) and int(self.offsets[at]) == offset

    def among(self, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each offset, whether it is deleted."""
        if not len(self.offsets):
            return np.zeros(len(offsets), np.bool_)
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        return np.asarray(self.offsets[at] == offsets)

    def before(self, offset: int) -> int:
        """How many rows in front of this one are deleted."""
        return int(np.searchsorted(self.offsets, offset))


NOTHING_DELETED = Deletions(np.empty(0, np.int64))


def split_addresses(addresses: pa.Array[Any]) -> dict[int, np.ndarray[Any, np.dtype[np.int64]]]:
    """Row addresses → offsets by fragment id, each sorted."""
    flat = sorted_distinct(np.asarray(addresses.to_numpy(zero_copy_only=False), dtype=np.uint64))
    fragment_ids = (flat >> np.uint64(32)).astype(np.int64)
    offsets = (flat & np.uint64(0xFFFFFFFF)).astype(np.int64)
    edges = np.flatnonzero(np.diff(fragment_ids)) + 1
    parts = np.split(offsets, edges)
    return {int(fragment_ids[at]): part for at, part in zip([0, *edges.tolist()], parts, strict=True) if len(part)}


def as_key(column: Any) -> Any:
    """The form in which values are compared: times and dates as integers, everything else as it is."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind) or pa.types.is_time64(kind):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32())
    if pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return pc.cast(column, pa.string())
    return column


def one_buffer(column: Any) -> Any:
    """The column as one array that keeps no other values alive: a slice would be charged for its whole parent."""
    if not isinstance(column, pa.ChunkedArray):
        return column if column.offset == 0 else pa.concat_arrays([column])
    return column.combine_chunks() if column.num_chunks != 1 else one_buffer(column.chunk(0))
