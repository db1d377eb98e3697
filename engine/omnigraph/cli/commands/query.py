"""``omnigraph query``: SQL over the views of one snapshot. Reads only; reaches neither files nor the network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import At, Branch
from omnigraph.cli.render import count_text
from omnigraph.cli.rows import Format, RowFile, RowFormat, goes_to_file, show_rows, write_file
from omnigraph.cli.values import as_json_value
from omnigraph.core.operation import operating
from omnigraph.wire.data import QueryResult, Target

if TYPE_CHECKING:
    from omnigraph.read.snapshot import Snapshot

# What a person can look at; programs ask for csv, jsonl or json and get everything.
_SHOWN_ROWS = 1_000


def run(
    call: Call,
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="TEXT", help="One select statement; - reads it from standard input.")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="All rows of this type, in place of a statement.")
    ] = None,
    branch: Branch = "main",
    at: At = None,
    format_: RowFormat = Format.table,
    output: RowFile = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="So many rows at most.")] = None,
    limit_rows: Annotated[int | None, typer.Option("--limit-rows", min=1, hidden=True)] = None,
) -> Answer:
    """Run SQL over a snapshot: one view a type, read-only.

    A view has the properties of its type, id, and for edges src and dst. Formats table and kv show the first 1,000 rows
    unless --limit says otherwise; the others show all.
    """
    if limit is not None and limit_rows is not None:
        raise Usage("--limit and --limit-rows are one option", hint="give --limit alone")
    bound = limit if limit is not None else limit_rows
    text = sys.stdin.read() if sql == "-" else sql
    if (text is None) == (type_ is None):
        raise Usage("a query is a statement or a type", hint="give either --sql or --type")
    if text is not None and not text.strip():
        raise Usage("the statement is empty", hint="for example --sql 'select count(*) from Person'")
    if goes_to_file(format_, output) and output is not None:
        return _to_file(call, text, type_, branch, at, output, bound)
    as_document = call.as_json or format_ is Format.json
    if bound is None and not as_document and format_ in (Format.table, Format.kv):
        bound = _SHOWN_ROWS
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        columns, rows, truncated = _select(snapshot, _statement(snapshot, text, type_), bound)
    found = QueryResult(
        query_name=None,
        target=Target(snapshot.branch, snapshot.commit_id),
        row_count=len(rows),
        truncated=truncated,
        columns=tuple(columns),
        rows=tuple(dict(zip(columns, map(as_json_value, row), strict=True)) for row in rows)
        if as_document or format_ is Format.jsonl
        else (),
    )
    return Answer(found, lambda screen: show_rows(screen, format_, found.to_dict(), rows, hint="--limit N shows more"))


def _statement(snapshot: Snapshot, text: str | None, type_: str | None) -> str:
    """What to run; all rows of a type where no statement is given."""
    if text is not None:
        return text
    name = snapshot.catalog.type(type_ or "").name
    return f'select * from "{name}"'


def _to_file(
    call: Call, text: str | None, type_: str | None, branch: str, at: str | None, output: Path, bound: int | None
) -> Answer:
    """The rows as one Parquet file, as a stream. A file that is there is not replaced."""
    with call.reading() as graph, call.screen.busy(f"writing {output}"):
        snapshot = graph.snapshot(branch, at=at)
        found = snapshot.sql(_statement(snapshot, text, type_))
        count, truncated = write_file(found.to_batches(), output, bound)
    target = Target(snapshot.branch, snapshot.commit_id)
    result = QueryResult(None, target, count, truncated, tuple(found.columns), ())
    return Answer(result, lambda screen: screen.note(f"{count_text(count, 'row')} → {output}"))


def _select(snapshot: Snapshot, text: str, bound: int | None) -> tuple[list[str], list[tuple[Any, ...]], bool]:
    # One operation from the statement to its last row: what its scans read is counted there.
    with operating("query", snapshot.uri):
        found = snapshot.sql(text)
        rows = found.fetchall() if bound is None else found.fetchmany(bound + 1)
    truncated = bound is not None and len(rows) > bound
    return found.columns, rows[:bound], truncated
