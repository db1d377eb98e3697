"""The change set: what an operation wants a branch to become, type by type, and the committed side it is checked on.

Shared by load, mutation, merge and staged batches. Owns the shapes only; it must not read, judge or write anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.core.modes import INPUT_MODES as INPUT_MODES
from omnigraph.core.modes import MODES as MODES
from omnigraph.core.modes import InputMode as InputMode
from omnigraph.core.modes import Mode as Mode
from omnigraph.schema.catalog import TableType

if TYPE_CHECKING:
    import pyarrow as pa

RowIndex = npt.NDArray[np.int64]
# Properties that rows do not name: ``True`` means that no row names it. A property that every row names is absent.
Unnamed = Mapping[str, bool | npt.NDArray[np.bool_]]


class PinnedView(Protocol):
    """The committed rows of a branch at the pins of one transaction. Answers never change."""

    def rows(self, table_key: str) -> int:
        """Row count at the pin; costs nothing."""
        ...

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        """Which of ``ids`` are committed, aligned with them."""
        ...

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        """Rows whose ``column`` is one of ``values``."""
        ...

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Every row."""
        ...


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A stretch of rows that came from one source. ``first_number`` is the record number of its first row."""

    first_row: int = 0
    name: str | None = None
    order: int = 0
    first_number: int = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of one table came from. Without ``numbers`` each part is numbered on from its first row."""

    parts: tuple[SourcePart, ...] = (SourcePart(),)
    numbers: RowIndex | None = None  # record number per row
    part_of: npt.NDArray[np.int32] | None = None  # part per row, where rows have been taken out

    def _part(self, row: int) -> SourcePart:
        if self.part_of is not None:
            return self.parts[int(self.part_of[row])]
        found = self.parts[0]
        for part in self.parts:
            if part.first_row > row:
                break
            found = part
        return found

    def place(self, row: int) -> tuple[int, str | None, int]:
        """Record number, source name, source order."""
        part = self._part(row)
        number = part.first_number + row - part.first_row if self.numbers is None else int(self.numbers[row])
        return number, part.name, part.order

    def take(self, rows: RowIndex) -> Origin:
        if self.part_of is not None:
            part_of = self.part_of[rows]
        elif len(self.parts) == 1:
            part_of = None
        else:
            starts = np.array([part.first_row for part in self.parts], dtype=np.int64)
            part_of = (np.searchsorted(starts, rows, side="right") - 1).astype(np.int32)
        if self.numbers is not None:
            return replace(self, numbers=self.numbers[rows], part_of=part_of)
        if part_of is None:
            numbers = rows - self.parts[0].first_row + self.parts[0].first_number
        else:
            shift = np.array([part.first_number - part.first_row for part in self.parts], dtype=np.int64)
            numbers = rows + shift[part_of]
        return replace(self, numbers=numbers, part_of=part_of)


@dataclass(frozen=True)
class TypeChange:
    """One table's share of the change set.

    ``rows`` are in the physical schema, ids included. In ``append`` they are new rows, in ``merge`` they replace
    committed rows of their ids or are new, in ``overwrite`` they are all that the table shall hold. ``minted`` marks
    rows whose id was made for this operation and so cannot be anybody else's. ``deleted_ids`` leave the table.
    """

    type: TableType
    rows: pa.Table
    mode: Mode = "append"
    minted: bool | npt.NDArray[np.bool_] = False
    deleted_ids: pa.Array[Any] | None = None
    origin: Origin = field(default_factory=Origin)
    # The caller has already taken along every edge of the nodes it deletes: committed edges need not be searched again.
    cascaded: bool = False
    # Columns in which every row is known to equal the committed row of its id: what they obey already need not be asked.
    kept: frozenset[str] = frozenset()
    # Rows whose id the input did not give: it is that of the committed edge that they mean. None means no row.
    adopted: npt.NDArray[np.bool_] | None = None
    # Of a patch: properties that rows do not name, so that a committed row keeps its value. ``completed``: they are filled in.
    unnamed: Unnamed | None = None
    completed: bool = False

    @cached_property
    def table_key(self) -> str:
        return self.type.table_key

    def minted_rows(self) -> npt.NDArray[np.bool_]:
        if isinstance(self.minted, bool):
            return np.full(self.rows.num_rows, self.minted)
        return self.minted

    def take(self, rows: RowIndex) -> TypeChange:
        """The same change with only the rows named, in the order given."""
        from omnigraph.table.arrays import positions

        minted = self.minted if isinstance(self.minted, bool) else self.minted[rows]
        adopted = None if self.adopted is None else self.adopted[rows]
        taken = self.rows.take(positions(rows))
        return replace(
            self,
            rows=taken,
            minted=minted,
            adopted=adopted,
            unnamed=None if self.unnamed is None else take_unnamed(self.unnamed, rows),
            origin=self.origin.take(rows),
        )


def take_unnamed(unnamed: Unnamed, rows: RowIndex) -> Unnamed:
    """The same of the rows named."""
    return {name: mask if isinstance(mask, bool) else mask[rows] for name, mask in unnamed.items()}


class RecordingView:
    """A view that notes which tables were asked: the read set, exactly."""

    def __init__(self, view: PinnedView) -> None:
        self._view = view
        self.reads: set[str] = set()

    def rows(self, table_key: str) -> int:
        # "There is nothing" is an answer that a rival's insert would change, so asking for it is reading.
        self.reads.add(table_key)
        return self._view.rows(table_key)

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        self.reads.add(table_key)
        return self._view.contains(table_key, ids)

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        self.reads.add(table_key)
        return self._view.fetch(table_key, column, values, columns)

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.reads.add(table_key)
        return self._view.scan(table_key, columns)
