"""Starts runs like Dagster's own launcher, and can say afterwards whether one is still alive.

Dagster's launcher cannot: a run's process is watched by the code server that started it. Where both die together, as when a
machine is switched off, the run would count as under way for ever, with its place in the pool. This one looks the process up,
so that run monitoring ends such a run and repeats it. A code server on another machine, or in another container, is asked whether
it knows the run: one that was started anew does not, and its container took the run's process with it.
"""

from __future__ import annotations

import json
from typing import Any, Final

import dagster as dg

# This module and the coordinator need names which Dagster does not export.
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster_shared.serdes import deserialize_value

from omnigraph_pipelines.processes import is_alive

ASKED_S: Final = 10
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class LocalRunLauncher(dg.DefaultRunLauncher):
    """``run_launcher`` of an instance file: ``module: omnigraph_pipelines.launcher``, ``class: LocalRunLauncher``."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return FAILED only for a run that was looked for: what cannot be seen from here counts as running."""
        if not is_here(run):
            return self._asked(run)
        told = self._workers(run.run_id)
        if not told:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its process is not known")
        alive = next((pid for pid, told_s in told.items() if is_alive(pid, told_s)), None)
        if alive is not None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, f"process {alive}")
        return CheckRunHealthResult(WorkerStatus.FAILED, f"process {', '.join(map(str, told))} is gone")

    def _asked(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Ask the code server that started the run."""
        client: Any = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]  # Dagster's
        if client is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its code server is not known")
        try:
            answer = client.can_cancel_execution(CanCancelExecutionRequest(run_id=run.run_id), timeout=ASKED_S)
        except DagsterUserCodeUnreachableError:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its code server does not answer")
        if deserialize_value(answer, CanCancelExecutionResult).can_cancel:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its code server works on it")
        return CheckRunHealthResult(WorkerStatus.FAILED, "its code server was started anew and does not know it")

    def _workers(self, run_id: str) -> dict[int, float]:
        """The processes that were started for the run, each with when it was first told of. A code server that answers too late is
        asked again and starts a second one, which ends at once: the run has ended only when none of them is left."""
        found: dict[int, float] = {}
        for entry in self._instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
            event = entry.dagster_event
            pid = event.engine_event_data.metadata.get("pid") if event is not None else None
            if pid is not None and str(pid.value).isdigit():
                found.setdefault(int(str(pid.value)), entry.timestamp)
        return found


def is_here(run: dg.DagsterRun) -> bool:
    """Whether the code server that started the run is on this machine."""
    try:
        told = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
    except ValueError:
        return False
    return isinstance(told, dict) and told.get("host", "localhost") in _HERE
