"""How one row is merged from three states of it: one rule, for single rows and for Arrow columns. Pure.

The rule is symmetric in source and target: who merges into whom decides which rows have to be written, never which values
they get. Equality is typed and null-aware; lists are compared by value. ``merge_row`` is the rule itself; ``merge_columns``
gives the same answers for many rows at once, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.reasons import ConflictKind
from omnigraph.table.arrays import one_array
from omnigraph.table.row_equality import same_column

Row = Mapping[str, Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Clash:
    """The two sides cannot both be kept. ``properties``: those that they disagree on; none where one side has no row."""

    kind: ConflictKind
    properties: tuple[str, ...] = ()


def merge_row(base: Row | None, source: Row | None, target: Row | None, *, strict: bool = False) -> Row | Clash | None:
    """Return the merged row, None where there is none, or why the sides clash. All rows have the same properties.

    ``strict``: two sides that changed the same row clash also where they changed different properties of it.
    """
    if source == target or base == source:
        return target
    if base == target:
        return source
    if source is None or target is None:
        return Clash("delete_vs_update")
    differ = tuple(name for name in source if source[name] != target[name])
    if base is None:
        return Clash("divergent_insert", differ)
    both = tuple(name for name in differ if source[name] != base[name] and target[name] != base[name])
    if strict or both:
        return Clash("divergent_update", both or differ)
    return {name: source[name] if source[name] != base[name] else target[name] for name in source}


# --- many rows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One state of a list of ids, position by position. Where ``present`` is false, the columns hold anything.

    ``ambiguous``: positions whose value cannot be told; only a base has them."""

    columns: Mapping[str, pa.Array[Any]]
    present: Mask
    ambiguous: Mask | None = None

    def __len__(self) -> int:
        return len(self.present)


@dataclass(frozen=True)
class MergedColumns:
    """``changed``: positions whose merged row is not the target's. ``present`` tells whether there is one; ``columns`` hold
    it for every position. ``clashes``: by position."""

    columns: Mapping[str, pa.Array[Any]]
    present: Mask
    changed: Mask
    clashes: Mapping[int, Clash]


@dataclass(frozen=True)
class _Equal:
    """Which of two sides are equal: whole rows, and by property where both have a row."""

    rows: Mask
    by_name: Mapping[str, Mask]


def merge_columns(base: Side, source: Side, target: Side, *, strict: bool = False) -> MergedColumns:
    """``merge_row`` at every position. A position whose base is ambiguous clashes unless both sides are equal."""
    same = _equal(source, target)
    unchanged = _equal(base, source)
    stays = _equal(base, target)
    known = np.ones(len(source), np.bool_) if base.ambiguous is None else ~base.ambiguous
    keep = same.rows | (unchanged.rows & known)
    take = stays.rows & known & ~keep
    open_ = ~keep & ~take
    mixable = open_ & base.present & source.present & target.present & known
    contested = {
        name: mixable & ~same.by_name[name] & ~unchanged.by_name[name] & ~stays.by_name[name] for name in source.columns
    }
    clash = open_ & ~mixable
    for mask in contested.values():
        clash |= mask
    if strict:
        clash |= mixable
    columns = {
        name: _choose(take | (mixable & ~unchanged.by_name[name]), source.columns[name], target.columns[name])
        for name in source.columns
    }
    clashes = {int(at): _clash(int(at), base, source, target, same, contested) for at in np.flatnonzero(clash).tolist()}
    differs = np.zeros(len(source), np.bool_)  # where the source has brought the target something that it did not have
    for name in source.columns:
        differs |= ~unchanged.by_name[name] & ~same.by_name[name]
    changed = (take | (mixable & differs)) & ~clash
    return MergedColumns(columns, np.where(take, source.present, target.present), changed, clashes)


def fold_bases(over: Side | None, first: Side, second: Side) -> Side:
    """The virtual base of two bases: what merging them over ``over`` gives, ambiguous where they clash.

    ``over`` is None where nothing is known about what they come from: they are ambiguous unless they agree.
    """
    if over is None:
        nowhere = np.zeros(len(first), np.bool_)
        over = Side(first.columns, nowhere, np.ones(len(first), np.bool_))
    merged = merge_columns(over, second, first)
    ambiguous = np.zeros(len(first), np.bool_)
    ambiguous[list(merged.clashes)] = True
    for side in (first, second):
        if side.ambiguous is not None:
            ambiguous |= side.ambiguous
    return Side(merged.columns, merged.present, ambiguous)


def _equal(left: Side, right: Side) -> _Equal:
    both = left.present & right.present
    by_name = {name: same_column(left.columns[name], right.columns[name], both) for name in right.columns}
    rows = both.copy()
    for mask in by_name.values():
        rows &= mask
    return _Equal(rows | (~left.present & ~right.present), by_name)


def _choose(from_source: Mask, source: pa.Array[Any], target: pa.Array[Any]) -> pa.Array[Any]:
    if not from_source.any():
        return target
    if from_source.all():
        return source
    here = np.arange(len(from_source), dtype=np.int64)
    places: Any = pa.array(np.where(from_source, here, here + len(here)))
    return pa.concat_arrays([source, target]).take(places)


def _clash(at: int, base: Side, source: Side, target: Side, same: _Equal, contested: Mapping[str, Mask]) -> Clash:
    if not (source.present[at] and target.present[at]):
        return Clash("delete_vs_update")
    differ = _named(at, {name: ~mask for name, mask in same.by_name.items()})
    known = base.ambiguous is None or not base.ambiguous[at]
    if known and not base.present[at]:
        return Clash("divergent_insert", differ)
    return Clash("divergent_update", _named(at, contested) or differ)


def _named(at: int, masks: Mapping[str, Mask]) -> tuple[str, ...]:
    return tuple(name for name, mask in masks.items() if mask[at])


def side_of(rows: pa.Table, ids: pa.Array[Any], names: Sequence[str]) -> Side:
    """The state of ``ids`` in ``rows``, which hold some of them, in any order."""
    have = one_array(rows.column("id"), ids.type)
    place = pc.index_in(ids, value_set=have)
    present = np.asarray(place.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    columns = {name: one_array(rows.column(name), rows.schema.field(name).type).take(place) for name in names}
    return Side(columns, present)
