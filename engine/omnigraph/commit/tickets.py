"""Turns: how a writer that has met others queues for its tables. Manners only.

A ticket is the writer's own intent file in state ``waiting``. It is taken before anything is staged, because a plan made
before the wait would be stale by the time its turn has come. Writers that meet nobody never list and never wait.
"""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from omnigraph.commit import witness
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent, Ticket, encode_ticket
from omnigraph.commit.manners import SIGN_OF_LIFE, FrontWatch
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recover import recover_one
from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import State

if TYPE_CHECKING:
    from omnigraph.commit.run import Request


class Turn:
    """This write's place among its rivals, if it has any."""

    def __init__(self, engine: Engine, request: Request, deadline: Deadline, meter: Meter) -> None:
        self._engine = engine
        self._request = request
        self._deadline = deadline
        self._meter = meter
        self._watch = FrontWatch(engine.manners, engine.clock)
        self._seen: dict[str, Intent | None] = {}
        self._ticket = b""
        self._life: _Life | None = None
        self.op: str | None = None

    def __enter__(self) -> Turn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.op is not None:
            self._rest()
            self._engine.intents.disarm(self.op, self._meter)
            self.ended()

    @property
    def missing(self) -> bool:
        """Whether this write should queue and does not."""
        return self.op is None and bool(self._request.keys) and self._engine.manners.contended

    def take(self, state: State) -> None:
        """Create the ticket. Its place in the queue is its name."""
        op = new_ulid(self._engine.clock)
        witness.begin(op)
        ticket = Ticket(
            self._engine.graph_id,
            op,
            self._request.kind,
            BranchName(self._request.branch, state.identity),
            tuple(sorted(self._request.keys)),
            self._engine.owner,
        )
        self.op = op
        self._ticket = encode_ticket(ticket)
        self._engine.intents.arm(op, self._ticket, self._meter)

    def rewrite(self, plan: bytes) -> None:
        """Our turn: the ticket becomes the plan, under the same name."""
        if self.op is None:
            raise AssertionError("only a ticket can become a plan")
        self._rest()
        self._engine.intents.rewrite(self.op, plan, self._meter)

    def ended(self) -> None:
        """The file is gone. The next plan of this write queues again."""
        self._rest()
        if self.op is not None:
            witness.end(self.op)
        self.op = None

    def leave(self) -> None:
        """Keep the file: the outcome of the plan in it is not known."""
        self.ended()

    def wait(self) -> bool:
        """Until no older intent names one of our tables. Ends those that are dead on the way. True if there was one."""
        front: str | None = None
        waited = False
        while self.op is not None:
            ahead = self._ahead()
            if not ahead:
                self._life = self._life or _Life(self._engine, self.op, self._ticket)
                break
            waited = True
            self._engine.manners.note_neighbour()
            intent, stamp = ahead[0]
            if front is not None and front != intent.op:
                self._watch.front_moved()
            front = intent.op
            if witness.owner_gone(self._engine, intent) or self._watch.beyond_grace(intent.op, stamp, len(ahead)):
                # What it is by now: its ticket may have become a plan since it was read.
                now = self._engine.intents.read(intent.op, self._meter)
                if now is not None:
                    recover_one(self._engine, now, gone=True, meter=self._meter)
                self._watch.front_was_dead()
                front = None
                continue
            self._deadline.check("waiting for other writers of the same tables")
            self._engine.clock.sleep(self._engine.manners.poll_s(len(ahead)))
        return waited

    def someone_older(self) -> bool:
        """The second look: an older ticket may have been on its way when we listed."""
        return bool(self._ahead())

    def _ahead(self) -> list[tuple[Intent, str]]:
        found = []
        started = self._engine.clock.monotonic()
        listed = self._engine.intents.names(self._meter)
        self._engine.manners.note_request(self._engine.clock.monotonic() - started)
        for op, stamp in listed:
            if self.op is not None and op >= self.op:
                break
            intent = self._read(op)
            if intent is not None and intent.keys & self._request.keys and intent.branch.name == self._request.branch:
                found.append((intent, stamp))
        return found

    def _read(self, op: str) -> Intent | None:
        """Each is read once: the tables that a ticket names hold for the plan that it becomes."""
        if op not in self._seen:
            try:
                intent = self._engine.intents.read(op, self._meter)
            except Corruption:
                # Nobody can tell which tables it names. Opens and recoveries stop at it loudly; a queue need not.
                intent = None
            self._seen[op] = intent
        return self._seen[op]

    def _rest(self) -> None:
        if self._life is not None:
            self._life.stop()
            self._life = None


class _Life:
    """Signs of life of a writer that prepares or stages something long in its turn: its ticket, written again.

    Must be stopped before the ticket becomes a plan or goes away.
    """

    def __init__(self, engine: Engine, op: str, ticket: bytes) -> None:
        self._engine = engine
        self._op = op
        self._ticket = ticket
        self._stopped = threading.Event()
        self._running = engine.spawn(self._run)

    def _run(self) -> None:
        while not self._stopped.wait(self._engine.manners.grace_s * SIGN_OF_LIFE):
            # A sign that is not seen costs the turn, and nothing else.
            with contextlib.suppress(OmnigraphError):
                self._engine.intents.rewrite(self._op, self._ticket)

    def stop(self) -> None:
        self._stopped.set()
        self._running.result()
