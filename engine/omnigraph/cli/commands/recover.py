"""``omnigraph recover``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.options import Branches
from omnigraph.cli.render import Screen, count_text
from omnigraph.wire.recovery import Recovered, Recoveries


def run(
    call: Call,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace", metavar="SECONDS", help="Watch a writer that may be alive for so long; 0: do not wait."
        ),
    ] = None,
    branches: Branches = None,
    history: Annotated[
        bool, typer.Option("--history", help="List what was recovered before, newest first; changes nothing.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="With --history: the newest N only.")
    ] = None,
) -> Answer:
    """End interrupted writes: publish what is complete, undo the rest.

    A write whose owner may be alive is watched for a while; if nothing changes, it counts as left behind. Versions that
    belong to no write are put back. Running it again, or twice at once, does no harm.
    """
    if history:
        if grace is not None:
            raise Usage("--grace does not go with --history", hint="--history only lists; leave --grace out")
        return _history(call, limit)
    if limit is not None:
        raise Usage("--limit goes with --history", hint="add --history, or leave --limit out")
    with call.repairing() as graph, call.screen.busy("recovering"):
        done = Recovered.extending(graph.recover(grace_s=grace, branches=branches), uri=graph.uri)
    return Answer(done, lambda screen: _show(screen, done.to_dict()))


def _history(call: Call, limit: int | None) -> Answer:
    with call.reading() as graph:
        history = graph.recoveries(limit)
        found = Recoveries(graph.uri, tuple(history), history.unreadable)
    return Answer(found, lambda screen: _show_history(screen, found.to_dict()))


def _show_history(screen: Screen, result: dict[str, Any]) -> None:
    rows = [
        (
            one["recovered_at"],
            one["op"],
            one["how"],
            ", ".join(one["commit_ids"]),
            one["original_actor"],
            one["recovered_by"],
        )
        for one in result["recoveries"]
    ]
    rows += [(None, one["place"], f"cannot be read: {one['reason']}", "", None, None) for one in result["unreadable"]]
    if rows:
        screen.table(("when", "operation", "how", "commits", "actor", "recovered by"), rows)
    else:
        screen.line("nothing was recovered")


def _show(screen: Screen, result: dict[str, Any]) -> None:
    rows = [
        (one["operation_id"], one["decision"], one["commit_id"], one["actor"], ", ".join(one["tables"]))
        for one in result["recovered"]
    ]
    rows += [(operation, "left to its owner", None, None, "") for operation in result["left"]]
    rows += [(None, "put back", None, None, drift["key"]) for drift in result["healed"]]
    rows += [(None, f"drift: {drift['state']}", None, None, drift["key"]) for drift in result["drifting"]]
    rows += [(None, why, None, None, "") for why in result["unresolved"]]
    if rows:
        screen.table(("operation", "what was done", "commit", "actor", "tables"), rows)
    ended = count_text(len(result["recovered"]), "write")
    if result["clean"]:
        screen.line(f"{ended} ended; nothing is pending" if rows else "nothing is pending", style="green")
    else:
        screen.line(f"{ended} ended; not everything could be: see above", style="yellow")
