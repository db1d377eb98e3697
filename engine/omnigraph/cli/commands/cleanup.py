"""``omnigraph cleanup``: what would be deleted and why; with --confirm, delete it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import Branches
from omnigraph.cli.render import Screen, bytes_text, count_text
from omnigraph.cli.screenful import rest_text, worth_showing
from omnigraph.wire.cleanup import CleanupReport, CleanupRun


def run(
    call: Call,
    keep: Annotated[int | None, typer.Option("--keep", metavar="N", help="Retain the newest N commits.")] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Retain what is younger: 7d, 12h, 90s.")
    ] = None,
    min_age: Annotated[
        str, typer.Option("--min-age", metavar="AGE", help="Delete nothing younger, whatever the rest says.")
    ] = "1h",
    branches: Branches = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Delete; without it, only show the plan.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Consent for a remote store, without a question at the terminal.")
    ] = False,
) -> Answer:
    """Show which versions are not needed any more, and why the rest stays; with --confirm delete them.

    What a retained commit, a checkpoint or a pending write needs is never deleted. Where anything is in doubt the run is
    refused with the reason and nothing is deleted.
    """
    if keep is None and older_than is None:
        raise Usage("a cleanup needs to be told what to keep", hint="give --keep 10, or --older-than 7d, or both")
    if not confirm:
        with call.reading() as graph:
            plan = graph.plan_cleanup(keep, older_than, min_age, branches)
        return Answer(CleanupRun(plan.uri, False, plan, None), lambda screen: _show_plan(screen, plan.to_dict()))
    call.want_consent("cleanup --confirm", yes=yes)
    with call.writing() as graph, call.screen.busy("cleaning up"):
        planned = graph.plan_cleanup(keep, older_than, min_age, branches)
        report = graph.cleanup(planned)
    assert isinstance(report, CleanupReport)  # a plan that is given is run
    done = report.to_dict()
    return Answer(CleanupRun(report.uri, True, planned, report), lambda screen: _show_report(screen, done))


def _show_plan(screen: Screen, plan: dict[str, Any]) -> None:
    screen.line(plan["policy"]["text"])
    for branch, commit_id in plan["oldest"].items():
        screen.line(f"{branch}: commit {commit_id} and newer stay")
    for name in plan["checkpoints"]:
        screen.line(f"checkpoint {name} stays")
    tables = worth_showing(plan["tables"], lambda t: t["versions"])
    screen.table(
        ("table", "branch", "doomed", "versions", "kept", "young", "why"),
        [[t["table_key"], t["branch"], t["versions"], t["doomed"], t["kept"], t["young"], t["reason"]] for t in tables],
    )
    if len(tables) < len(plan["tables"]):
        screen.line(rest_text(len(plan["tables"]), len(tables)))
    for orphan in plan["orphans"]:
        screen.line(f"{orphan['path']} ({bytes_text(orphan['bytes'])}) has no owner")
    for batch in plan["expired_staging"]:
        screen.line(f"the staged batch {batch} was not loaded for a day")
    if plan["unfinished"]["files"]:
        screen.line(_unfinished(plan["unfinished"]))
    for one in plan["retained"]:
        screen.line(one["text"])
    if plan["versions"] or plan["orphans"] or plan["expired_staging"] or plan["unfinished"]["files"]:
        doomed = len({t["table_key"] for t in plan["tables"] if t["versions"]})
        screen.line(f"to delete: {count_text(plan['versions'], 'version')} of {count_text(doomed, 'table')}")
        screen.note("nothing was deleted; repeat with --confirm to delete this")
    else:
        screen.line("nothing to delete")


def _unfinished(found: dict[str, Any]) -> str:
    return f"{count_text(found['files'], 'file')} of interrupted writes ({bytes_text(found['bytes'])})"


def _show_report(screen: Screen, report: dict[str, Any]) -> None:
    tables = worth_showing(report["tables"], lambda t: (t["error"] is not None, t["deleted"]["versions"]))
    if tables:
        screen.table(
            ("table", "branch", "versions", "files", "bytes", "error"),
            [
                [
                    t["table_key"],
                    t["branch"],
                    t["deleted"]["versions"],
                    t["deleted"]["files"],
                    bytes_text(t["deleted"]["bytes"]),
                    t["error"],
                ]
                for t in tables
            ],
        )
    if len(tables) < len(report["tables"]):
        screen.line(rest_text(len(report["tables"]), len(tables)))
    for orphan in report["orphans"]:
        screen.line(f"{orphan['path']} had no owner and is gone")
    if report["unfinished"]["files"]:
        screen.line(f"{_unfinished(report['unfinished'])} are gone")
    for one in report["retained"]:
        screen.line(one["text"])
    for error in report["errors"]:
        screen.line(f"not deleted: {error}", style="yellow")
    screen.line(f"{count_text(report['versions'], 'version')} deleted, {bytes_text(report['bytes'])} given back")
    if report["run"] is not None:
        screen.line(f"recorded as __cleanup/{report['run']}.json")
