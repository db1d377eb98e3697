"""``omnigraph diff``: what changed from one state of a graph to another."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.render import Screen
from omnigraph.cli.values import as_json_value, as_text
from omnigraph.wire.diff import DiffReport

if TYPE_CHECKING:
    from omnigraph.read.diff import Diff, DiffRow

# What a person can look at, and what one document should hold; --jsonl prints all.
_SHOWN_ROWS = 1_000
_SHOWN_CHARS = 60
_SIGNS = {"insert": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}


def run(
    call: Call,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="This type only; may be repeated.")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Count the rows, by type.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print every row as a line of JSON.")] = False,
) -> Answer:
    """Show what changed from one commit, checkpoint or branch to another.

    Rows with both values, and the schema. B is main unless given. Screens and --json show the first 1,000 rows; --jsonl
    prints all, as they are read.
    """
    if jsonl and (stat or call.as_json):
        raise Usage(f"--jsonl and {'--stat' if stat else '--json'} exclude each other", hint="give one of them")
    a, b = (*call.subjects, "main")[:2]
    with call.reading() as graph:
        found = graph.diff(a, b, types=types or None, stat=stat)
        if jsonl:
            for row in found:
                call.screen.raw(json.dumps(_as_json(row), ensure_ascii=False, allow_nan=False) + "\n")
            return Answer(DiffReport(found.a, found.b, {}), lambda screen: None)
        if call.as_json:
            return Answer(_document(found, stat=stat), lambda screen: None)
        if stat:
            report = found.report()
            return Answer(report, lambda screen: _show_stat(screen, report))
        _show_rows(call.screen, found)
    return Answer(DiffReport(found.a, found.b, {}), lambda screen: None)


def _document(found: Diff, *, stat: bool) -> DiffReport:
    report = found.report()
    if stat:
        return report
    rows = [_as_json(row) for row in islice(found, _SHOWN_ROWS + 1)]
    return replace(report, rows=tuple(rows[:_SHOWN_ROWS]), truncated=len(rows) > _SHOWN_ROWS)


def _as_json(row: DiffRow) -> dict[str, Any]:
    return {name: as_json_value(value) for name, value in row._asdict().items()}


# --- on a screen --------------------------------------------------------------------------------------------------------


def _show_stat(screen: Screen, report: DiffReport) -> None:
    _show_head(screen, report)
    rows = [(name, one.inserted, one.updated, one.deleted, one.reason) for name, one in report.types.items()]
    if rows:
        screen.table(("type", "inserted", "updated", "deleted", "reason"), rows)
    else:
        screen.line("no row differs")


def _show_rows(screen: Screen, found: Diff) -> None:
    _show_head(screen, DiffReport(found.a, found.b, {}, tuple(step.report() for step in found.schema)))
    counts: dict[str, Counter[str]] = {}
    for number, row in enumerate(found):
        counts.setdefault(row.type, Counter())[row.kind] += 1
        if number < _SHOWN_ROWS:
            sign, colour = _SIGNS[row.kind]
            screen.line(f"{sign} {row.type} {row.key}{_values(row)}", style=colour)
    total = sum(one.total() for one in counts.values())
    if total > _SHOWN_ROWS:
        screen.warn(f"only the first {_SHOWN_ROWS:,} of {total:,} rows are shown; --jsonl prints all")
    said = [f"{name} {' '.join(f'{_SIGNS[kind][0]}{n:,}' for kind, n in one.items())}" for name, one in counts.items()]
    screen.line(", ".join(said) or "no row differs", style="bold")


def _show_head(screen: Screen, report: DiffReport) -> None:
    ends = (f"{side.branch} at {side.commit_id}" for side in (report.a, report.b))
    screen.line(" → ".join(ends), style="bold")
    for step in report.schema:
        subject = step.type if step.property is None else f"{step.type}.{step.property}"
        screen.line(f"schema: {step.kind.replace('_', ' ')} {subject}", style="cyan")


def _values(row: DiffRow) -> str:
    """What an insert has, and what of an update is different."""
    if row.row is None:
        return ""
    if row.before is None:
        given = (f"{name}: {_text(value)}" for name, value in row.row.items() if name != "id" and value is not None)
        return "  " + ", ".join(given)
    before = row.before
    # What a property was that was renamed or added since is not told under this name.
    pairs = ((name, f"{_text(before[name])} → " if name in before else "", row.row[name]) for name in row.changed)
    return "  " + ", ".join(f"{name}: {old}{_text(new)}" for name, old, new in pairs)


def _text(value: Any) -> str:
    text = "null" if value is None else as_text(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
