"""The difference of two versions of one table: the rows that were inserted, deleted and updated between them.

Costs what has changed: ``stamps`` says which rows may differ, and only those are read, compared by ``id`` and by value.
Columns are matched by the identity of their property, so a rename is no change, a widened number equals the narrower one,
and a property that one version lacks is compared only where it is known what it was. Lance's own ``delta()`` must not be
used: across a restored version it finds nothing.

Rows are handed out in batches. What is held of all rows that may differ is their address, and their id where they are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core import meter as m
from omnigraph.schema import TableType
from omnigraph.table.arrays import nulls, positions
from omnigraph.table.blob import READ_BYTES, blob_columns, logical_schema
from omnigraph.table.predicate import addresses_among
from omnigraph.table.reading import reading
from omnigraph.table.row_equality import same_column
from omnigraph.table.stamps import (
    Candidates,
    Compared,
    KnownDeletions,
    Line,
    Numbers,
    Reason,
    addresses,
    candidates,
    nothing_known,
)

if TYPE_CHECKING:
    from lance import LanceDataset

Kind = Literal["delete", "update", "insert"]

HELD_ROWS_MAX = 16_384
"""Rows that may differ, of both versions together, up to which they are read once, whole. Of more the ids are read first."""

BATCH_ROWS = 16_384
BLOB_BATCH_ROWS = 16
"""With blobs, which may have 32 MiB each."""

_ADDRESSES_PER_FILTER = 4096
_OFFSET = np.uint64(0xFFFFFFFF)
_NONE: Final = np.empty(0, np.uint64)


class _Null:
    """What a property was in rows that had none."""

    def __repr__(self) -> str:
        return "NULL"


NULL: Final = _Null()
Lift = Callable[[pa.Table], Any]


@dataclass(frozen=True)
class Column:
    """One column as two versions have it. ``id``: the identity of the property, or the name of a column of every table.

    ``before`` is None where the property was added between the versions, ``after`` where it was dropped. ``lift`` says what
    an added one was in a row before: ``NULL``, or a function of such rows that makes the column. Without it, the property
    is not compared. ``was_dropped``: the version before had it once, so equal stamps do not say that it is null in both.
    """

    id: str
    before: str | None
    after: str | None
    lift: Lift | _Null | None = None
    was_dropped: bool = False

    @property
    def compared(self) -> bool:
        return self.after is not None and (self.before is not None or self.lift is not None)


@dataclass(frozen=True)
class Side:
    """One version of the table. ``lines``: its own line and version first, then those it was forked from, nearest first.
    ``deletions``: those that are in memory."""

    handle: LanceDataset
    lines: tuple[Line, ...]
    deletions: KnownDeletions = nothing_known


@dataclass(frozen=True)
class Delta:
    """Rows that differ, of one kind: ``before`` and ``after`` position by position, under the column names of their version;
    None for the version that lacks the rows. ``changed``: by the id of each column, in which rows of an update it differs.
    ``before_at``: the addresses of the rows in the version before.
    """

    kind: Kind
    before: pa.Table | None
    after: pa.Table | None
    changed: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    before_at: Numbers = field(default_factory=lambda: _NONE)

    @property
    def rows(self) -> int:
        held = self.before if self.after is None else self.after
        assert held is not None
        return held.num_rows


@dataclass
class Looked:
    """What a comparison cost. ``reason``: why all rows of the table had to be read, if so."""

    stamps: int = 0
    rows: int = 0
    reason: Reason | None = None


def columns_of(before: TableType, after: TableType) -> tuple[Column, ...]:
    """The columns of a type in two schemas, matched by identity, older ones included. Added properties are not compared."""
    fixed = [Column(name, name, name) for name in after.columns if name not in after.by_name]
    found = []
    matched = set()
    for prop in after.properties:
        was = next((before.by_id[known] for known in prop.ids if known in before.by_id), None)
        if was is None:
            # What the other side calls by an older identity of its own.
            was = next((one for one in before.properties if set(one.ids) & set(prop.ids)), None)
        found.append(Column(prop.prop_id, None if was is None else was.name, prop.name))
        if was is not None:
            matched.add(was.name)
    gone = [Column(prop.prop_id, prop.name, None) for prop in before.properties if prop.name not in matched]
    return (*fixed, *found, *gone)


def delta(
    before: Side | None,
    after: Side | None,
    columns: Sequence[Column],
    *,
    meter: m.Meter | None = None,
    looked: Looked | None = None,
    batch_rows: int | None = None,
) -> Iterator[Delta]:
    """What changed from ``before`` to ``after``: deletes, then updates, then inserts. None is a table without rows.

    Rows of a kind come in the order in which they are stored.
    """
    looked = looked if looked is not None else Looked()
    old = None if before is None else _Reader(before, _names(columns, "before"), meter, looked)
    new = None if after is None else _Reader(after, _names(columns, "after"), meter, looked)
    size = batch_rows or (BLOB_BATCH_ROWS if any(one and one.blobs for one in (old, new)) else BATCH_ROWS)
    found = candidates_of(before, after, columns, meter, looked)
    joined = _join(old, new, found.before, found.after)
    if old is not None:
        for some in _chunks(joined.deleted, size):
            yield Delta("delete", old.rows(some), None, before_at=some)
    if old is not None and new is not None:
        for at in range(0, len(joined.updated_before), size):
            rows = slice(at, at + size)
            mine, theirs = joined.updated_before[rows], joined.updated_after[rows]
            yield from _updates(old.rows(mine), new.rows(theirs), columns, mine)
    if new is not None:
        for some in _chunks(joined.inserted, size):
            yield Delta("insert", None, new.rows(some))


def may_differ(before: Side, after: Side, columns: Sequence[Column], meter: m.Meter | None = None) -> bool:
    """Whether any row may differ, told without reading one. False: the versions have equal rows, however they are stored."""
    found = candidates_of(before, after, columns, meter, Looked())
    return bool(len(found.before) or len(found.after))


def _names(columns: Sequence[Column], side: Literal["before", "after"]) -> list[str]:
    names = (column.before if side == "before" else column.after for column in columns)
    return [name for name in names if name is not None]


def _chunks(rows: Numbers, size: int) -> Iterator[Numbers]:
    for at in range(0, len(rows), size):
        yield rows[at : at + size]


# --- which rows ---------------------------------------------------------------------------------------------------------


def candidates_of(
    before: Side | None, after: Side | None, columns: Sequence[Column], meter: m.Meter | None, looked: Looked
) -> Candidates:
    """The rows of either version that may differ, told from the columns that are compared."""
    if before is None or after is None:
        mine, theirs = (_NONE if side is None else addresses(side.handle, meter) for side in (before, after))
        return Candidates(mine, theirs)
    if any(column.was_dropped for column in columns):
        looked.reason = "columns"
        return Candidates(addresses(before.handle, meter), addresses(after.handle, meter))
    # What a property was filled with lies in a file of its own beside those of the row, and is known without it.
    chosen = [column for column in columns if column.compared and not callable(column.lift)]
    found = candidates(
        compared(before, [column.before for column in chosen]),
        compared(after, [column.after for column in chosen]),
        meter,
    )
    looked.stamps += found.stamps
    looked.reason = found.reason
    return found


def compared(side: Side, names: Sequence[str | None]) -> Compared:
    """A version with the columns that are compared, None for one that it lacks."""
    fields = {one.name(): frozenset(_ids(one)) for one in side.handle.lance_schema.fields()}
    none: frozenset[int] = frozenset()
    asked = tuple(none if name is None else fields[name] for name in names)
    return Compared(side.handle, side.lines, asked, side.deletions)


def _ids(one: Any) -> Iterator[int]:
    yield one.id()
    for child in one.children():
        yield from _ids(child)


@dataclass(frozen=True)
class _Joined:
    """Addresses. ``updated_before`` and ``updated_after`` have the same id, position by position; they may be equal rows."""

    deleted: Numbers
    updated_before: Numbers
    updated_after: Numbers
    inserted: Numbers


def _join(old: _Reader | None, new: _Reader | None, before: Numbers, after: Numbers) -> _Joined:
    if old is None or new is None or not len(before) or not len(after):
        return _Joined(before, _NONE, _NONE, after)
    if len(before) + len(after) <= HELD_ROWS_MAX and not old.blobs and not new.blobs:
        old.hold(before)
        new.hold(after)
    mine, theirs = old.ids(before), new.ids(after)
    place = pc.index_in(theirs, value_set=mine)
    fresh = np.asarray(place.is_null().to_numpy(zero_copy_only=False))
    partner = np.asarray(place.drop_null().to_numpy(zero_copy_only=False), dtype=np.int64)
    gone = np.ones(len(before), dtype=np.bool_)
    gone[partner] = False
    return _Joined(before[gone], before[partner], after[~fresh], after[fresh])


def differing(before: pa.Table, after: pa.Table, columns: Sequence[Column]) -> dict[str, npt.NDArray[np.bool_]]:
    """By the id of each column that is compared, in which rows it differs. The rows have equal ids, position by position."""
    changed = {}
    asked = np.ones(after.num_rows, dtype=np.bool_)
    for column in columns:
        if column.compared and column.id != "id":
            assert column.after is not None
            values = after.column(column.after)
            changed[column.id] = ~same_column(_value_before(column, before, values.type), values, asked)
    return changed


def _updates(before: pa.Table, after: pa.Table, columns: Sequence[Column], before_at: Numbers) -> Iterator[Delta]:
    """The rows that differ, of rows with equal ids."""
    changed = differing(before, after, columns)
    some = np.logical_or.reduce([np.zeros(after.num_rows, dtype=np.bool_), *changed.values()])
    if some.any():
        rows = positions(np.flatnonzero(some))
        yield Delta(
            "update",
            before.take(rows),
            after.take(rows),
            {name: mask[some] for name, mask in changed.items() if mask.any()},
            before_at[some],
        )


def _value_before(column: Column, before: pa.Table, kind: Any) -> Any:
    if column.before is not None:
        return before.column(column.before)
    return column.lift(before) if callable(column.lift) else nulls(before.num_rows, kind)


# --- rows ---------------------------------------------------------------------------------------------------------------


def read_rows(side: Side, names: Sequence[str], wanted: Numbers, meter: m.Meter | None) -> pa.Table:
    """Some columns of the rows at these addresses, in their order."""
    reader = _Reader(side, list(names), meter, Looked())
    parts = [reader.rows(some) for some in _chunks(wanted, BATCH_ROWS)]
    return pa.concat_tables(parts or [reader.rows(wanted)])


class _Reader:
    """Rows of one version by their addresses."""

    def __init__(self, side: Side, names: list[str], meter: m.Meter | None, looked: Looked) -> None:
        self._handle = side.handle
        self._meter = meter
        self._looked = looked
        self._schema = pa.schema([_plain(logical_schema(side.handle.schema).field(name)) for name in names])
        self._held: tuple[Numbers, pa.Table] | None = None
        self._live: tuple[int, Numbers] | None = None
        self.blobs = bool(set(blob_columns(side.handle.schema)) & set(names))

    def hold(self, wanted: Numbers) -> None:
        """Read rows now, in one go, that are asked for later."""
        self._held = (wanted, self._read(wanted, self._schema.names))

    def ids(self, wanted: Numbers) -> Any:
        """The ids of rows whose addresses rise."""
        if self._held is not None:
            return self._of_held(wanted).column("id").combine_chunks()
        return self._read(wanted, ["id"]).column("id").combine_chunks()

    def rows(self, wanted: Numbers) -> pa.Table:
        """Rows, in the order of the addresses."""
        if self._held is not None:
            return self._of_held(wanted)
        order = np.argsort(wanted, kind="stable")
        rows = self._read(wanted[order], self._schema.names)
        if (np.diff(order) == 1).all():
            return rows
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return rows.take(positions(place))

    def _of_held(self, wanted: Numbers) -> pa.Table:
        assert self._held is not None
        known, rows = self._held
        return rows.take(positions(np.searchsorted(known, wanted).astype(np.int64)))

    def _read(self, wanted: Numbers, names: list[str]) -> pa.Table:
        """Rows whose addresses rise."""
        schema = pa.schema([self._schema.field(name) for name in names])
        self._looked.rows += len(wanted)
        parts: list[pa.Table] = []
        with reading(self._handle, self._meter, m.DATA, "reading changed rows"):
            if self.blobs or len(wanted) <= _ADDRESSES_PER_FILTER:
                parts += [self._find(some, names) for some in _chunks(wanted, _ADDRESSES_PER_FILTER)]
            else:
                fragments = (wanted >> np.uint64(32)).astype(np.int64)
                parts += [self._take(some, names) for some in np.split(wanted, np.flatnonzero(np.diff(fragments)) + 1)]
        return pa.concat_tables([pa.table(part.columns, schema=schema) for part in parts] or [schema.empty_table()])

    def _find(self, wanted: Numbers, names: list[str]) -> pa.Table:
        """A few rows of any fragments, which Lance reads side by side. Blobs come as bytes."""
        numbers = np.unique(wanted >> np.uint64(32)).tolist()
        rows = self._handle.scanner(
            columns=names,
            filter=addresses_among(pa.array(wanted)),
            fragments=[cast(Any, self._handle.get_fragment(number)) for number in numbers],
            with_row_address=True,
            **READ_BYTES,
        ).to_table()
        return rows.take(pc.index_in(pa.array(wanted), value_set=rows.column("_rowaddr"))).select(names)

    def _take(self, wanted: Numbers, names: list[str]) -> pa.Table:
        """Many rows of one fragment. Lance counts only those that are not deleted."""
        number = int(wanted[0] >> np.uint64(32))
        fragment: Any = self._handle.get_fragment(number)
        offsets = wanted & _OFFSET
        if fragment.metadata.num_deletions:
            if self._live is None or self._live[0] != number:
                self._live = number, addresses(self._handle, self._meter, [number])
            offsets = np.searchsorted(self._live[1], wanted).astype(np.uint64)
        taken: pa.Table = fragment.take(offsets.tolist(), columns=names)
        return taken.select(names)


def _plain(column: pa.Field[Any]) -> pa.Field[Any]:
    """A row before may be a null where the column takes none now."""
    return pa.field(column.name, column.type)
