"""What a task does with its held of the sources: read it, stage it, count it.

Owns nothing of the plan: a task gets what to read and what to call it. Runs on executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph import distributed
from omnigraph_pipelines.spark import reading
from omnigraph_pipelines.spark.counting import Counted
from omnigraph_pipelines.spark.sources import Part
from omnigraph_pipelines.spark.unknown_columns import known_batches, known_members
from omnigraph_pipelines.spark.workers import answer

if TYPE_CHECKING:
    import pyarrow as pa


def size_of(part: distributed.StagedPart) -> tuple[int, int]:
    """Rows and bytes."""
    staged = [held.staged for held in part.tables if held.staged is not None]
    return sum(one.rows for one in staged), sum(file.size for one in staged for file in one.files)


def counted(count: Counted, work: Callable[[Any], Any], item: Any) -> Any:
    part = work(item)
    count(*size_of(part))
    return part


def stage_frame(
    task: distributed.PartTask,
    count: Counted,
    name: str,
    columns: Mapping[str, str],
    order: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    split = distributed.Split(order, 0 if context is None else context.partitionId())

    def work(rows: Iterator[pa.RecordBatch]) -> Any:
        return task.stage_table(name, [distributed.TableRows(split, rows, columns)], split.key)

    yield answer(split.key, partial(counted, count, work), batches)


def stage_files(
    task: distributed.PartTask,
    name: str,
    columns: Mapping[str, str],
    only: frozenset[str] | None,
    splits: Sequence[tuple[distributed.Split, Part]],
) -> Any:
    place = splits[0][0].key
    if splits[0][1].place.format in ("json", "ndjson"):
        return task.stage_objects(
            name, (distributed.ObjectRows(split, _blocks(part, only), columns) for split, part in splits), place
        )
    rows = (
        distributed.TableRows(split, _batches(part, only), columns, "texts" if part.place.format == "csv" else "arrow")
        for split, part in splits
    )
    return task.stage_table(name, rows, place)


def _batches(part: Part, only: frozenset[str] | None) -> Iterator[pa.RecordBatch]:
    batches = reading.batches(part)
    return batches if only is None else known_batches(batches, only)


def _blocks(part: Part, only: frozenset[str] | None) -> Iterator[bytes]:
    with reading.text_of(part) as stream:
        blocks = reading.whole(stream, part.place) if part.place.format == "json" else reading.line_blocks(stream)
        yield from blocks if only is None else known_members(blocks, only)


def stage_records(task: distributed.PartTask, splits: Sequence[tuple[distributed.Split, Part]]) -> Any:
    rows = (distributed.RecordRows(split, reading.text_of(part)) for split, part in splits)
    return task.stage_records(rows, splits[0][0].key)
