"""End a plan by an abort: put its tables back where the pins are, then say so in the lineage.

The same for an owner that gives up and for another process that rolls back. The abort swap decides: either it lands, or the
plan's commits are found. A restore can only spoil an unpublished effect, whose owner notices and plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omnigraph.commit.advance import (
    TO_THE_DEADLINE,
    Answer,
    Answered,
    GaveUp,
    LookAgain,
    Spots,
    Swap,
    Swapped,
    Terms,
    advance,
)
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import Above, End, Undo, moved_writes, undo_table
from omnigraph.commit.effects import Chain, GivenUp
from omnigraph.commit.engine import Engine
from omnigraph.commit.pins import achieved_pin
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.properties import ABORT, OP, PLAN, of_restore
from omnigraph.commit.protocol.publish import ended
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption, OmnigraphError, OutcomeUnknown
from omnigraph.core.ids import new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow, Pin
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import CommitUnknown, NotLanded, TableRef, same_files
from omnigraph.table.errors import is_full, no_room


@dataclass(frozen=True)
class Aborted:
    """The plan can never be published. ``recorded``: by abort rows; else by a pin that has moved past it. ``restored``:
    the version whose content each table that was put back has again."""

    held: Held
    recorded: bool
    restored: Mapping[str, int]


@dataclass(frozen=True)
class WasPublished:
    """Another process has published the plan: it is a success."""

    held: Held
    rows: tuple[CommitRow, ...]


@dataclass(frozen=True)
class _Restored:
    """A Restore that stands: of which pin, and the handle at it."""

    pin: int
    handle: Any


class _Left(Enum):
    """What is left to do where no restore of ours stands, the more the higher."""

    NOTHING = 0
    LOOK_AGAIN = 1  # another operation has moved, or was waited for
    PAUSE = 2  # whether our restore landed is open, or it did not: look again after a pause


GiveWay = Callable[[str, int], bool]


def end_by_abort(
    engine: Engine,
    plan: PublishPlan,
    touched: Mapping[str, bool],
    *,
    actor: str | None,
    deadline: Deadline,
    give_way: GiveWay,
    meter: Meter,
    record: bool = False,
    held: Held | None = None,
) -> Aborted | WasPublished:
    """``touched``: the tables that are this plan's to undo, and whether a commit there has no known outcome.

    ``give_way(op, rank)`` is asked where another operation stands first above a pin: it helps or waits a moment and
    returns True if durable state may have changed, False if that operation cannot come to anything and needs no waiting.
    ``record``: write the abort rows even where a moved pin makes them unnecessary. ``held``: a state that was just read, to look at
    first; where tables have to be restored, the newest is read instead.
    """
    undoing = _Undoing(engine, plan, touched, actor, give_way, meter, record or plan.needs_record)
    outcome = advance(
        engine,
        plan.branch,
        undoing.propose,
        Terms(TO_THE_DEADLINE, deadline, spots=Spots("abort.before_swap", "abort.after_swap")),
        meter=meter,
        held=None if touched else held,
    )
    if isinstance(outcome, Answered):
        return outcome.value
    if isinstance(outcome, Swapped):
        return Aborted(outcome.held, True, {key: one.pin for key, one in undoing.restored.items()})
    raise _unknown(plan, outcome.error if isinstance(outcome, GaveUp) else None) from None


@dataclass
class _Undoing:
    engine: Engine
    plan: PublishPlan
    touched: Mapping[str, bool]
    actor: str | None
    give_way: GiveWay
    meter: Meter
    record: bool
    restored: dict[str, _Restored] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # other operations whose intent was gone at an earlier look

    def propose(self, held: Held) -> Swap | Answer[Aborted | WasPublished] | LookAgain:
        """One look from the manifest on: what is left to restore, and the abort once nothing is."""
        how, lineage = ended(self.engine, held, self.plan, self.meter)
        if how is End.PUBLISHED:
            found = lineage.commits(self.plan)
            if any(row.plan != self.plan.id for row in found) and _is_open(held.state, self.plan):
                # Another plan has landed what this one owned, as it had been offered: what this one did to its tables is in the way.
                left = self._undo_tables(held.state)
                if left is not _Left.NOTHING:
                    return LookAgain(pause=left is _Left.PAUSE)
                if self.restored:
                    return Swap(Change(pins=self._pins(held.state)), {OP: self.plan.op, ABORT: self.plan.id})
            return Answer(WasPublished(held, found))
        if how is End.ABORTED:
            return Answer(Aborted(held, True, {key: one.pin for key, one in self.restored.items()}))
        if how is End.MIXED:
            raise Corruption(
                f"the requests of plan {self.plan.id} have ended in different ways; its intent is kept",
                hint="keep the files and run `omnigraph verify --deep`",
                object="__manifest",
                operation_id=self.plan.op,
            )
        if not _is_open(held.state, self.plan):
            return Answer(Aborted(held, False, {}))
        left = self._undo_tables(held.state)
        if left is not _Left.NOTHING:
            return LookAgain(pause=left is _Left.PAUSE)
        if not self.restored and not self.record and moved_writes(held.state, self.plan):
            return Answer(Aborted(held, False, {}))
        pins, now_us = self._pins(held.state), self.engine.clock.now_us()
        change = abort_change(self.plan, held.state, pins, self.actor, now_us, lineage.rows)
        return Swap(change, {OP: self.plan.op, PLAN: self.plan.id, ABORT: self.plan.id})

    def _pins(self, state: State) -> dict[str, Pin]:
        return {key: achieved_pin(state.tables[key], one.handle) for key, one in self.restored.items()}

    def _undo_tables(self, state: State) -> _Left:
        """Bring each touched table back to its pin, and say what is left of it."""
        left = _Left.NOTHING
        for chain in self.plan.landing:
            if chain.key not in self.touched:
                continue
            pin = own_pin(state, chain)
            if pin is None:
                self.restored.pop(chain.key, None)
                continue
            done = self.restored.get(chain.key)
            if done is not None and done.pin == pin.version:
                continue
            self.restored.pop(chain.key, None)
            outcome = self._undo_table(chain, pin)
            if isinstance(outcome, _Restored):
                self.restored[chain.key] = outcome
            else:
                left = max(left, outcome, key=lambda one: one.value)
        return left

    def _undo_table(self, chain: Chain, pin: Pin) -> _Restored | _Left:
        """A restore that stands, or what is left to do."""
        engine, plan, meter = self.engine, self.plan, self.meter
        ref = TableRef(pin.location, pin.ref)
        handle = engine.tables.open(ref, pin.version, meter)
        head = engine.tables.head_version(handle, meter)
        note = engine.tables.transaction_at(ref, handle, pin.version + 1, meter) if head > pin.version else None
        above = None if note is None else Above(note.uuid, note.properties.get(OP), note.restore_of)
        other = above.op if above is not None and above.op != plan.op else None
        pending = other is not None and engine.intents.read(other, meter) is not None
        if other is not None and not pending and other not in self.ended:
            # It may have been published since the state was read: a Restore would then stand above its pin, and be undone again.
            self.ended.add(other)
            return _Left.LOOK_AGAIN
        undo = undo_table(
            pin=pin.version,
            head=head,
            above=above,
            own_uuids=chain.uuids,
            unknown=self.touched[chain.key],
            other_pending=pending,
        )
        if undo is Undo.NOTHING:
            return _Left.NOTHING
        if undo is Undo.YIELD:
            waited = other is not None and self.give_way(other, 1)
            return _Left.LOOK_AGAIN if waited else _Left.NOTHING
        if undo is Undo.PUBLISH_RESTORE:
            above_it = engine.tables.open(ref, pin.version + 1, meter)
            if same_files(handle, above_it):
                return _Restored(pin.version, above_it)
            # The version claims to restore the pin and names other files: restore again on top of it.
        return self._restore(chain.key, ref, pin, handle)

    def _restore(self, key: str, ref: TableRef, pin: Pin, handle: Any) -> _Restored | _Left:
        engine = self.engine
        failpoints.hit("abort.before_restore", table_key=key)
        properties = of_restore(self.plan.op, self.plan.id)
        transaction = engine.tables.restore_transaction(handle, uuid=new_uuid(), properties=properties)
        try:
            landed = engine.tables.commit(ref, handle, transaction, self.meter)
        except (NotLanded, CommitUnknown) as error:
            if is_full(error):
                raise no_room(f"table {key} could not be put back", error) from error
            # Either way the next look finds what stands there. The same Restore is never sent again.
            return _Left.PAUSE
        engine.tables.check_restored(handle, landed)
        failpoints.hit("abort.after_restore", table_key=key)
        return _Restored(pin.version, landed)


def _is_open(state: State, plan: PublishPlan) -> bool:
    return state.identity == plan.branch.identity and state.head.closed is None


def own_pin(state: State, chain: Chain) -> Pin | None:
    """The pin whose line this chain commits to, if the branch still has it and owns it. A line that the plan makes itself is
    left for cleanup, and a line of another branch is never restored."""
    if chain.first.rule.given_up is not GivenUp.RESTORE:
        return None
    pin = state.tables.get(chain.key)
    if pin is None or pin.identity != chain.identity or pin.ref != chain.ref or pin.owner != state.identity:
        return None
    return pin


def abort_change(
    plan: PublishPlan,
    state: State,
    pins: Mapping[str, Pin],
    actor: str | None,
    now_us: int,
    recorded: Collection[str] = (),
) -> Change:
    """The abort rows of a plan, for its id and each request that it owns, and the pins of the tables that were put back.
    ``recorded``: ids that have a record already, by another plan, as the request of an offer may have: a second one would
    contradict it."""
    base = plan.base.manifest_version
    ends = [one for one in plan.ends if one not in recorded]
    rows = tuple(AbortRow(id=one, plan=plan.id, actor=actor, base=base, created_at_us=now_us) for one in ends)
    return Change(pins=dict(pins), history=rows)


def _unknown(plan: PublishPlan, error: OmnigraphError | None) -> OutcomeUnknown:
    full = error is not None and is_full(error)
    return OutcomeUnknown(
        f"write {plan.head} could not be ended: {error}"
        if full
        else f"the deadline passed before write {plan.head} had an outcome",
        hint=f"ask with `omnigraph commit outcome {plan.head}`; its intent {plan.op} is kept and will be recovered",
        commit_id=plan.head,
        operation_id=plan.op,
    )
