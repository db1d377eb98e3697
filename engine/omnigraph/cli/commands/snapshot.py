"""``omnigraph snapshot``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen

Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to read.")]
At = Annotated[str | None, typer.Option("--at", metavar="COMMIT_ID", help="As this commit left it; default: now.")]


def run(call: Call, branch: Branch = "main", at: At = None) -> Answer:
    """Show what a branch, or a commit, holds: one line a table."""
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        tables = [
            {
                "table_key": key,
                "table_path": entry.uri,
                "table_version": entry.version,
                "table_branch": entry.branch,
                "row_count": entry.rows,
            }
            for key, entry in sorted(snapshot.tables.items())
        ]
        result: dict[str, Any] = {
            "uri": graph.uri,
            "branch": snapshot.branch,
            "commit_id": snapshot.commit_id,
            "manifest_version": snapshot.manifest_version,
            "internal_schema_version": graph.storage_version,
            "tables": tables,
        }
    return Answer(result, lambda screen: _show(screen, result))


def _show(screen: Screen, result: dict[str, Any]) -> None:
    screen.pairs([(name, result[name]) for name in ("uri", "branch", "commit_id", "manifest_version")])
    screen.line()
    screen.table(
        ("table", "version", "branch", "rows"),
        [
            (table["table_key"], table["table_version"], table["table_branch"] or "main", table["row_count"])
            for table in result["tables"]
        ],
    )
