"""Requests that one process offers and another carries out: an offer may be in several plans, and must land once, or never."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from omnigraph.commit.advance import RECOVERY, Answer, Swap, Terms, advance
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol import compensate, planning
from omnigraph.commit.queue import arming, offers, refusals
from omnigraph.commit.queue.arming import Arming
from omnigraph.commit.queue.offers import OwnOffer
from omnigraph.commit.queue.refusals import Refusal, write_refusal
from omnigraph.commit.recovery import recover as recovery
from omnigraph.commit.recovery.outcome import ABORTED, PENDING, find_outcome
from omnigraph.commit.txn import Txn
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.rows import AbortRow, CommitRow
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held
from omnigraph.store import layout
from omnigraph.testing.grouping import Ended
from omnigraph.testing.offering import adding, carry_out, leave_offer, offering_engine, queued
from omnigraph.testing.operations import append
from omnigraph.write.group import carrying
from tests.component.planted.scenes import TWO, Defect, Engines, recovered, wrong

T1, T2 = TWO


def _offering(engines: Engines) -> Engine:
    return offering_engine(engines().uri)


def _landed(engine: Engine, commit_id: str | None) -> list[str]:
    fate = find_outcome(engine, str(commit_id), Meter())
    return [] if isinstance(fate.row, CommitRow) else [f"{commit_id} is {fate.state}"]


def _told(ended: Ended[Any], commit_id: str) -> list[str]:
    """The caller was told of this commit, and of nothing else."""
    if ended.error is not None:
        return [f"the caller was told {ended.error!r}"]
    told = ended.value.commit_id
    return [] if told == commit_id else [f"the caller was told {told}, and offered {commit_id}"]


def _offered(intent: Any) -> str:
    assert intent.request is not None
    return str(intent.request.id)


def a_ticket_is_deleted_late(engines: Engines) -> list[str]:
    """Another process takes a waiting writer for dead. Its request to delete the ticket arrives after the writer has armed its plan. While that plan
    can land, it is pending: *absent* would say that the write may be repeated."""
    owner, stranger, third = _offering(engines), engines(), engines()
    late: list[str] = []
    told: list[str] = []

    def lands(**_: Any) -> None:
        [armed] = [one for one in map(third.intents.read, dict(third.intents.names())) if one is not None and one.plan]
        assert armed.plan is not None
        for op in late:
            third.intents.disarm(op)
        told.append(find_outcome(third, armed.plan.head, Meter()).state)

    with failpoints.armed("apply.before_commit", lands):
        with queued(owner, [T1]) as queue:
            ended = queue.start(adding(owner, "a", mode="append"))
            [intent] = queue.offers()
            with mock.patch.object(stranger.intents, "disarm", lambda op, *_: late.append(op)):
                recovery.recover_one(stranger, intent, gone=True, meter=Meter())
    found = wrong(engines(), {T1: ["a"]})
    if ended.error is not None or late != [intent.op]:
        found.append(f"told {ended.error!r}, deleted {late}")
    return found if told == [PENDING] else [*found, f"the outcome of an armed plan is {told}"]


def a_ticket_of_upkeep_is_deleted_late(engines: Engines) -> list[str]:
    """The same for a turn of upkeep: its plan stays pending. Without it no operation claims the versions that upkeep writes."""
    owner, stranger = engines(), engines()
    for number in range(3):
        append(owner, [T1], [str(number)])
    files: list[str] = []
    planned: list[bool] = []
    arm = owner.intents.arm

    def noted(op: str, *facts: Any) -> None:
        files.append(op)
        arm(op, *facts)

    def late(**_: Any) -> None:
        stranger.intents.disarm(files[0])
        there = [stranger.intents.read(op) for op, _ in stranger.intents.names()]
        planned.append(any(one is not None and one.plan is not None for one in there))

    with mock.patch.object(owner.intents, "arm", noted), failpoints.armed("maintain.armed", late):
        Graph(owner).optimize()
    return [] if planned and all(planned) else [f"whether the turns of upkeep were pending: {planned}"]


def into_the_archive(engine: Engine) -> None:
    """Push every row of the history so far out of the tail, by swaps that say nothing of any request."""
    for _ in range(2):
        done: list[bool] = []

        def propose(held: Held, done: list[bool] = done) -> Swap | Answer[None]:
            if done:
                return Answer(None)
            done.append(True)
            ids = [new_ulid(engine.clock) for _ in range(70)]
            rows = tuple(AbortRow(id=one, plan=one, actor=None, base=held.version, created_at_us=1) for one in ids)
            return Swap(Change(history=rows), {})

        advance(engine, MAIN, propose, Terms(RECOVERY), meter=Meter())
    assert engine.latest(MAIN).state.tail_begins > 2


# --- scenes ---------------------------------------------------------------------------------------------------------------


def an_offer_that_landed_long_ago(engines: Engines) -> list[str]:
    """Its file is left, as of a writer that died before it could delete it."""
    landed = adding(engines(), "a")().commit_id
    into_the_archive(engines())
    mine = _offering(engines)
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "mine", mode="append"))
        leave_offer(mine, T1, ["again"], mode="append", commit_id=landed)
    recovered(engines())
    return wrong(engines(), {T1: ["a", "mine"]})


def a_key_that_was_used_long_ago(engines: Engines) -> list[str]:
    adding(engines(), "a", idempotency_key="k")()
    into_the_archive(engines())
    mine = _offering(engines)
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "mine", mode="append"))
        leave_offer(mine, T1, ["again"], mode="append", idempotency_key="k")
    recovered(engines())
    return wrong(engines(), {T1: ["a", "mine"]})


def refused_by_one_and_landed_by_an_older_one(engines: Engines) -> list[str]:
    """The writer that refuses looked at a state in which another row excluded this one; an older writer has landed it since."""
    owner, older = _offering(engines), _offering(engines)
    state = older.latest("main").state
    with queued(owner, [T1]) as queue:
        ended = queue.start(adding(owner, "b", mode="append"))
        [intent] = queue.offers()
        with failpoints.armed("carry.before_told", "raise"), contextlib.suppress(OutcomeUnknown):
            carry_out(older, [intent], adding(older, "older", mode="append"))
        judged = {"manifest_version": state.version, "head": state.head.commit_id, "schema_id": state.schema.id}
        refusal = Refusal(intent.op, _offered(intent), {"error": "no", "code": "data-invalid", "hint": ""}, judged)
        write_refusal(owner.store, refusal, refused_by=vars(owner.owner), now_us=1)
    recovered(engines())
    return [*_told(ended, _offered(intent)), *wrong(engines(), {T1: ["b", "older"]})]


def a_refusal_is_altered(engines: Engines) -> list[str]:
    """One bit of the file is flipped, on a disk that does not notice; what it says still reads."""
    owner = _offering(engines)
    state = owner.latest("main").state
    with queued(engines(), [T1]) as queue:
        ended = queue.start(adding(owner, "b", mode="append"))
        [intent] = queue.offers()
        judged = {"manifest_version": state.version, "head": state.head.commit_id, "schema_id": state.schema.id}
        error = {"error": "row 1", "code": "data-invalid", "hint": ""}
        other = Refusal(new_ulid(), _offered(intent), error, judged)
        write_refusal(owner.store, other, refused_by=vars(owner.owner), now_us=1)
        data = owner.store.get(layout.refused_key(other.op))
        assert data is not None
        owner.store.create(layout.refused_key(intent.op), data.replace(other.op.encode(), intent.op.encode()))
        owner.store.delete(layout.refused_key(other.op))
    found = [] if ended.error is None else [f"the caller was told {ended.error!r}"]
    return [*found, *wrong(engines(), {T1: ["b"]})]


def a_dead_offer_is_ended_and_then_carried(engines: Engines) -> list[str]:
    """A writer that has read it wakes up after somebody was told that it cannot land any more."""
    mine = _offering(engines)
    op, made = leave_offer(mine, T1, ["dead"], mode="append")
    intent = mine.intents.read(op)
    assert intent is not None
    recovered(engines())
    before = find_outcome(engines(), made, Meter()).state
    carry_out(mine, [intent], adding(mine, "mine", mode="append"))
    after = find_outcome(engines(), made, Meter()).state
    changed = [] if before == after == ABORTED else [f"its outcome was {before}, and is {after}"]
    return [*changed, *wrong(engines(), {T1: ["mine"]})]


def a_plan_that_carries_is_given_up(engines: Engines) -> list[str]:
    """Its owner may still land the request by itself, or by another writer: its id must stay open."""
    front = _offering(engines)
    op, made = leave_offer(front, T1, ["dead"], mode="append")
    intent = front.intents.read(op)
    assert intent is not None
    with failpoints.armed("apply.before_commit", "raise"), contextlib.suppress(OutcomeUnknown):
        carry_out(front, [intent], adding(front, "front", mode="append"))
    other = engines()
    for pending, _ in other.intents.names():
        read = other.intents.read(pending)
        if read is not None and read.plan is not None:
            recovery.recover_one(other, read, gone=True, meter=Meter())
    state = find_outcome(other, made, Meter()).state
    carry_out(front, [intent], adding(front, "next", mode="append"))
    found = [] if state == PENDING else [f"the offer is {state}"]
    return [*found, *_landed(other, made), *wrong(engines(), {T1: ["dead", "next"]})]


def an_older_writer_lands_what_its_owner_leads_with(engines: Engines) -> list[str]:
    """The owner has come to the front and has armed its plan when a slow writer ahead of it lands its offer."""
    owner, older = _offering(engines), _offering(engines)
    with queued(owner, [T1]) as queue:
        ended = queue.start(adding(owner, "b", mode="append"))
        [intent] = queue.offers()
        once = iter([True])

        def land(**_: Any) -> None:
            if next(once, False):
                carry_out(older, [intent], adding(older, "older", mode="append"))

        failpoints.arm("apply.before_commit", land, at=None)
    failpoints.disarm()
    recovered(engines())
    return [*_told(ended, _offered(intent)), *wrong(engines(), {T1: ["b", "older"]})]


def an_owner_without_a_position_left(engines: Engines) -> list[str]:
    """The same where the owner has to queue anew for its next plan."""
    with mock.patch.object(arming, "LEASE_PLANS_MAX", 1):
        return an_older_writer_lands_what_its_owner_leads_with(engines)


def an_older_writer_comes_after_its_owner(engines: Engines) -> list[str]:
    """The owner has landed its offer by itself, and its row was deleted since: the offer must not bring it back."""
    owner, older = _offering(engines), _offering(engines)
    with queued(owner, [T1]) as queue:
        ended = queue.start(adding(owner, "b"))
        [intent] = queue.offers()
    Graph(engines()).mutate('query gone() { delete T1 where name = "b" }')
    carry_out(older, [intent], adding(older, "older"))
    return [*_told(ended, _offered(intent)), *wrong(engines(), {T1: ["older"]})]


def an_older_writer_lands_it_while_its_owner_carries_another(engines: Engines) -> list[str]:
    """The owner's plan has a second request, of a writer behind it: that one stays open, and lands with the next."""
    owner, older, third = _offering(engines), _offering(engines), _offering(engines)
    with queued(owner, [T1]) as queue:
        first = queue.start(adding(owner, "b", mode="append"))
        second = queue.start(adding(third, "c", mode="append"))
        mine, behind = queue.offers()
        once = iter([True])

        def land(**_: Any) -> None:
            if next(once, False):
                carry_out(older, [mine], adding(older, "older", mode="append"))

        failpoints.arm("apply.before_commit", land, at=None)
    failpoints.disarm()
    recovered(engines())
    told = [*_told(first, _offered(mine)), *([] if second.error is None else [f"the second was told {second.error!r}"])]
    fate = find_outcome(engines(), _offered(behind), Meter())
    if fate.state == ABORTED and isinstance(fate.row, AbortRow) and fate.row.actor is not None:
        told.append("the second was given up by another writer")
    return [*told, *wrong(engines(), {T1: ["b", "c", "older"]})]


def a_refused_writer_leaves_nothing(engines: Engines) -> list[str]:
    ahead, bad = _offering(engines), _offering(engines)
    adding(engines(), "there")()
    with queued(ahead, [T1]) as queue:
        good = queue.start(adding(ahead, "a", mode="append"))
        ended = queue.start(adding(bad, "there", mode="append"))
        _, intent = queue.offers()
    found = [] if good.error is None else [f"the good one was told {good.error!r}"]
    if not isinstance(ended.error, OmnigraphError) or ended.error.code != "key-conflict":
        found.append(f"the bad one was told {ended}")
    row = find_outcome(engines(), _offered(intent), Meter()).row
    if not isinstance(row, AbortRow) or row.plan != _offered(intent):
        found.append(f"the record of the bad one is {row}")
    found += [f"left: {entry.key}" for entry in ahead.store.list(layout.INTENTS)]
    return [*found, *wrong(engines(), {T1: ["a", "there"]})]


def its_owner_is_interrupted(engines: Engines) -> list[str]:
    """Ctrl-C while it waits. A writer that has read the offer comes later."""
    owner, older = _offering(engines), _offering(engines)
    sleep = owner.clock.sleep
    interrupted: list[bool] = []

    def interrupt(seconds: float) -> None:
        if interrupted:
            raise KeyboardInterrupt
        sleep(seconds)

    owner.clock = _Clock(owner.clock, interrupt)  # type: ignore[assignment]
    with queued(engines(), [T1]) as queue:
        ended = queue.start(adding(owner, "b", mode="append"))
        [intent] = queue.offers()
        interrupted.append(True)
        queue._threads[0].join()
        state = find_outcome(engines(), _offered(intent), Meter()).state
        carry_out(older, [intent], adding(older, "older", mode="append"))
    found = [] if isinstance(ended.error, KeyboardInterrupt) else [f"the caller was told {ended}"]
    found += [] if state == ABORTED else [f"the offer is {state} after the interrupt"]
    return [*found, *wrong(engines(), {T1: ["older"]})]


class _Clock:
    """A clock whose sleep a scene decides about."""

    def __init__(self, clock: Any, sleep: Callable[[float], None]) -> None:
        self._clock = clock
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


# --- defects --------------------------------------------------------------------------------------------------------------


def looking_back_to_the_base_only(patch: pytest.MonkeyPatch) -> None:
    def has_ended(txn: Txn, commit_id: str) -> bool:
        since = txn.state.version
        return txn.engine.history.find(txn.held, commit_id, since=since, meter=txn.meter) is not None and any(
            row.object_id == commit_id and row.version > since for row in txn.state.tail
        )

    patch.setattr(carrying, "has_ended", has_ended)


def not_looking_for_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(carrying.parents, "find_key", lambda *_: None)


def believing_the_refusal(patch: pytest.MonkeyPatch) -> None:
    def withdraw(self: OwnOffer) -> None:
        assert self._offering is not None
        self._engine.intents.disarm(self._offering.op)
        offers.delete_refusal(self._engine.store, self._offering.op)
        self.close()

    patch.setattr(OwnOffer, "withdraw", withdraw)


def deleting_dead_offers_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "withdraw", lambda *_, **__: (None, None))


def aborting_what_is_carried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublishPlan, "ends", property(lambda self: tuple(dict.fromkeys((self.id, *self.members)))))


def minting_anew(patch: pytest.MonkeyPatch) -> None:
    real = planning._info
    patch.setattr(planning, "_info", lambda one, *facts: real(replace(one, offering=None), *facts))


def giving_up_ids_that_have_landed(patch: pytest.MonkeyPatch) -> None:

    real = compensate.abort_change
    patch.setattr(compensate, "abort_change", lambda *facts: real(*facts[:5]))


def not_looking_at_its_tables(patch: pytest.MonkeyPatch) -> None:

    patch.setattr(compensate, "_is_open", lambda *_: False)


def leaving_the_refusal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offers, "delete_refusal", lambda *_: None)


def arming_over_the_ticket(patch: pytest.MonkeyPatch) -> None:
    planning = Arming.planning

    @contextlib.contextmanager
    def under_the_same_id(self: Arming, *, staged_first: bool = False) -> Iterator[str]:
        if self.op is not None:
            yield self.op
            return
        with planning(self, staged_first=staged_first) as op:
            yield op

    patch.setattr(Arming, "planning", under_the_same_id)
    patch.setattr(Arming, "follow_ticket", lambda self, op, data: self._engine.intents.rewrite(op, data) or True)


def queueing_over_an_open_offer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Arming, "_queues", property(lambda self: self.op is None and self._engine.timing.contended))


def not_comparing_the_checksum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(refusals.documents, "unseal", lambda raw: {key: raw[key] for key in raw if key != "checksum"})


DEFECTS = {
    "an owner queues anew before it has looked for its offer": Defect(
        an_owner_without_a_position_left, queueing_over_an_open_offer
    ),
    "a refusal is believed without its checksum": Defect(a_refusal_is_altered, not_comparing_the_checksum),
    "an offer is looked up back to the plan's base only": Defect(
        an_offer_that_landed_long_ago, looking_back_to_the_base_only
    ),
    "the key of an offer is not looked for": Defect(a_key_that_was_used_long_ago, not_looking_for_keys),
    "a refusal without withdrawal": Defect(refused_by_one_and_landed_by_an_older_one, believing_the_refusal),
    "an interrupt without withdrawal": Defect(its_owner_is_interrupted, believing_the_refusal),
    "a dead offer is only deleted": Defect(a_dead_offer_is_ended_and_then_carried, deleting_dead_offers_only),
    "an abort is written for a carried request": Defect(a_plan_that_carries_is_given_up, aborting_what_is_carried),
    "the owner of an offer mints its id anew": Defect(an_older_writer_comes_after_its_owner, minting_anew),
    "a plan whose request another one has landed leaves its table commits": Defect(
        an_older_writer_lands_what_its_owner_leads_with, not_looking_at_its_tables
    ),
    "an abort is written for a request that has landed": Defect(
        an_older_writer_lands_it_while_its_owner_carries_another, giving_up_ids_that_have_landed
    ),
    "a plan is written over its ticket": Defect(a_ticket_is_deleted_late, arming_over_the_ticket),
    "a turn of upkeep is written over its ticket": Defect(a_ticket_of_upkeep_is_deleted_late, arming_over_the_ticket),
    "a refused file outlives its owner": Defect(a_refused_writer_leaves_nothing, leaving_the_refusal),
}
