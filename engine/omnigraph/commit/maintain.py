"""Upkeep's way through the protocol: commits that keep a table's content, made in a turn and published as a fast-forward.

What was rewritten without a turn is committed while holding one, like a writer that queues, so that living writers keep
their speed. A version is published only if everything between it and the pin is this run's own; otherwise the table is put
back. There is no equality to check and nothing is forced: a pin that has moved past us makes the work superfluous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omnigraph.commit.compensate import OP_PROPERTY
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.heal import Drift, TableDrift, find_drift, heal
from omnigraph.commit.intent import encode_plan
from omnigraph.commit.pins import with_stats
from omnigraph.commit.plan import Base, BranchName, CommitInfo, PublishPlan, TablePlan
from omnigraph.commit.publish import confirm, lineage, on_state, publish_change
from omnigraph.commit.run import Request
from omnigraph.commit.tickets import Turn
from omnigraph.core import failpoints
from omnigraph.core.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, Pin, TableChange
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held, SwapLost, SwapUnknown
from omnigraph.table.dataset import CommitUnknown, NotLanded, TableRef, stats_of

KIND = "maintenance"
TURN_S = 1.0  # commits of one turn; what does not fit goes into the next, so that writers wait no longer than that
BUSY_WAIT_S = 0.5  # writers that do not queue finish in less, or take longer than others should wait for us
PUBLISH_ATTEMPTS_MAX = 60  # losing the swap to writers of other tables costs nothing but the next look


# --- the decision (pure) ------------------------------------------------------------------------------------------------


class Forward(Enum):
    """What a turn does about one table when it publishes."""

    NOTHING = "nothing"  # it achieved nothing there
    PUBLISH = "publish"
    SUPERSEDED = "superseded"  # the pin has moved past what was achieved
    UNDO = "undo"  # something between the pin and what was achieved is somebody else's
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


@dataclass
class Line:
    """One table in a turn: commits go through it, and it notes which versions are ours."""

    engine: Engine
    pin: Pin
    op: str
    commit_id: str
    meter: Meter
    own: set[int] = field(default_factory=set)
    handle: Any = None
    spoiled: bool = False  # something was sent that may stand above what was achieved
    reason: str | None = None

    @property
    def ref(self) -> TableRef:
        return TableRef(self.pin.location, self.pin.ref)

    @property
    def top(self) -> int:
        """The newest version that this run knows to be published or its own."""
        return self.pin.version if self.handle is None else int(self.handle.version)

    @property
    def current(self) -> Any:
        """The handle at ``top``."""
        return self.engine.tables.open(self.ref, self.top, self.meter) if self.handle is None else self.handle

    @property
    def properties(self) -> dict[str, str]:
        return {OP_PROPERTY: self.op, "omnigraph:commit": self.commit_id}

    def send(self, commit: Callable[[], Any], versions: int) -> bool:
        """Make one commit that adds ``versions`` versions. False: it did not land where it should; stop with this table."""
        top = self.top
        failpoints.hit("maintain.before_commit", table_key=self.pin.key)
        try:
            landed = commit()
        except (NotLanded, CommitUnknown) as error:
            self.spoiled = True
            self.reason = str(error)
            return False
        failpoints.hit("maintain.after_commit", table_key=self.pin.key)
        if landed.version != top + versions:
            self.spoiled = True
            self.reason = f"another writer committed in between: version {landed.version}, not {top + versions}"
            return False
        self.own.update(range(top + 1, landed.version + 1))
        self.handle = landed
        return True


@dataclass(frozen=True)
class Work:
    """What is to be committed to one table. ``commit`` uses the line; what it raises beyond Lance's answers ends the turn.

    ``mark``: the cleanup mark of the state that the work was prepared on."""

    key: str
    pin: Pin
    mark: str | None
    commit: Callable[[Line], None]


@dataclass(frozen=True)
class Done:
    """How one table fared: published (from, to), superseded, undone, busy, gone, or left for the next turn."""

    key: str
    state: str
    before: int
    after: int
    reason: str | None = None
    handle: Any = field(default=None, repr=False)


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
    works: Sequence[Work],
    *,
    actor: str | None,
    deadline_s: float,
    meter: Meter,
    turn_s: float = TURN_S,
) -> TurnReport:
    """One ticket, one intent, one commit for as many of the works as fit into ``turn_s``."""
    if engine.read_only:
        raise InvalidInput("the graph was opened read-only", hint="open it with read_only=False")
    keys = frozenset(work.key for work in works)
    request = Request(KIND, branch, keys, actor, deadline_s=deadline_s)
    deadline = Deadline(engine.clock, deadline_s)
    with engine.writing(meter), engine.locks.holding(branch, keys, deadline):
        with Turn(engine, request, deadline, meter) as turn:
            turn.take(engine.latest(branch, meter).state)
            turn.wait()
            while turn.someone_older():
                deadline.check("waiting for other writers of the same tables")
                turn.wait()
            return _in_turn(engine, request, works, turn, turn_s, meter)


def _in_turn(
    engine: Engine, request: Request, works: Sequence[Work], turn: Turn, turn_s: float, meter: Meter
) -> TurnReport:
    op = turn.op
    if op is None:
        raise AssertionError("a turn is held by a ticket")
    started = engine.clock.monotonic()
    ready, done = _ready(engine, request.branch, works, op, meter)
    if not ready:
        return TurnReport(None, done)
    held = engine.latest(request.branch, meter)
    plan = _plan(engine, request, held.state, [work.key for work in ready], op)
    lines = {work.key: Line(engine, held.state.tables[work.key], op, plan.commit.id, meter) for work in ready}
    turn.arm(encode_plan(plan))
    failpoints.hit("maintain.armed")
    try:
        tried: list[Work] = []
        for work in ready:
            if tried and engine.clock.monotonic() - started > turn_s:
                break
            tried.append(work)
            work.commit(lines[work.key])
        trusted = {work.key: work.mark for work in tried}
        row, held = _publish(engine, plan, {work.key: lines[work.key] for work in tried}, trusted, meter)
        done.update(_ended(lines, tried, held, row))
        dirty = [key for key, line in lines.items() if line.spoiled or done.get(key, _NONE).state == UNDONE]
        if dirty:
            _undo(engine, request.branch, dirty, op, meter)
    except BaseException:
        # Effects stand and the turn has no end that we know of. Its intent stays for whoever comes, this process included.
        turn.leave()
        raise
    for work in ready[len(tried) :]:
        done[work.key] = Done(work.key, LEFT, work.pin.version, work.pin.version)
    return TurnReport(row.commit_id if row is not None else None, done, engine.clock.monotonic() - started)


_NONE = Done("", NOTHING, 0, 0)


def _ready(
    engine: Engine, branch: str, works: Sequence[Work], op: str, meter: Meter
) -> tuple[list[Work], dict[str, Done]]:
    """Works whose tables are there with nothing above their pins. Rubbish is healed; what is somebody's is left to him."""
    keys = [work.key for work in works]
    held, drifting = _settle(engine, branch, keys, op, BUSY_WAIT_S, meter)
    ready: list[Work] = []
    done: dict[str, Done] = {}
    for work in works:
        pin = held.state.tables.get(work.key)
        if pin is None or not _same_line(pin, work.pin):
            done[work.key] = Done(
                work.key, GONE, work.pin.version, work.pin.version, "the table was replaced or dropped"
            )
        elif work.mark != held.state.head.mark:
            done[work.key] = Done(work.key, STALE, pin.version, pin.version, "a cleanup began after it was prepared")
        elif work.key in drifting:
            done[work.key] = Done(work.key, BUSY, pin.version, pin.version, "a write to it has not ended")
        else:
            ready.append(work)
    return ready, done


def _same_line(a: Pin, b: Pin) -> bool:
    return (a.identity, a.location, a.ref) == (b.identity, b.location, b.ref)


def _plan(engine: Engine, request: Request, state: State, keys: Sequence[str], op: str) -> PublishPlan:
    """The intent of a turn. Its transactions cannot be named before they are made, so the uuids stand for nothing."""
    tables = []
    for key in sorted(keys):
        pin = state.tables[key]
        tables.append(TablePlan(key, pin.identity, pin.location, pin.ref, pin.version, (new_uuid(),)))
    return PublishPlan(
        graph=engine.graph_id,
        op=op,
        kind=KIND,
        branch=BranchName(request.branch, state.identity),
        base=Base(state.version, state.head.commit_id, state.head.epoch, state.head.mark, state.schema.hash),
        tables=tuple(tables),
        reads=(),
        commit=CommitInfo(
            id=new_ulid(engine.clock),
            parents=(state.head.commit_id,),
            actor=request.actor,
            idempotency_key=None,
            expect_head=None,
            created_at_us=engine.clock.now_us(),
        ),
        owner=engine.owner,
    )


# --- publishing ---------------------------------------------------------------------------------------------------------


def _verdicts(state: State, lines: Mapping[str, Line], marks: Mapping[str, str | None]) -> dict[str, Forward]:
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
    engine: Engine, plan: PublishPlan, lines: Mapping[str, Line], marks: Mapping[str, str | None], meter: Meter
) -> tuple[CommitRow | None, Held]:
    """Move the pins forward that may be moved. No epoch, no owner, no expected head: the content stays what it is."""
    branch = plan.branch.name
    for attempt in range(1, PUBLISH_ATTEMPTS_MAX + 1):
        if attempt > 1:
            engine.clock.sleep(engine.manners.jitter_s(min(attempt, 6)))
        try:
            held = engine.latest(branch, meter)
            own, _ = lineage(engine, held, plan, meter)
            if own is not None:
                return (own if isinstance(own, CommitRow) else None), held
            if held.state.identity != plan.branch.identity:
                return None, held
            ahead = [key for key, verdict in _verdicts(held.state, lines, marks).items() if verdict is Forward.PUBLISH]
            if not ahead:
                return None, held
            pins = {
                key: with_stats(held.state.tables[key], lines[key].handle.version, stats_of(lines[key].handle))
                for key in ahead
            }
            counts = {
                key: TableChange(pin.identity, pin.ref, pin.version, unchanged=pin.rows) for key, pin in pins.items()
            }
            change = on_state(publish_change(plan, pins, counts), held, plan)
            written = engine.manifest.write(held, change, meter)
            failpoints.hit("maintain.before_swap")
            after = engine.manifest.swap(
                held,
                written,
                uuid=new_uuid(),
                properties={OP_PROPERTY: plan.op, "omnigraph:commit": plan.commit.id},
                meter=meter,
            )
            failpoints.hit("maintain.after_swap")
        except (SwapLost, SwapUnknown, StoreUnavailable):
            continue
        confirmed = confirm(engine, branch, after, plan.commit.id, meter)
        if confirmed is not None:
            row = engine.history.find(confirmed, plan.commit.id, meter=meter)
            return (row if isinstance(row, CommitRow) else None), confirmed
    raise OutcomeUnknown(
        f"the turn of upkeep {plan.commit.id} could not be published; its intent {plan.op} is kept and will be undone",
        hint=f"ask with `omnigraph commit outcome {plan.commit.id}`, then run it again",
        commit_id=plan.commit.id,
        operation_id=plan.op,
    )


def _ended(lines: Mapping[str, Line], tried: Sequence[Work], held: Held, row: CommitRow | None) -> dict[str, Done]:
    """What became of each table that was tried."""
    found = {}
    for work in tried:
        line = lines[work.key]
        before = line.pin.version
        if row is not None and work.key in row.tables:
            after = row.tables[work.key].version
            found[work.key] = Done(work.key, PUBLISHED, before, after, line.reason, line.handle)
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
        found[work.key] = Done(work.key, state, before, pin.version if pin is not None else before, why)
    return found


def _undo(engine: Engine, branch: str, keys: Sequence[str], op: str, meter: Meter) -> None:
    """Put back what this turn leaves above the pins, a version that only reserved numbers included."""
    _settle(engine, branch, keys, op, engine.manners.grace_s, meter)


def _settle(
    engine: Engine, branch: str, keys: Sequence[str], op: str, wait_s: float, meter: Meter
) -> tuple[Held, dict[str, TableDrift]]:
    """Heal what is nobody's above the pins of these tables, and give those who are at work there a moment to end."""
    own = frozenset({op})
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
        engine.clock.sleep(engine.manners.poll_s())
