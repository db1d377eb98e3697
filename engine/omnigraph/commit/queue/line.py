"""The queue as one waiting writer sees it: which older intents name its tables, and when the first of them has to go.

Waits, and ends the operations of dead owners that stand ahead.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.intent import Intent, decode
from omnigraph.commit.intent_format import OFFERED
from omnigraph.commit.plan import REQUESTS_MAX
from omnigraph.commit.queue.combine import side_by_side
from omnigraph.commit.queue.timing import FrontWatch
from omnigraph.core.errors import Corruption, OmnigraphError, OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef

RECOVER_MIN_S = 1.0  # given to the end of a dead operation in our way, however little time is left for our own write
OFFERS_BYTES_MAX = 4 * 1024 * 1024
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
        self._listed: tuple[tuple[str, str], ...] = ()  # (operation, change stamp) of the last look at the whole queue
        self._ended = False  # our own file was seen to be gone since
        self._fresh = False  # whether that look came after the wait, so that it need not be repeated
        self._reading: Future[None] | None = None

    def ignore(self, op: str) -> None:
        self._elsewhere.add(op)

    def wait_for_front(self, op: str, *, offered: str | None = None) -> Future[Held] | None:
        """Wait until nothing is ahead of ``op``. The newest state, on its way, if something was. ``offered``: the commit id that its
        file offers, if it does; then also until that offer has ended."""
        front: str | None = None
        seen = b""  # the front's file as it was last
        while True:
            ahead = self.ahead(op)
            if offered is not None and self.offer_ended(op):
                return None
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
            if offered is None:
                seen = self._pause(ahead)
                continue
            seen = self._pause_offered(op, offered, front)
            if self._ended:
                return None

    def ahead(self, op: str) -> list[tuple[str, str]]:
        """(operation, change stamp) of the entries ahead of us, oldest first. Only the last is guaranteed to overlap our
        tables; older ones are not read, because while that one is there no other matters."""
        started = self._engine.clock.monotonic()
        self._list()
        self._engine.timing.note_request(self._engine.clock.monotonic() - started)
        return self._ahead_in_list(op)

    def ahead_now(self, op: str) -> bool:
        """Whether anything is ahead of us, by a look after the wait: the one that offers were read by, if there was one."""
        fresh, self._fresh = self._fresh, False
        return bool(self._ahead_in_list(op) if fresh else self.ahead(op))

    def _list(self) -> None:
        self._listed = tuple(self._engine.intents.names(self._meter))
        self._ended = False

    def _ahead_in_list(self, op: str) -> list[tuple[str, str]]:
        found = [(other, stamp) for other, stamp in self._listed if other not in self._elsewhere and other < op]
        while found and not self._in_our_way(found[-1][0]):
            self._elsewhere.add(found.pop()[0])
        return found

    # --- offers -----------------------------------------------------------------------------------------------------

    def offer_ended(self, op: str) -> bool:
        """Whether our own file was gone when we last looked, or was refused: then the newest state says how the offer ended."""
        return self._ended or all(other != op for other, _ in self._listed) or op in self._engine.intents.refused

    def read_offers(self, op: str) -> None:
        """Begin to read what others offer, beside the look at the newest state."""
        self._reading = self._engine.spawn(self._read_offers, op)

    def _read_offers(self, op: str) -> None:
        """Those that are known to be there, then those that came meanwhile. Where the last plan had more requests, the owners of the
        others were answered when this writer was, and are about to come back: wait for them a moment."""
        self._read_later(op)
        if len(self._offers(op)) + 1 < self._engine.timing.company:
            self._engine.clock.sleep(self._engine.timing.linger_s)
        self._list()
        self._read_later(op)

    def _read_later(self, op: str) -> None:
        intents = self._engine.intents
        later = [one for one in self._listed if one[0] > op]
        side_by_side(self._stamped, [one for one in later if not intents.has_stamped(*one)])

    def offers_behind(self, op: str) -> list[Intent]:
        """The offers of later entries that name some of our tables and no other, oldest first, as many as a plan may take."""
        reading, self._reading = self._reading, None
        if reading is None:
            self._list()
            self._read_later(op)
        else:
            reading.result()
        self._fresh = True
        return self._offers(op)

    def _offers(self, op: str) -> list[Intent]:
        intents = self._engine.intents
        found: list[Intent] = []
        size = 0
        for other, stamp in self._listed:
            if other <= op:
                continue
            intent = self._stamped(other, stamp)
            if intent is None or intent.offer is None or other in intents.refused or not self._is_ours(intent):
                continue
            size += sum(len(rows["ipc"]) for rows in intent.offer["rows"])
            if len(found) + 1 >= REQUESTS_MAX or size > OFFERS_BYTES_MAX:
                break
            found.append(intent)
        return found

    def _stamped(self, op: str, stamp: str) -> Intent | None:
        try:
            return self._engine.intents.stamped(op, stamp, self._meter)
        except OmnigraphError:  # its owner is served when its turn comes, and opens and recoveries stop at it loudly
            return None

    def _is_ours(self, intent: Intent) -> bool:
        """Whether a plan of ours may carry it: a request for our tables alone, on the same branch."""
        return (
            intent.state == OFFERED
            and intent.request is not None
            and intent.graph == self._engine.graph_id
            and intent.keys <= self._keys
            and self._engine.ref_of(intent.branch) == self._engine.ref_of(self._branch)
        )

    # --- the front --------------------------------------------------------------------------------------------------

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

    def _pause_offered(self, op: str, commit_id: str, front: str) -> bytes:
        """The same for a writer that the front may carry out, wherever it stands in the queue: the end of the front's plan is news
        for each of them. One that the plan carries watches its own file, which goes when its commit is published."""
        watched, seen = front, b""
        for _ in range(GLANCES):
            self._engine.clock.sleep(self._engine.timing.poll_offered_s())
            found = self._engine.intents.glance(watched, self._meter)
            if found is None:
                self._ended = watched == op
                return seen
            if watched == front and found != seen:
                seen = found
                self._engine.intents.note(front, found)
                if not self._in_our_way(front):
                    self._elsewhere.add(front)
                    return b""
                if commit_id.encode() in found:
                    watched = op
            if self._deadline.left() <= 0:
                break
        return b""

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
