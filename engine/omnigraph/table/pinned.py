"""Reading one table at its pin.

A :class:`PinnedTable` answers questions about one immutable version. It opens the dataset when a question first needs
storage, so that an empty table, and a look-up that the key cache can answer, cost no request.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core import meter as m
from omnigraph.table.arrays import flags
from omnigraph.table.blob import READ_BYTES, blob_columns
from omnigraph.table.distinct import sorted_distinct
from omnigraph.table.hits import Addresses
from omnigraph.table.keys import KeyCache
from omnigraph.table.layout import Layout, layout_of
from omnigraph.table.lookup import Lookup, RecentIds
from omnigraph.table.predicate import Predicate, addresses_among, columns_of, mask, to_filter
from omnigraph.table.reading import reading
from omnigraph.table.rowids import inline_row_ids

if TYPE_CHECKING:
    from lance import LanceDataset

    from omnigraph.table.dataset import TableRef

KEY_COLUMNS = ("id", "src", "dst")

_TAKE_CHUNK = 4096
"""Addresses in one filter text."""

_ROW_IDS_MIN = 500
"""From here on rows are taken by row id."""

_SCAN_SHARE = 20
"""With more than one row in this many wanted, a fragment is scanned and filtered in memory."""

Filter = Predicate | pc.Expression


class PinnedTable:
    """One version of one table. ``opener`` opens the dataset at exactly that version; it is called at most once."""

    def __init__(
        self,
        opener: Callable[[], LanceDataset],
        ref: TableRef,
        version: int,
        rows: int,
        cache: KeyCache,
        meter: m.Meter | None = None,
        *,
        key_columns: Sequence[str] = KEY_COLUMNS,
        recent: RecentIds | None = None,
    ) -> None:
        self.ref = ref
        self.version = version
        self.rows = rows
        self._opener = opener
        self._cache = cache
        self._meter = meter
        self._key_columns = tuple(key_columns)
        self._recent = recent
        self._lock = threading.Lock()
        self._handle: LanceDataset | None = None
        self._layout: Layout | None = None

    @property
    def handle(self) -> LanceDataset:
        """The dataset at the pin."""
        with self._lock:
            if self._handle is None:
                self._handle = self._opener()
            return self._handle

    @property
    def schema(self) -> pa.Schema:
        return self.layout.schema

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            line = self.ref.relative
            found = self._cache.layout(line, self.version)
            if found is None:
                found = layout_of(self.handle)
                self._cache.put_layout(line, found)
            self._layout = found
        return self._layout

    def _lookup(self) -> Lookup:
        return Lookup(
            table=self.ref.location,
            line=self.ref.relative,
            layout=self.layout,
            handle=lambda: self.handle,
            cache=self._cache,
            meter=self._meter,
            key_columns=self._key_columns,
            recent=self._recent,
        )

    # --- look-ups ---------------------------------------------------------------------------------------------------

    def contains(self, ids: pa.Array[Any], column: str = "id") -> pa.BooleanArray:
        """For each id, whether a row has it. Aligned with ``ids``."""
        ids = _one_array(ids)
        if self.rows == 0 or len(ids) == 0:
            return flags(np.zeros(len(ids), bool))
        return self._lookup().contains(column, ids)

    def locate(self, values: pa.Array[Any], column: str = "id") -> pa.Table:
        """The live rows whose ``column`` is one of ``values``: the value and the row address of each, by address."""
        distinct = pc.unique(_one_array(values).drop_null())
        if self.rows == 0 or len(distinct) == 0:
            return pa.table({column: distinct.slice(0, 0), "_rowaddr": pa.array([], pa.uint64())})
        positions, addresses = self._lookup().find(column, distinct)
        return pa.table({column: distinct.take(pa.array(positions)), "_rowaddr": pa.array(addresses)})

    def fetch(self, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        """Rows whose ``column`` is one of ``values``, by address, with ``columns`` (``_rowaddr`` may be one)."""
        if self.rows == 0:
            return self._nothing(columns)
        distinct = pc.unique(_one_array(values).drop_null())
        if len(distinct) == 0:
            return self._nothing(columns)
        lookup = self._lookup()
        positions, addresses = lookup.find(column, distinct)
        if len(addresses) == 0:
            return self._nothing(columns)
        held: dict[str, Any] = {}
        for name in columns:
            if name == "_rowaddr":
                held[name] = pa.array(addresses)
            elif name == column:
                held[name] = distinct.take(pa.array(positions))
            elif (found := lookup.gather(name, addresses)) is not None:
                held[name] = found
        absent = [name for name in columns if name not in held]
        if absent:
            read = self.take(pa.array(addresses), absent)
            held.update(zip(absent, read.columns, strict=True))
        return pa.table({name: held[name] for name in columns})

    def place(self, address: int) -> int | None:
        """Return how many live rows of its fragment are in front of this one, or None if that is not known without reading."""
        fragment = self.layout.fragments[address >> 32]
        gone = self._cache.deletions(fragment)
        offset = address & 0xFFFFFFFF
        return None if gone is None else offset - gone.before(offset)

    def take(self, addresses: pa.Array[Any], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at these addresses, in this order. An address of a deleted row is an error of the caller."""
        names = list(columns) if columns is not None else self.schema.names
        if len(addresses) == 0:
            return self._nothing(names)
        wanted = np.asarray(_one_array(addresses).to_numpy(zero_copy_only=False), np.uint64)
        found = self._read_addresses(sorted_distinct(wanted), [name for name in names if name != "_rowaddr"])
        order = pc.index_in(pa.array(wanted), value_set=found.column("_rowaddr"))
        return found.take(order).select(names)

    def _read_addresses(self, wanted: Addresses, names: list[str]) -> pa.Table:
        handle = self.handle
        layout = self.layout
        fragment_ids = (wanted >> np.uint64(32)).astype(np.int64)
        parts: list[pa.Table] = []
        sparse: list[Any] = []
        edges = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist(), len(wanted)]
        with reading(handle, self._meter, m.DATA, f"read rows of {self.ref.relative}"):
            for start, end in itertools.pairwise(edges):
                fragment = layout.fragments[int(fragment_ids[start])]
                if end - start > 1000 and (end - start) * _SCAN_SHARE > fragment.rows:
                    rows = self._scanner(handle, names, fragments=[fragment.id], with_row_address=True).to_table()
                    parts.append(rows.filter(pc.is_in(rows.column("_rowaddr"), value_set=pa.array(wanted[start:end]))))
                else:
                    sparse.append(wanted[start:end])
            scattered = np.concatenate(sparse) if sparse else np.empty(0, np.uint64)
            quickly = self._take_by_row_id(handle, scattered, names)
            if quickly is not None:
                parts.append(quickly)
                scattered = scattered[:0]
            for start in range(0, len(scattered), _TAKE_CHUNK):
                chunk = scattered[start : start + _TAKE_CHUNK]
                ids = np.unique(chunk >> np.uint64(32)).tolist()
                parts.append(
                    self._scanner(
                        handle,
                        names,
                        filter=addresses_among(pa.array(chunk)),
                        fragments=ids,
                        with_row_address=True,
                    ).to_table()
                )
        return pa.concat_tables(parts)

    def _take_by_row_id(self, handle: LanceDataset, wanted: Addresses, names: list[str]) -> pa.Table | None:
        """Many scattered rows, twice as fast as by a filter over addresses. None where that way is not open or not quick: few rows,
        row ids outside the manifest, blobs (which it returns as descriptors), and rows that were deleted: then Lance goes
        through the row ids of the whole table at each version, for three times what the filter takes."""
        if len(wanted) < _ROW_IDS_MIN or set(names) & set(blob_columns(self.schema)):
            return None
        if any(fragment.deletion is not None for fragment in self.layout.fragments.values()):
            return None
        ids, known = inline_row_ids(handle, wanted)
        if not known.all():
            return None
        rows = handle._take_rows(pa.array(ids), columns=names)
        if rows.num_rows != len(wanted):
            return None
        return rows.append_column("_rowaddr", pa.array(wanted))

    # --- scans ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        batch_size: int | None = None,
        *,
        with_row_address: bool = False,
        fragments: list[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """All rows that pass ``filter``, in storage order. ``filter`` is a predicate or a pyarrow expression. ``fragments``:
        only theirs."""
        if self.rows == 0:
            return
        handle = self.handle
        names = list(columns) if columns is not None else list(self.schema.names)
        options: dict[str, Any] = {"with_row_address": with_row_address, "fragments": fragments}
        if batch_size is not None:
            options["batch_size"] = batch_size
        with reading(handle, self._meter, m.DATA, f"scan {self.ref.relative}"):
            if isinstance(filter, pc.Expression) and not self._pushes_down(handle, filter):
                yield from self._scan_then_filter(handle, names, filter, options)
                return
            text = to_filter(filter) if filter is not None and not isinstance(filter, pc.Expression) else filter
            yield from self._scanner(handle, names, filter=text, **options).to_batches()

    def to_table(self, columns: Sequence[str] | None = None, filter: Filter | None = None) -> pa.Table:
        names = list(columns) if columns is not None else self.schema.names
        batches = list(self.scan(names, filter))
        return pa.Table.from_batches(batches) if batches else self._nothing(names)

    def count(self, filter: Filter | None = None) -> int:
        """Rows that pass ``filter``; without one, the pin knows."""
        if filter is None or self.rows == 0:
            return self.rows
        some = [self.schema.names[0]]
        return sum(batch.num_rows for batch in self.scan(some, filter))

    def match(self, predicate: Predicate, columns: Sequence[str]) -> pa.Table:
        """Rows that a predicate selects, with ``columns`` and ``_rowaddr``."""
        names = [name for name in columns if name != "_rowaddr"]
        batches = list(self.scan(names, predicate, with_row_address=True))
        if not batches:
            return self._nothing([*names, "_rowaddr"])
        return pa.Table.from_batches(batches).select([*names, "_rowaddr"])

    def _pushes_down(self, handle: LanceDataset, expression: pc.Expression) -> bool:
        """Whether Lance can evaluate the expression itself: it knows no unsigned integers and few functions."""
        try:
            handle.scanner(columns=[], filter=expression, with_row_id=True).explain_plan()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError, OSError):
            return False
        return True

    def _scan_then_filter(
        self, handle: LanceDataset, names: list[str], expression: pc.Expression, options: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        # An expression does not say which columns it reads, so all of them are fetched.
        extra = ["_rowaddr"] if options.get("with_row_address") else []
        for batch in self._scanner(handle, list(self.schema.names), **options).to_batches():
            rows = pa.Table.from_batches([batch]).filter(expression).select([*names, *extra])
            yield from rows.to_batches()

    def _scanner(
        self, handle: LanceDataset, names: list[str], *, fragments: list[int] | None = None, **options: Any
    ) -> Any:
        if fragments is not None and len(fragments) < len(self.layout.fragments):
            options["fragments"] = [handle.get_fragment(int(fragment)) for fragment in fragments]
        return handle.scanner(columns=names, **READ_BYTES, **options)

    def _nothing(self, columns: Sequence[str]) -> pa.Table:
        schema = self.schema
        fields = [pa.field("_rowaddr", pa.uint64()) if name == "_rowaddr" else schema.field(name) for name in columns]
        return pa.schema(fields).empty_table()


def matches(predicate: Predicate, rows: pa.Table) -> pa.Table:
    """The rows of an in-memory table that a predicate selects: the same logic as a scan."""
    if not columns_of(predicate) <= set(rows.column_names):
        raise KeyError(f"columns {sorted(columns_of(predicate) - set(rows.column_names))} are not in the table")
    return rows.filter(mask(predicate, rows))


def _one_array(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
