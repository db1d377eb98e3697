"""``omnigraph head``."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import At, Branch
from omnigraph.cli.values import as_json_value, as_text
from omnigraph.wire.data import QueryResult, Target

_ROWS = 20


def run(
    call: Call,
    branch: Branch = "main",
    at: At = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Show so many rows at most.")] = _ROWS,
) -> Answer:
    """Show the first rows of a type.

    Rows come in the order in which they are stored, which may change when the graph is optimized.
    """
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        rows = snapshot.head(call.subject, limit)
    columns = rows.to_arrow().column_names
    entry = snapshot.tables[snapshot.catalog.type(call.subject).table_key]
    found = QueryResult(
        query_name=None,
        target=Target(snapshot.branch, snapshot.commit_id),
        row_count=len(rows),
        truncated=entry.rows > len(rows),
        columns=tuple(columns),
        rows=tuple({name: as_json_value(row[name]) for name in columns} for row in rows),
    )
    shown = [[None if row[name] is None else as_text(row[name]) for name in columns] for row in rows]
    return Answer(found, lambda screen: screen.table(columns, shown) if shown else screen.line("no rows"))
