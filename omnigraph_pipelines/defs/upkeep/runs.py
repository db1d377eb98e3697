"""Which runs of upkeep there were: Dagster's records as the plain values that ``decide`` judges."""

from __future__ import annotations

from collections.abc import Iterator
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
        if run.is_finished:
            ended_s = record.end_time if record.end_time is not None else record.update_timestamp.timestamp()
            yield Run(run.run_id, run.status is dg.DagsterRunStatus.SUCCESS, ended_s)
