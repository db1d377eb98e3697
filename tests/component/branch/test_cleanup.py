"""What cleanup does about branches: what a deleted one leaves is deleted, and what others need of it stays."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.core.errors import NotFound, OmnigraphError
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.checkpoints import list_checkpoints
from omnigraph.manifest.refs import BranchSource, NameEntry
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep import cleanup as cleaning
from omnigraph.upkeep.checkpoints import state_of
from tests.component.upkeep.material import engine_of, make, people

NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    return make(any_root, 2)


def files(graph: og.Graph, prefix: str) -> list[str]:
    return [entry.key for entry in engine_of(graph).store.list(prefix)]


def forks(graph: og.Graph) -> list[str]:
    return [key for key in files(graph, "nodes/") if "/tree/f-" in key]


def boundary(graph: og.Graph, identity: str) -> int:
    return engine_of(graph).boundary.value(identity)


def test_what_a_deleted_branch_leaves_goes_with_the_next_cleanup(graph: og.Graph) -> None:
    graph.branches.create("feature")
    graph.load(people("ann", "bob"), mode="append", branch="feature")
    identity = graph.branches.delete("feature").identity
    line = f"{layout.MANIFEST_LINES}{layout.branch_ref(identity)}/"
    assert files(graph, line) and forks(graph)
    plan = graph.plan_cleanup(keep=1, min_age="0s")
    assert {orphan.prefix for orphan in plan.orphans} >= {line}
    report = graph.cleanup(plan)
    assert not report.errors
    assert files(graph, line) == [] and forks(graph) == []
    assert boundary(graph, identity) == ALL
    assert graph.snapshot().count("Person") == 2
    assert graph.verify(deep=True).ok
    assert graph.plan_cleanup(keep=1, min_age="0s").empty
    graph.branches.create("feature")
    graph.load(people("eve"), mode="append", branch="feature")
    assert graph.snapshot("feature").count("Person") == 3


def test_an_outcome_names_deleted_branches_that_nothing_is_left_of(graph: og.Graph) -> None:
    """Where nothing can tell any more, "it may be repeated" would write it twice."""
    graph.branches.create("Team/Feature")
    graph.branches.create("kept")
    lost = str(graph.load(people("ann"), mode="append", branch="Team/Feature").commit_id)
    graph.branches.delete("Team/Feature")
    assert graph.outcome(lost).landed
    before = graph.outcome(new_ulid())
    assert before.deleted == () and set(before.searched) == {"main", "kept", "Team/Feature (deleted)"}
    graph.cleanup(**NOW)
    for again in (False, True):  # the name is free, and then another branch has it and its first entries are trimmed
        if again:
            graph.branches.create("team/feature")
            graph.load(people("eve"), mode="append", branch="team/feature")
            graph.cleanup(**NOW)
        found = graph.outcome(lost)
        assert found.state == "absent" and [one.lower() for one in found.deleted] == ["team/feature"]
        assert "may have landed" in found.hint and found.to_dict()["deleted"] == list(found.deleted)
    graph.branches.delete("team/feature")  # of two branches of the name one can be searched
    assert [one.lower() for one in graph.outcome(lost).deleted] == ["team/feature"]


def test_a_branch_that_was_deleted_just_now_stays_for_its_readers(graph: og.Graph) -> None:
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    held = graph.snapshot("feature")
    graph.branches.delete("feature")
    graph.cleanup(keep=1, min_age="1h", confirm=True)
    assert held.to_arrow("Person").num_rows == 3


def test_a_branch_lives_on_when_the_one_that_it_was_made_from_is_gone(graph: og.Graph) -> None:
    graph.branches.create("parent")
    graph.load(people("ann"), mode="append", branch="parent")
    graph.branches.create("child", from_="parent")
    graph.load(people("bob"), mode="append", branch="parent")
    identity = graph.branches.delete("parent").identity
    graph.cleanup(**NOW)
    assert boundary(graph, identity) == ALL
    assert graph.snapshot("child").count("Person") == 3
    assert graph.verify(deep=True).ok
    graph.load(people("cid"), mode="append", branch="child")
    graph.cleanup(**NOW)
    assert sorted(row["name"] for row in graph.snapshot("child").to_arrow("Person").to_pylist())[:3] == [
        "ann",
        "cid",
        "p0",
    ]
    assert graph.verify(deep=True).ok
    graph.branches.delete("child")
    for _ in range(2):  # the parent's line is kept by the child's until that is gone
        graph.cleanup(**NOW)
    assert files(graph, layout.MANIFEST_LINES) == [] and forks(graph) == []
    assert graph.verify(deep=True).ok


def test_a_checkpoint_keeps_a_commit_of_a_deleted_branch(graph: og.Graph) -> None:
    graph.branches.create("feature")
    commit_id = graph.load(people("ann"), mode="append", branch="feature").commit_id
    graph.checkpoints.create("before", at=commit_id, branch="feature")
    graph.branches.delete("feature")
    for _ in range(2):
        graph.cleanup(**NOW)
    engine = engine_of(graph)
    [kept] = list_checkpoints(engine.store, Meter())
    pin = state_of(engine, kept, Meter()).tables["node:Person"]
    assert engine.tables.open(TableRef(pin.location, pin.ref), pin.version).to_table().num_rows == 3
    graph.checkpoints.delete("before")
    graph.cleanup(**NOW)
    assert files(graph, layout.MANIFEST_LINES) == [] and forks(graph) == []


def test_the_boundary_is_durable_before_anything_of_a_line_is_deleted(graph: og.Graph) -> None:
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    identity = graph.branches.delete("feature").identity
    seen: list[int] = []
    with failpoints.armed("cleanup.before_orphan", lambda **_: seen.append(boundary(graph, identity))):
        graph.cleanup(**NOW)
    assert seen and set(seen) == {ALL}


def test_a_plan_for_a_branch_that_is_deleted_and_cleaned_up_meanwhile_publishes_nothing(graph: og.Graph) -> None:
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")

    def meanwhile(**_: Any) -> None:
        failpoints.disarm()
        with og.open(graph.uri) as other:
            other.branches.delete("feature")
            other.cleanup(**NOW)

    with og.open(graph.uri) as slow, failpoints.armed("arm.before", meanwhile), pytest.raises(OmnigraphError) as caught:
        slow.load(people("bob"), mode="append", branch="feature")
    assert isinstance(caught.value, NotFound) or caught.value.code == "outcome-unknown"
    for _ in range(2):
        graph.recover(grace_s=0)
        graph.cleanup(**NOW)
    assert graph.verify(deep=True).ok
    assert files(graph, layout.MANIFEST_LINES) == [] and forks(graph) == []
    assert [one.name for one in graph.branches.list()] == ["main"]


def test_an_interrupted_deletion_is_finished(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    with failpoints.armed("branch.after_close", failpoints.FailpointHit("stopped")), pytest.raises(BaseException):  # noqa: B017
        graph.branches.delete("feature")
    for _ in range(2):
        graph.cleanup(**NOW)
    assert engine_of(graph).names.highest("feature").state == "free"  # type: ignore[union-attr]  # the name was used
    assert files(graph, layout.MANIFEST_LINES) == [] and forks(graph) == []


def test_a_creation_that_never_ended_lets_go_of_its_name_and_its_source(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(graph)
    head = engine.latest("main").state
    source = BranchSource(head.identity, None, engine.latest("main").version, head.head.commit_id)
    making = NameEntry(0, "making", "feature", new_ulid(engine.clock), source, None, engine.clock.now_us())
    engine.names.write(None, making)
    graph.cleanup(**NOW)
    assert engine.names.highest("feature") is not None and engine.names.highest("feature").state == "making"  # type: ignore[union-attr]  # it is there
    monkeypatch.setattr(cleaning, "MAKING_S", -1)
    graph.cleanup(**NOW)
    assert engine.names.highest("feature").state == "free"  # type: ignore[union-attr]  # the name was used


def test_a_branch_that_is_made_while_a_cleanup_looks_keeps_its_name_and_its_rows(graph: og.Graph) -> None:
    """The cleanup sees a line whose name is still being made, and gets to the names when the branch is there."""
    line_made, looked, bound = threading.Event(), threading.Event(), threading.Event()

    def make() -> None:
        with og.open(graph.uri) as other:
            other.branches.create("feature")
            other.load(people("ann"), mode="append", branch="feature")
        bound.set()

    def hold(**_: object) -> None:
        line_made.set()
        assert looked.wait(30)

    def looks(**_: object) -> None:
        looked.set()
        assert bound.wait(30)

    maker = threading.Thread(target=make)
    with failpoints.armed("branch.before_bind", hold), failpoints.armed("cleanup.looked", looks):
        maker.start()
        assert line_made.wait(30)
        graph.cleanup(**NOW)
    maker.join()
    graph.cleanup(**NOW)
    assert engine_of(graph).names.highest("feature").state == "bound"  # type: ignore[union-attr]  # the name was used
    assert graph.snapshot("feature").count("Person") == graph.snapshot().count("Person") + 1


def test_files_of_a_line_that_holds_no_version_are_garbage(graph: og.Graph) -> None:
    engine = engine_of(graph)
    stray = f"{layout.MANIFEST_LINES}{layout.branch_ref(new_ulid(engine.clock))}/data/x.lance"
    engine.store.create(stray, b"x")
    graph.cleanup(**NOW)
    assert files(graph, layout.MANIFEST_LINES) == []


def test_a_cleanup_of_named_branches_leaves_the_lines_of_deleted_ones(graph: og.Graph) -> None:
    graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    graph.branches.delete("feature")
    graph.branches.create("other")
    graph.cleanup(branches=["main"], **NOW)
    assert files(graph, layout.MANIFEST_LINES) and forks(graph)


def test_a_plan_and_its_report_say_which_branch_each_line_is_of(graph: og.Graph) -> None:
    graph.branches.create("review")
    for name in ("ann", "bob"):
        graph.load(people(name), mode="append", branch="review")
        graph.load(people(name), mode="append")
    plan = graph.plan_cleanup(keep=1, min_age="0s")
    planned = {(line.table_key, line.branch) for line in plan.tables if line.versions}
    assert planned >= {(table, branch) for table in ("__manifest", "node:Person") for branch in ("main", "review")}
    assert "node:Person of review: versions " in repr(plan)
    assert {(line.table_key, line.branch) for line in graph.cleanup(plan).tables} == planned


@pytest.mark.parametrize("written", [False, True], ids=["its head", "where it was made"])
def test_a_commit_that_a_branch_keeps_is_read_by_its_id(graph: og.Graph, written: bool) -> None:
    """A cleanup keeps the version at which the branch was made. Swaps without a commit lie between that one and the commit's own."""
    first = str(graph.load(people("ann"), mode="append").commit_id)
    for _ in range(3):
        graph.cleanup(**NOW)
    graph.branches.create("review")
    if written:
        graph.load(people("bob"), mode="append", branch="review")
    graph.load(people("cid"), mode="append")
    graph.cleanup(**NOW)
    assert graph.snapshot(at=first).count("Person") == graph.snapshot().count("Person") - 1
    assert {(row.key, row.kind) for row in graph.diff(first)} == {("cid", "insert")}


def test_a_branch_at_an_old_commit_and_main_keep_what_each_needs(graph: og.Graph) -> None:
    first = graph.load(people("ann"), mode="append").commit_id
    for name in ("bob", "cid", "dan"):
        graph.load(people(name), mode="append")
    graph.branches.create("old", at=first)
    graph.cleanup(**NOW)
    assert graph.snapshot("old").count("Person") == 3
    assert graph.snapshot().count("Person") == 6
    graph.load(people("eve"), mode="append", branch="old")
    graph.cleanup(**NOW)
    assert sorted(graph.snapshot("old").to_arrow("Person")["name"].to_pylist())[:2] == ["ann", "eve"]
    assert graph.verify(deep=True).ok
