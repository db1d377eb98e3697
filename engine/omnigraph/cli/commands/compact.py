"""``omnigraph compact``."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen
from omnigraph.wire.optimize import Compacted


def run(
    call: Call,
    fragments_max: Annotated[
        int | None, typer.Option("--fragments-max", metavar="N", help="Do nothing while there are not more.")
    ] = None,
) -> Answer:
    """Merge the archive of the history into fewer files. Adds no commit."""
    with call.writing() as graph, call.screen.busy("compacting"):
        done = Compacted.extending(graph.compact_manifest(fragments_max), uri=graph.uri)
    return Answer(done, lambda screen: _show(screen, done))


def _show(screen: Screen, done: Compacted) -> None:
    if done.changed:
        screen.line(f"{done.fragments_before} archive fragments to {done.fragments}")
    else:
        screen.line(f"{done.fragments} archive fragments: nothing to do")
