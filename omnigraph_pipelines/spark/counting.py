"""What tasks have done so far, told as progress of the driver's operation while a job runs.

Owns the way back from tasks: accumulators, which Spark brings to the driver as each task ends and counts once, however
often a task was tried; where the session is a Connect client there are none, and tasks are counted instead. Nothing is
sent, and nothing watched, while there is no listener.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import omnigraph as og
from omnigraph_pipelines.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.2

Add = Callable[[int, int], None]


class Counted:
    """One job under way. Tasks call it with (units, bytes); it is picklable."""

    def __init__(self, accumulator: Any = None) -> None:
        self._accumulator = accumulator

    def __call__(self, n: int, bytes_: int) -> None:
        if self._accumulator is not None:
            self._accumulator.add([n, bytes_])


class _Pair:
    """How Spark adds up what tasks count."""

    def zero(self, value: list[int]) -> list[int]:
        return [0, 0]

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:
        return [value1[0] + value2[0], value1[1] + value2[1]]


class Tally:
    """What the driver has told of a job."""

    def __init__(self) -> None:
        self.add = Counted()
        self._tell: Add = og.progress.counter()
        self._told = (0, 0)
        self._lock = threading.Lock()

    def seen(self, n: int, bytes_: int) -> None:
        """So much is done in all."""
        with self._lock:
            fresh = max(0, n - self._told[0]), max(0, bytes_ - self._told[1])
            if any(fresh):
                self._told = self._told[0] + fresh[0], self._told[1] + fresh[1]
                self._tell(*fresh)


@contextmanager
def watched(spark: SparkSession) -> Iterator[Tally]:
    """Tasks of jobs within the block count for the present phase as they end."""
    tally = Tally()
    if not og.progress.listening() or is_remote(spark):
        yield tally
        return
    accumulator = spark.sparkContext.accumulator([0, 0], _Pair())  # type: ignore[arg-type]  # as good as Spark's own class
    tally.add = Counted(accumulator)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            tally.seen(*accumulator.value)

    looking = threading.Thread(target=look, name="omnigraph-spark-progress", daemon=True)
    looking.start()
    try:
        yield tally
    finally:
        ended.set()
        looking.join()
    tally.seen(*accumulator.value)


@contextmanager
def tasks_watched(spark: Any) -> Iterator[None]:
    """Through Connect: tasks and how many of them are done, which is all that a server tells."""
    if not og.progress.listening() or not is_remote(spark):
        yield
        return
    told = [0, 0]

    def on(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        listed = list(stages or ())
        total, ended = sum(one.num_tasks for one in listed), sum(one.num_completed_tasks for one in listed)
        if total > told[0]:
            og.progress.expect(total - told[0])
            told[0] = total
        if ended > told[1]:
            og.progress.advance(ended - told[1])
            told[1] = ended

    spark.registerProgressHandler(on)
    try:
        yield
    finally:
        spark.removeProgressHandler(on)
