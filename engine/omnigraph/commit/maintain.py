"""Upkeep's way through the protocol: commits that keep a table's content, made in a turn and published as a fast-forward.

What was rewritten without a turn is committed while holding a queue position, so that living writers keep their speed. A
version is published only if everything between it and the pin is this run's own; otherwise the table is put back. There is no
equality to check and nothing is forced: a pin that has moved past us makes the work superfluous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omnigraph.commit.advance import FAST_FORWARD, Answer, Answered, GaveUp, Spots, Swap, Swapped, Terms, advance
from omnigraph.commit.builder import Minting, Planned, Work, build_plan
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import End
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import encode_plan
from omnigraph.commit.pins import upkept_pin
from omnigraph.commit.plan import MAINTENANCE, PublishPlan, RequestInfo
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.publish import ended, on_state, publish_change, swap_properties
from omnigraph.commit.queue.arming import Arming, Wanted
from omnigraph.commit.recovery.drift import Drift, TableDrift, find_drift, heal
from omnigraph.commit.steps import IndexTable, RewriteTable
from omnigraph.commit.upkeep_steps import Achieved, AddIndices, UpkeepLine, UpkeepStep
from omnigraph.core import failpoints
from omnigraph.core.errors import InvalidInput, OutcomeUnknown
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, Pin
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held

KIND = MAINTENANCE
TURN_S = 1.0  # commits of one turn; what does not fit goes into the next, so that writers wait no longer than that
BUSY_WAIT_S = 0.5  # writers that do not queue finish in less, or take longer than others should wait for us


# --- the decision (pure) ------------------------------------------------------------------------------------------------


class Forward(Enum):
    """What a turn does about one table when it publishes."""

    NOTHING = "nothing"  # it achieved nothing there
    PUBLISH = "publish"
    SUPERSEDED = "superseded"  # the pin has moved past what was achieved
    UNDO = "undo"  # something between the pin and what was achieved is another writer's
    GONE = "gone"  # the table is not on this branch any more


def fast_forward(*, same_line: bool, pin: int, achieved: int | None, own: frozenset[int], trusted: bool) -> Forward:
    """``own``: the versions that this run's own commits returned; never a count. ``trusted``: the files behind them are
    certain to be there, because no cleanup has begun since they were staged."""
    if not same_line:
        return Forward.GONE
    if achieved is None:
        return Forward.NOTHING
    if pin >= achieved:
        return Forward.SUPERSEDED
    if trusted and all(version in own for version in range(pin + 1, achieved + 1)):
        return Forward.PUBLISH
    return Forward.UNDO


# --- work and what became of it -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UpkeepWork:
    """What is to be committed to one table. ``mark``: the cleanup mark of the state that the work was prepared on."""

    key: str
    pin: Pin
    mark: str | None
    steps: tuple[UpkeepStep, ...]


@dataclass(frozen=True)
class Done:
    """How one table fared: published (from, to), superseded, undone, busy, gone, or left for the next turn."""

    key: str
    state: str
    before: int
    after: int
    reason: str | None = None
    handle: Any = field(default=None, repr=False)
    achieved: Achieved = field(default_factory=Achieved)


@dataclass(frozen=True)
class TurnReport:
    """``commit_id`` is None where nothing was published."""

    commit_id: str | None
    tables: Mapping[str, Done]
    held_s: float = 0.0


PUBLISHED, SUPERSEDED, UNDONE, BUSY, STALE, GONE, LEFT, NOTHING = (
    "published",
    "superseded",
    "undone",
    "busy",
    "stale",
    "gone",
    "left",
    "nothing",
)


def run_turn(
    engine: Engine,
    branch: str,
    works: Sequence[UpkeepWork],
    *,
    actor: str | None,
    deadline_s: float,
    meter: Meter,
    turn_s: float = TURN_S,
) -> TurnReport:
    """One queue position, one intent, one commit for as many of the works as fit into ``turn_s``."""
    if engine.read_only:
        raise InvalidInput("the graph was opened read-only", hint="open it with read_only=False")
    keys = frozenset(work.key for work in works)
    deadline = Deadline(engine.clock, deadline_s)
    line = engine.line_of(branch, meter)
    with engine.writing(meter), engine.locks.holding(line, keys, deadline):
        # A position that a write of this process has kept is for its next write. Nothing else here writes these tables meanwhile.
        engine.leases.release_idle()
        with Arming(engine, Wanted(KIND, line, keys), deadline, meter) as arming:
            arming.enqueue(engine.latest(branch, meter).state)
            arming.admit()
            while arming.overtaken():
                deadline.check("waiting for other writers of the same tables")
                arming.admit()
            return _Turn(engine, branch, actor, arming, meter).run(works, turn_s)


@dataclass
class _Turn:
    engine: Engine
    branch: str
    actor: str | None
    arming: Arming
    meter: Meter

    def run(self, works: Sequence[UpkeepWork], turn_s: float) -> TurnReport:
        engine = self.engine
        ticket = self.arming.op
        if ticket is None:
            raise AssertionError("a turn is held by a queue entry")
        started = engine.clock.monotonic()
        ready, done = self._ready(works, ticket)
        if not ready:
            return TurnReport(None, done)
        with self.arming.planning() as op:
            held = engine.latest(self.branch, self.meter)
            plan = self._plan(held.state, ready, op).plan
            self.arming.follow_ticket(op, encode_plan(plan))
        failpoints.hit("maintain.armed")
        lines = {work.key: UpkeepLine(engine, held.state.tables[work.key], op, plan.id, self.meter) for work in ready}
        try:
            tried: list[UpkeepWork] = []
            for work in ready:
                if tried and engine.clock.monotonic() - started > turn_s:
                    break
                tried.append(work)
                lines[work.key].make(work.steps)
            marks = {work.key: work.mark for work in tried}
            row, held = _publish(engine, plan, {work.key: lines[work.key] for work in tried}, marks, self.meter)
            done.update(_ended(lines, tried, held, row))
            dirty = [key for key, line in lines.items() if line.spoiled or done.get(key, _NONE).state == UNDONE]
            if dirty:
                _undo(engine, self.branch, dirty, (ticket, op), self.meter)
        except BaseException:
            # Effects stand and no end of the turn is known. Its intent stays for recovery, this process's included.
            self.arming.abandon()
            raise
        for work in ready[len(tried) :]:
            done[work.key] = Done(work.key, LEFT, work.pin.version, work.pin.version)
        return TurnReport(row.commit_id if row is not None else None, done, engine.clock.monotonic() - started)

    def _ready(self, works: Sequence[UpkeepWork], op: str) -> tuple[list[UpkeepWork], dict[str, Done]]:
        """Works whose tables are there with nothing above their pins. Garbage is healed; what an operation claims is left."""
        keys = [work.key for work in works]
        held, drifting = _settle(self.engine, self.branch, keys, (op,), BUSY_WAIT_S, self.meter)
        ready: list[UpkeepWork] = []
        done: dict[str, Done] = {}
        for work in works:
            pin = held.state.tables.get(work.key)
            if pin is None or not _same_line(pin, work.pin):
                done[work.key] = _not_done(work, GONE, work.pin, "the table was replaced or dropped")
            elif pin.owner != held.state.identity:
                done[work.key] = _not_done(work, GONE, pin, "its line belongs to another branch")
            elif work.mark != held.state.head.mark:
                done[work.key] = _not_done(work, STALE, pin, "a cleanup began after it was prepared")
            elif work.key in drifting:
                done[work.key] = _not_done(work, BUSY, pin, "a write to it has not ended")
            else:
                ready.append(work)
        return ready, done

    def _plan(self, state: State, ready: Sequence[UpkeepWork], op: str) -> Planned:
        engine = self.engine
        info = RequestInfo(
            id=new_ulid(engine.clock),
            kind=KIND,
            parents=(state.head.commit_id,),
            actor=self.actor,
            idempotency_key=None,
            expect_head=None,
            created_at_us=engine.clock.now_us(),
        )
        steps = tuple(IndexTable(work.key) if _only_indices(work) else RewriteTable(work.key) for work in ready)
        return build_plan(
            state,
            Work(steps),
            op=op,
            graph=engine.graph_id,
            branch=self.branch,
            kind=KIND,
            requests=(info,),
            owner=engine.owner,
            mint=Minting(lambda: new_ulid(engine.clock), new_uuid),
        )


_NONE = Done("", NOTHING, 0, 0)


def _not_done(work: UpkeepWork, state: str, pin: Pin, reason: str) -> Done:
    return Done(work.key, state, pin.version, pin.version, reason)


def _only_indices(work: UpkeepWork) -> bool:
    return all(isinstance(step, AddIndices) for step in work.steps)


def _same_line(a: Pin, b: Pin) -> bool:
    return (a.identity, a.location, a.ref) == (b.identity, b.location, b.ref)


# --- publishing ---------------------------------------------------------------------------------------------------------


def _verdicts(state: State, lines: Mapping[str, UpkeepLine], marks: Mapping[str, str | None]) -> dict[str, Forward]:
    found = {}
    for key, line in lines.items():
        pin = state.tables.get(key)
        found[key] = fast_forward(
            same_line=pin is not None and _same_line(pin, line.pin),
            pin=pin.version if pin is not None else 0,
            achieved=None if line.handle is None else int(line.handle.version),
            own=frozenset(line.own),
            trusted=marks[key] == state.head.mark,
        )
    return found


def _publish(
    engine: Engine,
    plan: PublishPlan,
    lines: Mapping[str, UpkeepLine],
    marks: Mapping[str, str | None],
    meter: Meter,
) -> tuple[CommitRow | None, Held]:
    """Move the pins forward that may be moved. No epoch, no owner, no expected head: the content stays what it is."""

    def propose(held: Held) -> Swap | Answer[CommitRow | None]:
        how, lineage = ended(engine, held, plan, meter)
        if how is not End.OPEN:
            return Answer(next(iter(lineage.commits(plan)), None))
        if held.state.identity != plan.branch.identity or held.state.head.closed is not None:
            return Answer(None)
        ahead = [key for key, verdict in _verdicts(held.state, lines, marks).items() if verdict is Forward.PUBLISH]
        if not ahead:
            return Answer(None)
        pins = {key: upkept_pin(held.state.tables[key], lines[key].handle) for key in ahead}
        counts = {key: (Counts(unchanged=pin.rows),) for key, pin in pins.items()}
        change = on_state(publish_change(plan, pins, counts), held.state, plan)
        return Swap(change, swap_properties(plan, change))

    outcome = advance(
        engine,
        plan.branch,
        propose,
        Terms(FAST_FORWARD, spots=Spots("maintain.before_swap", "maintain.after_swap")),
        meter=meter,
    )
    if isinstance(outcome, Answered):
        return outcome.value, outcome.held
    if isinstance(outcome, Swapped):
        row = outcome.held.state.in_tail(plan.head)
        return (row if isinstance(row, CommitRow) else None), outcome.held
    assert isinstance(outcome, GaveUp)
    raise OutcomeUnknown(
        f"the turn of upkeep {plan.head} could not be published; its intent {plan.op} is kept and will be undone",
        hint=f"ask with `omnigraph commit outcome {plan.head}`, then run it again",
        commit_id=plan.head,
        operation_id=plan.op,
    ) from outcome.error


def _ended(
    lines: Mapping[str, UpkeepLine], tried: Sequence[UpkeepWork], held: Held, row: CommitRow | None
) -> dict[str, Done]:
    """What became of each table that was tried."""
    found = {}
    for work in tried:
        line = lines[work.key]
        before = line.pin.version
        if row is not None and work.key in row.tables:
            after = row.tables[work.key].version
            found[work.key] = Done(work.key, PUBLISHED, before, after, line.reason, line.handle, line.achieved)
            continue
        pin = held.state.tables.get(work.key)
        if line.handle is None:
            state, why = (UNDONE, line.reason) if line.spoiled else (NOTHING, line.reason)
        elif pin is None or not _same_line(pin, line.pin):
            state, why = GONE, "the table was replaced or dropped"
        elif pin.version >= line.handle.version:
            state, why = SUPERSEDED, f"version {pin.version} was published meanwhile"
        else:
            state, why = UNDONE, line.reason or "another writer or a cleanup came in between"
        now = pin.version if pin is not None else before
        found[work.key] = Done(work.key, state, before, now, why, achieved=line.achieved)
    return found


def _undo(engine: Engine, branch: str, keys: Sequence[str], ops: Sequence[str], meter: Meter) -> None:
    """Put back what this turn leaves above the pins, a version that only reserved numbers included."""
    _settle(engine, branch, keys, ops, engine.timing.grace_s, meter)


def _settle(
    engine: Engine, branch: str, keys: Sequence[str], ops: Sequence[str], wait_s: float, meter: Meter
) -> tuple[Held, dict[str, TableDrift]]:
    """Heal what no operation claims above the pins of these tables, and give writers at work there a moment to end. ``ops``: our own.

    The pause here repeats no swap: it waits for the plans of others to end. What ``heal`` swaps goes through ``advance``."""
    own = frozenset(ops)
    started = engine.clock.monotonic()
    while True:
        held, drifting = find_drift(engine, branch, keys, own_ops=own, meter=meter)
        if not drifting:
            return held, drifting
        over = engine.clock.monotonic() - started >= wait_s
        if any(drift.state is not Drift.BUSY for drift in drifting.values()):
            heal(engine, branch, drifting, own_ops=own, meter=meter)
            if over:
                return find_drift(engine, branch, keys, own_ops=own, meter=meter)
        elif over:
            return held, drifting
        engine.clock.sleep(engine.timing.poll_s())
