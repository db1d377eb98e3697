"""Hits of a look-up as arrays: which of the values asked for was found, and at which row address. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.table.arrays import numbers
from omnigraph.table.key_columns import as_key

Addresses = np.ndarray[Any, np.dtype[np.uint64]]
Positions = np.ndarray[Any, np.dtype[np.int64]]


def all_of(rows: pa.Table, position: int) -> tuple[Positions, Addresses]:
    return np.full(rows.num_rows, position, np.int64), rows.column("_rowaddr").to_numpy().astype(np.uint64)


def picks(positions: np.ndarray[Any, Any]) -> Any:
    return numbers(positions)


def index_in(keys: Any, needles: Any) -> tuple[Positions, Positions]:
    """(place in ``keys``, position among ``needles``) of each key that is one of the needles."""
    found: Any = pc.index_in(keys, value_set=needles, skip_nulls=True)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    at = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    positions = found.take(picks(at)).to_numpy(zero_copy_only=False).astype(np.int64)
    return at.astype(np.int64), positions


def matched(rows: pa.Table | pa.RecordBatch, column: str, needles: Any) -> tuple[Positions, Addresses]:
    at, positions = index_in(as_key(rows.column(column)), needles)
    addresses: Any = rows.column("_rowaddr").take(picks(at))
    if isinstance(addresses, pa.ChunkedArray):
        addresses = addresses.combine_chunks()
    return positions, addresses.to_numpy(zero_copy_only=False).astype(np.uint64)


def joined(parts: list[tuple[Positions, Addresses]]) -> tuple[Positions, Addresses]:
    """All hits once, by address. A row seen in two ways (read while it was being asked for) counts once."""
    positions = np.concatenate([part[0] for part in parts])
    addresses = np.concatenate([part[1] for part in parts])
    addresses, first = np.unique(addresses, return_index=True)
    return positions[first], addresses


def bools(found: Any) -> Any:
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
