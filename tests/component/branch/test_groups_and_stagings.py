"""Requests that share a swap, and bytes staged by others, on the line of a branch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.branch.delete import delete_branch
from omnigraph.core import failpoints
from omnigraph.core.errors import OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.testing.grouping import held_back
from tests.component.branch.test_begin import staged
from tests.component.upkeep.material import engine_of, make, people

NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}
PLAIN = "node Person { name: String @key age: I32? }"


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[og.Graph]:
    """A branch that owns its table: a request that makes a line is alone in its plan."""
    with og.init(tmp_path / "g", PLAIN, durability="relaxed") as graph:
        graph.load([person("ann")], mode="append")
        graph.branches.create("b")
        graph.load([person("bob")], mode="append", branch="b")
        yield graph
    failpoints.disarm()


def person(name: str, age: int = 1) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "age": age}}


def load(graph: og.Graph, name: str, **more: Any) -> Any:
    return partial(graph.load, [person(name)], mode="merge", branch="b", **more)


def names(graph: og.Graph, branch: str = "b") -> list[str]:
    return sorted(graph.snapshot(branch).to_arrow("Person")["name"].to_pylist())


# --- members of a group, told before their plan ends ----------------------------------------------------------------------


def test_a_member_that_was_told_unknown_is_aborted_and_may_be_repeated(plain: og.Graph) -> None:
    """Its group is planned again without it; repeated under its key, it lands once."""
    with held_back(plain._engine, "b") as held:
        held.start(load(plain, "cleo", deadline_s=1.0, idempotency_key="c"))
        held.start(load(plain, "dora"))

        def stall(**_: Any) -> None:
            held._threads[0].join()
            with og.open(plain.uri) as rival:
                rival.load([person("rival")], mode="append", branch="b")

        failpoints.arm("apply.before_commit", stall)
    told, other = held.ended
    assert isinstance(told.error, OutcomeUnknown) and other.error is None
    assert plain.outcome(told.error.commit_id).state == "aborted"
    assert names(plain) == ["ann", "bob", "dora", "rival"]
    again = og.open(plain.uri).load([person("cleo")], mode="merge", branch="b", idempotency_key="c")
    assert again.commit_id != told.error.commit_id and not again.replayed
    plain.branches.merge("b")
    assert names(plain, "main") == ["ann", "bob", "cleo", "dora", "rival"]
    assert plain.outcome(told.error.commit_id).state == "aborted" and plain.outcome(str(again.commit_id)).landed
    assert plain.verify(deep=True).ok


def test_a_member_that_was_told_unknown_lands_with_its_group_and_is_replayed(plain: og.Graph) -> None:
    with held_back(plain._engine, "b") as held:
        held.start(load(plain, "cleo", deadline_s=1.0, idempotency_key="c"))
        held.start(load(plain, "dora"))
        failpoints.arm("publish.before_swap", lambda **_: held._threads[0].join())
    told, other = held.ended
    assert isinstance(told.error, OutcomeUnknown) and other.value is not None
    assert other.value.grouped_with == (told.error.commit_id,)
    plain.branches.merge("b")
    plain.branches.delete("b")
    for graph in (plain, og.open(plain.uri)):
        assert graph.outcome(told.error.commit_id).landed
        again = graph.load([person("cleo")], mode="merge", idempotency_key="c")
        assert again.replayed and again.commit_id == told.error.commit_id


def test_a_group_on_a_branch_that_is_closed_meanwhile_ends_for_each_of_its_members(plain: og.Graph) -> None:
    other = engine_of(og.open(plain.uri))  # whoever opens later ends the group first
    other.latest("b")
    with held_back(plain._engine, "b") as held:
        held.start(load(plain, "cleo"))
        held.start(load(plain, "dora"))

        def close(**_: Any) -> None:
            failpoints.disarm()
            delete_branch(other, og.CommitOptions(branch="b"), Meter())

        failpoints.arm("publish.before_swap", close)
    assert [getattr(one.error, "code", None) for one in held.ended] == ["not-found", "not-found"]
    fresh = og.open(plain.uri)
    fresh.recover(grace_s=0)
    assert list(fresh.intents()) == [] and names(fresh, "main") == ["ann"]
    assert fresh.verify(deep=True).ok


# --- begin ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def graph(local_root: str) -> og.Graph:
    graph = make(local_root, 2)
    graph.branches.create("feature")
    return graph


PLACES = ["own_lines.before_arm", "own_lines.armed", "own_lines.before_swap", "own_lines.after_swap"]


@pytest.mark.parametrize("place", PLACES)
def test_two_stagings_of_one_table_and_a_writer_use_one_line(graph: og.Graph, place: str) -> None:
    """The second begins, and somebody writes, while the first is making its line."""
    others: list[Any] = []

    def meanwhile(**_: Any) -> None:
        failpoints.disarm()
        other = og.open(graph.uri)
        others.append(other.begin("feature", ["Person"]))
        og.open(graph.uri).load(people("eve"), mode="append", branch="feature")

    with failpoints.armed(place, meanwhile):
        mine = graph.begin("feature", ["Person"])
    [theirs] = others
    ref = engine_of(graph).latest("feature").state.tables["node:Person"].ref
    fresh = engine_of(og.open(graph.uri)).latest("feature").state.tables["node:Person"].ref
    assert mine.table("Person").ref == theirs.table("Person").ref == ref == fresh
    theirs.load_staged({"Person": staged(graph, theirs, "bob")})
    mine.load_staged({"Person": staged(graph, mine, "ann")})
    found = og.open(graph.uri).snapshot("feature")
    assert {"ann", "bob", "eve"} <= set(found.to_arrow("Person")["name"].to_pylist())
    assert graph.snapshot().count("Person") == 2
    assert [one.message for one in graph.verify(deep=True).problems if one.severity == "damage"] == []


@pytest.mark.parametrize("place", PLACES)
def test_a_cleanup_beside_a_staging_takes_nothing_of_it(graph: og.Graph, place: str) -> None:
    """While the line is made, and again when files are staged on it."""

    def clean(**_: Any) -> None:
        failpoints.disarm()
        og.open(graph.uri).cleanup(**NOW)

    with failpoints.armed(place, clean):
        txn = graph.begin("feature", ["Person"])
    files = staged(graph, txn, "ann")
    og.open(graph.uri).cleanup(**NOW)
    txn.load_staged({"Person": files})
    found = og.open(graph.uri).snapshot("feature")
    assert found.get("Person", "ann") and found.count("Person") == 3
    assert graph.verify(deep=True).ok


# --- properties of one name ---------------------------------------------------------------------------------------------------


CITY, WITHOUT = "node Person { name: String @key city: String? age: I32? }", PLAIN


@pytest.fixture
def cities(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "c", CITY, durability="relaxed")
    graph.load([city("ann", "x"), city("bob", "y")], mode="append")
    graph.branches.create("b")
    return graph


def city(name: str, where: str | None) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "city": where}}


def found(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    return {row["id"]: row["city"] for row in graph.snapshot(branch).to_arrow("Person").to_pylist()}


def made_again(graph: og.Graph) -> None:
    graph.schema.apply(WITHOUT, branch="b")
    graph.schema.apply(CITY, branch="b")
    graph.load([city("ann", "new")], mode="patch", branch="b")


def test_a_property_that_was_made_again_on_a_branch_takes_no_value_of_the_old_one(cities: og.Graph) -> None:
    """The shape of the schema is what it was; the property is another one."""
    made_again(cities)
    assert cities.schema.show("b").catalog.hash == cities.schema.show().catalog.hash
    cities.branches.merge("b")
    assert found(cities) == found(cities, "b") == {"ann": "new", "bob": None}
    assert cities.verify(deep=True).ok


def test_values_of_the_old_property_that_changed_meanwhile_are_a_loss(cities: og.Graph) -> None:
    made_again(cities)
    cities.load([city("bob", "z")], mode="patch")
    with pytest.raises(og.errors.MergeConflict) as caught:
        cities.branches.merge("b")
    assert {one["kind"] for one in caught.value.conflicts} == {"drop_vs_update"}
    cities.branches.merge("b", allow_data_loss=True)
    assert found(cities) == {"ann": "new", "bob": None}


def test_a_state_with_the_old_property_is_not_restored_over_the_new_one(cities: og.Graph) -> None:
    old = str(cities.commits("b")[0].id)
    made_again(cities)
    with pytest.raises(og.errors.Refused) as refused:
        cities.restore(old, "b")
    assert refused.value.reason == "schema-differs"
    assert found(cities, "b") == {"ann": "new", "bob": None}
