"""Every static check of mutations and reads, by its code, place and message."""

from __future__ import annotations

import pytest

from omnigraph.core.errors import QueryInvalid
from omnigraph.gq import CODES, bind_mutation, lint, parse_query
from omnigraph.schema import parse_schema
from tests.unit.gq.material import NOW_US, catalog, codes, findings, mutation, warnings


def read(match: str, returns: str = "$p", rest: str = "", params: str = "") -> str:
    return f"query q({params}) {{ match {{ {match} }} return {{ {returns} }} {rest} }}"


# --- mutations ----------------------------------------------------------------------------------------------------------

VALID_MUTATIONS = [
    ("", 'insert Person { name: "a" }'),
    ("", 'insert Person { name: "a", age: 1, ratio: 1, weight: 2, big: 1, small: 1, huge: 18446744073709551615 }'),
    ("", 'insert Person { name: "a", ratio: 1.5, weight: 2.5, age: 3.0 }'),  # numbers fit by value
    ("", 'insert Person { name: "a", mood: "happy", tags: ["x"], scores: [1, 2], vec: [1, 2.5, 3], rates: [1, 0.5] }'),
    ("", 'insert Person { name: "a", joined: now(), born: date("2020-02-29"), days: [date("2020-01-01")] }'),
    ("", 'insert Person { name: "a", joined: datetime("2020-01-01T00:00:00+02:00"), tags: [], active: false }'),
    ("$b: Blob, $s: String", 'insert Person { name: "a", photo: $b } insert Person { name: "b", photo: $s }'),
    ("$b: [Blob], $s: [String]", 'insert Person { name: "a", photos: $b } insert Person { name: "b", photos: $s }'),
    ("$v: Vector(3), $l: [I32]", 'insert Person { name: "a", vec: $v } insert Person { name: "b", vec: $l }'),
    ("$f: F64, $i: U64", 'insert Person { name: "a", age: $f, ratio: $i }'),
    ("$n: String?", "insert Person { name: $n }"),  # whether it is null shows when it is bound
    ("", 'insert Doc { text: "t" }'),  # the source of an embedded vector suffices
    ("", 'insert Slot { place: "p" number: 1 }'),
    ("", 'insert Knows { from: "a", to: "b" }'),
    ("", 'insert KNOWS { from: "a", to: "b" }'),
    ("", 'insert WorksAt { to: "c", role: "r", from: "a" }'),
    ("", 'insert Holds { from: "a", to: 7 }'),
    ("", 'insert On { from: 7, to: date("2020-01-01") }'),
    ("$k: I32", 'insert Holds { from: "a", to: $k }'),
    ("$k: String", 'insert Holds { from: "a", to: $k }'),
    ("", 'update Person set { age: 1 } where name = "a"'),
    ("", "update Company set { size: 1 } where size > 2"),
    ("", 'update Slot set { note: "x" } where number != 3'),
    ("", "delete Person where age >= 3"),
    ("", "delete Person where joined < now()"),
    ("", 'delete Person where mood = "sad"'),
    ("", 'delete Knows where from = "a"'),
    ("", 'delete Knows where to > "a"'),
    ("", "delete Holds where to = 7"),
    ("", 'delete Knows where since = date("2020-01-01")'),
]


@pytest.mark.parametrize(("params", "body"), VALID_MUTATIONS)
def test_a_sensible_mutation_has_no_finding(params: str, body: str) -> None:
    assert findings(mutation(body, params)) == []


INVALID_MUTATIONS = [
    # T10
    ("", 'insert Nobody { a: "x" }', "T10", "Nobody"),
    ("", 'insert person_ { a: "x" }'.replace("person_", "PERSON"), "T10", "PERSON"),
    ("", 'insert Named { name: "x" }', "T10", "Named"),  # an interface has no rows
    ("", 'update Nobody set { a: 1 } where b = "x"', "T10", "Nobody"),
    ("", 'delete Nobody where b = "x"', "T10", "Nobody"),
    ("", "insert Person {}", "T10", "Person"),
    ("", "insert Knows {}", "T10", "Knows"),
    ("", 'update Person set {} where name = "a"', "T10", "Person"),
    # T11
    ("", 'insert Person { name: "a", height: 1 }', "T11", "Person has no property height"),
    ("", 'insert Person { name: "a", Age_: 1 }'.replace("Age_", "aGe"), "T11", "aGe"),
    ("", 'insert Person { name: "a", id: "x" }', "T11", "id"),
    ("", 'insert Person { name: "a", from: "x" }', "T11", "from"),
    ("", 'insert Knows { from: "a", to: "b", src: "c" }', "T11", "src"),
    ("", 'insert Knows { from: "a", to: "b", role: "c" }', "T11", "role"),
    ("", 'update Person set { height: 1 } where name = "a"', "T11", "height"),
    ("", "update Person set { age: 1 } where height = 1", "T11", "height"),
    ("", "delete Person where height = 1", "T11", "height"),
    ("", 'delete Person where from = "a"', "T11", "from"),
    ("", 'delete Knows where src = "a"', "T11", "src"),
    ("$b: Blob", "delete Person where photo = $b", "T11", "Person.photo is Blob"),
    ("$b: Blob", "update Person set { age: 1 } where photo = $b", "T11", "Person.photo"),
    ("$b: Blob", "delete WorksAt where badge = $b", "T11", "WorksAt.badge"),
    ("", 'delete Person where tags = ["a"]', "T11", "Person.tags is [String]"),
    ("", "delete Person where vec = [1, 2, 3]", "T11", "Person.vec is Vector(3)"),
    ("", 'update Person set { name: "b" } where age = 1', "T11", "Person.name is part of @key"),
    ("", "update Slot set { number: 1 } where note = \"x\"", "T11", "Slot.number is part of @key"),
    ("", 'update Slot set { place: "p" } where note = "x"', "T11", "Slot.place is part of @key"),
    # T12
    ("", "insert Person { age: 1 }", "T12", "Person.name"),
    ("", 'insert Slot { place: "p" }', "T12", "Slot.number"),
    ("", "insert Doc { emb: [1, 2] }", "T12", "Doc.text"),
    ("", 'insert Knows { to: "b" }', "T12", "Knows.from"),
    ("", 'insert Knows { from: "b" }', "T12", "Knows.to"),
    ("", 'insert WorksAt { from: "a", to: "b" }', "T12", "WorksAt.role"),
    # T13
    ("", 'insert Person { name: "a", age: 1, age: 2 }', "T13", "Person.age"),
    ("", 'insert Knows { from: "a", to: "b", from: "c" }', "T13", "Knows.from"),
    ("", "update Person set { age: 1 age: 1 } where age = 1", "T13", "Person.age"),
    # T14
    ("", "insert Person { name: $x }", "T14", "$x"),
    ("", "update Person set { age: $x } where age = 1", "T14", "$x"),
    ("", "delete Person where age = $x", "T14", "$x"),
    ("", 'insert Knows { from: $x, to: "b" }', "T14", "$x"),
    ("$x: I32", "delete Person where age = $_", "T14", "$_"),
    # T16
    ("", 'update Knows set { weight: 1 } where from = "a"', "T16", "Knows"),
    ("", 'update KNOWS set { nothing: 1 } where from = "a"', "T16", "Knows"),
    # Q4
    ("", 'insert Person { name: "a" } delete Company where size = 1', "Q4", "query q"),
    ("", 'delete Company where size = 1 update Person set { age: 1 } where name = "a"', "Q4", "query q"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "body", "code", "names"), INVALID_MUTATIONS)
def test_each_fault_of_a_mutation_has_its_code_and_names_its_place(
    params: str, body: str, code: str, names: str
) -> None:
    found = [finding for finding in findings(mutation(body, params)) if finding.is_error]
    assert [finding.code for finding in found] == [code]
    assert found[0].message.startswith(f"{code}: ")
    assert names in found[0].message
    assert found[0].query == "q" and found[0].line == 1 and found[0].column > 10


LITERAL_MISFITS = [
    ("name", "1"), ("name", "true"), ("name", '["a"]'), ("name", "now()"), ("name", 'date("2020-01-01")'),
    ("age", '"1"'), ("age", "true"), ("age", "1.5"), ("age", "2147483648"), ("age", "[1]"), ("age", "now()"),
    ("big", "9223372036854775808"), ("small", "4294967296"), ("huge", "18446744073709551616"), ("huge", "0.5"),
    ("ratio", '"1"'), ("ratio", "true"), ("ratio", "1" + "0" * 39), ("weight", "1" + "0" * 309), ("weight", "9" * 400 + ".0"),
    ("active", "1"), ("active", '"true"'),
    ("mood", '"angry"'), ("mood", '"Happy"'), ("mood", "1"),
    ("born", '"2020-01-01"'), ("born", 'datetime("2020-01-01")'), ("born", 'date("2020-02-30")'), ("born", 'date("today")'),
    ("born", "now()"), ("born", "1"),
    ("joined", '"2020-01-01"'), ("joined", 'date("2020-01-01")'), ("joined", 'datetime("2020-01-01T25:00:00")'),
    ("joined", 'datetime("0001-01-01T00:00:00+01:00")'), ("joined", 'datetime("2020-01-01T00:00:00.0000001")'),
    ("tags", '"a"'), ("tags", "[1]"), ("tags", '["a", 1]'), ("tags", '[["a"]]'), ("tags", "now()"),
    ("scores", "[1.5]"), ("scores", '["1"]'), ("scores", "[9223372036854775808]"),
    ("days", '["2020-01-01"]'), ("days", '[date("2020-13-01")]'), ("days", 'date("2020-01-01")'),
    ("rates", "[1" + "0" * 39 + "]"),
    ("vec", "[1, 2]"), ("vec", "[1, 2, 3, 4]"), ("vec", '[1, 2, "3"]'), ("vec", "1"), ("vec", "[]"), ("vec", "[1, 2, 1" + "0" * 39 + "]"),
    ("photo", '"base64:AAAA"'), ("photos", '["base64:AAAA"]'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "literal"), LITERAL_MISFITS)
def test_a_literal_that_does_not_fit_is_refused_before_anything_runs(name: str, literal: str) -> None:
    others = "" if name == "name" else 'name: "n", '
    (found,) = findings(mutation(f"insert Person {{ {others}{name}: {literal} }}"))
    assert found.code == "T3"
    assert f"Person.{name}" in found.message
    assert len(found.message) < 400 and "\n" not in found.message
    if name not in ("name", "tags", "scores", "days", "rates", "vec", "photo", "photos"):
        assert codes(mutation(f"delete Person where {name} = {literal}")) == ["T3"]
        assert codes(mutation(f"update Person set {{ {name}: {literal} }} where age = 1")) == ["T3"]


PARAM_MISFITS = [
    ("name", ["I32", "Bool", "Date", "Blob", "[String]", "Vector(3)"]),
    ("age", ["String", "Bool", "DateTime", "[I32]", "Vector(3)"]),
    ("ratio", ["String", "Bool", "[F32]", "Vector(3)"]),
    ("active", ["I32", "String", "[Bool]"]),
    ("mood", ["I32", "[String]"]),
    ("born", ["String", "DateTime", "I64", "[Date]"]),
    ("joined", ["String", "Date", "I64"]),
    ("tags", ["String", "[I32]", "[Blob]", "Vector(3)"]),
    ("scores", ["I64", "[String]", "Vector(3)"]),
    ("rates", ["Vector(3)", "[Bool]"]),
    ("vec", ["Vector(2)", "Vector(4)", "[String]", "F32", "String"]),
    ("photo", ["I32", "[Blob]", "[String]", "Vector(3)"]),
    ("photos", ["Blob", "String", "[I32]"]),
]


@pytest.mark.parametrize(("name", "given"), [(name, given) for name, types in PARAM_MISFITS for given in types])
def test_a_parameter_type_that_cannot_fit_is_refused(name: str, given: str) -> None:
    others = "" if name == "name" else 'name: "n", '
    (found,) = findings(mutation(f"insert Person {{ {others}{name}: $x }}", f"$x: {given}"))
    assert found.code == "T7"
    assert f"Person.{name} is " in found.message and f"parameter $x is {given}" in found.message


@pytest.mark.parametrize(
    ("body", "params", "code"),
    [
        ('insert Knows { from: 1, to: "b" }', "", "T3"),  # a person's key is a text
        ("insert Knows { from: $x, to: \"b\" }", "$x: I32", "T7"),
        ('insert WorksAt { from: "a", to: 1, role: "r" }', "", "T3"),  # a company has no key
        ("insert Holds { from: \"a\", to: true }", "", "T3"),
        ("insert Holds { from: \"a\", to: 1.5 }", "", "T3"),
        ("insert Holds { from: \"a\", to: $x }", "$x: [I64]", "T7"),
        ('insert At { from: "a", to: 1 }', "", "T3"),  # a key of two has no value of its own
        ("delete Knows where from = 1", "", "T3"),
        ("delete Holds where to > 7", "", "T3"),  # ids are ordered as texts
        ("delete Holds where to <= $x", "$x: I64", "T7"),
        ("insert Knows { from: now(), to: \"b\" }", "", "T3"),
    ],
)  # fmt: skip
def test_an_end_of_an_edge_is_an_id_or_a_key_value(body: str, params: str, code: str) -> None:
    assert codes(mutation(body, params)) == [code]


def test_all_faults_of_a_query_are_found_in_the_order_of_the_text() -> None:
    text = """query q($unused: I32) {
  insert Person { age: "x", age: 1, height: $no }
  update Knows set { weight: 1 } where from = "a"
  delete Nobody where a = 1
}"""
    found = findings(text)
    assert [(finding.code, finding.line) for finding in found] == [
        ("W1", 1), ("T12", 2), ("T3", 2), ("T13", 2), ("T11", 2), ("T16", 3), ("Q4", 4), ("T10", 4)
    ]  # fmt: skip


def test_the_refusal_of_a_mutation_carries_its_findings() -> None:
    query = parse_query('query q() {\n insert Person { name: 1, age: "x" } }')
    with pytest.raises(QueryInvalid) as caught:
        bind_mutation(query, None, catalog(), NOW_US)
    error = caught.value
    assert error.message.startswith("query q, line 2, column 24: T3: Person.name: expected String")
    assert error.message.endswith("(and 1 more)")
    assert (error.query, error.line, error.column, error.total) == ("q", 2, 24, 2)
    assert [found["code"] for found in error.diagnostics] == ["T3", "T3"]


MEANT = [
    ('insert Persn { name: "a" }', "unknown type: Persn", "did you mean Person?"),
    ("update PERSON set { age: 1 } where age = 2", "unknown type: PERSON", "did you mean Person?"),
    ('delete Knwos where from = "a"', "unknown type: Knwos", "did you mean Knows?"),
    ('insert Zzz { name: "a" }', "unknown type: Zzz", "the schema has Company, Day, Doc"),
    ('update Person set { agee: 1 } where name = "a"', "Person has no property agee", "did you mean age?"),
    ("delete Person where nmae = 1", "Person has no property nmae", "did you mean name?"),
    ('insert Person { nmae: "a" }', "Person has no property nmae", "did you mean name?"),  # and name is not left out
    ('insert Knows { src: "a", to: "b" }', "Knows has no property src", "did you mean from?"),
    ('insert Company { q: "a" }', "Company has no property q", "Company has size, title"),
]


@pytest.mark.parametrize(("body", "message", "hint"), MEANT)
def test_a_name_that_the_schema_does_not_have_is_answered_with_the_nearest(body: str, message: str, hint: str) -> None:
    with pytest.raises(QueryInvalid) as caught:
        bind_mutation(parse_query(mutation(body)), None, catalog(), NOW_US)
    assert message in caught.value.message and caught.value.hint.startswith(hint)
    assert any(one["hint"] == caught.value.hint for one in caught.value.diagnostics)
    assert any(f"{message}; {hint}" in str(one) for one in findings(mutation(body)))


def test_a_hint_names_so_many_and_no_more() -> None:
    wide = parse_schema("node W { " + " ".join(f"property{n}: I32?" for n in range(30)) + " }", mint=str)
    with pytest.raises(QueryInvalid) as caught:
        bind_mutation(parse_query(mutation("insert W { q: 1 }")), None, wide, NOW_US)
    assert caught.value.hint.endswith("property26 and 10 more")


def test_a_refusal_repeats_at_most_twenty_findings() -> None:
    query = parse_query("query q() { " + "insert Nobody { a: 1 } " * 50 + "}")
    with pytest.raises(QueryInvalid) as caught:
        bind_mutation(query, None, catalog(), NOW_US)
    assert len(caught.value.diagnostics) == 20 and caught.value.total == 50


# --- parameters ---------------------------------------------------------------------------------------------------------


def test_a_parameter_declared_twice_is_an_error() -> None:
    assert codes(mutation("delete Person where age = $x", "$x: I32, $x: I64")) == ["Q3"]


def test_the_name_of_now_is_reserved() -> None:
    text = mutation("delete Person where joined = $__nanograph_now", "$__nanograph_now: DateTime")
    assert codes(text) == ["Q3"]


def test_an_unused_parameter_is_a_warning() -> None:
    assert warnings(mutation("delete Person where age = $x", "$x: I32, $y: I32")) == ["W1"]


# --- reads --------------------------------------------------------------------------------------------------------------

VALID_READS = [
    ("$p: Person", "$p", "", ""),
    ("$p: Person $p: Person", "$p.name as n, $p.age as years, now(), 1, \"x\", true", "", ""),
    ("$p: Person { name: $x, tags: \"a\", joined: now(), scores: 1 }", "$p", "", "$x: String"),
    ("$p: Person $p knows $q $q worksAt $c $c.size > 3", "$p, $q.name, $c.title", "", ""),
    ("$c.size > 3 $p worksAt $c $p: Person", "$p", "", ""),  # order of clauses says nothing
    ("$c: Company $p worksAt $c", "$p.name", "", ""),  # the left side is inferred
    ("$c: Company $c worksAt $p", "$p.name", "", ""),  # walked against its direction
    ("$p worksAt $c", "$p.name, $c.title", "", ""),
    ("$p: Person $_ knows $p", "$p", "", ""),
    ("$p: Person $p knows{1,3} $q", "$p, $q", "", ""),
    ("$p: Person not { $p knows $q $q.age = 1 }", "$p", "", ""),
    ("$p: Person not { $q: Person $q.name = $p.name }", "$p", "", ""),
    ("$p: Person not { $p: Person { age: 1 } }", "$p", "", ""),
    ("$p: Person not { $p worksAt $c not { $c: Company $c.size = 1 } }", "$p", "", ""),
    ("$p: Person $p.tags contains \"a\" $p.scores contains 1.5", "$p", "", ""),
    ("$p: Person $l contains $p.name", "$p", "", "$l: [String]"),
    ("$p: Person $p.age = 1.5 $p.big != $p.ratio 3 < $p.huge", "$p", "", ""),
    ("$p: Person $p.born = date(\"2020-01-01\") $p.joined < now() $p.mood = \"sad\"", "$p", "", ""),
    ("$p: Person search($p.bio, \"x\") fuzzy($p.bio, $s, 2) match_text($p.name, $s) = true", "$p", "", "$s: String"),
    ("$p: Person bm25($p.bio, \"x\") > 1.5", "$p, bm25($p.bio, \"x\") as score", "order { bm25($p.bio, \"x\") desc }", ""),
    ("$p: Person", "$p.mood, count($p) as n, sum($p.age), avg($p.ratio), min($p.name), max($p.big)", "order { n desc, $p.mood } limit 5", ""),
    ("$p: Person", "count($p.photo) as n", "", ""),
    ("$p: Person", "$p.age as a, a", "order { a, $p.name desc }", ""),
    ("$p: Person", "$p", "order { nearest($p.vec, $v) } limit 3", "$v: Vector(3)"),
    ("$p: Person", "$p", "order { nearest($p.vec, [1, 2.5, 3]), $p.name } limit 3", ""),
    ("$p: Person", "$p", "order { nearest($p.vec, \"text\") } limit 3", ""),
    ("$p: Person", "$p", "order { nearest($p.vec, $v) } limit 3", "$v: [F64]"),
    ("$p: Person", "$p", "order { rrf(nearest($p.vec, $v), bm25($p.bio, \"x\"), 60) } limit 3", "$v: Vector(3)"),
    ("$p: Person", "$p", "order { rrf(bm25($p.bio, \"x\"), bm25($p.name, \"x\"), $k) } limit 3", "$k: I32"),
]  # fmt: skip


@pytest.mark.parametrize(("match", "returns", "rest", "params"), VALID_READS)
def test_a_sensible_read_has_no_fault(match: str, returns: str, rest: str, params: str) -> None:
    assert codes(read(match, returns, rest, params)) == []


P = "$p: Person"
INVALID_READS = [
    # T1, T2, T4, T5, T6: names
    ("T1", "$p: Nobody", "1", "", ""),
    ("T1", "$p: Named", "1", "", ""),
    ("T1", "$p: Knows", "1", "", ""),
    ("T2", "$p: Person { height: 1 }", "$p", "", ""),
    ("T2", "$p: Person $p.height = 1", "$p", "", ""),
    ("T2", P, "$p.height", "", ""),
    ("T2", P, "$p.name", "order { $p.height }", ""),
    ("T4", f"{P} $p likes $q", "$p", "", ""),
    ("T5", "$c: Company $c knows $q", "$c", "", ""),
    ("T5", "$c: Company $q knows $c", "$c", "", ""),
    ("T5", f"{P} $c: Company $p knows $c", "$p", "", ""),
    ("T5", f"{P} $q: Person $p worksAt $q", "$p", "", ""),
    ("T6", f"{P} $p: Company", "$p", "", ""),
    ("T6", f"{P} $q.age = 1", "$p", "", ""),
    ("T6", P, "$q", "", ""),
    ("T6", P, "$q.name", "", ""),
    ("T6", P, "total", "", ""),
    ("T6", P, "$p", "order { total }", ""),
    ("T6", f"{P} $_ knows $p $_.age = 1", "$p", "", ""),
    ("T6", f"{P} not {{ $p knows $q }}", "$q.name", "", ""),  # bound inside only
    ("T6", P, "$p", "order { 1 }", ""),
    ("T6", P, "$p", "order { count($p) }", ""),
    # T3, T14: values of bindings
    ("T3", "$p: Person { age: \"x\" }", "$p", "", ""),
    ("T3", "$p: Person { tags: 1 }", "$p", "", ""),
    ("T3", "$p: Person { mood: \"angry\" }", "$p", "", ""),
    ("T3", f"{P} $p.mood = \"angry\"", "$p", "", ""),
    ("T3", f"{P} \"angry\" != $p.mood", "$p", "", ""),
    ("T3", f"{P} $p.born = date(\"never\")", "$p", "", ""),
    ("T7", "$p: Person { age: $x }", "$p", "", "$x: String"),
    ("T14", "$p: Person { age: $x }", "$p", "", ""),
    # T7: comparisons
    ("T7", f"{P} $p.age = \"1\"", "$p", "", ""),
    ("T7", f"{P} $p.active = 1", "$p", "", ""),
    ("T7", f"{P} $p.born < now()", "$p", "", ""),
    ("T7", f"{P} $p.tags = \"a\"", "$p", "", ""),
    ("T7", f"{P} $p.tags = $p.tags", "$p", "", ""),
    ("T7", f"{P} $p.vec = $p.vec", "$p", "", ""),
    ("T7", f"{P} $p.photo = $p.photo", "$p", "", ""),
    ("T7", f"{P} $p = $p", "$p", "", ""),
    ("T7", f"{P} $p.name contains \"a\"", "$p", "", ""),
    ("T7", f"{P} $p.tags contains 1", "$p", "", ""),
    ("T7", f"{P} $p.tags contains $p.tags", "$p", "", ""),
    ("T7", f"{P} $p.photos contains $b", "$p", "", "$b: Blob"),
    ("T7", "$p: Person { photo: $b }", "$p", "", "$b: Blob"),
    ("T7", "$p: Person { vec: $b }", "$p", "", "$b: Vector(3)"),
    ("T7", f"{P} nearest($p.vec, [1, 2, 3]) > 1", "$p", "", ""),
    # T8: aggregates
    ("T8", P, "sum($p.name)", "", ""),
    ("T8", P, "avg($p.active)", "", ""),
    ("T8", P, "sum($p.scores)", "", ""),
    ("T8", P, "sum($p)", "", ""),
    ("T8", P, "min($p.active)", "", ""),
    ("T8", P, "max($p.vec)", "", ""),
    ("T8", P, "max($p.photo)", "", ""),
    ("T8", P, "count(1)", "", ""),
    ("T8", P, "count(count($p))", "", ""),
    ("T8", f"{P} count($p) > 1", "$p", "", ""),
    # T9: groups and negations
    ("T9", P, "count($p), 1", "", ""),
    ("T9", P, "count($p), now()", "", ""),
    ("T9", P, "count($p), $x", "", "$x: I32"),
    ("T9", P, "count($p), $p.mood", "order { $p.name }", ""),
    ("T9", f"{P} not {{ $q: Person }}", "$p", "", ""),
    ("T9", f"{P} not {{ $p knows $q not {{ $r: Person }} }}", "$p", "", ""),
    # T15: hops, nearest
    ("T15", f"{P} $p knows{{0,1}} $q", "$p", "", ""),
    ("T15", f"{P} $p knows{{2,1}} $q", "$p", "", ""),
    ("T15", f"{P} $p knows{{1,}} $q", "$p", "", ""),
    ("T15", P, "$p", "order { nearest($p.name, \"x\") } limit 1", ""),
    ("T15", P, "$p", "order { nearest($p.vec, [1, 2]) } limit 1", ""),
    ("T15", P, "$p", "order { nearest($p.vec, [1, 2, \"x\"]) } limit 1", ""),
    ("T15", P, "$p", "order { nearest($p.vec, $v) } limit 1", "$v: Vector(2)"),
    ("T15", P, "$p", "order { nearest($p.vec, $v) } limit 1", "$v: I32"),
    ("T15", P, "$p", "order { nearest($p.vec, 1) } limit 1", ""),
    ("T15", P, "$p", "order { nearest($p.vec, $p.vec) } limit 1", ""),
    # T17, T18, T21: order
    ("T17", P, "$p", "order { nearest($p.vec, [1, 2, 3]) }", ""),
    ("T18", P, "$p.name as n", "order { nearest($p.vec, [1, 2, 3]), n } limit 1", ""),
    ("T21", P, "$p", "order { rrf(bm25($p.bio, \"x\"), bm25($p.name, \"x\")) }", ""),
    ("T21", P, "$p", "order { rrf(bm25($p.bio, \"x\"), bm25($p.name, \"x\"), 0) } limit 1", ""),
    ("T21", P, "$p", "order { rrf(bm25($p.bio, \"x\"), bm25($p.name, \"x\"), 0.0) } limit 1", ""),
    ("T21", P, "$p", "order { rrf(bm25($p.bio, \"x\"), bm25($p.name, \"x\"), \"x\") } limit 1", ""),
    ("T21", P, "$p", "order { rrf(bm25($p.bio, \"x\"), bm25($p.name, \"x\"), $k) } limit 1", "$k: String"),
    # T19, T20: text search
    ("T19", f"{P} search($p.age, \"x\")", "$p", "", ""),
    ("T19", f"{P} search($p.tags, \"x\")", "$p", "", ""),
    ("T19", f"{P} search(\"x\", \"x\")", "$p", "", ""),
    ("T19", f"{P} search($p.bio, 1)", "$p", "", ""),
    ("T19", f"{P} fuzzy($p.bio, $x)", "$p", "", "$x: I32"),
    ("T19", f"{P} fuzzy($p.bio, \"x\", \"y\")", "$p", "", ""),
    ("T19", f"{P} fuzzy($p.bio, \"x\", 1.5)", "$p", "", ""),
    ("T20", f"{P} match_text($p.age, \"x\")", "$p", "", ""),
    ("T20", f"{P} match_text($p.bio, true)", "$p", "", ""),
    ("T20", P, "bm25($p.vec, \"x\")", "", ""),
    ("T20", P, "$p", "order { bm25($p.bio, 1) }", ""),
]  # fmt: skip


@pytest.mark.parametrize(("code", "match", "returns", "rest", "params"), INVALID_READS)
def test_each_fault_of_a_read_has_its_code(code: str, match: str, returns: str, rest: str, params: str) -> None:
    found = [finding for finding in findings(read(match, returns, rest, params)) if finding.is_error]
    assert [finding.code for finding in found] == [code]
    assert found[0].message.startswith(f"{code}: ") and "\n" not in found[0].message


def test_variables_and_projections_that_look_like_mistakes_are_warnings() -> None:
    assert warnings(read("$p: Person $p knows $q")) == ["W3"]
    assert warnings(read("$p: Person not { $p knows $q }")) == ["W3"]
    assert warnings(read("$p: Person $p knows $_")) == []
    assert warnings(read("$p: Person", "$p, $x", params="$x: I32")) == []
    assert warnings(read("$p: Person", "$p", params="$p: I32")) == ["W1", "W4"]
    assert warnings(read("$p: Person", "$p.name, $p.name")) == ["W5"]
    assert warnings(read("$p: Person", "$p.name as x, $p.age as x")) == ["W5"]


def test_a_read_is_not_run_as_a_mutation() -> None:
    with pytest.raises(QueryInvalid, match="query q reads"):
        bind_mutation(parse_query(read("$p: Person")), None, catalog(), NOW_US)


# --- the tables are complete --------------------------------------------------------------------------------------------


def test_every_code_is_given_by_some_text_of_these_tables() -> None:
    seen = {code for _, _, code, _ in INVALID_MUTATIONS} | {code for code, *_ in INVALID_READS}
    texts = [
        read("$p: Person $p knows $q", "$p.name, $p.name", params="$p: I32, $p: I64"),
        "query a() { delete Person where age = 1 } query a() { delete Person where age = 1 }",
        "query a(",
        "query " + "n" * 129,
        "",
    ]
    for text in texts:
        seen.update(found.code for found in lint(text, catalog()))
    assert seen == set(CODES)
