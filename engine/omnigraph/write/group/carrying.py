"""Requests that other processes have offered, as a writer ahead of them carries them out: which may come along, and what their owners
learn of it.

A carried request is never ended here but by a commit: no abort is written under its id, and a refusal is a file that its owner reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from omnigraph.commit import parents
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent
from omnigraph.commit.offering import Offer, Offering
from omnigraph.commit.plan import REQUESTS_MAX, RequestInfo
from omnigraph.commit.queue.refusals import KEY_TAKEN, UNCHANGED, Refusal, write_refusal
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.txn import Txn, still_newest
from omnigraph.core import failpoints
from omnigraph.core.errors import Conflict, InvalidInput, NotFound, OmnigraphError, Overloaded
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.wire.receipt import TableChange
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.group.joint import Candidate
from omnigraph.write.group.member import Member, Stage
from omnigraph.write.group.offer import decode, encode, in_state

NO_DEADLINE_S: Final = 1e9  # its owner's deadline is for people and decides nothing


class _Guest:
    """What a carried request is judged by. It is never prepared alone: then its owner does that."""

    def prepare(self, txn: Txn) -> Prepared | None:
        raise AssertionError("a carried request is not written alone")

    def changes(self, txn: Txn) -> tuple[TypeChange, ...]:
        raise AssertionError("the rows of a carried request are in its offer")

    def offered(self, txn: Txn) -> tuple[TypeChange, ...] | None:
        return None

    def left_alone(self, unchanged: Mapping[str, TableChange]) -> None:
        pass


def offering_of(engine: Engine, member: Member) -> Offering:
    """How a request that is alone in its process meets those of others: what it offers while it waits behind them."""
    request = member.request

    def offer(txn: Txn) -> Offer | None:
        if request.expect_head is not None or _inherits(txn, request):
            return None
        try:
            changes = member.author.offered(txn)
        except (InvalidInput, Conflict, NotFound):
            return None  # it is judged, and told, in a state that is certainly the newest
        deadline_at_us = engine.clock.now_us() + int(max(0.0, member.deadline.left()) * 1e6)
        body = (
            None if changes is None else encode(changes, schema_id=txn.state.schema.id, deadline_at_us=deadline_at_us)
        )
        if body is None:
            return None
        info = RequestInfo(
            id=new_ulid(engine.clock),
            kind=request.kind,
            parents=(),
            actor=request.actor,
            idempotency_key=request.idempotency_key,
            expect_head=None,
            created_at_us=engine.clock.now_us(),
            request=request.request,
            content=request.content,
        )
        return Offer(info, body)

    return Offering(offer)


def _inherits(txn: Txn, request: Request) -> bool:
    pins = (txn.state.tables.get(key) for key in request.keys)
    return any(pin is not None and pin.owner != txn.state.identity for pin in pins)


def has_ended(txn: Txn, commit_id: str) -> bool:
    """Whether an offered request has a record in this state. Over the whole line: an offer that has landed long ago stays in its file
    until its owner looks. What lands after this state the publish finds."""
    return txn.engine.history.find(txn.held, commit_id, meter=txn.meter) is not None


class Carrying:
    """The offers that one group meets, across its plans."""

    def __init__(self, engine: Engine, offering: Offering, meter: Meter) -> None:
        self._engine = engine
        self._offering = offering
        self._meter = meter
        self._ops: dict[Member, str] = {}  # of the guests of the plan that is being made
        self._told: set[str] = set()  # operations whose refusal was written

    def guests(self, txn: Txn, own: Sequence[Candidate]) -> list[Candidate]:
        """Those that may come along on this state, in the order of their queue entries."""
        self._ops = {}
        if txn.state.head.owner is not None or any(one.member.request.expect_head is not None for one in own):
            return []
        found: list[Candidate] = []
        ids: set[str] = set()
        keys = {one.member.request.idempotency_key for one in own} - {None}
        for intent in self._offering.behind():
            info = intent.request
            if len(own) + len(found) >= REQUESTS_MAX:
                break
            # Of two requests with one key the second waits: it is to find the first one's commit.
            if info is None or intent.op in self._told or info.idempotency_key in keys or info.id in ids:
                continue
            guest = self._guest(txn, intent, info)
            if guest is None:
                continue
            found.append(guest)
            ids.add(info.id)
            keys |= {info.idempotency_key} - {None}
        return found

    def _guest(self, txn: Txn, intent: Intent, info: RequestInfo) -> Candidate | None:
        if info.expect_head is not None or info.kind != intent.kind:
            return None
        if has_ended(txn, info.id):
            return None
        if info.idempotency_key is not None:
            taken = parents.find_key(self._engine, txn.held, info.idempotency_key, self._meter)
            if taken is not None:
                self._refuse(txn, intent.op, info.id, {"code": KEY_TAKEN, "commit_id": taken[0].commit_id})
                return None
        rows = decode(intent, txn.catalog, txn.state.schema.id)
        if rows is None:
            return None
        try:
            changes = in_state(intent, rows, txn)
        except (InvalidInput, Conflict, NotFound, Overloaded):
            return None
        request = Request(
            kind=info.kind,
            branch=intent.branch.name,
            keys=intent.keys,
            actor=info.actor,
            idempotency_key=info.idempotency_key,
            request=info.request,
            content=info.content,
            carried=info,
        )
        member = Member(request, _Guest(), 0, Deadline(self._engine.clock, NO_DEADLINE_S), self._meter)
        member.stage = Stage.TAKEN
        self._ops[member] = intent.op
        return Candidate(member, {change.table_key: change for change in changes})

    def has(self, member: Member) -> bool:
        return member in self._ops

    # --- what their owners learn --------------------------------------------------------------------------------------

    def refuse(self, txn: Txn, refused: Mapping[Member, OmnigraphError]) -> None:
        """Guests that are wrong by themselves in this state."""
        for member, error in refused.items():
            carried = member.request.carried
            if carried is not None and member in self._ops:
                self._refuse(txn, self._ops[member], carried.id, error.to_dict())

    def leave(self, txn: Txn, idle: Sequence[Member]) -> None:
        """Guests that change nothing in this state: nothing is published for them, so their refusal tells the owners at once to look for
        themselves, instead of when their turn comes."""
        for member in idle:
            carried = member.request.carried
            if carried is not None and member in self._ops:
                self._refuse(txn, self._ops[member], carried.id, {"code": UNCHANGED})

    def _refuse(self, txn: Txn, op: str, commit_id: str, error: Mapping[str, object]) -> None:
        """Say why. Only of a state that is certainly published; that it fails costs its owner the wait for its turn."""
        if op in self._told:
            return
        state = txn.state
        with contextlib.suppress(OmnigraphError):
            if not still_newest(txn):
                return
            self._engine.durable.acknowledge(state.version, txn.held)
            judged_at = {
                "manifest_version": state.version,
                "head": state.head.commit_id,
                "schema_id": state.schema.id,
            }
            write_refusal(
                self._engine.store,
                Refusal(op, commit_id, error, judged_at),
                refused_by=vars(self._engine.owner),
                now_us=self._engine.clock.now_us(),
                meter=self._meter,
            )
            self._told.add(op)
            failpoints.hit("carry.refused", op=op, code=error["code"])

    def plan(self, members: Sequence[Member]) -> None:
        """These are the requests of the next plan: once it is published, the files of the guests among them are deleted."""
        self._offering.guests = tuple(self._ops[member] for member in members if member in self._ops)
