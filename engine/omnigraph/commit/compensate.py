"""End a plan by an abort: put its tables back where the pins are, then say so in the lineage.

The same for an owner that gives up and for a stranger that rolls back. The abort swap decides: either it lands, or the
plan's commit is found. A restore can only spoil an unpublished effect, whose owner notices and plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import Above, Undo, moved_writes, undo_table
from omnigraph.commit.engine import Engine
from omnigraph.commit.pins import with_stats
from omnigraph.commit.plan import PublishPlan, TablePlan
from omnigraph.commit.publish import confirm, lineage
from omnigraph.core import failpoints
from omnigraph.core.errors import OutcomeUnknown, StoreUnavailable
from omnigraph.core.ids import new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow, Pin
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held, SwapLost, SwapUnknown
from omnigraph.table.dataset import CommitUnknown, NotLanded, TableRef, same_files, stats_of

OP_PROPERTY = "omnigraph:op"
ROUNDS_MAX = 2000  # each round waits, restores or swaps; the deadline ends it long before


@dataclass(frozen=True)
class Aborted:
    """The plan can never be published. ``recorded``: by an abort row; else by a pin that has moved past it. ``restored``:
    the version whose content each table that was put back has again."""

    held: Held
    recorded: bool
    restored: Mapping[str, int]


@dataclass(frozen=True)
class WasPublished:
    """Somebody has published the plan: it is a success."""

    held: Held
    row: CommitRow


@dataclass(frozen=True)
class _Restored:
    """A Restore that stands: of which pin, at which version."""

    pin: int
    version: int
    handle: Any


def end_by_abort(
    engine: Engine,
    plan: PublishPlan,
    touched: Mapping[str, bool],
    *,
    actor: str | None,
    deadline: Deadline,
    give_way: Callable[[str, int], bool],
    meter: Meter,
    record: bool = False,
) -> Aborted | WasPublished:
    """``touched``: the tables that are this plan's to undo, and whether a commit there has no known outcome.

    ``give_way(op, rank)`` is asked where another operation stands first above a pin: it helps or waits a moment and
    returns True if durable state may have changed, False if that operation cannot come to anything and needs no waiting.
    ``record``: write the abort row even where a moved pin makes it unnecessary.
    """
    restored: dict[str, _Restored] = {}
    for _ in range(ROUNDS_MAX):
        if deadline.passed:
            break
        try:
            ended = _round(engine, plan, touched, restored, actor, give_way, meter, record=record)
        except StoreUnavailable:
            # Every look and every step may be repeated, and the plan has to end.
            engine.clock.sleep(engine.manners.poll_s())
            continue
        if ended is not None:
            return ended
    raise _unknown(plan)


def _round(
    engine: Engine,
    plan: PublishPlan,
    touched: Mapping[str, bool],
    restored: dict[str, _Restored],
    actor: str | None,
    give_way: Callable[[str, int], bool],
    meter: Meter,
    *,
    record: bool,
) -> Aborted | WasPublished | None:
    """One look from the manifest on, and at most one swap. None: look again."""
    held = engine.latest(plan.branch.name, meter)
    own, _keyed = lineage(engine, held, plan, meter)
    if isinstance(own, CommitRow):
        return WasPublished(held, own)
    if isinstance(own, AbortRow):
        return Aborted(held, True, {})
    if _undo_tables(engine, plan, touched, held, restored, give_way, meter):
        return None
    if not restored and not record and moved_writes(held.state, plan):
        return Aborted(held, False, {})
    try:
        failpoints.hit("abort.before_swap")
        after = engine.manifest.swap(
            held,
            engine.manifest.write(held, _abort_change(engine, plan, held, restored, actor), meter),
            uuid=new_uuid(),
            properties={OP_PROPERTY: plan.op, "omnigraph:abort": plan.commit.id},
            meter=meter,
        )
        failpoints.hit("abort.after_swap")
    except (SwapLost, SwapUnknown):
        engine.clock.sleep(engine.manners.jitter_s(2))
        return None
    confirmed = confirm(engine, plan.branch.name, after, plan.commit.id, meter, ended_by=AbortRow)
    if confirmed is None:
        return None
    return Aborted(confirmed, True, {key: one.pin for key, one in restored.items()})


def _undo_tables(
    engine: Engine,
    plan: PublishPlan,
    touched: Mapping[str, bool],
    held: Held,
    restored: dict[str, _Restored],
    give_way: Callable[[str, int], bool],
    meter: Meter,
) -> bool:
    """Bring each touched table back to its pin. True: something moved or was waited for, so start over."""
    again = False
    for table in sorted(plan.tables, key=lambda table: table.key):
        if table.key not in touched:
            continue
        pin = held.state.tables.get(table.key)
        if pin is None or pin.identity != table.identity or pin.ref != table.ref:
            restored.pop(table.key, None)
            continue
        done = restored.get(table.key)
        if done is not None and done.pin == pin.version:
            continue
        restored.pop(table.key, None)
        outcome = _undo_table(engine, table, plan, pin, touched[table.key], give_way, meter)
        if isinstance(outcome, _Restored):
            restored[table.key] = outcome
        again = again or outcome is True
    return again


def _undo_table(
    engine: Engine,
    table: TablePlan,
    plan: PublishPlan,
    pin: Pin,
    unknown: bool,
    give_way: Callable[[str, int], bool],
    meter: Meter,
) -> _Restored | bool:
    """A restore that stands, False where there is nothing to do, True to look again."""
    ref = TableRef(pin.location, pin.ref)
    handle = engine.tables.open(ref, pin.version, meter)
    head = engine.tables.head_version(handle, meter)
    note = engine.tables.transaction_at(ref, handle, pin.version + 1, meter) if head > pin.version else None
    above = None if note is None else Above(note.uuid, note.properties.get(OP_PROPERTY), note.restore_of)
    other = above.op if above is not None and above.op != plan.op else None
    undo = undo_table(
        pin=pin.version,
        head=head,
        above=above,
        own_uuids=frozenset(table.uuids),
        unknown=unknown,
        other_pending=other is not None and engine.intents.read(other, meter) is not None,
    )
    if undo is Undo.NOTHING:
        return False
    if undo is Undo.YIELD:
        return other is not None and give_way(other, 1)
    if undo is Undo.PUBLISH_RESTORE:
        above_it = engine.tables.open(ref, pin.version + 1, meter)
        if same_files(handle, above_it):
            return _Restored(pin.version, pin.version + 1, above_it)
        # It is not what it says that it is. Another one on top of it will be.
    failpoints.hit("abort.before_restore", table_key=table.key)
    transaction = engine.tables.restore_transaction(handle, uuid=new_uuid(), properties={OP_PROPERTY: plan.op})
    try:
        landed = engine.tables.commit(ref, handle, transaction, meter)
    except (NotLanded, CommitUnknown):
        # Either way the next look finds what stands there. Never the same Restore again.
        engine.clock.sleep(engine.manners.jitter_s(2))
        return True
    engine.tables.check_restored(handle, landed)
    failpoints.hit("abort.after_restore", table_key=table.key)
    return _Restored(pin.version, landed.version, landed)


def _abort_change(
    engine: Engine, plan: PublishPlan, held: Held, restored: Mapping[str, _Restored], actor: str | None
) -> Change:
    pins = {}
    for key, one in restored.items():
        pin = held.state.tables[key]
        pins[key] = with_stats(pin, one.version, stats_of(one.handle))
    row = AbortRow(plan.commit.id, plan.commit.id, actor, plan.base.manifest_version, engine.clock.now_us())
    return Change(pins=pins, history=(row,))


def _unknown(plan: PublishPlan) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the deadline passed before write {plan.commit.id} had an outcome",
        hint=f"ask with `omnigraph commit outcome {plan.commit.id}`; its intent {plan.op} is kept and will be recovered",
        commit_id=plan.commit.id,
        operation_id=plan.op,
    )
