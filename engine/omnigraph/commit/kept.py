"""A turn that is kept for the writer's next write. Manners only: what is kept is a place in the queue, never a right.

A hand-over between processes costs more than a commit. So a writer whose plan has been published leaves its intent where
it is for a moment, and those behind it go on waiting. If its next write comes in that moment, the plan of that write takes a
name that sorts directly behind, and the old file goes when the new one is there. If none comes, the file goes all the
same. A write that plans again after an abort holds its place in the same way. No outcome hangs on that file any more: a
crash leaves an intent whose commit, or abort, is in the lineage.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Collection, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from omnigraph.commit import live
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter

if TYPE_CHECKING:
    from omnigraph.commit.engine import Engine


class _Stage(Enum):
    OFFERED = "offered"
    TAKEN = "taken"  # the next write prepares; it has only so long
    ARMING = "arming"  # its intent is on its way
    OVER = "over"


class KeptTurn:
    """The intent of a plan that has ended, published or aborted: nobody needs it but those who wait behind it."""

    def __init__(
        self, engine: Engine, op: str, names: Sequence[str], branch: str, keys: Collection[str], since: float
    ) -> None:
        self.op = op
        self.names = tuple(names)  # for the plans that follow: they sort behind ``op`` and before whoever queues later
        self.since = since  # when the turn began
        self._engine = engine
        self._branch = branch
        self._keys = frozenset(keys)
        self._meter: Meter | None = None
        self._stage = _Stage.OFFERED
        self._changed = threading.Condition()
        self._gone = threading.Event()
        self._left: OmnigraphError | None = None  # why the file is still there

    def start(self) -> None:
        """From here on it ends by itself. On a thread of its own: in the pool it would wait behind its own writer."""
        watch = threading.Thread(target=contextvars.copy_context().run, args=(self._live,), name="omnigraph-kept")
        try:
            watch.start()
        except RuntimeError:  # there are no more threads to be had: nothing is kept
            self.end()
            self._live()
        except BaseException:
            self.end()
            raise

    def take(self, branch: str, keys: Collection[str], meter: Meter) -> bool:
        """For the next write, once. False: it writes other tables, or comes too late."""
        if branch != self._branch or not self._keys.issuperset(keys):
            return False
        self._meter = meter
        return self._move(_Stage.OFFERED, _Stage.TAKEN)

    def begin_arming(self) -> bool:
        """From here on the file stays until ``end``. False: preparing took too long, and the place is lost."""
        return self._move(_Stage.TAKEN, _Stage.ARMING)

    def end(self) -> None:
        """The file may go."""
        with self._changed:
            self._stage = _Stage.OVER
            self._changed.notify_all()

    def end_unless_taken(self) -> bool:
        """Whether its file goes now."""
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

    def _live(self) -> None:
        manners = self._engine.manners
        self._leave(_Stage.OFFERED, manners.keep_s)
        self._leave(_Stage.TAKEN, manners.prepare_s)
        self._leave(_Stage.ARMING, manners.grace_s)  # if nobody comes to end it
        try:
            failpoints.hit("kept.before_delete")
            self._left = self._engine.intents.disarm(self.op, self._meter)
        finally:
            live.end(self.op)
            self._engine.kept.forget(self)
            self._gone.set()

    def _leave(self, stage: _Stage, seconds: float) -> None:
        """Wait while it is in ``stage``, and end it if that lasts too long."""
        with self._changed:
            self._changed.wait_for(lambda: self._stage is not stage, seconds)
            if self._stage is stage:
                self._stage = _Stage.OVER


class KeptTurns:
    """Those of one open graph."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[KeptTurn] = []

    def offer(
        self, engine: Engine, op: str, names: Sequence[str], branch: str, keys: Collection[str], since: float
    ) -> KeptTurn:
        kept = KeptTurn(engine, op, names, branch, keys, since)
        with self._lock:
            self._kept.append(kept)
        try:
            kept.start()
        except BaseException:
            self.forget(kept)
            raise
        return kept

    def take(self, branch: str, keys: Collection[str], meter: Meter) -> KeptTurn | None:
        with self._lock:
            return next((kept for kept in self._kept if kept.take(branch, keys, meter)), None)

    def forget(self, kept: KeptTurn) -> None:
        with self._lock, contextlib.suppress(ValueError):  # forgotten already, by who was interrupted
            self._kept.remove(kept)

    def let_go(self) -> None:
        """End those that nobody has taken up, and wait until their files are gone."""
        with self._lock:
            waiting = list(self._kept)
        for kept in [kept for kept in waiting if kept.end_unless_taken()]:
            kept.deleted()
