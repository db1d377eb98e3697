"""``omnigraph verify``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import All, Branches
from omnigraph.cli.render import Screen
from omnigraph.cli.screenful import rest_text, worth_showing
from omnigraph.cli.tree import has
from omnigraph.core.errors import Corruption
from omnigraph.wire.status import ARGUMENTS

_STYLES = {"damage": "bold red", "pending": "yellow", "garbage": ""}
_URGENCY = {"damage": 2, "pending": 1, "garbage": 0}


def run(
    call: Call,
    deep: Annotated[bool, typer.Option("--deep", help="Read every value and every retained commit.")] = False,
    bytes_per_s: Annotated[
        int | None,
        typer.Option(
            "--bytes-per-s",
            metavar="N",
            help="With --deep: only compare files with their checksums, reading at most so many bytes a second.",
        ),
    ] = None,
    branches: Branches = None,
    all_: All = False,
) -> Answer:
    """Check that the graph is what its manifest says. Changes nothing.

    Quick: every table opens, rows and ids are right, endpoints exist. Damage makes the exit code 9; what an interrupted
    write left, or garbage, does not.
    """
    with call.reading() as graph, call.screen.busy("verifying"):
        report = graph.verify(deep, branches, bytes_per_s=bytes_per_s)
    result: dict[str, Any] = report.to_dict()
    if not result["ok"]:
        if not call.as_json:
            _show(call.screen, result, all_)
        first = next(problem for problem in result["problems"] if problem["severity"] == "damage")
        raise Corruption(f"{result['verdict']}; first: {first['message']}", **result)
    return Answer(report, lambda screen: _show(screen, result, all_))


def _show(screen: Screen, result: dict[str, Any], all_: bool) -> None:
    problems = worth_showing(result["problems"], lambda problem: _URGENCY[problem["severity"]], all_=all_)
    for problem in problems:
        command = problem["command"]
        more = ARGUMENTS.get(command, "")
        todo = f" (run `omnigraph {command} {result['uri']}{more}`)" if command and has(command) else ""
        screen.line(
            f"{problem['severity']:<7}  {problem['code']}: {problem['message']}{todo}",
            style=_STYLES[problem["severity"]],
        )
    if len(problems) < len(result["problems"]):
        screen.line(rest_text(len(result["problems"]), len(problems), "problem", all_=True))
    for note in result["notes"]:
        screen.line(f"note     {note}")
    screen.line(
        f"{result['verdict']}: {result['tables']} tables, {_counted(result)} at {result['commit_id']}",
        style="green" if result["ok"] else "bold red",
    )


def _counted(result: dict[str, Any]) -> str:
    """What was read: rows, or files where only they were."""
    return f"{result['rows']:,} rows" if result["rows"] or not result["files"] else f"{result['files']:,} files"
