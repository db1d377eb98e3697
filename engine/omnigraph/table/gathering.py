"""Values of rows known by address, taken from the key columns that are held."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.table.hits import Addresses, picks
from omnigraph.table.key_columns import as_key
from omnigraph.table.keys import KeyCache
from omnigraph.table.layout import Layout


def gather(cache: KeyCache, table: str, layout: Layout, column: str, addresses: Addresses) -> pa.Array[Any] | None:
    """The column at these addresses from what is held; None where a part of it is not."""
    if column not in layout.fields:
        return None
    kind = layout.schema.field(column).type
    if as_key(pa.nulls(0, kind)).type != kind:
        return None
    field = layout.field(column)
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    fragment_ids = (ordered >> np.uint64(32)).astype(np.int64)
    offsets = (ordered & np.uint64(0xFFFFFFFF)).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist(), len(ordered)]
    parts: list[pa.Array[Any]] = []
    loose: list[Any] = []
    for start, end in itertools.pairwise(edges):
        if start == end:
            continue
        held = cache.value_at(table, layout.fragments[int(fragment_ids[start])], field)
        if held is None:
            return None
        if isinstance(held, list):
            loose.extend(held[offset] for offset in offsets[start:end].tolist())
            continue
        if loose:
            parts.append(pa.array(loose, kind))
            loose = []
        parts.append(held.take(picks(offsets[start:end])))
    if loose or not parts:
        parts.append(pa.array(loose, kind))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(picks(back))
