"""What a writer does once it has lost a swap: it makes its own plan known as applied, and takes those of others along.

Without this, writers of different tables undo each other's work for nothing: a state is many requests old when its swap is
sent, so of many writers all but one lose. What may be taken along is decided in ``applied_plans``; a plan that was taken is found
by its owner in the lineage, as one that recovery has published. The uncontended way makes no request here.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from omnigraph.commit.applied_plans import AppliedPlan, may_combine, pins_fit, take_along
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.intent import Intent, encode_plan
from omnigraph.commit.intent_format import APPLIED
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.publish import publish_change
from omnigraph.commit.protocol.recorded_counts import recorded_counts
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef

T = TypeVar("T")

READS_AT_ONCE = 32


@dataclass(frozen=True)
class _Asked:
    """The intents that were listed, and those of them that were not known: (operation, change stamp, intent)."""

    ops: tuple[str, ...] = ()
    read: tuple[tuple[str, str, Intent | None], ...] = ()


class Combining:
    """The other writers of a line as one publish meets them. ``swapped``: called between a swap and the look at the boundary.

    After a lost swap the intent is rewritten, intents are listed and those not known are read, while the publish pauses. Then the newest
    state is loaded, and beside it the counts of what was found: no sooner, because what is swapped onto should be young.
    """

    def __init__(
        self, engine: Engine, plan: PublishPlan, change: Change, swapped: Callable[[], None], meter: Meter
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._change = change
        self._swapped = swapped
        self._meter = meter
        self._asking: Future[_Asked] | None = None
        self._others: list[AppliedPlan] = []
        self._active = engine.combine and engine.durable.may_say_applied and may_combine(plan)
        self.lost = False  # whether a swap of this plan was lost to another writer

    @property
    def outrun(self) -> bool:
        return self._active and self.lost

    def swapped(self, after: Held) -> None:
        self._swapped()

    # --- after a lost swap ------------------------------------------------------------------------------------------

    def lost_swap(self) -> None:
        """Make the plan known as applied, once: from now on any writer that swaps may publish it.

        Only after a swap was sent: what it rests on, the files of this plan included, was synced before."""
        if self._active:
            self._asking = self._engine.spawn(self._ask, not self.lost)
        self.lost = True

    def pause_s(self, attempt: int) -> float:
        timing = self._engine.timing
        return timing.rejoin_s(attempt) if self._active else timing.jitter_s(attempt)

    def newest(self, branch: Branch) -> Held:
        """The newest state, by listing. After a lost swap also the applied plans of others."""
        asking, self._asking = self._asking, None
        if asking is None:
            return self._engine.latest(branch, self._meter)
        looking = self._engine.spawn(self._look, asking.result())
        try:
            return self._engine.latest(branch, self._meter)
        finally:
            self._others = looking.result()

    def take_along(self, state: State, change: Change) -> Change:
        """The change with those of all plans that may share the swap. ``change``: that of this plan, made on ``state``."""
        return take_along(state, self._plan, change, self._others) if self._others else change

    def settle(self) -> None:
        """Wait until the intent is written: its file may be deleted once the plan has ended, and must not come back."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.exception()

    # --- requests ---------------------------------------------------------------------------------------------------

    def _ask(self, tell: bool) -> _Asked:
        if tell:
            self._tell()
        try:
            listed = [one for one in self._engine.intents.names(self._meter) if one[0] != self._plan.op]
        except OmnigraphError:
            return _Asked()
        todo = [one for one in listed if not self._engine.applied.has(*one)]
        return _Asked(tuple(op for op, _ in listed), tuple(side_by_side(self._read, todo)))

    def _tell(self) -> None:
        """Rewrite the intent. That it fails costs the help of others, and nothing else."""
        failpoints.hit("combine.before_applied", op=self._plan.op)
        with contextlib.suppress(OmnigraphError):
            data = encode_plan(self._plan, applied=tuple(self._change.pins.values()))
            self._engine.intents.rewrite(self._plan.op, data, self._meter)
        failpoints.hit("combine.after_applied", op=self._plan.op)

    def _read(self, op: str, stamp: str) -> tuple[str, str, Intent | None]:
        """One intent, None where it is gone or does not read: opens and recoveries stop at it loudly."""
        found: Intent | None = None
        with contextlib.suppress(OmnigraphError):
            found = self._engine.intents.read(op, self._meter)
        return op, stamp, found

    def _look(self, asked: _Asked) -> list[AppliedPlan]:
        """What the listed plans come to, as far as they are applied and read; the others are left to their owners."""
        side_by_side(self._understand, [one for one in asked.read if one[2] is not None])
        return self._engine.applied.of(asked.ops)

    def _understand(self, op: str, stamp: str, intent: Intent) -> None:
        with contextlib.suppress(OmnigraphError):  # it is read again with the next lost swap
            found = read_applied(self._engine, intent, self._meter) if intent.graph == self._engine.graph_id else None
            self._engine.applied.put(op, stamp, found)


def side_by_side(call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
    """Make these calls on threads of their own: one in the pool of the engine must not wait for another there."""
    if not arguments:
        return []
    with ThreadPoolExecutor(min(len(arguments), READS_AT_ONCE)) as pool:
        calls = [pool.submit(contextvars.copy_context().run, call, *given) for given in arguments]
    return [one.result() for one in calls]


def read_applied(engine: Engine, intent: Intent, meter: Meter) -> AppliedPlan | None:
    """The plan of an intent that says it is applied and durable, with what publishing it writes. None for any other.

    Its row counts stand in its table transactions; reading them shows once more that each stands at its place."""
    plan = intent.plan
    if plan is None or intent.state != APPLIED or not intent.durable or intent.applied is None:
        return None
    if not may_combine(plan) or not pins_fit(plan, intent.applied):
        return None
    counts = {}
    for chain in plan.landing:
        ref = TableRef(chain.path, chain.ref)
        held = engine.tables.held(ref, chain.version)
        handle = engine.tables.open(ref, chain.version, meter)
        notes = [engine.tables.transaction_at(ref, handle, version, meter) for version, _ in chain.places()]
        if [None if note is None else note.uuid for note in notes] != [uuid for _, uuid in chain.places()]:
            return None
        counts[chain.key] = recorded_counts(engine, plan, chain, handle, meter)
        if not held:
            engine.tables.release(ref, chain.version)
    pins = {pin.key: pin for pin in intent.applied}
    return AppliedPlan(plan, publish_change(plan, pins, counts))
