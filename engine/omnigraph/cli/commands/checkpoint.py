"""``omnigraph checkpoint create | list | delete``: commits pinned by name against cleanup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import Branch, ExpectHead
from omnigraph.cli.render import Screen
from omnigraph.wire.cleanup import Checkpoint, CheckpointDeleted, CheckpointNames


def run_create(
    call: Call,
    at: Annotated[
        str | None, typer.Option("--at", metavar="PLACE", help="The commit or time to pin; else the head.")
    ] = None,
    branch: Branch = "main",
    expect_head: ExpectHead = None,
) -> Answer:
    """Pin a commit: no cleanup takes it until the checkpoint is deleted."""
    with call.writing() as graph:
        made = graph.checkpoints.create(call.subject, at, branch=branch, expect_head=expect_head)
    return Answer(made, lambda screen: screen.line(f"{made.name} pins {made.commit_id}"))


def run_list(call: Call) -> Answer:
    """List checkpoints by name."""
    with call.reading() as graph:
        found = graph.checkpoints.list()
    return Answer(CheckpointNames(tuple(found)), lambda screen: _show(screen, found))


def run_delete(call: Call) -> Answer:
    """Let a cleanup have the commit again."""
    with call.writing() as graph:
        graph.checkpoints.delete(call.subject)
    return Answer(CheckpointDeleted(call.subject), lambda screen: screen.line(f"{call.subject} is deleted"))


def _show(screen: Screen, checkpoints: Sequence[Checkpoint]) -> None:
    if not checkpoints:
        screen.line("no checkpoints")
        return
    screen.table(
        ("name", "commit", "branch", "actor"),
        [(one.name, one.commit_id, one.branch, one.actor) for one in checkpoints],
    )
