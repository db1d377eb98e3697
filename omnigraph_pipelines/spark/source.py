"""The data source ``omnigraph``: one type of a graph at a commit, as a DataFrame, in SQL, and through Connect.

Owns the translation between the two worlds: kinds of columns, filters, and fragments as partitions. It only reads. The
commit travels inside the partitions: what a reader remembers while it plans is not there when a task reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph_pipelines.spark.session import PUSHDOWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "omnigraph"
_PARTITION_ROWS: Final = 1 << 20
_BATCH_ROWS: Final = 1 << 16


def read(spark: SparkSession, snapshot: og.Snapshot, type: str, columns: Sequence[str] | None = None) -> DataFrame:
    """A type of a snapshot as a DataFrame. Only ``columns`` are read where they are named: Spark does not tell a source
    which ones a query uses."""
    register(spark)
    frame = spark.read.format(NAME).option("uri", snapshot.uri).option("type", type)
    frame = frame.option("branch", snapshot.branch).option("commit", snapshot.commit_id)
    return frame.schema(spark_schema(snapshot.schema(type), columns)).load()


def register(spark: SparkSession) -> None:
    """Make ``format("omnigraph")`` known to a session, with filters handed down to it."""
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(OmnigraphSource)


class OmnigraphSource(DataSource):
    """Options: ``uri``, ``type``; ``commit`` (the newest when the query is planned, if left out); ``branch``; ``pushdown``:
    false where the session does not hand filters down."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        options = _options(self.options)
        return spark_schema(_snapshot(options["uri"], options["branch"], options["commit"]).schema(options["type"]))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = _options(self.options)
        if str(self.options.get("pushdown", "true")).lower() == "false":
            return _Reader(options, schema)
        return _FilteringReader(options, schema)


def _options(given: Mapping[str, str]) -> dict[str, str]:
    found = {name: given.get(name) or "" for name in ("uri", "type", "commit", "branch")}
    for name in ("uri", "type"):
        if not found[name]:
            raise og.errors.InvalidInput(f"the data source {NAME} needs the option {name!r}")
    return {**found, "branch": found["branch"] or "main"}


@lru_cache(maxsize=16)
def _opened(uri: str, branch: str, commit: str) -> og.Snapshot:
    return og.open(uri, read_only=True).snapshot(branch, at=commit)


def _snapshot(uri: str, branch: str, commit: str) -> og.Snapshot:
    """A commit never changes, so that a worker opens it once. The newest one is looked up each time."""
    if commit:
        return _opened(uri, branch, commit)
    return og.open(uri, read_only=True).snapshot(branch)


# --- partitions and rows ------------------------------------------------------------------------------------------------


class _Fragments(InputPartition):
    """What one task reads, and at which commit."""

    def __init__(self, commit: str, numbers: tuple[int, ...]) -> None:
        super().__init__(numbers)
        self.commit = commit
        self.numbers = numbers


class _Reader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = dict(options)
        self._schema = schema
        self._columns = list(schema.fieldNames())
        self._where: list[pc.Expression] = []

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        snapshot = _snapshot(options["uri"], options["branch"], options["commit"])
        return [_Fragments(snapshot.commit_id, numbers) for numbers in _gathered(snapshot.fragments(options["type"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Fragments):
            return  # an empty table: Spark makes up a partition of its own
        options = self._options
        snapshot = _snapshot(options["uri"], options["branch"], partition.commit)
        columns = self._columns or ["id"]
        wanted = _exactly(self._schema)
        where = None
        for one in self._where:
            where = one if where is None else where & one
        found = snapshot.to_batches(
            options["type"], columns, where, batch_size=_BATCH_ROWS, fragments=list(partition.numbers)
        )
        for batch in found:
            # To the letter: Spark compares names of list elements and what may be null.
            found_columns = [as_spark(batch.column(field.name), field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(found_columns, schema=wanted)


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what the tables can answer; hands the rest back."""
        options = self._options
        schema = _snapshot(options["uri"], options["branch"], options["commit"]).schema(options["type"])
        for one in filters:
            expression = as_expression(one, schema)
            if expression is None:
                yield one
            else:
                self._where.append(expression)


def _gathered(fragments: Sequence[Any]) -> Iterator[tuple[int, ...]]:
    """Fragments that follow one another, gathered until they are worth a task."""
    held: list[int] = []
    rows = 0
    for fragment in fragments:
        if held and rows + fragment.rows > _PARTITION_ROWS:
            yield tuple(held)
            held, rows = [], 0
        held.append(fragment.id)
        rows += fragment.rows
    if held:
        yield tuple(held)


# --- kinds --------------------------------------------------------------------------------------------------------------


def spark_schema(schema: pa.Schema, columns: Sequence[str] | None = None) -> StructType:
    """The columns as Spark has them: wider integers for unsigned ones, arrays for vectors."""
    from pyspark.sql.pandas.types import from_arrow_schema

    names = list(columns) if columns is not None else schema.names
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise og.errors.InvalidInput(
            f"no column {unknown[0][:80]!r}; there are {', '.join(schema.names)[:200]}", column=unknown[0][:80]
        )
    fields = [schema.field(name) for name in names]
    return from_arrow_schema(pa.schema([pa.field(f.name, _spark_kind(f.type), f.nullable) for f in fields]))


def _spark_kind(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_uint32(kind):
        return pa.int64()
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_spark_kind(kind.value_type))
    return kind


def _exactly(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def as_spark(column: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    return column if column.type == wanted else column.cast(_spark_kind(column.type)).cast(wanted)


# --- filters ------------------------------------------------------------------------------------------------------------

_COMPARISONS: Final[Mapping[type, Any]] = {
    EqualTo: lambda field, value: field == value,
    GreaterThan: lambda field, value: field > value,
    GreaterThanOrEqual: lambda field, value: field >= value,
    LessThan: lambda field, value: field < value,
    LessThanOrEqual: lambda field, value: field <= value,
}


def as_expression(given: Filter, schema: pa.Schema) -> pc.Expression | None:
    """A filter as the tables understand it; None for one that stays with Spark."""
    attribute: tuple[str, ...] = getattr(given, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in schema.names:
        return None
    kind = schema.field(attribute[0]).type
    if pa.types.is_nested(kind) or pa.types.is_large_binary(kind) or pa.types.is_uint64(kind):
        return None
    column: Any = pc.field(attribute[0])
    made: Any = None
    if isinstance(given, IsNull):
        made = pc.is_null(column)
    elif isinstance(given, IsNotNull):
        made = pc.is_valid(column)
    if made is not None:
        return cast("pc.Expression", made)
    try:
        if isinstance(given, In):
            return cast("pc.Expression", column.isin(pa.array(list(given.value), kind)))
        compare = _COMPARISONS.get(type(given))
        value: Any = getattr(given, "value", None)
        if compare is None or value is None:
            return None
        return cast("pc.Expression", compare(column, pa.scalar(value, kind)))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
