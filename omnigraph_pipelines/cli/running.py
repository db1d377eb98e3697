"""Batches through Dagster's jobs in this process, without a web server or a daemon."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.definitions import build_definitions
from omnigraph_pipelines.defs.ingest.names import PROCESS_TAG, Names
from omnigraph_pipelines.defs.ingest.turns import end_the_dead
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.planning import PlannedBatch
from omnigraph_pipelines.processes import me

_QUIET = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}


def run_planned(
    file: GraphFile, batches: Sequence[PlannedBatch], *, force: bool = False
) -> Iterator[Mapping[str, Any]]:
    """Run batches one after the other; what each came to. Raises the error of the first that is refused."""
    if not batches:
        return
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    logging.getLogger("dagster").setLevel(logging.WARNING)
    definitions = build_definitions(file)
    resources: Mapping[str, Any] = definitions.resources or {}
    sources = {source.name: source for source in file.settings.sources}
    with ExitStack() as stack:
        if os.environ.get("DAGSTER_HOME"):
            instance = stack.enter_context(dg.DagsterInstance.get())
        else:
            instance = stack.enter_context(dg.DagsterInstance.ephemeral())
        # Held over all batches: each run joins this session instead of starting one.
        spark = stack.enter_context(resources["spark"].process_config_and_initialize_cm())
        for one in batches:
            names = Names(file.settings.graph, sources[one.source])
            end_the_dead(instance, names)
            instance.add_dynamic_partitions(names.partitions.name or "", [one.batch])
            _ = spark.spark_session
            job = definitions.resolve_job_def(names.job)
            run = job.execute_in_process(
                instance=instance,
                partition_key=one.batch,
                tags={PROCESS_TAG: me()},
                run_config={**_QUIET, "ops": {f"{names.op}__stage": {"config": {"force": force}}}},
                raise_on_error=False,
            )
            if not run.success:
                raise _error(run, one)
            yield _told(run, names, one)


def _told(run: Any, names: Names, one: PlannedBatch) -> Mapping[str, Any]:
    made = [event.materialization for event in run.get_asset_materialization_events()]
    found = next(event.metadata for event in reversed(made) if event.asset_key == names.commit)
    said = {name: found[name].value for name in ("commit_id", "replayed", "seconds", "staging_seconds")}
    rows = {
        name.removeprefix("rows_"): found[name].value
        for name in ("rows_inserted", "rows_updated", "rows_deleted", "rows_unchanged", "rows_rejected")
        if found[name].value
    }
    seconds = float(said["seconds"]) + float(said["staging_seconds"])
    told = ", ".join(f"{count} {what}" for what, count in rows.items()) or "no rows"
    return {
        "source": one.source,
        "batch": one.batch,
        "commit_id": said["commit_id"],
        "replayed": said["replayed"],
        "rows": told,
        **{f"rows_{what}": count for what, count in rows.items()},
        "seconds": round(seconds, 3),
    }


def _error(run: Any, one: PlannedBatch) -> og.errors.OmnigraphError:
    """The engine's error out of the event log, as the class that it was."""
    for event in reversed(run.all_events):
        data = event.event_specific_data
        failure = getattr(data, "user_failure_data", None)
        if not event.is_step_failure or failure is None:
            continue
        facts = {name: value.value for name, value in failure.metadata.items()}
        kind = og.errors.all_errors().get(str(facts.pop("code", "")), og.errors.OmnigraphError)
        message = (failure.description or f"batch {one.batch} failed").splitlines()[0].partition(": ")[2]
        hint = facts.pop("hint", None)
        plain = {name: value for name, value in facts.items() if isinstance(value, str | int | float | bool)}
        return kind(message or str(failure.description), hint=hint, **plain)
    return og.errors.OmnigraphError(
        f"the run of {one.source}/{one.batch} failed: {_cause(run)}", hint="the log above has the trace"
    )


def _cause(run: Any) -> str:
    for event in reversed(run.all_events):
        error = getattr(event.event_specific_data, "error", None)
        if event.is_failure and error is not None:
            lines = [line.strip() for line in str(error.message).strip().splitlines() if line.strip()]
            return (lines[-1] if lines else "unknown")[:300]
    return "unknown"
