"""A code location over one real graph and a landing folder, and what a daemon does with it, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

import omnigraph as og
from omnigraph_pipelines.definitions import build_definitions
from omnigraph_pipelines.defs.ingest import ingest
from omnigraph_pipelines.defs.ingest.names import Names
from omnigraph_pipelines.graph_file import load_graph_file
from omnigraph_pipelines.resources import Connections

SCHEMA = """\
node Person { name: String @key  age: I32?  @range(age, 0..150) }
node Company { name: String @key }
edge WorksAt: Person -> Company { role: String?  @unique(src, dst) }
"""
CRM: dict[str, Any] = {
    "name": "crm",
    "batches": "landing/crm/*/",
    "ready": "_SUCCESS",
    "mode": "merge",
    "tables": [
        {"node": "Person", "files": "people*.csv", "columns": {"name": "full_name"}},
        {"node": "Company", "files": "companies*.csv", "optional": True},
        {"edge": "WorksAt", "files": "jobs*.csv", "from": "person", "to": "company", "optional": True},
    ],
}
FEED: dict[str, Any] = {
    "name": "feed",
    "batches": "landing/feed/*.jsonl",
    "format": "graph",
    "types": ["Person"],
    "mode": "append",
}


class Location:
    """``spark`` stands in for the resource that the settings would make. ``uri``: where the graph lies, if not here."""

    def __init__(
        self, folder: Path, instance: dg.DagsterInstance, spark: Any = None, uri: str | None = None, **settings: Any
    ) -> None:
        self.folder = folder
        (folder / "people.pg").write_text(SCHEMA)
        self.uri = uri or str(folder / "people.omni")
        graph = {"name": "people", "uri": uri or "people.omni", "schema": "people.pg"}
        text = yaml.safe_dump(
            {"graph": graph, "sources": [CRM, FEED], **settings}
        )  # settings may bring their own sources
        (folder / "graph.yaml").write_text(text)
        self.file = load_graph_file(folder / "graph.yaml")
        self.instance = instance
        self.defs = build_definitions(self.file, spark=spark)
        self.now_s = 0.0
        self.cursors: dict[str, str | None] = {}
        clocked = ingest(self.file, Connections.by_key(), now_s=lambda: self.now_s)
        self.repository = dg.Definitions.merge(
            clocked, dg.Definitions(resources=self.defs.resources)
        ).get_repository_def()

    def land(self, batch: str, *, ready: bool = True, **files: str) -> Path:
        """A folder of the customer system: ``people="Ada,36"`` writes people.csv with its header."""
        heads = {"people": "full_name,age", "companies": "name", "jobs": "person,company,role"}
        folder = self.folder / "landing" / "crm" / batch
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in files.items():
            (folder / f"{name}.csv").write_text("\n".join([heads[name], *rows.split()]) + "\n")
        if ready:
            (folder / "_SUCCESS").touch()
        return folder

    def feed(self, batch: str, text: str) -> Path:
        path = self.folder / "landing" / "feed" / batch
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def graph(self) -> og.Graph:
        return og.open(self.uri, read_only=True)

    def commits(self) -> list[str]:
        with self.graph as graph:
            return [commit.idempotency_key or "" for commit in graph.commits() if commit.kind == "load"][::-1]

    # --- what a daemon does ----------------------------------------------------------------------------------------------

    def tick(self, sensor: str) -> Any:
        """Evaluate a sensor, keep its cursor, add the partitions it wants, and return what it asked for."""
        with dg.SensorEvaluationContext(
            instance_ref=self.instance.get_ref(),
            instance=self.instance,
            cursor=self.cursors.get(sensor),
            last_tick_completion_time=None,
            last_run_key=None,
            repository_name=None,
            repository_def=self.repository,
            resources=self.repository.get_top_level_resources(),
        ) as context:
            result = self.repository.get_sensor_def(sensor).evaluate_tick(context)
        self.cursors[sensor] = result.cursor
        for request in result.dynamic_partitions_requests or ():
            if isinstance(request, dg.DeleteDynamicPartitionsRequest):
                for key in request.partition_keys:
                    self.instance.delete_dynamic_partition(request.partitions_def_name, key)
            else:
                self.instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
        return result

    def run(
        self, source: str, batch: str, *, tags: Mapping[str, str] | None = None, force: bool = False, only: Any = None
    ) -> dg.ExecuteInProcessResult:
        self.instance.add_dynamic_partitions(f"people/{source}", [batch])
        config = {"ops": {self.step(source): {"config": {"force": force}}}} if only is None else None
        run = self.defs.resolve_job_def(f"ingest_{source}").execute_in_process(
            instance=self.instance,
            partition_key=batch,
            tags=dict(tags or {}),
            run_config=config,
            asset_selection=only,
            raise_on_error=False,
        )
        for event in run.all_events:
            if event.is_step_failure and event.step_failure_data.error is not None:
                print(event.step_failure_data.error.to_string())
        return run

    def arrive(self, source: str) -> list[dg.ExecuteInProcessResult]:
        """A tick, and every run that it asks for."""
        asked = self.tick(f"new_batches_{source}").run_requests
        return [
            self.run(source, one.partition_key, tags=one.tags)
            if one.partition_key
            else self.run_several(source, one.tags)
            for one in asked
        ]

    def step(self, source: str) -> str:
        (settings,) = [one for one in self.file.settings.sources if one.name == source]
        return Names(self.file.settings.graph, settings).step

    def run_several(self, source: str, tags: Mapping[str, str]) -> dg.ExecuteInProcessResult:
        """A run of a range of partitions."""
        job = self.defs.resolve_job_def(f"ingest_{source}")
        return job.execute_in_process(instance=self.instance, tags=dict(tags), raise_on_error=False)


def materialized(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Metadata by asset, as plain values."""
    return {
        "/".join(event.asset_key.path): {name: value.value for name, value in event.materialization.metadata.items()}
        for event in run.get_asset_materialization_events()
        if event.asset_key is not None
    }


def checks(run: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {f"{one.asset_key.path[-1]}.{one.check_name}": one.passed for one in run.get_asset_check_evaluations()}


def broken(run: dg.ExecuteInProcessResult) -> set[str]:
    """What the failed check of a batch names, such as ``keys of Person``."""
    (failed,) = [one for one in run.get_asset_check_evaluations() if not one.passed]
    return {f"{row.data['rule']} of {row.data['table']}" for row in failed.metadata["broken"].records}


def failure(run: dg.ExecuteInProcessResult) -> Any:
    """What the failed step says to people."""
    (event,) = [one for one in run.all_events if one.is_step_failure]
    return event.step_failure_data.user_failure_data
