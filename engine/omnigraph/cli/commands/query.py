"""``omnigraph query``: SQL over the views of one snapshot. Reads only; reaches neither files nor the network."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import At, Branch
from omnigraph.cli.render import Screen, count_text
from omnigraph.cli.values import as_json_value, as_text
from omnigraph.core.errors import AlreadyExists
from omnigraph.core.operation import operating
from omnigraph.wire.data import QueryResult, Target

if TYPE_CHECKING:
    from omnigraph.read.snapshot import Snapshot

# What a person can look at; programs ask for csv, jsonl or json and get everything.
_SHOWN_ROWS = 1_000


class Format(StrEnum):
    table = "table"
    kv = "kv"
    csv = "csv"
    jsonl = "jsonl"
    json = "json"
    parquet = "parquet"


def run(
    call: Call,
    sql: Annotated[
        str, typer.Option("--sql", metavar="TEXT", help="One select statement; - reads it from standard input.")
    ],
    branch: Branch = "main",
    at: At = None,
    format_: Annotated[Format, typer.Option("--format", help="How rows are printed.")] = Format.table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file; for --format parquet.")
    ] = None,
    limit_rows: Annotated[
        int | None, typer.Option("--limit-rows", min=1, metavar="N", help="Print so many rows at most.")
    ] = None,
) -> Answer:
    """Run SQL over a snapshot: one view a type, read-only.

    A view has the properties of its type, id, and for edges src and dst. Formats table and kv show the first 1,000 rows
    unless --limit-rows says otherwise; the others show all.
    """
    text = sys.stdin.read() if sql == "-" else sql
    if not text.strip():
        raise Usage("the statement is empty", hint="for example --sql 'select count(*) from Person'")
    if (format_ is Format.parquet) != (output is not None):
        raise Usage("--format parquet and --output go together", hint="add --format parquet --output rows.parquet")
    if output is not None:
        return _to_file(call, text, branch, at, output, limit_rows)
    as_document = call.as_json or format_ is Format.json
    bound = limit_rows
    if bound is None and not as_document and format_ in (Format.table, Format.kv):
        bound = _SHOWN_ROWS
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        columns, rows, truncated = _select(snapshot, text, bound)
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
    return Answer(found, lambda screen: _show(screen, format_, found.to_dict(), rows))


def _to_file(call: Call, text: str, branch: str, at: str | None, output: Path, bound: int | None) -> Answer:
    """All rows as one Parquet file, as a stream. A file that is there is not replaced."""
    from omnigraph.read.export_parquet import write_rows

    if bound is not None:
        raise Usage("--limit-rows is for rows that are printed", hint="write LIMIT into the statement")
    if output.exists():
        raise AlreadyExists(f"there is a file at {output}", hint="choose another name, or delete the file")
    with call.reading() as graph, call.screen.busy(f"writing {output}"):
        snapshot = graph.snapshot(branch, at=at)
        found = snapshot.sql(text)
        count = write_rows(found.to_batches(), output)
    target = Target(snapshot.branch, snapshot.commit_id)
    result = QueryResult(None, target, count, False, tuple(found.columns), ())
    return Answer(result, lambda screen: screen.note(f"{count_text(count, 'row')} → {output}"))


def _select(snapshot: Snapshot, text: str, bound: int | None) -> tuple[list[str], list[tuple[Any, ...]], bool]:
    # One operation from the statement to its last row: what its scans read is counted there.
    with operating("query", snapshot.uri):
        found = snapshot.sql(text)
        rows = found.fetchall() if bound is None else found.fetchmany(bound + 1)
    truncated = bound is not None and len(rows) > bound
    return found.columns, rows[:bound], truncated


# --- printing -----------------------------------------------------------------------------------------------------------


def _show(screen: Screen, format_: Format, result: dict[str, Any], rows: list[tuple[Any, ...]]) -> None:
    columns: list[str] = result["columns"]
    match format_:
        case Format.json:
            screen.document(result)
        case Format.jsonl:
            head = {name: result[name] for name in ("query_name", "target", "row_count", "truncated", "columns")}
            for value in (head, *result["rows"]):
                screen.raw(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
        case Format.csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([as_text(value) for value in row] for row in rows)
        case Format.kv:
            for number, row in enumerate(rows):
                if number:
                    screen.line()
                screen.pairs(list(zip(columns, map(_cell, row), strict=True)))
        case Format.table:
            screen.table(columns, [[_cell(value) for value in row] for row in rows])
    if result["truncated"]:
        screen.warn(f"only the first {result['row_count']:,} rows are shown; --limit-rows N shows more")


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else as_text(value)
