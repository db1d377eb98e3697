"""Stable row ids of rows known by address. A row keeps its id when it is rewritten; its address changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.core.errors import Corruption
from omnigraph.table.distinct import sorted_distinct
from omnigraph.table.predicate import addresses_among

if TYPE_CHECKING:
    from lance import LanceDataset

Addresses = np.ndarray[Any, np.dtype[np.uint64]]

_ADDRESSES_PER_FILTER = 4096


def row_ids(handle: LanceDataset, wanted: Addresses) -> Addresses:
    """The row id of each address: from the manifest where it holds them, else by reading them."""
    found, known = inline_row_ids(handle, wanted)
    missing = np.flatnonzero(~known)
    if len(missing):
        found[missing] = _read_row_ids(handle, wanted[missing])
    return found


def inline_row_ids(handle: LanceDataset, wanted: Addresses) -> tuple[Addresses, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Row ids as far as the manifest holds them (no request), and for which addresses it does."""
    fragment_ids = (wanted >> np.uint64(32)).astype(np.int64)
    offsets = (wanted & np.uint64(0xFFFFFFFF)).astype(np.int64)
    found = np.zeros(len(wanted), np.uint64)
    known = np.zeros(len(wanted), np.bool_)
    order = np.argsort(fragment_ids, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(fragment_ids[order])) + 1):
        held = _of_fragment(handle, int(fragment_ids[mine[0]])) if len(mine) else None
        if held is not None:
            found[mine] = held[offsets[mine]]
            known[mine] = True
    return found, known


def _of_fragment(handle: LanceDataset, fragment_id: int) -> np.ndarray[Any, Any] | None:
    from lance.fragment import RowIdSequence

    fragment = handle.get_fragment(fragment_id)
    meta = None if fragment is None else fragment.metadata.row_id_meta
    if meta is None:
        return None
    try:
        sequence = RowIdSequence.from_inline_metadata(meta)
    except (ValueError, NotImplementedError):
        return None  # kept in a file of its own
    return sequence.to_pyarrow().to_numpy(zero_copy_only=False)


def _read_row_ids(handle: LanceDataset, wanted: Addresses) -> Addresses:
    ordered = sorted_distinct(wanted)
    ids = np.empty(len(ordered), np.uint64)
    for start in range(0, len(ordered), _ADDRESSES_PER_FILTER):
        chunk = ordered[start : start + _ADDRESSES_PER_FILTER]
        rows = handle.scanner(
            columns=[],
            filter=addresses_among(pa.array(chunk)),
            with_row_id=True,
            with_row_address=True,
        ).to_table()
        if rows.num_rows != len(chunk):
            raise Corruption("a row to replace is not there", version=handle.version, rows=len(chunk))
        places = np.searchsorted(ordered, rows.column("_rowaddr").to_numpy())
        ids[places] = rows.column("_rowid").to_numpy()
    return ids[np.searchsorted(ordered, wanted)]
