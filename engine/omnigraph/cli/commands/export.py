"""``omnigraph export``: a snapshot as records, on standard output or into a file, or as a folder of Parquet files."""

from __future__ import annotations

import json
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import At, Branch, Types
from omnigraph.cli.render import count_text
from omnigraph.core.errors import AlreadyExists
from omnigraph.wire.data import ExportedRecords


class Format(StrEnum):
    ndjson = "ndjson"
    jsonl = "jsonl"  # the same
    parquet = "parquet"


def run(
    call: Call,
    branch: Branch = "main",
    at: At = None,
    types: Types = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="The first N records only: edges come first.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A new file, also .gz; default: standard output. With --format parquet: a new or empty folder.",
        ),
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="Records, one a line; or one Parquet file a type.")
    ] = Format.ndjson,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if it is there.")] = False,
) -> Answer:
    """Write a snapshot as records or Parquet files that load takes.

    Records are one JSON object a line, in an order that depends on the content only. With --json and no --output the
    records are part of the document.
    """
    if format_ is Format.parquet:
        return _parquet(call, branch, at, types, output, force, limit)
    if output is not None and output.exists() and not force:
        raise AlreadyExists(f"there is a file at {output}", hint="choose another name, or repeat with --force")
    chosen = list(types) if types else None
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        of = {"uri": graph.uri, "branch": snapshot.branch, "commit_id": snapshot.commit_id}
        if output is not None:
            with call.screen.busy(f"exporting to {output}"):
                report = snapshot.export(output, types=chosen, limit=limit)
            said = f"{count_text(report.total, 'record')} → {output}"
            return Answer(ExportedRecords.extending(report, **of), lambda screen: screen.note(said))
        if not call.as_json:
            with call.screen.bytes_out() as stream:
                report = snapshot.export(stream, types=chosen, limit=limit)
            return Answer(ExportedRecords.extending(report, **of), lambda screen: None)
        with tempfile.TemporaryFile() as spool:
            report = snapshot.export(spool, types=chosen, limit=limit)
            spool.seek(0)
            records = [json.loads(line) for line in spool]
    return Answer(ExportedRecords.extending(report, **of, records=tuple(records)), lambda screen: None)


def _parquet(
    call: Call,
    branch: str,
    at: str | None,
    types: list[str] | None,
    output: Path | None,
    force: bool,
    limit: int | None,
) -> Answer:
    if output is None:
        raise Usage("--format parquet needs a folder", hint="add --output FOLDER; it has one file a type")
    if force:
        raise Usage("--force replaces a file; --format parquet writes a folder", hint="give a new or empty folder")
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        with call.screen.busy(f"exporting to {output}"):
            report = snapshot.export(output, types=list(types) if types else None, format="parquet", limit=limit)
        of = {"uri": graph.uri, "branch": snapshot.branch, "commit_id": snapshot.commit_id}
    said = f"{count_text(report.total, 'row')} of {count_text(len(report.rows), 'type')} → {output}"
    return Answer(ExportedRecords.extending(report, **of), lambda screen: screen.note(said))
