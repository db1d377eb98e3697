"""A queue position that is kept for the writer's next write. It spares work and gives no right.

Handing a position over between processes costs more than a commit. So a writer whose plan has been published leaves its
intent in place for a moment, and those behind it go on waiting. If its next write comes in that moment, the plan of that
write takes an id that sorts directly behind, and the old file is deleted when the new one is there. If none comes, the file
is deleted all the same. A write that plans again after an abort keeps its position in the same way. No outcome depends on
that file any more: a crash leaves an intent whose commit, or abort, is in the lineage.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Collection, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from omnigraph.commit.queue import local_operations
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter

if TYPE_CHECKING:
    from omnigraph.commit.engine import Branch, Engine


class _Stage(Enum):
    OFFERED = "offered"
    TAKEN = "taken"  # the next write prepares; it has only so long
    ARMING = "arming"  # its intent is on its way
    OVER = "over"


class QueueLease:
    """The intent of a plan that has ended, published or aborted: it only keeps a queue position."""

    def __init__(
        self, engine: Engine, op: str, reserved: Sequence[str], branch: Branch, keys: Collection[str], since: float
    ) -> None:
        self.op = op
        self.reserved = tuple(reserved)  # ids of the plans that follow: behind ``op``, before every later entry
        self.since = since  # when this writer came to the front
        self._engine = engine
        self._branch = branch
        self._keys = frozenset(keys)
        self._meter: Meter | None = None
        self._stage = _Stage.OFFERED
        self._changed = threading.Condition()
        self._gone = threading.Event()
        self._left: OmnigraphError | None = None  # why the file is still there

    def start(self) -> None:
        """Begin to expire. On a thread of its own: in the pool it would wait behind its own writer."""
        watch = threading.Thread(
            target=contextvars.copy_context().run, args=(self._expire_loop,), name="omnigraph-lease"
        )
        try:
            watch.start()
        except RuntimeError:  # no more threads can be started: nothing is kept
            self.end()
            self._expire_loop()
        except BaseException:
            self.end()
            raise

    def take(self, branch: Branch, keys: Collection[str], meter: Meter) -> bool:
        """Take the position over for the next write, once. False: that write changes other tables, or comes too late."""
        if branch != self._branch or not self._keys.issuperset(keys):
            return False
        self._meter = meter
        return self._move(_Stage.OFFERED, _Stage.TAKEN)

    def begin_arming(self) -> bool:
        """Keep the file until ``end``. False: preparing took too long, and the position is lost."""
        return self._move(_Stage.TAKEN, _Stage.ARMING)

    def end(self) -> None:
        """Let the file be deleted."""
        with self._changed:
            self._stage = _Stage.OVER
            self._changed.notify_all()

    def end_unless_taken(self) -> bool:
        """Let the file be deleted unless a write has taken the position over. Whether it is deleted."""
        with self._changed:
            if self._stage is _Stage.OFFERED:
                self._stage = _Stage.OVER
                self._changed.notify_all()
            return self._stage is _Stage.OVER

    def deleted(self) -> OmnigraphError | None:
        """Wait until the file is gone; why it is not, if it is not."""
        self._gone.wait()
        return self._left

    def _move(self, before: _Stage, after: _Stage) -> bool:
        with self._changed:
            if self._stage is not before:
                return False
            self._stage = after
            self._changed.notify_all()
            return True

    def _expire_loop(self) -> None:
        timing = self._engine.timing
        self._wait_while(_Stage.OFFERED, timing.keep_s)
        self._wait_while(_Stage.TAKEN, timing.prepare_s)
        self._wait_while(_Stage.ARMING, timing.grace_s)  # where the write that arms never ends it
        try:
            failpoints.hit("lease.before_delete")
            self._left = self._engine.intents.disarm(self.op, self._meter)
        finally:
            local_operations.end(self.op)
            self._engine.leases.forget(self)
            self._gone.set()

    def _wait_while(self, stage: _Stage, seconds: float) -> None:
        """Wait while it is in ``stage``, and end it if that lasts too long."""
        with self._changed:
            self._changed.wait_for(lambda: self._stage is not stage, seconds)
            if self._stage is stage:
                self._stage = _Stage.OVER


class QueueLeases:
    """The leases of one open graph."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: list[QueueLease] = []

    def offer(
        self, engine: Engine, op: str, reserved: Sequence[str], branch: Branch, keys: Collection[str], since: float
    ) -> QueueLease:
        lease = QueueLease(engine, op, reserved, branch, keys, since)
        with self._lock:
            self._leases.append(lease)
        try:
            lease.start()
        except BaseException:
            self.forget(lease)
            raise
        return lease

    def take(self, branch: Branch, keys: Collection[str], meter: Meter) -> QueueLease | None:
        with self._lock:
            return next((lease for lease in self._leases if lease.take(branch, keys, meter)), None)

    def forget(self, lease: QueueLease) -> None:
        with self._lock, contextlib.suppress(ValueError):  # an interrupted write has forgotten it already
            self._leases.remove(lease)

    def release_idle(self) -> None:
        """End the leases that no write has taken over, and wait until their files are gone."""
        with self._lock:
            waiting = list(self._leases)
        for lease in [lease for lease in waiting if lease.end_unless_taken()]:
            lease.deleted()
