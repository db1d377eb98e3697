"""``omnigraph compact``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen


def run(
    call: Call,
    fragments_max: Annotated[
        int | None, typer.Option("--fragments-max", metavar="N", help="Do nothing while there are not more.")
    ] = None,
) -> Answer:
    """Merge the archive of the history into fewer files. Adds no commit."""
    with call.writing() as graph, call.screen.busy("compacting"):
        result: dict[str, Any] = {"uri": graph.uri, **graph.compact_manifest(fragments_max).to_dict()}
    return Answer(result, lambda screen: _show(screen, result))


def _show(screen: Screen, result: dict[str, Any]) -> None:
    if result["changed"]:
        screen.line(f"{result['fragments_before']} archive fragments to {result['fragments']}")
    else:
        screen.line(f"{result['fragments']} archive fragments: nothing to do")
