"""What a writer does once it has lost a swap: it makes its own plan known as applied, and takes those of others along.

Without this, writers of different tables undo each other's work for nothing: a state is many requests old when its swap is
sent, so of many writers all but one lose. What may be taken along is decided in ``applied_plans``; a plan that was taken is found
by its owner in the lineage, as one that recovery has published. The uncontended way makes no request here.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from omnigraph.commit.applied_plans import AppliedPlan, may_combine, pins_fit, take_along
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.intent import Intent, encode_plan
from omnigraph.commit.intent_format import APPLIED
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.publish import publish_change
from omnigraph.commit.protocol.recorded_counts import added_up
from omnigraph.commit.queue.timing import WAITS_MAX
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef

T = TypeVar("T")

READS_AT_ONCE = 32
SWAP_REQUESTS = 6.0  # one after the other, from the listing of the intents to the end of a swap that takes some along

_Listed = tuple[tuple[str, str], ...]


class Combining:
    """The other writers of a line as one publish meets them. ``swapped``: called between a swap and the look at the boundary.
    ``shares``: whether the caller lets the plan share its swap. ``joins``: a swap on the state of the plan would very likely be lost, so
    that the first one is made as after a lost one.

    After a lost swap the intent is rewritten and intents are listed. The oldest plan in flight goes on at once: beside the look at the
    newest state it reads the intents that are not known, and takes their plans along. The others pause, and look whether their commit is
    there; only where it is not do they list again. After ``WAITS_MAX`` pauses a plan goes on, whichever others are in flight.
    """

    def __init__(
        self,
        engine: Engine,
        plan: PublishPlan,
        change: Change,
        swapped: Callable[[], None],
        meter: Meter,
        *,
        shares: bool = True,
        joins: bool = False,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._change = change
        self._swapped = swapped
        self._meter = meter
        self._telling: Future[None] | None = None
        self._listing: Future[_Listed] | None = None
        self._others: list[AppliedPlan] = []
        self._active = shares and may_join(engine, plan)
        self._began: float | None = None  # the attempt that is under way
        self._took = False  # whether its swap takes others along
        self.joins = joins and self._active
        self.lost = False  # whether a swap of this plan was lost to another writer, or not even tried
        if self.joins:
            self._say_applied()

    @property
    def outrun(self) -> bool:
        return self._active and self.lost

    def swapped(self, after: Held) -> None:
        self._note_swap()
        if self._took:
            self._engine.timing.note_crowd()
        self._swapped()

    # --- after a lost swap ------------------------------------------------------------------------------------------

    def lost_swap(self) -> None:
        """Make the plan known as applied, once: from now on any writer that swaps may publish it.

        On a local disk only after a swap was sent: what it rests on, the files of this plan included, was synced before."""
        self._note_swap()
        if self._active:
            self._engine.timing.note_crowd()
        self._say_applied()

    def _say_applied(self) -> None:
        if self._active:
            if self._telling is None:
                self._telling = self._engine.spawn(self._tell)
            self._listing = self._engine.spawn(self._list)
        self.lost = True

    def pause_s(self, attempt: int) -> float:
        """Beside the pause at a rank, which comes with the look at the others: none before the second attempt."""
        timing = self._engine.timing
        return timing.rejoin_s(attempt - 1) if self._active else timing.jitter_s(attempt)

    def newest(self, branch: Branch) -> Held:
        """The newest state, by listing. After a lost swap also the applied plans of others, unless one of them has taken ours along."""
        listing, self._listing = self._listing, None
        if listing is None or self._telling is None:
            return self._engine.latest(branch, self._meter)
        self._telling.result()
        listed, held = listing.result(), None
        for _ in range(WAITS_MAX):
            pause_s = self._pause_s(listed, held or self._engine.known(branch))
            if pause_s <= 0.0:
                break
            self._engine.clock.sleep(pause_s)
            held = self._engine.latest(branch, self._meter)
            if self._has_ended(held):
                self._engine.timing.note_crowd()
                return held
            listed = self._list()
        self._begin()
        if not self._in_flight(listed, held or self._engine.known(branch)):
            self._engine.timing.note_quiet()
        reading = self._engine.spawn(self._read_all, listed)
        try:
            held = held or self._engine.latest(branch, self._meter)
        finally:
            self._others = reading.result()
        return held

    def take_along(self, state: State, change: Change) -> Change:
        """The change with those of all plans that may share the swap. ``change``: that of this plan, made on ``state``."""
        self._begin()
        together = take_along(state, self._plan, change, self._others) if self._others else change
        self._took = together is not change
        return together

    def settle(self) -> None:
        """Wait until the intent is written: its file may be deleted once the plan has ended, and must not come back."""
        for one in (self._telling, self._listing):
            if one is not None:
                one.exception()

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def _pause_s(self, listed: _Listed, held: Held | None) -> float:
        """How long to wait to be taken along. Which plans are in flight is what the last state that is known tells."""
        older = [one for one in listed if one[0] < self._plan.op]
        return self._engine.timing.pause_at_rank_s(self._in_flight(older, held))

    def _in_flight(self, listed: Iterable[tuple[str, str]], held: Held | None) -> int:
        """How many of these may still have to be published, as far as is known before they are read."""
        if held is None:
            return 0
        return sum(self._engine.applied.in_flight(op, stamp, held.state) for op, stamp in listed)

    def _has_ended(self, held: Held) -> bool:
        """Whether a record of this plan is in the tail. One that lies deeper is found before the next swap."""
        return any(held.state.in_tail(one) is not None for one in (self._plan.id, *self._plan.members))

    def _begin(self) -> None:
        if self._began is None:
            self._began = self._engine.clock.monotonic()

    def _note_swap(self) -> None:
        began, self._began = self._began, None
        if began is not None:
            self._engine.timing.note_swap(self._engine.clock.monotonic() - began)

    # --- requests ---------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Rewrite the intent. That it fails costs the help of others, and nothing else."""
        failpoints.hit("combine.before_applied", op=self._plan.op)
        with contextlib.suppress(OmnigraphError):
            data = encode_plan(self._plan, applied=tuple(self._change.pins.values()))
            self._engine.intents.rewrite(self._plan.op, data, self._meter)
        failpoints.hit("combine.after_applied", op=self._plan.op)

    def _list(self) -> _Listed:
        """(operation, change stamp) of the intents of others. Empty where they cannot be listed: then no plan is taken along."""
        timing, clock = self._engine.timing, self._engine.clock
        began = clock.monotonic()
        try:
            listed = tuple(one for one in self._engine.intents.names(self._meter) if one[0] != self._plan.op)
        except OmnigraphError:
            return ()
        # A plan that is always taken along makes no swap that could be measured.
        timing.note_swap(SWAP_REQUESTS * (clock.monotonic() - began))
        return listed

    def _read_all(self, listed: _Listed) -> list[AppliedPlan]:
        """What the listed plans come to, as far as they are applied and read; the others are left to their owners."""
        side_by_side(self._read, [one for one in listed if not self._engine.applied.has(*one)])
        return self._engine.applied.of(op for op, _ in listed)

    def _read(self, op: str, stamp: str) -> None:
        """One intent and what its tables say. Nothing is noted where either is gone or does not read: opens and recoveries stop at it
        loudly, and here it is read again with the next lost swap."""
        with contextlib.suppress(OmnigraphError):
            intent = self._engine.intents.read(op, self._meter)
            if intent is not None:
                ours = intent.graph == self._engine.graph_id
                self._engine.applied.put(op, stamp, read_applied(self._engine, intent, self._meter) if ours else None)


def may_join(engine: Engine, plan: PublishPlan) -> bool:
    """Whether this plan may be taken along, and may take others along."""
    return engine.combine and engine.durable.may_say_applied and may_combine(plan)


def joins(engine: Engine, plan: PublishPlan) -> bool:
    """Whether this plan says that it is applied before its first swap. Not on a local disk, where it may say so only after a sync."""
    return engine.store.is_remote and engine.timing.crowded and may_join(engine, plan)


def side_by_side(call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
    """Make these calls on threads of their own: one in the pool of the engine must not wait for another there."""
    if not arguments:
        return []
    with ThreadPoolExecutor(min(len(arguments), READS_AT_ONCE)) as pool:
        calls = [pool.submit(contextvars.copy_context().run, call, *given) for given in arguments]
    return [one.result() for one in calls]


def read_applied(engine: Engine, intent: Intent, meter: Meter) -> AppliedPlan | None:
    """The plan of an intent that says it is applied and durable, with what publishing it writes. None for any other.

    Its row counts stand in its table transactions, which the version files hold: one request each. They show once more that each
    transaction stands at its place, and at no other: a transaction file of Lance would only show that it was sent."""
    plan = intent.plan
    if plan is None or intent.state != APPLIED or not intent.durable or intent.applied is None:
        return None
    if not may_combine(plan) or not pins_fit(plan, intent.applied):
        return None
    counts = {}
    for chain in plan.landing:
        ref = TableRef(chain.path, chain.ref)
        stamps = [engine.tables.stamp(ref, version, meter) for version, _ in chain.places()]
        if [None if one is None else one.uuid for one in stamps] != [uuid for _, uuid in chain.places()]:
            return None
        counts[chain.key] = added_up(plan, (one.properties for one in stamps if one is not None))
    pins = {pin.key: pin for pin in intent.applied}
    return AppliedPlan(plan, publish_change(plan, pins, counts))
