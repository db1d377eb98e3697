"""``omnigraph export``: a snapshot as records, on standard output or into a file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.commands.snapshot import At, Branch
from omnigraph.cli.render import count_text
from omnigraph.core.errors import AlreadyExists, InvalidInput


def run(
    call: Call,
    branch: Branch = "main",
    at: At = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="This type only; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file; default: standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if it is there.")] = False,
) -> Answer:
    """Write a snapshot as records that load takes.

    One JSON object a line, in an order that depends on the content only. With --json and no --output the records are
    part of the document.
    """
    with call.reading() as graph:
        snapshot = graph.snapshot(branch, at=at)
        result: dict[str, Any] = {"uri": graph.uri, "branch": snapshot.branch, "commit_id": snapshot.commit_id}
        chosen = list(types) if types else None
        if output is not None:
            with _new_file(output, force) as file, call.screen.busy(f"exporting to {output}"):
                snapshot.export(file, types=chosen)
            with output.open("rb") as written:
                result |= {"path": str(output), "records": sum(1 for _ in written)}
            return Answer(result, lambda screen: screen.note(f"{count_text(result['records'], 'record')} → {output}"))
        if not call.as_json:
            sys.stdout.flush()
            snapshot.export(sys.stdout.buffer, types=chosen)
            return Answer(result, lambda screen: None)
        with tempfile.TemporaryFile() as spool:
            snapshot.export(spool, types=chosen)
            spool.seek(0)
            data = [json.loads(line) for line in spool]
    return Answer({**result, "records": len(data), "data": data}, lambda screen: None)


@contextmanager
def _new_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    """Written beside its place and put there complete: what is at ``path`` is never half an export."""
    if path.exists() and not force:
        raise AlreadyExists(f"there is a file at {path}", hint="choose another name, or repeat with --force")
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            with beside.open("xb") as file:
                yield file
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {path}: {error.strerror or error}", hint="check the path") from error
