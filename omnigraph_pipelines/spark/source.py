"""The data source ``omnigraph``: one type of a graph at a commit, or what changed, in SQL and wherever Spark takes a format by name.

Owns options and partitions. It only reads. The commit travels inside the partitions: what a reader remembers while it plans
is not there when a task reads. ``scan.read`` makes a DataFrame without a data source, which costs less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph_pipelines.spark import changes
from omnigraph_pipelines.spark.filters import as_expression, parsed
from omnigraph_pipelines.spark.scan import Scan, exactly, gathered, opened, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "omnigraph"


def register(spark: SparkSession) -> None:
    """Make ``format("omnigraph")`` known to a session."""
    spark.dataSource.register(OmnigraphSource)


class OmnigraphSource(DataSource):
    """Options: ``uri``, ``type``; ``commit`` (the newest when the query is planned, if left out); ``branch``; ``filters``:
    a JSON list of ``[column, operator, value]``. With ``changes_since`` (and ``changes_until``, ``before``) the rows are those of
    ``graph.changes``, and ``type`` may be left out.

    Filters that Spark offers while it plans are not taken. Spark keeps what a reader took with the DataFrame and not with
    the query, so that a second query over the same DataFrame, or its other side of a join, would see the rows of the first.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType | str:
        if self.options.get(changes.OPTION):
            return changes.ROWS
        options = _options(self.options)
        return spark_schema(opened(options["uri"], options["branch"], options["commit"]).schema(options["type"]))

    def reader(self, schema: StructType) -> DataSourceReader:
        if self.options.get(changes.OPTION):
            return changes.ChangesReader(_changes_options(self.options))
        return _Reader(_options(self.options), schema)


def _options(given: Mapping[str, str]) -> dict[str, str]:
    found = {name: given.get(name) or "" for name in ("uri", "type", "commit", "branch", "filters")}
    for name in ("uri", "type"):
        if not found[name]:
            raise og.errors.InvalidInput(f"the data source {NAME} needs the option {name!r}")
    return {**found, "branch": found["branch"] or "main"}


def _changes_options(given: Mapping[str, str]) -> dict[str, str]:
    names = ("uri", changes.OPTION, "changes_until", "type", "branch", "before")
    found = {name: given.get(name) or "" for name in names}
    if not found["uri"]:
        raise og.errors.InvalidInput(f"the data source {NAME} needs the option 'uri'")
    for name in ("commit", "filters"):
        if given.get(name):
            raise og.errors.InvalidInput(f"the option {name!r} has no effect on changes", hint="leave it out")
    return found


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

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        snapshot = opened(options["uri"], options["branch"], options["commit"])
        # What is wrong with the filters is said while the query is planned.
        as_expression(parsed(options["filters"]), snapshot.schema(options["type"]))
        return [_Fragments(snapshot.commit_id, numbers) for numbers in gathered(snapshot.fragments(options["type"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Fragments):
            return  # an empty table: Spark makes up a partition of its own
        uri, branch, type = self._options["uri"], self._options["branch"], self._options["type"]
        where = as_expression(parsed(self._options["filters"]), opened(uri, branch, partition.commit).schema(type))
        columns = tuple(self._schema.fieldNames())
        scan = Scan(uri, branch, partition.commit, type, columns, where, exactly(self._schema))
        yield from scan.batches(partition.numbers)
