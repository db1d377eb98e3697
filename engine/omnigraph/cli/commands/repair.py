"""``omnigraph repair``: drift that no operation claims is listed, and put back on request."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.render import Screen, count_text
from omnigraph.core.errors import Refused


def run(
    call: Call,
    confirm: Annotated[bool, typer.Option("--confirm", help="Put the tables back; without it, only list.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also where a transaction or an intent does not read; moves the intent aside."),
    ] = False,
) -> Answer:
    """List table versions that no commit published and no write claims; with --confirm put the tables back.

    What was never published is never made visible. A table that cannot be healed makes the exit code 4.
    """
    if force and not confirm:
        raise Usage("--force says how to heal and needs --confirm", hint="run it without either first, and look")
    with call.repairing(announced=confirm) as graph:
        report = graph.repair(confirm=confirm, force=force)
    result: dict[str, Any] = report.to_dict()
    refused = [("a line of the manifest", one) for one in result["lines"] if one["action"] == "refused"]
    refused += [(table["table_key"], table) for table in result["tables"] if table["action"] == "refused"]
    if refused:
        if not call.as_json:
            _show(call.screen, result)
        name, first = refused[0]
        raise Refused(
            f"{count_text(len(refused), 'object')} could not be healed, first {name}: {first['reason']}",
            hint="resolve the reason named; --force heals what does not read",
            reason="not-healed",
            **result,
        )
    return Answer(report, lambda screen: _show(screen, result))


def _show(screen: Screen, result: dict[str, Any]) -> None:
    for line in result["lines"]:
        _show_line(screen, line)
    columns = ("table_key", "manifest_version", "latest_version", "classification", "action", "reason")
    if result["tables"]:
        screen.table(
            ("table", "published", "newest", "classification", "action", "reason"),
            [[table[name] for name in columns] for table in result["tables"]],
        )
    for key in result["quarantined"]:
        screen.line(f"moved aside: {key}")
    if result["confirm"]:
        healed = sum(table["action"] in ("healed", "forced") for table in result["tables"])
        screen.line(f"{count_text(healed, 'table')} put back")
        return
    for key in result["unreadable_intents"]:
        screen.line(f"does not read: {key} (--confirm --force moves it aside)", style="yellow")
    if result["tables"] or result["unreadable_intents"] or result["lines"]:
        screen.note("nothing was changed; repeat with --confirm to put things back")
    else:
        screen.line("no drift: every table stands at its published version")


def _show_line(screen: Screen, line: dict[str, Any]) -> None:
    """One torn line: what is moved aside, and what becomes the newest version."""
    name = "main" if line["line"] is None else line["line"]
    done = "moved aside" if line["action"] == "healed" else "not whole"
    for one in line["moved"]:
        screen.line(f"{done}: {one['path']} ({one['why']})", style="yellow")
    left = line["newest_left"]
    after = (
        "no version is left; `omnigraph init --schema FILE` makes a new graph here"
        if left is None
        else f"version {left} counts"
    )
    screen.line(f"line {name}: {after}")
    for commit in line["given_up"]:
        screen.line(f"given up: commit {commit}", style="yellow")
