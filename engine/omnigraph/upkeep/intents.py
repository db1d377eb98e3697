"""Pending intents in words: whose they are, what they have done so far, and what a recovery would do. Changes nothing."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.decide import Decision, End, decide
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent
from omnigraph.commit.recovery.evidence import Found, collect_evidence, owner_gone
from omnigraph.core.errors import Corruption
from omnigraph.core.ids import ulid_time_us
from omnigraph.core.meter import Meter
from omnigraph.wire.recovery import PendingIntent, PendingIntents

_WORDS = {
    Decision.WAIT: "leave it: its owner may be alive",
    Decision.LEAVE: "leave it, and cleanups delete nothing while it is there",
    Decision.DELETE_TICKET: "delete it: its owner ended while it waited in the queue, and nothing was written",
    Decision.WITHDRAW: "withdraw it: its owner is gone, and no writer has carried it out",
    Decision.DISCARD: "discard it: its branch was deleted",
    Decision.FINISH: "clear it away: the write has ended, only its intent is left",
    Decision.UNDO_MAINTENANCE: "undo it: put the tables back to what is published",
    Decision.ROLL_FORWARD: "publish it: every table has what was planned",
    Decision.ROLL_BACK: "undo it: not every table has what was planned",
    Decision.STOP: "stop: durable state contradicts itself",
}


def list_intents(engine: Engine, *, meter: Meter | None = None) -> PendingIntents:
    """Every pending intent, explained. Reads the manifest, the intents and the tables that they name."""
    meter = meter or Meter()
    found = []
    for op, _stamp in engine.pending(meter):
        try:
            intent = engine.intents.read(op, meter)
        except Corruption as error:
            found.append(_unreadable(engine, op, error))
            continue
        if intent is not None:
            found.append(explain(engine, intent, meter))
    return PendingIntents(found)


def explain(engine: Engine, intent: Intent, meter: Meter) -> PendingIntent:
    gone = owner_gone(engine, intent)
    found = collect_evidence(engine, intent, gone=gone, meter=meter)
    now = decide(found.evidence)
    later = decide(replace(found.evidence, owner_gone=True)) if now is Decision.WAIT else now
    plan, asked = intent.plan, intent.request
    alive = "its process is gone" if gone else f"its owner is process {intent.owner.pid} on {intent.owner.host}"
    explanation = f"{alive}. Recovery would {_WORDS[now]}"
    if later is not now:
        explanation += f"; beyond grace, it would {_WORDS[later]}"
    return PendingIntent(
        operation_id=intent.op,
        kind=intent.kind,
        state=intent.state,
        branch=intent.branch.name,
        commit_id=plan.head if plan is not None else None if asked is None else asked.id,
        actor=plan.actor if plan is not None else None if asked is None else asked.actor,
        owner=f"{intent.owner.host}/{intent.owner.pid}",
        owner_gone=gone,
        age_s=_age_s(engine, intent.op),
        tables=_tables(intent, found),
        decision=now.value,
        after_grace=later.value,
        explanation=explanation,
    )


def _tables(intent: Intent, found: Found) -> dict[str, str]:
    """What stands of the plan, table by table."""
    said = {}
    for key in sorted(intent.keys):
        table = found.evidence.tables.get(key)
        if intent.plan is None:
            said[key] = "waits in the queue" if intent.request is None else "offered to the writers ahead"
        elif found.evidence.end is not End.OPEN:
            said[key] = "ended"
        elif table is not None and table.pin is None and table.exact:
            said[key] = "written in full on a line of its own"
        elif table is None or table.pin is None:
            said[key] = "not on this branch"
        elif table.exact:
            said[key] = f"written in full above version {table.pin}"
        elif table.landed:
            said[key] = f"written, but not where it was planned (published {table.pin}, newest {table.head})"
        elif table.head is not None and table.head > table.pin:
            said[key] = f"not written; version {table.head} above the published {table.pin} is of another writer"
        else:
            said[key] = f"not written; published version {table.pin}"
    return said


def _unreadable(engine: Engine, op: str, error: Corruption) -> PendingIntent:
    return PendingIntent(
        operation_id=op,
        kind="unknown",
        state="unreadable",
        branch=None,
        commit_id=None,
        actor=None,
        owner=None,
        owner_gone=False,
        age_s=_age_s(engine, op),
        tables={},
        decision=Decision.STOP.value,
        after_grace=Decision.STOP.value,
        explanation=f"{error.message}. `omnigraph repair --confirm --force` moves it aside and heals its tables",
    )


def _age_s(engine: Engine, op: str) -> float:
    """By the clock of who wrote it. For people; nothing is decided by it."""
    return max(0, engine.clock.now_us() - ulid_time_us(op)) / 1e6
