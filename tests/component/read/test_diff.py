"""What changed between two states: against comparing all their rows, and what it costs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.core.errors import InvalidInput, NotFound, Reclaimed
from omnigraph.graph import Graph
from omnigraph.read import lifts, row_changes
from omnigraph.schema import parse_schema
from omnigraph.table import stamps
from omnigraph.table.delta import Looked
from omnigraph.testing.grouping import together
from tests.component.branch.material import RECORDS, SCHEMA, content, knows, person
from tests.component.read.world import KINDS, World

# --- against reading everything -----------------------------------------------------------------------------------------


def wrong_pairs(root: Path, steps: list[tuple[str, int]], done: set[str] | None = None) -> list[str]:
    world = World(root)
    try:
        for kind, number in steps:
            world.step(kind, number)
        rnd = random.Random(len(steps))
        if done is not None:
            done |= set(world.done)
        pairs = [(rnd.choice(world.places), rnd.choice(world.places)) for _ in range(6)]
        return [one for pair in pairs if (one := world.wrong(*pair)) is not None]
    finally:
        world.graph.close()


EXAMPLES = 15 if settings.default.max_examples <= 25 else settings.default.max_examples
_STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 10_000)), min_size=4, max_size=14)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(steps=_STEPS)
def test_a_diff_is_what_reading_all_rows_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    assert not wrong_pairs(tmp_path_factory.mktemp("diff") / "g", steps)


# One history with every kind of step.
_EVERY = [("merge", 0), ("fork", 5), ("merge", 1), ("merge", 7), ("append", 2), ("join", 3), ("restore", 9), ("restore", 4),
          ("fill", 11), ("merge", 12), ("type", 6), ("delete", 8), ("optimize", 13), ("rename", 16), ("merge", 17), ("merge", 10), ("drop", 23)]  # fmt: skip


def test_a_diff_over_every_kind_of_commit_is_what_reading_says(tmp_path: Path) -> None:
    done: set[str] = set()
    assert not wrong_pairs(tmp_path / "g", _EVERY, done)
    assert done == {"load", "mutate", "merge", "schema", "restore"}


def test_planted_stamps_of_two_branches_are_taken_for_one_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two branches give equal stamps to different rows."""
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(RECORDS, mode="append")
        for branch, age in (("b", 1), ("c", 2)):
            graph.branches.create(branch)
            graph.load([person("ann", age=age)], mode="patch", branch=branch)
        assert [row.changed for row in graph.diff("b", "c")] == [("age",)]
        monkeypatch.setattr(stamps, "ancestor", lambda before, after: 2**63)
        assert not list(graph.diff("b", "c"))


def test_planted_a_fill_that_is_forgotten_makes_every_row_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        before = graph.load(RECORDS, mode="append").commit_id or ""
        filled = SCHEMA.replace("tags: [String]?", "tags: [String]? score: F64?")
        graph.schema.apply(filled, fill={"Person.score": 0.5})
        graph.load([person("ann", score=1.5)], mode="patch")
        found = graph.diff(before)
        assert [(row.key, row.changed) for row in found] == [("ann", ("score",))]
        assert found.stat["Person"].to_dict() == {"inserted": 0, "updated": 1, "deleted": 0, "reason": None}
        assert [(step.kind.value, step.prop) for step in found.schema] == [("add_property", "score")]
        assert found.schema[0].fill is not None and found.schema[0].fill.given == 0.5
        # Back again: what is dropped is told by the schema, not row by row. What a state has dropped is null there.
        assert not list(graph.diff("main", before))
        full = graph.snapshot().commit_id
        graph.schema.apply(SCHEMA)
        again = graph.diff("main", full)
        assert {row.key: row.row and row.row["score"] for row in again} == {"ann": 1.5, "bob": 0.5, "cid": 0.5}
        assert again.schema[0].fill is None and again.stat["Person"].reason == "columns"
        found = graph.diff(before, full)
        monkeypatch.setattr(row_changes, "fills_between", lambda before, after: lifts.NO_FILLS)
        monkeypatch.setattr("omnigraph.read.diff.fills_between", lambda before, after: lifts.NO_FILLS)
        assert len(list(graph.diff(before, full))) == 3


# --- a small graph ------------------------------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", SCHEMA) as made:
        made.load(RECORDS, mode="append")
        yield made


def head(graph: Graph, branch: str = "main") -> str:
    return graph.snapshot(branch).commit_id


def test_rows_come_with_both_values_and_the_columns_that_differ(graph: Graph) -> None:
    before = head(graph)
    graph.load([person("ann", age=31), person("dora"), knows("k2", "bob", "dora")], mode="patch")
    graph.mutate('query q() { delete Person where name = "cid" }')
    found = graph.diff(before)
    rows = {(kind, type_, key): (changed, row, was) for kind, type_, key, changed, row, was in found}
    assert rows.keys() == {
        ("update", "Person", "ann"), ("insert", "Person", "dora"), ("delete", "Person", "cid"), ("insert", "Knows", "k2"),
    }  # fmt: skip
    old, new = content(graph, before), content(graph)
    assert rows["update", "Person", "ann"] == (("age",), new["node:Person"]["ann"], old["node:Person"]["ann"])
    assert rows["delete", "Person", "cid"] == ((), None, old["node:Person"]["cid"])
    assert rows["insert", "Knows", "k2"] == ((), new["edge:Knows"]["k2"], None)
    assert found.stat.keys() == {"Person", "Knows"}
    assert found.stat["Person"].to_dict() == {"inserted": 1, "updated": 1, "deleted": 1, "reason": None}
    assert "Person +1 ~1 -1" in repr(found) and "Knows" in found._repr_html_()
    assert found.to_dict()["a"] == {"branch": "main", "commit_id": before}
    # The other way round.
    assert {row.kind for row in graph.diff("main", before, types=["Knows"])} == {"delete"}


def test_arrow_has_what_iterating_gives(graph: Graph) -> None:
    before = head(graph)
    graph.load([person("ann", age=31), person("dora")], mode="patch")
    graph.mutate('query q() { delete Person where name = "cid" }')
    found = graph.diff(before)
    table = found.to_arrow("Person")
    assert [{"type": "Person", **row, "changed": tuple(row["changed"])} for row in table.to_pylist()] == [
        row._asdict() for row in found
    ]
    assert isinstance(found.to_batches("Person"), pa.RecordBatchReader)
    assert found.to_arrow("Town").num_rows == 0
    with pytest.raises(NotFound, match="no type 'Nobody'"):
        found.to_arrow("Nobody")


def test_a_branch_is_compared_with_the_commit_that_it_was_made_from(graph: Graph) -> None:
    graph.branches.create("b")
    graph.load([person("ann", age=31)], mode="patch", branch="b")
    graph.load([person("bob", age=41)], mode="patch")
    fork = graph.branches.list(heads=True)[1].parent
    assert fork is not None
    assert [row.key for row in graph.diff(fork.commit_id, "b")] == ["ann"]
    assert {row.key for row in graph.diff("main", "b")} == {"ann", "bob"}
    graph.checkpoints.create("before", at=fork.commit_id)
    assert [row.key for row in graph.diff("before")] == ["bob"]
    # A commit of a branch is found without naming the branch.
    assert [row.key for row in graph.diff(fork.commit_id, head(graph, "b"))] == ["ann"]


def test_a_column_that_was_written_anew_is_named_as_the_reason(graph: Graph) -> None:
    before = head(graph)
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I64?"))
    graph.load([person("ann", age=140)], mode="patch")
    found = graph.diff(before, stat=True)
    assert [(row.key, row.changed) for row in found] == [("ann", ("age",))]
    assert found.stat["Person"].to_dict() == {"inserted": 0, "updated": 1, "deleted": 0, "reason": "columns"}
    assert [step.kind.value for step in found.schema] == ["widen"]


def test_types_that_were_made_dropped_and_renamed(graph: Graph) -> None:
    before = head(graph)
    renamed = SCHEMA.replace(
        "edge Knows: Person -> Person @card(0..3)", 'edge Likes: Person -> Person @card(0..3) @rename_from("Knows")'
    ).replace("edge Lives: Person -> Town\n", "")
    graph.schema.apply(renamed + "node Pet { name: String @key }\n", allow_data_loss=True)
    graph.load([{"type": "Pet", "data": {"name": "rex"}}, {"edge": "Likes", "from": "bob", "to": "cid", "data": {"id": "k9"}}], mode="merge")  # fmt: skip
    found = graph.diff(before)
    assert {name: one.to_dict() for name, one in found.stat.items()} == {
        "Pet": {"inserted": 1, "updated": 0, "deleted": 0, "reason": "created"},
        "Likes": {"inserted": 1, "updated": 0, "deleted": 0, "reason": None},
        "Lives": {"inserted": 0, "updated": 0, "deleted": 1, "reason": "dropped"},
    }
    assert {(row.kind, row.type, row.key) for row in found} == {
        ("insert", "Pet", "rex"), ("insert", "Likes", "k9"), ("delete", "Lives", "l1"),
    }  # fmt: skip
    assert {step.kind.value for step in found.schema} == {"add_type", "drop_type", "rename_type"}
    # A type may be named as either state calls it.
    for name in ("Knows", "Likes", "likes", "edge:Knows"):
        assert [row.key for row in graph.diff(before, types=[name])] == ["k9"]
    assert found.to_arrow("Lives").to_pylist()[0]["row"] is None
    assert found.to_arrow("Pet").to_pylist()[0]["row"] == {"id": "rex", "name": "rex"}


def test_upkeep_is_no_difference(graph: Graph) -> None:
    before = head(graph)
    for number in range(3):
        graph.load([person(f"p{number}")], mode="append")
    after = head(graph)
    graph.optimize()
    assert len(list(graph.diff(before))) == 3
    assert not list(graph.diff(after))
    assert graph.diff(after).stat == {}
    assert not list(graph.diff(after, after))


SMALL = """
node Person { name: String @key  age: I32? }
node Town { title: String @key }
edge Knows: Person -> Person
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "small", SMALL, durability="relaxed") as made:
        yield made


def test_a_member_of_a_swap_with_tables_of_its_own_is_compared_alone(small: Graph) -> None:
    graph = small
    before = graph.load([person("ann"), person("bob")], mode="append").commit_id or ""
    ended = together(
        graph._engine,
        [
            partial(graph.load, [person("dora")], mode="merge"),
            partial(graph.load, [person("eve")], mode="merge"),
            partial(graph.load, [knows("k5", "ann", "bob")], mode="append"),
        ],
    )
    first, second, third = (one.value.commit_id for one in ended)
    assert graph.commit(first).manifest_version == graph.commit(third).manifest_version
    people, edges = {("insert", "dora"), ("insert", "eve")}, {("insert", "k5")}

    def rows(a: str, b: str) -> set[tuple[str, str]]:
        return {(row.kind, row.key) for row in graph.diff(a, b)}

    # Two share a table, and have one state after both.
    assert rows(before, first) == rows(before, second) == people
    assert rows(before, third) == people | edges
    assert rows(second, third) == edges
    assert not rows(first, second)
    # What one of them alone came to is told from the state before the swap.
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    with og.open(graph.uri, read_only=True) as fresh:
        assert not list(fresh.diff(third))
        with pytest.raises(Reclaimed):
            fresh.diff(first)


def test_what_cannot_be_compared_is_said(graph: Graph) -> None:
    for wrong in ("", 7, None):
        with pytest.raises(InvalidInput):
            graph.diff(wrong)  # type: ignore[arg-type]
    for unknown in ("01JZX5W9GZ0000000000000000", "nobody"):
        with pytest.raises(NotFound):
            graph.diff(unknown)
    with pytest.raises(InvalidInput, match="types is a list"):
        graph.diff("main", types="Person")
    with pytest.raises(InvalidInput, match="at least one"):
        graph.diff("main", types=[])
    with pytest.raises(NotFound, match="no type 'Ghost' in either state"):
        graph.diff("main", types=["Ghost"])
    with pytest.raises(InvalidInput):
        graph.diff("main", stat=1)  # type: ignore[arg-type]


def test_a_state_that_cleanup_took_is_reclaimed_also_while_it_is_read(graph: Graph) -> None:
    before = head(graph)
    for number in range(4):
        graph.load([person(f"p{number}", age=number)], mode="append")
    with og.open(graph.uri, read_only=True) as reader:
        found = reader.diff(before)
        graph.cleanup(keep=1, min_age="0s", confirm=True)
        with pytest.raises(Reclaimed):
            list(found)
        with pytest.raises(Reclaimed):
            graph.diff(before)


def test_kinds_that_cannot_be_equal_are_refused_by_name() -> None:
    def declared(kind: str) -> Any:
        numbers = count()
        return parse_schema(f"node P {{ name: String @key x: {kind}? }}", mint=lambda: f"i{next(numbers)}").node("P")

    number, text, wide, listed = map(declared, ("I32", "String", "I64", "[I32]"))
    assert len(row_changes.columns_between(number, wide, lifts.NO_FILLS)) == 3
    for other in (text, listed):
        with pytest.raises(InvalidInput, match=r"P\.x is a"):
            row_changes.columns_between(number, other, lifts.NO_FILLS)


def test_a_diff_reads_what_changed(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 rows 20 changed, before and after a compaction: 40 rows are read, and no other table is opened."""
    looked: list[Looked] = []
    people = pa.table({"name": [f"p{at:05d}" for at in range(20_000)], "age": pa.array([1] * 20_000, pa.int32())})
    small.load(og.Batch(nodes={"Person": people, "Town": pa.table({"title": ["x"]})}), mode="append")
    before = head(small)
    small.load([person(f"p{at * 900:05d}", age=2) for at in range(20)], mode="patch")
    after = head(small)
    small.optimize()
    compare = row_changes.delta

    def watched(*args: Any, **options: Any) -> Any:
        looked.append(Looked())
        return compare(*args, **{**options, "looked": looked[-1]})

    monkeypatch.setattr(row_changes, "delta", watched)
    for place in (after, "main"):
        looked.clear()
        assert len(list(small.diff(before, place))) == 20
        assert sum(one.rows for one in looked) == 40
        assert place == "main" or len(looked) == 1


def test_tables_are_opened_side_by_side_and_those_that_did_not_change_not_at_all(tmp_path: Path) -> None:
    schema = "".join(f"node T{at} {{ name: String @key }}\n" for at in range(8))
    with og.init(tmp_path / "g", schema, durability="relaxed") as graph:
        graph.load([{"type": f"T{at}", "data": {"name": "a"}} for at in range(8)], mode="append")
        before = head(graph)
        graph.load([{"type": f"T{at}", "data": {"name": "b"}} for at in range(3)], mode="append")
    with og.open(tmp_path / "g", read_only=True) as fresh:
        opened: list[str] = []
        real = fresh._engine.tables._open

        def watched(ref: Any, *args: Any) -> Any:
            opened.append(ref.relative)
            return real(ref, *args)

        fresh._engine.tables._open = watched  # type: ignore[method-assign]
        assert {row.type for row in fresh.diff(before)} == {"T0", "T1", "T2"}
        tables = [one for one in opened if "__manifest" not in one]
        assert len(tables) == 6 and len(set(tables)) == 3
