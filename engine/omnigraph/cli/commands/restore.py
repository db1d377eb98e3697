"""``omnigraph restore``: make a branch what it was."""

from __future__ import annotations

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.commands.revert import DryRun, show_plan, show_receipt
from omnigraph.cli.options import DEADLINE_S, ChangedBranch, Deadline, ExpectHead, Key
from omnigraph.wire.undo import Undone


def run(
    call: Call,
    dry_run: DryRun = False,
    branch: ChangedBranch = "main",
    key: Key = None,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
) -> Answer:
    """Make the rows of a branch what they were, as a new commit.

    No commit is taken out of the history.
    """
    if dry_run:
        with call.reading() as graph:
            plan = graph.restore(call.subject, branch, dry_run=True, expect_head=expect_head)
        return Answer(plan, lambda screen: show_plan(screen, plan))
    with call.writing() as graph, call.screen.busy("restoring"):
        receipt = graph.restore(call.subject, branch, idempotency_key=key, expect_head=expect_head, deadline_s=deadline)
        done = Undone.extending(receipt, uri=graph.uri)
    return Answer(done, lambda screen: show_receipt(screen, done))
