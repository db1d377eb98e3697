"""The queue as one waiting writer sees it: which older intents name its tables, and when the first of them has to go.

Waits, and ends the operations of dead owners that stand ahead.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.intent import Intent, decode
from omnigraph.commit.queue.timing import FrontWatch
from omnigraph.core.errors import Corruption, OmnigraphError, OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef

RECOVER_MIN_S = 1.0  # given to the end of a dead operation in our way, however little time is left for our own write
GLANCES = 16  # at the file of the front alone, between two looks at the whole queue


class QueueLine:
    """The entries ahead of one writer."""

    def __init__(self, engine: Engine, branch: Branch, keys: frozenset[str], deadline: Deadline, meter: Meter) -> None:
        self._engine = engine
        self._branch = branch
        self._keys = keys
        self._deadline = deadline
        self._meter = meter
        self._watch = FrontWatch(engine.timing, engine.clock)
        self._elsewhere: set[str] = set()  # operations that are not in our way

    def ignore(self, op: str) -> None:
        self._elsewhere.add(op)

    def wait_for_front(self, op: str) -> Future[Held] | None:
        """Wait until nothing is ahead of ``op``. The newest state, on its way, if something was."""
        front: str | None = None
        seen = b""  # the front's file as it was last
        while True:
            ahead = self.ahead(op)
            if not ahead:
                return None if front is None else self._load_newest(front, seen)
            self._engine.timing.note_contention()
            if front is not None and front != ahead[0][0]:
                self._watch.front_moved()
            front, stamp = ahead[0]
            if self._suspect(front, stamp):
                if not self._in_our_way(front):
                    self._elsewhere.add(front)
                    continue
                if self._end_if_dead(front, stamp, len(ahead)):
                    self._elsewhere.add(front)  # it has ended, even if its file is still there
                    front = None
                    self._check_deadline()
                    continue
            self._check_deadline()
            seen = self._pause(ahead)

    def ahead(self, op: str) -> list[tuple[str, str]]:
        """(operation, change stamp) of the entries ahead of us, oldest first. Only the last is guaranteed to overlap our
        tables; older ones are not read, because while that one is there no other matters."""
        started = self._engine.clock.monotonic()
        listed = self._engine.intents.names(self._meter)
        self._engine.timing.note_request(self._engine.clock.monotonic() - started)
        found = [(other, stamp) for other, stamp in listed if other not in self._elsewhere and other < op]
        while found and not self._in_our_way(found[-1][0]):
            self._elsewhere.add(found.pop()[0])
        return found

    def _suspect(self, front: str, stamp: str) -> bool:
        """Whether the front is worth a closer look: it has not moved for as long as a commit takes, or follows a dead one."""
        return self._watch.after_dead or self._watch.standing_s(front, stamp) >= self._engine.timing.commit_s

    def _end_if_dead(self, front: str, stamp: str, rank: int) -> bool:
        from omnigraph.commit.recovery import evidence
        from omnigraph.commit.recovery.recover import recover_one

        intent = self._read(front)
        known = intent is not None and evidence.owner_gone(self._engine, intent)
        if not known and not self._watch.beyond_grace(front, stamp, rank):
            return False
        # What it is by now: its ticket may have become a plan since it was read.
        now = self._engine.intents.read(front, self._meter)
        if now is not None:
            try:
                recover_one(
                    self._engine, now, gone=True, meter=self._meter, within_s=max(self._deadline.left(), RECOVER_MIN_S)
                )
            except OutcomeUnknown:  # of that operation, not of ours: it still stands there
                return False
        self._watch.front_was_dead(silent=not known)
        return True

    def _check_deadline(self) -> None:
        self._deadline.check("waiting for other writers of the same tables")

    def _pause(self, ahead: list[tuple[str, str]]) -> bytes:
        """Sleep until it is worth looking at the queue again. Directly behind the front, reading its file alone is quicker.
        Returns what that file said before it went, if it went."""
        if len(ahead) > 1:
            self._engine.clock.sleep(self._engine.timing.poll_s(len(ahead)))
            return b""
        [(op, _)] = ahead
        seen = b""
        for _ in range(GLANCES):
            self._engine.clock.sleep(self._engine.timing.poll_s())
            found = self._engine.intents.glance(op, self._meter)
            if found is None:
                return seen
            seen = found
            if self._deadline.left() <= 0:
                break
        return b""

    def _load_newest(self, front: str, seen: bytes) -> Future[Held]:
        """Load the newest state and, speculatively, open the table versions that the preceding plan targets."""
        with contextlib.suppress(Corruption):
            plan = decode(front, seen).plan if seen else None
            for chain in () if plan is None else plan.landing:
                if chain.key in self._keys and not chain.is_upkeep:
                    self._engine.spawn(self._open_quietly, TableRef(chain.path, chain.ref), chain.version)
        return self._engine.spawn(self._engine.latest, self._branch, self._meter)

    def _open_quietly(self, ref: TableRef, version: int) -> None:
        with contextlib.suppress(OmnigraphError):
            self._engine.tables.open(ref, version, self._meter)

    def _in_our_way(self, op: str) -> bool:
        intent = self._read(op)
        if intent is None or not intent.keys & self._keys:
            return False
        return self._engine.ref_of(intent.branch) == self._engine.ref_of(self._branch)

    def _read(self, op: str) -> Intent | None:
        try:
            return self._engine.intents.first_seen(op, self._meter)
        except Corruption:
            # Which tables it names cannot be told. Opens and recoveries stop at it loudly; a queue need not.
            return None
