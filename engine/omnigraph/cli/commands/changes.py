"""``omnigraph changes``: the change feed of a branch, one JSON line a change."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import Branch
from omnigraph.core.clock import SYSTEM_CLOCK
from omnigraph.wire.changes import Change, ChangeList

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.read.changes import ChangeFeed

POLL_S = 1.0


def run(
    call: Call,
    since: Annotated[
        str,
        typer.Option("--since", metavar="PLACE", help="The last commit that you have; the branch itself: from now on."),
    ],
    until: Annotated[
        str | None, typer.Option("--until", metavar="PLACE", help="The last commit to tell; default: the newest.")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="This type only; may be repeated.")
    ] = None,
    before: Annotated[bool, typer.Option("--before", help="With each row as it was.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is committed, until Ctrl-C.")] = False,
    branch: Branch = "main",
) -> Answer:
    """Print what commits did, one JSON line a change.

    The commit_id of the last line, once all lines are there, is the cursor to go on from; it is said at the end, too. Upkeep is
    not reported.
    """
    if follow and (until is not None or call.as_json):
        raise Usage("--follow has no end", hint="leave --until and --json out; every line is JSON by itself")
    chosen = list(types) if types else None
    with call.reading() as graph:
        feed = graph.changes(since, until, chosen, branch, before)
        if call.as_json:
            told = tuple(feed)
            found = ChangeList(branch, feed.since, feed.until, feed.cursor, told)
            return Answer(found, lambda screen: None)
        try:
            _print(feed)
            while follow:
                SYSTEM_CLOCK.sleep(POLL_S)
                feed = _next(graph, feed, chosen, branch, before)
                _print(feed)
        except KeyboardInterrupt:
            if not follow:
                raise
        sys.stdout.flush()
        call.screen.note(f"cursor {feed.cursor}")
    return Answer(ChangeList(branch, feed.since, feed.until, feed.cursor, ()), lambda screen: None)


def _next(graph: Graph, feed: ChangeFeed, types: list[str] | None, branch: str, before: bool) -> ChangeFeed:
    return graph.changes(feed.cursor, None, types, branch, before)


def _print(feed: Iterable[Change]) -> None:
    for change in feed:
        sys.stdout.write(json.dumps(change.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()
