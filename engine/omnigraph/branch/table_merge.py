"""The rows of one table merged: what changed from the bases to the source, done to the target.

What the source wrote is done again, without a look at what was there before, where it wrote no row twice and the target still has
every row that it touched. Else what changed between base and source is read and compared, and of the other states only the rows of the same
ids. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.branch.rowmerge import Clash, Side, fold_bases, merge_columns, side_of
from omnigraph.branch.triple import same_fields
from omnigraph.manifest.ancestry import Base, Place
from omnigraph.read.failures import check_calendar
from omnigraph.read.lifts import NO_FILLS, Fills
from omnigraph.read.row_changes import row_changes
from omnigraph.read.states import Versioned, lifted, nullable_schema
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import TableType
from omnigraph.table.arrays import one_array, positions
from omnigraph.table.delta import columns_of, may_differ
from omnigraph.table.hits import Addresses
from omnigraph.table.written_once import read_written, untouched_at, written_once
from omnigraph.write.base.changes import TypeChange


@dataclass(frozen=True)
class TableMerge:
    """One type in all states of a merge. ``base``: how its base is computed from ``bases``; None where that is not possible."""

    merged: TableType
    bases: Mapping[Place, Versioned]
    base: Base | None
    source: Versioned
    target: Versioned
    strict: bool = False
    fills: Fills = NO_FILLS


@dataclass(frozen=True)
class ClashedRow:
    """A row that cannot be merged. The rows are values by column; None where the state has no such row."""

    id: str
    clash: Clash
    base: Mapping[str, Any] | None
    source: Mapping[str, Any] | None
    target: Mapping[str, Any] | None


@dataclass(frozen=True)
class MergedRows:
    """``change``: what the merge does to the target's rows; None where it does nothing. ``located``: where the rows that it
    replaces or deletes are in the target's version."""

    change: TypeChange | None
    located: pa.Table | None = None
    inserted: int = 0
    clashes: tuple[ClashedRow, ...] = ()
    clashes_total: int = 0


CLASHES_MAX = 1000


@dataclass(frozen=True)
class ChangedRows:
    """Rows that differ between two states, of either, as rows of the merged type. ``before_at``: where those of the state before are
    in its version."""

    before: pa.Table
    after: pa.Table
    before_at: Addresses


def merge_table(one: TableMerge) -> MergedRows:
    """Merge the rows of one table."""
    replayed = _replayed(one)
    return _compared(one) if replayed is None else replayed


def _replayed(one: TableMerge) -> MergedRows | None:
    """What the source wrote done again; None where rows have to be compared."""
    base, source, target = one.base, one.source, one.target
    if len(one.bases) != 1 or not isinstance(base, Place) or not same_fields(one.merged, source.declared):
        return None
    old = one.bases[base]
    sides = old.side(), source.side()
    if sides[0] is None or sides[1] is None or target.side() is None:
        return None
    assert old.declared is not None and source.declared is not None
    columns, meter = columns_of(old.declared, source.declared), source.view.meter
    write = written_once(sides[0], sides[1], columns, meter)
    if write is None:
        return None
    at = _kept_at(old, target, write.touched)
    read = None if at is None else read_written(write, sides[0], sides[1], columns, meter)
    if at is None or read is None:
        return None
    check_calendar(read.rows)
    fresh = one_array(read.rows.column("id"), pa.utf8()).slice(read.replaced)
    if len(fresh) and not _is_same(old, target) and target.located(fresh).num_rows:
        return None
    if not read.rows.num_rows and not len(read.deleted):
        return MergedRows(None)
    rows = lifted(read.rows, source.declared, one.merged, one.fills).cast(table_schema(one.merged))
    change = TypeChange(one.merged, rows, mode="merge", deleted_ids=read.deleted if len(read.deleted) else None)
    return MergedRows(change, pa.table({"id": read.ids, "_rowaddr": pa.array(at)}), len(fresh))


def _is_same(one: Versioned, other: Versioned) -> bool:
    return one.pin is not None and other.pin is not None and one.pin.triple == other.pin.triple


def _compared(one: TableMerge) -> MergedRows:
    known: dict[Place, ChangedRows] = {}
    source_rows: list[pa.Table] = []
    ids: list[Any] = []
    for place, state in one.bases.items():
        changed = changed_rows(state, one.source, one.merged, one.fills)
        known[place] = changed
        source_rows.append(changed.after)
        ids += [_ids(changed.before), _ids(changed.after)]
    if not ids or not sum(map(len, ids)):
        return MergedRows(None)
    asked = pc.unique(pa.concat_arrays(ids))
    single = len(one.bases) == 1
    names = [name for name in one.merged.columns if name != "id"]
    source = side_of(source_rows[0] if single else one.source.rows_by_id(asked, one.merged, one.fills), asked, names)
    base = _base_side(one, one.base, known if single else {}, asked, names)
    target_rows, located = _target_rows(one, known if single else {}, asked)
    target = side_of(target_rows, asked, names)
    merged = merge_columns(base, source, target, strict=one.strict)
    clashes = tuple(
        _clashed(at, clash, asked, base, source, target) for at, clash in list(merged.clashes.items())[:CLASHES_MAX]
    )
    put, gone = merged.changed & merged.present, merged.changed & ~merged.present
    if clashes or not merged.changed.any():
        return MergedRows(None, clashes=clashes, clashes_total=len(merged.clashes))
    rows = _table_of(one.merged, asked, merged.columns, put)
    deleted = asked.take(positions(np.flatnonzero(gone)))
    change = TypeChange(one.merged, rows, mode="merge", deleted_ids=deleted if len(deleted) else None)
    inserted = int((put & pc.is_null(pc.index_in(asked, value_set=located.column("id"))).to_numpy(False)).sum())
    return MergedRows(change, located, inserted)


def changed_rows(before: Versioned, after: Versioned, merged: TableType, fills: Fills = NO_FILLS) -> ChangedRows:
    """The rows that differ between two states."""
    parts = list(row_changes(before, after, fills))
    old = [part.before for part in parts if part.before is not None]
    new = [part.after for part in parts if part.after is not None]
    return ChangedRows(
        _joined(old, before.declared, merged, fills),
        _joined(new, after.declared, merged, fills),
        np.concatenate([np.empty(0, np.uint64), *(part.before_at for part in parts)]),
    )


def versions_differ(one: Versioned, other: Versioned) -> bool:
    """Whether two versions of a table may have different rows, told without reading any: upkeep makes versions that do not."""
    sides = one.side(), other.side()
    if sides[0] is None or sides[1] is None or one.declared is None or other.declared is None:
        return sides != (None, None)
    return may_differ(sides[0], sides[1], columns_of(one.declared, other.declared), one.view.meter)


def _joined(parts: list[pa.Table], declared: TableType | None, merged: TableType, fills: Fills) -> pa.Table:
    if declared is None:
        return _nothing(merged)
    return pa.concat_tables([_nothing(merged), *(lifted(part, declared, merged, fills) for part in parts)])


def _nothing(merged: TableType) -> pa.Table:
    return nullable_schema(merged).empty_table()


def _ids(rows: pa.Table) -> pa.Array[Any]:
    return one_array(rows.column("id"), pa.utf8())


def _base_side(
    one: TableMerge, base: Base | None, known: Mapping[Place, ChangedRows], ids: pa.Array[Any], names: list[str]
) -> Side:
    """The state of the base at these ids; of several bases, the virtual one."""
    if base is None:
        nothing = side_of(_nothing(one.merged), ids, names)
        return Side(nothing.columns, nothing.present, np.ones(len(ids), np.bool_))
    if isinstance(base, Place):
        changed = known.get(base)
        rows = one.bases[base].rows_by_id(ids, one.merged, one.fills) if changed is None else changed.before
        return side_of(rows, ids, names)
    over = None if base.over is None else _base_side(one, base.over, known, ids, names)
    return fold_bases(over, *(_base_side(one, part, known, ids, names) for part in (base.first, base.second)))


def _target_rows(one: TableMerge, known: Mapping[Place, ChangedRows], ids: pa.Array[Any]) -> tuple[pa.Table, pa.Table]:
    """The target's rows of these ids, and where they are. ``known``: what differs between the only base and the source; these ids."""
    target = one.target
    for place, changed in known.items():
        at = _kept_at(one.bases[place], target, changed.before_at)
        mine = _ids(changed.before)
        fresh = ids.filter(pc.invert(pc.is_in(ids, value_set=mine)))
        # What the base lacks, its own version lacks; another one may have got it since.
        if at is not None and (_is_same(one.bases[place], target) or not target.located(fresh).num_rows):
            return changed.before, pa.table({"id": mine, "_rowaddr": pa.array(at)})
    located = target.located(ids)
    if target.pin is None or target.declared is None:
        return _nothing(one.merged), located
    addresses = one_array(located.column("_rowaddr"), pa.uint64())
    return lifted(target.view.table(target.pin).take(addresses), target.declared, one.merged, one.fills), located


def _kept_at(base: Versioned, target: Versioned, at: Addresses) -> Addresses | None:
    """Where rows of the base are in the target; None if that cannot be told, or one of them is not as it was."""
    if _is_same(base, target):
        return at
    sides = base.side(), target.side()
    if sides[0] is None or sides[1] is None or base.declared is None or target.declared is None:
        return None
    return untouched_at(sides[0], sides[1], columns_of(base.declared, target.declared), at, target.view.meter)


def _table_of(merged: TableType, ids: pa.Array[Any], columns: Mapping[str, pa.Array[Any]], chosen: Any) -> pa.Table:
    at = positions(np.flatnonzero(chosen))
    schema = table_schema(merged)
    return pa.table([(ids if name == "id" else columns[name]).take(at) for name in schema.names], schema=schema)


def _clashed(at: int, clash: Clash, ids: pa.Array[Any], *sides: Side) -> ClashedRow:
    def row(side: Side) -> dict[str, Any] | None:
        if not side.present[at]:
            return None
        return {"id": ids[at].as_py(), **{name: column[at].as_py() for name, column in side.columns.items()}}

    base, source, target = sides
    return ClashedRow(ids[at].as_py(), clash, row(base), row(source), row(target))
