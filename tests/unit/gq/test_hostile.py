"""Texts made to break out of a query: names, strings and parameters stay what they are, or are refused with a type."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.errors import InvalidInput, QueryInvalid
from omnigraph.gq import (
    DeleteEdge,
    DeleteNode,
    InsertEdge,
    InsertNode,
    bind_mutation,
    bind_params,
    check_query,
    format_query,
    lint,
    parse_queries,
    parse_query,
)
from omnigraph.gq.printer import format_expr
from omnigraph.gq.tree import StringLiteral
from tests.unit.gq.material import NOW_US, bind, catalog

INJECTIONS = [
    "' OR '1'='1",
    "'; DROP TABLE Person; --",
    "a' OR name IS NOT NULL --",
    "\\' OR 1=1",
    "''",
    "'",
    '"',
    '" } delete Person where age > 0 //',
    '\\" } delete Person where age > 0 //',
    "\\",
    "\\\\",
    "`name`",
    "$name",
    "${name}",
    "{{name}}",
    "%s %(name)s {0}",
    "name = name",
    "true",
    "null",
    "NULL",
    "1",
    "now()",
    'date("2020-01-01")',
    "/* */",
    "*/ true /*",
    "// comment",
    "a\nb\r\nc\td",
    "\x00",
    "a\x00b",
    "\x1b[31m",
    "\u2028\u2029\u0085",
    "\u202etxet",
    "\ufeff",
    "е",  # a Cyrillic letter
    "ﬁ",
    "𝄞",
    "é",
    "../../etc/passwd",
    "file:///etc/passwd",
    "base64:AAAA",
    "_rowid",
    "a" * 10_000,
    "'" * 5_000,
]


@pytest.mark.parametrize("text", INJECTIONS, ids=range(len(INJECTIONS)))
def test_a_string_is_the_value_it_spells_and_nothing_else(text: str) -> None:
    literal = format_expr(StringLiteral(text))
    insert, edge = bind(
        f"insert Person {{ name: {literal}, bio: {literal}, tags: [{literal}] }} insert Knows {{ from: {literal}, to: {literal} }}"
    ).statements
    assert isinstance(insert, InsertNode) and isinstance(edge, InsertEdge)
    assert (insert.id, insert.values["bio"], insert.values["tags"]) == (text, text, (text,))
    assert (edge.src, edge.dst) == (text, text)
    node, edges = bind(f"delete Person where bio = {literal} delete Knows where from = {literal}").statements
    assert isinstance(node, DeleteNode) and isinstance(edges, DeleteEdge)
    assert (node.predicate.column, node.predicate.op, node.predicate.value) == ("bio", "=", text)
    assert (edges.predicate.column, edges.predicate.value) == ("src", text)


@pytest.mark.parametrize("text", INJECTIONS, ids=range(len(INJECTIONS)))
def test_a_parameter_is_its_value_and_nothing_else(text: str) -> None:
    (insert,) = bind(
        "insert Person { name: $x, tags: $l }", "$x: String, $l: [String]", {"x": text, "l": [text]}
    ).statements
    assert isinstance(insert, InsertNode)
    assert (insert.id, insert.values["name"], insert.values["tags"]) == (text, text, (text,))
    (delete,) = bind("delete Person where name = $x", "$x: String", {"x": text}).statements
    assert isinstance(delete, DeleteNode)
    assert delete.predicate.value == text


NAME_PLACES = [
    "query {}() {{ delete Person where age = 1 }}",
    "query q(${}: I32) {{ delete Person where age = 1 }}",
    "query q($x: {}) {{ delete Person where age = 1 }}",
    "query q() @{}(\"x\") {{ delete Person where age = 1 }}",
    "query q() {{ insert {} {{ name: \"x\" }} }}",
    "query q() {{ insert Person {{ {}: \"x\" }} }}",
    "query q() {{ delete {} where age = 1 }}",
    "query q() {{ delete Person where {} = 1 }}",
    "query q() {{ delete Person where age = ${} }}",
    "query q() {{ delete Person where age {} 1 }}",
    "query q() {{ match {{ $p: {} }} return {{ $p }} }}",
    "query q() {{ match {{ ${}: Person }} return {{ 1 }} }}",
    "query q() {{ match {{ $p: Person $p {} $q }} return {{ $q.height }} }}",
    "query q() {{ match {{ $p: Person }} return {{ $p.{} }} }}",
    "query q() {{ match {{ $p: Person }} return {{ {}($p) }} }}",
]  # fmt: skip
NAMES = [
    *INJECTIONS,
    "Person'",
    "Pérson",
    "Реrson",
    "person;",
    "a.b",
    "a-b",
    "a b",
    "../Person",
    "Person/../x",
    "a" * 129,
]


@pytest.mark.parametrize("place", NAME_PLACES, ids=range(len(NAME_PLACES)))
def test_a_name_is_a_plain_word_of_the_schema_or_refused(place: str) -> None:
    for name in NAMES:
        text = place.format(name)
        try:
            queries = parse_queries(text).queries
        except InvalidInput as error:
            assert "\n" not in error.message and "\x1b" not in error.message and "\x00" not in error.message
            continue
        # What parses says the same when it is printed, and a name that the schema lacks is found.
        for query in queries:
            assert parse_queries(format_query(query)).queries == (query,)
            check_query(query, catalog())
        assert all(word.isascii() for word in text.split('"')[0::2]), text


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused_with_a_type(text: str) -> None:
    for wrapped in (text, f"query q() {{ {text} }}", f"query q() {{ match {{ {text} }} return {{ {text} }} }}"):
        try:
            parse_queries(wrapped)
        except InvalidInput:
            pass
        for diagnostic in lint(wrapped, catalog()):
            assert diagnostic.line >= 1 and "\n" not in diagnostic.message


CORPUS = [
    'query a($n: String, $v: Vector(3)?) @description("d") { insert Person { name: $n, vec: $v, joined: now() } }',
    'query b() { update Person set { age: 1, tags: ["x", "y"] } where born >= date("2020-01-01") }',
    'query c($x: [I32]) { match { $p: Person { age: 1 } $p knows{1,3} $q not { $q worksAt $_ } $p.tags contains "x" } '
    "return { $p.name as n, count($q) } order { n desc } limit 3 }",
    'query d() { match { $p: Person search($p.bio, "x") } return { $p } '
    'order { rrf(nearest($p.vec, [1, 2, 3]), bm25($p.bio, "x"), 60) } limit 5 }',
]


def damaged(text: str, rng: random.Random) -> str:
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randrange(6))
        match rng.randrange(4):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + text[start:end] * 2 + text[end:]
            case 2:
                text = text[:start] + rng.choice('{}[]()"$@:,.<>=!\\/*\n\x00é09aZ_') + text[start:]
            case _:
                other = rng.choice(CORPUS)
                cut = rng.randrange(len(other))
                text = text[:start] + other[cut : cut + 12] + text[end:]
    return text


def test_damaged_queries_are_parsed_or_refused_with_a_type() -> None:
    rng = random.Random(5)
    outcomes = {"parsed": 0, "refused": 0}
    for _ in range(1_500):
        text = damaged(rng.choice(CORPUS), rng)
        try:
            queries = parse_queries(text).queries
        except InvalidInput as error:
            assert "\n" not in error.message
            outcomes["refused"] += 1
            continue
        outcomes["parsed"] += 1
        for query in queries:
            assert parse_queries(format_query(query)).queries == (query,), text
            try:
                bind_mutation(query, {"n": "x"}, catalog(), NOW_US)
            except QueryInvalid as error:
                assert "\n" not in error.message
    assert min(outcomes.values()) > 50, outcomes


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(st.characters(), max_size=8),
        st.sampled_from(["base64:AA==", "2020-01-01", "2020-01-01T00:00:00+23:59", "0001-01-01T00:00:00+01:00"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
DECLARED = [
    ("name", "String"), ("age", "I32"), ("big", "I64?"), ("small", "U32"), ("huge", "U64"), ("ratio", "F32"),
    ("weight", "F64"), ("active", "Bool"), ("born", "Date"), ("joined", "DateTime?"), ("photo", "Blob"),
    ("tags", "[String]"), ("scores", "[I64]?"), ("days", "[Date]"), ("rates", "[F32]"), ("vec", "Vector(3)"), ("mood", "String"),
]  # fmt: skip


@given(st.sampled_from(DECLARED), json_values)
def test_any_parameter_is_bound_or_refused_with_a_type(declared: tuple[str, str], value: object) -> None:
    name, type_ = declared
    others = "" if name == "name" else 'name: "n", '
    query = parse_query(f"query q($x: {type_}) {{ insert Person {{ {others}{name}: $x }} }}")
    for params in ({"x": value}, {"other": value}, value):
        try:
            bind_params(query, params)
        except QueryInvalid as error:
            assert "\n" not in error.message
    try:
        bind_mutation(query, {"x": value}, catalog(), NOW_US)
    except QueryInvalid as error:
        assert "\n" not in error.message and len(error.message) < 600
        error.message.encode()


@pytest.mark.parametrize("text", ["9999-99-99", "2020-01-01T00:00:60", "٢٠٢٠-٠١-٠١", "2020-1-1", "2020-01-01T", "+2020-01-01", "2020-01-01T00:00:00+24:00", "2020-01-01T00:00:00+01:60", " 2020-01-01", "2020-01-01\n", "20200101", "2020-W01-1", "0000-01-01"])  # fmt: skip
def test_a_text_that_only_looks_like_a_date_is_refused(text: str) -> None:
    for body, type_ in (("insert Person { name: \"n\", born: $x }", "Date"), ("insert Person { name: \"n\", joined: $x }", "DateTime")):  # fmt: skip
        with pytest.raises(QueryInvalid, match="ISO 8601"):
            bind(body, f"$x: {type_}", {"x": text})
