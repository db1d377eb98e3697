"""Taking a commit back, and going back to an older state: what rows, tables and history are afterwards, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import (
    IdempotencyMismatch,
    InvalidInput,
    MergeConflict,
    NotFound,
    PreconditionFailed,
    Reclaimed,
    Refused,
)
from omnigraph.graph import Graph
from tests.component.branch.material import RECORDS, SCHEMA, content, knows, person, sound


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", SCHEMA) as made:
        made.load(RECORDS, mode="append")
        yield made
        sound(made)


def load(graph: Graph, *records: dict[str, Any], mode: str = "merge") -> str:
    commit_id = graph.load(list(records), mode=mode).commit_id
    assert commit_id is not None
    return commit_id


def vias(graph: Graph, commit_id: str) -> dict[str, str]:
    held = graph._engine.latest("main")
    row: Any = graph._engine.history.find(held, commit_id)
    return {key: change.via for key, change in row.tables.items()}


# --- revert -------------------------------------------------------------------------------------------------------------


def test_a_bad_load_is_taken_back_by_putting_the_old_versions_back(graph: Graph) -> None:
    before = content(graph)
    bad = load(graph, person("ann", age=1), person("dora"), knows("k2", "bob", "dora"))
    receipt = graph.revert(bad)
    assert receipt.commit_id and receipt.kind == "revert"
    assert content(graph) == before
    assert vias(graph, receipt.commit_id) == {"edge:Knows": "restore", "node:Person": "restore"}
    assert receipt.tables["node:Person"].inserted is None
    assert graph.commits(limit=1)[0].parents == (bad,)
    newest = graph.commits(limit=1)[0]
    assert newest.reverts == graph.commit(newest.id).reverts == (bad,)
    assert newest.to_dict()["reverts"] == [bad] and newest.merge is None and newest.recovered_by is None
    assert graph.commit(bad).reverts is None


def test_an_undo_is_undone_by_an_undo(graph: Graph) -> None:
    bad = load(graph, person("ann", age=1), person("dora"))
    after = content(graph)
    undone = graph.revert(bad).commit_id
    assert undone is not None
    graph.revert(undone)
    assert content(graph) == after


def test_what_came_after_the_commit_stays(graph: Graph) -> None:
    bad = load(graph, person("ann", age=1, city="bad"), person("dora", age=2), mode="patch")
    load(graph, person("eve", age=5), person("bob", age=41), mode="patch")
    load(graph, person("ann", tags=["new"]), mode="patch")
    receipt = graph.revert(bad)
    assert vias(graph, receipt.commit_id or "") == {"node:Person": "rows"}
    people = content(graph)["node:Person"]
    assert sorted(people) == ["ann", "bob", "cid", "eve"]
    assert (people["ann"]["age"], people["ann"]["city"], people["ann"]["tags"]) == (30, "x", ["new"])
    assert people["bob"]["age"] == 41
    assert receipt.tables["node:Person"].to_dict() | {"version": 0} == {
        "version": 0, "inserted": 0, "updated": 1, "deleted": 1, "unchanged": 0,
    }  # fmt: skip


def test_rows_that_were_changed_since_are_named_one_by_one(graph: Graph) -> None:
    bad = load(graph, person("ann", age=1), person("dora", age=2), person("bob", age=3))
    graph.load([person("ann", age=9), person("dora", age=8)], mode="patch")
    before = content(graph)
    with pytest.raises(MergeConflict) as refused:
        graph.revert(bad)
    error = refused.value
    assert content(graph) == before
    assert error.total == 2 and error.by_kind == {"delete_vs_update": 1, "divergent_update": 1}
    found = {(row["id"], row["property"]): row for row in error.conflicts}
    ann = found["ann", "age"]
    assert (ann["kind"], ann["type"], ann["base"], ann["source"], ann["target"]) == (
        "divergent_update", "Person", 1, 30, 9,
    )  # fmt: skip
    dora = found["dora", None]
    assert dora["source"] is None and dora["target"]["age"] == 8
    # What a load takes: the rows as they were before the commit.
    graph.load(error.to_ndjson(side="source"), mode="merge")
    assert content(graph)["node:Person"]["ann"]["age"] == 30
    with pytest.raises(InvalidInput):
        error.to_ndjson(side="other")


def test_an_undo_that_would_break_a_rule_names_the_rows(graph: Graph) -> None:
    bad = load(graph, person("dora"))
    load(graph, knows("k9", "ann", "dora"))
    with pytest.raises(MergeConflict) as refused:
        graph.revert(bad)
    [conflict] = refused.value.conflicts
    assert (conflict["kind"], conflict["type"], conflict["id"]) == ("orphan_edge", "Knows", "k9")
    gone = graph.mutate('query q() { delete Town where title = "x" }').commit_id
    graph.load([{"type": "Town", "data": {"title": "y", "mayor": "ann"}}], mode="patch")
    with pytest.raises(MergeConflict) as refused:
        graph.revert(gone or "")
    assert refused.value.by_kind == {"unique_violation": 1}


def test_a_commit_before_upkeep_is_taken_back_by_rows(graph: Graph) -> None:
    before = content(graph)
    bad = load(graph, person("ann", age=1), person("dora"))
    graph.optimize()
    receipt = graph.revert(bad)
    assert vias(graph, receipt.commit_id or "") == {"node:Person": "rows"}
    assert content(graph) == before


def test_upkeep_has_nothing_to_take_back(graph: Graph) -> None:
    load(graph, person("dora"))
    graph.optimize()
    upkeep = graph.commits(limit=1)[0]
    assert upkeep.kind == "maintenance"
    receipt = graph.revert(upkeep.id)
    assert receipt.commit_id is None and "upkeep" in receipt.warnings[0]


def test_a_change_of_the_schema_is_not_taken_back_by_rows(graph: Graph) -> None:
    wider = SCHEMA.replace("city: String?", "city: String? email: String?")
    changed = graph.schema.apply(wider).commit_id
    with pytest.raises(Refused) as refused:
        graph.revert(changed or "")
    assert refused.value.reason == "schema-differs" and refused.value.schema == SCHEMA
    bad = load(graph, person("ann", email="bad"))
    graph.revert(bad)
    graph.schema.apply(SCHEMA.replace("edge Lives: Person -> Town\n", ""))
    lives = next(commit for commit in graph.commits() if "edge:Lives" in commit.tables and commit.kind == "load")
    with pytest.raises(Refused) as refused:
        graph.revert(lives.id)
    assert refused.value.reason == "schema-differs"


def test_a_commit_under_another_schema_is_taken_back_by_property(graph: Graph) -> None:
    bad = load(graph, person("ann", age=1, city="x"), person("dora"))
    graph.schema.apply(
        SCHEMA.replace("city: String?", 'town: String? @rename_from("city") email: String?').replace(
            "age: I32?", "age: I64?"
        )
    )
    graph.load([person("ann", email="a@b")], mode="patch")
    graph.revert(bad)
    ann = content(graph)["node:Person"]["ann"]
    assert (ann["age"], ann["town"], ann["email"]) == (30, "x", "a@b")
    assert "dora" not in content(graph)["node:Person"]


def test_what_cannot_be_reverted_is_refused(graph: Graph) -> None:
    first = graph.commits()[-1]
    assert first.kind == "init"
    with pytest.raises(InvalidInput):
        graph.revert(first.id)
    with pytest.raises(NotFound):
        graph.revert("01ARZ3NDEKTSV4RRFFQ69G5FAV")


@pytest.mark.parametrize("length", [26, 20])
@pytest.mark.parametrize(("of", "on"), [("b", "main"), ("main", "b")])
def test_a_commit_of_another_branch_is_named_with_its_branch(graph: Graph, of: str, on: str, length: int) -> None:
    graph.branches.create("b")
    graph.branches.create("c")
    graph.load([person("cleo")], mode="append", branch="c")
    bad = str(graph.load([person("dora")], mode="append", branch=of).commit_id)
    for dry_run in (True, False):
        with pytest.raises(NotFound) as caught:
            graph.revert(bad[:length], branch=on, dry_run=dry_run)
        assert f"of branch {of}" in caught.value.message and f"history of {on}" in caught.value.message
        assert f"revert it on {of}, with branch={of!r} (--branch {of})" == caught.value.hint
        assert (caught.value.facts["branch"], caught.value.facts["commit_id"]) == (of, bad)
    graph.revert(bad[:length], branch=of)
    assert "dora" not in content(graph, branch=of)["node:Person"]
    graph.branches.delete("b")
    if of == "b":
        with pytest.raises(NotFound) as caught:
            graph.revert(bad)
        assert "branch" not in caught.value.facts


def test_a_state_that_cleanup_took_is_not_guessed(graph: Graph) -> None:
    """The hints of readers, who take another snapshot, take nothing back."""
    bad = load(graph, person("dora"))
    for age in range(3):
        load(graph, person("ann", age=age))
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    with pytest.raises(Reclaimed) as caught:
        graph.revert(bad)
    assert caught.value.hint.startswith("correct the rows with a load or a mutation")
    assert caught.value.facts["commit_id"] == bad and caught.value.facts["oldest"]
    graph.mutate('query q() { delete Person where name = "dora" }')
    assert "dora" not in content(graph)["node:Person"]


def test_a_state_that_cleanup_took_is_not_restored_and_one_that_is_left_is(graph: Graph) -> None:
    start = graph.checkpoints.create("start").commit_id
    gone = load(graph, person("dora"))
    load(graph, person("ann", age=7))
    left = load(graph, person("ann", age=8))
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    load(graph, person("ann", age=9))
    with pytest.raises(Reclaimed) as caught:
        graph.restore(gone)
    assert caught.value.hint == f"restore to a checkpoint or to a commit that is left, the oldest of which is {start}"
    graph.restore(left)
    assert content(graph)["node:Person"]["ann"]["age"] == 8
    graph.restore("start")
    assert content(graph)["node:Person"]["ann"]["age"] == 30


def test_a_version_that_a_cleanup_may_be_deleting_is_not_put_back(graph: Graph) -> None:
    before = content(graph)
    bad = load(graph, person("dora"))
    engine = graph._engine
    engine.boundary.raise_to(engine.latest("main").state.identity, engine.latest("main").version - 1)
    receipt = graph.revert(bad)
    assert set(vias(graph, receipt.commit_id or "").values()) == {"rows"}
    assert content(graph) == before


def test_keys_heads_and_plans(graph: Graph) -> None:
    bad = load(graph, person("dora"))
    plan = graph.revert(bad, dry_run=True)
    assert plan.to_dict()["tables"]["node:Person"]["effects"] == ["restore"]
    assert plan.commits == (bad,) and graph.commits(limit=1)[0].id == bad
    with pytest.raises(PreconditionFailed):
        graph.revert(bad, expect_head=graph.commits()[-1].id)
    first = graph.revert(bad, idempotency_key="k", expect_head=bad)
    again = graph.revert(bad, idempotency_key="k")
    assert again.replayed and again.commit_id == first.commit_id
    with pytest.raises(IdempotencyMismatch):
        graph.revert(first.commit_id or "", idempotency_key="k")
    twice = graph.revert(bad)
    assert twice.commit_id is None  # it is gone already


# --- restore ------------------------------------------------------------------------------------------------------------


def test_the_branch_is_what_it_was(graph: Graph) -> None:
    at = graph.commits(limit=1)[0].id
    before = content(graph)
    load(graph, person("ann", age=1), person("dora"))
    graph.mutate('query q() { delete Person where name = "bob" }')
    graph.optimize()
    load(graph, {"type": "Town", "data": {"title": "z"}})
    plan = graph.restore(at, dry_run=True)
    assert {key: table.effects for key, table in plan.tables.items()} == {
        "edge:Knows": ("restore",),
        "node:Person": ("restore",),
        "node:Town": ("restore",),
    }
    receipt = graph.restore(at)
    assert receipt.kind == "restore" and content(graph) == before
    assert graph.restore(at).commit_id is None
    head = graph.commits(limit=1)[0]
    assert head.id == receipt.commit_id and head.kind == "restore"


def test_a_state_of_another_schema_is_not_restored(graph: Graph) -> None:
    at = graph.commits(limit=1)[0].id
    graph.schema.apply(SCHEMA.replace("city: String?", "city: String? email: String?"))
    with pytest.raises(Refused) as refused:
        graph.restore(at)
    assert refused.value.reason == "schema-differs" and refused.value.schema == SCHEMA
    graph.schema.apply(SCHEMA)
    with pytest.raises(Refused):  # the property is another one now: its old column must not come back
        graph.restore(graph.commits()[1].id)
    assert graph.restore(graph.commits(limit=1)[0].id).commit_id is None
