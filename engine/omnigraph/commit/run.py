"""One graph write from capture to disarm: the only path on which anything is committed.

``run`` takes functions: what is to be prepared and staged is somebody else's; when which request is sent, what happens if
one of them fails, and what the caller is told, is decided here. From the moment an intent is armed no exception leaves a
write raw: it ends published, aborted, or as ``OutcomeUnknown``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph.commit import live
from omnigraph.commit.apply import Applied, Landing, apply
from omnigraph.commit.compensate import OP_PROPERTY, Aborted, WasPublished, end_by_abort
from omnigraph.commit.conflicts import after_refusal, key_row
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import Check
from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.intent import encode_plan
from omnigraph.commit.manners import FrontWatch
from omnigraph.commit.pins import landed_pins, stats_of_pin, with_stats
from omnigraph.commit.plan import (
    Base,
    BranchName,
    CommitInfo,
    Counts,
    Delta,
    PublishPlan,
    ReadPin,
    TablePlan,
)
from omnigraph.commit.pressure import INTENTS, Level, Pressure, weigh
from omnigraph.commit.publish import NotPublished, Published, confirm, on_state, publish, publish_change
from omnigraph.commit.recover import COUNTS_PROPERTY, help_or_wait
from omnigraph.commit.tickets import Turn
from omnigraph.commit.txn import Txn, open_txn, still_newest
from omnigraph.core import failpoints, operation, progress
from omnigraph.core.errors import (
    Conflict,
    InvalidInput,
    OmnigraphError,
    OutcomeUnknown,
    PreconditionFailed,
    WriterFenced,
)
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, Pin, TableChange
from omnigraph.manifest.swap import Held, Written
from omnigraph.table.dataset import predict_stats


@dataclass(frozen=True)
class Action:
    """What happens to one table. ``stage`` writes files and returns the transaction that nobody has committed yet."""

    key: str
    stage: Callable[[Any, Meter], Any]
    counts: Counts
    landed: Callable[[Any], None] | None = None  # told the handle once it is published: own writes go into caches


@dataclass(frozen=True)
class Prepared:
    """A write, validated against the pins of one transaction."""

    actions: tuple[Action, ...]
    reads: frozenset[str] = frozenset()
    revalidate: Callable[[Txn], bool] | None = None  # may the plan go on although tables that it only read have moved?
    stage_first: bool = False  # staging takes long: it ends before the intent is armed
    delta: Delta = field(default_factory=Delta)


@dataclass(frozen=True)
class Request:
    """What the caller asked for, apart from the data."""

    kind: str
    branch: str
    keys: frozenset[str]  # tables that may be written: locked in this process, queued for between processes
    actor: str | None = None
    idempotency_key: str | None = None
    expect_head: str | None = None
    deadline_s: float = 60.0


@dataclass(frozen=True)
class Outcome:
    """How the write ended. ``row`` is None where nothing had to change."""

    row: CommitRow | None
    replayed: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Retry:
    """The plan has ended by an abort, or nothing of it was ever sent; prepare again."""

    error: OmnigraphError | None


def run(engine: Engine, request: Request, prepare: Callable[[Txn], Prepared | None], meter: Meter) -> Outcome:
    """Prepare and publish until it is published, refused for a reason that lasts, or the deadline has passed."""
    _check_request(engine, request)
    deadline = Deadline(engine.clock, request.deadline_s)
    last: OmnigraphError | None = None
    pressure: Pressure | None = None
    with engine.writing(meter), engine.locks.holding(request.branch, request.keys, deadline), engine.manners.writing():
        with Turn(engine, request, deadline, meter) as turn:
            turn.resume()
            while True:
                deadline.check("writing", last)
                newest = turn.wait()
                txn = open_txn(engine, request.branch, deadline=deadline, meter=meter, newest=newest)
                if turn.missing:
                    turn.take(txn.state)
                    continue
                early = _early_answer(engine, request, txn)
                if early is not None:
                    return early
                if pressure is None:
                    pressure = _feel(engine, request, txn)
                    if pressure.level is Level.SLOW:
                        continue
                prepared = _prepare(txn, prepare)
                if prepared is _MOVED:
                    continue
                if prepared is None:
                    return Outcome(None)
                started = engine.clock.monotonic()
                ended = _attempt(engine, request, txn, prepared, turn)
                if isinstance(ended, Outcome):
                    if not prepared.stage_first:
                        engine.manners.note_commit(engine.clock.monotonic() - started)
                    return ended if pressure.level is Level.NONE else _warned(ended, pressure)
                engine.manners.note_neighbour()
                last = ended.error or last
                operation.note(operation.CONFLICTS)


# --- before anything is durable -----------------------------------------------------------------------------------------


def _check_request(engine: Engine, request: Request) -> None:
    if engine.read_only:
        raise InvalidInput("the graph was opened read-only", hint="open it with read_only=False to write")
    for name, value in (("actor", request.actor), ("idempotency_key", request.idempotency_key)):
        if value is not None:
            engine.limits.check(f"{name}_bytes", len(value.encode()))
    engine.limits.check("tables_per_commit", len(request.keys))
    engine.ref_of(request.branch)


def _feel(engine: Engine, request: Request, txn: Txn) -> Pressure:
    """Once a write: refuse it, or let it wait, where upkeep is too far behind."""
    pressure = weigh(txn.state, request.keys, engine.intents.seen, engine.bounds)
    if pressure.metric == INTENTS:
        # The figure is from the last listing, whenever that was; before it counts against a write it is taken again.
        engine.intents.names(txn.meter)
        pressure = weigh(txn.state, request.keys, engine.intents.seen, engine.bounds)
    if pressure.level is Level.FAIL:
        raise pressure.refusal()
    if pressure.level is Level.SLOW:
        engine.clock.sleep(min(pressure.pause_s, max(0.0, txn.deadline.left() / 2)))
    return pressure


def _warned(outcome: Outcome, pressure: Pressure) -> Outcome:
    warning = f"{pressure.message}; run `{pressure.typed}`"
    return replace(outcome, warnings=(*outcome.warnings, warning))


def _early_answer(engine: Engine, request: Request, txn: Txn) -> Outcome | None:
    """A known idempotency key is answered with its receipt, a precondition that fails with an error; both only from a
    state that is certainly the newest."""
    if request.idempotency_key is not None:
        row = engine.history.find_key(txn.held, request.idempotency_key, meter=txn.meter)
        if row is not None:
            return Outcome(row, replayed=True)
    head = txn.state.head
    if head.owner is not None and head.owner != engine.exclusive_token:
        if not still_newest(txn):
            return None
        raise WriterFenced(f"the graph is used exclusively by {head.owner}", owner=head.owner, epoch=head.epoch)
    if request.expect_head is not None and txn.state.head.commit_id != request.expect_head:
        if not still_newest(txn):
            return None
        raise PreconditionFailed(
            f"the head of {request.branch} is {txn.state.head.commit_id}, not {request.expect_head}",
            expected=request.expect_head,
            actual=txn.state.head.commit_id,
        )
    return None


_MOVED = Prepared(())


def _prepare(txn: Txn, prepare: Callable[[Txn], Prepared | None]) -> Prepared | None:
    """A refusal or a no-op is an answer without a swap, so it must come from a state that is certainly the newest."""
    try:
        prepared = prepare(txn)
    except (InvalidInput, Conflict):
        if still_newest(txn):
            raise
        return _MOVED
    if prepared is None or not prepared.actions:
        return None if still_newest(txn) else _MOVED
    return prepared


def _plan(engine: Engine, request: Request, txn: Txn, prepared: Prepared, op: str) -> PublishPlan:
    state = txn.state
    tables = []
    for action in sorted(prepared.actions, key=lambda action: action.key):
        pin = txn.pin(action.key)
        tables.append(TablePlan(action.key, pin.identity, pin.location, pin.ref, pin.version, (new_uuid(),)))
    written = {table.key for table in tables}
    reads = []
    for key in sorted(prepared.reads - written):
        pin = txn.pin(key)
        reads.append(ReadPin(key, pin.identity, pin.ref, pin.version))
    return PublishPlan(
        graph=engine.graph_id,
        op=op,
        kind=request.kind,
        branch=BranchName(request.branch, state.identity),
        base=Base(state.version, state.head.commit_id, state.head.epoch, state.head.mark, state.schema.hash),
        tables=tuple(tables),
        reads=tuple(reads),
        commit=CommitInfo(
            id=new_ulid(engine.clock),
            parents=(state.head.commit_id,),
            actor=request.actor,
            idempotency_key=request.idempotency_key,
            expect_head=request.expect_head,
            created_at_us=engine.clock.now_us(),
        ),
        owner=engine.owner,
        delta=prepared.delta,
    )


# --- one plan from A to D -----------------------------------------------------------------------------------------------


def _attempt(engine: Engine, request: Request, txn: Txn, prepared: Prepared, turn: Turn) -> Outcome | _Retry:
    meter = txn.meter
    queued = turn.op is not None
    op = turn.op or new_ulid(engine.clock)
    plan = _plan(engine, request, txn, prepared, op)
    data = encode_plan(plan)
    started = engine.clock.monotonic()
    if not queued:
        live.begin(op)
    try:
        rows = sum(action.counts.inserted + action.counts.updated for action in prepared.actions)
        with progress.phase("writing", total=rows):
            ready = _stage_and_arm(engine, plan, txn, prepared, data, turn, meter)
        if ready is None:
            return _Retry(None)
        handles, staged = ready
        operation.note(operation.ATTEMPTS)
        try:
            with progress.phase("publishing", unit="tables", total=len(plan.tables)):
                pins = _predicted_pins(plan, txn, handles, staged)
                written, results = _apply(engine, plan, txn, prepared, handles, staged, pins, turn, meter)
                if not prepared.stage_first:
                    engine.manners.note_work(engine.clock.monotonic() - started)
                ended = _publish_or_abort(engine, plan, txn, prepared, pins, written, results, meter)
                outcome = _conclude(engine, request, plan, prepared, ended, results, turn, meter)
                progress.advance(len(plan.tables))
        except BaseException as error:
            # Table commits were sent and the plan has no end that we know of. Its intent stays for whoever comes.
            turn.leave()
            if not isinstance(error, Exception):
                raise
            raise _unknown(plan, error) from error
        if isinstance(outcome, OmnigraphError):
            raise outcome
        return outcome
    finally:
        if not queued:  # else it lives as long as its turn
            live.end(op)


def _unknown(plan: PublishPlan, error: Exception) -> OutcomeUnknown:
    if isinstance(error, OutcomeUnknown) and error.facts.get("commit_id") == plan.commit.id:
        return error
    return OutcomeUnknown(
        f"write {plan.commit.id} was interrupted before it had an outcome: {error}",
        hint=f"ask with `omnigraph commit outcome {plan.commit.id}`; do not repeat the write blindly",
        commit_id=plan.commit.id,
        operation_id=plan.op,
    )


def _stage(txn: Txn, action: Action) -> tuple[Any, Any]:
    """The handle and the transaction. A table that is not open yet is opened beside the others, and beside the intent."""
    handle = txn.handle(action.key)
    return handle, action.stage(handle, txn.meter)


def _stage_and_arm(
    engine: Engine,
    plan: PublishPlan,
    txn: Txn,
    prepared: Prepared,
    data: bytes,
    turn: Turn,
    meter: Meter,
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Data files, and the intent beside them: handles and transactions. None: it was not our turn after all; nothing was
    sent."""
    if prepared.stage_first and not turn.dwell(txn.state):
        return None
    meter.step()
    staging = [engine.spawn(_stage, txn, action) for action in prepared.actions]
    try:
        if turn.op is not None:
            # A short staging goes on while the ticket becomes the plan; a long one needs the ticket's signs of life.
            older = turn.someone_older()
            if older or prepared.stage_first:
                gather(staging)
            if older:
                return None
            meter.step()
            armed = turn.arm(data)
            ready = gather(staging)
            if not armed:
                return None
        elif prepared.stage_first:
            ready = gather(staging)
            meter.step()
            failpoints.hit("arm.before")
            engine.intents.arm(plan.op, data, meter)
        else:
            failpoints.hit("arm.before")
            arming = engine.spawn(engine.intents.arm, plan.op, data, meter)
            *ready, _ = gather([*staging, arming])
        failpoints.hit("arm.after")
    except BaseException:
        try:
            wait(staging)  # nothing of ours still runs when the caller sees the error
        finally:
            # No table commit was sent, so nothing can become visible: the intent may go, if it is there at all.
            engine.intents.disarm(plan.op)
        raise
    handles: dict[str, Any] = {}
    staged: dict[str, Any] = {}
    for action, (handle, transaction) in zip(prepared.actions, ready, strict=True):
        table = plan.table(action.key)
        if table is None:
            raise AssertionError("every action has a table in the plan")
        transaction.uuid = table.uuids[0]
        transaction.transaction_properties = {
            OP_PROPERTY: plan.op,
            "omnigraph:commit": plan.commit.id,
            COUNTS_PROPERTY: json.dumps(action.counts.to_json(), sort_keys=True),
        }
        handles[action.key], staged[action.key] = handle, transaction
    return handles, staged


def _apply(
    engine: Engine,
    plan: PublishPlan,
    txn: Txn,
    prepared: Prepared,
    handles: Mapping[str, Any],
    staged: Mapping[str, Any],
    pins: Mapping[str, Pin] | None,
    turn: Turn,
    meter: Meter,
) -> tuple[Written | None, dict[str, Applied]]:
    """Table commits, and beside them the manifest's data file, written for the state that they should lead to."""
    meter.step(3)
    serial = engine.manners.contended and turn.op is None
    ahead = None if pins is None else engine.spawn(_write_ahead, engine, plan, txn, prepared, pins, meter)
    results = apply(engine, plan, staged, handles, serial=serial, meter=meter)
    written: Written | None = None
    with contextlib.suppress(OmnigraphError):  # the publish writes it again
        written = None if ahead is None else ahead.result()
    return written, results


def _counts(plan: PublishPlan, prepared: Prepared) -> dict[str, TableChange]:
    found = {}
    for action in prepared.actions:
        table = plan.table(action.key)
        if table is not None:
            found[action.key] = TableChange(table.identity, table.ref, table.target, "write", **action.counts.to_json())
    return found


def _predicted_pins(
    plan: PublishPlan, txn: Txn, handles: Mapping[str, Any], staged: Mapping[str, Any]
) -> dict[str, Pin] | None:
    """The pins that this plan publishes if every table lands at its place."""
    pins = {}
    for table in plan.tables:
        pin = txn.pin(table.key)
        stats = predict_stats(stats_of_pin(pin), handles[table.key], staged[table.key])
        if stats is None:
            return None
        pins[table.key] = with_stats(pin, table.target, stats)
    return pins


def _write_ahead(
    engine: Engine, plan: PublishPlan, txn: Txn, prepared: Prepared, pins: Mapping[str, Pin], meter: Meter
) -> Written:
    change = on_state(publish_change(plan, pins, _counts(plan, prepared)), txn.held, plan)
    return engine.manifest.write(txn.held, change, meter)


@dataclass(frozen=True)
class _Ended:
    """How a plan ended, and why if it was not by its publish."""

    how: Published | WasPublished | Aborted
    refusal: NotPublished | None = None


def _publish_or_abort(
    engine: Engine,
    plan: PublishPlan,
    txn: Txn,
    prepared: Prepared,
    pins: Mapping[str, Pin] | None,
    written: Written | None,
    results: Mapping[str, Applied],
    meter: Meter,
) -> _Ended:
    refusal: NotPublished | None = None
    if all(result.landing is Landing.EXACT for result in results.values()):
        if pins is None:
            pins = landed_pins(txn.held, plan, {key: result.handle for key, result in results.items()})
        change = publish_change(plan, pins, _counts(plan, prepared))
        meter.step(2)
        result = publish(
            engine,
            plan,
            change,
            held=txn.held,
            written=written,
            revalidate=_revalidator(txn, prepared),
            meter=meter,
        )
        if isinstance(result, Published):
            return _Ended(result)
        refusal = result
    engine.manners.note_neighbour()
    # A refused table holds nothing of ours. It is looked at all the same: what refused us may be left from a dead operation,
    # and would refuse us again. Who is alive keeps the right of way there.
    touched = {
        key: one.landing is Landing.UNKNOWN
        for key, one in results.items()
        if one.may_stand or one.landing is Landing.REFUSED
    }
    watch = FrontWatch(engine.manners, engine.clock)
    how = end_by_abort(
        engine,
        plan,
        touched,
        actor=plan.commit.actor,
        # A plan under way is brought to its end even when the caller's time is nearly up: an outcome beats a date.
        deadline=Deadline(engine.clock, max(txn.deadline.left(), 4 * engine.manners.grace_s)),
        give_way=lambda other, rank: help_or_wait(engine, other, watch=watch, meter=meter, rank=rank),
        meter=meter,
    )
    return _Ended(how, refusal)


def _revalidator(txn: Txn, prepared: Prepared) -> Callable[[Held], bool] | None:
    again = prepared.revalidate
    if again is None:
        return None
    return lambda held: again(replace(txn, held=held, _pinned={}))


def _conclude(
    engine: Engine,
    request: Request,
    plan: PublishPlan,
    prepared: Prepared,
    ended: _Ended,
    results: Mapping[str, Applied],
    turn: Turn,
    meter: Meter,
) -> Outcome | _Retry | OmnigraphError:
    """Disarm, look at the boundary, and say what happened. A refusal that lasts is returned, not raised."""
    how = ended.how
    meter.step()
    if isinstance(how, Published) and how.fresh:
        row = how.row
        failpoints.hit("disarm.before")
        disarming = None if turn.may_keep() else engine.spawn(engine.intents.disarm, plan.op, meter)
        confirmed = confirm(engine, request.branch, how.held, plan.commit.id, meter)
        if disarming is None and confirmed is not None:
            turn.keep()
            warning = None
        else:
            warning = engine.intents.disarm(plan.op, meter) if disarming is None else disarming.result()
            turn.ended()
        warning = warning or turn.left_behind()
        failpoints.hit("disarm.after")
        if confirmed is None:
            # Our version was a ghost. The intent is gone, but who has read it before may still publish the plan: it ends
            # when one of the two records is durable.
            again = end_by_abort(
                engine,
                plan,
                dict.fromkeys(results, False),
                actor=plan.commit.actor,
                deadline=Deadline(engine.clock, 4 * engine.manners.grace_s),
                give_way=lambda _op, _rank: False,
                meter=meter,
                record=True,
            )
            if isinstance(again, Aborted):
                return _Retry(None)
            engine.remember(request.branch, again.held)
            row = again.row
        _tell(prepared, results)
        return Outcome(row, warnings=() if warning is None else (warning.message,))
    refused = ended.refusal.check if ended.refusal is not None else None
    lasts = refused is not None and refused.check in _LASTING
    if isinstance(how, Aborted) and not lasts and turn.hold(how.held.state):
        return _Retry(after_refusal(plan, ended.refusal, how.held))
    warning = engine.intents.disarm(plan.op, meter)
    turn.ended()
    if isinstance(how, Published | WasPublished):
        engine.remember(request.branch, how.held)
        _tell(prepared, results)
        return Outcome(how.row, warnings=() if warning is None else (warning.message,))
    if refused is not None and refused.check is Check.KEY_TAKEN:
        return Outcome(key_row(refused), replayed=True)
    error = after_refusal(plan, ended.refusal, how.held)
    return error if lasts else _Retry(error)


_LASTING = (Check.KEY_TAKEN, Check.HEAD_MOVED, Check.FENCED, Check.BRANCH_GONE)


def _tell(prepared: Prepared, results: Mapping[str, Applied]) -> None:
    for action in prepared.actions:
        handle = results[action.key].handle
        if action.landed is not None and handle is not None and results[action.key].landing is Landing.EXACT:
            action.landed(handle)
