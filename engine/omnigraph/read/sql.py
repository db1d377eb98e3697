"""SQL over the views of one snapshot: one statement that reads, and its rows in the form that the caller asks for.

Owns what may be run and what DuckDB's errors mean. A statement reaches the views of its snapshot, no file and no network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.core.errors import InvalidInput, OmnigraphError, QueryInvalid, StoreUnavailable
from omnigraph.core.operation import operating
from omnigraph.core.shown import html_table
from omnigraph.read.interop import Asker

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

    from omnigraph.read.snapshot import Snapshot

Params = Sequence[Any] | Mapping[str, Any]

_SCAN_FAILED = re.compile(r"reading the stream registered as '([^']+)' failed")
_READS: Final = frozenset({"SELECT", "EXPLAIN"})
_COUNT: Final = re.compile(
    r"\s*select\s+count\(\s*\*\s*\)(?:\s+as\s+(?P<name>[a-z_][a-z_0-9]*))?\s+from\s+(?P<view>[a-z_][a-z_0-9]*)\s*;?\s*",
    re.IGNORECASE,
)
_SHOWN_ROWS: Final = 20
_BATCH_ROWS: Final = 65_536


class SqlResult:
    """Rows of one statement. It is bound to its snapshot at once and runs when rows are asked for, each time anew."""

    def __init__(self, snapshot: Snapshot, text: str, params: Params | None = None) -> None:
        self._snapshot = snapshot
        self._text = text
        self._asker = Asker()
        with self._running():
            # Kept for as long as the result: closing it takes the views away.
            self._connection = snapshot._views(self._asker)
            counted = None if params else _counted(snapshot, _checked(text))
            self._relation = _bound(self._connection, counted or _checked(text), params)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, numbered where one occurs again."""
        return _distinct(self._relation.columns)

    def fetchall(self) -> list[tuple[Any, ...]]:
        with self._running():
            try:
                rows: list[tuple[Any, ...]] = self._relation.fetchall()
            finally:
                self._relation.close()  # else what a LIMIT has left is read on in the background
            return rows

    def fetchmany(self, n: int) -> list[tuple[Any, ...]]:
        """The first ``n`` rows."""
        with self._running():
            rows: list[tuple[Any, ...]] = self._relation.limit(n).fetchall()
            return rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def to_arrow(self) -> pa.Table:
        return self.to_batches().read_all()

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream, which never holds them all."""
        with self._running():
            stream: pa.RecordBatchReader = self._relation.to_arrow_reader(_BATCH_ROWS)
        schema = pa.schema([field.with_name(name) for field, name in zip(stream.schema, self.columns, strict=True)])
        return pa.RecordBatchReader.from_batches(schema, self._batches(stream, schema))

    def _batches(self, stream: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        while True:
            with self._running():
                try:
                    batch = stream.read_next_batch()
                except StopIteration:
                    return
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def to_pandas(self) -> pandas.DataFrame:
        from omnigraph.read.interop import to_pandas

        return to_pandas(self.to_arrow)

    def to_polars(self) -> polars.DataFrame:
        from omnigraph.read.interop import to_polars

        return to_polars(self.to_arrow)

    def __repr__(self) -> str:
        return f"<SqlResult of {self._snapshot.branch} at {self._snapshot.commit_id}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        rows = self.fetchmany(_SHOWN_ROWS + 1)
        more = f"the first {_SHOWN_ROWS} rows" if len(rows) > _SHOWN_ROWS else ""
        return html_table(self.columns, rows[:_SHOWN_ROWS], more, empty="no rows")

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Turn what DuckDB raises into what happened."""
        import duckdb

        try:
            with operating("query", self._snapshot.uri) as operation:
                self._asker.operation = operation
                yield
        except OmnigraphError:
            raise
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise StoreUnavailable(f"the query could not be run: {_first_line(error)}") from error
        except (duckdb.Error, pa.ArrowException) as error:
            self._raise_what_a_scan_raised(str(error))
            raise QueryInvalid(
                f"the query does not run: {_first_line(error)}",
                hint="correct the SQL; `omnigraph snapshot` lists the types, each of which is a view",
            ) from error

    def _raise_what_a_scan_raised(self, message: str) -> None:
        """If reading a type failed, the error that reading it gives: DuckDB passes on the text of one, not the error."""
        found = _SCAN_FAILED.search(message)
        if found is None:
            return
        for _ in self._snapshot.to_batches(found[1]):
            pass
        raise StoreUnavailable(f"{found[1]} could not be read to the end; reading it again succeeded")


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"a statement is a text, not {type(text).__name__}")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise QueryInvalid("the statement is not UTF-8", hint="give the statement as UTF-8")
    return text


def _counted(snapshot: Snapshot, text: str) -> str | None:
    """A statement that says how many rows a view has, for one that only asks that; None for any other. The snapshot knows, and
    DuckDB would read a column to find out."""
    found = _COUNT.fullmatch(text)
    if found is None:
        return None
    declared = [one for one in snapshot.catalog.types() if one.name.lower() == found["view"].lower()]
    if len(declared) != 1 or declared[0].table_key not in snapshot.tables:
        return None
    name = found["name"] or '"count_star()"'
    return f"SELECT {snapshot.tables[declared[0].table_key].rows}::BIGINT AS {name}"


def _bound(connection: duckdb.DuckDBPyConnection, text: str, params: Params | None) -> Any:
    statements = connection.extract_statements(text)
    kinds = [statement.type.name for statement in statements]
    if len(kinds) != 1 or kinds[0] not in _READS:
        raise QueryInvalid(
            f"one select statement is wanted, got: {', '.join(kinds).lower() or 'none'}",
            hint="write one select; a graph is changed with `omnigraph load`",
        )
    if params is not None and (isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping)):
        raise InvalidInput(
            f"params is a list or a mapping, not {type(params).__name__}",
            hint='for example params={"name": "ada"} for $name',
        )
    try:
        return connection.sql(text, params=params)
    except RecursionError:
        raise QueryInvalid(
            "a parameter of the query is nested too deeply", hint="pass texts, numbers, times and flat lists of these"
        ) from None


def _first_line(error: Exception) -> str:
    return " ".join(str(error).partition("\n\n")[0].split())


def _distinct(names: list[str]) -> list[str]:
    """Column names as they are, numbered where one occurs again: rows are objects."""
    found: list[str] = []
    for name in names:
        candidate, n = name, 1
        while candidate in found:
            n += 1
            candidate = f"{name}_{n}"
        found.append(candidate)
    return found
