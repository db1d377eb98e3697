"""The sensor of one source: what arrived, as runs to ask for. Touches the landing place only, never the graph."""

# No deferred annotations here: Dagster looks at the parameters as they are.

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.batches import Batch, find_batches
from omnigraph_pipelines.defs.ingest import arrivals
from omnigraph_pipelines.defs.ingest.arrivals import LastRun, Tick
from omnigraph_pipelines.defs.ingest.names import FINGERPRINT_TAG, Names
from omnigraph_pipelines.defs.ingest.turns import unfinished
from omnigraph_pipelines.failures import PERMANENT_TAG

RUNS_SEEN_MAX: Final = 200
_PARTITION_TAG: Final = "dagster/partition"
_WILL_RETRY_TAG: Final = "dagster/will_retry"
_RETRY_GRACE_S: Final = 120.0  # the daemon launches a promised retry well within


def new_batches(
    names: Names, job: Any, *, now_s: Callable[[], float] = lambda: time.time_ns() / 1e9
) -> dg.SensorDefinition:
    source = names.source

    @dg.sensor(
        name=names.sensor,
        job=job,
        minimum_interval_seconds=source.interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Asks for a run for each complete batch under {source.batches}.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Any:
        try:
            found = find_batches(source)
        except og.errors.OmnigraphError as error:
            return dg.SkipReason(f"{error.code}: {error.message}. Hint: {error.hint}")
        running = unfinished(context.instance, names)
        under_way = [one.dagster_run.tags.get(_PARTITION_TAG, "") for one in running]
        ended = list(context.instance.get_run_records(dg.RunsFilter(tags=names.tags()), limit=RUNS_SEEN_MAX))
        tick = Tick(
            batches=found,
            seen=arrivals.from_cursor(context.cursor),
            now_s=now_s(),
            under_way=[*under_way, *_about_to_be_retried(ended, now_s())],
            last=_last_runs(ended),
            is_serial=source.order == "serial",
            has_marker=source.ready is not None,
        )
        try:
            decision = arrivals.decide(tick, Batch.fingerprint)
        except og.errors.OmnigraphError as error:
            return dg.SkipReason(f"{error.code}: {error.message}. Hint: {error.hint}")
        return _result(context, names, decision)

    return sensor


def _result(context: dg.SensorEvaluationContext, names: Names, decision: arrivals.Decision) -> dg.SensorResult:
    known = set(context.instance.get_dynamic_partitions(names.partitions.name or ""))
    fresh = [offer.batch for offer in decision.offers if offer.batch not in known]
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                run_key=offer.run_key,
                partition_key=offer.batch,
                tags=names.batch_tags(offer.batch, offer.fingerprint),
            )
            for offer in decision.offers
        ],
        dynamic_partitions_requests=[names.partitions.build_add_request(fresh)] if fresh else [],
        cursor=arrivals.to_cursor(decision.seen),
        skip_reason=None if decision.offers else decision.said,
    )


def _last_runs(ended: Sequence[dg.RunRecord]) -> dict[str, LastRun]:
    """How the newest run of each batch went; ``ended``: runs of the source, newest first."""
    found: dict[str, LastRun] = {}
    for record in ended:
        run = record.dagster_run
        key, fingerprint = run.tags.get(_PARTITION_TAG), run.tags.get(FINGERPRINT_TAG)
        if key is None or fingerprint is None or not run.is_finished:
            continue
        before = found.get(key)
        if before is None:
            found[key] = LastRun(
                fingerprint,
                failed=run.status is dg.DagsterRunStatus.FAILURE,
                permanent=run.tags.get(PERMANENT_TAG) == "true",
                attempts=1,
                ended_s=_end(record),
            )
        elif before.fingerprint == fingerprint:
            found[key] = LastRun(fingerprint, before.failed, before.permanent, before.attempts + 1, before.ended_s)
    return found


def _about_to_be_retried(ended: Sequence[dg.RunRecord], now_s: float) -> list[str]:
    """Batches whose run died and which the daemon has promised to run again."""
    return [
        record.dagster_run.tags.get(_PARTITION_TAG, "")
        for record in ended
        if record.dagster_run.tags.get(_WILL_RETRY_TAG) == "true"
        and record.dagster_run.status is dg.DagsterRunStatus.FAILURE
        and now_s - _end(record) < _RETRY_GRACE_S
        and "dagster/auto_retry_run_id" not in record.dagster_run.tags
    ]


def _end(record: dg.RunRecord) -> float:
    return record.end_time if record.end_time is not None else record.update_timestamp.timestamp()
