"""Intents whose owners are gone, as many as a test or a bench wants, without a process for each."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import encode_plan
from omnigraph.core import failpoints
from omnigraph.core.errors import OutcomeUnknown
from omnigraph.core.ids import new_ulid
from omnigraph.testing.operations import append, keys_of


def leave_dead(engine: Engine, number: int) -> list[str]:
    """Interrupt one write before its first table commit and repeat its intent under other ids. Return the ids."""
    with failpoints.armed("apply.before_commit", "raise"), contextlib.suppress(OutcomeUnknown):
        append(engine, keys_of(1), ["a"], actor="ada")
    [(op, _)] = engine.intents.names()
    intent = engine.intents.read(op)
    if intent is None or intent.plan is None:
        raise AssertionError("the write was interrupted before it left its plan")
    ops = [op]
    for _ in range(number - 1):
        ops.append(new_ulid())
        [request] = intent.plan.requests
        again = replace(request, id=new_ulid())
        plan = replace(intent.plan, op=ops[-1], id=again.id, requests=(again,))
        engine.intents.arm(ops[-1], encode_plan(plan))
    return ops
