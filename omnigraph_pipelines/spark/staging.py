"""Bring a batch into a graph from executors: they stage, the driver's engine judges and publishes once.

Owns the order of a load: note it in the graph, cut the sources into tasks, run them as one job, note what they wrote,
commit. A task that runs twice leaves files that no version names; only what came back with the one action is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import omnigraph as og
from omnigraph import distributed
from omnigraph_pipelines.spark import reading
from omnigraph_pipelines.spark.counting import Counted, tasks_watched, watched
from omnigraph_pipelines.spark.session import is_remote, parallelism
from omnigraph_pipelines.spark.sources import Files, Frame, Part, Place, Records, cut, find
from omnigraph_pipelines.spark.stage_tasks import counted, size_of, stage_files, stage_frame, stage_records
from omnigraph_pipelines.spark.staged_batch import TARGET_ROWS, StagedBatch
from omnigraph_pipelines.spark.workers import ANSWER, SparkExchange, SparkWorkers, answers, tasks, together

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PLACES: Final = ("auto", "driver", "spark")
"""Where rows are compared."""

COMMIT_S: Final = 3600.0
"""A batch that took long to stage may take long to judge; publishing itself is quick."""


def load(
    spark: SparkSession,
    graph: og.Graph,
    frames: Mapping[str, Any] | Records,
    *,
    mode: str,
    branch: str = "main",
    actor: str | None = None,
    idempotency_key: str | None = None,
    on_bad_row: str = "fail",
    bad_rows_max: int | float | None = None,
    bounds: Mapping[str, int | float] | None = None,
    on_missing_endpoint: str | Mapping[str, str] | None = None,
    quarantine_to: str | Path | None = None,
    expect_head: str | None = None,
    deadline_s: float = COMMIT_S,
    target_rows: int = TARGET_ROWS,
    memory_mb: int | None = None,
    validate: str = "auto",
    progress: Callable[[og.Progress], object] | None = None,
) -> og.Receipt:
    """One batch, one commit, one receipt: as ``graph.load``, with the rows staged by executors. ``frames``: by type a
    DataFrame, a ``Frame``, ``Files`` or the path of files; or ``Records``. ``validate``: where rows are compared with one
    another and with the graph: ``driver``, ``spark``, or ``auto``, which is here as long as the keys of a table fit
    ``memory_mb``, and on executors beyond."""
    check_place(validate)
    options = og.LoadOptions(
        mode=mode,
        branch=branch,
        actor=actor,
        idempotency_key=idempotency_key,
        on_bad_row=on_bad_row,
        bad_rows_max=bad_rows_max,
        bounds=bounds,
        on_missing_endpoint=on_missing_endpoint,
        quarantine_to=quarantine_to,
        expect_head=expect_head,
        deadline_s=deadline_s,
    )
    batch = _stage(spark, graph, frames, options, target_rows, progress)
    if isinstance(batch, og.Receipt):
        return batch
    return _publish(graph, batch, options, spark, memory_mb, validate, progress)


def stage(
    spark: SparkSession,
    graph: og.Graph,
    frames: Mapping[str, Any] | Records,
    *,
    mode: str,
    branch: str = "main",
    actor: str | None = None,
    idempotency_key: str | None = None,
    on_bad_row: str = "fail",
    target_rows: int = TARGET_ROWS,
    progress: Callable[[og.Progress], object] | None = None,
) -> StagedBatch | og.Receipt:
    """Write the rows of a batch into the graph's store, as one job. A key that is known already is answered with its
    receipt, and nothing is read."""
    options = og.LoadOptions(
        mode=mode, branch=branch, actor=actor, idempotency_key=idempotency_key, on_bad_row=on_bad_row
    )
    return _stage(spark, graph, frames, options, target_rows, progress)


def _stage(
    spark: SparkSession,
    graph: og.Graph,
    frames: Mapping[str, Any] | Records,
    options: og.LoadOptions,
    target_rows: int,
    progress: Callable[[og.Progress], object] | None,
) -> StagedBatch | og.Receipt:
    sets_aside = options.on_bad_row == "quarantine"
    txn = graph.begin(options.branch, actor=options.actor)
    try:
        known = txn.replay(options.idempotency_key)
        if known is not None:
            txn.abort()
            return known
        task = txn.task(options.mode, set_aside=sets_aside, rows_per_file=target_rows)
        with og.listen(progress), og.progress.named("load"):
            types, parts = _run(spark, task, frames, target_rows)
        txn.add_parts(parts)
        errors = [part.error for part in parts if part.error is not None]
        if errors:
            raise errors[0]
    except BaseException:
        txn.abort()
        raise
    return StagedBatch(txn.id, options.branch, options.mode, tuple(types), tuple(parts), sets_aside, target_rows)


def _run(
    spark: SparkSession, task: distributed.PartTask, frames: Mapping[str, Any] | Records, target_rows: int
) -> tuple[list[str], list[Any]]:
    """One job. Rows are reported as its tasks end; a Connect server reports tasks and no more."""
    unit = "tasks" if is_remote(spark) else "rows"
    with og.progress.phase("staging", unit=unit), tasks_watched(spark), watched(spark) as tally:
        planned = _Plan(spark, task, target_rows, tally.add)
        for name, given in _named(task, frames):
            planned.add(name, given)
        if unit == "rows":
            og.progress.expect(planned.rows)
        whole = together(planned.work)
        parts = [] if whole is None else answers(whole)
        if unit == "rows":
            rows, bytes_ = (sum(one) for one in zip((0, 0), *(size_of(part) for part in parts), strict=True))
            tally.seen(rows, bytes_)
            # What files would have was a guess.
            og.progress.expect(None if planned.rows is None else rows - planned.rows)
    return planned.types, parts


def publish(
    graph: og.Graph,
    batch: StagedBatch,
    *,
    spark: SparkSession | None = None,
    actor: str | None = None,
    idempotency_key: str | None = None,
    bad_rows_max: int | float | None = None,
    bounds: Mapping[str, int | float] | None = None,
    on_missing_endpoint: str | Mapping[str, str] | None = None,
    quarantine_to: str | Path | None = None,
    expect_head: str | None = None,
    deadline_s: float = COMMIT_S,
    memory_mb: int | None = None,
    validate: str = "auto",
    progress: Callable[[og.Progress], object] | None = None,
) -> og.Receipt:
    """Judge a staged batch as a whole and commit it. A refused batch is taken back. Without ``spark`` everything is judged
    here, in passes where the keys of a table do not fit ``memory_mb``."""
    options = og.LoadOptions(
        mode=batch.mode,
        branch=batch.branch,
        actor=actor,
        idempotency_key=idempotency_key,
        on_bad_row="quarantine" if batch.set_aside else "fail",
        bad_rows_max=bad_rows_max,
        bounds=bounds,
        on_missing_endpoint=on_missing_endpoint,
        quarantine_to=quarantine_to,
        expect_head=expect_head,
        deadline_s=deadline_s,
    )
    return _publish(graph, batch, options, spark, memory_mb, validate, progress)


def _publish(
    graph: og.Graph,
    batch: StagedBatch,
    options: og.LoadOptions,
    spark: SparkSession | None,
    memory_mb: int | None,
    validate: str,
    progress: Callable[[og.Progress], object] | None,
) -> og.Receipt:
    exchange = exchange_of(spark, validate)
    txn = graph.begin(batch.branch, resume=batch.staging_id)
    try:
        return txn.load_parts(
            batch.parts,
            batch.types,
            options=options,
            workers=None if spark is None else SparkWorkers(spark),
            rows_per_file=batch.target_rows,
            memory_mb=memory_mb,
            exchange=exchange,
            exchange_always=validate == "spark",
            checks=batch.report,
            progress=progress,
        )
    except og.errors.OmnigraphError:
        if not txn.sent:
            txn.abort()
        raise


def check_place(validate: str) -> None:
    if validate not in PLACES:
        raise og.errors.InvalidInput(f"validate is one of {', '.join(PLACES)}, got {validate!r}")


def exchange_of(spark: SparkSession | None, validate: str) -> SparkExchange | None:
    """Who brings equal keys together; None where that is done here."""
    check_place(validate)
    if validate == "spark" and spark is None:
        raise og.errors.InvalidInput("validate='spark' needs a session", hint="pass spark=..., or validate='driver'")
    return None if spark is None or validate == "driver" else SparkExchange(spark)


# --- the plan -----------------------------------------------------------------------------------------------------------


def _named(task: distributed.PartTask, frames: Mapping[str, Any] | Records) -> Iterator[tuple[str | None, Any]]:
    """Sources in the order in which a load would number them: by table key."""
    if isinstance(frames, Records):
        yield None, frames
        return
    known: dict[str, tuple[str, Any]] = {}
    for name, given in frames.items():
        try:
            declared = task.catalog.type(name)
        except og.errors.OmnigraphError:
            raise
        except (KeyError, LookupError) as error:
            raise og.errors.NotFound(f"the graph has no type {name!r}", type=str(name)[:80]) from error
        if declared.table_key in known:
            raise og.errors.InvalidInput(f"one type is named twice: {known[declared.table_key][0]!r} and {name!r}")
        known[declared.table_key] = (name, given)
    for key in sorted(known):
        yield known[key]


class _Plan:
    """The tasks of one batch."""

    def __init__(self, spark: SparkSession, task: distributed.PartTask, target_rows: int, count: Counted) -> None:
        self._spark = spark
        self._task = task
        self._target_rows = target_rows
        self._count = count
        self._order = 0
        self.rows: int | None = 0  # about so many, where that can be told
        self.types: list[str] = []
        self.work: list[DataFrame] = []

    def add(self, name: str | None, given: Any) -> None:
        if name is None:
            self._records(given)
            return
        self.types.append(name)
        if _is_frame(given):
            given = Frame(given)
        if isinstance(given, Frame):
            self._frame(name, given)
            return
        if isinstance(given, str | Path) or (isinstance(given, list | tuple) and given):
            given = Files(given)
        if not isinstance(given, Files):
            raise og.errors.InvalidInput(
                f"not a source of {name}: {type(given).__name__}",
                hint="give a DataFrame, Frame, Files, or the path of files",
            )
        self._files(name, given)

    def _frame(self, name: str, given: Frame) -> None:
        self._task.check_columns(name, arrow_schema(given.frame), given.columns)
        run = partial(stage_frame, self._task, self._count, name, dict(given.columns), self._order)
        self._order += 1
        self.rows = None
        self.work.append(given.frame.mapInArrow(run, ANSWER))

    def _files(self, name: str, given: Files) -> None:
        places = find(given.paths, given.format, given.storage_options)
        for place in places[:1] if len({place.format for place in places}) == 1 else places:
            reading.check_place(self._task, name, place, given.columns, given.only)
        run = partial(counted, self._count, partial(stage_files, self._task, name, dict(given.columns), given.only))
        self.work.append(tasks(self._spark, run, self._share_out(places)))

    def _records(self, given: Records) -> None:
        places = find(given.paths, "ndjson", given.storage_options)
        run = partial(counted, self._count, partial(stage_records, self._task))
        self.work.append(tasks(self._spark, run, self._share_out(places, records=True)))

    def _share_out(
        self, places: Sequence[Place], *, records: bool = False
    ) -> list[list[tuple[distributed.Split, Part]]]:
        """Splits in runs of about the same weight, one a task, sized by rows and by what can run side by side."""
        splits: list[tuple[distributed.Split, Part]] = []
        for place in places:
            splits += [
                (distributed.Split(self._order, index, place.name), part)
                for index, part in enumerate(cut(place, records=records))
            ]
            self._order += 1
        total = sum(part.weight for _, part in splits)
        self.rows = None if self.rows is None else self.rows + int(total)
        side_by_side = parallelism(self._spark)
        wanted = max(ceil(total / self._target_rows), min(side_by_side, ceil(8 * total / self._target_rows)), 1)
        if wanted > side_by_side:
            wanted = ceil(wanted / side_by_side) * side_by_side
        return _runs(splits, total / min(wanted, len(splits)))


def _runs(
    splits: Sequence[tuple[distributed.Split, Part]], weight: float
) -> list[list[tuple[distributed.Split, Part]]]:
    """Neighbours that weigh enough for a task together. A task reads in one way: files of another format begin a new one."""
    runs: list[list[tuple[distributed.Split, Part]]] = []
    held, wanted = 0.0, 0
    for split, part in splits:
        is_full = held + part.weight / 2 > weight * wanted
        if not runs or is_full or runs[-1][-1][1].place.format != part.place.format:
            runs.append([])
            wanted += is_full or not wanted
        runs[-1].append((split, part))
        held += part.weight
    return runs


def _is_frame(given: Any) -> bool:
    return callable(getattr(given, "mapInArrow", None))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame as its rows reach a task. Runs no job."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(frame.schema, timezone="UTC")
    except PySparkException as error:
        raise og.errors.DataInvalid(
            f"a column of the DataFrame has a type that Arrow does not: {str(error)[:200]}",
            hint="cast or drop the column",
            violations=[],
            total=1,
        ) from error
