"""Merging branches whose schemas differ: columns, types and rules come along, equal additions become one, losses are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import MergeConflict
from omnigraph.graph import Graph
from tests.component.branch.material import RECORDS, SCHEMA, content, person, sound


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", SCHEMA) as made:
        made.load(RECORDS, mode="append")
        made.branches.create("b")
        yield made
        sound(made)


def edited(graph: Graph, *pairs: tuple[str, str], branch: str = "main", **more: Any) -> None:
    text = str(graph.schema.show(branch))
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    assert graph.schema.apply(text, branch=branch, **more).commit_id


def patch(graph: Graph, *records: dict[str, Any], branch: str = "main") -> None:
    graph.load(list(records), mode="patch", branch=branch)


EMAIL = ("city: String?", "city: String? email: String?")
CITY = ("edge Knows", "node City { name: String @key pop: I32? }\nedge Knows")
DROP_CITY = ("city: String? ", "")


def vias(receipt: Any) -> dict[str, str]:
    return {key: table.via for key, table in receipt.tables.items()}


# --- what comes along ---------------------------------------------------------------------------------------------------


def test_a_column_and_its_values_come_along(graph: Graph) -> None:
    edited(graph, EMAIL, branch="b")
    patch(graph, person("ann", email="a@b"), person("dora", email="d@b"), branch="b")
    patch(graph, person("bob", age=41))
    plan = graph.branches.merge("b", dry_run=True)
    assert plan.tables["node:Person"].effects == ("columns", "rows")
    receipt = graph.branches.merge("b")
    people = content(graph)["node:Person"]
    assert (people["ann"]["email"], people["dora"]["email"], people["bob"]["email"]) == ("a@b", "d@b", None)
    assert people["bob"]["age"] == 41 and receipt.tables["node:Person"].inserted == 1
    mine, theirs = (graph.schema.show(name).catalog.node("Person").property("email") for name in ("main", "b"))
    assert mine.prop_id == theirs.prop_id
    commit = graph.commits(limit=1)[0]
    assert commit.kind == "merge" and commit.schema is not None


def test_a_type_that_the_branch_made_is_taken_as_it_is(graph: Graph) -> None:
    edited(graph, CITY, branch="b")
    graph.load([{"type": "City", "data": {"name": "rome", "pop": 3}}], mode="append", branch="b")
    receipt = graph.branches.merge("b")
    assert vias(receipt) == {"node:City": "adopt"}
    assert content(graph)["node:City"]["rome"]["pop"] == 3
    graph.load([{"type": "City", "data": {"name": "oslo", "pop": 1}}], mode="append")
    graph.branches.delete("b")
    assert sorted(content(graph)["node:City"]) == ["oslo", "rome"]


def test_main_brings_its_schema_to_a_branch_without_a_row(graph: Graph) -> None:
    edited(graph, EMAIL, CITY)
    patch(graph, person("ann", email="a@b"))
    receipt = graph.branches.merge("main", into="b")
    assert vias(receipt) == {"node:City": "adopt", "node:Person": "adopt"}
    assert content(graph, branch="b") == content(graph)


def test_a_filled_column_is_filled_on_the_target_too(graph: Graph) -> None:
    edited(graph, ("city: String?", "city: String? rank: I32 label: String"), branch="b",
           fill={"Person.rank": 7, "Person.label": {"sql": "upper(name)"}})  # fmt: skip
    patch(graph, person("ann", rank=9), branch="b")
    patch(graph, person("bob", age=41), person("eve"))
    graph.branches.merge("b")
    people = content(graph)["node:Person"]
    assert {name: row["rank"] for name, row in people.items()} == {"ann": 9, "bob": 7, "cid": 7, "eve": 7}
    assert people["eve"]["label"] == "EVE" and people["bob"]["age"] == 41


def test_renamed_and_widened_columns_meet_rows_of_the_other_side(graph: Graph) -> None:
    edited(graph, ("city: String?", 'town: String? @rename_from("city")'), ("age: I32?", "age: I64?"), branch="b")
    patch(graph, person("ann", town="rome"), branch="b")
    patch(graph, person("ann", age=31), person("eve", city="oslo"))
    graph.branches.merge("b")
    people = content(graph)["node:Person"]
    assert (people["ann"]["town"], people["ann"]["age"], people["eve"]["town"]) == ("rome", 31, "oslo")
    assert graph.snapshot().schema("Person").field("age").type.bit_width == 64


def test_a_renamed_type_keeps_what_both_sides_wrote(graph: Graph) -> None:
    edited(graph, ("node Town {", 'node Place @rename_from("Town") {'), ("-> Town", "-> Place"), branch="b")
    graph.load([{"type": "Place", "data": {"title": "z"}}], mode="append", branch="b")
    graph.load([{"type": "Town", "data": {"title": "w"}}], mode="append")
    graph.branches.merge("b")
    assert sorted(content(graph)["node:Place"]) == ["w", "x", "y", "z"]
    assert "node:Town" not in content(graph)
    assert graph.branches.merge("main", into="b").outcome == "fast_forward"
    assert content(graph, branch="b") == content(graph)


def test_a_dropped_column_is_dropped(graph: Graph) -> None:
    edited(graph, DROP_CITY, branch="b")
    patch(graph, person("ann", age=31))
    graph.branches.merge("b")
    assert "city" not in content(graph)["node:Person"]["ann"] and content(graph)["node:Person"]["ann"]["age"] == 31


# --- rules --------------------------------------------------------------------------------------------------------------


def test_a_new_rule_is_held_against_the_rows_of_the_target(graph: Graph) -> None:
    edited(graph, ("@range(age, 0..150)", "@range(age, 0..60)"), branch="b")
    patch(graph, person("cid", age=55), branch="b")
    patch(graph, person("bob", age=70))
    with pytest.raises(MergeConflict) as refused:
        graph.branches.merge("b")
    assert refused.value.by_kind == {"value_violation": 1}
    patch(graph, person("bob", age=40))
    graph.branches.merge("b")


def test_a_branch_that_corrects_rows_and_then_adds_the_rule_is_merged(graph: Graph) -> None:
    patch(graph, person("ann", age=10), branch="b")
    patch(graph, person("bob", age=20), person("cid", age=20), branch="b")
    edited(graph, ("@range(age, 0..150)", "@range(age, 0..20)"), branch="b")
    graph.branches.merge("b")
    assert content(graph)["node:Person"]["cid"]["age"] == 20


# --- both sides ---------------------------------------------------------------------------------------------------------


def test_the_same_property_on_both_sides_is_one_and_stays_one(graph: Graph) -> None:
    edited(graph, EMAIL, branch="b")
    edited(graph, EMAIL)
    patch(graph, person("ann", email="a@b"), branch="b")
    patch(graph, person("bob", email="b@m"))
    graph.branches.merge("b")
    email = graph.schema.show().catalog.node("Person").property("email")
    assert email.also == (graph.schema.show("b").catalog.node("Person").property("email").prop_id,)
    people = content(graph)["node:Person"]
    assert (people["ann"]["email"], people["bob"]["email"]) == ("a@b", "b@m")
    # Once more: the base has it under the branch's identity.
    patch(graph, person("cid", email="c@b"), branch="b")
    graph.branches.merge("b")
    people = content(graph)["node:Person"]
    assert (people["ann"]["email"], people["bob"]["email"], people["cid"]["email"]) == ("a@b", "b@m", "c@b")
    graph.branches.merge("main", into="b")
    assert content(graph, branch="b") == content(graph)


def test_the_same_type_on_both_sides_is_one_and_stays_one(graph: Graph) -> None:
    for branch, name in (("b", "rome"), ("main", "oslo")):
        edited(graph, CITY, branch=branch)
        graph.load([{"type": "City", "data": {"name": name, "pop": 1}}], mode="append", branch=branch)
    graph.branches.merge("b")
    assert sorted(content(graph)["node:City"]) == ["oslo", "rome"]
    graph.load([{"type": "City", "data": {"name": "rome", "pop": 2}}], mode="merge", branch="b")
    graph.branches.merge("b")
    assert content(graph)["node:City"]["rome"]["pop"] == 2
    graph.branches.merge("main", into="b")
    assert content(graph, branch="b") == content(graph)


def test_schemas_that_disagree_are_a_conflict_before_any_row(graph: Graph) -> None:
    edited(graph, ("city: String?", 'town: String? @rename_from("city")'), branch="b")
    edited(graph, ("city: String?", 'place: String? @rename_from("city")'))
    patch(graph, person("ann", age=31), branch="b")
    patch(graph, person("ann", age=32))
    with pytest.raises(MergeConflict) as refused:
        graph.branches.merge("b")
    assert refused.value.by_kind == {"divergent_schema": 1}
    [conflict] = refused.value.conflicts
    assert (conflict["base"], conflict["source"], conflict["target"]) == ("city", "town", "place")


def disagreement(graph: Graph) -> MergeConflict:
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("b")
    assert caught.value.by_kind == {"divergent_schema": len(caught.value.conflicts)}
    return caught.value


RANK = ("city: String?", "city: String? rank: I32?")
LABEL = ("city: String?", "city: String? rank: String?")


@pytest.mark.parametrize("way", ["made alike", "renamed", "dropped"])
def test_a_property_that_both_added_differently_is_named_once_with_the_way_out(graph: Graph, way: str) -> None:
    edited(graph, RANK, branch="b")
    edited(graph, LABEL)
    patch(graph, person("ann", rank=1), branch="b")
    patch(graph, person("ann", rank="one"))
    error = disagreement(graph)
    [found] = error.conflicts
    assert (found["type"], found["property"], found["element"]) == ("Person", "rank", "added by both sides")
    assert (found["source"], found["target"]) == ("rank: I32?", "rank: String?")
    assert "`omnigraph schema apply --schema FILE --branch NAME`, then merge again" in error.hint
    assert "to_ndjson" not in error.hint and error.to_ndjson() == ""
    if way == "renamed":
        edited(graph, ("rank: I32?", 'place: I32? @rename_from("rank")'), branch="b")
    else:
        edited(graph, (" rank: I32?", ""), branch="b", allow_data_loss=True)
    if way == "made alike":
        edited(graph, LABEL, branch="b")
        patch(graph, person("bob", rank="two"), branch="b")
    graph.branches.merge("b")
    people = content(graph)["node:Person"]
    assert people["ann"]["rank"] == "one"
    assert people["ann"].get("place") == (1 if way == "renamed" else None)
    assert people["bob"]["rank"] == ("two" if way == "made alike" else None)


@pytest.mark.parametrize("name", ["Lives2", "LIVES2"])
def test_a_name_that_each_side_gave_to_another_kind_of_type_is_named(graph: Graph, name: str) -> None:
    edited(graph, ("edge Knows", f"node {name} {{ k: String @key }}\nedge Knows"), branch="b")
    edited(graph, ("edge Knows", "edge Lives2: Person -> Town\nedge Knows"))
    [found] = (error := disagreement(graph)).conflicts
    assert found["type"] == "Lives2" and "another type" in found["element"]
    assert found["source"].startswith(f"node {name}") and found["target"].startswith("edge Lives2")
    assert "line" not in error.message and "Lives2" in error.message
    edited(graph, ("edge Lives2: Person -> Town", 'edge Dwells: Person -> Town @rename_from("Lives2")'))
    graph.branches.merge("b")
    assert {f"node:{name}", "edge:Dwells"} <= content(graph).keys()


@pytest.mark.parametrize("what", ["property", "type"])
@pytest.mark.parametrize("dropper", ["b", "main"])
def test_what_one_side_dropped_and_the_other_changed_is_a_loss(graph: Graph, what: str, dropper: str) -> None:
    other = "main" if dropper == "b" else "b"
    if what == "property":
        edited(graph, DROP_CITY, branch=dropper)
        patch(graph, person("ann", city="rome"), person("eve", city="oslo"), branch=other)
        lost, expected = ("Person", "city"), 2
    else:
        edited(graph, ("edge Lives: Person -> Town", ""), branch=dropper)
        graph.load([{"edge": "Lives", "from": "bob", "to": "y"}], mode="append", branch=other)
        lost, expected = ("Lives", None), 1
    with pytest.raises(MergeConflict) as refused:
        graph.branches.merge("b")
    [conflict] = refused.value.conflicts
    assert conflict["kind"] == "drop_vs_update" and (conflict["type"], conflict["property"]) == lost
    assert conflict["source" if dropper == "main" else "target"]["rows"] == expected
    assert "let the drop stand with allow_data_loss=True" in refused.value.hint
    graph.branches.merge("b", allow_data_loss=True)
    if what == "property":
        assert "city" not in content(graph)["node:Person"]["ann"] and "eve" in content(graph)["node:Person"]
    else:
        assert "edge:Lives" not in content(graph)
    steps = (graph.commits(limit=1)[0].schema or {"steps": []})["steps"]
    if dropper == "b":
        assert [step["lost"] for step in steps if step["step"].startswith("drop")] == [expected]
