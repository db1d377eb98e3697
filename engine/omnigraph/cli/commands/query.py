"""``omnigraph query``: SQL over the views of one snapshot. Reads only; reaches neither files nor the network."""

from __future__ import annotations

import csv
import json
import re
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import At, Branch
from omnigraph.cli.render import Screen
from omnigraph.cli.values import as_json_value, as_text
from omnigraph.core.errors import OmnigraphError, QueryInvalid, StoreUnavailable
from omnigraph.core.operation import operating
from omnigraph.wire.data import QueryResult, Target

# What a person can look at; programs ask for csv, jsonl or json and get everything.
_SHOWN_ROWS = 1_000
_SCAN_FAILED = re.compile(r"reading the stream registered as '([^']+)' failed")
_READS = frozenset({"SELECT", "EXPLAIN"})


class Format(StrEnum):
    table = "table"
    kv = "kv"
    csv = "csv"
    jsonl = "jsonl"
    json = "json"


def run(
    call: Call,
    sql: Annotated[
        str, typer.Option("--sql", metavar="TEXT", help="One select statement; - reads it from standard input.")
    ],
    branch: Branch = "main",
    at: At = None,
    format_: Annotated[Format, typer.Option("--format", help="How rows are printed.")] = Format.table,
    limit_rows: Annotated[
        int | None, typer.Option("--limit-rows", min=1, metavar="N", help="Print so many rows at most.")
    ] = None,
) -> Answer:
    """Run SQL over a snapshot: one view a type, read-only.

    A view has the properties of its type, id, and for edges src and dst. Formats table and kv show the first 1,000 rows
    unless --limit-rows says otherwise; the others show all.
    """
    text = sys.stdin.read() if sql == "-" else sql
    if not _is_text(text):
        raise QueryInvalid("the statement is not UTF-8", hint="give the statement as UTF-8")
    if not text.strip():
        raise Usage("the statement is empty", hint="for example --sql 'select count(*) from Person'")
    as_document = call.as_json or format_ is Format.json
    bound = limit_rows
    if bound is None and not as_document and format_ in (Format.table, Format.kv):
        bound = _SHOWN_ROWS
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        with operating("query", graph.uri):
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


def _is_text(text: str) -> bool:
    """Not so for bytes of an argument that were no UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _select(snapshot: Any, text: str, bound: int | None) -> tuple[list[str], list[tuple[Any, ...]], bool]:
    import duckdb

    connection = snapshot.duckdb()
    try:
        statements = connection.extract_statements(text)
        kinds = [statement.type.name for statement in statements]
        if len(kinds) != 1 or kinds[0] not in _READS:
            raise QueryInvalid(
                f"one select statement is wanted, got: {', '.join(kinds).lower() or 'none'}",
                hint="write one select; a graph is changed with `omnigraph load`",
            )
        # The views are at hand already; from here on a statement can reach nothing else.
        connection.execute("set enable_external_access=false")
        connection.execute("set lock_configuration=true")
        connection.execute(statements[0])
        columns = _distinct([column[0] for column in connection.description])
        rows = connection.fetchall() if bound is None else connection.fetchmany(bound + 1)
        truncated = bound is not None and len(rows) > bound
        return columns, rows[:bound], truncated
    except OmnigraphError:
        raise
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise StoreUnavailable(f"the query could not be run: {_first_line(error)}") from error
    except duckdb.Error as error:
        _raise_what_a_scan_raised(snapshot, str(error))
        raise QueryInvalid(
            f"the query does not run: {_first_line(error)}",
            hint="correct the SQL; `omnigraph snapshot` lists the types, each of which is a view",
        ) from error
    finally:
        connection.close()


def _raise_what_a_scan_raised(snapshot: Any, message: str) -> None:
    """If reading a type failed, the error that reading it gives: DuckDB passes on the text of one, not the error."""
    found = _SCAN_FAILED.search(message)
    if found is None:
        return
    for _ in snapshot.to_batches(found[1]):
        pass
    raise StoreUnavailable(f"{found[1]} could not be read to the end; reading it again succeeded")


def _first_line(error: Exception) -> str:
    return " ".join(str(error).partition("\n\n")[0].split())


def _distinct(names: list[str]) -> list[str]:
    """Column names as they are, numbered where one occurs again: rows are objects."""
    found: list[str] = []
    for name in names:
        candidate, n = name, 1
        while candidate in found:
            n += 1
            candidate = f"{name}_{n}"
        found.append(candidate)
    return found


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
