"""Read which runs of upkeep there were, and what they reported, as the plain values that ``decide`` judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import dagster as dg

from omnigraph_pipelines.defs.upkeep.decide import RUNS_SEEN_MAX, Run
from omnigraph_pipelines.defs.upkeep.names import (
    CLEANUP,
    COMPACTION,
    GRAPH_TAG,
    OPTIMIZE,
    RECONCILE,
    UPKEEP_TAG,
    Names,
)

# Unfinished runs that are looked at. So many are queued only when something is wrong that a sensor cannot mend.
UNFINISHED_SEEN_MAX: Final = 200

_UNFINISHED: Final = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.MANAGED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def runs_of(instance: dg.DagsterInstance, names: Names, kind: str) -> list[Run]:
    """Runs that do this kind of upkeep, newest first: those under way however they were started, and the last ended ones
    that were asked for by name."""
    under_way = [
        Run(run.run_id, False, None)
        for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED), limit=UNFINISHED_SEEN_MAX)
        if _does(run, names, kind)
    ]
    return [*under_way, *islice(_ended(instance, names, kind), RUNS_SEEN_MAX)]


def _does(run: dg.DagsterRun, names: Names, kind: str) -> bool:
    if run.tags.get(GRAPH_TAG) == names.graph.name and run.tags.get(UPKEEP_TAG) == kind:
        return True
    if run.asset_selection is not None:
        return names.key(kind) in run.asset_selection
    return run.job_name == names.nightly and kind in (RECONCILE, OPTIMIZE, COMPACTION, CLEANUP)


def _ended(instance: dg.DagsterInstance, names: Names, kind: str) -> Iterator[Run]:
    tags = {GRAPH_TAG: names.graph.name, UPKEEP_TAG: kind}
    for record in instance.get_run_records(dg.RunsFilter(tags=tags), limit=2 * RUNS_SEEN_MAX):
        run = record.dagster_run
        if run.is_finished and not _is_dry(run):
            ended_s = record.end_time if record.end_time is not None else record.update_timestamp.timestamp()
            yield Run(run.run_id, run.status is dg.DagsterRunStatus.SUCCESS, ended_s)


def _is_dry(run: dg.DagsterRun) -> bool:
    """Return whether a run was asked to change nothing: it brings no number down, and leaves none."""
    ops = run.run_config.get("ops") or {}
    return isinstance(ops, dict) and any(
        bool((one.get("config") or {}).get("dry_run")) for one in ops.values() if isinstance(one, dict)
    )


@dataclass(frozen=True)
class Report:
    """What a run of upkeep reported when it ended: the metadata of its materialization, numbers only."""

    run_id: str
    at_s: float
    numbers: Mapping[str, int]


def reports_of(instance: dg.DagsterInstance, names: Names, kind: str) -> list[Report]:
    """Return the newest reports of this kind, newest first, however the runs were started."""
    found = []
    for record in instance.fetch_materializations(names.key(kind), limit=RUNS_SEEN_MAX).records:
        made = record.asset_materialization
        values = {} if made is None else {name: one.value for name, one in made.metadata.items()}
        numbers = {
            name: int(value)
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        found.append(Report(record.run_id, record.timestamp, numbers))
    return found


def with_reports(runs: Sequence[Run], reports: Sequence[Report], number: str) -> list[Run]:
    """Return the runs with what each reported of a number. The newest report counts also where its run did several things."""
    left = {one.run_id: one.numbers.get(number) for one in reversed(reports)}
    found = [replace(run, left=left.get(run.run_id)) if run.succeeded else run for run in runs]
    known = {run.run_id for run in runs}
    if reports and reports[0].run_id not in known and reports[0].numbers.get(number) is not None:
        at = next((n for n, run in enumerate(found) if run.ended_s is not None), len(found))
        newest = found[at].ended_s if at < len(found) else None
        if newest is None or newest < reports[0].at_s:
            found.insert(at, Run(reports[0].run_id, True, reports[0].at_s, reports[0].numbers[number]))
    return found
