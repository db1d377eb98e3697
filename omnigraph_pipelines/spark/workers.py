"""Functions on many items, run as tasks of one Spark job.

Owns the one way in which this package sends work to executors: a DataFrame of item numbers, one a partition, and a
function over Arrow batches. So it works through Connect as well, and a job is one action: nothing runs twice but what
Spark itself repeats. Answers come back as bytes of our own tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import omnigraph as og

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

ANSWER = "place bigint, answer binary"


class SparkWorkers:
    """Runs a picklable function on every item, each in a task of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results in the order of the items. Raises the first error of ours by that order."""
        if not items:
            return []
        return answers(tasks(self._spark, function, items))


def tasks(spark: SparkSession, function: Callable[[T], R], items: Sequence[T]) -> DataFrame:
    """The work as a DataFrame of answers; nothing runs before somebody collects it."""
    held = list(items)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy().tolist():
                yield answer(number, function, held[number])

    return spark.range(0, len(held), 1, len(held)).mapInArrow(run, ANSWER)


def answer(place: int, function: Callable[[T], R], item: T) -> pa.RecordBatch:
    """What a task sends back: the result, or the error of ours that it ended with. Other errors are Spark's to repeat."""
    import pyarrow as pa

    found: Any
    try:
        found = function(item)
    except og.errors.OmnigraphError as error:
        found = error
    columns: list[pa.Array[Any]] = [pa.array([place], pa.int64()), pa.array([pickle.dumps(found)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["place", "answer"])


def answers(frame: DataFrame) -> list[Any]:
    """Run the job and read what its tasks sent, in order."""
    # The bytes were made by this package's own tasks, on executors that run its code anyway.
    found = [(row[0], pickle.loads(bytes(row[1]))) for row in frame.collect()]  # noqa: S301
    found.sort(key=lambda pair: pair[0])
    values = [value for _, value in found]
    for value in values:
        if isinstance(value, og.errors.OmnigraphError):
            raise value
    return values


def together(frames: Iterable[DataFrame]) -> DataFrame | None:
    """Several pieces of work as one job."""
    whole: DataFrame | None = None
    for frame in frames:
        whole = frame if whole is None else whole.unionAll(frame)
    return whole
