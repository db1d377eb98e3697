"""Functions on many items, run as tasks of one Spark job.

Owns the two ways in which this package sends work to executors: a DataFrame of items, one a partition, and a function over
Arrow batches; and the same with a shuffle behind it, where what tasks found is brought together by partitions. So it works
through Connect as well, and a job is one action: nothing runs twice but what Spark itself repeats. Answers come back as
bytes of our own tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import omnigraph as og
from omnigraph import distributed
from omnigraph_pipelines.spark.counting import Counted, watched
from omnigraph_pipelines.spark.inside import settle
from omnigraph_pipelines.spark.session import parallelism

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

ITEM = "place bigint, item binary"
ANSWER = "place bigint, answer binary"
PIECE = "partition bigint, piece binary"


class SparkWorkers:
    """Runs a picklable function on every item, each in a task of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results in the order of the items. Raises the first error of ours by that order."""
        if not items:
            return []
        with watched(self._spark) as tally:
            found = answers(tasks(self._spark, partial(_counted, tally.add, function), items))
            tally.seen(len(items), 0)
        return found


class SparkExchange:
    """Brings the pieces of a partition together in a task that judges it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def side_by_side(self) -> int:
        return parallelism(self._spark)

    def run(
        self,
        map_: Callable[[Any, int | None], Iterator[distributed.Piece]],
        items: Sequence[Any],
        reduce: Callable[[int, Iterable[distributed.Piece]], R],
        partitions: int,
    ) -> list[R]:
        """What ``reduce`` says of each partition that has rows, in the order of the partitions."""
        if not items:
            return []
        pieces = _apart(self._spark, items).mapInArrow(_mapping(map_), PIECE)
        together = pieces.repartitionById(partitions, pieces.partition.cast("int"))
        with og.progress.phase("comparing", unit="partitions", total=partitions), watched(self._spark) as tally:
            found = answers(together.mapInArrow(_reducing(partial(_counted, tally.add, reduce)), ANSWER))
            tally.seen(partitions, 0)
        return found


def _counted(count: Counted, function: Callable[..., R], *given: Any) -> R:
    found = function(*given)
    count(1, 0)
    return found


def tasks(spark: SparkSession, function: Callable[[T], R], items: Sequence[T]) -> DataFrame:
    """The work as a DataFrame of answers; nothing runs before it is collected."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, item in _items(batches):
            yield answer(place, function, item)

    return _apart(spark, items).mapInArrow(run, ANSWER)


def _apart(spark: SparkSession, items: Sequence[Any]) -> DataFrame:
    """Each item in a partition of its own, so that a task is sent its own item and no other."""
    rows = [(place, bytearray(pickle.dumps(item))) for place, item in enumerate(items)]
    frame = spark.createDataFrame(rows, ITEM)
    return frame.repartitionById(len(rows), frame.place.cast("int"))


def _items(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for place, item in _rows(batch):
            yield place, pickle.loads(item)  # noqa: S301 - made by the driver that sent the task


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    numbers, data = batch.columns
    for i in range(batch.num_rows):
        yield numbers[i].as_py(), data[i].as_py()


# An error of ours travels as a piece, and its receiver passes it on. No piece begins like this.
_ERROR: Final = b"!"


def _mapping(map_: Callable[[Any, int | None], Iterator[distributed.Piece]]) -> Callable[[Any], Iterator[Any]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, item in _items(batches):
            try:
                for piece in map_(item, None):
                    yield _row(PIECE, piece.partition, piece.to_bytes())
            except og.errors.OmnigraphError as error:
                yield _row(PIECE, 0, _ERROR + pickle.dumps(error))

    return run


def _reducing(reduce: Callable[[int, Iterable[distributed.Piece]], Any]) -> Callable[[Any], Iterator[Any]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: dict[int, list[distributed.Piece]] = {}
        for batch in batches:
            for partition, data in _rows(batch):
                if data.startswith(_ERROR):
                    yield _row(ANSWER, partition, data[len(_ERROR) :])
                    return
                held.setdefault(partition, []).append(distributed.Piece.from_bytes(partition, data))
        for partition in sorted(held):
            yield answer(partition, partial(reduce, partition), held.pop(partition))

    return run


def answer(place: int, function: Callable[[T], R], item: T) -> pa.RecordBatch:
    """What a task sends back: the result, or the error of ours that it ended with. Other errors are Spark's to repeat."""
    found: Any
    try:
        found = function(item)
    except og.errors.OmnigraphError as error:
        found = error
    settle()
    return _row(ANSWER, place, pickle.dumps(found))


def _row(schema: str, number: int, data: bytes) -> pa.RecordBatch:
    import pyarrow as pa

    names = [column.split()[0] for column in schema.split(", ")]
    columns: list[pa.Array[Any]] = [pa.array([number], pa.int64()), pa.array([data], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=names)


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
