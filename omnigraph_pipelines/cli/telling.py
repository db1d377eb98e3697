"""What the commands share: the argument for the graph file, and how results and errors are printed."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import omnigraph as og

SCHEMA_VERSION: Final = 1

File = Annotated[
    Path | None,
    typer.Argument(help="The graph file. Left out: OMNIGRAPH_GRAPH_FILE, else graph.yaml here.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def answer(result: Mapping[str, Any], show: Callable[[], None], *, as_json: bool) -> None:
    if as_json:
        out(json.dumps({"schema_version": SCHEMA_VERSION, "ok": True, "result": result}, indent=2))
    else:
        show()


def failed(error: og.errors.OmnigraphError, *, as_json: bool) -> int:
    if as_json:
        out(
            json.dumps({"schema_version": SCHEMA_VERSION, "ok": False, "error": error.to_dict()}, indent=2, default=str)
        )
    problems = error.facts.get("problems") or [{"message": error.message}]
    for one in problems:
        say(f"error[{one.get('code') or error.code}]: {one['message']}")
    say(f"hint: {error.hint}")
    return int(error.exit_code)


def out(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
