"""``omnigraph head``."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import At, Branch
from omnigraph.cli.render import Screen, count_text
from omnigraph.cli.rows import Format, RowFile, RowFormat, goes_to_file, show_rows, write_file
from omnigraph.cli.values import as_json_value
from omnigraph.wire.data import QueryResult, Target

_ROWS = 20


def run(
    call: Call,
    branch: Branch = "main",
    at: At = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Show so many rows at most.")] = _ROWS,
    format_: RowFormat = Format.table,
    output: RowFile = None,
) -> Answer:
    """Show the first rows of a type.

    Rows come in the order in which they are stored, which may change when the graph is optimized.
    """
    writes = goes_to_file(format_, output)
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
    if writes and output is not None:
        write_file(rows.to_arrow().to_reader(), output, None)
        return Answer(found, lambda screen: screen.note(f"{count_text(len(rows), 'row')} → {output}"))
    values = [[row[name] for name in columns] for row in rows]

    def show(screen: Screen) -> None:
        if format_ is Format.table and not values:
            screen.line("no rows")
        else:
            show_rows(screen, format_, found.to_dict(), values, hint="")

    return Answer(found, show)
