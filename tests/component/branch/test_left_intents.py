"""Intents that outlive their branch: offers, applied plans, and files of a later release, while it is closed, and when it is gone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Ticket, encode_plan
from omnigraph.commit.intent_format import encode_offer
from omnigraph.commit.plan import BranchName, Owner, PublishPlan, RequestInfo
from omnigraph.core import failpoints
from omnigraph.core.errors import NotFound, OutcomeUnknown, Refused
from omnigraph.core.ids import new_ulid
from omnigraph.store import layout
from tests.component.upkeep.material import engine_of, make, people

ELSEWHERE = Owner("another-host", "another-boot", 1, 1)
NOW: dict[str, Any] = {"keep": 1, "min_age": "0s"}
PERSON = "node:Person"


@pytest.fixture
def graph(local_root: str) -> og.Graph:
    graph = make(local_root, 2)
    graph.branches.create("feature")
    graph.load(people("own"), mode="append", branch="feature")
    return graph


def closed(graph: og.Graph) -> og.Graph:
    graph.branches.delete("feature")
    return og.open(graph.uri)


def gone(graph: og.Graph) -> og.Graph:
    """Closed and cleaned up beside an intent that comes from nowhere, as a slow writer's may."""
    engine = engine_of(graph)
    identity = engine.latest("feature").state.identity
    kept = {op: engine.intents.glance(op) for op, _ in engine.intents.names()}
    for op in kept:
        engine.intents.disarm(op)
    closed(graph).cleanup(**NOW, confirm=True)
    assert engine.store.list(f"{layout.MANIFEST_LINES}{layout.branch_ref(identity)}/_versions/") == []
    for op, data in kept.items():
        assert data is not None
        engine.intents.arm(op, data)
    return og.open(graph.uri)


ENDS = (closed, gone)
Ends = Callable[[og.Graph], og.Graph]


def branch_of(engine: Engine) -> BranchName:
    return BranchName("feature", engine.latest("feature").state.identity)


def offered(graph: og.Graph, request: str) -> str:
    """The offer of a writer on another host, which is silent. Returns its operation."""
    engine = engine_of(graph)
    offer = Ticket(engine.graph_id, new_ulid(), "load", branch_of(engine), ((PERSON, ""),), ELSEWHERE)
    asked = RequestInfo(request, "load", (), "ben", None, None, 1)
    body = {
        "schema_id": engine.latest("feature").state.schema.id, "mode": "append", "options": {}, "query": None,
        "params": None, "rows": [], "deadline_at_us": 9,
    }  # fmt: skip
    engine.intents.arm(offer.op, encode_offer(offer, asked, body))
    return offer.op


def dying(graph: og.Graph, place: str, *, applied: bool = False) -> PublishPlan:
    """A write on the branch that ends at this place. ``applied``: its intent says that it can be published by anybody."""
    engine = engine_of(graph)
    with failpoints.armed(place, "raise", at=1), pytest.raises(OutcomeUnknown):
        graph.load(people("late"), mode="append", branch="feature", actor="ada")
    [(op, _)] = engine.intents.names()
    intent = engine.intents.read(op)
    assert intent is not None and intent.plan is not None
    if applied:
        state = engine.latest("feature").state
        pins = tuple(replace(state.tables[one.key], version=one.version) for one in intent.plan.landing)
        engine.intents.rewrite(op, encode_plan(intent.plan, applied=pins))
    return intent.plan


def test_a_handle_that_is_open_ends_what_a_closed_branch_has_left(graph: og.Graph) -> None:
    dying(graph, "publish.before_swap")
    other = og.open(graph.uri, read_only=True)
    graph.branches.delete("feature")
    assert len(other.intents()) == 1
    assert [one.decision for one in graph.recover(grace_s=0).recovered] == ["discard"]


def recovered_twice(graph: og.Graph) -> list[str]:
    """What is on record after two recoveries, by two processes."""
    for _ in range(2):
        fresh = og.open(graph.uri)
        fresh.recover(grace_s=0)
        assert list(fresh.intents()) == []
    assert fresh.plan_cleanup(**NOW) is not None, "nothing stands in the way of a cleanup"
    assert [one for one in fresh.verify(deep=True).problems if one.severity == "damage"] == []
    return [one.how for one in fresh.recoveries()]


@pytest.mark.parametrize("ends", ENDS)
def test_an_offer_to_a_branch_that_is_deleted_ends_with_it(graph: og.Graph, ends: Ends) -> None:
    request = new_ulid()
    offered(graph, request)
    fresh = ends(graph)
    assert set(recovered_twice(fresh)) <= {"OrphanedBranchDiscarded"}
    assert not og.open(graph.uri).outcome(request).landed


def test_an_offer_that_was_carried_out_before_the_branch_was_closed_is_finished(graph: og.Graph) -> None:
    done = str(graph.load(people("more"), mode="append", branch="feature").commit_id)
    offered(graph, done)
    assert "OfferWithdrawn" not in recovered_twice(closed(graph))


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("ends", ENDS)
def test_a_plan_that_was_not_published_is_discarded_with_its_branch(graph: og.Graph, applied: bool, ends: Ends) -> None:
    plan = dying(graph, "publish.before_swap", applied=applied)
    assert recovered_twice(ends(graph)) == ["OrphanedBranchDiscarded"]
    assert not og.open(graph.uri).outcome(plan.head).landed


@pytest.mark.parametrize("applied", [False, True])
def test_a_plan_that_was_published_is_finished_on_a_closed_branch(graph: og.Graph, applied: bool) -> None:
    dying(graph, "publish.after_swap", applied=applied)
    assert recovered_twice(closed(graph)) == ["RolledForward"]


def test_a_plan_whose_commit_was_merged_before_its_branch_went_is_no_loss(graph: og.Graph) -> None:
    plan = dying(graph, "publish.after_swap")
    og.open(graph.uri).branches.merge("feature")
    recovered_twice(gone(graph))
    fresh = og.open(graph.uri)
    assert fresh.outcome(plan.head).landed and fresh.snapshot().get("Person", "late")


# --- of a later release -----------------------------------------------------------------------------------------------------


def of_a_later_release(engine: Engine, op: str, change: dict[str, Any]) -> bytes:
    body = json.loads(engine.intents.glance(op) or b"") | change
    body.pop("checksum")
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    body["checksum"] = hashlib.sha256(text).hexdigest()
    data = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    engine.intents.rewrite(op, data)
    return data


@pytest.mark.parametrize("change", [{"format": 3}, {"kind": "party"}, {"state": "asleep"}], ids=str)
@pytest.mark.parametrize("ends", [og.open, *ENDS], ids=["open", "closed", "gone"])
def test_what_a_later_release_has_left_on_a_branch_is_kept_and_stops_cleanup(
    graph: og.Graph, change: dict[str, Any], ends: Any
) -> None:
    """Whatever became of the branch: this release cannot tell what the intent stands for."""
    plan = dying(graph, "publish.before_swap")
    engine = engine_of(graph)
    data = of_a_later_release(engine, plan.op, change)
    fresh = og.open(graph.uri) if ends is og.open else ends(graph)
    for _ in range(2):
        report = og.open(graph.uri).recover(grace_s=0)
        assert report.left == (plan.op,) and report.recovered == ()
        assert any(layout.intent_key(plan.op) in one for one in report.unresolved)
    assert engine.intents.glance(plan.op) == data, "not a byte of it has changed"
    with pytest.raises(Refused) as refused:
        fresh.cleanup(**NOW, confirm=True)
    assert refused.value.reason == "unknown-intent"
    assert "unknown-intent" in [one.code for one in fresh.verify().problems]
    assert "unknown-intent" in [one.code for one in fresh.status().findings]
    assert fresh.snapshot().count("Person") == 2, "main goes on"
    fresh.load(people("on"), mode="append")
    if ends is not og.open:
        with pytest.raises(NotFound):
            fresh.snapshot("feature")
