"""The change feed tells every change of a branch once, in order, or says that it cannot."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.core.errors import InvalidInput, NotFound, Reclaimed
from omnigraph.core.ids import new_ulid
from omnigraph.read import changes as feeds
from omnigraph.read import feed_runs
from omnigraph.testing.grouping import together
from omnigraph.testing.replica import follow
from tests.component.read.feed_material import content, kinds
from tests.component.upkeep.material import engine_of

SCHEMA = """
node Person { name: String @key age: I32? city: String? }
node Town { title: String @key }
edge Knows: Person -> Person { n: String since: I32? }
edge Lives: Person -> Town { n: String }
"""


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def knows(n: str, a: str, b: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": a, "to": b, "data": {"n": n}}


@pytest.fixture
def graph(local_root: str) -> og.Graph:
    return og.init(local_root, SCHEMA)


@pytest.fixture
def copy(tmp_path: Any) -> og.Graph:
    return og.init(str(tmp_path / "copy.omni"), SCHEMA, durability="relaxed")


def head(graph: og.Graph, branch: str = "main") -> str:
    return graph.snapshot(branch).commit_id


# --- what is reported -------------------------------------------------------------------------------------------------------


def test_each_commit_is_reported_with_the_rows_that_it_changed(graph: og.Graph) -> None:
    start = head(graph)
    first = graph.load([person("ann", age=1), person("bob"), knows("k", "ann", "bob")], mode="append").commit_id
    second = graph.load([person("ann", age=2)], mode="patch").commit_id
    third = graph.mutate('query q() { delete Person where name = "bob" }').commit_id
    feed = graph.changes(start, before=True)
    found = list(feed)
    assert [(one.commit_id, one.type, one.kind) for one in found] == [
        (first, "Person", "insert"),
        (first, "Person", "insert"),
        (first, "Knows", "insert"),
        (second, "Person", "update"),
        (third, "Knows", "delete"),
        (third, "Person", "delete"),
    ]
    assert found[3].row == {"id": "ann", "name": "ann", "age": 2, "city": None}
    assert found[3].before == {"id": "ann", "name": "ann", "age": 1, "city": None}
    assert (found[5].key, found[5].row) == ("bob", None)
    assert found[5].before is not None and found[5].before["id"] == "bob"
    assert feed.cursor == feed.until == third
    assert list(graph.changes(feed.cursor)) == []
    assert all(one.before is None for one in graph.changes(start))


def test_a_feed_ends_where_it_was_asked_to_and_can_be_read_again(graph: og.Graph) -> None:
    ids = [head(graph), *(graph.load([person(name)], mode="append").commit_id for name in "abcd")]
    feed = graph.changes(ids[1], ids[3])
    assert [one.key for one in feed] == [one.key for one in feed] == ["b", "c"]
    assert feed.cursor == ids[3]
    assert [one.key for one in graph.changes(ids[1])] == ["b", "c", "d"]
    assert "2 swaps" in repr(feed)
    taken = iter(feed)
    assert next(taken).key == "b" and feed.cursor == ids[1], "of its commit not everything was asked for yet"
    assert next(taken).key == "c" and feed.cursor == ids[2]


def test_types_are_chosen_by_the_name_that_they_have_or_had(graph: og.Graph) -> None:
    start = head(graph)
    graph.load([person("ann"), {"type": "Town", "data": {"title": "x"}}], mode="append")
    graph.schema.apply(SCHEMA.replace("node Town {", 'node City @rename_from("Town") {').replace("-> Town", "-> City"))
    graph.load([{"type": "City", "data": {"title": "y"}}], mode="append")
    for name in ("Town", "City", "node:City"):
        assert kinds(graph.changes(start, types=[name])) == [
            ("Town", "x", "insert"), (None, None, "schema"), ("City", "y", "insert"),
        ]  # fmt: skip
    with pytest.raises(NotFound, match="no type"):
        graph.changes(start, types=["Nobody"])
    for bad in ("Town", []):
        with pytest.raises(InvalidInput):
            graph.changes(start, types=bad)


def test_a_fill_is_reported_by_its_schema_entry_and_not_row_by_row(graph: og.Graph) -> None:
    graph.load([person("ann"), person("bob")], mode="append")
    start = head(graph)
    text = SCHEMA.replace("city: String?", "city: String?  score: F64")
    commit = graph.schema.apply(text, fill={"Person.score": 0.5}).commit_id
    [entry] = graph.changes(start)
    assert (entry.commit_id, entry.kind, entry.type, entry.key) == (commit, "schema", None, None)
    assert entry.row is not None and entry.row["schema"] == text
    assert [(step["step"], step["fill"]) for step in entry.row["steps"]] == [("add_property", {"value": 0.5})]
    graph.load([person("ann", score=0.5), person("bob", score=1.0)], mode="patch")
    assert kinds(graph.changes(start)) == [(None, None, "schema"), ("Person", "bob", "update")]


def test_a_merge_is_one_entry_under_its_own_id(graph: og.Graph) -> None:
    graph.load([person("ann")], mode="append")
    start = head(graph)
    graph.branches.create("b")
    for name in "xyz":
        graph.load([person(name)], mode="append", branch="b")
    graph.load([person("ann", age=5)], mode="patch")
    here = head(graph)
    merged = graph.branches.merge("b").commit_id
    assert [(one.commit_ids, one.key) for one in graph.changes(here)] == [((merged,), name) for name in "xyz"]
    assert [one.key for one in graph.changes(start)] == ["ann", "x", "y", "z"]
    on_b = graph.commits("b", limit=1)[0].id
    with pytest.raises(InvalidInput, match="came to main with a merge"):
        graph.changes(on_b)


def test_upkeep_is_invisible_and_moves_the_cursor(graph: og.Graph) -> None:
    start = head(graph)
    for name in "abcd":
        graph.load([person(name)], mode="append")
    told = kinds(graph.changes(start))
    last = head(graph)
    graph.optimize()
    assert head(graph) != last, "there was something to do"
    assert kinds(graph.changes(start)) == told
    feed = graph.changes(last)
    assert list(feed) == [] and feed.cursor == head(graph)


def test_a_branch_is_followed_from_before_it_was_made(graph: og.Graph) -> None:
    start = head(graph)
    graph.load([person("ann")], mode="append")
    graph.branches.create("b")
    graph.load([person("later")], mode="append")
    graph.load([person("bob")], mode="append", branch="b")
    graph.branches.create("b/c", from_="b")
    graph.load([person("ann", age=3)], mode="patch", branch="b/c")
    assert kinds(graph.changes(start, branch="b/c")) == [
        ("Person", "ann", "insert"), ("Person", "bob", "insert"), ("Person", "ann", "update"),
    ]  # fmt: skip
    assert kinds(graph.changes(head(graph, "b"), branch="b/c")) == [("Person", "ann", "update")]


def test_batches_have_what_records_have(graph: og.Graph) -> None:
    start = head(graph)
    graph.load([person("ann", age=1), person("bob"), knows("k", "ann", "bob")], mode="append")
    graph.schema.apply(SCHEMA.replace("city: String?", "city: String?  zip: String?"))
    graph.load([person("ann", zip="z")], mode="patch")
    graph.mutate('query q() { delete Person where name = "bob" }')
    for before in (False, True):
        rows = [row for batch in graph.changes(start, before=before).to_batches() for row in batch.to_pylist()]
        for row, change in zip(rows, graph.changes(start, before=before), strict=True):
            if change.kind != "schema":
                assert row == vars(change) | {"commit_ids": list(change.commit_ids)}
    one = next(iter(graph.changes(start).to_batches()))
    assert one.schema.names == ["commit_ids", "type", "key", "kind", "row", "before"]


def test_a_change_is_plain_json(graph: og.Graph) -> None:
    start = head(graph)
    commit = graph.load([person("ann", age=1)], mode="append").commit_id
    [change] = graph.changes(start)
    assert change.to_dict() == {
        "commit_ids": [commit], "type": "Person", "key": "ann", "kind": "insert",
        "row": {"id": "ann", "name": "ann", "age": 1, "city": None}, "before": None, "commit_id": commit,
    }  # fmt: skip


# --- members of a swap --------------------------------------------------------------------------------------------------


def grouped(graph: og.Graph, *batches: list[dict[str, Any]]) -> list[str]:
    """Commit each batch by itself in one swap. Returns the ids in the order of the members."""
    calls = [partial(graph.load, batch, mode="merge") for batch in batches]
    assert all(one.error is None for one in together(engine_of(graph), calls))
    ids = [one.id for one in graph.commits(limit=len(batches))][::-1]
    assert len({graph.commit(one).manifest_version for one in ids}) == 1
    return ids


def town(title: str) -> dict[str, Any]:
    return {"type": "Town", "data": {"title": title}}


def test_commits_of_one_swap_are_reported_apart_where_their_tables_are(graph: og.Graph) -> None:
    start = head(graph)
    one, other = grouped(graph, [person("ann")], [town("x")])
    whole = [(change.commit_ids, change.type) for change in graph.changes(start)]
    assert sorted(whole) == sorted([((one,), whole[0][1]), ((other,), whole[1][1])])
    assert [ids for ids, _ in whole] == [(one,), (other,)]
    assert [change.commit_ids for change in graph.changes(one)] == [(other,)], "a reader between the two misses none"
    assert list(graph.changes(other)) == []
    assert graph.changes(start, one).until == other, "a state has one name: the last commit of its swap"


def test_commits_of_one_swap_that_share_a_table_are_reported_together(graph: og.Graph) -> None:
    start = head(graph)
    ids = grouped(graph, [person("ann")], [town("x")], [person("bob")])
    told = {(change.commit_ids, change.type, change.key) for change in graph.changes(start)}
    by_type = {kind: members for members, kind, _ in told}
    assert len(by_type["Person"]) == 2 and len(by_type["Town"]) == 1
    assert {key for _, kind, key in told if kind == "Person"} == {"ann", "bob"}
    assert [change.commit_ids for change in graph.changes(start)][-1][-1] == ids[-1]
    for at, cursor in enumerate(ids):
        rest = {change.commit_ids for change in graph.changes(cursor)}
        wanted = {members for members, _, _ in told if ids.index(members[-1]) > at}
        assert rest == wanted, "what is whole after the cursor is reported, though a part of it may come twice"


# --- cursors ------------------------------------------------------------------------------------------------------------


def test_every_place_is_a_beginning_and_an_end(graph: og.Graph) -> None:
    graph.load([person("ann")], mode="append")
    graph.checkpoints.create("one")
    graph.load([person("bob")], mode="append")
    third = graph.commits()[0]
    graph.load([person("cid")], mode="append")
    assert [one.key for one in graph.changes("one")] == ["bob", "cid"]
    assert [one.key for one in graph.changes("one", third.created_at)] == ["bob"]
    assert [one.key for one in graph.changes(third.id[:24], "main")] == ["cid"]


def test_a_cursor_that_is_nowhere_is_loud(graph: og.Graph) -> None:
    graph.load([person("ann")], mode="append")
    lost = new_ulid()
    with pytest.raises(Reclaimed, match="power cut took it back") as caught:
        graph.changes(lost)
    assert (caught.value.reason, caught.value.start) == ("cursor", head(graph))
    assert "snapshot of main" in caught.value.hint


def test_a_cursor_that_a_power_cut_took_back_is_loud(graph: og.Graph, tmp_path: Path) -> None:
    """The reader has seen a commit that was not durable yet. What is written after the cut has other ids."""
    kept = f"{tmp_path}/kept.omni"
    shutil.copytree(graph.uri, kept)
    cursor = str(graph.load([person("ann")], mode="append").commit_id)
    after_the_cut = og.open(kept)
    for _ in range(2):
        with pytest.raises(Reclaimed, match="power cut took it back") as caught:
            after_the_cut.changes(cursor)
        assert (caught.value.reason, caught.value.start) == ("cursor", head(after_the_cut))
        after_the_cut.load([person("bob")], mode="merge")  # it takes the version that the lost commit had


def test_a_feed_of_an_object_store(s3_root: str) -> None:
    with og.init(s3_root, SCHEMA) as graph:
        start = head(graph)
        for name in "abcd":
            graph.load([person(name)], mode="append")
        graph.load([person("a", age=1)], mode="patch")
        opened = og.open(s3_root, read_only=True)
        assert [(one.key, one.kind) for one in opened.changes(start)] == [
            *((name, "insert") for name in "abcd"),
            ("a", "update"),
        ]


def test_a_cursor_of_another_branch_is_refused(graph: og.Graph) -> None:
    graph.branches.create("b")
    here = graph.load([person("ann")], mode="append").commit_id
    there = graph.load([person("bob")], mode="append", branch="b").commit_id
    with pytest.raises(InvalidInput, match="is of branch b"):
        graph.changes(there)
    with pytest.raises(InvalidInput, match="is of branch main"):
        graph.changes(here, branch="b")
    with pytest.raises(InvalidInput, match="not on the way"):
        graph.changes(graph.commits()[-1].id, there)


def test_what_is_between_two_commits_the_wrong_way_round_is_refused(graph: og.Graph) -> None:
    first = head(graph)
    last = graph.load([person("ann")], mode="append").commit_id
    with pytest.raises(InvalidInput, match="comes after"):
        graph.changes(last, first)
    with pytest.raises(InvalidInput):
        graph.changes(first, before="yes")  # type: ignore[arg-type]


def test_a_state_that_a_cleanup_took_is_a_gap_and_said_so(graph: og.Graph) -> None:
    start = head(graph)
    for name in "abcd":
        graph.load([person(name)], mode="append")
    third = graph.commits()[1].id
    graph.cleanup(keep=2, min_age="0s", confirm=True)
    for opened in (graph, og.open(graph.uri, read_only=True)):
        with pytest.raises(Reclaimed, match="gap") as caught:
            opened.changes(start)
        assert caught.value.start == head(graph) and "snapshot of main" in caught.value.hint
        assert [one.key for one in opened.changes(third)] == ["d"]


def test_a_cleanup_under_a_feed_is_a_gap_and_no_end(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "STRETCH_SWAPS_MAX", 2)  # too few: each swap is read when it is asked for
    start = head(graph)
    for name in "abcd":
        graph.load([person(name)], mode="append")
        graph.load([person(name, age=1)], mode="patch")
    feed = iter(og.open(graph.uri, read_only=True).changes(start))
    next(feed)
    graph.optimize()
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    with pytest.raises(Reclaimed, match="gap"):
        list(feed)


# --- cost ---------------------------------------------------------------------------------------------------------------


def test_many_small_inserts_are_read_at_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    start = head(graph)
    for k in range(12):
        graph.load([person(f"p{k}"), {"type": "Town", "data": {"title": f"t{k}"}}], mode="append")
    wanted = list(graph.changes(start))
    assert [one.key for one in wanted] == [f"{kind}{k}" for k in range(12) for kind in "pt"]
    runs: list[object] = []
    read = feeds.read_run
    monkeypatch.setattr(feeds, "read_run", lambda *args: runs.append(read(*args)) or runs[-1])
    assert list(graph.changes(start)) == wanted
    assert len(runs) == 1 and runs[0] is not None
    monkeypatch.setattr(feed_runs.Run, "is_sound", False)
    assert list(graph.changes(start)) == wanted, "one by one they come out the same"
    assert runs[-1] is None


def test_planted_a_run_whose_rows_are_not_counted_again_is_noticed(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that says less than it did: what a run finds is not what was counted, so the swaps are compared."""
    start = head(graph)
    for k in range(6):
        graph.load([person(f"p{k}"), person(f"q{k}")], mode="append")
    monkeypatch.setattr(feed_runs, "inserted_into", lambda swap, identity: 1)
    runs: list[object] = []
    read = feeds.read_run
    monkeypatch.setattr(feeds, "read_run", lambda *args: runs.append(read(*args)) or runs[-1])
    assert len(list(graph.changes(start))) == 12
    assert runs == [None]


# --- the whole ----------------------------------------------------------------------------------------------------------


class History:
    """Random writes of every kind to a graph with one branch beside main."""

    def __init__(self, graph: og.Graph, seed: int) -> None:
        self.graph = graph
        self.random = random.Random(seed)
        self.count = 0
        self.schemas = 0
        self.text = SCHEMA

    def names(self, branch: str = "main") -> list[str]:
        return [row["id"] for row in self.graph.snapshot(branch).to_arrow("Person").to_pylist()]

    def insert(self, branch: str = "main") -> None:
        self.count += 1
        names = self.names(branch)
        records = [person(f"p{self.count}", age=self.random.randrange(99))]
        if names:
            records.append(knows(f"k{self.count}", f"p{self.count}", self.random.choice(names)))
        self.graph.load(records, mode="append", branch=branch)

    def update(self, branch: str = "main") -> None:
        names = self.names(branch)
        if names:
            chosen = self.random.sample(names, min(2, len(names)))
            self.graph.load(
                [person(one, city=f"c{self.random.random()}") for one in chosen], mode="patch", branch=branch
            )

    def delete(self) -> None:
        names = self.names()
        if len(names) > 2:
            self.graph.mutate(
                "query q($k: String) { delete Person where name = $k }", params={"k": self.random.choice(names)}
            )

    def revert(self) -> None:
        newest = self.graph.commits(limit=1)[0]
        if newest.kind in ("load", "mutate"):
            self.graph.revert(newest.id)

    def optimize(self) -> None:
        self.graph.optimize()

    def change_schema(self) -> None:
        self.schemas += 1
        name = f"x{self.schemas}"
        self.text = self.text.replace("city: String?", f"city: String?  {name}: I32", 1)
        self.graph.schema.apply(self.text, fill={f"Person.{name}": self.schemas})
        self.graph.load([person("p-new", **{f"x{k + 1}": 9 for k in range(self.schemas)})], mode="merge")
        self.graph.mutate('query q() { delete Person where name = "p-new" }')

    def merge(self) -> None:
        self.graph.branches.create("side")
        self.update("side")
        self.graph.load(
            [person(f"s{self.count}", **{f"x{k + 1}": 7 for k in range(self.schemas)})], mode="merge", branch="side"
        )
        self.update()
        try:
            self.graph.branches.merge("side", delete_source=True)
        except og.errors.MergeConflict:
            self.graph.branches.delete("side")

    def step(self) -> None:
        kinds: list[Callable[[], None]] = [self.update, self.delete, self.revert, self.optimize, self.merge]
        self.random.choice(kinds)()


@pytest.mark.parametrize("seed", range(4))
def test_a_feed_replayed_into_an_empty_graph_is_the_graph(graph: og.Graph, copy: og.Graph, seed: int) -> None:
    start = head(graph)
    history = History(graph, seed)
    cursor = start
    for _ in range(4):
        history.insert()
    for phase in range(3):
        for _ in range(5):
            history.step()
        if phase < 2:
            history.change_schema()
        cursor = follow(copy, graph.changes(cursor, before=True))
        assert content(copy) == content(graph), f"after phase {phase} of seed {seed}"
    assert cursor == head(graph)
    failpoints.disarm()
    whole = og.init(f"{copy.uri}.whole", SCHEMA, durability="relaxed")
    follow(whole, graph.changes(start, before=True))
    assert content(whole) == content(graph)
    assert engine_of(graph).latest("main").state.head.commit_id == cursor


def test_a_feed_with_every_change_of_a_schema_and_merges_of_schemas_is_replayed(
    graph: og.Graph, copy: og.Graph
) -> None:
    start = head(graph)
    graph.load([person("ann", age=1), person("bob"), town("x")], mode="append")
    text = SCHEMA
    for old, new, row in (
        ("age: I32?", "age: I64?", person("ann", age=2**40)),
        ("city: String?", 'place: String? @rename_from("city")', person("bob", place="p")),
    ):
        text = text.replace(old, new)
        graph.schema.apply(text)
        graph.load([row], mode="patch")
    text = text.replace(' @rename_from("city")', "")
    dropped = text.replace("node Town { title: String @key }\n", "").replace(
        "edge Lives: Person -> Town { n: String }\n", ""
    )
    graph.schema.apply(dropped)
    graph.branches.create("one")
    graph.branches.create("two")
    graph.schema.apply(
        dropped.replace("place: String?", "place: String?  extra: String"), branch="one", fill={"Person.extra": "e"}
    )
    graph.load([person("zoe", extra="q"), person("ann", extra="r")], mode="patch", branch="one")
    graph.schema.apply(dropped + "node Bus { line: String @key }\n", branch="two")
    graph.load([{"type": "Bus", "data": {"line": "9"}}], mode="append", branch="two")
    graph.load([person("eve")], mode="append")
    for branch in ("one", "two"):
        assert graph.branches.merge(branch).outcome == "merged"
    told = kinds(graph.changes(start))
    assert told[-4:] == [
        ("Person", "ann", "update"), ("Person", "zoe", "insert"), (None, None, "schema"), ("Bus", "9", "insert"),
    ]  # fmt: skip
    assert ("Person", "eve", "update") not in told, "what a fill gave it is in the schema entry"
    cursor = follow(copy, graph.changes(start, before=True))
    assert content(copy) == content(graph)
    graph.optimize()
    bad = str(graph.load([person("ann", place="bad")], mode="patch").commit_id)
    graph.revert(bad)
    follow(copy, graph.changes(cursor, before=True))
    assert content(copy) == content(graph)
