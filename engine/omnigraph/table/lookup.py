"""Finding rows of one version by the value of a column, and reading as little as that allows.

Per fragment, in this order: a held column is searched in memory; a fragment that a BTREE covers is asked through the
index when the values are few; otherwise its key column is read, for all such fragments in one parallel scan, and kept.
A table whose key column does not fit the cache is searched batch by batch and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core import meter as m
from omnigraph.core.errors import Corruption
from omnigraph.table.arrays import flags
from omnigraph.table.distinct import sorted_distinct
from omnigraph.table.gathering import gather
from omnigraph.table.hits import Addresses, Positions, all_of, bools, index_in, joined, matched, picks
from omnigraph.table.key_columns import as_key
from omnigraph.table.keys import SMALL_ROWS_MAX, KeyCache, Large
from omnigraph.table.layout import Fragment, Layout
from omnigraph.table.predicate import among
from omnigraph.table.reading import reading

if TYPE_CHECKING:
    from lance import LanceDataset

INDEX_VALUES_MAX = 512
"""Above this many values, reading a key column once beats walking the pages of its index."""

_SINGLE_QUESTIONS_MAX = 8
"""Up to here each value is a question of its own, side by side."""

_READ_ROWS_MAX = 200_000
"""Covered fragments up to this size are read and kept anyway: the column comes in fewer requests and steps than a first
walk through its index, and there are none ever after."""

_ASKED_MAX = 8
"""After so many questions to one index its column earns a place in the cache, if it takes a quarter of it at most."""

_TEXT_BYTES = 40
"""Guess for a text key and its offset, before it has been read."""

_READAHEAD = 32
"""Fragments read side by side; a cold look-up over many fragments is as long as its slowest waves."""

_SEARCH_ATTEMPTS = 3
"""Searches spoiled by an eviction in between, before the cache is left out altogether."""


class RecentIds(Protocol):
    """What the pin knows of the ids in its newest small fragments. ``may_hold`` is False only if none of them has the id."""

    @property
    def fragments(self) -> tuple[int, ...]: ...

    def may_hold(self, row_id: str, /) -> bool: ...


_ORDER_SHARE = 32
"""With at least so many rows for each value asked for, bisecting the order of a column beats searching all of it."""

_NO_HITS: tuple[Positions, Addresses] = (np.empty(0, np.int64), np.empty(0, np.uint64))


class Lookup:
    """Look-ups in one version. Holds no state of its own but what it needs to read."""

    def __init__(
        self,
        *,
        table: str,
        line: str,
        layout: Layout,
        handle: Callable[[], LanceDataset],
        cache: KeyCache,
        meter: m.Meter | None,
        key_columns: Sequence[str],
        recent: RecentIds | None = None,
    ) -> None:
        self._table = table
        self._line = line
        self._layout = layout
        self._handle = handle
        self._cache = cache
        self._meter = meter
        self._key_columns = key_columns
        self._recent = recent

    # --- questions --------------------------------------------------------------------------------------------------

    def find(self, column: str, values: pa.Array[Any]) -> tuple[Positions, Addresses]:
        """(position among ``values``, row address) of every live row that holds one of the distinct ``values``."""
        if len(values) == 0 or not self._layout.fragments:
            return _NO_HITS
        needles = self._needles(column, values)
        for _ in range(_SEARCH_ATTEMPTS):
            epoch, indexed, streamed = self._make_ready(column, values)
            parts = [self._find_small(column, needles), self._find_large(column, needles)]
            if self._cache.epoch != epoch:
                continue
            if indexed:
                parts.append(self._find_by_index(column, values, needles, indexed))
            if streamed:
                parts.append(self._find_by_scan(column, needles, streamed))
            return joined(parts)
        everything = list(self._layout.fragments.values())
        return joined([self._find_by_scan(column, needles, everything)])

    def contains(self, column: str, values: pa.Array[Any]) -> pa.BooleanArray:
        """For each value, whether a live row holds it. Aligned with ``values``; nulls are in nothing."""
        if len(values) == 0 or not self._layout.fragments:
            return flags(np.zeros(len(values), bool))
        if len(values) * 4 >= self._layout.live_rows:
            found = self._contains_bulk(column, values)
            if found is not None:
                return found
        distinct = pc.unique(values.drop_null())
        positions, _ = self.find(column, distinct)
        present = distinct.take(picks(sorted_distinct(positions)))
        answer: pa.BooleanArray = bools(pc.is_in(values, value_set=present, skip_nulls=True))
        return answer

    def _contains_bulk(self, column: str, values: pa.Array[Any]) -> pa.BooleanArray | None:
        epoch, indexed, streamed = self._make_ready(column, values)
        if indexed or streamed:
            return None
        needles = self._needles(column, values)
        large = self._cache.large(self._line, self._layout, self._layout.field(column))
        keys = self._live_keys(large)
        present = bools(pc.is_in(needles, value_set=keys, skip_nulls=True)) if len(keys) else None
        known = self._cache.small_values(self._table, self._layout.field(column))
        if known:
            candidates = pc.unique(
                needles.filter(pc.is_in(needles, value_set=pa.array(known, needles.type), skip_nulls=True))
            )
            places = self._cache.small_places(
                self._table, self._layout, self._layout.field(column), candidates.to_pylist()
            )
            live = candidates.take(pa.array(sorted({position for position, _ in places}), pa.int64()))
            small = bools(pc.is_in(needles, value_set=live, skip_nulls=True))
            present = small if present is None else pc.or_(present, small)
        if self._cache.epoch != epoch:
            return None
        return present if present is not None else flags(np.zeros(len(values), bool))

    def gather(self, column: str, addresses: Addresses) -> pa.Array[Any] | None:
        """The column at these addresses from what is held; None where a part of it is not."""
        return gather(self._cache, self._table, self._layout, column, addresses)

    # --- getting ready ----------------------------------------------------------------------------------------------

    def _make_ready(self, column: str, values: pa.Array[Any]) -> tuple[int, list[Fragment], list[Fragment]]:
        """Read what is worth keeping. What is left: fragments to ask through the index, and fragments to stream.

        All others are held for as long as the cache is in the epoch returned.
        """
        epoch = self._cache.epoch
        absent = self._missing(column)
        if not absent:
            return epoch, [], []
        spared = self._spared(column, values)
        if all(fragment.id in spared for fragment in absent):
            return epoch, [], []
        with self._cache.loading(self._line):
            absent = [
                one for one in self._missing(column) if one.id not in spared
            ]  # another thread may just have read them
            indexed = self._indexed(column, absent, len(values))
            chosen = {fragment.id for fragment in indexed}
            wanted = [fragment for fragment in absent if fragment.id not in chosen]
            if self._estimate(column, wanted) > self._cache.bytes_max // 2:
                wanted = [fragment for fragment in wanted if fragment.rows <= SMALL_ROWS_MAX]
            if wanted and self._estimate(column, wanted) <= self._cache.bytes_max // 2:
                self._read(column, wanted)
            # What was left out, and what one read pushed out again, is streamed this time.
            epoch = self._cache.epoch
            left = [one for one in self._missing(column) if one.id not in chosen and one.id not in spared]
            return epoch, indexed, left

    def _spared(self, column: str, values: pa.Array[Any]) -> frozenset[int]:
        """Fragments of which the pin tells that they hold none of these ids."""
        if self._recent is None or column != "id" or len(values) > INDEX_VALUES_MAX:
            return frozenset()
        may_hold = self._recent.may_hold
        if any(may_hold(one) for one in values.to_pylist() if one is not None):
            return frozenset()
        return frozenset(self._recent.fragments)

    def _missing(self, column: str) -> list[Fragment]:
        return self._cache.missing(self._table, self._line, self._layout, self._layout.field(column))

    def _indexed(self, column: str, absent: list[Fragment], count: int) -> list[Fragment]:
        covered = self._layout.covered.get(column)
        if not covered or count > INDEX_VALUES_MAX:
            return []
        found = [fragment for fragment in absent if fragment.id in covered]
        if sum(fragment.rows for fragment in found) <= _READ_ROWS_MAX:
            return []
        asked = self._cache.note_asked(self._line, self._layout.field(column))
        if asked > _ASKED_MAX and self._estimate(column, found) <= self._cache.bytes_max // 4:
            return []
        return found

    def _estimate(self, column: str, fragments: list[Fragment]) -> int:
        kind = self._layout.schema.field(column).type
        width = kind.bit_width // 8 if pa.types.is_primitive(kind) else _TEXT_BYTES
        return sum(fragment.rows for fragment in fragments) * max(width, 1)

    def _read(self, column: str, fragments: list[Fragment]) -> None:
        """Read and keep the column of these fragments, or only their deletions where the column is held."""
        field = self._layout.field(column)
        bare = [fragment for fragment in fragments if not self._cache.holds(self._table, fragment, field)]
        small = [fragment for fragment in bare if fragment.rows <= SMALL_ROWS_MAX]
        large = [fragment for fragment in bare if fragment.rows > SMALL_ROWS_MAX]
        if small:
            # A small file arrives in one request, whatever is taken from it.
            names = [name for name in self._key_columns if name in self._layout.fields and name != column]
            self._scan_into_cache([column, *names], small)
        if large:
            self._scan_into_cache([column], large)
        self._scan_into_cache([], [fragment for fragment in fragments if self._cache.deletions(fragment) is None])

    def _scan_into_cache(self, columns: list[str], fragments: list[Fragment]) -> None:
        if not fragments:
            return
        marked = any(fragment.deletion is not None for fragment in fragments)
        table = self._scan(columns, fragments, physical=marked)
        if table.num_rows != sum(fragment.rows for fragment in fragments):
            raise Corruption(
                "data files do not hold the rows that the version says",
                table=self._line,
                version=self._layout.version,
                expected=sum(fragment.rows for fragment in fragments),
                actual=table.num_rows,
            )
        small = fragments[0].rows <= SMALL_ROWS_MAX
        held: dict[str, Any] = {}
        for name in columns:
            keys = as_key(table.column(name))
            held[name] = keys.to_pylist() if small else keys
        absent = table.column("_rowaddr").combine_chunks().is_null() if marked else None
        start = 0
        for fragment in fragments:
            end = start + fragment.rows
            if fragment.deletion is not None and absent is not None:
                gone = np.flatnonzero(absent.slice(start, fragment.rows).to_numpy(zero_copy_only=False))
                self._cache.put_deletions(fragment, gone)
            for name in columns:
                part = held[name][start:end] if small else held[name].slice(start, fragment.rows)
                self._cache.put_column(self._table, fragment, self._layout.field(name), part)
            start = end

    def _scan(self, columns: list[str], fragments: list[Fragment], *, physical: bool) -> pa.Table:
        handle = self._handle()
        with reading(handle, self._meter, m.DATA, f"read keys of {self._line}"):
            scanner = handle.scanner(
                columns=columns,
                fragments=_fragments(handle, fragments),
                with_row_address=True,
                with_row_id=physical,
                include_deleted_rows=physical,
                scan_in_order=True,
                fragment_readahead=_READAHEAD,
                batch_readahead=_READAHEAD,
            )
            return scanner.to_table()

    # --- searching --------------------------------------------------------------------------------------------------

    def _needles(self, column: str, values: pa.Array[Any]) -> Any:
        kind = self._layout.schema.field(column).type
        return as_key(values if values.type == kind else values.cast(kind))

    def _find_small(self, column: str, needles: Any) -> tuple[Positions, Addresses]:
        field = self._layout.field(column)
        known: Any = None
        positions: Any = None
        if len(needles) > 1000:
            known = self._cache.small_values(self._table, field)
            if len(needles) > 4 * len(known):
                hit = pc.is_in(needles, value_set=pa.array(known, needles.type), skip_nulls=True)
                positions = np.flatnonzero(bools(hit).to_numpy(zero_copy_only=False))
                needles = needles.take(picks(positions))
        places = self._cache.small_places(self._table, self._layout, field, needles.to_pylist())
        found = np.array([position for position, _ in places], np.int64)
        if positions is not None:
            found = positions[found]
        return found, np.array([address for _, address in places], np.uint64)

    def _find_large(self, column: str, needles: Any) -> tuple[Positions, Addresses]:
        field = self._layout.field(column)
        large = self._cache.large(self._line, self._layout, field)
        if len(needles) * _ORDER_SHARE > int(large.starts[-1]):
            return self._match(large, needles)
        parts: list[tuple[Positions, Addresses]] = []
        unordered: list[int] = []
        for number, fragment in enumerate(large.fragments):
            keys: Any = large.keys.chunk(number)
            order = self._cache.order(fragment, field, keys)
            if order is None:
                unordered.append(number)
                continue
            rows = order.candidates(needles)
            if len(rows):
                at, positions = index_in(keys.take(picks(rows)), needles)
                parts.append(self._live(fragment, rows[at], positions))
        if unordered:
            parts.append(self._match(large.only(unordered), needles))
        return joined(parts) if parts else _NO_HITS

    def _live(self, fragment: Fragment, offsets: Positions, positions: Positions) -> tuple[Positions, Addresses]:
        """The hits on rows that are not deleted."""
        gone = self._cache.deletions(fragment)
        if gone is None:
            return _NO_HITS
        keep = ~gone.among(offsets)
        addresses = (np.uint64(fragment.id) << np.uint64(32)) | offsets.astype(np.uint64)
        return positions[keep], addresses[keep]

    def _match(self, large: Large, needles: Any) -> tuple[Positions, Addresses]:
        total = int(large.starts[-1])
        if total == 0:
            return _NO_HITS
        kept: Any = None
        if len(needles) > 8 * total:
            kept = np.flatnonzero(
                bools(pc.is_in(needles, value_set=large.keys, skip_nulls=True)).to_numpy(zero_copy_only=False)
            )
            needles = needles.take(picks(kept))
        at, positions = index_in(large.keys, needles)
        which = np.searchsorted(large.starts, at, side="right") - 1
        parts = [
            self._live(large.fragments[number], at[which == number] - large.starts[number], positions[which == number])
            for number in np.unique(which).tolist()
        ]
        found, addresses = joined(parts) if parts else _NO_HITS
        return (found if kept is None else kept[found]), addresses

    def _live_keys(self, large: Large) -> Any:
        parts: list[Any] = []
        for number, fragment in enumerate(large.fragments):
            keys: Any = large.keys.chunk(number)
            gone = self._cache.deletions(fragment)
            if gone is not None and len(gone.offsets):
                live = np.ones(len(keys), bool)
                live[gone.offsets] = False
                keys = keys.filter(pa.array(live))
            parts.append(keys)
        return pa.chunked_array(parts) if parts else []

    def _find_by_index(
        self, column: str, values: pa.Array[Any], needles: Any, fragments: list[Fragment]
    ) -> tuple[Positions, Addresses]:
        handle = self._handle()
        whole = len(fragments) == len(self._layout.fragments)
        chosen = None if whole else _fragments(handle, fragments)
        typed = values.cast(self._layout.schema.field(column).type)

        def ask(filter_text: str, columns: list[str]) -> pa.Table:
            return handle.scanner(
                columns=columns, filter=filter_text, with_row_address=True, fragments=chosen
            ).to_table()

        with reading(handle, self._meter, m.INDEX, f"look up {column} in {self._line}"):
            if len(typed) > _SINGLE_QUESTIONS_MAX:
                return matched(ask(among(column, typed), [column]), column, needles)
            # The index alone answers "which rows hold this one value"; only several values in one question need the
            # column read back to tell them apart.
            with ThreadPoolExecutor(max_workers=_SINGLE_QUESTIONS_MAX, thread_name_prefix="look-up") as pool:
                answers = list(pool.map(lambda at: ask(among(column, typed.slice(at, 1)), []), range(len(typed))))
        return joined([all_of(answer, position) for position, answer in enumerate(answers)])

    def _find_by_scan(self, column: str, needles: Any, fragments: list[Fragment]) -> tuple[Positions, Addresses]:
        handle = self._handle()
        with reading(handle, self._meter, m.DATA, f"search {column} in {self._line}"):
            scanner = handle.scanner(
                columns=[column],
                with_row_address=True,
                fragments=_fragments(handle, fragments),
            )
            parts = [matched(batch, column, needles) for batch in scanner.to_batches()]
        return joined(parts) if parts else _NO_HITS


def _fragments(handle: LanceDataset, fragments: list[Fragment]) -> list[Any]:
    return [handle.get_fragment(fragment.id) for fragment in fragments]
