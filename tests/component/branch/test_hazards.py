"""What could go wrong between branches, merges, undo, groups and upkeep: one test for each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit import ancestry_lines
from omnigraph.core import failpoints
from omnigraph.core.errors import LimitExceeded, NotFound
from omnigraph.core.meter import Meter
from omnigraph.manifest import lineage
from omnigraph.manifest.consistency import line_of
from omnigraph.manifest.rows import CommitRow, MergedRow
from omnigraph.testing.grouping import together
from tests.component.branch.material import RECORDS, SCHEMA, content, person, sound
from tests.component.upkeep.material import engine_of

NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA, durability="relaxed")
    graph.load(RECORDS, mode="append")
    return graph


def patch(graph: og.Graph, name: str, branch: str = "main", **data: Any) -> str:
    commit_id = graph.load([person(name, **data)], mode="patch", branch=branch).commit_id
    assert commit_id is not None
    return commit_id


def bulk(graph: og.Graph, branch: str, commits: int) -> list[str]:
    return [patch(graph, "ann", branch, age=1 + number % 100) for number in range(commits)]


# --- rows that a merge carries, beside the rules that stop a look at history ------------------------------------------------


def test_a_merge_that_rolls_at_once_keeps_every_rule_of_history(graph: og.Graph) -> None:
    """More rows than a tail holds: the merge's swap cuts among those that it carries, and the next ones begin there."""
    graph.branches.create("b")
    carried = bulk(graph, "b", 140)
    merge = graph.branches.merge("b", idempotency_key="m")
    engine = engine_of(graph)
    held = engine.latest("main")
    rows = list(engine.history.rows(held, Meter()))
    assert [row.row.commit_id for row in rows if isinstance(row, MergedRow)] == carried[::-1]
    assert [row.seq for row in rows] == list(range(len(rows), 0, -1))
    assert {row.version for row in rows if isinstance(row, MergedRow)} == {held.version}
    assert list(lineage.contradictions(rows[::-1], line_of(held.state))) == []
    again = graph.branches.merge("b", idempotency_key="m")
    assert again.replayed and again.commit_id == merge.commit_id
    for commit_id in (carried[0], carried[70], carried[-1]):
        assert graph.outcome(commit_id).landed
    sound(graph)


def test_a_lost_answer_behind_a_merge_that_rolled_is_found(graph: og.Graph) -> None:
    """The commit is in the archive by the time that its writer looks for it."""
    graph.branches.create("b")
    bulk(graph, "b", 140)
    other = og.open(graph.uri)

    def rival(**_: Any) -> None:
        failpoints.disarm()
        other.branches.merge("b")

    with failpoints.armed("publish.after_swap", rival):
        receipt = graph.load([person("eve")], mode="append", idempotency_key="e")
    assert graph.outcome(str(receipt.commit_id)).landed
    assert og.open(graph.uri).commits(limit=1)[0].parents[0] == receipt.commit_id
    again = og.open(graph.uri).load([person("eve")], mode="append", idempotency_key="e")
    assert again.replayed and again.commit_id == receipt.commit_id
    sound(graph)


def test_a_keyed_plan_that_is_based_on_the_merge_itself_stands(graph: og.Graph) -> None:
    graph.branches.create("b")
    first = graph.load([person("eve")], mode="append", branch="b", idempotency_key="e").commit_id
    merge = graph.branches.merge("b").commit_id
    fresh = og.open(graph.uri)
    plan = fresh.load([person("fay")], mode="append", idempotency_key="f", expect_head=merge)
    assert plan.commit_id and not plan.replayed
    assert fresh.load([person("eve")], mode="append", idempotency_key="e").commit_id == first
    sound(graph)


def test_a_key_on_both_sides_of_a_merge_is_that_of_the_own_line(graph: og.Graph) -> None:
    graph.branches.create("b")
    theirs = graph.load([person("eve", age=1)], mode="append", branch="b", idempotency_key="e").commit_id
    mine = graph.load([person("eve", age=1)], mode="append", idempotency_key="e").commit_id
    assert theirs != mine
    graph.branches.merge("b")
    for handle in (graph, og.open(graph.uri)):
        assert handle.load([person("eve", age=1)], mode="append", idempotency_key="e").commit_id == mine
    sound(graph)


def test_more_commits_than_a_merge_may_carry_are_refused(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ancestry_lines, "MERGED_ROWS_MAX", 3)
    graph.branches.create("b")
    commits = bulk(graph, "b", 4)
    with pytest.raises(LimitExceeded) as caught:
        graph.branches.merge("b")
    assert (caught.value.actual, caught.value.bound) == (4, 3)
    graph.branches.merge("b", at=commits[2])
    graph.branches.merge("b")
    sound(graph)


def test_a_branch_takes_over_main_however_far_behind_it_is(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of main's are found on main's line and never carried."""
    monkeypatch.setattr(ancestry_lines, "MERGED_ROWS_MAX", 3)
    graph.branches.create("b")
    bulk(graph, "main", 8)
    assert graph.branches.merge("main", into="b").outcome == "fast_forward"
    held = engine_of(graph).latest("b")
    assert [row for row in engine_of(graph).history.rows(held, Meter()) if isinstance(row, MergedRow)] == []
    sound(graph)


# --- undo -----------------------------------------------------------------------------------------------------------------


def test_a_fork_that_was_settled_is_reverted_to_files_of_its_base(graph: og.Graph) -> None:
    """The old version leans on a base that the present pin does not need any more: it is kept, and needed again."""
    graph.branches.create("b")
    before = content(graph, branch="b")
    patch(graph, "bob", "b", age=41)
    first = content(graph, branch="b")
    second = patch(graph, "ann", "b", age=99)
    graph.optimize(branches=["b"], settle=True)
    pin = engine_of(graph).latest("b").state.tables["node:Person"]
    assert not any(base.needed for base in pin.bases)
    graph.revert(second, "b")
    assert content(graph, branch="b") == first
    bulk(graph, "main", 3)
    graph.optimize()
    for _ in range(2):
        graph.cleanup(**NOW)
    fresh = og.open(graph.uri)
    assert content(fresh, branch="b") == first != before
    sound(graph)


def test_a_restore_over_a_settled_base_keeps_what_it_reads(graph: og.Graph) -> None:
    graph.branches.create("b")
    at = patch(graph, "bob", "b", age=41)
    wanted = content(graph, branch="b")
    patch(graph, "ann", "b", age=99)
    graph.optimize(branches=["b"], settle=True)
    graph.restore(at, "b")
    assert content(graph, branch="b") == wanted
    bulk(graph, "main", 3)
    graph.optimize()
    graph.cleanup(**NOW)
    assert content(og.open(graph.uri), branch="b") == wanted
    sound(graph)


# --- roots at a member of a swap ------------------------------------------------------------------------------------------


PLAIN = "node Person { name: String @key age: I32? }"  # values that lie in files of their own are not grouped


@pytest.fixture
def plain(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "plain", PLAIN, durability="relaxed")
    graph.load([person("ann")], mode="append")
    graph.branches.create("b")
    patch(graph, "ann", "b", age=31)  # a fork is not made in a group
    return graph


def swap(graph: og.Graph, branch: str) -> list[str]:
    """The commits of one swap."""
    calls = [partial(graph.load, [person(name)], mode="merge", branch=branch) for name in ("m1", "m2", "m3")]
    ended = together(engine_of(graph), calls, branch)
    receipts = [one.value for one in ended if one.value is not None]
    ids = [str(one.commit_id) for one in receipts]
    assert len(ids) == 3 and receipts[0].grouped_with == tuple(ids[1:])
    return ids


def test_a_branch_and_a_checkpoint_at_a_middle_member_stand_on_the_last(plain: og.Graph) -> None:
    members = swap(plain, "main")
    made = plain.branches.create("c", at=members[1])
    assert made.head == members[-1] and made.parent is not None and made.parent.commit_id == members[-1]
    assert plain.snapshot("c").get("Person", "m3")
    assert plain.checkpoints.create("kept", at=members[0]).commit_id == members[-1]
    bulk(plain, "main", 3)
    plain.cleanup(**NOW)
    assert plain.snapshot(at=members[1]).get("Person", "m3") and plain.snapshot(at=members[1]).as_of == members[1]
    assert plain.branches.merge("c").outcome == "up_to_date"
    sound(plain)


def test_a_merge_of_a_middle_member_merges_the_last(plain: og.Graph) -> None:
    members = swap(plain, "b")
    receipt = plain.branches.merge("b", at=members[0])
    row = engine_of(plain).history.find(engine_of(plain).latest("main"), str(receipt.commit_id))
    assert isinstance(row, CommitRow) and row.merge is not None and row.merge["commit"] == members[-1]
    assert plain.snapshot().get("Person", "m3") and plain.branches.merge("b").outcome == "up_to_date"
    sound(plain)


# --- deleted and unresolvable branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cleaned", [False, True])
def test_a_crash_after_the_publish_of_a_branch_that_is_deleted_is_recovered_twice(
    graph: og.Graph, cleaned: bool
) -> None:
    graph.branches.create("b")
    with failpoints.armed("publish.after_swap", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        graph.load([person("eve")], mode="append", branch="b")
    other = og.open(graph.uri)
    other.branches.delete("b")
    if cleaned:
        other.recover(grace_s=0)
        other.cleanup(**NOW)
    for _ in range(2):
        fresh = og.open(graph.uri)
        fresh.recover(grace_s=0)
        assert list(fresh.intents()) == [] and len(fresh.recoveries()) <= 1
    last = og.open(graph.uri)
    with pytest.raises(NotFound):
        last.snapshot("b")
    last.cleanup(**NOW)
    sound(last)


def test_reading_a_branch_changes_no_byte(graph: og.Graph) -> None:
    graph.branches.create("b")
    patch(graph, "ann", "b", age=31)
    graph.branches.merge("b")
    root = Path(graph.uri)
    before = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    with og.open(graph.uri, read_only=True) as reader:
        reader.snapshot("b").to_arrow("Person")
        reader.branches.list(heads=True)
        reader.branches.merge("b", dry_run=True)
        reader.commits("b")
        reader.verify(deep=True)
        reader.status()
        reader.plan_cleanup(keep=1, min_age="0s")
        for call in (
            lambda: reader.branches.create("c"),
            lambda: reader.branches.delete("b"),
            lambda: reader.optimize(branches=["b"], settle=True),
            lambda: reader.load([person("x")], mode="append", branch="new", from_branch="b"),
        ):
            with pytest.raises(og.errors.InvalidInput):
                call()
    assert {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()} == before
