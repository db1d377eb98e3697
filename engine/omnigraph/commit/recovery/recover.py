"""End the operations of others: what an intent asks for is decided by ``decide`` and done here, step by repeatable step.

Every step may be repeated and killed anywhere. Rolling forward publishes the plan under its own commit ids and actors by the
code its owner would have used; rolling back is an abort made by another process. It fences no writer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import Decision, End, decide
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent
from omnigraph.commit.intent_format import APPLIED
from omnigraph.commit.pins import landed_pins
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.compensate import WasPublished, end_by_abort
from omnigraph.commit.protocol.publish import Published, publish, publish_change
from omnigraph.commit.protocol.publish import Recovered as RecoveredBy
from omnigraph.commit.protocol.recorded_counts import recorded_counts
from omnigraph.commit.protocol.withdraw import withdraw
from omnigraph.commit.queue.refusals import delete_refusal
from omnigraph.commit.queue.timing import FrontWatch
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.evidence import Found, collect_evidence, contradiction, owner_gone
from omnigraph.commit.recovery.torn import clear_table
from omnigraph.core import failpoints, operation, progress
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow
from omnigraph.table.dataset import TableRef
from omnigraph.table.errors import is_full, no_room

_log = logging.getLogger("omnigraph.recovery")

UNDO_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Recovered:
    """What was done about one intent."""

    op: str
    decision: Decision
    commit_id: str | None
    branch: str
    actor: str | None
    tables: Mapping[str, Mapping[str, int]]
    file_left: bool = False  # it has ended, but its file could not be deleted
    reason: str | None = None  # why it was left
    no_room: bool = False  # it was left because the disk is full

    @property
    def ended(self) -> bool:
        return self.decision not in (Decision.WAIT, Decision.LEAVE)


def recover_all(
    engine: Engine,
    *,
    meter: Meter,
    pending: Sequence[tuple[str, str]] | None = None,
    beyond_grace: bool = False,
    within_s: float | None = None,
) -> list[Recovered]:
    """One pass over the pending intents, oldest first. Never waits. ``pending``: what ``engine.pending`` has just said, if it was
    asked. ``beyond_grace``: take every owner for gone. ``within_s``: begin with no further one after that time; the rest stays
    pending.

    Fails loudly where the intents cannot be listed, or one cannot be read.
    """
    done = []
    pending = engine.pending(meter) if pending is None else pending
    clear_refusals(engine, pending, meter)
    started = engine.clock.monotonic()
    with progress.phase("recovering", unit="writes", total=len(pending)):
        for op, _stamp in pending:
            if within_s is not None and engine.clock.monotonic() - started >= within_s:
                break
            intent = engine.intents.read(op, meter)
            if intent is not None:
                gone = owner_gone(engine, intent) or (beyond_grace and not _ours_and_live(engine, intent))
                done.append(recover_or_leave(engine, intent, gone=gone, meter=meter))
            progress.advance(1)
    if not all(one.ended for one in done):
        engine.timing.note_contention()  # others write here: a new writer queues like them
    return done


def clear_refusals(engine: Engine, pending: Sequence[tuple[str, str]], meter: Meter) -> None:
    """Delete what was refused and has no owner any more. ``pending``: the intents of the same listing; an offer is there before
    anybody refuses it, so one that is not among them has ended."""
    for op in engine.intents.refused - {op for op, _ in pending}:
        delete_refusal(engine.store, op, meter)


def _ours_and_live(engine: Engine, intent: Intent) -> bool:
    return intent.owner == engine.owner and not owner_gone(engine, intent)


def recover_or_leave(engine: Engine, intent: Intent, *, gone: bool, meter: Meter) -> Recovered:
    """End this intent, or leave it where the disk has no room for that: recovery never waits for room."""
    try:
        return recover_one(engine, intent, gone=gone, meter=meter)
    except OmnigraphError as error:
        if not is_full(error):
            raise
        left = replace(_report(intent, Decision.LEAVE), reason=f"intent {intent.op} is kept: {error}", no_room=True)
        _log.warning("%s", left.reason)
        return left


def recover_one(
    engine: Engine, intent: Intent, *, gone: bool, meter: Meter, within_s: float = UNDO_DEADLINE_S
) -> Recovered:
    """Do what durable state says about this intent. ``gone``: its owner is beyond grace or known to be dead. ``within_s``:
    how long an undoing may take before it is left, as ``OutcomeUnknown`` of that plan, to the next recovery."""
    failpoints.hit("recover.before_look", op=intent.op)
    found = collect_evidence(engine, intent, gone=gone, meter=meter)
    decision = decide(found.evidence)
    if decision is Decision.WAIT:
        return _report(intent, decision)
    if decision is Decision.LEAVE:
        return replace(_report(intent, decision), reason=_why_left(intent))
    if decision is Decision.STOP:
        raise contradiction(intent, found)
    if decision is Decision.DELETE_TICKET:
        return _end(engine, intent, decision, meter)
    if decision is Decision.DISCARD:
        _record(engine, intent, audit.ORPHANED_BRANCH_DISCARDED)
        return _end(engine, intent, decision, meter)
    if decision is Decision.WITHDRAW:
        return _withdraw(engine, intent, meter)
    plan = intent.plan
    if decision is Decision.FINISH:
        return _finish(engine, intent, plan, found, meter)
    if plan is None or found.held is None:
        raise AssertionError("only a plan on a live branch gets here")
    if decision is Decision.ROLL_FORWARD:
        engine.durable.before_rolling_forward(applied=intent.state == APPLIED and intent.durable)
        if _roll_forward(engine, plan, found, meter):
            tables = _moves(plan)
            _record(engine, intent, audit.ROLLED_FORWARD, tables)
            return _end(engine, intent, decision, meter, tables)
        found = replace(found, held=None)
    return _roll_back(engine, intent, plan, found, min(within_s, UNDO_DEADLINE_S), meter)


def _why_left(intent: Intent) -> str:
    return intent.why_unknown or f"its branch {intent.branch.name!r} ({intent.branch.identity}) cannot be resolved"


def _moves(plan: PublishPlan) -> dict[str, dict[str, int]]:
    return {chain.key: {"from": chain.pin, "to": chain.version} for chain in plan.landing}


# --- forward ------------------------------------------------------------------------------------------------------------


def _roll_forward(engine: Engine, plan: PublishPlan, found: Found, meter: Meter) -> bool:
    """Publish a complete plan as its owner would have. False: it was refused, or became a ghost."""
    held = found.held
    if held is None:
        return False
    counts = {
        chain.key: recorded_counts(engine, plan, chain, found.landed.get(chain.key), meter) for chain in plan.chains
    }
    pins = landed_pins(held.state, plan, found.landed)
    by = RecoveredBy(audit.RECOVERY_ACTOR, engine.clock.now_us())
    failpoints.hit("recover.before_publish", op=plan.op)
    result = publish(engine, plan, publish_change(plan, pins, counts, by), held=held, meter=meter)
    if not isinstance(result, Published) and result.error is not None and is_full(result.error):
        # It is complete, so it is published once there is room, and not undone.
        raise no_room(f"write {plan.head} could not be published", result.error) from result.error
    return isinstance(result, Published)


# --- back ---------------------------------------------------------------------------------------------------------------


def _roll_back(
    engine: Engine, intent: Intent, plan: PublishPlan, found: Found, within_s: float, meter: Meter
) -> Recovered:
    drifted = {
        key: False
        for key, table in found.evidence.tables.items()
        if table.pin is not None and table.head is not None and table.head > table.pin
    }
    _clear_torn(engine, intent, plan, found, meter)
    result = end_by_abort(
        engine,
        plan,
        drifted,
        actor=audit.RECOVERY_ACTOR,
        deadline=Deadline(engine.clock, within_s),
        give_way=lambda _op, _rank: False,
        meter=meter,
        record=True,
        # With nothing to restore the abort is one swap, which lands on this very state or is tried on the newest.
        held=found.held,
    )
    if isinstance(result, WasPublished):
        tables = _moves(plan)
        _record(engine, intent, audit.ROLLED_FORWARD, tables)
        return _end(engine, intent, Decision.FINISH, meter, tables)
    # On record is the version whose content the table has again; what is published is the one that brought it back.
    back = {
        key: {"from": table.head or 0, "to": result.restored.get(key, table.pin or 0)}
        for key, table in found.evidence.tables.items()
        if key in drifted
    }
    _record(engine, intent, audit.ROLLED_BACK, back)
    return _end(engine, intent, Decision.ROLL_BACK, meter, back)


def _clear_torn(engine: Engine, intent: Intent, plan: PublishPlan, found: Found, meter: Meter) -> None:
    """Move aside what a power cut has torn of this plan's table versions: Lance commits on nothing that follows one."""
    for chain in plan.landing:
        table = found.evidence.tables.get(chain.key)
        if table is None:
            continue
        above = 0 if chain.begins_line else table.pin
        if above is not None:
            clear_table(engine, TableRef(chain.path, chain.ref), above, intent.branch, chain.key, meter)


# --- offers -------------------------------------------------------------------------------------------------------------


def _withdraw(engine: Engine, intent: Intent, meter: Meter) -> Recovered:
    """End an offer without owner. It may have landed since it was looked for: then only its file is left."""
    request = intent.request
    if request is None:
        raise AssertionError("only an offer is withdrawn")
    row, _ = withdraw(engine, intent.branch, intent.op, request.id, actor=audit.RECOVERY_ACTOR, meter=meter)
    if row is not None and not isinstance(row, AbortRow):
        return _end(engine, intent, Decision.FINISH, meter)
    _record(engine, intent, audit.OFFER_WITHDRAWN)
    return _end(engine, intent, Decision.WITHDRAW, meter)


# --- finish -------------------------------------------------------------------------------------------------------------


def _finish(engine: Engine, intent: Intent, plan: PublishPlan | None, found: Found, meter: Meter) -> Recovered:
    """The plan has ended: by its owner, or by a recovery that died before its record. Write the record if it is missing."""
    if plan is not None and found.evidence.end is End.ABORTED:
        _record(engine, intent, audit.ROLLED_BACK)
    elif plan is not None:
        _record(engine, intent, audit.ROLLED_FORWARD, _moves(plan))
    return _end(engine, intent, Decision.FINISH, meter)


def _end(
    engine: Engine,
    intent: Intent,
    decision: Decision,
    meter: Meter,
    tables: Mapping[str, Mapping[str, int]] | None = None,
) -> Recovered:
    """The outcome is durable already: delete the intent. If the delete fails, the next recovery repeats it."""
    left = engine.intents.disarm(intent.op, meter) is not None
    if intent.request is not None:
        delete_refusal(engine.store, intent.op, meter)
    return replace(_report(intent, decision, tables), file_left=left)


def _record(
    engine: Engine, intent: Intent, how: audit.How, tables: Mapping[str, Mapping[str, int]] | None = None
) -> None:
    """Write what was done, once: an earlier attempt may have written it."""
    plan = intent.plan
    ids = plan.members if plan is not None else () if intent.request is None else (intent.request.id,)
    actor = plan.actor if plan is not None else None if intent.request is None else intent.request.actor
    audit.write(
        engine,
        audit.Recovery(
            op=intent.op,
            plan=None if plan is None else plan.id,
            how=how,
            commit_ids=ids,
            members=len(ids),
            branch={"name": intent.branch.name, "identity": intent.branch.identity},
            original_actor=actor,
            recovered_by=engine.owner.token,
            recovered_at_us=engine.clock.now_us(),
            tables=tables or {},
        ),
    )


def _report(intent: Intent, decision: Decision, tables: Mapping[str, Mapping[str, int]] | None = None) -> Recovered:
    plan = intent.plan
    if decision in (Decision.ROLL_FORWARD, Decision.ROLL_BACK, Decision.FINISH, Decision.DISCARD):
        operation.note(operation.RECOVERIES)
    return Recovered(
        intent.op,
        decision,
        plan.head if plan is not None else None,
        intent.branch.name,
        plan.actor if plan is not None else None,
        tables or {},
    )


# --- for writers that meet an intent in their way -----------------------------------------------------------------------


def help_or_wait(engine: Engine, op: str, *, watch: FrontWatch, meter: Meter, rank: int = 1) -> bool:
    """Another operation stands first above a pin. End it if it is complete or dead, else wait a moment.

    False: it is alive but cannot come to anything, because one of its own tables did not land at its place.
    """
    engine.timing.note_contention()
    intent = engine.intents.read(op, meter)
    if intent is None:
        watch.front_moved()
        return True
    known = owner_gone(engine, intent)
    gone = known or watch.beyond_grace(op, intent.stamp)
    if intent.plan is not None:
        found = collect_evidence(engine, intent, gone=gone, meter=meter)
        decision = decide(found.evidence)
        if decision not in (Decision.WAIT, Decision.LEAVE):
            try:
                recover_one(engine, intent, gone=gone, meter=meter)
            except OutcomeUnknown:  # of that plan; ours has its own end and its own deadline
                return True
            if gone:
                watch.front_was_dead(silent=not known)
            else:
                watch.front_moved()
            return True
        if _doomed(found, intent.plan):
            return False
    elif gone and intent.ticket is not None and intent.request is None:
        engine.intents.disarm(op, meter)
        watch.front_was_dead(silent=not known)
        return True
    engine.clock.sleep(engine.timing.poll_s(rank))
    return True


def _doomed(found: Found, plan: PublishPlan) -> bool:
    """Another transaction stands at a place that the plan needs, so the plan can only end by an abort."""
    for chain in plan.landing:
        table = found.evidence.tables.get(chain.key)
        if table is not None and table.head is not None and table.head > chain.pin and not table.exact:
            return len(chain.effects) == 1 or not table.landed
    return False
