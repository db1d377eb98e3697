"""Runs of one source go in the order in which they were asked for.

Pools hold most of them back in the queue; this is what makes it certain, wherever there are none. The order is that of the
runs' creation: a sensor asks for the oldest batch first, and a backfill asks for its partitions in the order of their keys.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import dagster as dg

from omnigraph_pipelines.defs.ingest.names import GRAPH_TAG, PROCESS_TAG, SOURCE_TAG, Names
from omnigraph_pipelines.processes import is_gone

WAIT_MAX_S: Final = 6 * 3600.0
POLL_S: Final = 2.0
SAID_AGAIN_S: Final = 60.0
SEEN_MAX: Final = 500

UNFINISHED: Final = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.MANAGED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def is_of(run: dg.DagsterRun, names: Names) -> bool:
    """Whether a run brings in batches of the source, however it was started."""
    if run.tags.get(GRAPH_TAG) == names.graph.name and run.tags.get(SOURCE_TAG) == names.source.name:
        return True
    chosen = run.asset_selection
    return chosen is not None and any(
        list(key.path[:2]) == names.commit.path[:2] and key != names.quarantine for key in chosen
    )


def unfinished(instance: dg.DagsterInstance, names: Names) -> list[dg.RunRecord]:
    """Runs of the source that have not ended, oldest first. One whose process is gone has, whatever its record says."""
    return [one for one in _recorded(instance, names) if not _died(one)]


def end_the_dead(instance: dg.DagsterInstance, names: Names) -> int:
    """Put on record that runs of the source have ended with their process; how many. Frees the places in pools that ended
    runs still hold: Dagster's daemon does that too, but there may be none."""
    dead = [one for one in _recorded(instance, names) if _died(one)]
    for one in dead:
        instance.report_run_failed(one.dagster_run, "its process ended before the run did")
    storage = instance.event_log_storage
    if storage.supports_global_concurrency_limits:
        for pool in filter(None, (names.pool, names.graph.pool)):
            held = storage.get_concurrency_info(pool)
            for run_id in {*held.active_run_ids, *held.pending_run_ids}:
                run = instance.get_run_by_id(run_id)
                if run is None or run.is_finished:
                    storage.free_concurrency_slots_for_run(run_id)
    return len(dead)


def _recorded(instance: dg.DagsterInstance, names: Names) -> list[dg.RunRecord]:
    found = instance.get_run_records(dg.RunsFilter(statuses=UNFINISHED), limit=SEEN_MAX)
    return sorted((one for one in found if is_of(one.dagster_run, names)), key=lambda one: one.storage_id)


def _died(record: dg.RunRecord) -> bool:
    return is_gone(record.dagster_run.tags.get(PROCESS_TAG))


def earlier(instance: dg.DagsterInstance, names: Names, run_id: str) -> list[dg.RunRecord]:
    """Those that were asked for before this one."""
    mine = instance.get_run_record_by_id(run_id)
    if mine is None:
        return []
    return [one for one in unfinished(instance, names) if one.storage_id < mine.storage_id]


def wait_for_turn(
    context: Any,
    names: Names,
    *,
    wait: Callable[[float], Any] | None = None,
    wait_max_s: float = WAIT_MAX_S,
) -> float:
    """Return when no earlier run of a serial source is left; how many seconds that took. Gives up after a bound."""
    if names.source.order != "serial":
        return 0.0
    waited = 0.0
    pause = wait or threading.Event().wait
    while before := earlier(context.instance, names, context.run.run_id):
        first = before[0].dagster_run
        if waited == 0:
            context.log.info(f"waits for run {first.run_id}: runs of {names.source.name} go one at a time")
        if waited >= wait_max_s:
            raise dg.Failure(
                description=f"run {first.run_id} of {names.source.name} has not ended in {waited:.0f} s",
                metadata={"run": first.run_id, "hint": "end or cancel that run, then run this batch again"},
                allow_retries=False,
            )
        pause(POLL_S)
        waited += POLL_S
        if waited == SAID_AGAIN_S:
            context.log.warning(
                f"still waits for run {first.run_id}, which is {first.status.value}; cancel it if it is dead"
            )
    return waited
