"""``omnigraph doctor``: what a graph needs from its surroundings, checked one by one.

Shows where credentials come from, never what they are.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.checks import (
    FAIL,
    OK,
    WARN,
    Findings,
    environment_checks,
    graph_checks,
    settings_check,
    store_checks,
)
from omnigraph.cli.render import Screen, count_text
from omnigraph.core.errors import OmnigraphError
from omnigraph.wire.program import DoctorCheck, DoctorReport

_STYLES = {OK: "green", WARN: "yellow", FAIL: "bold red"}


def run(
    call: Call,
    no_write: Annotated[
        bool, typer.Option("--no-write", help="Skip the checks that write the small object __probe.")
    ] = False,
) -> Answer:
    """Check the store, credentials, the clock and what is installed; show each setting with where it comes from.

    Without a URI no store is checked. The exit code is 0 unless a check fails.
    """
    found = Findings()
    environment_checks(found)
    settings_check(found, _given(call))
    uri = None
    if call.uri_or_none is not None:
        store = call.store()
        uri = store.uri
        store_checks(found, store, call.options, write=not no_write)
        graph_checks(found, call.uri, call.options)
    checks = found.checks
    failed = [check for check in checks if check.status == FAIL]
    if failed:
        if not call.as_json:
            _show(call.screen, checks)
        raise _failure(failed, {"uri": uri, "status": FAIL, "checks": [check.to_dict() for check in checks]})
    status: Literal["ok", "warn"] = WARN if any(check.status == WARN for check in checks) else OK
    return Answer(DoctorReport(uri, status, tuple(checks)), lambda screen: _show(screen, checks))


def _given(call: Call) -> dict[str, str | None]:
    """What the command line says of the settings."""
    return {
        "uri": call.given_uri,
        "actor": call.actor,
        "durability": call.durability,
        "verify-reads": "1" if call.verify_reads else None,
    }


def _show(screen: Screen, checks: list[DoctorCheck]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        screen.line(f"{check.status:<4}  {check.name:<{width}}  {check.message}", style=_STYLES[check.status])
        if check.hint and check.status != OK:
            screen.line(f"{'':<{width + 8}}hint: {check.hint}")


def _failure(failed: list[DoctorCheck], result: dict[str, Any]) -> OmnigraphError:
    """The first failure, as the error that it is: its exit code says who can help."""
    first = failed[0]
    kind = type(first.error) if first.error is not None else OmnigraphError
    return kind(
        f"{count_text(len(failed), 'check')} failed, first {first.name}: {first.message}", hint=first.hint, **result
    )
