"""Single changes of a schema: which steps, at what cost, with which loss, and what is refused with which way out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from omnigraph.core.errors import Refused
from omnigraph.schema import (
    Catalog,
    SchemaPlan,
    StepKind,
    apply_plan,
    canonical_text,
    diff_catalogs,
    parse_schema,
    plan_change,
    schema_id,
)
from tests.unit.schema.material import accepted, counter

BASE = """
interface Named { name: String }
node Person implements Named {
    email: String @key  age: I32?  score: F32?  mood: enum(sad, happy)?  tags: [String]?  photo: Blob?  nick: String?
}
node City { name: String @key  people: U32 }
edge LivesIn: Person -> City { since: Date? }
"""


def plan(old: str, new: str, **fill: object) -> SchemaPlan:
    given = {name.replace("__", "."): value for name, value in fill.items()}
    return plan_change(accepted(old), parse_schema(new), fill=given, mint=counter("new"))


def change(*pairs: tuple[str, str], **fill: object) -> SchemaPlan:
    text = BASE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return plan(BASE, text, **fill)


def lines(made: SchemaPlan) -> list[str]:
    return [str(step) for step in made.steps]


SUPPORTED = {
    "the same": ([], []),
    "comments and order": ([("node City", "// a comment\nnode City")], []),
    "a type is added": ([("node City", "node Club {}\nnode City")], ["add_type Club: node Club {} [4 requests]"]),
    "an edge type is dropped": (
        [("edge LivesIn: Person -> City { since: Date? }", "")],
        ["drop_type LivesIn: drops edge LivesIn: Person -> City { since: Date? } [free, loses data]"],
    ),
    "a type is renamed": (
        [("node City", 'node Town @rename_from("City")'), ("-> City", "-> Town")],
        ["rename_type Town: City -> Town [free]"],
    ),
    "a nullable property is added": (
        [("people: U32", "people: U32 area: F64?")],
        ["add_property City.area: area: F64? [3 requests]"],
    ),
    "a property is renamed": (
        [("nick: String?", 'alias: String? @rename_from("nick")')],
        ["rename_property Person.alias: nick -> alias [3 requests]"],
    ),
    "a part of the key is renamed": (
        [("email: String @key", 'mail: String @key @rename_from("email")')],
        ["rename_property Person.mail: email -> mail [3 requests]"],
    ),
    "a property becomes nullable": (
        [("people: U32", "people: U32?")],
        ["nullable City.people: U32 -> U32? [3 requests]"],
    ),
    "a property becomes required": (
        [("age: I32?", "age: I32")],
        ["required Person.age: I32? -> I32 [3 requests + a scan of Person.age]"],
    ),
    "a number becomes wider": (
        [("age: I32?", "age: I64?")],
        ["widen Person.age: I32? -> I64? [3 requests + 3 requests and one column file a fragment]"],
    ),
    "an enum becomes wider": (
        [("sad, happy", "sad, happy, calm")],
        ["widen Person.mood: enum(happy, sad)? -> enum(calm, happy, sad)? [free]"],
    ),
    "an enum becomes narrower": (
        [("sad, happy", "happy")],
        ["rule Person.mood: enum(happy, sad)? -> enum(happy)? [a scan of Person.mood, loses data]"],
    ),
    "a property is dropped": (
        [("nick: String?", "")],
        ["drop_property Person.nick: drops nick: String? [3 requests, loses data]"],
    ),
    "uniqueness is added": (
        [("nick: String?", "nick: String? @unique")],
        ["rule Person: @unique(nick) [a scan of Person.nick]"],
    ),
    "a range is added": (
        [("nick: String?", "nick: String? @range(age, 0..99)")],
        ["rule Person.age: @range(age, 0..99) [a scan of Person.age]"],
    ),
    "a pattern is added": (
        [("nick: String?", 'nick: String? @check(nick, "^x")')],
        ['rule Person.nick: @check(nick, "^x") [a scan of Person.nick]'],
    ),
    "a cardinality is added": (
        [("-> City {", "-> City @card(0..1) {")],
        ["rule LivesIn: @card(0..1) [a scan of LivesIn.src]"],
    ),
    "an index is added": ([("nick: String?", "nick: String? @index")], ["rule Person: @index(nick) [free]"]),
    "a description is added": (
        [("node City", 'node City @description("x")')],
        ['rule City: @description("x") [free]'],
    ),
    "stubs are allowed": (
        [("people: U32", "people: U32? known: Bool?"), ("node City", "node City @stub(known)")],
        [
            "nullable City.people: U32 -> U32? [3 requests]",
            "add_property City.known: known: Bool? [3 requests]",
            'rule City: @stub("known") [free]',
        ],
    ),
    "an interface gets a member": (
        [("{ name: String }", "{ name: String seen: Date? }")],
        [
            "add_property Person.seen: seen: Date? [3 requests]",
            "rule Named: interface Named { name: String } -> interface Named { name: String seen: Date? } [free]",
        ],
    ),
    "an interface renames a member": (
        [("{ name: String }", '{ title: String @rename_from("name") }')],
        [
            "rename_property Person.title: name -> title [3 requests]",
            "rule Named: interface Named { name: String } -> "
            'interface Named { title: String @rename_from("name") } [free]',
        ],
    ),
    "an interface loses a member": (
        [("{ name: String }", "{ }")],
        [
            "drop_property Person.name: drops name: String [3 requests, loses data]",
            "rule Named: interface Named { name: String } -> interface Named { } [free]",
        ],
    ),
    "a node leaves an interface and keeps its property": (
        [("Person implements Named {", "Person { name: String")],
        ["rule Person: drops implements Named [free]"],
    ),
}


@pytest.mark.parametrize("name", SUPPORTED)
def test_a_supported_change_says_its_steps_and_their_cost(name: str) -> None:
    pairs, expected = SUPPORTED[name]
    made = change(*pairs)
    assert [line.replace("{  }", "{ }") for line in lines(made)] == expected
    assert made.supported and made.loss == any("loses data" in line for line in expected)


REFUSED = {
    "another key": (("email: String @key", "email: String"), "the key of a type cannot change", "export"),
    "another end": (("-> City", "-> Person"), "the ends of an edge type cannot change", "another name"),
    "another type": (("age: I32?", "age: String?"), "I32? cannot become String?", "under another name"),
    "a narrower number": (("people: U32", "people: I32"), "U32 cannot become I32", "under another name"),
    "a list of wider numbers": (("tags: [String]?", "tags: [I64]?"), "cannot become", "under another name"),
    "a text for an enum": (("mood: enum(sad, happy)?", "mood: String?"), "cannot become String?", "another name"),
    "required without a fill": (("nick: String?", "nick: String? rank: I32"), "no value for it", "Person.rank"),
    "a required blob": (("nick: String?", "nick: String? film: Blob"), "no value for it", "declare it nullable"),
    "a rename of nothing": (
        ("nick: String?", 'nick: String? alias: String? @rename_from("surname")'),
        "there is no `surname`",
        "leave @rename_from out",
    ),
    "a rename of what stays": (
        ("nick: String?", 'nick: String? alias: String? @rename_from("nick")'),
        "`nick` is still declared",
        "leave `nick` out",
    ),
    "a rename into a name that is taken": (
        ("nick: String?", 'name: String @rename_from("nick")'),
        "the name `name` is taken",
        "in the next",
    ),
    "one name for two": (
        ("nick: String?", 'a: String? @rename_from("nick") b: String? @rename_from("nick")'),
        "`a` is renamed from it, too",
        "add the other",
    ),
    "a rename of a type that is not there": (
        ("node City", 'node Club @rename_from("Society") {} node City'),
        "there is no `Society`",
        "leave @rename_from out",
    ),
    "a required member of an interface": (
        ("{ name: String }", "{ name: String rank: I32 }"),
        "no value",
        "Person.rank",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_impossible_is_refused_with_reason_and_way_out(name: str) -> None:
    pair, reason, hint = REFUSED[name]
    made = change(pair)
    assert not made.supported
    assert any(reason in (s.reason or "") and hint in (s.hint or "") for s in made.refused), str(made)
    with pytest.raises(Refused) as refused:
        apply_plan(made)
    assert refused.value.facts["reason"] == "schema" and refused.value.facts["steps"]
    assert made.refused[0].reason in refused.value.message and refused.value.hint == made.refused[0].hint


def test_names_cannot_be_swapped_in_one_change() -> None:
    old = "node Na { pa: I32? pb: I32? } node Nb {}"
    for new in (
        'node Na { pa: I32? @rename_from("pb") pb: I32? @rename_from("pa") } node Nb {}',
        'node Na @rename_from("Nb") { pa: I32? pb: I32? } node Nb @rename_from("Na") {}',
    ):
        made = plan(old, new)
        assert len(made.refused) == 2 and not made.loss
        assert all("is taken" in (step.reason or "") for step in made.refused)


def test_a_swap_over_a_third_name_keeps_both() -> None:
    now = accepted("node Na { pa: I32? pb: String? }")
    a, b = (now.node("Na").property(n).prop_id for n in ("pa", "pb"))
    for text in (
        'node Na { pc: I32? @rename_from("pa") pb: String? }',
        'node Na { pc: I32? pa: String? @rename_from("pb") }',
        'node Na { pb: I32? @rename_from("pc") pa: String? }',
    ):
        now = apply_plan(plan_change(now, parse_schema(text), mint=counter("new")))
    assert {n: p.prop_id for n, p in now.node("Na").by_name.items()} == {"pb": a, "pa": b}


def test_a_rename_that_was_done_is_not_done_again_when_its_old_name_comes_back() -> None:
    mint = counter("new")
    now = accepted("node Na { pa: I32? }")
    first = 'node Na { pb: I32? @rename_from("pa") }'
    second = 'node Na { pa: I32? pb: I32? @rename_from("pa") }'
    for text, steps in ((first, 1), (first, 0), (second, 1), (second, 0)):
        made = plan_change(now, parse_schema(text), mint=mint)
        assert made.supported and len(made.steps) == steps, str(made)
        now = apply_plan(made)


def test_a_member_renamed_by_its_interface_does_not_bind_nodes_that_never_had_it() -> None:
    old = "interface Ia { pa: I32? } node Na implements Ia {} node Nb {}"
    made = plan(old, 'interface Ia { pb: I32? @rename_from("pa") } node Na implements Ia {} node Nb implements Ia {}')
    assert made.supported
    kinds = {(s.kind, s.subject) for s in made.steps}
    assert {(StepKind.RENAME_PROPERTY, "Na.pb"), (StepKind.ADD_PROPERTY, "Nb.pb")} <= kinds


def test_an_interface_cannot_rename_what_none_of_its_nodes_has() -> None:
    made = plan(
        "interface Ia {} node Na implements Ia {}",
        'interface Ia { pb: I32? @rename_from("pa") } node Na implements Ia {}',
    )
    assert [s.subject for s in made.refused] == ["Ia.pb"]


def test_a_type_that_an_edge_keeps_is_not_dropped() -> None:
    made = plan("node Na {} node Nb {} edge Ea: Na -> Nb", "node Nb {} edge Ea: Nb -> Nb")
    refused = {step.kind: step for step in made.refused}
    assert "`Ea` joins it" in (refused[StepKind.DROP_TYPE].reason or "")
    assert '@rename_from("Na")' in (refused[StepKind.DROP_TYPE].hint or "")
    assert StepKind.ENDPOINTS in refused


def test_the_last_type_is_not_dropped() -> None:
    found = plan("node A { name: String @key }\nedge B: A -> A", "")
    assert {step.reason for step in found.steps} == {"no type would be left"}
    with pytest.raises(Refused):
        apply_plan(found)


def test_a_type_and_the_edges_that_join_it_are_dropped_together_edges_first() -> None:
    made = plan("node Na {} node Nb {} edge Ea: Na -> Nb", "node Nb {}")
    assert made.supported and [step.type for step in made.steps] == ["Ea", "Na"]


def test_a_key_of_single_precision_cannot_become_wider() -> None:
    made = plan("node Na { pa: F32 @key }", "node Na { pa: F64 @key }")
    assert [s.kind for s in made.refused] == [StepKind.WIDEN]
    assert plan("node Na { pa: U32 @key }", "node Na { pa: U64 @key }").supported


def test_the_order_of_key_columns_is_part_of_the_key() -> None:
    made = plan("node Na { pa: I32 pb: I32 @key(pa, pb) }", "node Na { pa: I32 pb: I32 @key(pb, pa) }")
    assert [s.kind for s in made.refused] == [StepKind.KEY]


@pytest.mark.parametrize(
    ("old", "new", "free"),
    [
        ("@range(pa, 0..9)", "@range(pa, 0..10)", True),
        ("@range(pa, 0..9)", "@range(pa, ..9)", True),
        ("@range(pa, 0..9)", "@range(pa, -1..)", True),
        ("@range(pa, 0..9)", "@range(pa, 1..9)", False),
        ("@range(pa, 0..9)", "@range(pa, 0..8)", False),
        ("@range(pa, ..9)", "@range(pa, 0..9)", False),
        ("@range(pa, 0..9)", "", True),
        ("", "@range(pa, 0..)", False),
    ],
)
def test_a_looser_rule_costs_nothing(old: str, new: str, free: bool) -> None:
    made = plan(f"node Na {{ pa: I32? {old} }}", f"node Na {{ pa: I32? {new} }}")
    (step,) = made.steps
    assert step.cost.scans == (() if free else ("Na.pa",))


@pytest.mark.parametrize(
    ("old", "new", "free"),
    [
        ("@card(0..1)", "@card(0..2)", True),
        ("@card(1..1)", "@card(0..1)", True),
        ("@card(0..1)", "", True),
        ("@card(0..2)", "@card(0..1)", False),
        ("@card(0..2)", "@card(1..2)", False),
        ("@card(2..)", "@card(1..)", True),
    ],
)
def test_a_looser_cardinality_costs_nothing(old: str, new: str, free: bool) -> None:
    made = plan(f"node Na {{}} edge Ea: Na -> Na {old}", f"node Na {{}} edge Ea: Na -> Na {new}")
    (step,) = made.steps
    assert step.cost.scans == (() if free else ("Ea.src",))


# --- identities ---------------------------------------------------------------------------------------------------------


def test_identities_stay_with_what_continues() -> None:
    made = change(("node City", 'node Town @rename_from("City")'), ("-> City", "-> Town"))
    old, new = made.old.node("City"), made.new.node("Town")
    assert new.type_id == old.type_id and new.properties == old.properties


def test_a_property_dropped_and_added_again_is_another_property_and_another_schema() -> None:
    mint = counter("new")
    first = accepted("node Na { pa: I32? }")
    second = apply_plan(plan_change(first, parse_schema("node Na {}"), mint=mint))
    third = apply_plan(plan_change(second, parse_schema("node Na { pa: I32? }"), mint=mint))
    assert third.hash == first.hash
    assert third.node("Na").property("pa").prop_id != first.node("Na").property("pa").prop_id
    assert schema_id(canonical_text(third)) != schema_id(canonical_text(first))


def test_an_identity_that_exists_is_never_given_again() -> None:
    old = accepted("node Na { pa: I32? }")
    with pytest.raises(ValueError, match="mint makes a new one"):
        plan_change(old, parse_schema("node Na { pb: I32? }"), mint=lambda: old.node("Na").property("pa").prop_id)


def with_also(catalog: Catalog, also: str) -> Catalog:
    node = catalog.node("Na")
    props = tuple(replace(p, also=(f"{also}-{p.name}",)) for p in node.properties)
    return replace(catalog, nodes={"Na": replace(node, properties=props, also=(also,))})


def test_older_identities_are_matched_and_carried() -> None:
    """Two branches added the same type; after the merge a side that knows only its own identity still finds it."""
    ours = with_also(accepted("node Na { pa: I32? pb: I32? }"), "theirs")
    theirs = accepted("node Na { pa: I32? pb: I32? }")
    node = theirs.node("Na")
    renamed = tuple(replace(p, prop_id=f"theirs-{p.name}") for p in node.properties)
    theirs = replace(theirs, nodes={"Na": replace(node, type_id="theirs", properties=renamed)})
    assert diff_catalogs(theirs, ours) == () == diff_catalogs(ours, theirs)
    made = plan_change(ours, parse_schema('node Nb @rename_from("Na") { pa: I64? }'), mint=counter("new"))
    assert made.new.node("Nb").also == ("theirs",)
    assert made.new.node("Nb").property("pa").also == ("theirs-pa",)
    assert [(s.kind, s.prop) for s in diff_catalogs(theirs, made.new)] == [
        (StepKind.RENAME_TYPE, None),
        (StepKind.DROP_PROPERTY, "pb"),
        (StepKind.WIDEN, "pa"),
    ]


# --- the stored form ----------------------------------------------------------------------------------------------------


def test_steps_are_kept_in_the_form_of_a_history_row() -> None:
    made = change(
        ("nick: String?", 'alias: String? @rename_from("nick") rank: I32 old: I32?'),
        Person__rank=7,
        Person__old={"property": "age"},
    )
    stored = made.to_stored()
    assert json.loads(json.dumps(stored, allow_nan=False)) == stored
    assert stored["from"] == schema_id(canonical_text(made.old)) and stored["to"] == made.new_id
    person = made.new.node("Person")
    assert stored["steps"] == [
        {
            "step": "rename_property",
            "type": person.type_id,
            "property": person.property("alias").prop_id,
            "from": "nick",
            "to": "alias",
            "fill": None,
            "lost": None,
        },
        {
            "step": "add_property",
            "type": person.type_id,
            "property": person.property("old").prop_id,
            "from": None,
            "to": "old: I32?",
            "fill": {"property": person.property("age").prop_id},
            "lost": None,
        },
        {
            "step": "add_property",
            "type": person.type_id,
            "property": person.property("rank").prop_id,
            "from": None,
            "to": "rank: I32",
            "fill": {"value": 7},
            "lost": None,
        },
    ]


def test_a_plan_prints_and_becomes_plain_values() -> None:
    made = change(("nick: String?", ""))
    assert str(made).splitlines()[0] == "supported, loses data"
    assert str(change()) == "no change"
    body = made.to_dict()
    assert json.loads(json.dumps(body)) == body
    assert (body["supported"], body["loss"], body["hard"], len(body["steps"])) == (True, True, False, 1)
    assert body["steps"][0]["kind"] == "drop_property" and body["steps"][0]["type"] == "Person"


def test_drops_are_hard_only_where_it_is_asked_for() -> None:
    old, new = accepted("node Na { pa: I32? }"), parse_schema("node Na {}")
    assert not plan_change(old, new, mint=counter("new")).hard
    assert plan_change(old, new, mint=counter("new"), allow_data_loss=True).hard


def test_a_plan_without_fills_needs_neither_arrow_nor_duckdb() -> None:
    program = (
        "import sys; from omnigraph.schema import parse_schema, plan_change; from omnigraph.core.ids import new_ulid;"
        "old = parse_schema('node Na {}', mint=new_ulid); plan_change(old, parse_schema('node Na { pa: I32? }'));"
        "print(sorted({'pyarrow', 'duckdb', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
