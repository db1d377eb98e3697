"""A type of a snapshot as a DataFrame: fragments as partitions, read by the tasks of the job that asks for rows.

Owns how a stretch of a table is read inside a task, and kinds of columns as Spark has them. Only an address travels: where
the graph is, which commit, which fragments. So that commit is read whatever happens since, and the credentials are those
of the executors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph_pipelines.spark.filters import Filters, as_expression
from omnigraph_pipelines.spark.inside import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITION_ROWS: Final = 1 << 20
_BATCH_ROWS: Final = 1 << 16
_STRIDE_MAX: Final = 1 << 21  # numbers that a task counts past; some milliseconds
_WIDTH_MAX: Final = 512  # of a row; more would change no plan
_FIELD_BYTES: Final = 8  # what one more field adds to a row, in the eyes of Spark's planner

_COMMIT_ID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")

Groups = tuple[tuple[int, ...], ...]


def read(
    spark: SparkSession,
    snapshot: og.Snapshot,
    type: str,
    columns: Sequence[str] | None = None,
    filters: Filters | pc.Expression = (),
) -> DataFrame:
    """A type of a snapshot as a DataFrame. Only ``columns`` are read where they are named, and only rows that pass all of
    ``filters``, which the tables answer, with indices where there are some: ``("age", ">", 30)``, ``("name", "in", [...])``,
    ``("age", "is null")``; or one pyarrow expression. Nothing is read before rows are asked for."""
    if not callable(getattr(spark, "range", None)):
        raise og.errors.InvalidInput(
            f"not a Spark session: a {spark.__class__.__name__}",
            hint="take one from omnigraph_pipelines.spark.spark_session()",
        )
    schema = snapshot.schema(type)
    where = filters if isinstance(filters, pc.Expression) else as_expression(filters, schema)
    snapshot.to_batches(type, columns, where)  # what is wrong with them is said here, and not by a task
    shown = spark_schema(schema, columns)
    scan = Scan(
        snapshot.uri, snapshot.branch, snapshot.commit_id, type, tuple(shown.fieldNames()), where, exactly(shown)
    )
    fragments = snapshot.fragments(type)
    rows, stored = sum(one.rows for one in fragments), sum(one.bytes for one in fragments)
    width = max(8 * len(scan.columns), stored * len(scan.columns) // max(1, len(schema) * rows))
    groups = tuple(gathered(fragments))
    stride = max(1, min(_STRIDE_MAX, rows // max(1, len(groups))))
    numbers = _numbers(spark, len(groups), stride, width)
    return numbers.mapInArrow(partial(_read, scan, groups, stride), shown)


def _numbers(spark: SparkSession, count: int, stride: int, width: int) -> DataFrame:
    """Multiples of ``stride``, one a partition, in a frame that Spark takes to have ``stride`` rows of ``width`` bytes for
    each: it goes by what a frame is made from. By the few numbers alone every table would seem small enough to be sent
    whole to every executor for a join."""
    from pyspark.sql import functions

    numbers = spark.range(0, count * stride, 1, max(1, count))
    kept = numbers.where(numbers.id % stride == 0)
    fields = min(_WIDTH_MAX, width) // _FIELD_BYTES
    if fields == 0:
        return kept
    # Nothing, of a kind that would take that much.
    wide = "struct<" + ",".join(f"f{number}:decimal(38,0)" for number in range(fields)) + ">"
    return kept.select("id", functions.lit(None).cast(wide).alias("width"))


def _read(scan: Scan, groups: Groups, stride: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_numpy().tolist():
            yield from scan.batches(groups[number // stride])


def gathered(fragments: Sequence[Any]) -> Iterator[tuple[int, ...]]:
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


# --- inside a task ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """What is read of a type, and where: picklable, without handles."""

    uri: str
    branch: str
    commit: str
    type: str
    columns: tuple[str, ...]
    where: pc.Expression | None
    schema: pa.Schema

    def batches(self, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of some fragments."""
        snapshot = opened(self.uri, self.branch, self.commit)
        found = snapshot.to_batches(
            self.type, self.columns, self.where, batch_size=_BATCH_ROWS, fragments=list(fragments)
        )
        for batch in found:
            # To the letter: Spark compares names of list elements and what may be null.
            columns = [as_spark(batch.column(field.name), field.type) for field in self.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def opened(uri: str, branch: str, commit: str) -> og.Snapshot:
    """A commit never changes, so that a worker opens it once. What else names a state is looked up each time."""
    if _COMMIT_ID.fullmatch(commit):
        return _kept(uri, branch, commit)
    return og.open(uri, read_only=True).snapshot(branch, at=commit or None)


@lru_cache(maxsize=16)
def _kept(uri: str, branch: str, commit: str) -> og.Snapshot:
    found = og.open(uri, read_only=True).snapshot(branch, at=commit)
    settle()
    return found


# --- kinds --------------------------------------------------------------------------------------------------------------


def spark_schema(schema: pa.Schema, columns: Sequence[str] | None = None) -> StructType:
    """The columns as Spark has them: wider integers for unsigned ones, arrays for vectors."""
    from pyspark.sql.pandas.types import from_arrow_schema

    fields = [schema.field(name) for name in (schema.names if columns is None else columns)]
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


def exactly(schema: StructType) -> pa.Schema:
    """The columns as Arrow has them on their way to Spark."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def as_spark(column: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    return column if column.type == wanted else column.cast(_spark_kind(column.type)).cast(wanted)
