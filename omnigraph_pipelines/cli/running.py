"""Batches through Dagster's jobs in this process, without a web server or a daemon."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.cli.java_output import JavaOutput
from omnigraph_pipelines.definitions import build_definitions
from omnigraph_pipelines.defs.ingest.names import PROCESS_TAG, Names
from omnigraph_pipelines.defs.ingest.turns import POLL_S, end_the_dead, unfinished
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.planning import PlannedBatch
from omnigraph_pipelines.processes import me

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}  # a refusal is printed once, by the command


WAIT_MAX_S: Final = 600.0


def run_planned(
    file: GraphFile,
    batches: Sequence[PlannedBatch],
    *,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Mapping[str, Any]]:
    """Run batches one after the other; what each came to. Raises the error of the first that is refused. ``say`` gets
    whom it waits for."""
    if not batches:
        return
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    # Of other packages, about one another, in this process and in the workers that it starts.
    warnings.filterwarnings("ignore", category=FutureWarning)
    os.environ.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")
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
        java = stack.enter_context(JavaOutput())
        for one in batches:
            names = Names(file.settings.graph, sources[one.source])
            _wait_for_others(instance, names, say)
            instance.add_dynamic_partitions(names.partitions.name or "", [one.batch])
            java.start(lambda: spark.spark_session, say)
            job = definitions.resolve_job_def(names.job)
            run = job.execute_in_process(
                instance=instance,
                partition_key=one.batch,
                tags={PROCESS_TAG: me()},
                run_config={**_QUIET, "ops": {names.step: {"config": {"force": force}}}},
                raise_on_error=False,
            )
            if not run.success:
                raise _error(run, one, java)
            yield _told(run, names, one)


def _wait_for_others(
    instance: dg.DagsterInstance,
    names: Names,
    say: Callable[[str], None],
    *,
    wait: Callable[[float], Any] | None = None,
    wait_max_s: float = WAIT_MAX_S,
) -> None:
    """Runs of a serial source go one at a time. Within a run Dagster would wait for its pool without a word, for ever."""
    waited = 0.0
    pause = wait or threading.Event().wait
    while True:
        end_the_dead(instance, names)
        others = unfinished(instance, names) if names.source.order == "serial" else []
        if not others:
            return
        run = others[0].dagster_run
        if waited == 0:
            say(f"waits for run {run.run_id} of {names.source.name}, which is {run.status.value}")
        if waited >= wait_max_s:
            raise og.errors.Overloaded(
                f"run {run.run_id} of source {names.source.name} is {run.status.value} and has not ended in {waited:.0f} s",
                hint="let it end; if it is dead, cancel it on the page Runs of the UI, then repeat the command",
                run=run.run_id,
            )
        pause(POLL_S)
        waited += POLL_S


def _told(run: Any, names: Names, one: PlannedBatch) -> Mapping[str, Any]:
    made = [event.materialization for event in run.get_asset_materialization_events()]
    found = next(event.metadata for event in reversed(made) if event.asset_key == names.commit)
    said = {name: found[name].value for name in ("commit_id", "replayed", "seconds", "staging_seconds")}
    rows = {
        name.removeprefix("rows_"): found[name].value
        for name in ("rows_inserted", "rows_updated", "rows_deleted", "rows_unchanged", "rows_rejected")
        if name in found and found[name].value
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


def _error(run: Any, one: PlannedBatch, java: JavaOutput) -> og.errors.OmnigraphError:
    """The engine's error out of the event log, as the class that it was."""
    for event in reversed(run.all_events):
        data = event.event_specific_data
        failure = getattr(data, "user_failure_data", None)
        if not event.is_step_failure or failure is None:
            continue
        facts = {name: value.value for name, value in failure.metadata.items()}
        code = facts.pop("code", None)
        message = (failure.description or f"batch {one.batch} failed").splitlines()[0].partition(": ")[2]
        hint = facts.pop("hint", None)
        plain = {name: value for name, value in facts.items() if isinstance(value, str | int | float | bool)}
        return og.errors.from_dict({**plain, "error": message or str(failure.description), "code": code, "hint": hint})
    return og.errors.OmnigraphError(
        f"the run of {one.source}/{one.batch} failed: {_cause(run)}", hint=f"what Spark wrote is in {java.keep()}"
    )


def _cause(run: Any) -> str:
    for event in reversed(run.all_events):
        error = getattr(event.event_specific_data, "error", None)
        if event.is_failure and error is not None:
            lines = [line.strip() for line in str(error.message).strip().splitlines() if line.strip()]
            return (lines[-1] if lines else "unknown")[:300]
    return "unknown"
