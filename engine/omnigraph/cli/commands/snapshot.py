"""``omnigraph snapshot``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import At, Branch, Types
from omnigraph.cli.render import Screen
from omnigraph.wire.data import SnapshotOf


def run(call: Call, branch: Branch = "main", at: At = None, types: Types = None) -> Answer:
    """Show what a branch, or a commit, holds: one line a table."""
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        report = snapshot.report()
        if types:
            keys = {snapshot.catalog.type(name).table_key for name in types}
            report = replace(report, tables=tuple(table for table in report.tables if table.table_key in keys))
        found = SnapshotOf.extending(report, uri=graph.uri)
    return Answer(found, lambda screen: _show(screen, found.to_dict()))


def _show(screen: Screen, result: dict[str, Any]) -> None:
    names = ("uri", "branch", "commit_id", "manifest_version", "internal_schema_version")
    screen.pairs([(name, result[name]) for name in names])
    screen.line()
    columns = ("table_key", "table_version", "table_branch", "row_count")
    screen.table(
        ("table", "version", "branch", "rows"), [[table[name] for name in columns] for table in result["tables"]]
    )
