"""Changes of the schema on a branch: its inherited tables are forked, and main keeps its own."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import failpoints
from tests.component.branch.material import RECORDS, SCHEMA, content, person
from tests.component.upkeep.material import engine_of

CHANGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a nullable property": ("city: String?", "city: String? mail: String?", {}),
    "a filled property": ("city: String?", "city: String? score: F64", {"fill": {"Person.score": 0.5}}),
    "a renamed property": ("city: String?", 'town: String? @rename_from("city")', {}),
    "a wider property": ("since: I32?", "since: I64?", {}),
    "a dropped property": ("city: String? ", "", {}),
    "a rule": ("0..150", "0..120", {}),
    "a type": ("edge Lives", "node Country { name: String @key }\nedge Lives", {}),
    "a dropped type": ("edge Lives: Person -> Town\n", "", {}),
    "a renamed type": ("edge Lives: Person -> Town", 'edge Dwells: Person -> Town @rename_from("Lives")', {}),
}


@pytest.fixture
def graph(local_root: str) -> og.Graph:
    graph = og.init(local_root, SCHEMA, durability="relaxed")
    graph.load(RECORDS, mode="append")
    graph.branches.create("b")
    return graph


@pytest.mark.parametrize(("old", "new", "more"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_on_inherited_tables_leaves_main_as_it_is(
    graph: og.Graph, old: str, new: str, more: dict[str, Any]
) -> None:
    before, state = content(graph), engine_of(graph).latest("main").state
    text = str(graph.schema.show("b"))
    assert old in text
    plan = graph.schema.plan(text.replace(old, new), branch="b", **more)
    assert plan.supported and plan.steps
    receipt = graph.schema.apply(text.replace(old, new), branch="b", **more)
    assert receipt.branch == "b" and receipt.kind == "schema"
    assert engine_of(graph).latest("main").state == state and content(og.open(graph.uri)) == before
    fresh = og.open(graph.uri)
    branch = engine_of(fresh).latest("b").state
    inherited = {pin.triple for pin in state.tables.values()}  # a renamed type keeps its pin
    for key, pin in branch.tables.items():
        if pin.triple not in inherited:
            assert pin.owner == branch.identity, f"{key} was changed on a line of another branch"
    assert {row["id"] for row in fresh.snapshot("b").to_arrow("Person").to_pylist()} == set(before["node:Person"])
    fresh.load([person("eve")], mode="append")
    fresh.load([person("dan", **({"score": 1.0} if "score" in new else {}))], mode="append", branch="b")
    assert fresh.verify(deep=True).ok


@pytest.mark.parametrize("name", ["nothing", "B"])
def test_a_branch_that_is_not_there_is_not_found(graph: og.Graph, name: str) -> None:
    text = str(graph.schema.show())
    for call in (
        lambda: graph.schema.show(name),
        lambda: graph.schema.plan(text, branch=name),
        lambda: graph.schema.apply(text, branch=name),
    ):
        with pytest.raises(og.errors.NotFound):
            call()


def test_a_branch_that_is_deleted_under_a_change_ends_it(graph: og.Graph) -> None:
    other, text = og.open(graph.uri), str(graph.schema.show("b"))

    def close(**_: Any) -> None:
        failpoints.disarm()
        other.branches.delete("b")

    with failpoints.armed("publish.before_swap", close), pytest.raises(og.errors.NotFound):
        graph.schema.apply(text.replace("city: String?", "city: String? mail: String?"), branch="b")
    assert list(graph.intents()) == [] and og.open(graph.uri).verify(deep=True).ok


def test_the_same_text_changes_nothing_and_forks_nothing(graph: og.Graph) -> None:
    before = engine_of(graph).latest("b")
    assert graph.schema.apply(str(graph.schema.show("b")), branch="b").commit_id is None
    assert engine_of(graph).latest("b").version == before.version


def test_a_rule_that_rows_of_the_branch_break_is_refused_there_and_stands_on_main(graph: og.Graph) -> None:
    graph.load([person("ann", age=149)], mode="patch", branch="b")
    text = str(graph.schema.show()).replace("0..150", "0..100")
    with pytest.raises(og.errors.DataInvalid):
        graph.schema.apply(text, branch="b")
    assert graph.schema.apply(text).commit_id
    assert graph.snapshot("b").get("Person", "ann")["age"] == 149  # type: ignore[index]
