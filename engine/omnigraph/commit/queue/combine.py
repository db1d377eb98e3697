"""What a writer does once it has lost a swap: it makes its own plan known as applied, and takes those of others along.

Without this, writers of different tables undo each other's work for nothing: a state is many requests old when its swap is
sent, so of many writers all but one lose. What may be taken along is decided in ``taking_along``; a plan that was taken is found
by its owner in the lineage, as one that recovery has published. The uncontended way makes no request here.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.intent import Intent, encode_plan
from omnigraph.commit.intent_format import APPLIED
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.publish import publish_change
from omnigraph.commit.protocol.recorded_counts import recorded_counts
from omnigraph.commit.taking_along import AppliedPlan, may_combine, pins_fit, take_along
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef

READS_AT_ONCE = 32


class Combining:
    """The other writers of a line as one publish meets them. ``swapped``: called between a swap and the look at the boundary."""

    def __init__(
        self, engine: Engine, plan: PublishPlan, change: Change, swapped: Callable[[], None], meter: Meter
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._change = change
        self._swapped = swapped
        self._meter = meter
        self._telling: Future[None] | None = None
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
        if self._active and not self.lost:
            self._telling = self._engine.spawn(self._tell)
        self.lost = True

    def pause_s(self, attempt: int) -> float:
        timing = self._engine.timing
        return timing.rejoin_s(attempt) if self._active else timing.jitter_s(attempt)

    def newest(self, branch: Branch) -> Held:
        """The newest state, by listing. Beside it the applied plans of others, after a lost swap."""
        if not (self._active and self.lost):
            return self._engine.latest(branch, self._meter)
        look = self._engine.spawn(self._look)
        try:
            return self._engine.latest(branch, self._meter)
        finally:
            self.settle()
            self._others = look.result()

    def take_along(self, state: State, change: Change) -> Change:
        """The change with those of all plans that may share the swap. ``change``: that of this plan, made on ``state``."""
        return take_along(state, self._plan, change, self._others) if self._others else change

    def settle(self) -> None:
        """Wait until the intent is written: its file may be deleted once the plan has ended, and must not come back."""
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.exception()

    # --- requests ---------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Rewrite the intent. That it fails costs the help of others, and nothing else."""
        failpoints.hit("combine.before_applied", op=self._plan.op)
        data = encode_plan(self._plan, applied=tuple(self._change.pins.values()))
        self._engine.intents.rewrite(self._plan.op, data, self._meter)
        failpoints.hit("combine.after_applied", op=self._plan.op)

    def _look(self) -> list[AppliedPlan]:
        """List the intents and read what is not known of them. Whatever does not read is left to its owner and to recovery."""
        known = self._engine.applied
        try:
            listed = [one for one in self._engine.intents.names(self._meter) if one[0] != self._plan.op]
        except OmnigraphError:
            return []
        todo = [one for one in listed if not known.has(*one)]
        if todo:
            with ThreadPoolExecutor(min(len(todo), READS_AT_ONCE)) as pool:
                calls = [pool.submit(contextvars.copy_context().run, self._read, op, stamp) for op, stamp in todo]
            for call in calls:
                call.result()
        return known.of([op for op, _ in listed])

    def _read(self, op: str, stamp: str) -> None:
        engine, found = self._engine, None
        try:
            intent = engine.intents.read(op, self._meter)
            if intent is not None and intent.graph == engine.graph_id:
                found = read_applied(engine, intent, self._meter)
        except Corruption:
            pass  # opens and recoveries stop at it loudly
        except OmnigraphError:
            return  # it is read again with the next lost swap
        engine.applied.put(op, stamp, found)


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
