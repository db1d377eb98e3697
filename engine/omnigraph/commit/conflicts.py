"""Refusals as errors that a person can act on: both commits, both actors, and what overlapped. Pure."""

from __future__ import annotations

from typing import Any

from omnigraph.commit.decide import Check, PublishCheck, moved_writes
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.publish import NotPublished
from omnigraph.core.errors import (
    Conflict,
    IdempotencyMismatch,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    ReadSetChanged,
    WriterFenced,
)
from omnigraph.manifest.rows import CommitRow, Head
from omnigraph.manifest.swap import Held


def key_row(check: PublishCheck) -> CommitRow:
    if not check.rows:
        raise AssertionError("a taken key names the commit that took it")
    return check.rows[0]


def fenced(head: Head) -> WriterFenced:
    return WriterFenced(
        f"the graph is used exclusively by {head.owner}",
        hint="wait until that handle is closed; `omnigraph recover` clears an owner whose process is gone, and "
        "open(exclusive=True) takes over",
        owner=head.owner,
        epoch=head.epoch,
    )


def mismatch(row: CommitRow, key: str | None) -> IdempotencyMismatch:
    """The key belongs to another request, or to another input."""
    return IdempotencyMismatch(
        f"the idempotency key {key!r} was used by commit {row.commit_id}, for another request or another input",
        hint=f"use a new key for a new request; `omnigraph commit show {row.commit_id}` shows the first one",
        idempotency_key=key,
        commit_id=row.commit_id,
    )


def after_refusal(plan: PublishPlan, refusal: NotPublished | None, held: Held) -> OmnigraphError:
    """Why the plan was given up, for a caller whose time or patience is over."""
    check = refusal.check if refusal is not None else None
    if check is None:
        moved = moved_writes(held.state, plan)
        if moved:
            return _moved(plan, moved[0].table_key, moved[0].expected, moved[0].actual, held)
        return Conflict(
            f"the write {plan.head} lost to other writers of {', '.join(sorted(plan.keys))} every time",
            hint="repeat the call, with a larger deadline_s if many processes write the same tables",
            commit_id=plan.head,
        )
    if check.check is Check.HEAD_MOVED:
        return PreconditionFailed(
            f"the head of {plan.branch.name} is {held.state.head.commit_id}, not {plan.requests[0].expect_head}",
            expected=plan.requests[0].expect_head,
            actual=held.state.head.commit_id,
        )
    if check.check is Check.FENCED:
        return fenced(held.state.head)
    if check.check in (Check.BRANCH_GONE, Check.CLOSED):
        return NotFound(f"branch {plan.branch.name!r} was deleted while it was written", branch=plan.branch.name)
    if check.moved:
        first = check.moved[0]
        return _moved(plan, first.table_key, first.expected, first.actual, held)
    return Conflict(f"the graph changed under the write {plan.head}: {check.check.value}", commit_id=plan.head)


def _moved(plan: PublishPlan, key: str, expected: int, actual: int, held: Held) -> ReadSetChanged:
    facts: dict[str, Any] = {"commit_id": plan.head, "actor": plan.actor}
    who = ""
    for row in reversed(held.state.tail):
        if isinstance(row, CommitRow) and key in row.tables:
            facts.update(other_commit_id=row.commit_id, other_actor=row.actor)
            who = f" by commit {row.commit_id}" + (f" of {row.actor}" if row.actor else "")
            break
    verb = "writes" if plan.chain(key) is not None else "was checked against"
    return ReadSetChanged(
        f"table {key}, which this change {verb}, has moved from version {expected} to {actual}{who}",
        table_key=key,
        expected=expected,
        actual=actual,
        **facts,
    )
