"""How a plan's intent is armed: directly where nothing else is going on, through the queue where writers have met.

A queue entry (a *ticket*) is the writer's own intent file in state ``waiting``. It is created before anything is staged,
because a plan made before the wait would be stale when the wait is over. Writers that meet no other never list and never
wait. Nothing here decides what is true: it only spares work that would be lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Branch, Engine, gather
from omnigraph.commit.intent import Intent, Ticket, encode_ticket
from omnigraph.commit.intent_format import encode_offer
from omnigraph.commit.offering import Offer, Offering
from omnigraph.commit.plan import BranchName, PublishPlan
from omnigraph.commit.queue import local_operations
from omnigraph.commit.queue.combine import Combining, joins
from omnigraph.commit.queue.heartbeat import Heartbeat
from omnigraph.commit.queue.lease import QueueLease
from omnigraph.commit.queue.line import QueueLine
from omnigraph.commit.queue.offers import OwnOffer
from omnigraph.commit.queue.timing import LEASE_PLANS_MAX
from omnigraph.commit.request import CarriedOut, Request
from omnigraph.commit.txn import Txn
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.ids import new_ulid, ulid_row
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held


@dataclass(frozen=True)
class Wanted:
    """What a write needs of the queue. ``shares``: whether its swap may be one with those of other processes."""

    kind: str
    branch: Branch
    keys: frozenset[str]
    offering: Offering | None = field(default=None, compare=False)
    shares: bool = True


class Arming:
    """The way of one write to an armed intent, and of that intent to its end.

    ``admit`` waits for the writers ahead, ``arm`` makes the intent durable, ``requeue`` keeps the position after an abort,
    ``finish`` ends the intent of a plan whose end is durable. In between, ``wait_first`` and ``abandon``.
    """

    def __init__(self, engine: Engine, wanted: Wanted, deadline: Deadline, meter: Meter) -> None:
        self._engine = engine
        self._wanted = wanted
        self._deadline = deadline
        self._meter = meter
        self._line = QueueLine(engine, wanted.branch, wanted.keys, deadline, meter)
        self._ticket = b""
        self._heartbeat: Heartbeat | None = None
        self._reserved: tuple[str, ...] = ()  # operation ids for the plans that may follow in this queue position
        self._admitted_at = 0.0
        self._lease: QueueLease | None = None  # the last plan's file, until this plan's intent is there
        self._superseded: QueueLease | None = None  # the same, while that file is being deleted
        self._deleting: Future[OmnigraphError | None] | None = None
        self._moved_to: str | None = None  # the id of the plan that has followed our ticket
        self._ticket_gone: Future[OmnigraphError | None] | None = None
        self._company: Combining | None = None
        self._joins = False
        self._own = OwnOffer(engine, wanted.branch, wanted.offering, meter)
        self._answers_first = False  # a writer ahead has said that the answer is known: look for it before queueing
        if wanted.offering is not None:
            wanted.offering.behind = self._behind
        self.op: str | None = None  # of the queue entry; None for a writer that does not queue

    @classmethod
    def of(cls, engine: Engine, request: Request, line: Branch, deadline: Deadline, meter: Meter) -> Arming:
        """Of the write that a request asks for."""
        shares = engine.may_share(request.group)
        return cls(engine, Wanted(request.kind, line, request.keys, request.offering, shares), deadline, meter)

    def __enter__(self) -> Arming:
        """Take over the queue position that the last write of this process has left, if it has."""
        lease = self._engine.leases.take(self._wanted.branch, self._wanted.keys, self._meter)
        if lease is not None:
            self._follow(lease)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._own.is_open:
                self._end_offer(error)
            if self.op is not None:
                self._stop_heartbeat()
                self._engine.intents.disarm(self.op, self._meter)
        finally:
            self._forget()
            if self._ticket_gone is not None:
                wait([self._ticket_gone])

    # --- admit ------------------------------------------------------------------------------------------------------

    def admit(self) -> Future[Held] | None:
        """Wait until no older intent names one of our tables; end those of dead owners on the way.

        Returns the newest state, asked for as soon as nothing is ahead; None if nothing was.
        """
        self._queue_up()
        if self.op is None or self._lease is not None:
            return None
        newest = self._line.wait_for_front(self.op, offered=None if self._own.info is None else self._own.info.id)
        if self._own.is_open and self._line.offer_ended(self.op):
            self._follow_offer()
            return None
        self._admitted_at = self._engine.clock.monotonic()
        self._start_heartbeat()
        if self._wanted.offering is not None:
            self._line.read_offers(self.op)
        return newest

    def _queue_up(self) -> None:
        """Create a ticket on the state that this process knows, where writers have met lately. What it says of the tables need not be
        of the newest state, which changes while it waits."""
        known = self._engine.known(self._wanted.branch)
        if known is not None and known.state.head.closed is None and self._queues:
            name = self._wanted.branch if isinstance(self._wanted.branch, str) else self._wanted.branch.name
            txn = Txn(self._engine, name, known, self._deadline, self._meter)
            self.enqueue(known.state, self._own.encoded(txn))

    @property
    def _queues(self) -> bool:
        """Whether to create a ticket before the next plan: writers have met lately, and this one has none. Not over an offer that is
        open: it may have landed, and another one would land beside it."""
        free = self.op is None and not self._own.is_open and not self._answers_first
        return free and bool(self._wanted.keys) and self._engine.timing.contended

    def wait_first(self, txn: Txn) -> bool:
        """Create a ticket where writers have met lately and this one has none. True: it queues now, so wait first.

        An offer that was made before is looked for in this state, which the next plan is made on: what has landed by then is an end,
        and what lands later the publish of that plan finds."""
        self._own.look(txn.held)
        if not self._queues:
            return False
        self.enqueue(txn.state, self._own.encoded(txn))
        return True

    def enqueue(self, state: State, offer: Offer | None = None) -> None:
        """Create the ticket. Its id is its position: behind every entry that is known, also if this clock is slow."""
        self.op, *rest = ulid_row(1 + LEASE_PLANS_MAX, self._engine.clock, after=self._engine.intents.newest)
        self._reserved = tuple(rest)
        local_operations.begin(self.op)
        self._ticket = self._encode_ticket(self.op, state, offer)
        if offer is not None:
            self._own.begin(self.op, offer)
        self._engine.intents.arm(self.op, self._ticket, self._meter)

    def overtaken(self) -> bool:
        """The second look: an older ticket may have been on its way when we listed. It also comes before a lease."""
        if self.op is None or not self._line.ahead_now(self.op):
            return False
        if self._lease is not None:
            self._forget()
        return True

    @property
    def one_by_one(self) -> bool:
        """Whether table commits are sent one after the other: this writer competes, and holds no queue position."""
        return self._engine.timing.contended and self.op is None

    # --- arm --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def planning(self, *, staged_first: bool = False) -> Iterator[str]:
        """The operation id of the next plan; other parts of this process see it as alive meanwhile.

        A plan is never written over a ticket: who takes the writer for dead deletes that file, at any time after having read it, and
        would delete the plan whose tables are being written. So the plan that follows a ticket has the next reserved id; so has one that
        stages first, because its lease becomes a ticket."""
        if self.op is not None and self._lease is not None and not staged_first:
            yield self.op  # the entry lives as long as this write
            return
        op = new_ulid(self._engine.clock) if self.op is None or not self._reserved else self._reserved[0]
        local_operations.begin(op)
        try:
            yield op
        finally:
            if op != self._moved_to:
                local_operations.end(op)

    def extend_for_staging(self, state: State) -> bool:
        """Something long is done before arming: a lease becomes a ticket with a heartbeat. False: the lease was lost."""
        if self.op is None or self._lease is None:
            return True
        ticket = self._encode_ticket(self.op, state)
        if not self.replace_by(ticket):
            return False
        self._ticket = ticket
        self._start_heartbeat()
        return True

    def arm(self, op: str, data: bytes, staging: Sequence[Future[Any]], *, staged_first: bool) -> list[Any] | None:
        """Make the intent durable beside staging, or after it where staging is long. Returns what was staged.

        None: the queue position was lost, and nothing was sent. An exception leaves no intent behind.
        """
        try:
            return self._arm(op, data, staging, staged_first=staged_first)
        except BaseException:
            try:
                wait(staging)  # nothing of ours still runs when the caller sees the error
            finally:
                # No table commit was sent, so nothing can become visible: the intent may go, if it is there at all. One that has
                # followed an offer goes once that is withdrawn.
                if not self._own.is_open or self._moved_to != op:
                    self._engine.intents.disarm(op)
            raise

    def _arm(self, op: str, data: bytes, staging: Sequence[Future[Any]], *, staged_first: bool) -> list[Any] | None:
        meter, intents = self._meter, self._engine.intents
        if self.op is not None:
            # A short staging goes on while the plan is armed; a long one needs the ticket's heartbeat.
            overtaken = self.overtaken()
            if overtaken or staged_first:
                gather(staging)
            if overtaken:
                return None
            meter.step()
            armed = self.follow_ticket(op, data) if self._lease is None else self.replace_by(data)
            staged = gather(staging)
            if not armed:
                return None
        elif staged_first:
            staged = gather(staging)
            meter.step()
            failpoints.hit("arm.before")
            intents.arm(op, data, meter)
        else:
            failpoints.hit("arm.before")
            *staged, _ = gather([*staging, self._engine.spawn(intents.arm, op, data, meter)])
        failpoints.hit("arm.after")
        return staged

    def follow_ticket(self, op: str, data: bytes) -> bool:
        """Create the intent of the plan, and delete the ticket once it is there: an offer has one file or the other."""
        ticket = self.op
        if ticket is None:
            raise AssertionError("only a queue entry is followed")
        self._stop_heartbeat()
        failpoints.hit("arm.before")
        self._engine.intents.arm(op, data, self._meter)
        self._line.ignore(ticket)
        self.op = self._moved_to = op
        self._reserved = self._reserved[1:]
        self._ticket_gone = self._engine.spawn(self._delete_ticket, ticket)
        return True

    def _delete_ticket(self, ticket: str) -> OmnigraphError | None:
        try:
            return self._engine.intents.disarm(ticket, self._meter)
        finally:
            local_operations.end(ticket)

    def replace_by(self, data: bytes) -> bool:
        """Create the next file, and let that of the last plan be deleted. False: the lease was lost; queue again."""
        if self.op is None or self._lease is None:
            raise AssertionError("only a lease is replaced")
        if not self._lease.begin_arming():
            self._forget()
            return False
        failpoints.hit("arm.before")
        self._engine.intents.arm(self.op, data, self._meter)
        self._lease.end()
        self._superseded, self._lease = self._lease, None
        return True

    # --- requeue ----------------------------------------------------------------------------------------------------

    def requeue(self, state: State) -> bool:
        """After an abort, replace the plan by a ticket with the next reserved id, so that the writer keeps its position.
        False: it had none, or has used up its reserved ids."""
        if self.op is None or not self._reserved:
            return False
        lease = self._offer_lease(self.op)
        if lease.take(self._wanted.branch, self._wanted.keys, self._meter):
            self._follow(lease)
            try:
                self.extend_for_staging(state)
            except OmnigraphError:  # no ticket, no position: the plan has ended all the same
                self._engine.intents.disarm(lease.reserved[0], self._meter)
                self._forget()
        return True

    # --- offers -----------------------------------------------------------------------------------------------------

    @property
    def has_offered(self) -> bool:
        """Whether another writer may land the request of this write, under the id that its plan has."""
        return self._own.is_open

    def _behind(self) -> Sequence[Intent]:
        """The offers of those that wait behind this writer. None where it holds no queue position."""
        return () if self.op is None else self._line.offers_behind(self.op)

    def _follow_offer(self) -> None:
        """Our file is gone, or a writer ahead has refused what it offers: only a record under its id is an end.

        Where there is none, withdraw it: a writer that has read it could still carry it out. Then raise the refusal, or plan again."""
        refusal = self._own.refusal() if self.op in self._engine.intents.refused else None
        self._forget()
        if refusal is None:
            self._own.look(self._engine.latest(self._wanted.branch, self._meter))
        self._own.withdraw()
        error = None if refusal is None else refusal.as_error
        self._answers_first = refusal is not None
        if error is not None:
            raise error

    def _end_offer(self, error: BaseException | None) -> None:
        """The write ends, and its offer is open: withdraw it, so that the caller's answer stays true."""
        self._stop_heartbeat()
        if isinstance(error, OmnigraphError) and self._deadline.passed:
            unknown = self._own.unknown(error.message)
            self.abandon()
            raise unknown from error
        try:
            self._own.withdraw()
        except CarriedOut:
            if error is None or isinstance(error, Exception):
                raise
        except Exception as failure:
            unknown = self._own.unknown(str(failure))
            self.abandon()
            if error is None or isinstance(error, Exception):
                raise unknown from failure
        except BaseException:
            self.abandon()
            raise

    # --- publish ----------------------------------------------------------------------------------------------------

    def rivals(self, plan: PublishPlan, change: Change) -> Combining:
        """The other writers of the line, for the publish of this plan."""
        self._company = Combining(
            self._engine,
            plan,
            change,
            lambda: self.published(plan.op),
            self._meter,
            shares=self._wanted.shares,
            joins=self._joins,
        )
        return self._company

    def joins(self, plan: PublishPlan) -> bool:
        """Whether the publish of this plan begins as after a lost swap, so that no file is written for it ahead."""
        self._joins = self._wanted.shares and joins(self._engine, plan)
        return self._joins

    @property
    def lost_a_swap(self) -> bool:
        """Whether the last publish has lost one to another writer."""
        return self._company is not None and self._company.lost

    # --- finish -----------------------------------------------------------------------------------------------------

    def published(self, op: str) -> None:
        """The swap was made: delete the intent beside the look at the boundary, unless the position is kept as a lease, or the plan
        has carried out offers: their files go with it, so that no writer behind sees some of them without the others."""
        failpoints.hit("disarm.before")
        if not self._guests and not self._may_lease():
            self._deleting = self._engine.spawn(self._engine.intents.disarm, op, self._meter)

    def finish(self, op: str, *, published: bool = False, landed: bool = False) -> OmnigraphError | None:
        """The plan's end is durable: delete its intent, or leave it as a lease for the next write of this process where a swap of
        ours has ``published`` it. ``landed``: it was published, by us or by another process.

        Returns why a file is still there, if one is."""
        guests = self._guests if landed else ()
        if landed:
            self._own.close()
            self._engine.timing.note_company(len(guests) + 1)
        deleting, self._deleting = self._deleting, None
        if deleting is None and published and self._may_lease():
            self._end_guests(guests)
            self._offer_lease(self.op or op)
            return self._left_behind()
        if deleting is not None:
            warning = deleting.result()
            self._end_guests(guests)
        else:
            warning = self._end_guests(guests, op)
        self._forget()
        failpoints.hit("disarm.after")
        return warning or self._left_behind()

    def abandon(self) -> None:
        """Stop using the queue entry without deleting its intent: the outcome of the plan is unknown."""
        self._own.close()
        self._forget()

    # --- inside -----------------------------------------------------------------------------------------------------

    @property
    def _guests(self) -> tuple[str, ...]:
        """The operations whose offers the plan has carried out."""
        return () if self._wanted.offering is None else self._wanted.offering.guests

    def _end_guests(self, guests: tuple[str, ...], *own: str) -> OmnigraphError | None:
        """Delete the files of offers whose commits are published, which is how their owners learn of it, and our own. Returns why our
        own is still there, if it is; an offer whose file stays finds its commit when its turn comes."""
        if not guests:
            return self._engine.intents.disarm(own[0], self._meter) if own else None
        failpoints.hit("carry.before_told")
        left = self._engine.intents.disarm_all((*own, *guests), self._meter)
        failpoints.hit("carry.after_told")
        return next((left[op] for op in own if op in left), None)

    def _may_lease(self) -> bool:
        """Whether the position goes on after this plan: the next write of this process is likely to come at once."""
        held_s = self._engine.clock.monotonic() - self._admitted_at
        others = self._engine.intents.seen - 1
        return self.op is not None and bool(self._reserved) and self._engine.timing.keeps_lease(held_s, others)

    def _offer_lease(self, op: str) -> QueueLease:
        wanted = self._wanted
        lease = self._engine.leases.offer(
            self._engine, op, self._reserved, wanted.branch, wanted.keys, self._admitted_at
        )
        self.op = None
        return lease

    def _follow(self, lease: QueueLease) -> None:
        self._lease, self._admitted_at = lease, lease.since
        self.op, *rest = lease.reserved
        self._reserved = tuple(rest)
        self._line.ignore(lease.op)
        local_operations.begin(self.op)

    def _left_behind(self) -> OmnigraphError | None:
        """Why a file that our plan has followed is still there, if it is."""
        ticket = None if self._ticket_gone is None else self._ticket_gone.result()
        lease = None if self._superseded is None else self._superseded.deleted()
        return lease or ticket

    def _forget(self) -> None:
        """The file is gone or is not ours to delete. The next plan of this write queues again."""
        try:
            self._stop_heartbeat()
        finally:
            if self._lease is not None:
                self._lease.end()
                self._lease = None
            if self.op is not None:
                local_operations.end(self.op)
            self.op = None

    def _encode_ticket(self, op: str, state: State, offer: Offer | None = None) -> bytes:
        tables = tuple((key, _identity(state, key)) for key in sorted(self._wanted.keys))
        wanted = self._wanted.branch
        branch = BranchName(wanted if isinstance(wanted, str) else wanted.name, state.identity)
        ticket = Ticket(self._engine.graph_id, op, self._wanted.kind, branch, tables, self._engine.owner)
        return encode_ticket(ticket) if offer is None else encode_offer(ticket, offer.info, offer.body)

    def _start_heartbeat(self) -> None:
        if self.op is not None and self._heartbeat is None:
            self._heartbeat = Heartbeat(self._engine, self.op, self._ticket)
            self._heartbeat.start()

    def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None


def _identity(state: State, key: str) -> str:
    pin = state.tables.get(key)
    return "" if pin is None else pin.identity
