"""Three schemas merged into one: every pair of changes of a small schema, the laws of the merge, and what both sides added."""

from __future__ import annotations

import functools
import itertools

import pytest

from omnigraph.schema import Catalog, apply_plan, canonical_text, catalog_from_canonical, plan_change, shape_text
from omnigraph.schema.identity import identities
from omnigraph.schema.merge import MergedSchema, merge_schemas
from omnigraph.schema.resolve import parse_schema
from tests.unit.schema.material import accepted, counter

BASE = """
interface Named { name: String @key }
node Person implements Named { age: I32? city: String? @range(age, 0..150) }
node Company { name: String @key }
edge Knows: Person -> Person @card(0..9) { since: Date? }
edge Works: Person -> Company
"""

# One change each, as edits of the text. Names of pairs that touch one element follow below.
CHANGES = {
    "nothing": [],
    "add property": [("city: String?", "city: String? email: String?")],
    "add another": [("city: String?", "city: String? phone: String?")],
    "add it differently": [("city: String?", "city: String? email: I32?")],
    "drop property": [(" city: String?", "")],
    "rename property": [("city: String?", 'town: String? @rename_from("city")')],
    "rename it differently": [("city: String?", 'place: String? @rename_from("city")')],
    "widen": [("age: I32?", "age: I64?")],
    "wider range": [("@range(age, 0..150)", "@range(age, 0..200)")],
    "no range": [(" @range(age, 0..150)", "")],
    "rule on it": [("@range(age, 0..150)", "@range(age, 0..150) @index(city)")],
    "unique": [("@range(age, 0..150)", "@range(age, 0..150) @unique(age)")],
    "add type": [("edge Knows", "node City { name: String @key }\nedge Knows")],
    "add edge": [("edge Works", "edge Owns: Person -> Company\nedge Works")],
    "drop edge": [("edge Works: Person -> Company\n", "")],
    "drop types": [("edge Works: Person -> Company\n", ""), ("node Company { name: String @key }\n", "")],
    "edge of dropped": [("edge Works", "edge Likes: Person -> Company\nedge Works")],
    "rename type": [("node Company {", 'node Firm @rename_from("Company") {'), ("-> Company", "-> Firm")],
    "card": [("@card(0..9)", "@card(0..5)")],
    "describe": [("node Company {", 'node Company @description("a firm") {')],
}
BEGIN = accepted(BASE)
CONFLICTS = {
    frozenset(pair)
    for pair in (
        ("add property", "add it differently"),
        ("drop property", "rename property"),
        ("drop property", "rename it differently"),
        ("rename property", "rename it differently"),
        ("drop property", "rule on it"),
        ("wider range", "no range"),
        ("drop types", "edge of dropped"),
        ("drop types", "rename type"),
        ("drop types", "add edge"),
        ("drop types", "describe"),
    )
}


@functools.cache
def changed(name: str, prefix: str) -> Catalog:
    text = BASE
    for old, new in CHANGES[name]:
        assert old in text
        text = text.replace(old, new)
    plan = plan_change(BEGIN, parse_schema(text), mint=counter(prefix))
    assert plan.supported, str(plan)
    return apply_plan(plan)


def merged(one: str, other: str) -> MergedSchema:
    return merge_schemas(BEGIN, changed(one, "s"), changed(other, "t"))


@pytest.mark.parametrize(("one", "other"), list(itertools.product(CHANGES, repeat=2)))
def test_every_pair_of_changes(one: str, other: str) -> None:
    found = merged(one, other)
    mirrored = merged(other, one)
    if frozenset((one, other)) in CONFLICTS:
        assert found.conflicts and mirrored.conflicts
        assert found.catalog.source and all(c.element and c.subject for c in found.conflicts)
        return
    assert not found.conflicts and not mirrored.conflicts, found.conflicts
    assert shape_text(found.catalog) == shape_text(mirrored.catalog)
    text = found.catalog.source
    assert shape_text(parse_schema(text)) == shape_text(found.catalog)
    assert catalog_from_canonical(text, canonical_text(found.catalog)) == found.catalog
    _check_units(one, found.catalog, other)


def _check_units(one: str, result: Catalog, other: str) -> None:
    """What no side changed is as it was, and nothing that a side added is missing."""
    if other == "nothing":
        assert canonical_text(result) == canonical_text(changed(one, "s"))
    if one == "nothing":
        assert canonical_text(result) == canonical_text(changed(other, "t"))
    source, target = changed(one, "s"), changed(other, "t")
    have = set(identities(result))
    before = set(identities(BEGIN))
    assert (set(identities(source)) | set(identities(target))) - before <= have
    assert before - have == before - (set(identities(source)) & set(identities(target)))


def test_equal_additions_are_one_element_that_both_sides_find_again() -> None:
    source, target = changed("add property", "s"), changed("add property", "t")
    first = merge_schemas(BEGIN, source, target)
    email = first.catalog.node("Person").property("email")
    assert email.prop_id == target.node("Person").property("email").prop_id
    assert email.also == (source.node("Person").property("email").prop_id,)
    # Merged again, after the source has renamed what it added: the base has the property under its own identity.
    renamed = plan_change(
        source, parse_schema(source.source.replace("email: String?", 'mail: String? @rename_from("email")'))
    )
    second = merge_schemas(source, apply_plan(renamed), first.catalog)
    assert not second.conflicts
    assert second.catalog.node("Person").property("mail").ids == email.ids


def test_equal_types_are_one_and_their_properties_too() -> None:
    source, target = changed("add type", "s"), changed("add type", "t")
    found = merge_schemas(BEGIN, source, target).catalog
    mine, theirs, made = (one.node("City") for one in (source, target, found))
    assert made.ids == (theirs.type_id, mine.type_id)
    assert made.property("name").ids == (theirs.property("name").prop_id, mine.property("name").prop_id)
    again = merge_schemas(source, source, found)
    assert canonical_text(again.catalog) == canonical_text(found)


def test_a_conflict_says_what_each_side_made_of_it() -> None:
    [conflict] = merged("rename property", "rename it differently").conflicts
    assert (conflict.subject, conflict.element) == ("Person.place", "name")
    assert (conflict.base, conflict.source, conflict.target) == ("city", "town", "place")
