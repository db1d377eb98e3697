"""Staged rows written again: without those that were set aside, or as the new states of committed rows.

Owns the two steps that touch every row of a merge or of a batch with bad rows. Both work on one fragment at a time and hold
a few batches of it, so that any number of workers, here or elsewhere, can share them; what they come to is decided before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.errors import Corruption
from omnigraph.distributed.patch_rows import between
from omnigraph.distributed.stage_task import PartTask, Target
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import TableType
from omnigraph.table import parts as parts_
from omnigraph.table import staged as fragments_
from omnigraph.table.arrays import one_array, positions
from omnigraph.table.dataset import Tables
from omnigraph.table.keys import KeyCache
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.row_equality import same_rows
from omnigraph.write.base.changes import RowIndex, TypeChange, Unnamed, take_unnamed
from omnigraph.write.rules.quarantine import row_as_record

pc: Any = pyarrow.compute

_KEY_CACHE_BYTES = 1 << 20  # nothing is looked up by key here

Addresses = npt.NDArray[np.uint64]
_SMALL_SHARE = 8  # a fragment below this share of the size wanted is packed with its neighbours
_NONE: Addresses = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class Rewrite:
    """One staged fragment, and what becomes of its rows. Rows are numbered within the fragment."""

    key: str
    described: Mapping[str, Any]
    dropped: RowIndex = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    dropped_minted: npt.NDArray[np.bool_] | None = None  # for each dropped row, whether its id was made for it
    replacing: RowIndex = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    addresses: Addresses = field(default_factory=lambda: np.empty(0, dtype=np.uint64))  # what they replace
    adopting: npt.NDArray[np.bool_] | None = None  # of these, which take the id of what they replace
    unnamed: Unnamed | None = None  # of a patch, properties that rows do not name

    @property
    def is_needed(self) -> bool:
        return bool(len(self.dropped) or len(self.replacing))


@dataclass(frozen=True)
class RewrittenRows:
    """What a fragment has become: new fragments (``carried`` with the row ids of what they replace), rows that left as the
    records that would load them, and what was found equal or takes the place of a committed row."""

    new: tuple[Mapping[str, Any], ...]
    carried: tuple[Any, ...] = ()
    records: tuple[Any, ...] = ()
    replaced: Addresses = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    unchanged: int = 0


def rewrite(task: PartTask, item: Rewrite) -> RewrittenRows:
    """Write one staged fragment again. Of rows that replace a committed one, those that are equal to it are left out;
    the others come first, as the rows whose identity a table can carry over are the leading ones."""
    declared = task.catalog.by_table_key(item.key)
    target = task.targets[item.key]
    source = _Source(task, declared, target, item)
    if not len(item.replacing):
        keep = source.kept()
        fragments = source.write(source.rows(keep))
        return RewrittenRows(
            tuple(fragments), tuple(parts_.carry_row_ids(source.handle, fragments, _NONE)), source.records()
        )
    differs = source.differing()
    replacing = np.zeros(source.count, dtype=np.bool_)
    replacing[item.replacing] = True
    changed = np.zeros(source.count, dtype=np.bool_)
    changed[item.replacing[differs]] = True
    fresh = source.kept() & ~replacing

    def ordered() -> Iterator[pa.RecordBatch]:
        yield from source.rows(changed)
        yield from source.rows(fresh)

    fragments = source.write(ordered()) if changed.any() or fresh.any() else []
    replaced = item.addresses[differs]
    carried = parts_.carry_row_ids(source.handle, fragments, replaced)
    return RewrittenRows(tuple(fragments), tuple(carried), source.records(), replaced, int((~differs).sum()))


class _Source:
    """The rows of one staged fragment, read as often as they are needed."""

    def __init__(self, task: PartTask, declared: TableType, target: Target, item: Rewrite) -> None:
        self._task = task
        self._declared = declared
        self._target = target
        self._item = item
        self._tables = Tables(task.store)
        self._schema = table_schema(declared)
        self.handle = self._tables.open(target.table, target.pin)
        self.count = fragments_.rows_of(item.described)
        self._committed = PinnedTable(
            lambda: self.handle, target.table, target.pin, self.handle.count_rows(), KeyCache(_KEY_CACHE_BYTES)
        )
        self._ids: dict[int, pa.Array[Any]] = {}  # by the row that a batch begins at
        self._kept: dict[int, pa.Table] = {}  # the same: values of committed rows

    def kept(self) -> npt.NDArray[np.bool_]:
        keep = np.ones(self.count, dtype=np.bool_)
        keep[self._item.dropped] = False
        return keep

    def batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        first = 0
        read = fragments_.read_rows(
            self._tables, self._target.table, self.handle, [self._item.described], self._schema.names
        )
        for batch in read:
            columns = [one_array(batch.column(field.name), field.type) for field in self._schema]
            columns[0] = self._adopted(first, columns[0])
            yield first, self._patched(first, pa.RecordBatch.from_arrays(columns, schema=self._schema))
            first += batch.num_rows

    def _patched(self, first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch with the values of what they replace, where they name none."""
        item = self._item
        low, high = np.searchsorted(item.replacing, [first, first + batch.num_rows])
        mine = between(item.unnamed or {}, first, first + batch.num_rows)
        if not mine or low == high:
            return batch
        rows = item.replacing[low:high] - first
        names = [name for name in self._schema.names if name in mine]
        if first not in self._kept:
            self._kept[first] = self._committed.take(pa.array(item.addresses[low:high]), names)
        for name in names:
            mask = mine[name]
            at = np.arange(len(rows)) if isinstance(mask, bool) else np.flatnonzero(mask[rows])
            kind = self._schema.field(name).type
            own, kept = batch.column(name), one_array(self._kept[first].column(name), kind)
            places = np.arange(batch.num_rows, dtype=np.int64)
            places[rows[at]] = batch.num_rows + at
            chosen = pa.concat_arrays([own, kept if kept.type == kind else kept.cast(kind)]).take(positions(places))
            batch = batch.set_column(self._schema.get_field_index(name), self._schema.field(name), chosen)
        return batch

    def _adopted(self, first: int, ids: pa.Array[Any]) -> pa.Array[Any]:
        """The ids of a batch, with those of committed rows where its rows take them."""
        item = self._item
        if item.adopting is None:
            return ids
        if first not in self._ids:
            low, high = np.searchsorted(item.replacing, [first, first + len(ids)])
            chosen = np.flatnonzero(item.adopting[low:high]) + low
            mask = np.zeros(len(ids), dtype=np.bool_)
            mask[item.replacing[chosen] - first] = True
            taken = self._committed.take(pa.array(item.addresses[chosen]), ["id"]).column("id")
            self._ids[first] = pc.replace_with_mask(ids, pa.array(mask), one_array(taken, pa.utf8()))
        return self._ids[first]

    def rows(self, wanted: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        if not wanted.any():
            return
        for first, batch in self.batches():
            mask = wanted[first : first + batch.num_rows]
            if mask.all():
                yield batch
            elif mask.any():
                yield batch.filter(pa.array(mask))

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
        first = next(batches, None)
        if first is None:
            return []
        return parts_.write_rows(
            self.handle, self._schema, _chained(first, batches), max(self._task.rows_per_file, self.count)
        )

    def records(self) -> tuple[Any, ...]:
        """The dropped rows, in their order."""
        item = self._item
        if not len(item.dropped):
            return ()
        dropped = np.zeros(self.count, dtype=np.bool_)
        dropped[item.dropped] = True
        rows = pa.Table.from_batches(list(self.rows(dropped)), schema=self._schema)
        minted: Any = False if item.dropped_minted is None else item.dropped_minted
        at = np.flatnonzero(dropped)
        unnamed = None if item.unnamed is None else take_unnamed(item.unnamed, at)
        change = TypeChange(self._declared, rows, minted=minted, unnamed=unnamed)
        return tuple(row_as_record(change, row) for row in range(rows.num_rows))

    def differing(self) -> npt.NDArray[np.bool_]:
        """For each row that replaces a committed one, whether it differs from it."""
        item = self._item
        differs = np.ones(len(item.replacing), dtype=np.bool_)
        for first, batch in self.batches():
            low, high = np.searchsorted(item.replacing, [first, first + batch.num_rows])
            if low == high:
                continue
            new = pa.Table.from_batches([batch]).take(positions(item.replacing[low:high] - first))
            old = self._committed.take(pa.array(item.addresses[low:high]))
            differs[low:high] = ~same_rows(old, new)
        return differs


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


# --- small fragments ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pack:
    """Staged fragments that follow one another and shall be fewer."""

    key: str
    described: tuple[Mapping[str, Any], ...]


def pack(task: PartTask, item: Pack) -> list[dict[str, Any]]:
    """The same rows in the same order, in as few fragments as the size of a fragment allows."""
    target = task.targets[item.key]
    tables = Tables(task.store)
    handle = tables.open(target.table, target.pin)
    schema = table_schema(task.catalog.by_table_key(item.key))

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in fragments_.read_rows(tables, target.table, handle, item.described, schema.names):
            columns = [one_array(batch.column(field.name), field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return parts_.write_rows(handle, schema, rows(), task.rows_per_file)


def packs(key: str, fragments: Sequence[Mapping[str, Any]], rows_per_file: int) -> list[Pack | Mapping[str, Any]]:
    """The fragments in their order, those that are too small to keep gathered with their neighbours."""
    small = max(1, rows_per_file // _SMALL_SHARE)
    found: list[Pack | Mapping[str, Any]] = []
    group: list[Mapping[str, Any]] = []
    held = 0

    def close() -> None:
        nonlocal held
        if len(group) == 1:
            found.append(group[0])
        elif group:
            found.append(Pack(key, tuple(group)))
        group.clear()
        held = 0

    for described in fragments:
        rows = fragments_.rows_of(described)
        if rows >= small:
            close()
            found.append(described)
            continue
        if held + rows > rows_per_file:
            close()
        group.append(described)
        held += rows
    close()
    return found


# --- rows that leave ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Removal:
    """Rows of one committed fragment that leave, as offsets within it."""

    key: str
    fragment: int
    offsets: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Removed:
    """The fragment as it is without them: None where nothing is left of it. ``file``: its deletion file, with its size."""

    fragment: int
    updated: Mapping[str, Any] | None
    file: tuple[str, int] | None = None


def remove(task: PartTask, item: Removal) -> Removed:
    """Write the deletion file of one committed fragment. No version names it yet."""
    target = task.targets[item.key]
    handle = Tables(task.store).open(target.table, target.pin)
    found = parts_.delete_offsets(handle, item.fragment, item.offsets)
    if found is None:
        return Removed(item.fragment, None)
    described, path = found
    if path is None:
        return Removed(item.fragment, described)
    size = task.store.size(f"{target.table.relative}/{path}")
    if size is None:
        raise Corruption("a deletion file that was just written is not there", object=f"{target.table.relative}/{path}")
    return Removed(item.fragment, described, (path, size))


def removals(key: str, addresses: Sequence[Addresses]) -> list[Removal]:
    """Addresses of rows by the fragment that they are in."""
    if not addresses:
        return []
    every = np.sort(np.concatenate(addresses))
    if not len(every):
        return []
    fragments = (every >> np.uint64(32)).astype(np.int64)
    offsets = (every & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    starts = [0, *(np.flatnonzero(np.diff(fragments)) + 1).tolist(), len(every)]
    return [Removal(key, int(fragments[start]), offsets[start:end]) for start, end in itertools.pairwise(starts)]
