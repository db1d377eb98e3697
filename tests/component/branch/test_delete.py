"""A branch is deleted by one swap: what was published before it was published, and nothing is published after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import omnigraph as og
from omnigraph.branch import delete as deleting
from omnigraph.branch.create import create_branch
from omnigraph.commit.engine import MAIN
from omnigraph.commit.plan import BranchName
from omnigraph.core import failpoints
from omnigraph.core.errors import (
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StoreUnavailable,
)  # fmt: skip
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import SwapUnknown
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.table.names import V2_MANIFEST_MAX
from tests.component.branch.test_create import log, names_of
from tests.component.upkeep.material import engine_of, make, people


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    graph = make(any_root, 2)
    graph.branches.create("feature")
    return graph


def test_a_deleted_branch_is_gone_for_every_handle_and_its_name_is_free(graph: og.Graph) -> None:
    reader, writer = og.open(graph.uri, read_only=True), og.open(graph.uri)
    held = reader.snapshot("feature")
    writer.load(people("ann"), mode="append", branch="feature")
    identity = graph.branches.delete("feature", actor="ann").identity
    calls = {
        "snapshot": lambda: reader.snapshot("feature"),
        "commits": lambda: reader.commits("feature"),
        "load": lambda: writer.load(people("bob"), mode="append", branch="feature"),
    }
    for name, call in calls.items():
        with pytest.raises(NotFound) as caught:
            call()
        assert caught.value.branch == "feature", name
    assert held.count("Person") == 2, "a snapshot of before goes on until a cleanup takes its files"
    assert names_of(graph) == ["main"]
    assert [entry.state for entry in log(engine_of(graph))] == ["making", "bound", "free"]
    again = graph.branches.create("feature")
    assert again.identity != identity and graph.snapshot("feature").count("Person") == 2
    assert graph.verify(deep=True).ok


def test_the_error_names_the_branch_that_the_handle_knew_and_the_one_that_has_its_name_now(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    old = engine_of(other).latest("feature").state.identity
    graph.branches.delete("feature")
    new = graph.branches.create("feature").identity
    with pytest.raises(NotFound) as caught:
        other.snapshot("feature")
    assert caught.value.facts == {"branch": "feature", "identity": old, "bound_to": new}
    assert other.snapshot("feature").commit_id, "the next call uses it"


def test_main_and_what_is_not_there_are_not_deleted(graph: og.Graph) -> None:
    with pytest.raises(InvalidInput):
        graph.branches.delete("main")
    for name in ("nothing", "Feature"):
        with pytest.raises(NotFound):
            graph.branches.delete(name)
    assert names_of(graph) == ["main", "feature"]


def test_a_branch_is_deleted_only_at_the_head_that_was_expected(graph: og.Graph) -> None:
    head = graph.snapshot("feature").commit_id
    commit = graph.load(people("ann"), mode="append", branch="feature").commit_id
    with pytest.raises(PreconditionFailed) as caught:
        graph.branches.delete("feature", expect_head=head)
    assert caught.value.actual == commit
    assert graph.branches.delete("feature", expect_head=commit).head == commit


def test_branches_that_were_made_from_it_go_on(graph: og.Graph) -> None:
    graph.load(people("ann"), mode="append", branch="feature")
    graph.branches.create("b", from_="feature")
    before = [one.id for one in graph.commits("b")]
    graph.branches.delete("feature")
    fresh = og.open(graph.uri)
    assert fresh.snapshot("b").count("Person") == 3
    assert [one.id for one in fresh.commits("b")] == before
    fresh.load(people("bob"), mode="append", branch="b")
    assert fresh.snapshot("b").count("Person") == 4
    assert fresh.branches.list(heads=True)[1].parent.branch is None  # type: ignore[union-attr]


def test_a_write_that_is_under_way_ends_when_its_branch_is_closed(graph: og.Graph) -> None:
    other = og.open(graph.uri)

    def close(**_: Any) -> None:
        failpoints.disarm()
        other.branches.delete("feature")

    with failpoints.armed("publish.before_swap", close), pytest.raises(NotFound):
        graph.load(people("ann"), mode="append", branch="feature")
    assert [entry.key for entry in engine_of(graph).store.list(layout.INTENTS)] == []
    assert og.open(graph.uri).recover(grace_s=0) and graph.verify(deep=True).ok


def test_what_was_published_just_before_is_published(graph: og.Graph) -> None:
    """The writer reads the boundary after its swap; in between the branch is closed."""
    other = og.open(graph.uri)

    def close(**_: Any) -> None:
        failpoints.disarm()
        other.branches.delete("feature")

    with failpoints.armed("publish.after_swap", close):
        receipt = graph.load(people("ann"), mode="append", branch="feature")
    assert graph.outcome(str(receipt.commit_id)).state == "landed"


def test_nothing_is_ever_folded_onto_a_closed_line(graph: og.Graph) -> None:
    engine = engine_of(graph)
    identity = graph.branches.delete("feature").identity
    held = engine.latest(BranchName("feature", identity))
    assert held.state.head.closed is not None
    with pytest.raises(NotFound):
        engine.manifest.write(held, Change())


# --- what others find -----------------------------------------------------------------------------------------------------


def test_a_deletion_that_died_before_the_name_was_freed_is_ended_by_whoever_comes_next(graph: og.Graph) -> None:
    """Readers take the name for free; a creator, and a repeated deletion, free it."""
    for _ in range(2):
        with failpoints.armed("names.before_write", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            graph.branches.delete("feature")
        fresh = og.open(graph.uri)
        with pytest.raises(NotFound):
            fresh.snapshot("feature")
        assert [one.name for one in fresh.branches.list(heads=True)] == ["main"]
        fresh.branches.create("feature")
        graph = og.open(graph.uri)
    with failpoints.armed("names.before_write", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        graph.branches.delete("feature")
    og.open(graph.uri).branches.delete("feature")
    assert names_of(og.open(graph.uri)) == ["main"]


def test_a_name_whose_freeing_was_not_answered_is_deleted_all_the_same(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(graph)

    def silent(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(engine.names, "write", silent)
        graph.branches.delete("feature")
    with pytest.raises(NotFound):
        graph.snapshot("feature")


def test_a_closing_swap_of_which_nothing_is_known_says_so(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(graph)

    def silent(*_: Any, **__: Any) -> Any:
        raise SwapUnknown("no answer")

    monkeypatch.setattr(deleting, "TO_THE_DEADLINE", replace(deleting.TO_THE_DEADLINE, attempts=2))
    with monkeypatch.context() as patch, pytest.raises(OutcomeUnknown):
        patch.setattr(engine.manifest, "swap", silent)
        graph.branches.delete("feature")
    graph.branches.delete("feature")


# --- after a swap, where cleanup has doomed the whole line ------------------------------------------------------------------


def doom_and(graph: og.Graph, *, close: bool, destroy: bool) -> Any:
    other = engine_of(og.open(graph.uri))

    def act(**_: Any) -> None:
        failpoints.disarm()
        line = other.line_of("feature")
        assert isinstance(line, BranchName)
        if close:
            deleting.delete_branch(other, og.CommitOptions(branch="feature"), Meter())
        other.boundary.raise_to(line.identity, ALL)
        if destroy:
            prefix = f"{layout.MANIFEST_LINES}{layout.branch_ref(line.identity)}/"
            for entry in other.store.list(prefix):
                other.store.delete(entry.key)

    return act


def test_after_its_swap_a_commit_that_the_doomed_line_has_is_published(graph: og.Graph) -> None:
    with failpoints.armed("publish.after_swap", doom_and(graph, close=True, destroy=False)):
        assert graph.load(people("ann"), mode="append", branch="feature").commit_id


def test_a_swap_that_the_doomed_line_does_not_show_was_not_published(graph: og.Graph) -> None:
    """The line is readable: it was closed first, and the writer's version is one of those that were deleted."""
    with failpoints.armed("publish.before_swap", doom_and(graph, close=True, destroy=False)), pytest.raises(NotFound):
        graph.load(people("ann"), mode="append", branch="feature")
    assert engine_of(graph).store.list(layout.INTENTS) == []


def test_where_the_line_is_gone_nobody_can_tell(graph: og.Graph) -> None:
    with (
        failpoints.armed("publish.after_swap", doom_and(graph, close=True, destroy=True)),
        pytest.raises(OutcomeUnknown) as caught,
    ):
        graph.load(people("ann"), mode="append", branch="feature")
    found = og.open(graph.uri).outcome(caught.value.commit_id)
    assert found.state == "absent" and "feature" not in found.searched
    assert found.deleted == ("feature",) and "if it was written to feature, it may have landed" in found.hint


def test_a_swap_onto_what_is_left_of_a_deleted_line_is_no_proof(graph: og.Graph) -> None:
    """All of the line was deleted but the version that the writer holds: its swap lands, on nothing."""
    engine = engine_of(graph)
    graph.load(people("first"), mode="append", branch="feature")
    held = engine.latest("feature")
    other = og.open(graph.uri)
    identity = other.branches.delete("feature").identity
    ref = TableRef(layout.MANIFEST, layout.branch_ref(identity))
    engine_of(other).boundary.raise_to(identity, ALL)
    newest = engine_of(other).latest(BranchName("feature", identity))
    for entry in engine.store.list(f"{ref.relative}/_versions/"):
        if not entry.key.endswith(f"{V2_MANIFEST_MAX - held.version:020d}.manifest"):
            engine.store.delete(entry.key)
    assert newest.version == held.version + 1
    with pytest.raises(OutcomeUnknown):
        graph.load(people("ann"), mode="append", branch="feature")


# --- recovery -----------------------------------------------------------------------------------------------------------


def test_an_armed_plan_of_a_deleted_branch_is_discarded_and_recorded(graph: og.Graph) -> None:
    with failpoints.armed("publish.before_swap", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        graph.load(people("ann"), mode="append", branch="feature", actor="ann")
    other = og.open(graph.uri, read_only=True)
    [pending] = other.intents()
    deleter = engine_of(graph)
    deleting.delete_branch(deleter, og.CommitOptions(branch="feature"), Meter())
    fresh = og.open(graph.uri)
    fresh.recover(grace_s=0)
    [done] = fresh.recoveries()
    assert (done.how, done.branch["name"]) == ("OrphanedBranchDiscarded", "feature")
    assert pending.operation_id and list(fresh.intents()) == []
    assert fresh.verify(deep=True).ok


def test_a_published_plan_of_a_closed_branch_is_finished(graph: og.Graph) -> None:
    """A crash between the publish and the deletion of the intent."""
    with failpoints.armed("publish.after_swap", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        graph.load(people("ann"), mode="append", branch="feature")
    deleting.delete_branch(engine_of(graph), og.CommitOptions(branch="feature"), Meter())
    fresh = og.open(graph.uri)
    fresh.recover(grace_s=0)
    assert [one.how for one in fresh.recoveries()] == ["RolledForward"]
    assert list(fresh.intents()) == []


def test_an_intent_goes_by_the_identity_of_its_branch_and_not_by_its_name(graph: og.Graph) -> None:
    """The name means another branch by the time that the intent is recovered: that one is not touched."""
    with failpoints.armed("publish.before_swap", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        graph.load(people("ann"), mode="append", branch="feature")
    deleting.delete_branch(engine_of(graph), og.CommitOptions(branch="feature"), Meter())
    creator = engine_of(graph)
    create_branch(creator, "feature", at=None, options=og.CommitOptions(branch=MAIN), meter=Meter())
    before = creator.latest("feature").state
    fresh = og.open(graph.uri)
    fresh.recover(grace_s=0)
    assert engine_of(fresh).latest("feature").state == before
    assert fresh.snapshot("feature").get("Person", "ann") is None
