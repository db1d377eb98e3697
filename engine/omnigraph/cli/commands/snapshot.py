"""``omnigraph snapshot``."""

from __future__ import annotations

from typing import Any

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import At, Branch
from omnigraph.cli.render import Screen
from omnigraph.wire.data import SnapshotOf


def run(call: Call, branch: Branch = "main", at: At = None) -> Answer:
    """Show what a branch, or a commit, holds: one line a table."""
    with call.reading() as graph:
        found = SnapshotOf.extending(graph.snapshot(branch, at=at).report(), uri=graph.uri)
    return Answer(found, lambda screen: _show(screen, found.to_dict()))


def _show(screen: Screen, result: dict[str, Any]) -> None:
    names = ("uri", "branch", "commit_id", "manifest_version", "internal_schema_version")
    screen.pairs([(name, result[name]) for name in names])
    screen.line()
    columns = ("table_key", "table_version", "table_branch", "row_count")
    screen.table(
        ("table", "version", "branch", "rows"), [[table[name] for name in columns] for table in result["tables"]]
    )
