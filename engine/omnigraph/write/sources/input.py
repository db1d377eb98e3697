"""An input read whole: rows per type, where they came from, and what was refused on the way.

Owns the collecting and its bounds. ``read_source`` is what a load calls for records and for every input that has to be
held anyway; an append of readers uses ``stream`` instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.core import progress
from omnigraph.core.clock import Clock
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, TableType
from omnigraph.write.base.changes import InputMode, Mode, Origin, SourcePart, TypeChange, Unnamed
from omnigraph.write.base.rejects import Rejected, Rejects
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.sources.files import Opener
from omnigraph.write.sources.opening import Context, is_record_source, open_tables, read_records
from omnigraph.write.sources.pieces import Piece

# Many short pieces cost more a row in everything that follows than one copy of them.
_PIECE_ROWS_MIN: Final = 1 << 15
# Offsets of texts are 32 bit: what is combined has to stay below.
_COMBINED_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True)
class TypeInput:
    """The rows of one type, in the physical schema."""

    type: TableType
    rows: pa.Table
    minted: bool | npt.NDArray[np.bool_]
    origin: Origin
    unnamed: Unnamed = field(default_factory=dict)

    def change(self, mode: InputMode) -> TypeChange:
        checked: Mode = "merge" if mode == "patch" else mode
        unnamed = self.unnamed if mode == "patch" else None
        return TypeChange(self.type, self.rows, checked, minted=self.minted, origin=self.origin, unnamed=unnamed)


@dataclass(frozen=True)
class Input:
    """``tables`` by table key, in its order; a type that the input names without rows is there with none."""

    tables: dict[str, TypeInput] = field(default_factory=dict)
    records: int = 0  # all that were read, refused ones included
    malformed: ViolationLog = field(default_factory=ViolationLog)
    rejected: tuple[Rejected, ...] = ()  # only where bad rows are to be set aside
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.rows.num_rows for table in self.tables.values())

    def changes(self, mode: InputMode) -> list[TypeChange]:
        return [table.change(mode) for table in self.tables.values()]


def read_source(
    source: Any,
    catalog: Catalog,
    limits: Limits = DEFAULT_LIMITS,
    *,
    mode: InputMode = "append",
    clock: Clock | None = None,
    keep_rejected: bool = False,
    opener: Opener | None = None,
) -> Input:
    """Read all of ``source``. Bad records are counted in ``malformed``, and kept if asked for; nothing is raised for them.

    Raised is what is wrong with the source as a whole: no such file, a table without a needed column, a passed limit.
    """
    rejects = Rejects(keep_rejected)
    context = Context(catalog, limits, clock, rejects, opener, partial=mode == "patch")
    collected = _Collector(limits, mode)
    if is_record_source(source):
        records = read_records(source, context, collected.add)
    else:
        for stream in open_tables(source, context):
            collected.open(stream.type)
            for piece in stream.pieces():
                collected.add(stream.type, piece)
        records = collected.count + rejects.refused
    rejected = tuple(sorted(rejects.records, key=lambda one: one.order))
    return Input(collected.tables(), records, rejects.log, rejected, rejects.warnings)


class _Collector:
    def __init__(self, limits: Limits, mode: InputMode) -> None:
        self._limits = limits
        self._mode = mode
        self._pieces: dict[str, tuple[TableType, list[Piece]]] = {}
        self.count = 0

    def open(self, declared: TableType) -> None:
        self._pieces.setdefault(declared.table_key, (declared, []))

    def add(self, declared: TableType, piece: Piece) -> None:
        self.open(declared)
        self._pieces[declared.table_key][1].append(piece)
        self.count += piece.batch.num_rows
        progress.advance(piece.batch.num_rows, subject=declared.table_key)
        if self._mode != "append":
            # Before the memory is gone, not after.
            self._limits.check(f"{'merge' if self._mode == 'patch' else self._mode}_rows", self.count)

    def tables(self) -> dict[str, TypeInput]:
        return {key: _joined(*self._pieces[key]) for key in sorted(self._pieces)}


def _joined(declared: TableType, pieces: list[Piece]) -> TypeInput:
    pieces = [piece for piece in pieces if piece.batch.num_rows]
    rows = pa.Table.from_batches([piece.batch for piece in pieces], schema=table_schema(declared))
    if len(pieces) > 1 and rows.num_rows < len(pieces) * _PIECE_ROWS_MIN and rows.nbytes < _COMBINED_BYTES_MAX:
        rows = rows.combine_chunks()
    return TypeInput(declared, rows, _minted(pieces), join_origins(pieces), _unnamed(pieces))


def _unnamed(pieces: list[Piece]) -> Unnamed:
    names = sorted({name for piece in pieces for name in piece.unnamed})
    found: dict[str, bool | npt.NDArray[np.bool_]] = {}
    for name in names:
        masks = [piece.unnamed.get(name, False) for piece in pieces]
        if all(mask is True for mask in masks):
            found[name] = True
            continue
        found[name] = np.concatenate(
            [
                np.full(piece.batch.num_rows, mask) if isinstance(mask, bool) else mask
                for piece, mask in zip(pieces, masks, strict=True)
            ]
        )
    return found


def _minted(pieces: list[Piece]) -> bool | npt.NDArray[np.bool_]:
    if all(piece.minted is True for piece in pieces):
        return bool(pieces)
    if all(piece.minted is False for piece in pieces):
        return False
    return np.concatenate(
        [np.full(p.batch.num_rows, p.minted) if isinstance(p.minted, bool) else p.minted for p in pieces]
    )


def join_origins(pieces: list[Piece]) -> Origin:
    """One origin for all pieces; a number a row only where rows are not numbered through."""
    if not pieces:
        return Origin()
    parts: list[SourcePart] = []
    first_row = 0
    for piece in pieces:
        parts += [replace(part, first_row=first_row + part.first_row) for part in piece.origin.parts]
        first_row += piece.batch.num_rows
    if all(piece.origin.numbers is None for piece in pieces):
        return Origin(tuple(_merged(parts)))
    numbers = [_numbers(piece) for piece in pieces]
    return Origin(tuple(parts), np.concatenate(numbers))


def _merged(parts: list[SourcePart]) -> list[SourcePart]:
    merged = parts[:1]
    for part in parts[1:]:
        last = merged[-1]
        runs_on = part.first_number - last.first_number == part.first_row - last.first_row
        if not (runs_on and (part.name, part.order) == (last.name, last.order)):
            merged.append(part)
    return merged


def _numbers(piece: Piece) -> npt.NDArray[np.int64]:
    if piece.origin.numbers is not None:
        return piece.origin.numbers
    rows = np.arange(piece.batch.num_rows, dtype=np.int64)
    taken = piece.origin.take(rows).numbers
    assert taken is not None
    return taken
