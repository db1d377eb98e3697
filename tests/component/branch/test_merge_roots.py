"""What the next merge begins from is there, whatever a cleanup takes of histories that were merged to and fro."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import NotFound, Refused
from omnigraph.manifest.ancestry import BASES_MAX
from omnigraph.upkeep import merge_roots
from tests.component.branch.material import RECORDS, SCHEMA, person
from tests.component.upkeep.material import engine_of

NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    graph = og.init(any_root, SCHEMA)
    graph.load(RECORDS, mode="append")
    graph.branches.create("b")
    return graph


def change(graph: og.Graph, branch: str, name: str, **data: Any) -> None:
    graph.load([person(name, **data)], mode="patch", branch=branch)


def age(graph: og.Graph, branch: str, name: str) -> Any:
    row = graph.snapshot(branch).get("Person", name)
    return None if row is None else (row["age"], row["city"])


def test_what_a_branch_has_taken_from_main_is_not_taken_for_a_change_of_main(graph: og.Graph) -> None:
    """Its merge base is the commit that was merged into it, and not the one that it was made from."""
    change(graph, "main", "ann", age=31)
    graph.branches.merge("main", into="b")
    change(graph, "main", "ann", age=32)
    change(graph, "main", "bob", age=41)
    change(graph, "b", "cid", age=51)
    graph.cleanup(**NOW)
    assert graph.branches.merge("b").outcome == "merged"
    assert [age(graph, "main", name) for name in ("ann", "bob", "cid")] == [(32, "x"), (41, "y"), (51, None)]
    assert graph.verify(deep=True).ok


def criss_cross(graph: og.Graph) -> None:
    """Each side merges a commit of the other from before that one merged it: two maximal common ancestors."""
    change(graph, "main", "ann", age=31)
    change(graph, "b", "bob", age=41)
    main, branch = graph.snapshot().commit_id, graph.snapshot("b").commit_id
    graph.branches.merge("main", into="b", at=main)
    graph.branches.merge("b", at=branch)
    plan = graph.branches.merge("b", dry_run=True)
    assert set(plan.bases) == {main, branch}


def test_both_bases_of_a_criss_cross_stay_and_what_they_have_in_common(graph: og.Graph) -> None:
    criss_cross(graph)
    change(graph, "main", "ann", city="rome")
    change(graph, "b", "ann", age=99)
    change(graph, "b", "bob", city="oslo")
    for number in range(3):
        change(graph, "main", "cid", age=60 + number)
    graph.cleanup(**NOW)
    graph.branches.merge("b")
    assert [age(graph, "main", name) for name in ("ann", "bob", "cid")] == [(99, "rome"), (41, "oslo"), (62, None)]
    assert graph.verify(deep=True).ok


def test_two_rounds_of_criss_cross_are_merged_over_the_first(graph: og.Graph) -> None:
    criss_cross(graph)
    change(graph, "main", "ann", city="rome")
    change(graph, "b", "bob", city="oslo")
    main, branch = graph.snapshot().commit_id, graph.snapshot("b").commit_id
    graph.branches.merge("main", into="b", at=main)
    graph.branches.merge("b", at=branch)
    graph.cleanup(**NOW)
    change(graph, "main", "cid", age=1)
    change(graph, "b", "cid", city="bonn")
    graph.branches.merge("b")
    assert [age(graph, "main", name) for name in ("ann", "bob", "cid")] == [(31, "rome"), (41, "oslo"), (1, "bonn")]


def test_a_branch_of_a_branch_is_merged_into_both_after_a_cleanup(graph: og.Graph) -> None:
    change(graph, "b", "ann", age=31)
    graph.branches.create("c", from_="b")
    graph.branches.merge("b", into="c")
    change(graph, "b", "bob", age=41)
    graph.branches.merge("b", into="c")
    for number in range(3):
        change(graph, "b", "cid", age=50 + number)
        change(graph, "main", "cid", city=f"c{number}")
    change(graph, "c", "ann", city="rome")
    graph.cleanup(**NOW)
    graph.branches.merge("c", into="b")
    assert age(graph, "b", "ann") == (31, "rome")
    graph.branches.merge("c")
    assert age(graph, "main", "ann") == (31, "rome") and age(graph, "main", "bob") == (41, "y")


def test_a_merge_base_on_a_deleted_branch_stays_as_long_as_it_is_one(graph: og.Graph) -> None:
    """Two branches have merged a third that is gone since: what they have in common lies there."""
    graph.branches.create("third")
    change(graph, "third", "ann", age=31)
    graph.branches.merge("third")
    graph.branches.merge("third", into="b")
    graph.branches.delete("third")
    change(graph, "main", "ann", city="rome")
    change(graph, "b", "ann", age=32)
    for _ in range(2):
        graph.cleanup(**NOW)
    graph.branches.merge("b")
    assert age(graph, "main", "ann") == (32, "rome")
    assert graph.verify(deep=True).ok


def test_nothing_is_kept_for_a_branch_that_is_gone(graph: og.Graph) -> None:
    criss_cross(graph)
    base = min(graph.branches.merge("b", dry_run=True).bases)
    graph.branches.delete("b")
    change(graph, "main", "ann", age=1)
    for _ in range(2):
        graph.cleanup(**NOW)
    with pytest.raises((og.errors.Reclaimed, NotFound)):
        graph.snapshot(at=base)
    assert graph.plan_cleanup(keep=1, min_age="0s").empty


def test_what_cannot_be_followed_refuses_the_cleanup(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise og.errors.Corruption("a line does not read", object="x")

    monkeypatch.setattr(merge_roots.Ancestry, "of", broken)
    with pytest.raises(Refused) as caught:
        graph.cleanup(**NOW)
    assert caught.value.reason == "unreadable-branch"


def test_a_graph_without_branches_reads_no_history_for_it(any_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(any_root + "x", SCHEMA)
    graph.load(RECORDS, mode="append")
    monkeypatch.setattr(merge_roots.Ancestry, "of", None)
    graph.cleanup(**NOW)
    assert BASES_MAX and engine_of(graph).latest("main").state.head.boundary
