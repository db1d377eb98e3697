"""One graph write, from capturing the state to deleting its intent.

``run`` takes a function that prepares the write; when which request is sent, what happens if one fails, and what the caller
gets, is decided here. From the moment an intent is armed every write ends published, aborted, or as ``OutcomeUnknown``:
no other exception leaves it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from omnigraph.commit.builder import Planned
from omnigraph.commit.conflicts import after_refusal, key_row, mismatch
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import Check, same_request
from omnigraph.commit.effects import RULES
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import encode_plan
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.pressure import Level, Pressure
from omnigraph.commit.protocol.admission import apply_back_pressure, check_request, early_answer, warned
from omnigraph.commit.protocol.ahead import confirm, predicted_pins, remember_own_rows, write_ahead
from omnigraph.commit.protocol.apply import Applied, Landing, Sending, apply, first_is_staged
from omnigraph.commit.protocol.compensate import Aborted, WasPublished, end_by_abort
from omnigraph.commit.protocol.give_way import give_way_to_others, time_to_end
from omnigraph.commit.protocol.newest_rows import landed
from omnigraph.commit.protocol.own_lines import inherited, own_lines
from omnigraph.commit.protocol.planning import plan_of
from omnigraph.commit.protocol.publish import NotPublished, Published, publish, publish_change
from omnigraph.commit.queue.arming import Arming
from omnigraph.commit.request import MetOthers, Outcome, PrepareAgain, Prepared, Request
from omnigraph.commit.steps import Staged, stage
from omnigraph.commit.txn import Txn, open_txn, still_newest
from omnigraph.core import operation, progress
from omnigraph.core.errors import (
    Conflict,
    InvalidInput,
    OmnigraphError,
    OutcomeUnknown,
)
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.swap import Held, Written

Prepare = Callable[[Txn], Prepared | None]


@dataclass(frozen=True)
class _Retry:
    """The plan has ended by an abort, or nothing of it was ever sent; prepare again."""

    error: OmnigraphError | None
    contended: bool = True


def run(engine: Engine, request: Request, prepare: Prepare, meter: Meter) -> Outcome:
    """Prepare and publish until it is published, refused for a reason that lasts, or the deadline has passed."""
    check_request(engine, request, meter)
    deadline = Deadline(engine.clock, request.deadline_s)
    line = engine.line_of(request.branch, meter)
    last: OmnigraphError | None = None
    pressure: Pressure | None = None
    with engine.writing(meter), engine.locks.holding(line, request.keys, deadline), engine.timing.writing() as span:
        with Arming.of(engine, request, line, deadline, meter) as arming:
            while True:
                deadline.check("writing", last)
                if request.leaves and engine.timing.contended:
                    span.goes_on = True
                    raise MetOthers
                newest = arming.admit()
                txn = open_txn(engine, request.branch, deadline=deadline, meter=meter, newest=newest)
                if arming.wait_first(txn):
                    continue
                if not request.several:
                    early = early_answer(engine, request, txn)
                    if early is not None:
                        return early
                    if pressure is None:
                        pressure = apply_back_pressure(engine, request, txn)
                        if pressure.level is Level.SLOW:
                            continue
                prepared = _prepare(txn, prepare)
                if isinstance(prepared, _Retry):
                    continue
                if prepared is not None and (todo := _lines_to_make(txn, prepared)):
                    own_lines(engine, line, todo, deadline, meter)
                    continue
                if prepared is None:
                    engine.durable.acknowledge(txn.state.version, txn.held)
                    return Outcome(None)
                started = engine.clock.monotonic()
                ended = _attempt(engine, request, txn, prepared, arming)
                if isinstance(ended, Outcome):
                    if not prepared.stage_first:
                        engine.timing.note_commit(engine.clock.monotonic() - started, lost=arming.lost_a_swap)
                    return ended if pressure is None or pressure.level is Level.NONE else warned(ended, pressure)
                last = ended.error or last
                if ended.contended:
                    engine.timing.note_contention()
                    operation.note(operation.CONFLICTS)


# --- before anything is durable -----------------------------------------------------------------------------------------


def _prepare(txn: Txn, prepare: Prepare) -> Prepared | _Retry | None:
    """A refusal or a no-op is an answer without a swap, so it must come from a state that is certainly the newest."""
    try:
        prepared = prepare(txn)
    except (InvalidInput, Conflict):
        if still_newest(txn):
            raise
        return _Retry(None)
    except PrepareAgain:
        return _Retry(None)
    if prepared is not None and (prepared.own_first or not prepared.is_empty):
        return prepared
    return None if still_newest(txn) else _Retry(None)


def _lines_to_make(txn: Txn, prepared: Prepared) -> frozenset[str]:
    """Inherited tables that need lines of the branch's own before this write has a plan: those that it says, and where its
    staging ends before its intent is armed, all that it writes."""
    written = (
        frozenset(step.key for step in prepared.steps if RULES[step.kind].lands)
        if prepared.stage_first
        else frozenset()
    )
    return inherited(txn.state, prepared.own_first | written)


# --- one plan from A to D -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Attempt:
    """One plan under way."""

    engine: Engine
    request: Request
    txn: Txn
    prepared: Prepared
    planned: Planned
    arming: Arming

    @cached_property
    def plan(self) -> PublishPlan:
        return self.planned.plan

    @cached_property
    def meter(self) -> Meter:
        return self.txn.meter


def _attempt(engine: Engine, request: Request, txn: Txn, prepared: Prepared, arming: Arming) -> Outcome | _Retry:
    started = engine.clock.monotonic()
    with arming.planning(staged_first=prepared.stage_first) as op:
        one = _Attempt(engine, request, txn, prepared, plan_of(txn, request, prepared, op), arming)
        data = encode_plan(one.plan)
        if prepared.sealed is not None and not prepared.sealed(one.plan):
            return _Retry(None, contended=False)
        rows = sum(step.total.inserted + step.total.updated for step in prepared.steps)
        with progress.phase("writing", total=rows):
            ready = _stage_and_arm(one, data)
        if ready is None:
            return _Retry(None)
        operation.note(operation.ATTEMPTS)
        try:
            with progress.phase("publishing", unit="tables", total=len(one.plan.chains)):
                outcome = _apply_and_publish(one, ready, started)
                progress.advance(len(one.plan.chains))
        except BaseException as error:
            # Table commits were sent and no end of the plan is known. Its intent stays for recovery.
            arming.abandon()
            if not isinstance(error, Exception):
                raise
            raise _unknown(one.plan, error) from error
        if isinstance(outcome, OmnigraphError):
            raise outcome
        return outcome


def _unknown(plan: PublishPlan, error: Exception) -> OutcomeUnknown:
    if isinstance(error, OutcomeUnknown) and error.facts.get("commit_id") == plan.head:
        return error
    return OutcomeUnknown(
        f"write {plan.head} was interrupted before it had an outcome: {error}",
        hint=f"ask with `omnigraph commit outcome {plan.head}`; do not repeat the write blindly",
        commit_id=plan.head,
        operation_id=plan.op,
    )


@dataclass(frozen=True)
class _Ready:
    """The tables whose first effect is staged: their handles at the pin, and the transactions."""

    handles: Mapping[str, Any]
    staged: Mapping[str, Staged]


def _stage_and_arm(one: _Attempt, data: bytes) -> _Ready | None:
    """Data files, and the intent beside them. None: others come first; nothing was sent."""
    if one.prepared.stage_first and not one.arming.extend_for_staging(one.txn.state):
        return None
    one.meter.step()
    keys = [chain.key for chain in one.plan.landing if first_is_staged(chain)]
    staging = [one.engine.spawn(_stage, one, key) for key in keys]
    found = one.arming.arm(one.plan.op, data, staging, staged_first=one.prepared.stage_first)
    if found is None:
        return None
    return _Ready(
        {key: handle for key, (handle, _) in zip(keys, found, strict=True)},
        {key: staged for key, (_, staged) in zip(keys, found, strict=True)},
    )


def _stage(one: _Attempt, key: str) -> tuple[Any, Staged]:
    """The handle and the transaction. A table that is not open yet is opened beside the others, and beside the intent."""
    handle = one.txn.handle(key)
    step = one.planned.steps_of(key)[0]
    mark = one.txn.state.head.mark
    staged = stage(step, handle, tables=one.engine.tables, files=one.request.files, mark=mark, meter=one.meter)
    return handle, staged


def _apply_and_publish(one: _Attempt, ready: _Ready, started: float) -> Outcome | _Retry | OmnigraphError:
    engine, meter = one.engine, one.meter
    one.request.files.sent = True
    pins = predicted_pins(one.plan, one.txn, ready.handles, ready.staged)
    meter.step(3)
    ahead = None
    joins = one.arming.joins(one.plan)
    if pins is not None and not joins:
        ahead = engine.spawn(write_ahead, engine, one.planned, one.txn, pins, meter)
    sending = Sending(engine, one.planned, one.request.files, meter)
    results = apply(sending, ready.handles, ready.staged, serial=one.arming.one_by_one)
    written: Written | None = None
    with contextlib.suppress(OmnigraphError):  # the publish writes it again
        written = None if ahead is None else ahead.result()
    pins, written = confirm(pins, written, one.txn, one.plan, ready.handles, results)
    if not one.prepared.stage_first:
        engine.timing.note_work(engine.clock.monotonic() - started)
    ended = _publish_or_abort(one, pins, written, results)
    return _conclude(one, ended, results)


@dataclass(frozen=True)
class _Ended:
    """How a plan ended, and why if it was not by its publish."""

    how: Published | WasPublished | Aborted
    refusal: NotPublished | None = None


def _publish_or_abort(
    one: _Attempt, pins: Mapping[str, Pin] | None, written: Written | None, results: Mapping[str, Applied]
) -> _Ended:
    engine, plan = one.engine, one.plan
    refusal: NotPublished | None = None
    if all(result.landing is Landing.EXACT for result in results.values()):
        pins = landed(one.txn.state, plan, results) if pins is None else pins
        one.meter.step(2)
        result = publish(
            engine,
            plan,
            (change := publish_change(plan, pins, one.planned.counts)),
            held=one.txn.held,
            written=written,
            revalidate=_revalidator(one),
            rivals=one.arming.rivals(plan, change),
            meter=one.meter,
        )
        if isinstance(result, Published):
            return _Ended(result)
        refusal = result
    if refusal is None or not (refusal.ghost or refusal.outrun):
        engine.timing.note_contention()
    # A refused table holds nothing of ours. It is looked at all the same: what refused us may be left from a dead operation,
    # and would refuse us again. A living operation keeps the right of way there.
    touched = {
        key: result.landing is Landing.UNKNOWN
        for key, result in results.items()
        if result.may_stand or result.landing is Landing.REFUSED
    }
    how = end_by_abort(
        engine,
        plan,
        touched,
        actor=plan.actor,
        deadline=time_to_end(engine, one.txn.deadline),
        give_way=give_way_to_others(engine, one.meter),
        # Another process that has read the intent may still publish a plan whose version was a ghost, or carry out an offer.
        record=one.arming.has_offered or (refusal is not None and refusal.ghost),
        meter=one.meter,
    )
    return _Ended(how, refusal)


def _revalidator(one: _Attempt) -> Callable[[Held], bool] | None:
    again = one.prepared.revalidate
    if again is None:
        return None
    return lambda held: again(replace(one.txn, held=held, _pinned={}))


def _conclude(one: _Attempt, ended: _Ended, results: Mapping[str, Applied]) -> Outcome | _Retry | OmnigraphError:
    """End the intent and say what happened. A refusal that lasts is returned, not raised."""
    how, plan, arming = ended.how, one.plan, one.arming
    if isinstance(how, Published | WasPublished):
        fresh = isinstance(how, Published) and how.fresh
        if not fresh:
            one.engine.durable.acknowledge(how.rows[-1].version, how.held)
        warning = arming.finish(plan.op, published=fresh, landed=True)
        one.engine.remember(one.request.branch, how.held)
        remember_own_rows(one.engine, one.txn, plan, results)
        swap = one.engine.history.swap_of(how.held, how.rows[-1], one.meter)
        return Outcome(how.rows[-1], warnings=() if warning is None else (warning.message,), rows=how.rows, swap=swap)
    one.engine.durable.acknowledge(how.held.version, how.held)
    refused = ended.refusal.check if ended.refusal is not None else None
    # A key or a head is one request's affair: the others of its plan are prepared again.
    lasting = _LASTING if one.request.several else (*_LASTING, *_LASTING_ALONE)
    lasts = refused is not None and refused.check in lasting
    if one.engine.durable.failed is not None:
        # The plan has ended by an abort that is on disk; nothing more is written through a handle whose disk has failed.
        arming.finish(plan.op)
        return one.engine.durable.failed
    contended = ended.refusal is None or not ended.refusal.outrun
    if not lasts and arming.requeue(how.held.state):
        return _Retry(after_refusal(plan, ended.refusal, how.held), contended)
    arming.finish(plan.op)
    if lasts and refused is not None and refused.check is Check.KEY_TAKEN:
        row, request = key_row(refused), one.request
        if not same_request(row, request.request, request.content):
            return mismatch(row, request.idempotency_key)
        return Outcome(key_row(refused), replayed=True)
    error = after_refusal(plan, ended.refusal, how.held)
    return error if lasts else _Retry(error, contended)


_LASTING = (Check.FENCED, Check.BRANCH_GONE, Check.CLOSED)
_LASTING_ALONE = (Check.KEY_TAKEN, Check.HEAD_MOVED)
