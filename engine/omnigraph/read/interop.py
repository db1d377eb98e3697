"""Ways into other libraries: pandas, polars, DuckDB, Spark. Each is imported when it is asked for.

Owns what becomes of types on the way; nothing may change a value silently. Of Spark it knows only who does it: the pipelines.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from omnigraph.core.errors import MissingExtra
from omnigraph.core.operation import Operation, current
from omnigraph.read.tables import TableReader

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

    from omnigraph.read.snapshot import Snapshot


def to_pandas(read: Callable[[], pa.Table]) -> pandas.DataFrame:
    frames: Any = _extra("pandas", "frames")
    # numpy's integers and booleans have no missing value; pandas' own do, so that one null makes no number a float.
    kinds = {
        pa.bool_(): frames.BooleanDtype(),
        pa.int32(): frames.Int32Dtype(),
        pa.int64(): frames.Int64Dtype(),
        pa.uint32(): frames.UInt32Dtype(),
        pa.uint64(): frames.UInt64Dtype(),
    }
    found: pandas.DataFrame = read().to_pandas(types_mapper=kinds.get)
    return found


def to_polars(read: Callable[[], pa.Table]) -> polars.DataFrame:
    frames: Any = _extra("polars", "frames")
    found: polars.DataFrame = frames.from_arrow(read())
    return found


class _Locked:
    """A database of this process that reaches neither files nor the network, for statements that only read. Making one takes
    longer than most statements; a connection to it is made at once, and sees only its own views."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[int, duckdb.DuckDBPyConnection] | None = None

    def connection(self) -> duckdb.DuckDBPyConnection:
        import duckdb

        with self._lock:
            if self._made is None or self._made[0] != os.getpid():  # its threads do not survive a fork
                made = duckdb.connect(":memory:")
                made.execute("SET GLOBAL TimeZone = 'UTC'")
                made.execute("SET enable_external_access = false")
                made.execute("SET lock_configuration = true")
                self._made = (os.getpid(), made)
            return self._made[1].cursor()


_LOCKED = _Locked()


class Asker:
    """The operation that the scans of a connection are a part of. DuckDB asks from threads of its own, which have no current operation."""

    def __init__(self, operation: Operation | None = None) -> None:
        self.operation = operation


def to_duckdb(
    readers: Mapping[str, TableReader], *, allow_files: bool = False, locked: Asker | None = None
) -> duckdb.DuckDBPyConnection:
    """One view per type, under its name. What is created beside them lives and dies with the connection. Without ``allow_files``
    no statement reaches a file or the network, and none can change that: the text may come from a stranger. ``locked``: on a
    database that many connections share, for the operations of this asker."""
    import duckdb

    if locked is not None:
        connection = _LOCKED.connection()
    else:
        connection = duckdb.connect(":memory:")
        connection.execute("SET TimeZone = 'UTC'")
    for name, reader in readers.items():
        connection.register(name, _Scanned(reader, locked or Asker(current())))
    if not allow_files and locked is None:
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    return connection


class _Scanned(ds.Dataset):
    """A table as DuckDB wants it: it asks for a scan with the columns and the filter that a query needs.

    Only the two members below are ever used of a dataset; the C++ half of the base class stays empty.
    """

    def __init__(self, reader: TableReader, asker: Asker) -> None:
        self._reader = reader
        self._asker = asker

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def scanner(  # type: ignore[override]  # DuckDB passes these two
        self, columns: list[str] | None = None, filter: Any = None, **_: Any
    ) -> ds.Scanner:
        # A query that only counts asks for no column at all.
        found = self._reader.reader(columns or None, filter, asked_by=self._asker.operation)
        # Batches are read ahead below already; here each one more is rows that a LIMIT does not want.
        return ds.Scanner.from_batches(found, batch_readahead=1, fragment_readahead=1)


def to_spark(spark: Any, snapshot: Snapshot, type: str, columns: Sequence[str] | None, filter: Any) -> Any:
    """A DataFrame that executors fill. The engine knows nothing of Spark: the pipelines are found by their name."""
    _extra("pyspark", "pipelines")
    pipelines: Any = _extra("omnigraph_pipelines.spark", "pipelines")
    return pipelines.read(spark, snapshot, type, columns, () if filter is None else filter)


def _extra(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(
            f"{name} is not installed: extra={extra}",
            hint=f"pip install 'omnigraph-pipelines[{extra}]'",
            extra=extra,
        ) from error
