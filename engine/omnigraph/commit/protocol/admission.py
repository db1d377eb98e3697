"""Who may write: what is checked before a write prepares anything, and what is answered without one.

A known idempotency key, an exclusive owner, an expected head and back-pressure are decided here, each from a state that is
certainly the newest where the answer is not followed by a swap.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit import parents
from omnigraph.commit.conflicts import fenced, mismatch
from omnigraph.commit.decide import same_request
from omnigraph.commit.engine import Engine
from omnigraph.commit.pressure import INTENTS, Level, Pressure, weigh
from omnigraph.commit.request import Outcome, Request
from omnigraph.commit.txn import Txn, still_newest
from omnigraph.core.errors import InvalidInput, PreconditionFailed, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, Pin
from omnigraph.manifest.swap import Held
from omnigraph.table.settle import own_fragments


def check_request(engine: Engine, request: Request, meter: Meter) -> None:
    if engine.durable.failed is not None:
        raise StoreUnavailable(
            f"an earlier write could not be made durable, so nothing more is written: {engine.durable.failed.message}",
            hint="check the disk, then open the graph again; `omnigraph verify --deep` reads every file",
        )
    if engine.read_only:
        raise InvalidInput("the graph was opened read-only", hint="open it with read_only=False to write")
    for name, value in (("actor", request.actor), ("idempotency_key", request.idempotency_key)):
        if value is not None:
            engine.limits.check(f"{name}_bytes", len(value.encode()))
    engine.limits.check("tables_per_commit", len(request.keys))
    engine.ref_of(request.branch, meter)


def apply_back_pressure(engine: Engine, request: Request, txn: Txn) -> Pressure:
    """Once per write: refuse it or delay it while upkeep lags behind the configured bounds."""
    pressure = pressure_on(engine, request, txn)
    if pressure.level is Level.FAIL:
        raise pressure.refusal()
    if pressure.level is Level.SLOW:
        engine.clock.sleep(min(pressure.pause_s, max(0.0, txn.deadline.left() / 2)))
    return pressure


def replayed(engine: Engine, row: CommitRow, line: Held, meter: Meter) -> Outcome:
    """The answer to a repeated key: the commit that the first request became, found on this line."""
    return Outcome(row, replayed=True, swap=engine.history.swap_of(line, row, meter))


def pressure_on(engine: Engine, request: Request, txn: Txn) -> Pressure:
    """How far upkeep lags behind for the tables of a request."""

    def own(pin: Pin) -> int:
        return own_fragments(txn.handle(pin.key))

    pressure = weigh(txn.state, request.keys, engine.intents.seen, engine.bounds, own)
    if pressure.metric == INTENTS:
        # The figure is from the last listing, whenever that was; before it counts against a write it is taken again.
        engine.intents.names(txn.meter)
        pressure = weigh(txn.state, request.keys, engine.intents.seen, engine.bounds, own)
    return pressure


def warned(outcome: Outcome, pressure: Pressure) -> Outcome:
    warning = f"{pressure.message}; run `{pressure.typed}`"
    return replace(outcome, warnings=(*outcome.warnings, warning))


def early_answer(engine: Engine, request: Request, txn: Txn) -> Outcome | None:
    """A known idempotency key is answered with its receipt, a precondition that fails with an error; both only from a
    state that is certainly the newest."""
    if request.idempotency_key is not None:
        found = parents.find_key(engine, txn.held, request.idempotency_key, txn.meter)
        if found is not None:
            row, line = found
            if not same_request(row, request.request, request.content):
                raise mismatch(row, request.idempotency_key)
            engine.durable.acknowledge(min(row.version or line.version, line.version), line)
            return replayed(engine, row, line, txn.meter)
    head = txn.state.head
    if head.owner is not None and head.owner != engine.exclusive_token:
        if not still_newest(txn):
            return None
        raise fenced(head)
    if request.expect_head is not None and head.commit_id != request.expect_head:
        if not still_newest(txn):
            return None
        raise PreconditionFailed(
            f"the head of {request.branch} is {head.commit_id}, not {request.expect_head}",
            expected=request.expect_head,
            actual=head.commit_id,
        )
    return None
