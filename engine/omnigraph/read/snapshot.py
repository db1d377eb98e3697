"""A snapshot: one state of one branch, read as often as one likes. It never changes.

Owns names (of types, by their name or table key) and hands on to the parts that do the work: ``tables`` scans, ``export``
writes records, ``interop`` makes frames and SQL views. Rows carry the names of columns: ``id``, for edges ``src`` and
``dst``, then the properties.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError
from omnigraph.core.kinds import methods_checked
from omnigraph.core.meter import Meter
from omnigraph.core.operation import operating
from omnigraph.core.progress import Listener
from omnigraph.core.shown import html_table
from omnigraph.core.similar import did_you_mean
from omnigraph.manifest.rows import STORAGE_VERSION, Pin
from omnigraph.manifest.swap import Held
from omnigraph.read.rows import Rows
from omnigraph.read.tables import TableReader, whole_number
from omnigraph.schema import Catalog, TableType
from omnigraph.table.dataset import TableRef
from omnigraph.wire.data import Fragment, TableEntry

if TYPE_CHECKING:
    import duckdb
    import networkx  # type: ignore[import-untyped]  # it has no types
    import pandas
    import polars
    from duckdb import DuckDBPyConnection

    from omnigraph.read.export import Destination
    from omnigraph.read.interop import Asker
    from omnigraph.read.relation import Relation
    from omnigraph.read.sql import Params, SqlResult
    from omnigraph.store import Store
    from omnigraph.wire.data import ExportReport, SnapshotReport

_KNOWN_SHOWN_MAX = 30
_BATCH_ROWS_MAX = 2**31 - 1  # Lance counts them in 32 bits


def snapshot_of_branch(engine: Engine, branch: str = MAIN, *, meter: Meter | None = None) -> Snapshot:
    """The branch as it is now."""
    return Snapshot(engine, branch, read_current(engine, branch, meter=meter or Meter()))


@methods_checked
class Snapshot:
    """A branch at one commit. Safe to share between threads; pickles as its address (store, branch, commit id)."""

    def __init__(self, engine: Engine, branch: str, held: Held, *, asked: str | None = None) -> None:
        self._engine = engine
        self._branch = branch
        self._held = held
        self._asked = asked
        self._catalog = engine.catalog(held.state.schema)
        self._lock = threading.Lock()
        self._readers: dict[str, TableReader] = {}
        self._tables: Mapping[str, TableEntry] | None = None

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def commit_id(self) -> str:
        return self._held.state.head.commit_id

    @property
    def as_of(self) -> str | None:
        """The commit that was asked for, where it is not the last one of its swap: a state has one name."""
        return None if self._asked in (None, self.commit_id) else self._asked

    @property
    def branch(self) -> str:
        return self._branch

    @property
    def manifest_version(self) -> int:
        return self._held.version

    @property
    def catalog(self) -> Catalog:
        """The schema that was accepted at this commit."""
        return self._catalog

    @property
    def uri(self) -> str:
        return self._engine.uri

    @property
    def tables(self) -> Mapping[str, TableEntry]:
        """By table key (``node:Person``, ``edge:Knows``), in its order."""
        if self._tables is None:  # made when asked for: a graph may have thousands
            pins = self._held.state.tables
            keys = sorted(declared.table_key for declared in self._types())
            self._tables = MappingProxyType({key: self._entry(pins[key]) for key in keys})
        return self._tables

    def schema(self, type: str) -> pa.Schema:
        """The columns of a type."""
        return self._reader(type).schema

    def to_dict(self) -> dict[str, Any]:
        return self.report().to_dict()

    def report(self) -> SnapshotReport:
        """What the snapshot is, without its rows."""
        from omnigraph.wire.data import SnapshotReport, SnapshotTable

        pins = self._held.state.tables
        return SnapshotReport(
            self.branch,
            self.commit_id,
            self.manifest_version,
            STORAGE_VERSION,
            tuple(
                SnapshotTable(key, pins[key].location, entry.version, entry.branch, entry.rows)
                for key, entry in self.tables.items()
            ),
        )

    def __repr__(self) -> str:
        rows = sum(entry.rows for entry in self.tables.values())
        return f"<Snapshot {self.branch} at {self.commit_id}: {len(self.tables)} tables, {rows} rows>"

    def _repr_html_(self) -> str:
        rows = [(key, entry.rows, entry.version) for key, entry in self.tables.items()]
        return html_table(("table", "rows", "version"), rows, f"{self.branch} at {self.commit_id}", empty="no tables")

    def __reduce__(self) -> tuple[Any, ...]:
        # Options with credentials stay behind: who opens it again brings credentials of their own.
        return _reopen, (self._engine.store, self.branch, self.commit_id)

    # --- rows -------------------------------------------------------------------------------------------------------

    def get(self, type: str, id: object) -> dict[str, Any] | None:
        """One row by its id, as Python values by column; None if there is none. The values of a key are taken too."""
        return self._reader(type).get(id)

    def head(self, type: str, n: int = 20) -> Rows:
        """The first rows in the order in which they are stored."""
        return self._reader(type).head(n)

    def count(self, type: str, filter: pc.Expression | None = None) -> int:
        return self._reader(type).count(filter)

    def fragments(self, type: str) -> tuple[Fragment, ...]:
        """The pieces in which a table is stored, for readers that share the work."""
        return self._reader(type).fragments()

    def to_arrow(
        self, type: str, columns: Sequence[str] | None = None, filter: pc.Expression | None = None
    ) -> pa.Table:
        return self._reader(type).to_arrow(columns, filter)

    def to_batches(
        self,
        type: str,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        *,
        batch_size: int | None = None,
        fragments: Sequence[int] | None = None,
    ) -> pa.RecordBatchReader:
        """The same rows as a stream, which never holds them all. ``fragments``: only these, by the numbers that
        ``fragments()`` gives."""
        rows = None if batch_size is None else min(whole_number("batch_size", batch_size, 1), _BATCH_ROWS_MAX)
        return self._reader(type).reader(columns, filter, batch_rows=rows, fragments=fragments)

    def to_pandas(
        self, type: str, columns: Sequence[str] | None = None, filter: pc.Expression | None = None
    ) -> pandas.DataFrame:
        """Integers and booleans as pandas' nullable kinds: a missing value changes no other."""
        from omnigraph.read.interop import to_pandas

        return to_pandas(lambda: self.to_arrow(type, columns, filter))

    def to_polars(
        self, type: str, columns: Sequence[str] | None = None, filter: pc.Expression | None = None
    ) -> polars.DataFrame:
        from omnigraph.read.interop import to_polars

        return to_polars(lambda: self.to_arrow(type, columns, filter))

    def to_spark(
        self, spark: Any, type: str, columns: Sequence[str] | None = None, filter: pc.Expression | None = None
    ) -> Any:
        """A Spark DataFrame (classic or Connect) of this commit, filled by executors when rows are asked for. What is not
        in ``columns`` is not read, and ``filter`` is answered by the tables, with their indexes."""
        from omnigraph.read.interop import to_spark

        return to_spark(spark, self, type, columns, filter)

    def duckdb(self, *, allow_files: bool = False) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection in memory with one view per type. Rows are read when a query asks for them. ``allow_files``: let its
        statements read and write files and reach the network, with the rights of this process; without it they cannot."""
        from omnigraph.read.interop import to_duckdb

        readers = {declared.name: self._reader(declared.table_key) for declared in self._types()}
        return to_duckdb(readers, allow_files=allow_files)

    def _views(self, asker: Asker) -> DuckDBPyConnection:
        """The same views on a connection that reaches nothing else."""
        from omnigraph.read.interop import to_duckdb

        readers = {declared.name: self._reader(declared.table_key) for declared in self._types()}
        return to_duckdb(readers, locked=asker)

    def sql(self, text: str, params: Params | None = None) -> SqlResult:
        """One select statement over one view a type; ``params`` for ``?`` or ``$name``."""
        from omnigraph.read.sql import SqlResult

        return SqlResult(self, text, params)

    def __getitem__(self, type: str) -> Relation:
        """The rows of a type, to filter, select and limit before they are read."""
        from omnigraph.read.relation import Relation

        return Relation(self, self._find(type).table_key)

    def to_networkx(self, types: Iterable[str] | None = None, limit: int | None = None) -> networkx.MultiDiGraph:
        """The graph in memory, nodes as ``(type, id)``. An edge type brings the node types at its ends. More rows than
        ``limit`` are refused before any is read."""
        from omnigraph.read.networks import to_networkx

        chosen = self._types() if types is None else [reader.declared for reader in self._chosen(types)]
        return to_networkx(self, chosen, limit)

    # --- records ----------------------------------------------------------------------------------------------------

    @overload
    def export(
        self,
        dest: None = None,
        types: Iterable[str] | None = None,
        *,
        format: Literal["ndjson"] = "ndjson",
        limit: int | None = None,
        progress: Listener | None = None,
    ) -> str: ...

    @overload
    def export(
        self,
        dest: Destination,
        types: Iterable[str] | None = None,
        *,
        format: Literal["ndjson", "parquet"] = "ndjson",
        limit: int | None = None,
        progress: Listener | None = None,
    ) -> ExportReport: ...

    def export(
        self,
        dest: Destination | None = None,
        types: Iterable[str] | None = None,
        *,
        format: Literal["ndjson", "parquet"] = "ndjson",
        limit: int | None = None,
        progress: Listener | None = None,
    ) -> str | ExportReport:
        """Write rows as input that ``load`` takes.

        ``ndjson``: records, the same bytes for the same state, as text or into a path or an open file. ``parquet``: one
        file a type, into a folder that is empty or not there yet. ``limit``: stop after so many records: a sample, not a
        copy, as edges come before the nodes that they join.
        """
        if format not in ("ndjson", "parquet"):
            raise InvalidInput(
                f"the format of an export is ndjson or parquet, not {str(format)[:80]!r}",
                hint='pass format="ndjson" or format="parquet"',
            )
        if limit is not None:
            whole_number("limit", limit)
        with operating("export", self.uri, listener=progress, clock=self._engine.clock):
            readers = self._chosen(types)
            if format == "parquet":
                from omnigraph.read.export_parquet import export_parquet

                return export_parquet(readers, dest, limit)
            from omnigraph.read.export import export_text, export_to

            return export_text(readers, limit) if dest is None else export_to(readers, dest, limit)

    # --- names ------------------------------------------------------------------------------------------------------

    def _types(self) -> list[TableType]:
        return [declared for declared in self._catalog.types() if declared.table_key in self._held.state.tables]

    def _chosen(self, types: Iterable[str] | None) -> list[TableReader]:
        """Readers of the types named (of all without names), each once, in the order of table keys."""
        if types is None:
            return [self._reader(declared.table_key) for declared in self._types()]
        if isinstance(types, str):
            raise InvalidInput("types is a list of names", hint=f"pass types=[{types[:80]!r}]")
        keys = sorted({self._find(name).table_key for name in types})
        if not keys:
            raise InvalidInput("types names at least one type", hint="leave it out to export all")
        return [self._reader(key) for key in keys]

    def _find(self, name: str) -> TableType:
        """A type by its name, or by its table key; edges whatever their case."""
        if not isinstance(name, str):
            raise InvalidInput(f"the name of a type is a text, not {str(name)[:80]!r}")
        kind, colon, short = name.partition(":")
        found: TableType | None
        if colon:
            find = {"node": self._catalog.find_node, "edge": self._catalog.find_edge}.get(kind)
            found = find(short) if find is not None else None
        else:
            found = self._catalog.find_node(name) or self._catalog.find_edge(name)
        if found is None or found.table_key not in self._held.state.tables:
            known = [declared.name for declared in self._types()]
            shown = ", ".join(known[:_KNOWN_SHOWN_MAX]) + (", …" if len(known) > _KNOWN_SHOWN_MAX else "")
            raise NotFound(
                f"no type {name[:80]!r} in this snapshot; it has {shown}",
                hint=did_you_mean(name, known)
                or "use one of the names listed; the names of nodes are exact in their case",
                type=name[:80],
                known=known,
            )
        return found

    def _reader(self, name: str) -> TableReader:
        declared = self._find(name)
        key = declared.table_key
        with self._lock:
            reader = self._readers.get(key)
            if reader is None:
                pin = self._held.state.tables[key]
                reader = self._readers[key] = TableReader(
                    self._engine,
                    pin,
                    declared,
                    self._reclaimed,
                    unsynced=self._held.state.head.unsynced_since is not None,
                )
            return reader

    def _reclaimed(self, meter: Meter) -> OmnigraphError | None:
        from omnigraph.read.at import reclaimed_since

        return reclaimed_since(self._engine, self._held, meter)

    def _entry(self, pin: Pin) -> TableEntry:
        where = MAIN if pin.ref is None else pin.ref
        return TableEntry(pin.version, pin.rows, where, self._engine.tables.uri(TableRef(pin.location, pin.ref)))


def _reopen(store: Store, branch: str, commit_id: str) -> Snapshot:
    from omnigraph.read.places import snapshot_at

    return snapshot_at(Engine(store, read_only=True), commit_id, branch=branch)
