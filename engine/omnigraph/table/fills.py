"""The values of a column that a change of the schema adds, for one batch of rows as they were before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.core.errors import InvalidInput
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Property, PropType, ScalarKind, TableType
from omnigraph.schema.fill_sql import readable_columns, sql_type
from omnigraph.schema.plan import Fill
from omnigraph.table.arrays import positions

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Valued:
    """A column that gets a value in every row: from a fill, or from the narrower column ``source`` that it replaces."""

    prop: Property
    fill: Fill | None = None
    source: str | None = None  # the name that the narrower column has before the change


class ColumnFills:
    """All columns with values of one table. Close it: an expression holds a connection."""

    def __init__(self, before: TableType, name: str, valued: Iterable[Valued]) -> None:
        self._before = before
        self._name = name
        self._valued = tuple(valued)
        self._constants: dict[str, pa.Array[Any]] = {}
        self._sql_columns = readable_columns(before) if any(_kind(one) == "sql" for one in self._valued) else {}
        self._connection: duckdb.DuckDBPyConnection | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that the values are made from, by their names before the change."""
        named = [self._source(one) for one in self._valued]
        return tuple(dict.fromkeys([*(name for name in named if name is not None), *self._sql_columns]))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def values(self, one: Valued, rows: pa.RecordBatch) -> pa.Array[Any]:
        """The column for rows that have at least ``inputs``."""
        kind = arrow_type(one.prop.type)
        source = self._source(one)
        if source is not None:
            return rows.column(source).cast(kind)
        if one.fill is not None and one.fill.kind == "sql":
            return self._evaluated(one, str(one.fill.given), rows)
        # Every batch is cut from one column: to make 65,536 equal values takes longer than to write them.
        column = self._constants.get(one.prop.name)
        if column is None or len(column) < rows.num_rows:
            if one.fill is None:
                raise AssertionError("a column that is widened has a source")
            value = _constant(one.prop.type, one.fill.given)
            column = self._constants[one.prop.name] = value.take(positions(np.zeros(rows.num_rows, np.int64)))
        return column.slice(0, rows.num_rows)

    def _source(self, one: Valued) -> str | None:
        if one.fill is None:
            return one.source
        return self._before.by_id[one.fill.given].name if one.fill.kind == "property" else None

    # --- SQL --------------------------------------------------------------------------------------------------------

    def _evaluated(self, one: Valued, text: str, rows: pa.RecordBatch) -> pa.Array[Any]:
        import duckdb

        wanted = one.prop.type
        table = pa.table({name: rows.column(name) for name in self._sql_columns})
        connection = self._connected()
        connection.register("fill_rows", table)
        try:
            # The line end keeps a comment at the end of the expression from swallowing the bracket.
            found = connection.sql(f"SELECT CAST(({text}\n) AS {sql_type(wanted)}) AS v FROM fill_rows")
            column: Any = found.to_arrow_table().column("v").combine_chunks()
        except duckdb.Error as error:
            reason = " ".join(str(error).split("\n", 1)[0].split())[:200] or type(error).__name__
            raise self._invalid(one, reason, "write an expression that gives a value for every row") from None
        finally:
            connection.unregister("fill_rows")
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if len(column) != rows.num_rows:
            raise AssertionError("an expression over a row gives one value a row")
        if wanted.scalar is ScalarKind.VECTOR or column.type != arrow_type(wanted):
            column = column.cast(arrow_type(wanted))
        values: pa.Array[Any] = column
        return values

    def _connected(self) -> duckdb.DuckDBPyConnection:
        """One thread, so that rows come back in their order; the zone that a time without one means everywhere here."""
        import duckdb

        if self._connection is None:
            self._connection = duckdb.connect(":memory:", config={"enable_external_access": "false", "threads": "1"})
            self._connection.execute("SET TimeZone = 'UTC'")
        return self._connection

    def _invalid(self, one: Valued, problem: str, hint: str) -> InvalidInput:
        name = f"{self._name}.{one.prop.name}"
        return InvalidInput(f"fill of {name}: {problem}", hint=hint, fill=name)


def _constant(kind: PropType, given: Any) -> pa.Array[Any]:
    """The one value as a column. A fill has its constants in the form that keeps them: days and moments are texts."""
    wanted = arrow_type(kind)
    if kind.scalar not in (ScalarKind.DATE, ScalarKind.DATETIME):
        return pa.array([given], wanted)
    texts: Any = pa.list_(pa.utf8()) if kind.is_list else pa.utf8()
    column: pa.Array[Any] = pa.array([given], texts).cast(wanted)
    return column


def _kind(one: Valued) -> str | None:
    return None if one.fill is None else one.fill.kind
