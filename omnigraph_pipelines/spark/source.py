"""The data source ``omnigraph``: one type of a graph at a commit, as a DataFrame, in SQL, and through Connect.

Owns the translation between the two worlds: kinds of columns, filters, and fragments as partitions. It only reads. The
commit travels inside the partitions: what a reader remembers while it plans is not there when a task reads.
"""

from __future__ import annotations

import datetime as dt
import json
import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import omnigraph as og

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "omnigraph"
_PARTITION_ROWS: Final = 1 << 20
_BATCH_ROWS: Final = 1 << 16


def read(
    spark: SparkSession,
    snapshot: og.Snapshot,
    type: str,
    columns: Sequence[str] | None = None,
    filters: Sequence[Sequence[Any]] = (),
) -> DataFrame:
    """A type of a snapshot as a DataFrame. Only ``columns`` are read where they are named, and only rows that pass all of
    ``filters``, which the tables answer, with indices where there are some: ``("age", ">", 30)``, ``("name", "in", [...])``,
    ``("age", "is null")``."""
    register(spark)
    schema = snapshot.schema(type)
    as_expression(filters, schema)  # what is wrong with them is said here, and not by a task
    frame = spark.read.format(NAME).option("uri", snapshot.uri).option("type", type)
    frame = frame.option("branch", snapshot.branch).option("commit", snapshot.commit_id)
    if filters:
        frame = frame.option("filters", json.dumps([list(one) for one in filters], default=_as_text))
    return frame.schema(spark_schema(schema, columns)).load()


def register(spark: SparkSession) -> None:
    """Make ``format("omnigraph")`` known to a session."""
    spark.dataSource.register(OmnigraphSource)


class OmnigraphSource(DataSource):
    """Options: ``uri``, ``type``; ``commit`` (the newest when the query is planned, if left out); ``branch``; ``filters``:
    a JSON list of ``[column, operator, value]``.

    Filters that Spark offers while it plans are not taken. Spark keeps what a reader took with the DataFrame and not with
    the query, so that a second query over the same DataFrame, or its other side of a join, would see the rows of the first.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        options = _options(self.options)
        return spark_schema(_snapshot(options["uri"], options["branch"], options["commit"]).schema(options["type"]))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(_options(self.options), schema)


def _options(given: Mapping[str, str]) -> dict[str, str]:
    found = {name: given.get(name) or "" for name in ("uri", "type", "commit", "branch", "filters")}
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
        where = as_expression(_parsed(options["filters"]), snapshot.schema(options["type"]))
        found = snapshot.to_batches(
            options["type"], columns, where, batch_size=_BATCH_ROWS, fragments=list(partition.numbers)
        )
        for batch in found:
            # To the letter: Spark compares names of list elements and what may be null.
            found_columns = [as_spark(batch.column(field.name), field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(found_columns, schema=wanted)


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

_COMPARISONS: Final[Mapping[str, Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TESTS: Final[Mapping[str, Any]] = {"is null": pc.is_null, "is not null": pc.is_valid}
_FORM: Final = 'a filter is ("column", "operator", value), with one of = != < <= > >= in, or ("column", "is null")'


def as_expression(filters: Sequence[Sequence[Any]], schema: pa.Schema) -> pc.Expression | None:
    """All of the filters as one predicate; None where there is none. A comparison with null is not true."""
    found: Any = None
    for one in filters:
        made = _one_expression(one, schema)
        found = made if found is None else found & made
    return cast("pc.Expression | None", found)


def _one_expression(given: Sequence[Any], schema: pa.Schema) -> Any:
    if isinstance(given, str) or len(given) not in (2, 3) or not all(isinstance(part, str) for part in given[:2]):
        raise og.errors.InvalidInput(f"not a filter: {str(given)[:100]}", hint=_FORM)
    name, sign = given[0], given[1].lower()
    if name not in schema.names:
        raise og.errors.InvalidInput(
            f"no column {name[:80]!r} to filter by; there are {', '.join(schema.names)[:200]}", column=name[:80]
        )
    kind = schema.field(name).type
    column: Any = pc.field(name)
    if len(given) == 2 and sign in _TESTS:
        return _TESTS[sign](column)
    if len(given) != 3 or (sign != "in" and sign not in _COMPARISONS):
        raise og.errors.InvalidInput(f"not a filter: {str(given)[:100]}", hint=_FORM)
    if pa.types.is_nested(kind) or pa.types.is_large_binary(kind):
        raise og.errors.InvalidInput(f"column {name!r} ({kind}) can be tested for null only", column=name)
    try:
        if sign != "in":
            return _COMPARISONS[sign](column, _scalar(given[2], kind))
        values = [_scalar(value, kind).as_py() for value in given[2]]
        return column.isin(pa.array(values, kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = str(error).splitlines()[0][:200] if str(error) else "no value"
        raise og.errors.InvalidInput(f"filter on {name!r} ({kind}): {said}", column=name) from None


def _scalar(value: Any, kind: pa.DataType) -> Any:
    """Numbers and texts by kind; days and instants also as text, as they arrive through options."""
    if value is None or (isinstance(value, bool) != pa.types.is_boolean(kind)):
        raise TypeError(f"{value!r} is not a value of this column")
    if isinstance(value, str) and pa.types.is_temporal(kind):
        return pa.scalar(_moment(value, kind), kind)
    return pa.scalar(value, kind)


def _moment(text: str, kind: pa.DataType) -> dt.date | dt.datetime:
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(text)
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _as_text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    raise og.errors.InvalidInput(f"no value for a filter: {type(value).__name__}", hint=_FORM)


def _parsed(text: str) -> list[Any]:
    if not text:
        return []
    try:
        found = json.loads(text)
    except ValueError as error:
        raise og.errors.InvalidInput(f"the option 'filters' is not JSON: {error}", hint=_FORM) from None
    if not isinstance(found, list):
        raise og.errors.InvalidInput("the option 'filters' is not a list", hint=_FORM)
    return found
