"""``omnigraph optimize``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen, bytes_text
from omnigraph.cli.screenful import rest_text, worth_showing


def run(
    call: Call,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="This type only; may be repeated.")
    ] = None,
    target_rows: Annotated[int | None, typer.Option("--target-rows", metavar="N", help="Rows of a full file.")] = None,
    memory_mb: Annotated[
        int | None, typer.Option("--memory-mb", metavar="N", help="Memory that a rewrite may take.")
    ] = None,
    branches: Annotated[
        list[str] | None,
        typer.Option("--branch", metavar="NAME", help="This branch; may be repeated. Without it: main."),
    ] = None,
    settle: Annotated[
        bool | None,
        typer.Option(
            "--settle/--no-settle",
            help="Copy what tables read from other lines into their own folders. Without it: on main, up to 256 MiB a table.",
        ),
    ] = None,
) -> Answer:
    """Make fewer, larger files, and indexes that cover them. Changes no content.

    Runs beside living writers, who have priority: a table that other writers keep changing is skipped, with the reason.
    """
    with call.writing() as graph, call.screen.busy("optimizing"):
        report = graph.optimize(
            list(types) if types else None, target_rows, memory_mb, list(branches) if branches else None, settle=settle
        )
    return Answer(report, lambda screen: show_optimized(screen, report.to_dict()))


def show_optimized(screen: Screen, result: dict[str, Any]) -> None:
    """Tables before and after; also what ``ensure-indices`` shows."""
    tables = worth_showing(result["tables"], lambda t: (t["skipped"] is not None, t["committed"], t["bytes_rewritten"]))
    rows: list[tuple[Any, ...]] = [
        (
            table["table_key"] if table["branch"] == "main" else f"{table['table_key']} ({table['branch']})",
            table["fragments_before"],
            table["fragments"],
            bytes_text(table["bytes_rewritten"]),
            ", ".join([*table["indices_built"], *table["indices_folded"]]),
            table["skipped"] or ("changed" if table["committed"] else "unchanged"),
        )
        for table in tables
    ]
    manifest = result["manifest"]
    if manifest is not None:
        done = "changed" if manifest["changed"] else "unchanged"
        rows.append(("__manifest", manifest["fragments_before"], manifest["fragments"], None, "", done))
    screen.table(("table", "fragments before", "after", "rewritten", "indexes", "result"), rows)
    if len(tables) < len(result["tables"]):
        screen.line(rest_text(len(result["tables"]), len(tables)))
    for table in result["tables"]:
        for pending in table["pending_indexes"]:
            screen.line(
                f"no index yet: {pending['table_key']}.{pending['column']}: {pending['reason']}", style="yellow"
            )
    for commit_id in result["commits"]:
        screen.line(f"commit {commit_id}")
    if not result["changed"]:
        screen.line("nothing to do")
