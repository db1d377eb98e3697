"""``omnigraph recover``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen, count_text


def run(
    call: Call,
    grace: Annotated[
        float | None,
        typer.Option(
            "--grace", metavar="SECONDS", help="Watch a writer that may be alive for so long; 0: do not wait."
        ),
    ] = None,
) -> Answer:
    """End interrupted writes: publish what is complete, undo the rest.

    A write whose owner may be alive is watched for a while; if nothing changes, it counts as left behind. Versions that
    belong to no write are put back. Running it again, or twice at once, does no harm.
    """
    with call.repairing() as graph, call.screen.busy("recovering"):
        result: dict[str, Any] = {"uri": graph.uri, **graph.recover(grace_s=grace).to_dict()}
    return Answer(result, lambda screen: _show(screen, result))


def _show(screen: Screen, result: dict[str, Any]) -> None:
    rows = [
        (one["operation_id"], one["decision"], one["commit_id"], one["actor"], ", ".join(one["tables"]))
        for one in result["recovered"]
    ]
    rows += [(operation, "left to its owner", None, None, "") for operation in result["left"]]
    rows += [(None, "put back", None, None, drift["key"]) for drift in result["healed"]]
    rows += [(None, f"drift: {drift['state']}", None, None, drift["key"]) for drift in result["drifting"]]
    if rows:
        screen.table(("operation", "what was done", "commit", "actor", "tables"), rows)
    ended = count_text(len(result["recovered"]), "write")
    if result["clean"]:
        screen.line(f"{ended} ended; nothing is pending" if rows else "nothing is pending", style="green")
    else:
        screen.line(f"{ended} ended; not everything could be: see above", style="yellow")
