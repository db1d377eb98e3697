"""Upkeep: optimize, compaction, cleanup, reconcile and scrub as assets, with the sensors and schedules that run them unasked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

    from omnigraph_pipelines.defs.upkeep.automation import Now
    from omnigraph_pipelines.graph_file import GraphFile
    from omnigraph_pipelines.resources import Connections


def upkeep(
    file: GraphFile, connections: Connections, *, prefix: str = "", now_s: Now = lambda: time.time_ns() / 1e9
) -> dg.Definitions:
    """Everything that keeps one graph fast and small. ``prefix`` of jobs, sensors and schedules tells two graphs in one
    code location apart."""
    import dagster as dg

    from omnigraph_pipelines.defs.upkeep import automation
    from omnigraph_pipelines.defs.upkeep.assets import upkeep_assets
    from omnigraph_pipelines.defs.upkeep.names import Names

    settings = file.settings.upkeep
    names = Names(file.settings.graph, prefix)
    jobs = automation.jobs(names)
    return dg.Definitions(
        assets=upkeep_assets(names, settings, connections.graph),
        jobs=list(jobs.values()),
        sensors=automation.sensors(names, settings, connections.graph, jobs, now_s),
        schedules=automation.schedules(names, settings, jobs),
    )
