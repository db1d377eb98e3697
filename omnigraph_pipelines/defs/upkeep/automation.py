"""What runs upkeep unasked: three sensors that read one number each, and schedules for the night and the week. On from the start.

A tick opens the graph read-only, asks for a number or two, and lets ``decide`` judge: at most five requests to the store,
however large the graph is. Every quiet tick says its numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.defs.upkeep.decide import Decision, Marks, decide, from_cursor, to_cursor
from omnigraph_pipelines.defs.upkeep.names import (
    CLEANUP,
    COMPACTION,
    NUMBERS_TAG,
    OPTIMIZE,
    RECONCILE,
    SCRUB,
    Names,
)
from omnigraph_pipelines.defs.upkeep.runs import reports_of, runs_of, with_reports
from omnigraph_pipelines.resources import Bound
from omnigraph_pipelines.settings import EnvRef, UpkeepSettings

Tick = dg.SensorResult | dg.SkipReason
Now = Callable[[], float]  # seconds since 1970: ends of runs are in Dagster's records by the wall clock
PAUSED = "upkeep is paused in the graph file"


@dataclass(frozen=True)
class Reading:
    """A number of the graph and what it is judged by. ``left``: the metadata in which a run reports what it left of it."""

    probe: str
    left: str
    marks: Marks


def jobs(names: Names) -> dict[str, Any]:
    """A job for each kind that is run alone, and the whole night in one."""
    found: dict[str, Any] = {
        kind: dg.define_asset_job(
            names.job(kind), selection=[names.key(kind)], tags=names.tags(kind), description=description
        )
        for kind, description in (
            (COMPACTION, "Merge the archive of the graph's history."),
            (CLEANUP, "Delete versions that nothing needs any more."),
            (RECONCILE, "End writes that were left behind."),
            (SCRUB, "Compare every file on a local disk with its checksum."),
        )
    }
    found[OPTIMIZE] = dg.define_asset_job(
        names.nightly,
        selection=[names.key(kind) for kind in (RECONCILE, OPTIMIZE, COMPACTION, CLEANUP)],
        tags=names.tags(),
        description="What a night does, in this order: reconcile, optimize, merge the history, clean up.",
        executor_def=dg.in_process_executor,  # one step at a time, by priority
    )
    return found


# --- sensors ------------------------------------------------------------------------------------------------------------


def sensors(
    names: Names, settings: UpkeepSettings, graph: Bound, found: dict[str, Any], now_s: Now
) -> list[dg.SensorDefinition]:
    compaction, cleanup, reconcile = settings.compaction, settings.cleanup, settings.reconcile
    fragments = Marks("{} archive fragments", compaction.fragments_max, compaction.low)
    backlog = Marks("{} versions to clean up", cleanup.versions_max, cleanup.low)
    grace_s = max(2, round(reconcile.grace_s))
    age = Marks("oldest pending write: {} s", grace_s, grace_s - 1, doubling=True)
    # Twice what compaction would have merged: it does not get through, so something stands in its way.
    behind = Marks("{} archive fragments", 2 * compaction.fragments_max, compaction.fragments_max)
    return [
        _sensor(
            names,
            "manifest_fragments",
            COMPACTION,
            [Reading("manifest_fragments", "fragments", fragments)],
            (settings, compaction.enabled, compaction.interval_s),
            graph,
            found[COMPACTION],
            "Merges the graph's history when its archive lies in many files.",
            now_s,
        ),
        _sensor(
            names,
            "version_backlog",
            CLEANUP,
            [Reading("version_backlog", "backlog", backlog)],
            (settings, cleanup.enabled, cleanup.interval_s),
            graph,
            found[CLEANUP],
            "Cleans up before the night when many versions have gathered. Asks for nothing where a boundary mark is missing.",
            now_s,
        ),
        _sensor(
            names,
            "pending_intents",
            RECONCILE,
            [
                Reading("oldest_intent_s", "oldest_left_s", age),
                Reading("manifest_fragments", "archive_fragments", behind),
            ],
            (settings, reconcile.enabled, reconcile.interval_s),
            graph,
            found[RECONCILE],
            "Ends writes that were not ended within the grace time.",
            now_s,
        ),
    ]


def _sensor(
    names: Names,
    name: str,
    kind: str,
    readings: Sequence[Reading],
    switch: tuple[UpkeepSettings, bool, int],
    graph: Bound,
    job: Any,
    description: str,
    now_s: Now,
) -> dg.SensorDefinition:
    settings, enabled, interval_s = switch

    @dg.sensor(
        name=names.job(name),
        job=job,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING if enabled else dg.DefaultSensorStatus.STOPPED,
        required_resource_keys=set(graph.required_keys),
        description=description,
    )
    def sensor(context: dg.SensorEvaluationContext) -> Tick:
        if settings.paused:
            return dg.SkipReason(PAUSED)
        with graph.opened(context.resources) as resource:
            try:
                with resource.open(read_only=True) as reader:
                    decisions = judge(reader.probe, readings, kind, context, names, now_s())
            except og.errors.NotFound:
                return dg.SkipReason("there is no graph yet: the first batch makes it")
            except og.errors.Corruption as error:
                # Not passed over: a run would refuse as well, and the reason stands at every tick until it is resolved.
                return dg.SkipReason(f"nothing is asked for: {error.message}. {error.hint}")
        return _tick(decisions, names, kind)

    return sensor


def judge(
    probe: Callable[[str], int],
    readings: Sequence[Reading],
    kind: str,
    context: dg.SensorEvaluationContext,
    names: Names,
    now_s: float,
) -> list[Decision]:
    """Judge the readings in turn, up to the first that asks for a run. Each has a memory of its own."""
    runs, reports = runs_of(context.instance, names, kind), reports_of(context.instance, names, kind)
    name = f"{names.graph.name}/{names.graph.branch}/{kind}"
    decisions: list[Decision] = []
    for reading, memory in zip(readings, from_cursor(context.cursor, len(readings)), strict=True):
        if any(decision.run_key for decision in decisions):
            decisions.append(Decision(None, "", memory))
            continue
        reported = with_reports(runs, reports, reading.left)
        decisions.append(decide(name, probe(reading.probe), reading.marks, memory, reported, now_s))
    return decisions


def _tick(decisions: Sequence[Decision], names: Names, kind: str) -> dg.SensorResult:
    cursor = to_cursor([decision.memory for decision in decisions])
    asked = next((decision for decision in decisions if decision.run_key), None)
    if asked is None:
        return dg.SensorResult(skip_reason="; ".join(decision.reason for decision in decisions), cursor=cursor)
    tags = {**names.tags(kind), NUMBERS_TAG: asked.reason[:200]}
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key=asked.run_key, tags=tags)], cursor=cursor)


# --- schedules ----------------------------------------------------------------------------------------------------------


def schedules(names: Names, settings: UpkeepSettings, found: dict[str, Any]) -> list[dg.ScheduleDefinition]:
    # Versions that no operation claims show in no number that a sensor could afford to read: once a day all tables are looked at.
    by_night = (*((RECONCILE,) if settings.reconcile.enabled else ()), OPTIMIZE, COMPACTION)
    return [
        _schedule(
            names, "nightly_optimize", by_night, found[OPTIMIZE], settings, settings.optimize, settings.optimize.enabled
        ),
        _schedule(
            names, "nightly_cleanup", (CLEANUP,), found[CLEANUP], settings, settings.cleanup, settings.cleanup.enabled
        ),
        _schedule(
            names, "weekly_scrub", (SCRUB,), found[SCRUB], settings, settings.scrub, settings.scrub.is_on(_uri(names))
        ),
    ]


def _uri(names: Names) -> str:
    """Return where the graph is; nothing where the variable that names it is set for runs alone."""
    uri = names.graph.uri
    return os.environ.get(uri.env, "") if isinstance(uri, EnvRef) else uri


def _schedule(
    names: Names, name: str, kinds: Sequence[str], job: Any, settings: UpkeepSettings, own: Any, enabled: bool
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=names.job(name),
        job=job,
        cron_schedule=own.cron,
        execution_timezone=settings.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if enabled else dg.DefaultScheduleStatus.STOPPED,
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if settings.paused:
            return dg.SkipReason(PAUSED)
        busy = {kind: run for kind in kinds for run in runs_of(context.instance, names, kind) if run.ended_s is None}
        wanted = [kind for kind in kinds if kind != RECONCILE or kind not in busy]  # it may run at any time of the day
        held_up = next((busy[kind] for kind in wanted if kind in busy), None)
        if held_up is not None:
            return dg.SkipReason(f"run {held_up.name} is queued or under way")
        planned = context.scheduled_execution_time.isoformat()
        return dg.RunRequest(
            run_key=f"{names.graph.name}/{names.graph.branch}/{name}:{planned}",
            asset_selection=[names.key(kind) for kind in wanted],
            tags=names.tags(kinds[0] if len(kinds) == 1 else None),
        )

    return schedule
