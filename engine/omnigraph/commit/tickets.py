"""Turns: how a writer that has met others queues for its tables. Manners only.

A ticket is the writer's own intent file in state ``waiting``. It is taken before anything is staged, because a plan made
before the wait would be stale by the time its turn has come. Writers that meet nobody never list and never wait.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING

from omnigraph.commit import live, witness
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent, Ticket, decode, encode_ticket
from omnigraph.commit.kept import KeptTurn
from omnigraph.commit.life import SignsOfLife
from omnigraph.commit.manners import KEPT_MAX, FrontWatch
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recover import recover_one
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption, OmnigraphError, OutcomeUnknown
from omnigraph.core.ids import ulid_row
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef

if TYPE_CHECKING:
    from omnigraph.commit.run import Request

RECOVER_MIN_S = 1.0  # given to the end of a dead one in our way, however little time is left for our own write
GLANCES = 16  # at the file of the front alone, between two looks at the whole queue


class Turn:
    """This write's place among its rivals, if it has any."""

    def __init__(self, engine: Engine, request: Request, deadline: Deadline, meter: Meter) -> None:
        self._engine = engine
        self._request = request
        self._deadline = deadline
        self._meter = meter
        self._watch = FrontWatch(engine.manners, engine.clock)
        self._others: set[str] = set()  # operations that are not in our way
        self._ticket = b""
        self._life: SignsOfLife | None = None
        self._names: tuple[str, ...] = ()  # for the plans that may follow in this turn
        self._since = 0.0  # when we came to the front
        self._kept: KeptTurn | None = None  # our last plan's, until this one's intent is there
        self._before: KeptTurn | None = None  # the same, while its file goes
        self.op: str | None = None

    def __enter__(self) -> Turn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.op is not None:
                self._rest()
                self._engine.intents.disarm(self.op, self._meter)
        finally:
            self.ended()

    @property
    def missing(self) -> bool:
        """Whether this write should queue and does not."""
        return self.op is None and bool(self._request.keys) and self._engine.manners.contended

    def take(self, state: State) -> None:
        """Create the ticket. Its place in the queue is its name."""
        # Behind everybody who is known to queue, also if this clock is slow: it is nobody's privilege.
        self.op, *rest = ulid_row(KEPT_MAX, self._engine.clock, after=self._engine.intents.newest)
        self._names = tuple(rest)
        live.begin(self.op)
        self._ticket = self._encoded(self.op, state.identity)
        self._engine.intents.arm(self.op, self._ticket, self._meter)

    def _encoded(self, op: str, identity: str) -> bytes:
        return encode_ticket(
            Ticket(
                self._engine.graph_id,
                op,
                self._request.kind,
                BranchName(self._request.branch, identity),
                tuple(sorted(self._request.keys)),
                self._engine.owner,
            )
        )

    def resume(self) -> None:
        """Take up the turn that the last write of this process has kept, if it has."""
        kept = self._engine.kept.take(self._request.branch, self._request.keys, self._meter)
        if kept is not None:
            self._follow(kept)

    def hold(self, state: State) -> bool:
        """Our plan has ended by an abort: a ticket takes its place, so that nobody is passed by for having been in
        somebody's way. False: we had no turn, or it has lasted for too many plans."""
        if self.op is None or not self._names:
            return False
        kept = self.keep()
        if kept.take(self._request.branch, self._request.keys, self._meter):
            self._follow(kept)
            try:
                self.dwell(state)
            except OmnigraphError:  # no ticket, no place: the plan has ended all the same
                self._engine.intents.disarm(kept.names[0], self._meter)
                self.ended()
        return True

    def _follow(self, kept: KeptTurn) -> None:
        self._kept, self._since = kept, kept.since
        self.op, *rest = kept.names
        self._names = tuple(rest)
        self._others.add(kept.op)
        live.begin(self.op)

    def dwell(self, state: State) -> bool:
        """Something long is done before arming: a kept turn needs a ticket that shows signs of life. False: it was lost."""
        if self.op is None or self._kept is None:
            return True
        ticket = self._encoded(self.op, state.identity)
        if not self.arm(ticket):
            return False
        self._ticket = ticket
        self._live()
        return True

    def arm(self, data: bytes) -> bool:
        """Our turn: the ticket becomes the plan, under the same name. In a kept turn the file is new, and the last plan's
        goes. False: the kept turn was lost; queue again."""
        if self.op is None:
            raise AssertionError("only who has a turn arms in it")
        if self._kept is None:
            self._rest()
            self._engine.intents.rewrite(self.op, data, self._meter)
            return True
        if not self._kept.begin_arming():
            self.ended()
            return False
        failpoints.hit("arm.before")
        self._engine.intents.arm(self.op, data, self._meter)
        self._kept.end()
        self._before, self._kept = self._kept, None
        return True

    def ended(self) -> None:
        """The file is gone. The next plan of this write queues again."""
        try:
            self._rest()
        finally:
            if self._kept is not None:
                self._kept.end()
                self._kept = None
            if self.op is not None:
                live.end(self.op)
            self.op = None

    def may_keep(self) -> bool:
        """Whether the turn goes on after this plan: the next write of this process is likely to come at once."""
        lasted = self._engine.clock.monotonic() - self._since
        waiting = self._engine.intents.seen - 1
        return self.op is not None and bool(self._names) and self._engine.manners.keeps_turn(lasted, waiting)

    def left_behind(self) -> OmnigraphError | None:
        """Why the last plan's file is still there, if it is."""
        return None if self._before is None else self._before.deleted()

    def keep(self) -> KeptTurn:
        """Our plan has ended: leave its file to hold our place."""
        if self.op is None:
            raise AssertionError("only a turn can be kept")
        request = self._request
        kept = self._engine.kept.offer(self._engine, self.op, self._names, request.branch, request.keys, self._since)
        self.op = None
        return kept

    def leave(self) -> None:
        """Keep the file: the outcome of the plan in it is not known."""
        self.ended()

    def wait(self) -> Future[Held] | None:
        """Until no older intent names one of our tables. Ends those that are dead on the way.

        Returns the newest state, asked for as soon as nobody is ahead; None if nobody was.
        """
        front: str | None = None
        seen = b""  # the front's file as it was last
        while self.op is not None and self._kept is None:
            ahead = self._ahead()
            if not ahead:
                self._since = self._engine.clock.monotonic()
                self._live()
                return None if front is None else self._look_up(front, seen)
            self._engine.manners.note_neighbour()
            if front is not None and front != ahead[0][0]:
                self._watch.front_moved()
            front, stamp = ahead[0]
            if self._suspect(front, stamp):
                if not self._is_ours(front):
                    self._others.add(front)
                    continue
                if self._end_if_dead(front, stamp, len(ahead)):
                    self._others.add(front)  # it has ended, even if its file is still there
                    front = None
                    self._check_deadline()
                    continue
            self._check_deadline()
            seen = self._pause(ahead)
        return None

    def someone_older(self) -> bool:
        """The second look: an older ticket may have been on its way when we listed. It comes before a kept turn."""
        older = bool(self._ahead())
        if older and self._kept is not None:
            self.ended()
        return older

    def _ahead(self) -> list[tuple[str, str]]:
        """(operation, stamp) of the older intents that may name one of our tables, oldest first. The youngest one does.

        Only as many are read as it takes to know that one: while it is there, nobody else's tables matter.
        """
        started = self._engine.clock.monotonic()
        listed = self._engine.intents.names(self._meter)
        self._engine.manners.note_request(self._engine.clock.monotonic() - started)
        found = [(op, stamp) for op, stamp in listed if op not in self._others and (self.op is None or op < self.op)]
        while found and not self._is_ours(found[-1][0]):
            self._others.add(found.pop()[0])
        return found

    def _suspect(self, front: str, stamp: str) -> bool:
        """Whether the front is worth a closer look: it has not moved for as long as a commit takes, or follows a dead one."""
        return self._watch.after_dead or self._watch.standing_s(front, stamp) >= self._engine.manners.commit_s

    def _end_if_dead(self, front: str, stamp: str, rank: int) -> bool:
        intent = self._read(front)
        known = intent is not None and witness.owner_gone(self._engine, intent)
        if not known and not self._watch.beyond_grace(front, stamp, rank):
            return False
        # What it is by now: its ticket may have become a plan since it was read.
        now = self._engine.intents.read(front, self._meter)
        if now is not None:
            try:
                recover_one(
                    self._engine, now, gone=True, meter=self._meter, within_s=max(self._deadline.left(), RECOVER_MIN_S)
                )
            except OutcomeUnknown:  # theirs, and nothing of ours: it still stands there
                return False
        self._watch.front_was_dead(silent=not known)
        return True

    def _check_deadline(self) -> None:
        self._deadline.check("waiting for other writers of the same tables")

    def _pause(self, ahead: list[tuple[str, str]]) -> bytes:
        """Sleep until it is worth looking at the queue again. Directly behind the front, a glance at its file alone is
        quicker; what that file said before it went, if so."""
        if len(ahead) > 1:
            self._engine.clock.sleep(self._engine.manners.poll_s(len(ahead)))
            return b""
        [(op, _)] = ahead
        seen = b""
        for _ in range(GLANCES):
            self._engine.clock.sleep(self._engine.manners.poll_s())
            found = self._engine.intents.glance(op, self._meter)
            if found is None:
                return seen
            seen = found
            if self._deadline.left() <= 0:
                break
        return b""

    def _look_up(self, front: str, seen: bytes) -> Future[Held]:
        """The newest state, and beside it the tables that the plan before us has left: before the state says so, and if
        that plan came to nothing, so does this."""
        with contextlib.suppress(Corruption):
            plan = decode(front, seen).plan if seen else None
            for table in () if plan is None else plan.tables:
                if table.key in self._request.keys:
                    self._engine.spawn(self._open_quietly, TableRef(table.path, table.ref), table.target)
        return self._engine.spawn(self._engine.latest, self._request.branch, self._meter)

    def _open_quietly(self, ref: TableRef, version: int) -> None:
        with contextlib.suppress(OmnigraphError):
            self._engine.tables.open(ref, version, self._meter)

    def _is_ours(self, op: str) -> bool:
        intent = self._read(op)
        return (
            intent is not None and bool(intent.keys & self._request.keys) and intent.branch.name == self._request.branch
        )

    def _read(self, op: str) -> Intent | None:
        try:
            return self._engine.intents.first_seen(op, self._meter)
        except Corruption:
            # Nobody can tell which tables it names. Opens and recoveries stop at it loudly; a queue need not.
            return None

    def _live(self) -> None:
        if self.op is not None and self._life is None:
            self._life = SignsOfLife(self._engine, self.op, self._ticket)
            self._life.start()

    def _rest(self) -> None:
        if self._life is not None:
            self._life.stop()
            self._life = None
