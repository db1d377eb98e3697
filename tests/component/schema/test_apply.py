"""Changes of the schema, one call each: what tables, rows, history and older commits are afterwards, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.graph import Graph
from omnigraph.testing.content import faults_of, leftovers_of

BASE = """
node Person { name: String @key age: I32? city: String? tall: F32? mood: enum(glad, sad)? }
node Town { title: String @key }
edge Knows: Person -> Person { since: I32? }
edge Lives: Person -> Town
"""
PEOPLE = [("ann", 30, "x", 1.5, "glad"), ("bob", 40, None, None, "sad"), ("cid", None, "y", 1.75, None)]
RECORDS = [
    *(
        {"type": "Person", "data": {"name": name, "age": age, "city": city, "tall": tall, "mood": mood}}
        for name, age, city, tall, mood in PEOPLE
    ),
    {"type": "Town", "data": {"title": "x"}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"since": 1}},
    {"edge": "Knows", "from": "ann", "to": "cid", "data": {"since": 2}},
    {"edge": "Lives", "from": "ann", "to": "x"},
]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", BASE) as made:
        made.load(RECORDS, mode="append")
        yield made
        failpoints.disarm()


def person(old: str, new: str) -> str:
    """The schema with one part of ``Person`` changed."""
    assert old in BASE
    return BASE.replace(old, new)


def column(graph: Graph, name: str, kind: str = "Person") -> dict[str, Any]:
    rows = graph.snapshot().to_arrow(kind, ["id", name]).to_pylist()
    return {row["id"]: row[name] for row in rows}


def sound(graph: Graph) -> None:
    engine = graph._engine
    assert faults_of(engine) == []
    assert leftovers_of(engine) == []
    assert graph.verify(deep=True).ok


def steps_of(graph: Graph) -> list[str]:
    schema = graph.commits(limit=1)[0].schema
    assert schema is not None
    return [step["step"] for step in schema["steps"]]


# --- every change -------------------------------------------------------------------------------------------------------

ADD = "age: I32?"
CHANGES: dict[str, tuple[str, dict[str, object] | None, list[str], str, dict[str, Any]]] = {
    "nullable": (person(ADD, "age: I32? note: String?"), None, ["add_property"], "note", dict.fromkeys(["ann", "bob", "cid"])),
    "list": (person(ADD, "age: I32? tags: [String]?"), None, ["add_property"], "tags", dict.fromkeys(["ann", "bob", "cid"])),
    "blob": (person(ADD, "age: I32? face: Blob?"), None, ["add_property"], "face", dict.fromkeys(["ann", "bob", "cid"])),
    "constant": (
        person(ADD, "age: I32? score: F64"), {"Person.score": 0.5}, ["add_property"], "score",
        {"ann": 0.5, "bob": 0.5, "cid": 0.5},
    ),
    "constant list": (
        person(ADD, "age: I32? tags: [I64]"), {"Person.tags": [1, None]}, ["add_property"], "tags",
        {"ann": [1, None], "bob": [1, None], "cid": [1, None]},
    ),
    "from a property": (
        person(ADD, "age: I32? years: I64?"), {"Person.years": {"property": "age"}}, ["add_property"], "years",
        {"ann": 30, "bob": 40, "cid": None},
    ),
    "from SQL": (
        person(ADD, "age: I32? label: String"), {"Person.label": {"sql": "upper(name) || coalesce(city, '-')"}},
        ["add_property"], "label", {"ann": "ANNx", "bob": "BOB-", "cid": "CIDy"},
    ),
    "moved": (
        person("city: String?", "town: String?"), {"Person.town": {"property": "city"}},
        ["drop_property", "add_property"], "town", {"ann": "x", "bob": None, "cid": "y"},
    ),
    "renamed": (
        person("city: String?", 'town: String? @rename_from("city")'), None, ["rename_property"], "town",
        {"ann": "x", "bob": None, "cid": "y"},
    ),
    "widened": (person(ADD, "age: I64?"), None, ["widen"], "age", {"ann": 30, "bob": 40, "cid": None}),
    "widened and renamed": (
        person("tall: F32?", 'height: F64? @rename_from("tall")'), None, ["rename_property", "widen"], "height",
        {"ann": 1.5, "bob": None, "cid": 1.75},
    ),
    "more values": (
        person("enum(glad, sad)", "enum(glad, mad, sad)"), None, ["widen"], "mood",
        {"ann": "glad", "bob": "sad", "cid": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_columns_is_one_commit_and_old_commits_keep_theirs(graph: Graph, change: str) -> None:
    text, fill, steps, name, expected = CHANGES[change]
    before, rows = graph.snapshot(), graph.snapshot().to_arrow("Person")
    receipt = graph.schema.apply(text, fill=fill)
    assert receipt.commit_id is not None and receipt.plan is not None
    assert graph.commits(limit=1)[0].kind == "schema" and steps_of(graph) == steps
    assert column(graph, name) == expected
    assert graph.snapshot(at=before.commit_id).to_arrow("Person") == rows
    assert tuple(graph.snapshot().schema("Person").names) == graph.catalog.node("Person").columns
    sound(graph)
    again = graph.schema.apply(text, fill=fill)
    assert again.commit_id is None and graph.commits(limit=1)[0].id == receipt.commit_id
    graph.load([{"type": "Person", "data": row}] if (row := _row(graph)) else [], mode="append")
    assert graph.snapshot().count("Person") == 4
    graph.optimize()
    assert {key: value for key, value in column(graph, name).items() if key != "dee"} == expected
    sound(graph)


def _row(graph: Graph) -> dict[str, Any]:
    """One more person with a value for what has to have one."""
    values = {"F64": 1.0, "[I64]": [1], "String": "t", "I32": 1}
    return {
        prop.name: "dee" if prop.name == "name" else values[str(prop.type)]
        for prop in graph.catalog.node("Person").properties
        if not prop.type.nullable
    }


def test_deleted_rows_have_no_part_in_a_fill(graph: Graph) -> None:
    graph.mutate('query q() { delete Person where name = "bob" }')
    graph.load([{"type": "Person", "data": {"name": "eve"}}], mode="append")
    receipt = graph.schema.apply(
        person(ADD, "age: I32? label: String tags: [String] v: Vector(2) at: DateTime day: Date on: Bool"),
        fill={
            "Person.label": {"sql": "name || '!'"}, "Person.tags": ["a"], "Person.v": [1, 2], "Person.on": True,
            "Person.at": "2026-01-02T03:04:05Z", "Person.day": "2026-01-02",
        },
    )  # fmt: skip
    assert receipt.tables["node:Person"].version == graph.snapshot().tables["node:Person"].version
    assert column(graph, "label") == {"ann": "ann!", "cid": "cid!", "eve": "eve!"}
    assert set(map(tuple, column(graph, "v").values())) == {(1.0, 2.0)}
    assert {str(day) for day in column(graph, "day").values()} == {"2026-01-02"}
    sound(graph)


def test_a_time_without_a_zone_is_utc_in_a_fill(graph: Graph) -> None:
    graph.schema.apply(
        person(ADD, "age: I32? at: DateTime"), fill={"Person.at": {"sql": "TIMESTAMP '2026-07-01 12:00:00'"}}
    )
    assert {str(at) for at in column(graph, "at").values()} == {"2026-07-01 12:00:00+00:00"}


def test_types_are_added_dropped_and_renamed(graph: Graph) -> None:
    text = """
    node Human @rename_from("Person") { name: String @key age: I32? city: String? tall: F32? mood: enum(glad, sad)? }
    node Pet { nick: String @key }
    edge Knows: Human -> Human { since: I32? }
    edge Owns: Human -> Pet
    """
    old = graph.snapshot()
    path = old.tables["node:Person"].uri
    plan = graph.schema.plan(text)
    assert plan.loss and plan.supported
    graph.schema.apply(text)
    now = graph.snapshot()
    assert set(now.tables) == {"node:Human", "node:Pet", "edge:Knows", "edge:Owns"}
    assert (now.tables["node:Human"].uri, now.count("Human"), now.count("Knows")) == (path, 3, 2)
    assert set(graph.snapshot(at=old.commit_id).tables) == set(old.tables) and old.count("Lives") == 1
    graph.load([{"type": "Pet", "data": {"nick": "rex"}}, {"edge": "Owns", "from": "ann", "to": "rex"}], mode="append")
    sound(graph)
    # The names come back as other types: nothing of the old rows is in them.
    graph.schema.apply(text + "node Town { title: String @key }\nnode Person { name: String @key }")
    assert (graph.snapshot().count("Town"), graph.snapshot().count("Person"), graph.snapshot().count("Human")) == (
        0,
        0,
        3,
    )
    assert graph.snapshot(at=old.commit_id).count("Town") == 1
    sound(graph)


def test_a_rename_alone_moves_no_table(graph: Graph) -> None:
    before = graph.snapshot().tables["node:Town"]
    text = BASE.replace("node Town {", 'node City @rename_from("Town") {').replace("-> Town", "-> City")
    receipt = graph.schema.apply(text)
    assert receipt.tables == {} and graph.snapshot().tables["node:City"] == before
    assert receipt.storage.by_class.get("versions", 0) == 0
    sound(graph)


def test_a_property_that_comes_back_is_another_one(graph: Graph) -> None:
    first = graph.catalog.node("Person").property("city").prop_id
    graph.schema.apply(person("city: String?", ""))
    graph.schema.apply(BASE)
    assert graph.catalog.node("Person").property("city").prop_id != first
    assert column(graph, "city") == {"ann": None, "bob": None, "cid": None}
    assert graph.schema.show().hash == graph.schema.show(at=graph.commits()[-1].id).hash
    assert graph.schema.show().schema_id != graph.schema.show(at=graph.commits()[-1].id).schema_id
    sound(graph)


def test_nullable_becomes_required_and_back(graph: Graph) -> None:
    graph.mutate('query q() { update Person set { city: "z" } where name = "bob" }')
    graph.schema.apply(person("city: String?", "city: String"))
    with pytest.raises(og.errors.DataInvalid, match="city"):
        graph.load([{"type": "Person", "data": {"name": "eve"}}], mode="append")
    graph.schema.apply(BASE)
    graph.load([{"type": "Person", "data": {"name": "eve"}}], mode="append")
    sound(graph)


def test_interfaces_come_and_go(graph: Graph) -> None:
    text = "interface Named { name: String }\n" + BASE.replace("node Person {", "node Person implements Named {")
    graph.schema.apply(text)
    assert graph.catalog.node("Person").implements == ("Named",)
    graph.schema.apply(BASE)
    assert graph.catalog.interfaces == {}
    sound(graph)


# --- rules over rows that exist -----------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[str, dict[str, object] | None, list[str]]] = {
    "required": (person("city: String?", "city: String"), None, ['the row "bob": Person.city is required']),
    "range": (person(ADD, "age: I32? @range(age, 35..)"), None, ['the row "ann": Person.age 30 is out of range: < min 35']),
    "check": (person(ADD, 'age: I32? @check(city, "^x$")'), None, ['the row "cid": Person.city "y" does not match "^x$"']),
    "enum": (
        person("enum(glad, sad)", "enum(glad)"), None, ['the row "bob": Person.mood "sad" is not one of glad'],
    ),
    "card max": (
        BASE.replace("Knows: Person -> Person {", "Knows: Person -> Person @card(0..1) {"), None,
        ['"ann" would have 2 edges, more than 1'],
    ),
    "card min": (
        BASE.replace("Knows: Person -> Person {", "Knows: Person -> Person @card(3..) {"), None,
        ['"ann" would have 2 edges, fewer than 3'],
    ),
    "unique of edges": (
        BASE.replace("{ since: I32? }", "{ since: I32? @unique(src) }"), None, ['(from) is unique: "ann" is also in the row'],
    ),
    "unique fill": (
        person(ADD, "age: I32? code: I32 @unique"), {"Person.code": 1},
        ['the row "bob": Person (code) is unique: 1 is also in the row "ann"', 'the row "cid": Person (code)'],
    ),
    "fill out of range": (
        person(ADD, "age: I32? code: I32 @range(code, ..4)"), {"Person.code": {"sql": "length(name) + 2"}},
        ['the row "ann": Person.code 5 is out of range: > max 4'],
    ),
    "null fill": (
        person(ADD, "age: I32? code: I64"), {"Person.code": {"sql": "age"}}, ['the row "cid": Person.code is required'],
    ),
    "fill outside of its values": (
        person(ADD, "age: I32? code: enum(ann, bob)"), {"Person.code": {"sql": "name"}},
        ['the row "cid": Person.code "cid" is not one of ann, bob'],
    ),
    "endless fill": (
        person(ADD, "age: I32? code: F64?"), {"Person.code": {"sql": "CAST('NaN' AS DOUBLE)"}},
        ['the row "ann": Person.code'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_rows_that_break_a_new_rule_are_named_and_nothing_changes(graph: Graph, case: str) -> None:
    text, fill, expected = BROKEN[case]
    engine = graph._engine
    head, files = graph.commits(limit=1)[0].id, sorted(entry.key for entry in engine.store.list(""))
    with pytest.raises(og.errors.DataInvalid) as caught:
        graph.schema.apply(text, fill=fill)
    messages = [one["message"] for one in caught.value.violations]
    assert all(any(wanted in message for message in messages) for wanted in expected), messages
    assert "schema" in caught.value.hint
    assert graph.commits(limit=1)[0].id == head
    assert sorted(entry.key for entry in engine.store.list("")) == files
    sound(graph)


def test_rows_that_keep_a_new_rule_let_it_in_and_later_rows_have_to(graph: Graph) -> None:
    text = person(ADD, 'age: I32? @range(age, 30..) @unique(age) @check(city, "^[xy]$")').replace(
        "edge Knows: Person -> Person {", "edge Knows: Person -> Person @card(0..2) {"
    )
    graph.schema.apply(text)
    for data in ({"name": "eve", "age": 29}, {"name": "eve", "age": 30}, {"name": "eve", "city": "z"}):
        with pytest.raises(og.errors.DataInvalid):
            graph.load([{"type": "Person", "data": data}], mode="append")
    sound(graph)


# --- what is refused ----------------------------------------------------------------------------------------------------

REFUSED = {
    "key": person("name: String @key age: I32?", "name: String age: I32 @key"),
    "type in use": BASE.replace("node Town { title: String @key }", "").replace("-> Town", "-> Person"),
    "other type": person(ADD, "age: String?"),
    "no such name": person(ADD, 'age: I32? note: String? @rename_from("gone")'),
    "swapped": person(
        "age: I32? city: String?", 'age: String? @rename_from("city") city: I32? @rename_from("age")'
    ),
    "required without a value": person(ADD, "age: I32? score: F64"),
    "filled blob": person(ADD, "age: I32? face: Blob"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_with_a_remedy(graph: Graph, case: str) -> None:
    before = sorted(entry.key for entry in graph._engine.store.list(""))
    plan = graph.schema.plan(REFUSED[case])
    assert not plan.supported
    with pytest.raises(og.errors.Refused) as caught:
        graph.schema.apply(REFUSED[case])
    assert caught.value.reason == "schema" and caught.value.hint == plan.refused[0].hint
    assert sorted(entry.key for entry in graph._engine.store.list("")) == before


@pytest.mark.parametrize("sql", ["now()", "random()", "current_date", "uuid()", "(SELECT 1)", "nosuch + 1"])
def test_a_fill_that_is_not_a_function_of_the_row_is_refused(graph: Graph, sql: str) -> None:
    with pytest.raises(og.errors.InvalidInput, match="fill of Person.note"):
        graph.schema.apply(person(ADD, "age: I32? note: String?"), fill={"Person.note": {"sql": sql}})


def test_a_fill_that_fails_on_a_row_leaves_nothing_behind(graph: Graph) -> None:
    before = sorted(entry.key for entry in graph._engine.store.list(""))
    with pytest.raises(og.errors.InvalidInput, match="fill of Person.note: Conversion Error"):
        graph.schema.apply(person(ADD, "age: I32? note: I32?"), fill={"Person.note": {"sql": "CAST(name AS INTEGER)"}})
    assert sorted(entry.key for entry in graph._engine.store.list("")) == before


def test_bad_text_and_a_read_only_graph_change_nothing(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(og.errors.SchemaInvalid):
        graph.schema.apply("node {")
    with pytest.raises(og.errors.InvalidInput, match="a text or a path"):
        graph.schema.apply(7)  # type: ignore[arg-type]
    with og.open(tmp_path / "g", read_only=True) as other:
        assert other.schema.plan(person(ADD, "")).loss
        with pytest.raises(og.errors.InvalidInput, match="read-only"):
            other.schema.apply(person(ADD, ""))


def test_a_key_answers_with_the_first_receipt_and_expect_head_is_honoured(graph: Graph) -> None:
    text = person(ADD, "age: I32? note: String?")
    head = graph.commits(limit=1)[0].id
    with pytest.raises(og.errors.PreconditionFailed):
        graph.schema.apply(text, expect_head=graph.commits()[-1].id)
    first = graph.schema.apply(text, expect_head=head, idempotency_key="k", actor="ann")
    graph.schema.apply(BASE)
    again = graph.schema.apply(text, idempotency_key="k")
    assert (again.commit_id, again.replayed, again.plan) == (first.commit_id, True, None)
    assert graph.catalog.node("Person").by_name.get("note") is None


def test_an_export_of_then_is_input_for_a_graph_of_then(graph: Graph, tmp_path: Path) -> None:
    old = graph.snapshot().commit_id
    graph.schema.apply(person("city: String?", "town: I32?"), fill={"Person.town": 3})
    graph.snapshot(at=old).export(tmp_path / "then.jsonl")
    with og.init(tmp_path / "then", graph.schema.show(at=old).catalog.source) as other:
        other.load(tmp_path / "then.jsonl", mode="append")
        assert column(other, "city") == {"ann": "x", "bob": None, "cid": "y"}


def test_steps_and_fills_are_kept_with_the_commit(graph: Graph) -> None:
    old = graph.schema.show().schema_id
    graph.schema.apply(person(ADD, "age: I32? label: String"), fill={"Person.label": {"sql": "name"}})
    schema = graph.commits(limit=1)[0].schema
    assert schema is not None
    assert (schema["from"], schema["to"]) == (old, graph.schema.show().schema_id)
    assert schema["steps"][0]["fill"] == {"sql": "name"}
    assert graph.commits(limit=1)[0].to_dict()["schema"] == schema
