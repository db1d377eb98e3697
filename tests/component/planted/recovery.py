"""Writes that died, and recoveries that go wrong."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.commit import decide
from omnigraph.commit.decide import Decision, Undo
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Intents, encode_plan
from omnigraph.commit.protocol import compensate, publish, run
from omnigraph.commit.protocol.apply import Sending
from omnigraph.commit.recovery import audit, evidence, recover
from omnigraph.commit.recovery import drift as healing
from omnigraph.core import failpoints
from omnigraph.core.errors import (
    StoreUnavailable,
)
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import Change
from omnigraph.store import layout
from omnigraph.store.local import LocalStore
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import commits_of
from omnigraph.testing.operations import append, displace
from tests.component.planted.scenes import (
    ONE,
    SILENT,
    TWO,
    Defect,
    Engines,
    Plant,
    cut,
    recovered,
    setting,
    wrong,
)


def half_applied(engines: Engines) -> list[str]:
    cut(engines(), "half")
    recovered(engines())
    return wrong(engines(), {TWO[0]: [], TWO[1]: []})


def complete(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    ops = [op for op, _ in engine.intents.names()]
    intent = engine.intents.read(ops[0])
    assert intent is not None and intent.plan is not None
    recovered(engine)
    found = wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["a"]})
    newest = commits_of(engine)[-1]
    if (newest.commit_id, newest.actor) != (intent.plan.head, "ada"):
        found.append(f"the newest commit is {newest.commit_id} of {newest.actor}")
    if [row.op for row in audit.read(engine)] != ops:
        found.append("the recovery is not on record")
    return found


def audit_fails(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    with failpoints.armed("audit.before_write", SILENT), contextlib.suppress(StoreUnavailable):
        recovered(engine)
    recovered(engine)
    return wrong(engine) + ([] if len(audit.read(engine)) == 1 else ["the recovery is not on record once"])


def intent_stays(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    with failpoints.armed("store.delete", SILENT):
        recovered(engine)
    [first] = audit.read(engine)
    recovered(engine)
    return wrong(engine) + ([] if audit.read(engine) == [first] else ["the record was written again"])


def records_are_collected(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    recovered(engine)
    before = audit.read(engine)
    with failpoints.armed("audit.folded", SILENT), contextlib.suppress(StoreUnavailable):
        audit.fold(engine)
    audit.fold(engine)
    found = [] if audit.read(engine) == before else ["collecting changed the records"]
    return wrong(engine) + found


def foreign_rows_at_its_place(engines: Engines) -> list[str]:
    cut(engines(), "armed")
    for key in TWO:
        displace(engines(), key)
    recovered(engines())
    return wrong(engines(), {TWO[0]: [], TWO[1]: []})


def branch_cannot_be_resolved(engines: Engines) -> list[str]:
    """An intent of a branch that is not there: what it stands for is not known, so it is left."""
    cut(engines(), "complete")
    engine = engines()
    [(op, _)] = engine.intents.names()
    intent = engine.intents.read(op)
    assert intent is not None and intent.plan is not None
    other = replace(intent.plan, branch=replace(intent.plan.branch, identity=new_ulid()))
    engine.intents.rewrite(op, encode_plan(other))
    recovered(engine)
    return [] if engine.intents.read(op) is not None else ["the intent of a branch that cannot be resolved is gone"]


def drift_without_an_owner(engines: Engines) -> list[str]:
    displace(engines(), ONE[0])
    healing.heal(engines(), MAIN, meter=Meter())
    return wrong(engines(), {ONE[0]: []})


def pin_moves_under_a_restore(engines: Engines) -> list[str]:
    """A helper publishes what was complete while a writer behind it, which does not wait for pending operations, gives up."""
    dead, engine, helper = engines(), engines(), engines()
    cut(dead, "complete")
    patient = decide.undo_table

    def impatient(**facts: Any) -> Undo:
        return patient(**{**facts, "other_pending": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compensate, "undo_table", impatient)
        with failpoints.armed("abort.before_swap", lambda **_: recovered(helper)):
            append(engine, TWO, ["b"], deadline_s=20)
    return wrong(engines(), {TWO[0]: ["a", "b"], TWO[1]: ["a", "b"]})


def disarming_early(patch: pytest.MonkeyPatch) -> None:
    later = run.apply

    def early(sending: Sending, *rest: Any, **facts: Any) -> Any:
        sending.engine.intents.disarm(sending.plan.op)
        return later(sending, *rest, **facts)

    patch.setattr(run, "apply", early)


def some_suffice(patch: pytest.MonkeyPatch) -> None:
    def lax(seen: Any, **facts: Any) -> Decision:
        if seen.end is decide.End.OPEN and any(table.exact for table in seen.tables.values()):
            return Decision.ROLL_FORWARD
        return decide.decide(seen, **facts)

    patch.setattr(recover, "decide", lax)


def by_arithmetic(patch: pytest.MonkeyPatch) -> None:
    exactly = evidence._look_at_table

    def counted(engine: Engine, held: Any, plan: Any, chain: Any, landed: dict[str, Any], meter: Meter) -> Any:
        seen = exactly(engine, held, plan, chain, landed, meter)
        if seen.head is None or seen.head < chain.version:
            return seen
        landed[chain.key] = engine.tables.open(TableRef(chain.path, chain.ref), chain.version, meter)
        return replace(seen, exact=True)

    patch.setattr(evidence, "_look_at_table", counted)


def publishing_with(**facts: Any) -> Plant:
    made = publish.publish_change

    def changed(plan: Any, *rest: Any) -> Change:
        [info] = plan.requests
        other = replace(info, **{name: value() for name, value in facts.items()})
        return made(replace(plan, requests=(other,)), *rest)

    return setting(recover, "publish_change", changed)


def auditing_last(patch: pytest.MonkeyPatch) -> None:
    write = recover._record

    def late(engine: Engine, intent: Any, *rest: Any) -> None:
        engine.intents.disarm(intent.op)
        write(engine, intent, *rest)

    patch.setattr(recover, "_record", late)


def auditing_over(patch: pytest.MonkeyPatch) -> None:
    """The record is written without asking whether there is one."""
    create = LocalStore.create

    def over(self: Any, key: str, data: bytes, **facts: Any) -> None:
        (self.replace if key.startswith(layout.RECOVERIES) else functools.partial(create, self))(key, data, **facts)

    patch.setattr(LocalStore, "create", over)


def forgetting_first(patch: pytest.MonkeyPatch) -> None:
    """The files of records are deleted although their rows were not written."""
    patch.setattr(audit.journal, "insert_once", lambda *_: False)


def collecting_blindly(patch: pytest.MonkeyPatch) -> None:
    def always(tables: Any, ref: TableRef, schema: pa.Schema, column: str, table: pa.Table) -> bool:
        lance.write_dataset(table, tables.uri(ref), mode="append")
        return True

    patch.setattr(audit.journal, "insert_once", always)


def healing_forward(patch: pytest.MonkeyPatch) -> None:
    def newest(engine: Engine, pin: Any, drift: Any, op: str, meter: Meter) -> Any:
        return engine.tables.open(TableRef(pin.location, pin.ref), drift.head, meter)

    patch.setattr(healing, "_restore_pin", newest)


class _AnyPin(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def restoring_over_whatever(patch: pytest.MonkeyPatch) -> None:
    made = compensate._Restored

    class Whatever(made):  # type: ignore[misc, valid-type]
        def __init__(self, pin: int, *rest: Any) -> None:
            super().__init__(_AnyPin(pin), *rest)

    patch.setattr(compensate, "_Restored", Whatever)


def aborting_without_pins(patch: pytest.MonkeyPatch) -> None:
    made = compensate.abort_change
    patch.setattr(compensate, "abort_change", lambda *args: replace(made(*args), pins={}))


def rolling_back_nothing(patch: pytest.MonkeyPatch) -> None:
    end = recover.end_by_abort
    patch.setattr(recover, "end_by_abort", lambda engine, plan, _touched, **facts: end(engine, plan, {}, **facts))


def discarding_what_is_unresolved(patch: pytest.MonkeyPatch) -> None:
    real = recover.decide

    def careless(found: Any, **facts: Any) -> Decision:
        verdict = real(found, **facts)
        return Decision.DISCARD if verdict is Decision.LEAVE else verdict

    patch.setattr(recover, "decide", careless)


DEFECTS = {
    "an intent without a branch is discarded": Defect(branch_cannot_be_resolved, discarding_what_is_unresolved),
    "no intent": Defect(half_applied, setting(Intents, "arm", lambda *_: None)),
    "the intent goes before the commits": Defect(half_applied, disarming_early),
    "rolling back without restoring": Defect(half_applied, rolling_back_nothing),
    "an abort that does not publish the restores": Defect(half_applied, aborting_without_pins),
    "one table is enough to roll forward": Defect(half_applied, some_suffice),
    "rolling forward under another id": Defect(complete, publishing_with(id=new_ulid)),
    "rolling forward in recovery's own name": Defect(complete, publishing_with(actor=lambda: audit.RECOVERY_ACTOR)),
    "recovery off the record": Defect(complete, setting(recover, "_record", lambda *_: None)),
    "the intent goes before the audit": Defect(audit_fails, auditing_last),
    "a record for every attempt": Defect(intent_stays, auditing_over),
    "records are collected twice": Defect(records_are_collected, collecting_blindly),
    "the files go before their rows are there": Defect(records_are_collected, forgetting_first),
    "effects known by counting": Defect(foreign_rows_at_its_place, by_arithmetic),
    "drift is published": Defect(drift_without_an_owner, healing_forward),
    "a restore is published over a moved pin": Defect(pin_moves_under_a_restore, restoring_over_whatever),
}
