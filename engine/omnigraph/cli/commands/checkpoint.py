"""``omnigraph checkpoint create | list | delete``: commits pinned by name against cleanup."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen


def run_create(
    call: Call,
    at: Annotated[str | None, typer.Option("--at", metavar="COMMIT", help="The commit to pin; else the head.")] = None,
) -> Answer:
    """Pin a commit: no cleanup takes it until the checkpoint is deleted."""
    with call.writing() as graph:
        made = graph.checkpoints.create(call.subject, at).to_dict()
    return Answer(made, lambda screen: screen.line(f"{made['name']} pins {made['commit_id']}"))


def run_list(call: Call) -> Answer:
    """List checkpoints by name."""
    with call.reading() as graph:
        found: dict[str, Any] = graph.checkpoints.list().to_dict()
    return Answer(found, lambda screen: _show(screen, found["checkpoints"]))


def run_delete(call: Call) -> Answer:
    """Let a cleanup have the commit again."""
    with call.writing() as graph:
        graph.checkpoints.delete(call.subject)
    result = {"name": call.subject, "deleted": True}
    return Answer(result, lambda screen: screen.line(f"{call.subject} is deleted"))


def _show(screen: Screen, checkpoints: list[dict[str, Any]]) -> None:
    if not checkpoints:
        screen.line("no checkpoints")
        return
    screen.table(
        ("name", "commit", "branch", "actor"),
        [[one[name] for name in ("name", "commit_id", "branch", "actor")] for one in checkpoints],
    )
