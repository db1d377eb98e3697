"""The key cache: columns that look-ups go by, held per immutable data file and bounded in bytes.

A data file never changes, so its key column can be kept for as long as there is room, across versions of a table and
across the writes of this process. Two shapes share one budget, least recently used first:

* columns of large fragments stay Arrow arrays and are searched with vector kernels, or, once they have been searched a few
  times, by bisection over the order of their hashes;
* columns of small fragments (what single-row commits leave behind) are merged per table into one dictionary, so that a
  look-up over thousands of them costs what it costs over one.

What the cache knows is never trusted for visibility: each hit is checked against the :class:`Layout` of the version
asked for and the deletions of its fragments. It reads nothing itself; :mod:`.lookup` decides what to read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.table.distinct import sorted_distinct
from omnigraph.table.key_columns import NOTHING_DELETED, Deletions, as_key, one_buffer, split_addresses
from omnigraph.table.key_order import BYTES_PER_ROW, KeyOrder, order_of
from omnigraph.table.layout import Fragment, Layout, advance, arrive, describe

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

BYTES_MAX = 256 << 20
"""Default bound: about eight million keys of 26 characters."""

SMALL_ROWS_MAX = 2048
"""Fragments up to here go into the dictionary; above it a vector search is cheaper than 100 B of Python per key."""

_SEARCHED_MAX = 8
"""Searches of one large column from end to end before its order is made: making it costs about as much as so many of them."""

_LINES_MAX = 4096
_LAYOUTS_PER_LINE_MAX = 4
"""A layout is as long as its table has fragments, so only the versions in use are kept."""
_SMALL_KEY_BYTES = 220
"""A Python text, its dictionary slot and its place, measured roughly; the bound need not be exact."""

FileField = tuple[str, int]
"""(data files, field id): what an immutable column is called."""


class _Pool:
    """Small columns of one table and field, merged: value → places. ``is_filling``: a column is being merged in, or was when an
    interrupt came, and lacks places."""

    __slots__ = ("columns", "is_filling", "places")

    def __init__(self) -> None:
        self.places: dict[Any, list[tuple[str, int]]] = {}
        self.columns: dict[str, list[Any]] = {}
        self.is_filling = False


@dataclass(frozen=True)
class Large:
    """The large columns of one layout, side by side."""

    fragments: tuple[Fragment, ...]
    keys: pa.ChunkedArray[Any]
    starts: np.ndarray[Any, np.dtype[np.int64]]
    """First position of each fragment in ``keys``, and one past the last."""

    def only(self, numbers: Sequence[int]) -> Large:
        """The columns of some of the fragments."""
        chunks: list[Any] = [self.keys.chunk(number) for number in numbers]
        starts = np.concatenate([[0], np.cumsum([len(chunk) for chunk in chunks])]).astype(np.int64)
        return Large(tuple(self.fragments[number] for number in numbers), pa.chunked_array(chunks), starts)


class KeyCache:
    """Shared by all tables of a graph handle; safe for threads.

    ``line`` names a version line (path and ref) and ``table`` the dataset it belongs to: branches share data files.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._lock = threading.RLock()
        self._units: OrderedDict[tuple[Any, ...], int] = OrderedDict()
        self._bytes = 0
        self._epoch = 0
        self._large: dict[FileField, pa.Array[Any]] = {}
        self._orders: dict[FileField, KeyOrder] = {}
        self._searched: dict[FileField, int] = {}
        self._pools: dict[tuple[str, int], _Pool] = {}
        self._deletions: dict[tuple[str, str], Deletions] = {}
        self._layouts: OrderedDict[str, OrderedDict[int, Layout]] = OrderedDict()
        self._complete: dict[tuple[str, int, int], tuple[int, Large]] = {}
        self._loading: dict[str, threading.Lock] = {}
        self._asked: dict[tuple[str, int], int] = {}

    @property
    def bytes_held(self) -> int:
        return self._bytes

    @property
    def epoch(self) -> int:
        """Moves with every eviction. A search that began and ended in one epoch saw everything it was promised."""
        return self._epoch

    # --- layouts ----------------------------------------------------------------------------------------------------

    def layout(self, line: str, version: int) -> Layout | None:
        with self._lock:
            of_line = self._layouts.get(line)
            found = None if of_line is None else of_line.get(version)
            if of_line is not None and found is not None:
                of_line.move_to_end(version)
                self._layouts.move_to_end(line)
            return found

    def put_layout(self, line: str, layout: Layout) -> None:
        with self._lock:
            of_line = self._layouts.setdefault(line, OrderedDict())
            self._layouts.move_to_end(line)
            of_line[layout.version] = layout
            of_line.move_to_end(layout.version)
            while len(of_line) > _LAYOUTS_PER_LINE_MAX:
                self._forget(line, next(iter(of_line)))
            while len(self._layouts) > _LINES_MAX:
                oldest, versions = next(iter(self._layouts.items()))
                for version in list(versions):
                    self._forget(oldest, version)
                del self._layouts[oldest]

    def _forget(self, line: str, version: int) -> None:
        self._layouts[line].pop(version)
        for known in [known for known in self._complete if known[:2] == (line, version)]:
            del self._complete[known]

    def loading(self, line: str) -> threading.Lock:
        """Held while columns of a line are being read, so that two threads do not read the same files."""
        with self._lock:
            return self._loading.setdefault(line, threading.Lock())

    def note_asked(self, line: str, field: int) -> int:
        """Count a question to the index of a column; how many there were, this one included."""
        with self._lock:
            self._asked[line, field] = self._asked.get((line, field), 0) + 1
            return self._asked[line, field]

    # --- own writes -------------------------------------------------------------------------------------------------

    def note_commit(
        self,
        table: str,
        line: str,
        base_version: int,
        handle: Any,
        operation: Any,
        rows: pa.Table | None = None,
        deleted: pa.Array[Any] | None = None,
        columns: Sequence[str] = ("id", "src", "dst"),
        *,
        base_line: str | None = None,
    ) -> None:
        """Take over what this process has just committed, so that its own next look-up reads nothing.

        ``rows`` are the rows of the new fragments in the order written (left out where they were streamed), ``deleted``
        the row addresses that the operation deleted. ``base_line``: the line that ``line`` was forked from just before, at
        the base version. Anything that cannot be followed is left to be read when needed.
        """
        base = self.layout(line if base_line is None else base_line, base_version)
        moved = advance(base, handle, operation) if base is not None else None
        if moved is None and handle.version == base_version + 1:
            moved = arrive(handle, operation)
        if moved is None:
            return
        layout, new = moved
        if base is not None and deleted is not None:
            self._follow_deletions(base, layout, deleted)
        with self._lock:
            if rows is not None and rows.num_rows == sum(fragment.rows for fragment in new):
                self._note_rows(table, layout, new, rows, columns)
            self.put_layout(line, layout)

    def _note_rows(
        self, table: str, layout: Layout, new: list[Fragment], rows: pa.Table, columns: Sequence[str]
    ) -> None:
        for column in columns:
            if column not in rows.column_names:
                continue
            start = 0
            for fragment in new:
                self.put_column(table, fragment, layout.field(column), rows.column(column).slice(start, fragment.rows))
                start += fragment.rows

    def _follow_deletions(self, base: Layout, layout: Layout, deleted: pa.Array[Any]) -> None:
        changed = [
            fragment
            for fragment in layout.fragments.values()
            if fragment.deletion is not None
            and fragment.id in base.fragments
            and base.fragments[fragment.id].deletion != fragment.deletion
        ]
        by_fragment = split_addresses(deleted)
        for fragment in changed:
            offsets = by_fragment.get(fragment.id)
            before = base.fragments[fragment.id]
            known = self.deletions(before)
            if offsets is None or known is None:
                continue
            merged = sorted_distinct(np.concatenate([known.offsets, offsets]))
            if len(merged) == fragment.deleted_rows:
                self.put_deletions(fragment, merged)

    # --- columns and deletions --------------------------------------------------------------------------------------

    def put_column(
        self, table: str, fragment: Fragment, field: int, column: pa.Array[Any] | pa.ChunkedArray[Any] | list[Any]
    ) -> None:
        """Keep the whole physical column of a fragment, deleted rows included. A list holds keys already."""
        keys = column if isinstance(column, list) else as_key(column)
        with self._lock:
            if fragment.rows <= SMALL_ROWS_MAX:
                self._put_small(table, fragment.files, field, keys if isinstance(keys, list) else keys.to_pylist())
            elif (fragment.files, field) not in self._large:
                flat = one_buffer(keys)
                self._large[(fragment.files, field)] = flat
                self._charge(("large", fragment.files, field), flat.nbytes)

    def _put_small(self, table: str, files: str, field: int, values: list[Any]) -> None:
        pool = self._pools.get((table, field))
        if pool is not None and pool.is_filling:
            self._evict(("pool", table, field))
            pool = None
        if pool is None:
            pool = self._pools[(table, field)] = _Pool()
        if files in pool.columns:
            return
        pool.is_filling = True
        places = pool.places
        size = 120
        for offset, value in enumerate(values):
            if value is None:
                continue
            size += _SMALL_KEY_BYTES + (len(value) if isinstance(value, str) else 0)
            found = places.get(value)
            if found is None:
                places[value] = [(files, offset)]
            else:
                found.append((files, offset))
        pool.columns[files] = values  # last: a column that is held has all its places
        pool.is_filling = False
        self._charge(("pool", table, field), size)

    def put_deletions(self, fragment: Fragment, offsets: np.ndarray[Any, Any]) -> None:
        if fragment.deletion is None:
            return
        with self._lock:
            key = (fragment.files, fragment.deletion)
            if key not in self._deletions:
                self._deletions[key] = Deletions(np.ascontiguousarray(offsets, dtype=np.int64))
                self._charge(("deletions", *key), 200 + offsets.nbytes)

    def deletions(self, fragment: Fragment) -> Deletions | None:
        """Deleted offsets of a fragment; None where they have to be read first."""
        if fragment.deletion is None:
            return NOTHING_DELETED
        return self._deletions.get((fragment.files, fragment.deletion))

    def deleted_offsets(self, fragment: FragmentMetadata) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        """The same of a fragment as Lance describes it."""
        found = self.deletions(describe(fragment))
        return None if found is None else found.offsets

    def _charge(self, unit: tuple[Any, ...], size: int) -> None:
        self._units[unit] = self._units.get(unit, 0) + size
        self._units.move_to_end(unit)
        self._bytes += size
        while self._bytes > self.bytes_max and len(self._units) > 1:
            self._evict(next(iter(self._units)))

    def _evict(self, unit: tuple[Any, ...]) -> None:
        self._bytes -= self._units.pop(unit, 0)
        self._epoch += 1
        self._complete.clear()  # of a past epoch, and each holds on to the columns it was gathered from
        kind, *name = unit
        if kind == "large":
            self._large.pop((name[0], name[1]), None)
            self._searched.pop((name[0], name[1]), None)
        elif kind == "order":
            self._orders.pop((name[0], name[1]), None)
        elif kind == "pool":
            self._pools.pop((name[0], name[1]), None)
        else:
            self._deletions.pop((name[0], name[1]), None)

    # --- what a look-up asks ----------------------------------------------------------------------------------------

    def missing(self, table: str, line: str, layout: Layout, field: int) -> list[Fragment]:
        """Fragments whose column, or whose deletions, are not held. Empty again and again on a warm handle."""
        with self._lock:
            done = self._complete.get((line, layout.version, field))
            if done is not None and done[0] == self._epoch:
                return []
            pool = self._pools.get((table, field))
            small = pool.columns if pool is not None else {}
            absent = [
                fragment
                for fragment in layout.fragments.values()
                if (fragment.files not in small and (fragment.files, field) not in self._large)
                or (fragment.deletion is not None and (fragment.files, fragment.deletion) not in self._deletions)
            ]
            if not absent:
                self._complete[(line, layout.version, field)] = (self._epoch, self._gather_large(layout, field))
            return absent

    def holds(self, table: str, fragment: Fragment, field: int) -> bool:
        with self._lock:
            pool = self._pools.get((table, field))
            return (fragment.files, field) in self._large or (pool is not None and fragment.files in pool.columns)

    def small_places(self, table: str, layout: Layout, field: int, values: Iterable[Any]) -> list[tuple[int, int]]:
        """(position among ``values``, row address) of each live row in a small fragment."""
        found: list[tuple[int, int]] = []
        with self._lock:
            pool = self._pools.get((table, field))
            if pool is None:
                return found
            self._touch(("pool", table, field))
            places = pool.places
            for position, value in enumerate(values):
                for files, offset in places.get(value, ()):
                    for fragment_id in layout.by_files.get(files, ()):
                        fragment = layout.fragments[fragment_id]
                        gone = self.deletions(fragment)
                        if gone is not None and offset not in gone:
                            found.append((position, (fragment_id << 32) | offset))
        return found

    def small_values(self, table: str, field: int) -> list[Any]:
        """All values of the small fragments of a table, of any version."""
        with self._lock:
            pool = self._pools.get((table, field))
            return list(pool.places) if pool is not None else []

    def large(self, line: str, layout: Layout, field: int) -> Large:
        """The large columns that are held, ready for a vector search."""
        with self._lock:
            done = self._complete.get((line, layout.version, field))
            if done is not None and done[0] == self._epoch:
                found = done[1]
            else:
                found = self._gather_large(layout, field)
            for fragment in found.fragments:
                self._touch(("large", fragment.files, field))
            return found

    def order(self, fragment: Fragment, field: int, keys: pa.Array[Any]) -> KeyOrder | None:
        """The order of the column of a large fragment, ``keys``; None where a search from end to end is cheaper so far."""
        name = (fragment.files, field)
        with self._lock:
            found = self._orders.get(name)
            if found is not None:
                self._touch(("order", *name))
                return found
            self._searched[name] = self._searched.get(name, 0) + 1
            if self._searched[name] <= _SEARCHED_MAX or len(keys) * BYTES_PER_ROW > self.bytes_max // 4:
                return None
        made = order_of(keys)  # not under the lock: other look-ups need not wait for it
        if made is not None:
            with self._lock:
                if name not in self._orders:
                    self._orders[name] = made
                    self._charge(("order", *name), made.nbytes)
        return made

    def _gather_large(self, layout: Layout, field: int) -> Large:
        held = [
            (fragment, self._large[(fragment.files, field)])
            for fragment in layout.fragments.values()
            if fragment.rows > SMALL_ROWS_MAX and (fragment.files, field) in self._large
        ]
        starts = np.concatenate([[0], np.cumsum([len(keys) for _, keys in held])]).astype(np.int64)
        chunks = pa.chunked_array([keys for _, keys in held]) if held else pa.chunked_array([], pa.null())
        return Large(tuple(fragment for fragment, _ in held), chunks, starts)

    def value_at(self, table: str, fragment: Fragment, field: int) -> Any:
        """The held column of a fragment: a list (small) or an Arrow array (large); None where it is not held."""
        with self._lock:
            pool = self._pools.get((table, field))
            if pool is not None and fragment.files in pool.columns:
                return pool.columns[fragment.files]
            return self._large.get((fragment.files, field))

    def _touch(self, unit: tuple[Any, ...]) -> None:
        if unit in self._units:
            self._units.move_to_end(unit)
