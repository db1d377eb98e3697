"""Stretches of a change feed: swaps one after the other that inserted and updated rows, and deleted none, read at once.

A row that was updated is the newest one with its id before: among the rows that the stretch itself has brought, or in the table as it
was before. What each swap comes to is held against the counts of its commits; where they differ, the swaps are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.commit.engine import Engine, gather
from omnigraph.core.meter import Meter
from omnigraph.read.failures import check_calendar
from omnigraph.read.feed_walk import Counted, Swap, counted_in
from omnigraph.read.row_changes import explained
from omnigraph.read.states import Versioned
from omnigraph.table.arrays import one_array, positions
from omnigraph.table.blob import blob_columns
from omnigraph.table.delta import Column, Delta, columns_of, differing
from omnigraph.table.rows_of_versions import Brought, brought

STRETCH_SWAPS_MAX: Final = 128
STRETCH_ROWS_MAX: Final = 4096  # held at once
STRETCH_SWAPS_MIN: Final = 3

Written = tuple[tuple[Delta, ...], ...]  # what each swap did to a table


def read_stretch(
    engine: Engine, swaps: Sequence[Swap], tables: Mapping[str, Sequence[Versioned]], meter: Meter
) -> dict[str, Written] | None:
    """By identity of the table: what each swap did to it. ``tables``: each as it was before the first swap and after every one.
    None: compare the swaps one by one."""
    found = {}
    for identity, versions in tables.items():
        with explained(versions[0], versions[-1]):
            written = _read_table(engine, versions, [counted_in(swap, identity) for swap in swaps], meter)
        if written is None:
            return None
        found[identity] = written
    return found


def _read_table(
    engine: Engine, versions: Sequence[Versioned], counted: Sequence[Counted], meter: Meter
) -> Written | None:
    first, declared = versions[0], versions[0].declared
    if declared is None or any(one.pin is None for one in versions):
        return None
    names = list(declared.columns)
    pins = {one.pin.version: one.pin for one in versions if one.pin is not None}
    opened = dict(zip(pins, gather([engine.spawn(first.view.side, pin) for pin in pins.values()]), strict=True))
    sides = [opened[one.pin.version] for one in versions if one.pin is not None]
    if blob_columns(sides[0].handle.schema):
        return None
    new = brought(sides, names, rows_max=STRETCH_ROWS_MAX, meter=meter)
    if new is None:
        return None
    ids = one_array(new.rows.column("id"), pa.utf8())
    old = _before(first, ids, names)
    placed = _placed(old.column("id").to_pylist(), ids.to_pylist(), new, counted)
    return None if placed is None else _deltas(old, new, placed, columns_of(declared, declared))


def _before(table: Versioned, ids: pa.Array[Any], names: list[str]) -> pa.Table:
    assert table.pin is not None
    found = table.view.table(table.pin).fetch("id", ids, names)
    return pa.table(found.columns, schema=pa.schema([pa.field(one.name, one.type) for one in found.schema]))


@dataclass(frozen=True)
class _Placed:
    """Where the rows of a stretch are: of each update the row before, counted through the old rows and then the new ones, and
    the new one; and the new rows that were inserted. ``ends``: where the updates and inserts of each swap end."""

    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    inserted: npt.NDArray[np.int64]
    ends: tuple[tuple[int, int], ...]


def _placed(
    old: Sequence[str | None], new: Sequence[str | None], rows: Brought, counted: Sequence[Counted]
) -> _Placed | None:
    """None: it is not what the commits have counted. Pure."""
    newest = {id_: at for at, id_ in enumerate(old)}
    before: list[int] = []
    after: list[int] = []
    inserted: list[int] = []
    ends: list[tuple[int, int]] = []
    start = 0
    for end, said in zip(rows.ends, counted, strict=True):
        mine = range(start, end)
        known = [newest.get(new[at]) for at in mine]
        if len({new[at] for at in mine}) != len(mine):
            return None
        before += [at for at in known if at is not None]
        after += [at for at, was in zip(mine, known, strict=True) if was is not None]
        inserted += [at for at, was in zip(mine, known, strict=True) if was is None]
        newest.update((new[at], len(old) + at) for at in mine)
        last = ends[-1] if ends else (0, 0)
        ends.append((len(after), len(inserted)))
        if (len(inserted) - last[1], len(after) - last[0]) != (said.inserted, said.updated):
            return None
        start = end
    places = [np.array(some, dtype=np.int64) for some in (before, after, inserted)]
    return _Placed(places[0], places[1], places[2], tuple(ends))


def _deltas(old: pa.Table, new: Brought, placed: _Placed, columns: Sequence[Column]) -> Written:
    """What each swap did: updates first, then inserts. An update that changed nothing is none."""
    plain = old.schema
    rows = pa.table(new.rows.columns, schema=plain)
    check_calendar(rows)
    before = pa.concat_tables([old, rows]).take(positions(placed.before))
    after, inserted = rows.take(positions(placed.after)), rows.take(positions(placed.inserted))
    changed = differing(before, after, columns)
    some = np.logical_or.reduce([np.zeros(after.num_rows, dtype=np.bool_), *changed.values()])
    kept = positions(np.flatnonzero(some))
    before, after = before.take(kept).combine_chunks(), after.take(kept).combine_chunks()
    changed = {name: mask[some] for name, mask in changed.items()}
    of_updates = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(some, dtype=np.int64)])
    found = []
    last = (0, 0)
    for end in placed.ends:
        at, until = int(of_updates[last[0]]), int(of_updates[end[0]])
        masks = {name: mask[at:until] for name, mask in changed.items()}
        found.append(tuple(_of_swap(before, after, (at, until), masks, inserted.slice(last[1], end[1] - last[1]))))
        last = end
    return tuple(found)


def _of_swap(
    before: pa.Table,
    after: pa.Table,
    updates: tuple[int, int],
    masks: Mapping[str, npt.NDArray[np.bool_]],
    inserted: pa.Table,
) -> Iterator[Delta]:
    at, until = updates
    if until > at:
        changed = {name: mask for name, mask in masks.items() if mask.any()}
        yield Delta("update", before.slice(at, until - at), after.slice(at, until - at), changed)
    if inserted.num_rows:
        yield Delta("insert", None, inserted)
