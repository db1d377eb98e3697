"""End the operations of others: what an intent asks for is decided by ``decide`` and done here, step by repeatable step.

Every step may be repeated and killed anywhere. Rolling forward publishes the plan under its own commit id and actor by the
code its owner would have used; rolling back is an abort made by somebody else. It fences nobody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.commit import audit
from omnigraph.commit.compensate import WasPublished, end_by_abort
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import Decision, decide
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent
from omnigraph.commit.manners import FrontWatch
from omnigraph.commit.pins import landed_pins
from omnigraph.commit.plan import PublishPlan, TablePlan
from omnigraph.commit.publish import Published, confirm, publish, publish_change
from omnigraph.commit.witness import Seen, look, owner_gone
from omnigraph.core import failpoints, operation
from omnigraph.core.errors import Corruption, OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow, TableChange
from omnigraph.table.dataset import TableRef

COUNTS_PROPERTY = "omnigraph:counts"
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

    @property
    def ended(self) -> bool:
        return self.decision is not Decision.WAIT

    def to_dict(self) -> dict[str, Any]:
        return {
            "operation_id": self.op,
            "decision": self.decision.value,
            "commit_id": self.commit_id,
            "branch": self.branch,
            "actor": self.actor,
            "tables": {key: dict(value) for key, value in sorted(self.tables.items())},
        }


def recover_all(engine: Engine, *, meter: Meter, beyond_grace: bool = False) -> list[Recovered]:
    """One pass over the pending intents, oldest first. Never waits. ``beyond_grace``: take every owner for gone.

    Fails loudly where the intents cannot be listed, or one cannot be read.
    """
    done = []
    for op, _stamp in engine.pending(meter):
        intent = engine.intents.read(op, meter)
        if intent is not None:
            gone = owner_gone(engine, intent) or (beyond_grace and not _ours_and_live(engine, intent))
            done.append(recover_one(engine, intent, gone=gone, meter=meter))
    if not all(one.ended for one in done):
        engine.manners.note_neighbour()  # others write here: who has just come queues like them
    return done


def _ours_and_live(engine: Engine, intent: Intent) -> bool:
    return intent.owner == engine.owner and not owner_gone(engine, intent)


def recover_one(
    engine: Engine, intent: Intent, *, gone: bool, meter: Meter, within_s: float = UNDO_DEADLINE_S
) -> Recovered:
    """Do what durable state says about this intent. ``gone``: its owner is beyond grace or known to be dead. ``within_s``:
    how long an undoing may take before it is left, as ``OutcomeUnknown`` of that plan, to whoever comes next."""
    failpoints.hit("recover.before_look", op=intent.op)
    seen = look(engine, intent, gone=gone, meter=meter)
    decision = decide(seen.witness)
    if decision is Decision.WAIT:
        return _report(intent, decision)
    if decision is Decision.STOP:
        raise _contradiction(intent, seen)
    if decision is Decision.DELETE_TICKET:
        return _ended(engine, intent, decision, meter)
    if decision is Decision.DISCARD:
        _audit(engine, intent, audit.ORPHANED_BRANCH_DISCARDED, {})
        return _ended(engine, intent, decision, meter)
    plan = intent.plan
    if plan is None or seen.held is None:
        raise AssertionError("only a plan on a live branch gets here")
    if decision is Decision.FINISH:
        return _finish(engine, intent, plan, seen, meter)
    if decision is Decision.ROLL_FORWARD:
        forward = _roll_forward(engine, plan, seen, meter)
        if forward is not None:
            tables = {table.key: {"from": table.pin, "to": table.target} for table in plan.tables}
            _audit(engine, intent, audit.ROLLED_FORWARD, tables)
            return _ended(engine, intent, decision, meter, tables)
    return _roll_back(engine, intent, plan, seen, min(within_s, UNDO_DEADLINE_S), meter)


# --- forward ------------------------------------------------------------------------------------------------------------


def _roll_forward(engine: Engine, plan: PublishPlan, seen: Seen, meter: Meter) -> CommitRow | None:
    """Publish a complete plan as its owner would have. None: it was refused, or became a ghost."""
    held = seen.held
    if held is None:
        return None
    counts: dict[str, TableChange] = {}
    for table in plan.tables:
        note = engine.tables.transaction_at(
            TableRef(table.path, table.ref), seen.landed[table.key], table.target, meter
        )
        counts[table.key] = counts_from(note.properties if note is not None else {}, table)
    change = publish_change(plan, landed_pins(held, plan, seen.landed), counts)
    failpoints.hit("recover.before_publish", op=plan.op)
    result = publish(engine, plan, change, held=held, meter=meter)
    if not isinstance(result, Published):
        return None
    if result.fresh and confirm(engine, plan.branch.name, result.held, plan.commit.id, meter) is None:
        return None
    return result.row


def counts_from(properties: Mapping[str, str], table: TablePlan) -> TableChange:
    """The row counts that the writer left in its table transaction."""
    text = properties.get(COUNTS_PROPERTY)
    return TableChange(table.identity, table.ref, table.target, **(json.loads(text) if text else {}))


# --- back ---------------------------------------------------------------------------------------------------------------


def _roll_back(
    engine: Engine, intent: Intent, plan: PublishPlan, seen: Seen, within_s: float, meter: Meter
) -> Recovered:
    deadline = Deadline(engine.clock, within_s)
    drifted = {
        key: False
        for key, table in seen.witness.tables.items()
        if table.pin is not None and table.head is not None and table.head > table.pin
    }
    result = end_by_abort(
        engine,
        plan,
        drifted,
        actor=audit.RECOVERY_ACTOR,
        deadline=deadline,
        give_way=lambda _op, _rank: False,
        meter=meter,
        record=True,
    )
    if isinstance(result, WasPublished):
        tables = {table.key: {"from": table.pin, "to": table.target} for table in plan.tables}
        _audit(engine, intent, audit.ROLLED_FORWARD, tables)
        return _ended(engine, intent, Decision.FINISH, meter, tables)
    # On record is the version whose content the table has again; what is published is the one that brought it back.
    tables = {
        key: {"from": table.head or 0, "to": result.restored.get(key, table.pin or 0)}
        for key, table in seen.witness.tables.items()
        if key in drifted
    }
    _audit(engine, intent, audit.ROLLED_BACK, tables)
    return _ended(engine, intent, Decision.ROLL_BACK, meter, tables)


# --- finish -------------------------------------------------------------------------------------------------------------


def _finish(engine: Engine, intent: Intent, plan: PublishPlan, seen: Seen, meter: Meter) -> Recovered:
    """The plan has ended. Its owner ended it itself, or a recovery that died before its audit row: write that if so."""
    if isinstance(seen.witness.own, AbortRow):
        _audit(engine, intent, audit.ROLLED_BACK, {})
    else:
        tables = {table.key: {"from": table.pin, "to": table.target} for table in plan.tables}
        _audit(engine, intent, audit.ROLLED_FORWARD, tables)
    return _ended(engine, intent, Decision.FINISH, meter)


def _audit(engine: Engine, intent: Intent, kind: str, tables: Mapping[str, Mapping[str, int]]) -> None:
    plan = intent.plan
    audit.write(
        engine,
        audit.AuditRow(
            operation_id=intent.op,
            kind=kind,
            commit_id=plan.commit.id if plan is not None else None,
            branch=intent.branch.name,
            original_actor=plan.commit.actor if plan is not None else None,
            recovered_at_us=engine.clock.now_us(),
            tables=tables,
        ),
    )


def _ended(
    engine: Engine,
    intent: Intent,
    decision: Decision,
    meter: Meter,
    tables: Mapping[str, Mapping[str, int]] | None = None,
) -> Recovered:
    """What is durable says how it ended; the file goes, and if it cannot, the next recovery comes by here again."""
    left = engine.intents.disarm(intent.op, meter) is not None
    return replace(_report(intent, decision, tables), file_left=left)


def _report(intent: Intent, decision: Decision, tables: Mapping[str, Mapping[str, int]] | None = None) -> Recovered:
    plan = intent.plan
    if decision in (Decision.ROLL_FORWARD, Decision.ROLL_BACK, Decision.FINISH, Decision.DISCARD):
        operation.note(operation.RECOVERIES)
    return Recovered(
        intent.op,
        decision,
        plan.commit.id if plan is not None else None,
        intent.branch.name,
        plan.commit.actor if plan is not None else None,
        tables or {},
    )


def _contradiction(intent: Intent, seen: Seen) -> Corruption:
    bad = next(t for t in seen.witness.tables.values() if (t.head or 0) < (t.pin or 0))
    return Corruption(
        f"table {bad.key} is published at version {bad.pin} but its newest version is {bad.head}; "
        f"intent {intent.op} is kept",
        operation_id=intent.op,
        table_key=bad.key,
        expected=bad.pin,
        actual=bad.head,
    )


# --- for writers that meet an intent in their way -----------------------------------------------------------------------


def help_or_wait(engine: Engine, op: str, *, watch: FrontWatch, meter: Meter, rank: int = 1) -> bool:
    """Another operation stands first above a pin. End it if it is complete or dead, else wait a moment.

    False: it is alive but cannot come to anything, because one of its own tables did not land at its place.
    """
    engine.manners.note_neighbour()
    intent = engine.intents.read(op, meter)
    if intent is None:
        watch.front_moved()
        return True
    known = owner_gone(engine, intent)
    gone = known or watch.beyond_grace(op, intent.stamp)
    if intent.plan is not None:
        seen = look(engine, intent, gone=gone, meter=meter)
        decision = decide(seen.witness)
        if decision is not Decision.WAIT:
            try:
                recover_one(engine, intent, gone=gone, meter=meter)
            except OutcomeUnknown:  # of their plan; ours has its own end and its own deadline
                return True
            if gone:
                watch.front_was_dead(silent=not known)
            else:
                watch.front_moved()
            return True
        if _doomed(seen, intent.plan):
            return False
    elif gone:
        engine.intents.disarm(op, meter)
        watch.front_was_dead(silent=not known)
        return True
    engine.clock.sleep(engine.manners.poll_s(rank))
    return True


def _doomed(seen: Seen, plan: PublishPlan) -> bool:
    """A place that the plan needs is taken by something else, so the plan can only end by an abort."""
    for table in plan.tables:
        found = seen.witness.tables.get(table.key)
        if found is not None and found.head is not None and found.head > table.pin and not found.exact:
            return len(table.uuids) == 1 or not found.landed
    return False
