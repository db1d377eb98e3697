"""Merging branches: what tables, rows, history, keys and receipts are afterwards, and everything that two sides may disagree on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import IdempotencyMismatch, InvalidInput, MergeConflict, NotFound, PreconditionFailed
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MergedRow
from tests.component.branch.material import RECORDS, SCHEMA, content, knows, person, sound


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", SCHEMA) as made:
        made.load(RECORDS, mode="append")
        made.branches.create("b")
        yield made
        sound(made)


def patch(graph: Graph, *records: dict[str, Any], branch: str = "main", **more: Any) -> str:
    commit_id = graph.load(list(records), mode="patch", branch=branch, **more).commit_id
    assert commit_id is not None
    return commit_id


def vias(receipt: Any) -> dict[str, str]:
    return {key: table.via for key, table in receipt.tables.items()}


def carried(graph: Graph, branch: str = "main") -> list[str]:
    engine = graph._engine
    rows = engine.history.rows(engine.latest(branch))
    return [row.object_id for row in rows if isinstance(row, MergedRow)]


# --- outcomes -----------------------------------------------------------------------------------------------------------


def test_a_branch_without_commits_of_its_own_has_nothing_to_merge(graph: Graph) -> None:
    head = graph.commits(limit=1)[0].id
    receipt = graph.branches.merge("b")
    assert (receipt.outcome, receipt.commit_id, receipt.tables) == ("up_to_date", None, {})
    patch(graph, person("ann", age=31))
    assert graph.branches.merge("b").outcome == "up_to_date"
    assert graph.commits()[1].id == head


def test_what_a_branch_did_is_done_to_a_target_that_stood_still(graph: Graph) -> None:
    patch(graph, person("ann", age=31), person("dora"), branch="b")
    graph.mutate('query q() { delete Person where name = "bob" }', branch="b")
    wanted = content(graph, branch="b")
    head = graph.commits(limit=1)[0].id
    receipt = graph.branches.merge("b")
    assert receipt.outcome == "fast_forward"
    assert content(graph) == wanted
    # The edges of b's line need no file of main's: all that were there are gone.
    assert vias(receipt) == {"edge:Knows": "adopt", "node:Person": "rows"}
    people = receipt.tables["node:Person"]
    assert (people.inserted, people.updated, people.deleted) == (1, 1, 1)
    commit = graph.commits(limit=1)[0]
    last = graph.commits("b", limit=1)[0].id
    assert commit.kind == "merge" and commit.parents == (head, last)
    assert commit.merge is not None and (commit.merge["commit"], commit.merge["bases"]) == (last, [head])
    assert graph.commit(commit.id).merge == commit.to_dict()["merge"] == commit.merge
    assert graph.commit(last).merge is None
    assert graph.branches.merge("b").outcome == "up_to_date"


def test_a_branch_is_merged_after_one_that_was_made_from_it_and_wrote_nothing(graph: Graph) -> None:
    patch(graph, person("ann", age=31), branch="b")
    graph.branches.create("c", "b")
    assert graph.branches.merge("c").outcome == "fast_forward"
    assert graph.branches.merge("b").outcome == "up_to_date"
    patch(graph, person("ann", age=32), branch="b")
    patch(graph, person("bob", city="rome"))
    graph.branches.delete("c")
    receipt = graph.branches.merge("b")
    assert (receipt.outcome, receipt.tables["node:Person"].updated) == ("merged", 1)
    people = content(graph)["node:Person"]
    assert (people["ann"]["age"], people["bob"]["city"]) == (32, "rome")
    # The other way round, and once more: its history is found whichever line the source stood on.
    assert graph.branches.merge("main", into="b").outcome == "fast_forward"


def test_both_sides_keep_what_they_changed(graph: Graph) -> None:
    patch(graph, person("ann", age=31), person("dora"), knows("k2", "bob", "dora"), branch="b")
    patch(graph, person("ann", city="rome"), person("bob", age=41), person("eve"))
    receipt = graph.branches.merge("b")
    assert receipt.outcome == "merged"
    people = content(graph)["node:Person"]
    assert (people["ann"]["age"], people["ann"]["city"], people["bob"]["age"]) == (31, "rome", 41)
    assert {"dora", "eve"} <= people.keys() and "k2" in content(graph)["edge:Knows"]
    # The other way round the result is the same, and main's versions are taken as they are where nothing of b's is missing in them.
    back = graph.branches.merge("main", into="b")
    assert back.outcome == "fast_forward" and content(graph, branch="b") == content(graph)
    assert set(vias(back).values()) == {"adopt"}
    again = graph.branches.merge("b")
    assert (again.outcome, again.tables) == ("fast_forward", {})


def test_main_is_taken_over_by_a_branch_without_touching_a_row(graph: Graph) -> None:
    patch(graph, person("ann", age=31), person("dora"))
    receipt = graph.branches.merge("main", into="b")
    assert vias(receipt) == {"node:Person": "adopt"} and receipt.tables["node:Person"].inserted is None
    assert content(graph, branch="b") == content(graph)
    assert carried(graph, "b") == []  # main's commits are read on main's line
    pin = graph._engine.latest("b").state.tables["node:Person"]
    assert (pin.ref, pin.owner) == (None, graph._engine.graph_id)
    patch(graph, person("eve"), branch="b")  # an adopted table is forked by the first write
    assert "eve" not in content(graph)["node:Person"]


def test_the_same_change_on_both_sides_is_merged_without_a_row(graph: Graph) -> None:
    patch(graph, person("ann", age=31), branch="b")
    patch(graph, person("ann", age=31))
    receipt = graph.branches.merge("b")
    assert receipt.outcome == "merged" and receipt.commit_id is not None and receipt.tables == {}
    assert graph.branches.merge("b").outcome == "up_to_date"


# --- conflicts ----------------------------------------------------------------------------------------------------------


def test_everything_that_is_in_the_way_is_said_at_once(graph: Graph) -> None:
    patch(graph, person("ann", age=31, city="rome"), person("dora", age=1), branch="b")
    graph.mutate('query q() { delete Person where name = "cid" }', branch="b")
    patch(graph, {"type": "Town", "data": {"title": "x", "mayor": "bob"}}, branch="b")
    patch(graph, person("ann", age=32), person("dora", age=2), person("cid", age=51))
    patch(graph, {"type": "Town", "data": {"title": "x", "mayor": "cid"}})
    before = content(graph)
    with pytest.raises(MergeConflict) as refused:
        graph.branches.merge("b")
    error = refused.value
    assert content(graph) == before
    assert error.by_kind == {"delete_vs_update": 1, "divergent_insert": 1, "divergent_update": 2}
    found = {(one["type"], one["id"], one["property"]): one for one in error.conflicts}
    ann = found["Person", "ann", "age"]
    assert (ann["base"], ann["source"], ann["target"]) == (30, 31, 32)
    assert found["Town", "x", "mayor"]["kind"] == "divergent_update"
    assert found["Person", "cid", None]["source"] is None
    # One side's rows, loaded into the other branch, decide; the merge then goes through.
    graph.load(error.to_ndjson(side="target"), mode="merge", branch="b")
    receipt = graph.branches.merge("b")
    assert receipt.outcome == "merged"
    people = content(graph)["node:Person"]
    assert (people["ann"]["age"], people["ann"]["city"], people["dora"]["age"]) == (32, "x", 2)


def test_strict_rows_clash_where_different_properties_were_changed(graph: Graph) -> None:
    patch(graph, person("ann", age=31), branch="b")
    patch(graph, person("ann", city="rome"))
    with pytest.raises(MergeConflict) as refused:
        graph.branches.merge("b", strict_rows=True)
    assert {one["property"] for one in refused.value.conflicts} == {"age", "city"}
    assert graph.branches.merge("b").outcome == "merged"


@pytest.mark.parametrize("adopting", [False, True])
def test_rules_are_kept_over_what_both_sides_did(graph: Graph, adopting: bool) -> None:
    source, target = ("main", "b") if adopting else ("b", "main")
    graph.mutate('query q() { delete Person where name = "cid" }', branch=source)
    patch(graph, {"type": "Town", "data": {"title": "y", "mayor": "eve"}}, branch=source)
    patch(graph, knows("k5", "bob", "cid"), branch=target)
    patch(graph, {"type": "Town", "data": {"title": "z", "mayor": "eve"}}, branch=target)
    with pytest.raises(MergeConflict) as refused:
        graph.branches.merge(source, into=target)
    assert refused.value.by_kind == {"orphan_edge": 1, "unique_violation": 1}


def test_a_source_may_have_too_many_edges_only_together(graph: Graph) -> None:
    graph.load([knows(f"b{at}", "ann", who) for at, who in enumerate(("bob", "cid"))], mode="append", branch="b")
    graph.load([knows("m1", "ann", "ann")], mode="append")
    with pytest.raises(MergeConflict) as refused:
        graph.branches.merge("b")
    assert refused.value.by_kind == {"cardinality_violation": 1}


# --- bases --------------------------------------------------------------------------------------------------------------


def test_a_repeated_merge_starts_from_the_last_one(graph: Graph) -> None:
    patch(graph, person("ann", age=31), branch="b")
    graph.branches.merge("b")
    patch(graph, person("ann", age=32))
    patch(graph, person("bob", age=41), branch="b")
    assert graph.branches.merge("b").outcome == "merged"
    people = content(graph)["node:Person"]
    assert (people["ann"]["age"], people["bob"]["age"]) == (32, 41)


def test_branches_that_merged_each_other_have_a_virtual_base(graph: Graph) -> None:
    """Both sides have merged an older commit of the other: two bases, each with a change that the other lacks."""
    main = patch(graph, person("ann", age=31))
    b = patch(graph, person("bob", age=41), branch="b")
    graph.branches.merge("b", at=b)
    graph.branches.merge("main", into="b", at=main)
    patch(graph, person("ann", age=30))  # back to what it was before both
    patch(graph, person("cid", city="rome"), branch="b")
    plan = graph.branches.merge("b", dry_run=True)
    assert set(plan.bases) == {main, b} and plan.outcome == "merged"
    assert graph.branches.merge("b").outcome == "merged"
    people = content(graph)["node:Person"]
    assert (people["ann"]["age"], people["bob"]["age"], people["cid"]["city"]) == (30, 41, "rome")


def test_a_branch_of_a_branch_is_merged_past_it(graph: Graph) -> None:
    patch(graph, person("ann", age=31), branch="b")
    graph.branches.create("c", from_="b")
    c = patch(graph, person("bob", age=41), branch="c")
    patch(graph, person("cid", age=51), branch="b")
    receipt = graph.branches.merge("c")
    people = content(graph)["node:Person"]
    assert [people[name]["age"] for name in ("ann", "bob", "cid")] == [31, 41, 50]
    assert len(carried(graph)) == 2 and receipt.outcome == "fast_forward"
    graph.branches.delete("c")
    assert graph.branches.merge("b").outcome == "merged"
    assert content(graph)["node:Person"]["cid"]["age"] == 51
    assert graph.outcome(c).landed


# --- history, keys, deletion --------------------------------------------------------------------------------------------


def test_history_receipts_and_keys_outlive_the_branch(graph: Graph) -> None:
    first = patch(graph, person("ann", age=31), branch="b", idempotency_key="one")
    second = patch(graph, person("bob", age=41), branch="b")
    receipt = graph.branches.merge("b", idempotency_key="m", delete_source=True)
    assert receipt.warnings == () and [one.name for one in graph.branches.list()] == ["main"]
    assert carried(graph) == [second, first]
    assert graph.outcome(first).landed and graph.commit(first).id == first
    again = graph.load([person("ann", age=31)], mode="patch", idempotency_key="one")
    assert again.replayed and again.commit_id == first
    repeated = graph.branches.merge("b", idempotency_key="m", delete_source=True)
    assert repeated.replayed and (repeated.commit_id, repeated.outcome) == (receipt.commit_id, "fast_forward")
    with pytest.raises(IdempotencyMismatch):
        graph.branches.merge("b", idempotency_key="m", strict_rows=True)
    with pytest.raises(NotFound):
        graph.branches.merge("b")
    # A branch of the same name has another life.
    graph.branches.create("b")
    assert graph.branches.merge("b").outcome == "up_to_date"


def test_a_list_and_a_look_at_one_commit_say_the_same_of_its_swap(graph: Graph) -> None:
    """What a merge carries stands in one version with the merge, and did not come about with it."""
    graph.branches.create("review")
    first = patch(graph, person("ann", age=31), branch="review")
    patch(graph, person("bob", age=41))
    merged = graph.branches.merge("review").commit_id
    listed = {commit.id: commit.grouped_with for commit in graph.commits()}
    assert listed[merged] == listed[first] == ()
    assert {name: graph.commit(name).grouped_with for name in listed} == listed


def test_a_source_that_moved_on_is_not_deleted(graph: Graph) -> None:
    first = patch(graph, person("ann", age=31), branch="b")
    patch(graph, person("ann", age=32), branch="b")
    receipt = graph.branches.merge("b", at=first, delete_source=True)
    assert content(graph)["node:Person"]["ann"]["age"] == 31
    assert len(receipt.warnings) == 1 and "not deleted" in receipt.warnings[0]
    assert graph.branches.merge("b", delete_source=True).outcome == "merged"


def test_a_plan_writes_nothing_and_says_what_would_come(graph: Graph) -> None:
    patch(graph, person("ann", age=31), branch="b")
    head = graph.commits(limit=1)[0].id
    plan = graph.branches.merge("b", dry_run=True)
    assert (plan.outcome, plan.commits, plan.base_commit) == ("fast_forward", 1, head)
    assert plan.tables["node:Person"].updated == 1 and plan.to_dict()["tables"]["node:Person"]["effects"] == ["rows"]
    assert graph.commits(limit=1)[0].id == head


def test_what_cannot_be_merged_is_refused(graph: Graph) -> None:
    for call in (
        lambda: graph.branches.merge("main"),
        lambda: graph.branches.merge("b", into="b"),
        lambda: graph.branches.merge(""),
    ):
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(NotFound):
        graph.branches.merge("nowhere")
    with pytest.raises(NotFound):
        graph.branches.merge("b", into="nowhere")
    with pytest.raises(NotFound):
        graph.branches.merge("b", at="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    patch(graph, person("ann", age=31), branch="b")
    with pytest.raises(PreconditionFailed):
        graph.branches.merge("b", expect_head=graph.commits()[-1].id)


def test_a_merge_is_taken_back_by_rows(graph: Graph) -> None:
    before = content(graph)
    patch(graph, person("ann", age=31), person("dora"), knows("k2", "bob", "dora"), branch="b")
    merged = graph.branches.merge("b").commit_id
    graph.revert(merged or "")
    assert content(graph) == before
    adopted = graph.branches.merge("main", into="b").commit_id
    graph.revert(adopted or "", branch="b")
    assert content(graph, branch="b")["node:Person"]["ann"]["age"] == 31
