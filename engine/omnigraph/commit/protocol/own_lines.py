"""Give a branch lines of its own for tables that it inherits, before anything is staged on them.

A write of a few rows forks a table in its own plan: intent, fork, files, commit. What stages before its intent is armed (a large
load, a stream, bytes written by others, columns filled for a change of the schema) needs the line first: files lie in the folder
of a line, and a fork has another one. So the forks are made by a plan of their own and published by a swap without a commit.

The intent names the forks before they are made. A plan that dies in between leaves forks that nothing names, or owned lines
without a write; the first are garbage, the second harmless.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from omnigraph.commit.advance import PUBLISH, Answer, Answered, Spots, Swap, Swapped, Terms, advance
from omnigraph.commit.builder import Minting, Planned, Work, build_plan
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import End, forks_published, moved_writes
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.intent import encode_plan
from omnigraph.commit.pins import landed_pins
from omnigraph.commit.plan import MAINTENANCE
from omnigraph.commit.properties import OP, PLAN
from omnigraph.commit.protocol.apply import Landing, Sending, apply
from omnigraph.commit.protocol.compensate import WasPublished, end_by_abort
from omnigraph.commit.protocol.give_way import time_to_end
from omnigraph.commit.protocol.publish import ended
from omnigraph.commit.queue import local_operations
from omnigraph.commit.steps import ForkTable, StagedFiles
from omnigraph.core import failpoints
from omnigraph.core.errors import NotFound, OmnigraphError, OutcomeUnknown, StoreUnavailable
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held


def inherited(state: State, keys: Collection[str]) -> frozenset[str]:
    """Those of these tables whose lines belong to another branch."""
    pins = (state.tables.get(key) for key in keys)
    return frozenset(pin.key for pin in pins if pin is not None and pin.owner != state.identity)


def own_lines(engine: Engine, branch: Branch, keys: Collection[str], deadline: Deadline, meter: Meter) -> Held:
    """Fork those of these tables that the branch inherits, and publish the forks. Return the state that has them all.

    A table that another writer forks meanwhile stays on that writer's line."""
    engine.limits.check("tables_per_commit", len(keys))
    line = engine.line_of(branch, meter)
    last: OmnigraphError | None = None
    while True:
        held = engine.latest(line, meter)
        if held.state.head.closed is not None:
            name = branch if isinstance(branch, str) else branch.name
            raise engine.gone(name, held.state.ref or "", meter)
        todo = inherited(held.state, keys)
        if not todo:
            return held
        deadline.check("making lines for inherited tables", last)
        last = _attempt(engine, held, todo, deadline, meter)


def _attempt(
    engine: Engine, held: Held, keys: frozenset[str], deadline: Deadline, meter: Meter
) -> OmnigraphError | None:
    """One plan, from its intent to its end. Return why it was not published, for a caller whose time is over."""
    op = new_ulid(engine.clock)
    planned = _plan(engine, held.state, keys, op)
    local_operations.begin(op)
    try:
        failpoints.hit("own_lines.before_arm", op=op)
        try:
            engine.intents.arm(op, encode_plan(planned.plan), meter)
        except OmnigraphError:
            engine.intents.disarm(op, meter)
            raise
        failpoints.hit("own_lines.armed", op=op)
        failure = _apply_and_publish(engine, planned, held, deadline, meter)
        engine.intents.disarm(op, meter)
        failpoints.hit("own_lines.disarmed", op=op)
        return failure
    finally:
        # Where the end of the plan is not known its intent stays, and recovery ends it.
        local_operations.end(op)


def _plan(engine: Engine, state: State, keys: frozenset[str], op: str) -> Planned:
    return build_plan(
        state,
        Work(tuple(ForkTable(key, ()) for key in sorted(keys))),
        op=op,
        graph=engine.graph_id,
        branch=state.head.name,
        kind=MAINTENANCE,
        requests=(),
        owner=engine.owner,
        mint=Minting(lambda: new_ulid(engine.clock), new_uuid),
    )


def _apply_and_publish(
    engine: Engine, planned: Planned, held: Held, deadline: Deadline, meter: Meter
) -> OmnigraphError | None:
    results = apply(Sending(engine, planned, StagedFiles(), meter), {}, {}, serial=False)
    if all(result.landing is Landing.EXACT for result in results.values()):
        handles = {key: result.handle for key, result in results.items()}
        if _publish(engine, planned, handles, held, meter):
            return None
    how = end_by_abort(
        engine,
        planned.plan,
        {},
        actor=None,
        deadline=time_to_end(engine, deadline),
        give_way=lambda _op, _rank: False,
        record=True,
        meter=meter,
    )
    if isinstance(how, WasPublished):
        raise AssertionError("a plan without a request has no commit")
    errors = [result.error for result in results.values() if isinstance(result.error, OmnigraphError)]
    return errors[0] if errors else StoreUnavailable("a fork of an inherited table could not be made or published")


def _publish(engine: Engine, planned: Planned, handles: Mapping[str, Any], held: Held, meter: Meter) -> bool:
    """Whether the forks are the pins of the branch, by a swap of ours or of a recovery's."""
    plan = planned.plan

    def propose(held: Held) -> Swap | Answer[bool]:
        if forks_published(held.state, plan):
            return Answer(True)
        how, _lineage = ended(engine, held, plan, meter)
        if how is not End.OPEN or held.state.head.closed is not None or moved_writes(held.state, plan):
            return Answer(False)
        return Swap(Change(pins=landed_pins(held.state, plan, handles)), {OP: plan.op, PLAN: plan.id})

    spots = Spots("own_lines.before_swap", "own_lines.after_swap")
    outcome = advance(engine, plan.branch, propose, Terms(PUBLISH, spots=spots), meter=meter, held=held)
    if isinstance(outcome, Swapped):
        return True
    if isinstance(outcome, Answered):
        return outcome.value
    error = getattr(outcome, "error", None)
    if isinstance(error, NotFound):
        raise error
    raise OutcomeUnknown(
        f"whether the lines of branch {plan.branch.name!r} were published is not known: {error}",
        hint="repeat the call: nothing is written twice by it",
        branch=plan.branch.name,
        operation_id=plan.op,
    )
