"""Reading one table of a snapshot at its pin, as columns of the declared kinds.

Owns projection, filters, the bytes of blobs and what a failed read means. Filters are pyarrow expressions; text never
becomes a filter here. What rows look like outside (JSON, frames, SQL) is the business of others.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.engine import Engine
from omnigraph.core import meter as m
from omnigraph.core import operation
from omnigraph.core.errors import DataInvalid, InvalidInput, OmnigraphError
from omnigraph.core.kinds import check_text
from omnigraph.core.shown import value_shown
from omnigraph.core.similar import did_you_mean
from omnigraph.manifest.rows import Pin
from omnigraph.read.failures import check_calendar, damaged, is_damage
from omnigraph.read.rows import Rows
from omnigraph.schema import NodeType, ScalarKind, TableType
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.keytext import canonical_id, join_texts, value_text
from omnigraph.table.dataset import V2_MANIFEST_MAX, TableRef
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.predicate import addresses_among
from omnigraph.table.reading import reading
from omnigraph.table.torn import restore_hint
from omnigraph.wire.data import Fragment

_BATCH_ROWS_MAX = 1 << 16
_COUNT_MAX = 1 << 40  # more rows than a table has; beyond 63 bits the libraries below take no number
_FIRST_ROWS = (
    1 << 15
)  # a long stream begins with as many rows in small batches: a reader of five does not wait for 65,536
_FIRST_BATCH_ROWS = 1 << 11
_BATCH_BYTES = 8 * 1024 * 1024  # of stored bytes; decoded they are a few times as many


class TableReader:
    """One table at its pin. Opens it when a question first needs storage; safe to share between threads.

    A read is an operation, or part of the one that asks for it: its requests are counted as those of a write are.
    ``reclaimed`` is asked when files turn out to be missing: the error to raise if a cleanup took the version. ``unsynced``: a power
    cut may have taken what the state names.
    """

    def __init__(
        self,
        engine: Engine,
        pin: Pin,
        declared: TableType,
        reclaimed: Callable[[m.Meter], OmnigraphError | None],
        *,
        unsynced: bool,
    ) -> None:
        self.pin = pin
        self.declared = declared
        self.schema = pa.schema([pa.field(f.name, f.type, f.nullable) for f in table_schema(declared)])
        self._engine = engine
        self._ref = TableRef(pin.location, pin.ref)
        self._lock = threading.Lock()
        self._handle: Any = None
        self._reclaimed = reclaimed
        self._unsynced = unsynced
        self._blobs = frozenset(p.name for p in declared.properties if p.type.scalar is ScalarKind.BLOB)

    # --- scans ------------------------------------------------------------------------------------------------------

    def batches(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        *,
        batch_rows: int | None = None,
        limit: int | None = None,
        fragments: Sequence[int] | None = None,
        asked_by: operation.Operation | None = None,
        begin_small: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Rows in the order in which they are stored. Arguments are checked before the first row is asked for.

        ``asked_by``: the operation that this is a part of, where that is not the caller's. ``begin_small``: the first batches are
        small, for a reader who may have enough of a few rows.
        """
        names = self.check_columns(columns)
        needs = () if filter is None else self.check_filter(filter)
        asked_by = asked_by or operation.current()
        rows = batch_rows or self.batch_rows
        small = begin_small and batch_rows is None and filter is None and limit is None and fragments is None
        first = _FIRST_ROWS if small and self.pin.rows > 2 * _FIRST_ROWS and not self._blobs.intersection(names) else 0
        return self._batches(names, filter, needs, rows, limit, fragments, asked_by, first)

    def reader(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        *,
        batch_rows: int | None = None,
        fragments: Sequence[int] | None = None,
        asked_by: operation.Operation | None = None,
    ) -> pa.RecordBatchReader:
        schema = self.select(self.check_columns(columns))
        found = self.batches(
            columns, filter, batch_rows=batch_rows, fragments=fragments, asked_by=asked_by, begin_small=True
        )
        return pa.RecordBatchReader.from_batches(schema, found)

    def to_arrow(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, *, limit: int | None = None
    ) -> pa.Table:
        schema = self.select(self.check_columns(columns))
        return pa.Table.from_batches(self.batches(columns, filter, limit=limit), schema=schema)

    def count(self, filter: pc.Expression | None = None) -> int:
        """Without a filter the pin knows."""
        if filter is None:
            return self.pin.rows
        return sum(batch.num_rows for batch in self.batches(["id"], filter))

    @property
    def batch_rows(self) -> int:
        """Rows of one batch, so that a batch of wide rows stays small."""
        if self.pin.rows == 0 or self.pin.bytes == 0:
            return _BATCH_ROWS_MAX
        return max(1, min(_BATCH_ROWS_MAX, _BATCH_BYTES * self.pin.rows // self.pin.bytes))

    def _batches(
        self,
        names: list[str],
        filter: pc.Expression | None,
        needs: Sequence[str],
        batch_rows: int,
        limit: int | None,
        fragments: Sequence[int] | None,
        asked_by: operation.Operation | None,
        first: int,
    ) -> Iterator[pa.RecordBatch]:
        if self.pin.rows == 0 or limit == 0:
            return
        schema = self.select(names)
        with self._counted("read", asked_by) as meter, self._explained(names, meter):
            handle = self._open(meter)
            options: dict[str, Any] = {"blob_handling": "all_binary", "batch_size": batch_rows}
            if fragments is not None:
                options["fragments"] = self._chosen(handle, fragments)
            pushed = filter is None or self._pushes_down(handle, filter, needs)
            with reading(handle, meter, m.DATA, f"reading {self.declared.table_key}"):
                if pushed:
                    parts: list[dict[str, Any]] = [{"limit": limit}]
                    if first:
                        parts = [{"limit": first, "batch_size": min(_FIRST_BATCH_ROWS, batch_rows)}, {"offset": first}]
                    for part in parts:
                        for batch in handle.scanner(columns=names, filter=filter, **{**options, **part}).to_batches():
                            if batch.num_rows:
                                check_calendar(batch)
                                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
                    return
                left, where = limit, cast(pc.Expression, filter)
                wanted = [*names, *(name for name in needs if name not in names)]
                for batch in handle.scanner(columns=wanted, **options).to_batches():
                    check_calendar(batch)
                    rows = pa.table(batch.columns, schema=self.select(wanted)).filter(where).select(names)
                    for one in rows.slice(0, left).to_batches():
                        yield one
                        if left is not None:
                            left -= one.num_rows
                    if left == 0:
                        return

    def _chosen(self, handle: Any, wanted: Sequence[int]) -> list[Any]:
        found = [handle.get_fragment(number) for number in wanted]
        missing = [number for number, one in zip(wanted, found, strict=True) if one is None]
        if missing:
            raise InvalidInput(
                f"{self.declared.name} has no fragment {missing[0]} at this commit",
                hint="take the numbers from snapshot.fragments(type) of the same snapshot",
            )
        return found

    def _pushes_down(self, handle: Any, filter: pc.Expression, needs: Sequence[str]) -> bool:
        """Whether the table can evaluate the expression itself: it knows no unsigned integers, no blobs, few functions."""
        if self._blobs.intersection(needs):
            return False
        try:
            handle.scanner(columns=[], filter=filter, with_row_id=True).explain_plan()
        except (pa.ArrowException, ValueError, OSError):
            return (
                False  # whatever the reason: rows are then filtered here, and a real failure shows when they are read
            )
        return True

    # --- single rows ------------------------------------------------------------------------------------------------

    def get(self, key: object) -> dict[str, Any] | None:
        """The row with this id, or None."""
        found = self._id_of(key)
        if self.pin.rows == 0:
            return None
        names = self.schema.names
        with self._counted("get", operation.current()) as meter, self._explained(names, meter):
            pinned = self._pinned(meter)
            address = pinned.locate(pa.array([found], pa.utf8())).column("_rowaddr").combine_chunks()
            if len(address) == 0:
                return None
            place = None if self._blobs else pinned.place(address[0].as_py())
            table = self._row_at(self._open(meter), address, place, meter)
            check_calendar(table)
        row: dict[str, Any] = table.to_pylist()[0]
        return row

    def _row_at(self, handle: Any, address: pa.Array[Any], place: int | None, meter: m.Meter) -> pa.Table:
        """The row at this address. ``place``: its number among the live rows of its fragment, where that is known; it is read
        in a third of the time then."""
        names = self.schema.names
        with reading(handle, meter, m.DATA, f"reading {self.declared.table_key}"):
            fragment: Any = handle.get_fragment(address[0].as_py() >> 32)
            if place is not None:
                return pa.table(fragment.take([place], columns=names).columns, schema=self.schema)
            scanner = handle.scanner(
                columns=names,
                filter=addresses_among(address),
                fragments=[fragment],
                blob_handling="all_binary",
            )
            return pa.table(scanner.to_table().columns, schema=self.schema)

    def head(self, n: int) -> Rows:
        return Rows(self.to_arrow(limit=whole_number("n", n)))

    def _id_of(self, key: object) -> str:
        """An id as it is, or the id that key values of the declared kinds make: one value, or a tuple or list of them."""
        declared = self.declared
        if isinstance(key, str):
            check_text("id", key)
            if isinstance(declared, NodeType):
                _check_spelling(declared, key)
            return key
        if isinstance(declared, NodeType) and declared.key is not None:
            values = list(key) if isinstance(key, tuple | list) else [key]
            for value in values:
                check_text("id", value)
            if len(values) == len(declared.key):
                try:
                    pairs = zip(declared.key, values, strict=True)
                    return join_texts([value_text(declared.property(name).type, value) for name, value in pairs])
                except DataInvalid as error:
                    raise InvalidInput(f"not a key of {declared.name}: {error.message}") from error
            raise InvalidInput(
                f"the key of a {declared.name} has {len(declared.key)} values, not {len(values)}: {value_shown(key)}",
                hint=f"give ({', '.join(declared.key)}), or what the column id of a query shows",
            )
        raise InvalidInput(f"the id of a {declared.name} is a text, not {value_shown(key)}")

    # --- pieces -----------------------------------------------------------------------------------------------------

    def fragments(self) -> tuple[Fragment, ...]:
        """The pieces of the table, in order."""
        if self.pin.rows == 0:
            return ()
        with self._counted("fragments", operation.current()) as meter, self._explained([], meter):
            listed = [fragment.metadata for fragment in self._open(meter).get_fragments()]
        return tuple(
            Fragment(
                id=meta.id,
                rows=meta.physical_rows - meta.num_deletions,
                deleted_rows=meta.num_deletions,
                bytes=sum(file.file_size_bytes or 0 for file in meta.files),
                files=tuple(f"data/{file.path}" for file in meta.files),
            )
            for meta in listed
        )

    # --- storage ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _counted(self, name: str, asked_by: operation.Operation | None) -> Iterator[m.Meter]:
        engine = self._engine
        with operation.reading(name, engine.uri, asked_by, clock=engine.clock) as meter, engine.counted(meter):
            yield meter

    def _open(self, meter: m.Meter) -> Any:
        """The dataset at the pin, opened once."""
        with self._lock:
            if self._handle is None:
                self._handle = self._engine.tables.open(self._ref, self.pin.version, meter)
            return self._handle

    def _pinned(self, meter: m.Meter) -> PinnedTable:
        pin, keys = self.pin, self._engine.keys
        return PinnedTable(lambda: self._open(meter), self._ref, pin.version, pin.rows, keys, meter, recent=pin.recent)

    # --- arguments --------------------------------------------------------------------------------------------------

    def select(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])

    def check_columns(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.schema.names)
        if isinstance(columns, str):
            raise InvalidInput("columns is a list of names", hint=f"pass columns=[{columns[:80]!r}]")
        names = list(columns)
        unknown = [name for name in names if name not in self.schema.names]
        if unknown:
            raise InvalidInput(
                f"{self.declared.name} has no column {str(unknown[0])[:80]!r}; it has {', '.join(self.schema.names)}",
                hint=did_you_mean(unknown[0], self.schema.names) or "use columns that the type has",
                type=self.declared.name,
                column=str(unknown[0])[:80],
                known=list(self.schema.names),
            )
        if not names or len(set(names)) != len(names):
            raise InvalidInput("columns names at least one column, and none twice", type=self.declared.name)
        return names

    def check_filter(self, filter: pc.Expression) -> list[str]:
        """The columns that the expression reads. Refuses what does not fit the table, before storage is asked."""
        if not isinstance(filter, pc.Expression):
            raise InvalidInput(
                f"a filter is a pyarrow expression, not {type(filter).__name__}",
                hint='write it as pyarrow.compute.field("age") > 30',
                type=self.declared.name,
            )
        empty = self.schema.empty_table()
        try:
            empty.filter(filter)
        except (pa.ArrowException, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InvalidInput(
                f"the filter does not fit {self.declared.name}: {reason}",
                hint=f"its columns are {', '.join(self.schema.names)}",
                type=self.declared.name,
            ) from error
        # An expression does not say what it reads; it fails on a table that lacks it.
        return [name for name in self.schema.names if not _fits(filter, empty.drop_columns([name]))]

    # --- failures ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _explained(self, names: Sequence[str], meter: m.Meter) -> Iterator[None]:
        try:
            yield
        except OmnigraphError as error:
            if not is_damage(error):
                raise
            gone = self._reclaimed(meter)
            if gone is not None:
                raise gone from error
            key, version = self.declared.table_key, self.pin.version
            known = error.facts.get("file")
            found = damaged(error, key, version, lambda: known or self._damaged_file(names, meter))
            if self._unsynced:
                found.hint = restore_hint(self._engine.uri)
            raise found from error

    def _damaged_file(self, names: Sequence[str], meter: m.Meter) -> str | None:
        """The first file that does not read, found by reading one piece after the other."""
        try:
            handle = self._open(meter)
        except OmnigraphError:
            return f"_versions/{V2_MANIFEST_MAX - self.pin.version:020d}.manifest"
        for fragment in handle.get_fragments():
            scanner = handle.scanner(columns=list(names), fragments=[fragment], blob_handling="all_binary")
            try:
                with reading(handle, meter, m.DATA, "looking for the damaged file"):
                    for batch in scanner.to_batches():
                        check_calendar(batch)
            except OmnigraphError:
                return next((f"data/{part.path}" for part in fragment.metadata.files), None)
        return None


def _fits(filter: pc.Expression, table: pa.Table) -> bool:
    try:
        table.filter(filter)
    except pa.ArrowException:
        return False
    return True


def _check_spelling(declared: NodeType, text: str) -> None:
    """Refuse another spelling of an id: "there is no such row" would be true of the text and false of what is meant."""
    meant = canonical_id(declared, text)
    if meant is not None and meant != text:
        raise InvalidInput(
            f"{text[:80]!r} is no id of {declared.name}: it is spelled {meant[:80]!r}",
            hint=f"give {meant[:80]}, or the values of the key: one, or a tuple of them",
            type=declared.name,
            id=meant,
        )


def whole_number(name: str, value: object, least: int = 0) -> int:
    """Return an argument that counts rows, at most as many as any table can have."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{name} is a whole number from {least} on, not {str(value)[:80]!r}")
    return min(value, _COUNT_MAX)
