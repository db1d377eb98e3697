"""What statements do: visibility inside a query, upserts, cascades, counting, null, and when there is no commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import (
    DataInvalid,
    IdempotencyMismatch,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    QueryInvalid,
)
from omnigraph.wire.receipt import Receipt

SCHEMA = """
node Person {
  name: String @key
  age: I32? @range(age, 0..150)
  mail: String? @unique
  mood: enum(glad, sad)?
  score: F64?
  born: Date?
  seen: DateTime?
  active: Bool?
  tags: [String]?
  photo: Blob?
  spot: Vector(2)?
}
node Item { number: I64 @key  label: String? }
node Slot { place: String  number: I32  note: String?  @key(place, number) }
node Note { text: String  rank: I32? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Likes: Person -> Person { @unique(src, dst) }
edge Owns: Person -> Item @card(0..2)
edge Rates: Person -> Item @card(2..)
edge Wrote: Person -> Note
"""

Rows = list[dict[str, Any]]


class World:
    """A graph with four people, three items and some edges."""

    def __init__(self, root: str | Path) -> None:
        self.graph = og.init(root, SCHEMA)
        people = [
            {"type": "Person", "data": {"name": n, "age": a}} for n, a in zip("abcd", (10, 20, 30, None), strict=True)
        ]
        items = [{"type": "Item", "data": {"number": n}} for n in (1, 2, 3)]
        knows = [{"edge": "Knows", "from": f, "to": t} for f, t in ("ab", "bc", "cd", "da")]
        rates = [{"edge": "Rates", "from": "a", "to": to} for to in ("1", "2")]
        self.graph.load([*people, *items, *knows, *rates, {"type": "Note", "data": {"text": "hi"}}], mode="append")

    def run(self, body: str, declared: str = "", **params: Any) -> Receipt:
        return self.graph.mutate(f"query q({declared}) {{ {body} }}", params=params)

    def rows(self, name: str) -> Rows:
        rows: Rows = self.graph.snapshot().to_arrow(name).to_pylist()
        return rows

    def row(self, name: str, id_: str) -> dict[str, Any]:
        (found,) = [row for row in self.rows(name) if row["id"] == id_]
        return found

    def ids(self, name: str) -> list[str]:
        return sorted(row["id"] for row in self.rows(name))

    def pairs(self, name: str = "Knows") -> list[str]:
        return sorted(row["src"] + row["dst"] for row in self.rows(name))

    def refuses(self, body: str, declared: str = "", **params: Any) -> og.errors.OmnigraphError:
        """The query is refused and nothing has changed."""
        before = self.graph.snapshot()
        with pytest.raises(InvalidInput) as caught:
            self.run(body, declared, **params)
        after = self.graph.snapshot()
        assert after.commit_id == before.commit_id
        assert {key: entry.version for key, entry in after.tables.items()} == {
            key: entry.version for key, entry in before.tables.items()
        }
        return caught.value


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "graph")
    with made.graph:
        yield made


def counts(receipt: Receipt) -> dict[str, tuple[int, int, int, int]]:
    return {k: (c.inserted, c.updated, c.deleted, c.unchanged) for k, c in receipt.tables.items()}


# --- one query, one commit ------------------------------------------------------------------------------------------------


def test_one_query_is_one_commit_and_one_version_a_table(any_root: str) -> None:
    with World(any_root).graph as graph:
        before = graph.snapshot()
        receipt = graph.mutate(
            'query q() { insert Person { name: "x" } insert Person { name: "y" } insert Knows { from: "x", to: "y" } '
            'update Person set { age: 5 } where name = "y" update Item set { label: "l" } where number >= 2 }',
            actor="me",
        )
        after = graph.snapshot()
        assert after.commit_id == receipt.commit_id
        moved = {key for key in after.tables if after.tables[key].version != before.tables[key].version}
        assert moved == {"node:Person", "edge:Knows", "node:Item"}
        assert all(after.tables[key].version == before.tables[key].version + 1 for key in moved)
        newest, older = graph.commits(limit=2)
        assert (newest.id, newest.actor, older.id) == (receipt.commit_id, "me", before.commit_id)
        assert counts(receipt) == {"node:Person": (2, 0, 0, 0), "edge:Knows": (1, 0, 0, 0), "node:Item": (0, 2, 0, 0)}
        assert (receipt.affected_nodes, receipt.affected_edges) == (5, 1)
        assert receipt.storage.requests > 0 and receipt.storage.hops > 0


@pytest.mark.parametrize(
    "body",
    [
        'update Person set { age: 1 } where name = "nobody"',
        "update Person set { age: 1 } where age > 100",
        'delete Person where name = "nobody"',
        'delete Knows where from = "nobody"',
        'delete Wrote where from = "a"',
        "delete Note where rank = 3",
        'update Person set { age: 10 } where name = "a"',
        'insert Person { name: "a", age: 10 }',
    ],
)
def test_a_query_that_changes_nothing_makes_no_commit(world: World, body: str) -> None:
    before = world.graph.snapshot()
    receipt = world.run(body)
    assert receipt.commit_id is None
    assert all(change.changed == 0 for change in receipt.tables.values())
    assert world.graph.snapshot().commit_id == before.commit_id


def test_rows_that_stay_as_they_are_count_as_matched_and_unchanged(world: World) -> None:
    receipt = world.run("update Person set { age: 20 } where age >= 20")
    assert counts(receipt) == {"node:Person": (0, 1, 0, 1)} and receipt.affected_nodes == 2
    again = world.run("update Person set { age: 20 } where age >= 20")
    assert again.commit_id is None and counts(again) == {"node:Person": (0, 0, 0, 2)} and again.affected_nodes == 2


# --- inserts --------------------------------------------------------------------------------------------------------------


def test_an_insert_of_an_existing_key_replaces_the_whole_row(world: World) -> None:
    world.run('update Person set { mail: "a@x", score: 1.5, tags: ["t"] } where name = "a"')
    receipt = world.run('insert Person { name: "a", mood: "sad" }')
    assert counts(receipt) == {"node:Person": (0, 1, 0, 0)} and receipt.affected_nodes == 1
    row = world.row("Person", "a")
    assert {k: v for k, v in row.items() if v is not None} == {"id": "a", "name": "a", "mood": "sad"}
    assert world.pairs() == ["ab", "bc", "cd", "da"], "edges stay with the row's id"


def test_ids_of_keys_are_their_canonical_texts(world: World) -> None:
    world.run('insert Item { number: 007 } insert Slot { number: 5, place: "p\\"q" }')
    assert "7" in world.ids("Item") and world.ids("Slot") == ['["p\\"q","5"]']
    world.run('insert Slot { place: "p\\"q", number: 5, note: "again" }')
    assert world.row("Slot", '["p\\"q","5"]')["note"] == "again"


def test_an_insert_without_a_key_is_always_a_new_row_with_a_ulid(world: World) -> None:
    for _ in range(2):
        receipt = world.run('insert Note { text: "same" } insert Note { text: "same" }')
        assert receipt.affected_nodes == 2
    ids = [row["id"] for row in world.rows("Note") if row["text"] == "same"]
    assert len(set(ids)) == 4
    assert all(len(id_) == 26 and id_ == id_.upper() and id_.isalnum() for id_ in ids)


def test_the_last_insert_of_a_key_in_a_query_stands(world: World) -> None:
    receipt = world.run('insert Item { number: 9, label: "first" } insert Item { number: 9 }')
    assert world.row("Item", "9")["label"] is None
    assert counts(receipt) == {"node:Item": (1, 0, 0, 0)} and receipt.affected_nodes == 2


def test_parallel_edges_are_legal_unless_the_type_is_unique(world: World) -> None:
    world.run('insert Knows { from: "a", to: "b" } insert Knows { from: "a", to: "b" }')
    assert world.pairs().count("ab") == 3
    world.run('insert Likes { from: "a", to: "b" }')
    for body in (
        'insert Likes { from: "a", to: "b" }',
        'insert Likes { from: "b", to: "a" } insert Likes { from: "b", to: "a" }',
    ):
        assert isinstance(world.refuses(body), DataInvalid)


def test_an_edge_may_stand_before_the_nodes_it_needs(world: World) -> None:
    world.run('insert Knows { from: "new", to: "a" } insert Person { name: "new" }')
    assert "newa" in world.pairs()


@pytest.mark.parametrize("ends", ['from: "nobody", to: "a"', 'from: "a", to: "nobody"', 'from: "1", to: "a"'])
def test_an_edge_needs_both_its_ends(world: World, ends: str) -> None:
    error = world.refuses(f"insert Knows {{ {ends} }}")
    assert isinstance(error, DataInvalid) and "is no Person" in error.message and "statement 1" in error.message


def test_an_end_may_be_given_as_the_value_of_the_key(world: World) -> None:
    world.run('insert Owns { from: "a", to: 3 }')
    assert world.pairs("Owns") == ["a3"]


# --- later statements see earlier ones ------------------------------------------------------------------------------------


def test_an_update_sees_what_was_inserted_before_it(world: World) -> None:
    receipt = world.run('insert Person { name: "n", age: 1 } update Person set { age: 2 } where name = "n"')
    assert world.row("Person", "n")["age"] == 2
    assert counts(receipt) == {"node:Person": (1, 0, 0, 0)} and receipt.affected_nodes == 2


def test_an_update_sees_nothing_of_what_is_inserted_after_it(world: World) -> None:
    world.run('update Person set { age: 2 } where name = "n" insert Person { name: "n", age: 1 }')
    assert world.row("Person", "n")["age"] == 1


def test_a_pending_row_hides_the_committed_one(world: World) -> None:
    receipt = world.run(
        "update Person set { age: 50 } where age = 10 "
        "update Person set { score: 1.0 } where age = 10 "  # nobody any more
        "update Person set { score: 2.0 } where age = 50"
    )
    assert receipt.affected_nodes == 2
    assert (world.row("Person", "a")["age"], world.row("Person", "a")["score"]) == (50, 2.0)
    receipt = world.run('insert Person { name: "a" } update Person set { score: 3.0 } where age = 50')
    assert receipt.affected_nodes == 1 and world.row("Person", "a")["score"] is None


def test_updates_chain_over_pending_and_committed_rows(world: World) -> None:
    receipt = world.run(
        'insert Person { name: "n", age: 10 } update Person set { age: 20 } where age = 10 '
        "update Person set { age: 30 } where age = 20"
    )
    assert {row["id"]: row["age"] for row in world.rows("Person")} == {"a": 30, "b": 30, "c": 30, "d": None, "n": 30}
    assert receipt.affected_nodes == 1 + 2 + 3
    assert counts(receipt) == {"node:Person": (1, 2, 0, 0)}


def test_a_row_that_comes_back_to_what_it_was_is_unchanged(world: World) -> None:
    receipt = world.run("update Person set { age: 11 } where age = 10 update Person set { age: 10 } where age = 11")
    assert receipt.commit_id is None and counts(receipt) == {"node:Person": (0, 0, 0, 1)}


# --- updates --------------------------------------------------------------------------------------------------------------


def test_an_update_keeps_what_it_does_not_assign(world: World) -> None:
    photo = b"\x00\xffbytes"
    world.run(
        'insert Person { name: "n", age: 1, tags: ["x", "y"], seen: datetime("2026-01-02T03:04:05.678901Z"), '
        'born: date("2020-02-29"), spot: [1, 2.5], active: true, photo: $photo }',
        "$photo: Blob",
        photo="base64:AP9ieXRlcw==",
    )
    world.run('update Person set { age: 2 } where name = "n"')
    row = world.row("Person", "n")
    assert row["age"] == 2 and row["tags"] == ["x", "y"] and row["spot"] == [1.0, 2.5] and row["active"] is True
    assert row["seen"] == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC) and row["born"] == date(2020, 2, 29)
    assert row["photo"] == photo


def test_a_null_is_assigned_through_a_parameter(world: World) -> None:
    world.run('update Person set { age: $age, tags: $tags } where name = "a"', "$age: I32?, $tags: [String]?")
    assert world.row("Person", "a")["age"] is None


def test_now_is_one_moment_of_the_query(world: World) -> None:
    before = datetime.now(UTC)
    world.run('update Person set { seen: now() } where age >= 0 insert Person { name: "n", seen: now() }')
    moments = {row["seen"] for row in world.rows("Person") if row["id"] != "d"}
    assert len(moments) == 1 and before <= moments.pop() <= datetime.now(UTC)
    assert world.run("update Person set { age: 1 } where seen <= now()").affected_nodes == 4


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('update Person set { name: "z" } where name = "a"', "T11"),
        ('update Slot set { number: 2 } where place = "p"', "T11"),
        ('update Slot set { place: "p" } where number = 2', "T11"),
        ('update Knows set { weight: 1.0 } where from = "a"', "T16"),
        ("update Person set { } where age = 1", "Q1"),
        ("update Person set { age: 1 }", "Q1"),
        ("delete Person", "Q1"),
        ("delete Nobody where age = 1", "T10"),
        ("delete Person where wage = 1", "T11"),
        ("delete Person where photo = $p", "T11"),
        ("insert Person { age: 1 }", "T12"),
        ('insert Knows { from: "a" }', "T12"),
        ('insert Person { name: "a", name: "b" }', "T13"),
        ("insert Person { name: $who }", "T14"),
        ("insert Person { name: 3 }", "T3"),
        ('insert Person { name: "n", mood: "odd" }', "T3"),
    ],
)
def test_what_a_query_must_not_say_is_refused_before_it_runs(world: World, body: str, code: str) -> None:
    declared = "$p: Blob" if "$p" in body else ""
    error = world.refuses(body, declared)
    assert isinstance(error, QueryInvalid)
    assert (
        code in error.message or any(one["code"] == code for one in error.facts.get("diagnostics", ())) or code == "Q1"
    )


def test_a_key_member_may_be_compared(world: World) -> None:
    world.run('insert Slot { place: "p", number: 1 } insert Slot { place: "p", number: 2 }')
    assert world.run('update Slot set { note: "x" } where place = "p"').affected_nodes == 2
    assert world.run("update Slot set { note: $n } where number = 2", "$n: String?").affected_nodes == 1


# --- deletes --------------------------------------------------------------------------------------------------------------


def test_a_deleted_node_takes_its_edges_along(world: World) -> None:
    receipt = world.run('delete Person where name = "b"')
    assert world.ids("Person") == ["a", "c", "d"] and world.pairs() == ["cd", "da"]
    assert (receipt.affected_nodes, receipt.affected_edges) == (1, 2)
    assert counts(receipt) == {"node:Person": (0, 0, 1, 0), "edge:Knows": (0, 0, 2, 0)}


def test_an_edge_between_two_deleted_nodes_counts_once(world: World) -> None:
    receipt = world.run("delete Person where age > 0")
    assert (receipt.affected_nodes, receipt.affected_edges) == (3, 4 + 2)
    assert world.pairs() == [] and world.rows("Rates") == [] and world.ids("Person") == ["d"]


def test_overlapping_deletes_count_a_row_once_and_are_one_version(world: World) -> None:
    before = world.graph.snapshot().tables
    receipt = world.run(
        'delete Person where name = "a" delete Person where age <= 20 delete Knows where from = "a" '
        'delete Knows where to = "b" delete Knows where from = "c"'
    )
    # a, then b; of the edges first ab, then nothing, then cd; the cascade adds bc and da, and both ratings of a.
    assert (receipt.affected_nodes, receipt.affected_edges) == (2, 1 + 0 + 1 + 2 + 2)
    after = world.graph.snapshot().tables
    assert after["edge:Knows"].version == before["edge:Knows"].version + 1
    assert world.pairs() == [] and world.ids("Person") == ["c", "d"]


def test_deletes_of_several_types_are_one_commit(world: World) -> None:
    receipt = world.run('delete Person where name = "d" delete Item where number = 3 delete Note where text = "hi"')
    assert (receipt.affected_nodes, receipt.affected_edges) == (3, 2)
    assert world.ids("Item") == ["1", "2"] and world.rows("Note") == []


def test_everything_may_be_deleted_and_inserted_again(world: World) -> None:
    world.run("delete Person where name >= $least", "$least: String", least="")
    assert world.rows("Person") == [] and world.rows("Knows") == []
    world.run('insert Person { name: "a" } insert Knows { from: "a", to: "a" }')
    assert world.pairs() == ["aa"]
    assert world.run('delete Person where name = "a"').affected_edges == 1


def test_a_deleted_row_is_not_updated_nor_found(world: World) -> None:
    world.run('delete Person where name = "a"')
    assert world.run('update Person set { age: 1 } where name = "a"').commit_id is None
    assert isinstance(world.refuses('insert Knows { from: "a", to: "b" }'), DataInvalid)


# --- null -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_null_matches_nothing_on_either_side(world: World, op: str) -> None:
    assert world.run(f"delete Person where age {op} $age", "$age: I32?").commit_id is None
    assert (
        world.run(f"update Person set {{ score: 1.0 }} where age {op} $age", "$age: I32?", age=None).affected_nodes == 0
    )
    assert world.run(f"delete Knows where from {op} $who", "$who: String?").affected_edges == 0
    world.run(f"update Person set {{ score: 1.0 }} where age {op} 20")
    assert world.row("Person", "d")["score"] is None


def test_comparisons_are_those_of_the_kind(world: World) -> None:
    world.run('update Person set { active: true, born: date("2020-01-01"), mood: "glad" } where age = 10')
    world.run('update Person set { active: false, born: date("2019-01-01"), mood: "sad" } where age = 20')
    hits: dict[str, int] = {
        "active > false": 1,
        "active <= true": 2,
        "active < false": 0,
        "active != true": 1,
        'born < date("2020-01-01")': 1,
        'born >= date("2019-01-01")': 2,
        'mood = "sad"': 1,
        "age >= 20": 2,
        "age != 20": 2,
        'name > "b"': 2,
        'name != "b"': 3,
    }
    for number, (where, count) in enumerate(hits.items()):
        assert world.run(f"update Person set {{ score: {number}.5 }} where {where}").affected_nodes == count, where


# --- rules, once at the end -----------------------------------------------------------------------------------------------


def test_values_may_change_places_within_a_query(world: World) -> None:
    world.run('update Person set { mail: "a@x" } where name = "a" update Person set { mail: "b@x" } where name = "b"')
    world.run('update Person set { mail: "b@x" } where name = "a" update Person set { mail: "a@x" } where name = "b"')
    assert (world.row("Person", "a")["mail"], world.row("Person", "b")["mail"]) == ("b@x", "a@x")


@pytest.mark.parametrize(
    "body",
    [
        'update Person set { mail: "same" } where age >= 10',
        'update Person set { mail: "taken" } where name = "b"',
        'insert Person { name: "n", mail: "taken" }',
        'insert Person { name: "n", age: 151 }',
        "update Person set { age: 151 } where age = 10",
        'insert Owns { from: "a", to: 1 } insert Owns { from: "a", to: 2 } insert Owns { from: "a", to: 3 }',
        'insert Rates { from: "b", to: 1 }',
        'delete Rates where to = "1"',
        "delete Item where number = 1",
    ],
)
def test_what_breaks_a_rule_changes_nothing(world: World, body: str) -> None:
    world.run('update Person set { mail: "taken" } where name = "a"')
    error = world.refuses(body)
    assert isinstance(error, DataInvalid)
    assert "query q" in error.message and error.facts["violations"]


def test_only_unique_tuples_that_may_have_changed_are_compared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.write.rules import validate

    asked: list[str] = []
    real = validate.UniqueRule.ask
    monkeypatch.setattr(validate.UniqueRule, "ask", lambda self, *a: asked.append(self.name) or real(self, *a))
    world.run('update Person set { mail: "a@x" } where name = "a"')
    assert asked == ["(mail)"]
    world.run("update Person set { age: 7 } where age >= 0")
    assert asked == ["(mail)"], "rows that keep theirs cannot meet anybody"
    world.refuses('update Person set { age: 8 } where name = "b" insert Person { name: "z", mail: "a@x" }')
    world.refuses('update Person set { age: 8 } where name = "b" update Person set { mail: "a@x" } where name = "c"')
    assert len(asked) == 3


def test_a_least_number_of_edges_may_be_reached_in_one_query_and_ends_with_its_source(world: World) -> None:
    world.run('insert Rates { from: "b", to: 1 } insert Rates { from: "b", to: 3 }')
    assert len(world.rows("Rates")) == 4
    assert world.run('delete Person where name = "b"').affected_edges == 2 + 2
    assert world.run('delete Rates where from = "zed"').commit_id is None
    world.run('delete Person where name = "a"')
    assert world.rows("Rates") == []


def test_values_that_are_no_values_are_told_with_their_place(world: World) -> None:
    error = world.refuses("insert Item { number: $n }", "$n: I64", n=2**63)
    assert "Item" not in error.message or error.facts["parameter"] == "n"
    assert isinstance(world.refuses("update Person set { age: 4294967296 } where age = 1"), QueryInvalid)
    assert isinstance(
        world.refuses("update Person set { mood: $m } where age = 1", "$m: String", m="odd"), QueryInvalid
    )
    assert isinstance(world.refuses("update Person set { age: $x } where age = 1", "$x: I32"), QueryInvalid)


def test_an_integer_goes_into_a_float_and_a_reference_into_no_blob(world: World) -> None:
    world.run('update Person set { score: 3 } where name = "a"')
    assert world.row("Person", "a")["score"] == 3.0
    error = world.refuses('update Person set { photo: $p } where name = "a"', "$p: String", p="s3://bucket/photo")
    assert isinstance(error, DataInvalid) and error.facts["violations"][0]["code"] == "external-blob"


# --- deletes beside writes ------------------------------------------------------------------------------------------------


def test_writes_and_deletes_in_one_query_are_refused_before_anything_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = world.graph._engine
    for thing in ("latest", "known", "spawn"):
        monkeypatch.setattr(engine, thing, lambda *_: pytest.fail("storage was asked"))
    with pytest.raises(QueryInvalid) as caught:
        world.run('insert Person { name: "n" } delete Item where number = 1')
    assert "query q" in caught.value.message and "separate mutations" in (caught.value.hint or "")


# --- the call -------------------------------------------------------------------------------------------------------------

TWO = """
query add($name: String) { insert Person { name: $name } }
query drop($name: String) { delete Person where name = $name }
query look() { match { $p: Person } return { $p } }
"""


def test_a_query_is_chosen_by_name(world: World, tmp_path: Path) -> None:
    world.graph.mutate(TWO, name="add", params={"name": "n"})
    path = tmp_path / "two.gq"
    path.write_text(TWO)
    assert world.graph.mutate(path, name="drop", params={"name": "n"}).affected_nodes == 1
    for name, kind in ((None, QueryInvalid), ("none", NotFound), ("look", QueryInvalid)):
        with pytest.raises(kind):
            world.graph.mutate(TWO, name=name, params={"name": "n"})
    with pytest.raises(InvalidInput):
        world.graph.mutate(tmp_path / "absent.gq")


def test_a_key_used_before_answers_with_the_first_receipt(world: World) -> None:
    def once() -> Receipt:
        return world.graph.mutate('query q() { insert Note { text: "n" } }', idempotency_key="k")

    first, again = once(), once()
    assert not first.replayed and again.replayed
    assert (again.commit_id, again.tables, again.affected_nodes) == (first.commit_id, first.tables, 1)
    with og.open(world.graph.uri) as other:
        with pytest.raises(IdempotencyMismatch):
            other.mutate("query q() { delete Note where rank = 9 }", idempotency_key="k")
    assert len(world.rows("Note")) == 2


def test_an_expected_head_is_a_condition(world: World) -> None:
    head = world.graph.snapshot().commit_id
    receipt = world.graph.mutate('query q() { insert Note { text: "n" } }', expect_head=head)
    with pytest.raises(PreconditionFailed) as caught:
        world.graph.mutate('query q() { insert Note { text: "m" } }', expect_head=head)
    assert caught.value.facts["actual"] == receipt.commit_id
    assert len(world.rows("Note")) == 2


def test_another_branch_is_not_found_and_a_reader_does_not_write(world: World) -> None:
    with pytest.raises(NotFound):
        world.graph.mutate('query q() { insert Note { text: "n" } }', branch="side")
    with og.open(world.graph.uri, read_only=True) as reader, pytest.raises(InvalidInput):
        reader.mutate('query q() { insert Note { text: "n" } }')


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda g: g.mutate("x" * 11_000_000), LimitExceeded),
        (lambda g: g.mutate('query q() { insert Note { text: "n" } }', actor="a" * 257), LimitExceeded),
        (lambda g: g.mutate('query q() { insert Note { text: "n" } }', idempotency_key="k" * 257), LimitExceeded),
        (lambda g: g.mutate("query q($x: I32) { delete Note where rank = $x }", params=[1]), InvalidInput),
        (
            lambda g: g.mutate(f'query q() {{ insert Item {{ number: 1 }} insert Person {{ name: "{"é" * 600}" }} }}'),
            DataInvalid,
        ),
    ],
)
def test_what_is_too_much_or_no_document_is_refused(
    world: World, change: Callable[[og.Graph], Receipt], error: type[Exception]
) -> None:
    head = world.graph.snapshot().commit_id
    with pytest.raises(error):
        change(world.graph)
    assert world.graph.snapshot().commit_id == head


HOSTILE = [
    "'",
    '"',
    "\\",
    "' OR '1'='1",
    "x'); DROP TABLE nodes; --",
    "`",
    "$name",
    "{",
    "\n",
    "\u2028",
    "𝄞",
    "%",
    "_",
    "NULL",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_a_value_wherever_it_is_used(world: World, text: str) -> None:
    world.run('insert Person { name: $t, mail: $t } insert Knows { from: $t, to: "a" }', "$t: String", t=text)
    assert world.run("update Person set { age: 1 } where mail = $t", "$t: String", t=text).affected_nodes == 1
    assert world.row("Person", text)["age"] == 1
    assert world.run("delete Knows where from = $t", "$t: String", t=text).affected_edges == 1
    assert world.run("delete Person where mail = $t", "$t: String", t=text).affected_nodes == 1
    assert world.ids("Person") == ["a", "b", "c", "d"]


def test_a_receipt_is_a_document(world: World) -> None:
    receipt = world.run('delete Person where name = "b"')
    document = json.loads(json.dumps(receipt.to_dict()))
    assert (document["affected_nodes"], document["affected_edges"]) == (1, 2)
    assert "1 deleted" in repr(receipt) and "<table>" in receipt._repr_html_()
