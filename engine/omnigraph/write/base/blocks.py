"""What a rule is given: a block of rows of one change with its place in the whole.

Owns positions: a row's index in its table, and the record it came from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.write.base.changes import Origin, RowIndex, TypeChange
from omnigraph.write.base.constants import PIECE_ROWS
from omnigraph.write.base.wording import Wording as Wording


class OriginLog:
    """Origins of a stream of pieces, one behind the other. Pieces that are numbered on take no memory."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._origins: list[Origin] = []
        self._rows = 0

    def add(self, origin: Origin, rows: int) -> None:
        if not (self._origins and self._runs_on(origin)):
            self._starts.append(self._rows)
            self._origins.append(origin)
        self._rows += rows

    def _runs_on(self, origin: Origin) -> bool:
        last = self._origins[-1]
        if last.numbers is not None or origin.numbers is not None or len(last.parts) + len(origin.parts) != 2:
            return False
        a, b = last.parts[0], origin.parts[0]
        return (a.name, a.order) == (b.name, b.order) and b.first_number - a.first_number == self._rows - self._starts[
            -1
        ]

    def place(self, row: int) -> tuple[int, str | None, int]:
        at = bisect_right(self._starts, row) - 1
        return self._origins[at].place(row - self._starts[at])


@dataclass(frozen=True)
class Block:
    """Rows ``first_row`` and following of a change."""

    batch: pa.RecordBatch
    first_row: int
    minted: bool | npt.NDArray[np.bool_]
    wording: Wording

    def given(self) -> RowIndex | None:
        """Rows of the block whose ids were not made here; ``None`` means all."""
        if self.minted is False:
            return None
        if self.minted is True:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(~self.minted)


def blocks_of(change: TypeChange) -> Iterator[Block]:
    wording = Wording(change.type, change.origin)
    first_row = 0
    for batch in change.rows.to_batches(max_chunksize=PIECE_ROWS):
        if batch.num_rows == 0:
            continue
        minted = change.minted
        if not isinstance(minted, bool):
            minted = minted[first_row : first_row + batch.num_rows]
        yield Block(batch, first_row, minted, wording)
        first_row += batch.num_rows
