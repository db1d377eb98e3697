"""What a rule is given: a block of rows of one change with its place in the whole.

Owns positions: a row's index in its table, the record it came from, and the wording that every violation shares.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.schema.catalog import TableType
from omnigraph.write.changes import Origin, RowIndex, TypeChange
from omnigraph.write.rows import PIECE_ROWS
from omnigraph.write.violations import Violation, show_value


class Places(Protocol):
    def place(self, row: int) -> tuple[int, str | None, int]: ...


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


class _Nowhere:
    """For violations of committed rows, which came with no record of this input."""

    def place(self, row: int) -> tuple[int, str | None, int]:
        raise LookupError(row)


NOWHERE: Final = _Nowhere()


@dataclass(frozen=True)
class Wording:
    """Violations of one table's rows: who, where, what."""

    type: TableType
    places: Places

    def row(
        self,
        row: int,
        code: str,
        reason: str,
        *,
        property: str | None = None,
        value: Any = None,
        expected: str | None = None,
        id: str | None = None,
    ) -> Violation:
        number, source, order = self.places.place(row)
        found = self.committed(code, reason, property=property, value=value, expected=expected, id=id)
        return found.at(number, source, order)

    def committed(
        self,
        code: str,
        reason: str,
        *,
        property: str | None = None,
        value: Any = None,
        expected: str | None = None,
        id: str | None = None,
    ) -> Violation:
        """About something that is no row of the input."""
        name = self.type.name
        return Violation(
            code,
            f"{name}.{property} {reason}" if property else f"{name} {reason}",
            table_key=self.type.table_key,
            type=name,
            property=property,
            id=None if id is None else id[:1024],
            value=None if value is None else show_value(value),
            expected=expected,
        )

    def record(self, row: int) -> str:
        """``record 7``, with its source if that is another."""
        number, source, _ = self.places.place(row)
        return f"{source} record {number}" if source else f"record {number}"


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
