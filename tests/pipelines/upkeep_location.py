"""A code location over one real graph, and what a daemon does with it, in this process: ticks, runs, nights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from omnigraph_pipelines.definitions import build_definitions
from omnigraph_pipelines.defs.upkeep import upkeep
from omnigraph_pipelines.graph_file import load_graph_file
from omnigraph_pipelines.resources import Connections, OmniGraphResource
from tests.component.upkeep.material import SCHEMA


class Location:
    """``root`` is the graph's URI. ``now_s`` is what the sensors take for the time."""

    def __init__(self, folder: Path, root: str, settings: Mapping[str, Any], instance: dg.DagsterInstance) -> None:
        (folder / "people.pg").write_text(SCHEMA)
        file = folder / "graph.yaml"
        file.write_text(yaml.safe_dump({"graph": {"name": "people", "uri": root, "schema": "people.pg"}, **settings}))
        self.file = load_graph_file(file)
        self.instance = instance
        self.defs = build_definitions(self.file)
        self.resource = OmniGraphResource.from_settings(self.file.settings)
        self.now_s: float | None = None
        self.cursors: dict[str, str | None] = {}
        parts = upkeep(self.file, Connections.by_key(), now_s=self._now)
        self.repository = dg.Definitions.merge(
            parts, dg.Definitions(resources={"graph": self.resource}, executor=dg.in_process_executor)
        ).get_repository_def()

    def _now(self) -> float:
        if self.now_s is not None:
            return self.now_s
        return datetime.now(UTC).timestamp()

    # --- what a daemon does ----------------------------------------------------------------------------------------------

    def tick(self, sensor: str) -> Any:
        """Evaluate a sensor, keep its cursor, and return what it asked for."""
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor),
            repository_def=self.repository,
            resources={"graph": self.resource},
        ) as context:
            result = self.repository.get_sensor_def(sensor).evaluate_tick(context)
        self.cursors[sensor] = result.cursor
        return result

    def queue(self, job: str, request: Any) -> dg.DagsterRun:
        """A run that waits, as the daemon makes it of a request."""
        return self.instance.create_run_for_job(
            self.repository.get_job(job), tags={**request.tags, "dagster/run_key": request.run_key}
        )

    def run(self, job: str, config: Mapping[str, Any] | None = None, **more: Any) -> Any:
        definition = self.repository.get_job(job)
        run_config = {} if config is None else {"ops": {f"people__upkeep__{job}": {"config": dict(config)}}}
        return definition.execute_in_process(
            run_config=run_config, instance=self.instance, raise_on_error=False, **more
        )

    def materialize(self, kind: str, config: Mapping[str, Any] | None = None) -> Any:
        job = self.repository.get_implicit_global_asset_job_def()
        run_config = {} if config is None else {"ops": {f"people__upkeep__{kind}": {"config": dict(config)}}}
        return job.execute_in_process(
            run_config=run_config,
            asset_selection=[dg.AssetKey(["people", "upkeep", kind])],
            instance=self.instance,
            raise_on_error=False,
        )


@contextmanager
def location(folder: Path, root: str, *, lasting: bool = False, **settings: Any) -> Iterator[Location]:
    """``lasting``: with an instance on disk, which schedules need."""
    folder.mkdir(parents=True)
    with dg.instance_for_test(temp_dir=str(folder)) if lasting else dg.DagsterInstance.ephemeral() as instance:
        yield Location(folder, root, settings, instance)


def told(result: Any) -> dict[str, Any]:
    """Metadata of the one materialisation of a run."""
    [event] = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def observed(result: Any) -> dict[str, Any]:
    [event] = result.get_asset_observation_events()
    return {name: value.value for name, value in event.asset_observation_data.asset_observation.metadata.items()}


def failure(result: Any) -> Any:
    """What the one failed step told: description and metadata."""
    [event] = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    return event.step_failure_data.user_failure_data
