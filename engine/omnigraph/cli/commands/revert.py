"""``omnigraph revert``: take a commit back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.options import DEADLINE_S, ChangedBranch, Deadline, ExpectHead, Key
from omnigraph.cli.render import Screen
from omnigraph.wire.receipt import Receipt
from omnigraph.wire.undo import Undone, UndoPlan

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]


def run(
    call: Call,
    whole_group: Annotated[
        bool, typer.Option("--whole-group", help="With all commits of its swap, which share its tables.")
    ] = False,
    dry_run: DryRun = False,
    branch: ChangedBranch = "main",
    key: Key = None,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
) -> Answer:
    """Take back what one commit did, as a new commit.

    What came after it stays. Where rows were changed since, they are named and nothing is done.
    """
    if dry_run:
        with call.reading() as graph:
            plan = graph.revert(call.subject, branch, whole_group=whole_group, dry_run=True, expect_head=expect_head)
        return Answer(plan, lambda screen: show_plan(screen, plan))
    with call.writing() as graph, call.screen.busy("reverting"):
        receipt = graph.revert(
            call.subject,
            branch,
            whole_group=whole_group,
            idempotency_key=key,
            expect_head=expect_head,
            deadline_s=deadline,
        )
        done = Undone.extending(receipt, uri=graph.uri)
    return Answer(done, lambda screen: show_receipt(screen, done))


def show_plan(screen: Screen, plan: UndoPlan) -> None:
    for commit in plan.commits or ():
        screen.line(f"takes back {commit}")
    _tables(screen, plan.to_dict()["tables"], plan.warnings)
    screen.note("nothing was done; repeat without --dry-run to do it")


def show_receipt(screen: Screen, receipt: Receipt) -> None:
    _tables(screen, receipt.to_dict()["tables"], receipt.warnings)
    again = " (replayed: this key was used before)" if receipt.replayed else ""
    screen.line("nothing changed: no commit" if receipt.commit_id is None else f"commit {receipt.commit_id}{again}")


def _tables(screen: Screen, tables: Mapping[str, Mapping[str, Any]], warnings: tuple[str, ...]) -> None:
    names = ("version", "inserted", "updated", "deleted")
    if tables:
        screen.table(("table", *names), [(key, *(table[name] for name in names)) for key, table in tables.items()])
    for warning in warnings:
        screen.warn(f"warning: {warning}")
