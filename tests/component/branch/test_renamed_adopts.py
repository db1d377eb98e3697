"""A table that is taken over by pointer while its type has another name on the other side; and names that are used again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.manifest.rows import Pin
from tests.component.branch.material import RECORDS, SCHEMA, content, sound
from tests.component.branch.test_merge_schema import edited, vias
from tests.component.upkeep.material import engine_of

RENAMED = (("node Town {", 'node Place @rename_from("Town") {'), ("-> Town", "-> Place"))
BACK = (('node Place @rename_from("Town") {', 'node Town @rename_from("Place") {'), ("-> Place", "-> Town"))
TOWN_AGAIN = ("edge Knows", "node Town { title: String @key mayor: String? }\nedge Knows")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="relaxed") as made:
        made.load(RECORDS, mode="append")
        made.branches.create("b")
        yield made
        sound(made)


def town(title: str, type_: str = "Town") -> dict[str, Any]:
    return {"type": type_, "data": {"title": title}}


def load(graph: Graph, *records: dict[str, Any], branch: str = "main") -> None:
    graph.load(list(records), mode="append", branch=branch)


def pins(graph: Graph, branch: str) -> dict[str, Pin]:
    return dict(engine_of(graph).latest(branch).state.tables)


def titles(graph: Graph, type_: str, branch: str = "main") -> list[str]:
    return sorted(content(graph, branch=branch)[f"node:{type_}"])


def test_main_changes_rows_of_a_type_that_the_branch_has_renamed(graph: Graph) -> None:
    edited(graph, *RENAMED, branch="b")
    load(graph, town("w"))
    receipt = graph.branches.merge("main", into="b")
    assert vias(receipt) == {"node:Place": "adopt"}
    assert titles(graph, "Place", "b") == ["w", "x", "y"]
    mine, theirs = pins(graph, "b")["node:Place"], pins(graph, "main")["node:Town"]
    assert (mine.triple, mine.owner, mine.bases) == (theirs.triple, theirs.owner, theirs.bases)
    assert (mine.key, mine.incarnation) == ("node:Place", 1)
    load(graph, town("v", "Place"), branch="b")
    graph.branches.merge("b")
    assert titles(graph, "Place") == ["v", "w", "x", "y"] and "node:Town" not in pins(graph, "main")


def test_main_renames_a_type_whose_rows_it_has_changed(graph: Graph) -> None:
    load(graph, town("w"))
    edited(graph, *RENAMED)
    receipt = graph.branches.merge("main", into="b")
    assert vias(receipt) == {"node:Place": "adopt"}
    assert content(graph, branch="b") == content(graph)
    assert "node:Town" not in pins(graph, "b")


def test_both_sides_have_renamed_and_main_changes_rows(graph: Graph) -> None:
    edited(graph, *RENAMED, branch="b")
    edited(graph, *RENAMED)
    load(graph, town("w", "Place"))
    assert vias(graph.branches.merge("main", into="b")) == {"node:Place": "adopt"}
    assert titles(graph, "Place", "b") == ["w", "x", "y"]


@pytest.mark.parametrize("adopts_first", [True, False])
def test_the_old_name_is_used_again_for_another_type(graph: Graph, adopts_first: bool) -> None:
    """The new type has rows and an incarnation of its own, and never the other's."""
    edited(graph, *RENAMED, branch="b")
    load(graph, town("w"))
    if adopts_first:
        assert vias(graph.branches.merge("main", into="b")) == {"node:Place": "adopt"}
    edited(graph, TOWN_AGAIN, branch="b")
    before = graph.commits("b")[1].id
    load(graph, town("new"), branch="b")
    old, new = pins(graph, "b")["node:Place"], pins(graph, "b")["node:Town"]
    assert old.identity == pins(graph, "main")["node:Town"].identity != new.identity
    assert new.incarnation > 1
    load(graph, town("v"))
    graph.branches.merge("main", into="b")
    assert (titles(graph, "Place", "b"), titles(graph, "Town", "b")) == (["v", "w", "x", "y"], ["new"])
    with pytest.raises(og.errors.MergeConflict) as caught:  # one plan cannot free the name and give it away
        graph.branches.merge("b", deadline_s=5)
    assert [(one["kind"], one["type"]) for one in caught.value.conflicts] == [("divergent_schema", "Town")]
    assert "merge the source at a commit before it used the name again" in caught.value.hint
    graph.branches.merge("b", at=before)
    graph.branches.merge("b")
    assert content(graph) == content(graph, branch="b")
    after = pins(graph, "main")
    assert (after["node:Place"].identity, after["node:Town"].identity) == (old.identity, new.identity)
    assert after["node:Town"].incarnation > 1


def test_a_name_goes_back_and_forth(graph: Graph) -> None:
    edited(graph, *RENAMED, branch="b")
    edited(graph, *BACK, branch="b")
    load(graph, town("w"))
    assert vias(graph.branches.merge("main", into="b")) == {"node:Town": "adopt"}
    assert titles(graph, "Town", "b") == ["w", "x", "y"]
    load(graph, town("v"), branch="b")
    graph.branches.merge("b")
    assert content(graph) == content(graph, branch="b")


def test_a_name_that_was_dropped_and_made_again_is_another_type(graph: Graph) -> None:
    """Main goes on with rows of a type that the branch has no more: its name there means something else."""
    dropped = dropped_town(graph)
    edited(graph, TOWN_AGAIN, branch="b")
    load(graph, town("new"), branch="b")
    assert pins(graph, "b")["node:Town"].incarnation > 1
    load(graph, town("w"))
    with pytest.raises(og.errors.MergeConflict) as caught:
        graph.branches.merge("main", into="b")
    assert {one["kind"] for one in caught.value.conflicts} == {"drop_vs_update"}
    graph.branches.merge("main", into="b", allow_data_loss=True)
    assert titles(graph, "Town", "b") == ["new"]
    with pytest.raises(og.errors.MergeConflict) as caught:
        graph.branches.merge("b", allow_data_loss=True, deadline_s=5)
    assert [(one["kind"], one["type"]) for one in caught.value.conflicts] == [("divergent_schema", "Town")]
    graph.branches.merge("b", at=dropped, allow_data_loss=True)
    graph.branches.merge("b")
    assert content(graph) == content(graph, branch="b") and pins(graph, "main")["node:Town"].incarnation > 1


def dropped_town(graph: Graph) -> str:
    """The commit of the branch that drops the type."""
    edited(graph, ("edge Lives: Person -> Town\n", ""), branch="b", allow_data_loss=True)
    text = str(graph.schema.show("b"))
    start = text.index("node Town")
    text = text[:start] + text[text.index("}", start) + 1 :]
    return str(graph.schema.apply(text, branch="b", allow_data_loss=True).commit_id)
