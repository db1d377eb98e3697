"""The rows that each of several versions of one table brought: those in fragments that the version before it has not.

One scan reads them all. Each fragment is read as the version has it that brought it, so rows that a later one took away are
among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.core import meter as m
from omnigraph.table.delta import Side
from omnigraph.table.reading import reading

_FRAGMENT = np.uint64(32)


@dataclass(frozen=True)
class Brought:
    """Rows in the order in which they were brought. ``ends``: where the rows of each version end."""

    rows: pa.Table
    ends: tuple[int, ...]


def brought(
    sides: Sequence[Side], columns: Sequence[str], *, rows_max: int, meter: m.Meter | None = None
) -> Brought | None:
    """What every version but the first brought. None: they lie on several lines, the number of a fragment was used twice, or there
    are more rows than that."""
    if len({side.lines[0].ref for side in sides}) > 1:
        return None
    numbers = [set(side.handle.fragment_ids()) for side in sides]
    new = [sorted(now - was) for was, now in pairwise(numbers)]
    known = set(numbers[0])
    for some in new:
        if not known.isdisjoint(some):
            return None
        known.update(some)
    chosen: list[Any] = [
        side.handle.get_fragment(number) for side, some in zip(sides[1:], new, strict=True) for number in some
    ]
    if sum(fragment.metadata.physical_rows for fragment in chosen) > rows_max:
        return None
    last = sides[-1].handle
    if not chosen:
        return Brought(pa.schema([last.schema.field(name) for name in columns]).empty_table(), (0,) * len(new))
    with reading(last, meter, m.DATA, "reading changed rows"):
        rows = last.scanner(
            columns=list(columns), fragments=chosen, with_row_address=True, scan_in_order=True
        ).to_table()
    found = np.asarray(rows.column("_rowaddr").to_numpy(), dtype=np.uint64) >> _FRAGMENT
    counts = dict(zip(*(part.tolist() for part in np.unique(found, return_counts=True)), strict=True))
    ends = np.cumsum([sum(counts.get(number, 0) for number in some) for some in new])
    return Brought(rows.select(list(columns)), tuple(int(end) for end in ends))
