"""Failed runs are reported: to the log, and to the hook that the graph file names.

Owns what is reported. A run that Dagster will repeat by itself is not reported; its last failure is. Reporting is tried once: a hook
that fails shows as a failed tick of the sensor, and hides no other failure.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import dagster as dg

from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.resources import Connections
from omnigraph_pipelines.settings import AlertSettings, text_of

SENSOR: Final = "run_failures"
INTERVAL_S: Final = 10
POST_TIMEOUT_S: Final = 10.0
WILL_RETRY_TAG: Final = "dagster/will_retry"

Alert = dict[str, Any]


def alerts(file: GraphFile, connections: Connections, *, prefix: str = "") -> dg.Definitions:
    """The sensor that tells of failed runs of this code location."""
    del connections
    settings = file.settings.alerts
    graph = file.settings.graph.name

    @dg.run_failure_sensor(
        name=f"{prefix}{SENSOR}",
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells of runs that failed for good: in the log, and by the hook or the address of the graph file.",
    )
    def run_failures(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        run = context.dagster_run
        if run.tags.get(WILL_RETRY_TAG) == "true":
            return dg.SkipReason(f"run {run.run_id[:8]} failed and will be repeated")
        alert = describe(graph, run, context)
        context.log.error(alert["text"])
        tell(settings, alert)
        return None

    return dg.Definitions(sensors=[run_failures])


def describe(graph: str, run: dg.DagsterRun, context: dg.RunFailureSensorContext) -> Alert:
    """What happened in one dict of plain values. ``text`` says it in one line."""
    errors = [_step_error(event) for event in context.get_step_failure_events()]
    checks = _failed_checks(context.instance, run.run_id)
    message = errors[0]["message"] if errors else context.failure_event.message or "the run failed"
    alert: Alert = {
        "graph": graph,
        "run_id": run.run_id,
        "job": run.job_name,
        "assets": sorted(key.to_user_string() for key in run.asset_selection or ()),
        "partition": run.tags.get("dagster/partition"),
        "message": message,
        "code": next((error["code"] for error in errors if error["code"]), None),
        "hint": next((error["hint"] for error in errors if error["hint"]), None),
        "steps": [error["step"] for error in errors],
        "checks": checks,
        "tags": {name: value for name, value in sorted(run.tags.items()) if name.startswith("omnigraph/")},
    }
    return {**alert, "text": _text(alert)}


def _text(alert: Mapping[str, Any]) -> str:
    batch = f", batch {alert['partition']}" if alert["partition"] else ""
    failed = f" Failed checks: {', '.join(check['check'] for check in alert['checks'])}." if alert["checks"] else ""
    hint = f" Hint: {alert['hint']}." if alert["hint"] else ""
    first = " ".join(str(alert["message"]).split())[:500]
    return f"graph {alert['graph']}: run {alert['run_id'][:8]} of {alert['job']}{batch} failed: {first}{failed}{hint}"


def _step_error(event: dg.DagsterEvent) -> dict[str, Any]:
    """The engine's code and hint are in the metadata of the failure; what others raised has only a message."""
    data = event.step_failure_data
    told = data.user_failure_data
    metadata = told.metadata if told is not None else {}

    def text(name: str) -> str | None:
        value = metadata.get(name)
        return None if value is None else str(value.value)

    error = data.error
    deepest = error
    while deepest is not None and deepest.cause is not None:
        deepest = deepest.cause
    said = told.description if told is not None and told.description else deepest.message if deepest is not None else ""
    return {"step": event.step_key, "message": said.strip(), "code": text("code"), "hint": text("hint")}


def _failed_checks(instance: dg.DagsterInstance, run_id: str) -> list[dict[str, Any]]:
    found = []
    for record in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION):
        event = record.dagster_event
        check = event.asset_check_evaluation_data if event is not None else None
        if check is not None and not check.passed:
            found.append(
                {
                    "asset": check.asset_key.to_user_string(),
                    "check": check.check_name,
                    "severity": check.severity.value,
                    "description": check.description,
                }
            )
    return found


# --- telling ------------------------------------------------------------------------------------------------------------


def tell(settings: AlertSettings, alert: Alert) -> None:
    """Both ways, where both are configured: the failure of one is no reason to leave the other out."""
    problems: list[Exception] = []
    for way in (_by_hook, _by_post):
        try:
            way(settings, alert)
        except Exception as error:  # noqa: BLE001  # the hook is the user's code; what it raises is logged below
            problems.append(error)
    if problems:
        raise ExceptionGroup("the alert could not be delivered", problems)


def _by_hook(settings: AlertSettings, alert: Alert) -> None:
    if settings.hook is None:
        return
    module, _, name = settings.hook.partition(":")
    hook: Callable[[Alert], object] = getattr(import_module(module), name)
    hook(alert)


def _by_post(settings: AlertSettings, alert: Alert) -> None:
    if settings.url is None:
        return
    address = text_of(settings.url)
    if not address.startswith(("http://", "https://")):
        raise ValueError("alerts.url is an http or https address")
    request = urllib.request.Request(
        address, data=json.dumps(alert).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=POST_TIMEOUT_S):
        pass
