"""Graphs of version 5 put together by hand, with what later verbs write: closed branches, lines of others, carried requests.

The format is kept from its first release on, so every release that reads it must do the right thing with all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from omnigraph.commit.decide import Decision
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Ticket, encode_plan
from omnigraph.commit.intent_format import encode_offer
from omnigraph.commit.plan import Owner, PublishPlan, RequestInfo
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.recover import Recovered, recover_one
from omnigraph.core import failpoints
from omnigraph.core.errors import NotFound, OutcomeUnknown
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, Closed, CommitRow
from omnigraph.manifest.state import Change
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import content_of, faults_of
from omnigraph.testing.effect_operations import give_away
from omnigraph.testing.operations import append, keys_of

ONE, TWO = keys_of(1), keys_of(2)
ELSEWHERE = Owner("another-host", "another-boot", 1, 1)


@pytest.fixture
def engine(engines: Callable[..., Engine]) -> Engine:
    return engines()


def dying(engine: Engine, place: str) -> PublishPlan:
    """A write of two tables that ends at this place; its intent is left."""

    def stop(**facts: object) -> None:
        if place != "apply.before_commit" or facts["table_key"] == TWO[1]:
            raise failpoints.FailpointHit(place)

    with failpoints.armed(place, stop, at=None), pytest.raises(OutcomeUnknown):
        append(engine, TWO, ["a"], actor="ada")
    [(op, _)] = engine.intents.names()
    intent = engine.intents.read(op)
    assert intent is not None and intent.plan is not None
    return intent.plan


def close(engine: Engine) -> None:
    """Mark the branch as deleted."""
    held = engine.manifest.open_latest()
    head = replace(held.state.head, closed=Closed(engine.clock.now_us(), "ada"))
    engine.manifest.swap(held, engine.manifest.write(held, Change(head=head)), uuid=new_uuid())
    engine.drop(MAIN)


def recovered(engine: Engine, op: str) -> Recovered:
    intent = engine.intents.read(op)
    assert intent is not None
    return recover_one(engine, intent, gone=True, meter=Meter())


def heads(engine: Engine) -> dict[str, int]:
    """The newest version of each table, which nothing may have moved without being asked to."""
    pins = engine.latest(MAIN).state.tables
    refs = {key: TableRef(pins[key].location, pins[key].ref) for key in TWO}
    return {key: engine.tables.head_version(engine.tables.open_latest(ref)) for key, ref in refs.items()}


# --- closed branches ----------------------------------------------------------------------------------------------------


def test_a_commit_on_a_branch_that_was_deleted_since_is_finished_and_not_discarded(engine: Engine) -> None:
    plan = dying(engine, "publish.after_swap")
    close(engine)
    assert recovered(engine, plan.op).decision is Decision.FINISH
    [row] = audit.read(engine)
    assert (row.how, row.commit_ids) == ("RolledForward", plan.members)
    assert engine.intents.names() == []


@pytest.mark.parametrize("place", ["apply.before_commit", "publish.before_swap"])
def test_a_plan_without_a_record_is_discarded_with_its_branch(engine: Engine, place: str) -> None:
    plan = dying(engine, place)
    close(engine)
    before = heads(engine)
    assert recovered(engine, plan.op).decision is Decision.DISCARD
    assert [row.how for row in audit.read(engine)] == ["OrphanedBranchDiscarded"]
    assert heads(engine) == before and engine.history.find(engine.latest(MAIN), plan.head) is None


def test_a_closed_branch_takes_no_commit(engine: Engine) -> None:
    close(engine)
    version = engine.latest(MAIN).version
    with pytest.raises(NotFound):
        append(engine, ONE, ["a"])
    assert engine.latest(MAIN).version == version


# --- lines of other branches --------------------------------------------------------------------------------------------


def test_a_plan_on_a_line_that_another_branch_owns_by_now_is_neither_published_nor_undone_there(engine: Engine) -> None:
    """As after a merge that gave the table to its source while the plan was on its way."""
    plan = dying(engine, "publish.before_swap")
    before = content_of(engine)
    give_away(engine, TWO)
    landed = heads(engine)
    assert recovered(engine, plan.op).decision is Decision.ROLL_BACK
    assert heads(engine) == landed, "no Restore on a line of another branch"
    assert content_of(engine) == before
    found = engine.history.find(engine.latest(MAIN), plan.head)
    assert isinstance(found, AbortRow)


# --- requests that a plan carries for others ----------------------------------------------------------------------------


def test_the_abort_of_a_plan_leaves_the_request_that_it_only_carried(engine: Engine) -> None:
    plan = dying(engine, "apply.before_commit")
    [own] = plan.requests
    carried = RequestInfo(new_ulid(), "load", (own.id,), "ben", "k", None, engine.clock.now_us(), owned=False)
    engine.intents.rewrite(plan.op, encode_plan(replace(plan, id=new_ulid(), requests=(own, carried))))
    offer = Ticket(engine.graph_id, new_ulid(), "load", plan.branch, tuple((key, "") for key in TWO), ELSEWHERE)
    asked = replace(carried, parents=(), owned=True)
    given = {"schema_id": plan.base.schema_id, "mode": "append", "options": {}, "query": None, "params": None}
    engine.intents.arm(offer.op, encode_offer(offer, asked, {**given, "rows": [], "deadline_at_us": 9}))

    assert recovered(engine, plan.op).decision is Decision.ROLL_BACK
    held = engine.latest(MAIN)
    assert isinstance(engine.history.find(held, own.id), AbortRow)
    assert engine.history.find(held, carried.id) is None, "it can still be carried out"
    left = engine.intents.read(offer.op)
    assert left is not None and (left.state, left.request) == ("offered", asked)
    assert [problem for problem in faults_of(engine) if offer.op not in problem] == []


def test_an_offer_that_was_carried_out_is_finished_and_one_that_was_not_is_withdrawn(engine: Engine) -> None:
    outcome = append(engine, ONE, ["a"])
    assert outcome.row is not None
    identity = engine.latest(MAIN).state.identity
    branch = replace(dying(engine, "apply.before_commit").branch, identity=identity)
    ended: dict[str, Decision] = {}
    for request_id in (outcome.row.commit_id, new_ulid()):
        offer = Ticket(engine.graph_id, new_ulid(), "load", branch, ((ONE[0], ""),), ELSEWHERE)
        asked = RequestInfo(request_id, "load", (), "ben", None, None, 1)
        given = {"schema_id": engine.latest(MAIN).state.schema.id, "mode": "append", "options": {}, "query": None}
        body = {**given, "params": None, "rows": [], "deadline_at_us": 9}
        engine.intents.arm(offer.op, encode_offer(offer, asked, body))
        ended[request_id] = recovered(engine, offer.op).decision
    assert list(ended.values()) == [Decision.FINISH, Decision.WITHDRAW]
    kinds = [type(engine.history.find(engine.latest(MAIN), one)) for one in ended]
    assert kinds == [CommitRow, AbortRow]
