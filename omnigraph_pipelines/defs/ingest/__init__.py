"""Ingest: batches that arrive become commits. Staged tables, their checks, the commit, the job and the sensor of a source."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

    from omnigraph_pipelines.graph_file import GraphFile
    from omnigraph_pipelines.resources import Connections


def ingest(
    file: GraphFile,
    connections: Connections,
    *,
    prefix: str = "",
    now_s: Callable[[], float] = lambda: time.time_ns() / 1e9,
) -> dg.Definitions:
    """Everything that brings batches into one graph. ``prefix`` of jobs and sensors tells two graphs in one code location
    apart."""
    import dagster as dg

    from omnigraph_pipelines.defs.ingest.commit import commit_asset
    from omnigraph_pipelines.defs.ingest.names import GRAPH_TAG, Names
    from omnigraph_pipelines.defs.ingest.replay import replay_asset
    from omnigraph_pipelines.defs.ingest.sensor import new_batches
    from omnigraph_pipelines.defs.ingest.shared import shared_asset
    from omnigraph_pipelines.defs.ingest.staging import staging_asset

    assets, jobs = [], []
    sensors: list[dg.SensorDefinition] = []
    for source in file.settings.sources:
        names = Names(file.settings.graph, source, prefix)
        if names.shares_runs:
            made = [shared_asset(names, file, connections)]
        else:
            made = [staging_asset(names, file, connections), commit_asset(names, file, connections)]
        job = dg.define_asset_job(
            names.job,
            selection=dg.AssetSelection.assets(*made),
            tags=names.tags(),
            description=f"Batches of {source.name}: stage, check, commit.",
            executor_def=dg.in_process_executor,
        )
        assets += made
        jobs.append(job)
        again = replay_asset(names, file, connections.graph)
        assets.append(again)
        jobs.append(
            dg.define_asset_job(
                names.replay_job,
                selection=[names.quarantine],
                tags={GRAPH_TAG: file.settings.graph.name},
                description=f"Load what was left out of batches of {source.name} again.",
                executor_def=dg.in_process_executor,
            )
        )
        sensors.append(new_batches(names, job, file, connections, now_s=now_s))
    if any(source.automation_condition is not None for source in file.settings.sources):
        sensors.append(
            dg.AutomationConditionSensorDefinition(
                f"{prefix}automation_{file.settings.graph.name}",
                target=dg.AssetSelection.assets(*assets),
                default_status=dg.DefaultSensorStatus.RUNNING,
            )
        )
    return dg.Definitions(assets=assets, jobs=jobs, sensors=sensors)
