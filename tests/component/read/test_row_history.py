"""Who changed a row: against reading every commit, across branches and renames, and what it costs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.core.errors import Corruption, InvalidInput, NotFound
from omnigraph.graph import Graph
from omnigraph.read import row_history
from omnigraph.testing.grouping import together
from tests.component.read.world import KINDS, World

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Town { title: String @key }
edge Knows: Person -> Person
"""


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="relaxed") as made:
        yield made


def load(graph: Graph, *records: dict[str, Any], mode: str = "patch", **options: Any) -> str:
    commit_id = graph.load(list(records), mode=mode, **options).commit_id
    assert commit_id is not None
    return commit_id


# --- against reading everything -----------------------------------------------------------------------------------------


def by_reading(world: World, branch: str, key: str) -> list[tuple[str, str, Any, Any]]:
    """The commits of a branch, along their first parents, that changed a row, newest first."""
    graph, chain = world.graph, []
    commit = graph.commit(graph.snapshot(branch).commit_id)
    while True:
        catalog = graph.schema.show(branch, at=commit.id).catalog
        [declared] = catalog.types()
        ids = {prop.name: prop.prop_id for prop in declared.properties}
        chain.append((commit, ids, graph.snapshot(branch, commit.id).get(declared.name, key)))
        if not commit.parents:
            break
        commit = graph.commit(commit.parents[0])
    found = []
    for (commit, ids, row), (_, old_ids, was) in zip(chain, [*chain[1:], (None, {}, None)], strict=True):
        if commit.kind in ("schema", "maintenance", "init") or (row is None and was is None):
            continue
        if row is None or was is None:
            found.append((commit.id, "insert" if was is None else "delete", was, row))
            continue
        before = {old_ids.get(name, name): value for name, value in was.items()}
        after = {ids.get(name, name): value for name, value in row.items()}
        if any(before.get(one, world.fills.get(one)) != value for one, value in after.items()):
            found.append((commit.id, "update", was, row))
    return found


def wrong_rows(root: Path, steps: list[tuple[str, int]]) -> list[str]:
    world = World(root)
    wrong = []
    try:
        for kind, number in steps:
            world.step(kind, number)
        for branch in world.declared:
            for key in random.Random(len(steps)).sample([f"k{at}" for at in range(12)], 4):
                wanted = by_reading(world, branch, key)
                history = world.graph.history(world.declared[branch].type, key, branch)
                found = [(one.commit_ids[-1], one.kind, one.before, one.after) for one in history]
                if found != wanted or history.reclaimed is not None:
                    wrong.append(f"{branch} {key}: {found} instead of {wanted}")
    finally:
        world.graph.close()
    return wrong


EXAMPLES = 8 if settings.default.max_examples <= 25 else settings.default.max_examples
_STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 10_000)), min_size=4, max_size=14)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(steps=_STEPS)
def test_a_history_is_what_reading_every_commit_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    assert not wrong_rows(tmp_path_factory.mktemp("history") / "g", steps)


def test_planted_a_restore_that_is_skipped_by_its_stamps_loses_changes(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(graph, person("ann", age=1), person("bob"), mode="append")
    load(graph, person("ann", age=2))
    graph.restore(first)
    kinds = [(one.kind, (one.after or {})["age"]) for one in graph.history("Person", "ann")]
    assert kinds == [("update", 1), ("update", 2), ("insert", 1)]
    monkeypatch.setattr(row_history, "_counts", lambda changes: (1, 1, 1))
    assert len(graph.history("Person", "ann")) == 1


# --- what it says -------------------------------------------------------------------------------------------------------


def test_each_change_says_who_made_it_and_what_was_there_before(graph: Graph) -> None:
    first = load(graph, person("ann", age=1), person("bob"), mode="append", actor="import")
    load(graph, person("bob", age=5))
    second = load(graph, person("ann", age=2), actor="clerk")
    graph.optimize()
    third = graph.mutate('query q() { delete Person where name = "ann" }').commit_id
    fourth = load(graph, person("ann", age=3), mode="merge", actor="import")
    found = graph.history("Person", "ann")
    assert [(one.commit_ids, one.kind, one.actor) for one in found] == [
        ((fourth,), "insert", "import"),
        ((third,), "delete", None),
        ((second,), "update", "clerk"),
        ((first,), "insert", "import"),
    ]
    assert found[2].before == {"id": "ann", "age": 1, "city": None, "name": "ann"}
    assert found[2].after == {"id": "ann", "age": 2, "city": None, "name": "ann"}
    assert found[2].changed == ("age",) and found[2].created_at == graph.commit(second).created_at
    assert found.reclaimed is None
    assert graph.history("Person", "ann", limit=1) == found[:1]
    assert graph.history("Person", "nobody") == []
    assert "clerk" in found._repr_html_() and found.to_dict()["changes"][3]["commit_ids"] == [first]


def test_a_history_goes_on_where_the_branch_was_made_and_a_merge_is_one_change(graph: Graph) -> None:
    first = load(graph, person("ann", age=1), person("bob"), mode="append")
    graph.branches.create("b")
    load(graph, person("ann", age=9))
    own = [load(graph, person("ann", city=city), branch="b") for city in ("x", "y")]
    assert [one.commit_ids[0] for one in graph.history("Person", "ann", "b")] == [own[1], own[0], first]
    merge = graph.branches.merge("b").commit_id
    found = graph.history("Person", "ann")
    assert found[0].commit_ids == (merge,) and len(found) == 3
    assert (found[0].before or {})["city"] is None and (found[0].after or {})["city"] == "y"


def test_a_type_is_followed_through_its_names_and_a_fill_is_no_change(graph: Graph) -> None:
    first = load(graph, person("ann", age=1), mode="append")
    renamed = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") { score: F64?').replace(
        "Person -> Person", "Human -> Human"
    )
    graph.schema.apply(renamed.replace("age: I32?", 'years: I32? @rename_from("age")'), fill={"Human.score": 0.5})
    second = graph.load([{"type": "Human", "data": {"name": "ann", "years": 2}}], mode="patch").commit_id
    found = graph.history("Human", "ann")
    assert [(one.commit_ids[0], one.kind) for one in found] == [(second, "update"), (first, "insert")]
    assert (found[0].before or {})["score"] == 0.5 and found[0].changed == ("years",)
    assert found[1].after == {"id": "ann", "age": 1, "city": None, "name": "ann"}


def test_a_row_that_a_merged_schema_passed_by_is_shown_as_it_was(graph: Graph) -> None:
    first = load(graph, person("ann", age=1), person("bob"), mode="append")
    graph.branches.create("b")
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32? score: F64?"), branch="b", fill={"Person.score": 0.5})
    graph.mutate('query q() { delete Person where name = "bob" }', branch="b")
    load(graph, {"type": "Town", "data": {"title": "x"}}, mode="append")
    assert graph.branches.merge("b").outcome == "merged"
    [found] = graph.history("Person", "ann")
    assert found.commit_ids == (first,) and found.after == {"id": "ann", "age": 1, "city": None, "name": "ann"}


def test_commits_of_one_swap_that_share_the_table_are_named_together(graph: Graph) -> None:
    load(graph, person("ann", age=1), person("bob"), mode="append")
    ended = together(
        graph._engine,
        [
            partial(graph.load, [person("ann", age=2)], mode="merge", actor="one"),
            partial(graph.load, [person("bob", age=2)], mode="merge", actor="two"),
            partial(graph.load, [{"type": "Town", "data": {"title": "x"}}], mode="merge", actor="three"),
        ],
    )
    first, second, third = (one.value.commit_id for one in ended)
    assert graph.commit(first).grouped_with == (second, third)
    assert (graph.history("Person", "ann")[0].commit_ids, graph.history("Person", "ann")[0].actor) == (
        (first, second),
        None,
    )
    assert (graph.history("Town", "x")[0].commit_ids, graph.history("Town", "x")[0].actor) == ((third,), "three")


def test_a_history_says_where_a_cleanup_has_cut_it(graph: Graph) -> None:
    load(graph, person("ann", age=0), person("bob"), mode="append")
    commits = [load(graph, person("ann", age=age)) for age in range(1, 5)]
    last = load(graph, person("bob", age=1))
    graph.cleanup(keep=3, min_age="0s", confirm=True)
    found = graph.history("Person", "ann")
    assert [one.commit_ids[0] for one in found] == [commits[-1]]
    assert found.reclaimed == commits[-2]
    assert commits[-2] in repr(found) and "cleaned up" in found._repr_html_()
    # What has to be looked at is there: bob was inserted by a commit whose state is not.
    assert [one.commit_ids[0] for one in graph.history("Person", "bob", limit=1)] == [last]


def test_a_version_that_is_missing_without_a_cleanup_is_damage(graph: Graph) -> None:
    load(graph, person("ann", age=0), person("bob"), mode="append")
    second = load(graph, person("ann", age=1))
    load(graph, person("ann", age=2))
    version = graph.commit(second).tables["node:Person"].version
    pin = graph._engine.latest("main").state.tables["node:Person"]
    (Path(graph.uri) / pin.location / "_versions" / f"{2**64 - 1 - version:020d}.manifest").unlink()
    with og.open(graph.uri, read_only=True) as fresh, pytest.raises(Corruption):
        fresh.history("Person", "ann")


def test_wrong_arguments_are_named(graph: Graph) -> None:
    with pytest.raises(NotFound, match="no type 'Ghost'"):
        graph.history("Ghost", "x")
    with pytest.raises(NotFound):
        graph.history("Person", "x", "nowhere")
    for limit in (0, True, "1"):
        with pytest.raises(InvalidInput, match="limit"):
            graph.history("Person", "x", limit=limit)  # type: ignore[arg-type]


# --- what it costs ------------------------------------------------------------------------------------------------------


def test_versions_that_cannot_have_changed_the_row_are_not_opened(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(graph, person("ann", age=0), person("bob"), mode="append")
    for number in range(12):
        load(graph, person(f"p{number}"), mode="append")  # nothing is updated
        load(graph, person("bob", age=number))  # another row is
    load(graph, person("ann", age=1))
    looked: list[int] = []
    look = row_history._Walk.look

    def watched(walk: Any, ref: str | None, version: int, step: Any) -> Any:
        looked.append(version)
        return look(walk, ref, version, step)

    monkeypatch.setattr(row_history._Walk, "look", watched)
    assert len(graph.history("Person", "ann")) == 2
    # The newest version, the one before the last change, in which the row says when it was written, and the one before that.
    assert len(looked) == 3


@pytest.mark.parametrize("key", [("x", 1), ["x", 1], '["x","1"]'], ids=["tuple", "list", "text"])
def test_a_key_of_several_properties_is_taken_in_every_form(local_root: str, key: Any) -> None:
    with og.init(local_root, "node Seat { room: String row: I32 note: String? @key(room, row) }") as graph:
        graph.load([{"type": "Seat", "data": {"room": "x", "row": 1, "note": "here"}}], mode="append")
        found = graph.snapshot().get("Seat", key)
        assert found is not None and found["note"] == "here"
        assert [one.kind for one in graph.history("Seat", key)] == ["insert"]
        for wrong in (("x",), ["x", 1, 2], ("x", "1"), {"room": "x", "row": 1}):
            with pytest.raises(og.errors.InvalidInput):
                graph.snapshot().get("Seat", wrong)
