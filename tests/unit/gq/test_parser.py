"""The grammar: what parses, what does not, where the fault is said to be, and how much a hostile text may cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.core.errors import InvalidInput, LimitExceeded, NotFound, QueryInvalid
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.gq import check_query, format_queries, parse_queries, parse_query, select_query
from omnigraph.gq.tree import (
    Aggregate,
    AliasOf,
    Binding,
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Filter,
    FloatLiteral,
    Hops,
    Insert,
    IntLiteral,
    ListLiteral,
    Mutation,
    Nearest,
    NotExists,
    Now,
    PropertyOf,
    Query,
    RankFusion,
    Read,
    StringLiteral,
    TextClause,
    TextSearch,
    Traversal,
    Update,
    Value,
    Variable,
)
from tests.steps import steps
from tests.unit.gq.material import catalog

READ = "query q() {{ match {{ {} }} return {{ $a }} }}"


def statements(body: str) -> tuple[object, ...]:
    parsed = parse_query(f"query q() {{ {body} }}").body
    assert isinstance(parsed, Mutation)
    return parsed.statements


def value(text: str) -> Value:
    (statement,) = statements(f"insert P {{ x: {text} }}")
    assert isinstance(statement, Insert)
    return statement.assigns[0].value


def read(text: str) -> Read:
    parsed = parse_query(text).body
    assert isinstance(parsed, Read)
    return parsed


def clause(text: str) -> object:
    return read(READ.format(text)).match[0]


def expr(text: str) -> object:
    return read(f"query q() {{ match {{ $a: P }} return {{ {text} }} }}").returns[0].expr


# --- declarations -------------------------------------------------------------------------------------------------------


def test_a_text_may_hold_no_query() -> None:
    assert parse_queries("").queries == ()
    assert parse_queries(" \n// nothing\n/* here */").queries == ()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("String", "String"),
        ("[I32]?", "[I32]?"),
        ("[ Date ]", "[Date]"),
        ("Vector(3)", "Vector(3)"),
        ("Vector ( 3 ) ?", "Vector(3)?"),
        ("DateTime ?", "DateTime?"),
        *[(base, base) for base in ("Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")],
    ],
)
def test_every_parameter_type_parses(text: str, shown: str) -> None:
    (param,) = parse_query(f"query q($x: {text}) {{ delete P where a = $x }}").params
    assert str(param.type) == shown


def test_annotations_describe_a_query() -> None:
    query = parse_query('query q() @instruction("i") @description("d\\n") { delete P where a = 1 }')
    assert (query.description, query.instruction) == ("d\n", "i")


def test_keywords_need_no_blank_after_them() -> None:
    tight = parse_queries("queryq(){insertP{a:1}updateP set{a:2}wherea=1}")
    loose = parse_queries("query q ( ) { insert P { a : 1 } update P set { a : 2 } where a = 1 }")
    assert tight == loose


def test_comments_stand_between_any_two_tokens() -> None:
    plain = 'query q ( $x : [ I32 ] ) { update P set { a : "b" , } where c >= $x }'
    commented = "/**/".join(plain.split(" ")) + "// end"
    assert parse_queries(commented.replace("/**/", " /* * / // */\n")) == parse_queries(plain)


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse_query("\ufeffquery q() { delete P where a = 1 }").name == "q"


def test_names_that_begin_like_words_are_names() -> None:
    text = """query match_all() {
      match { $not_x: P $not_x not_known $true_x $true_x.false_y = 1 }
      return { $not_x.order as limit_a, true_count, count }
      order { limit_a, true_count desc, ascending asc } limit 1
    }"""
    parsed = read(text)
    assert [ordering.expr for ordering in parsed.order] == [
        AliasOf("limit_a"),
        AliasOf("true_count"),
        AliasOf("ascending"),
    ]
    assert parsed.match[1] == Traversal("not_x", "not_known", "true_x")


# --- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", IntLiteral(1)),
        ("007", IntLiteral(7)),
        ("18446744073709551616", IntLiteral(2**64)),
        ("1.50", FloatLiteral("1.50")),
        ("true", BoolLiteral(True)),
        ("false", BoolLiteral(False)),
        ('""', StringLiteral("")),
        (r'"\"\\\n\r\t"', StringLiteral('"\\\n\r\t')),
        ('"a\n\x00é𝄞//"', StringLiteral("a\n\x00é𝄞//")),
        ("now ( )", Now()),
        ("$x", Variable("x")),
        ('date("x")', DateLiteral("x")),
        ('datetime ( "x" )', DateTimeLiteral("x")),
        ("[]", ListLiteral(())),
        ('[1, "a", [true], date("d")]', ListLiteral((IntLiteral(1), StringLiteral("a"), ListLiteral((BoolLiteral(True),)), DateLiteral("d")))),
    ],
)  # fmt: skip
def test_every_value_parses(text: str, expected: Value) -> None:
    assert value(text) == expected


@pytest.mark.parametrize("text", ["null", "-1", "+1", "1e5", ".5", "1.", "'a'", "x", "[$x]", "[now()]", "[1,]", "NaN", "date(1)", "now(1)"])  # fmt: skip
def test_what_has_no_literal_is_refused(text: str) -> None:
    with pytest.raises(QueryInvalid):
        value(text)


# --- mutations ----------------------------------------------------------------------------------------------------------


def test_commas_between_assignments_are_optional() -> None:
    assert statements("insert P { a: 1 b: 2 }") == statements("insert P { a: 1, b: 2, }")


def test_an_empty_assignment_list_is_left_to_the_checks() -> None:
    assert statements("insert P {}") == (Insert("P", ()),)


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_every_comparison_parses(op: str) -> None:
    spaced, tight = statements(f"delete P where b {op} 2 delete P where b{op}2")
    assert isinstance(spaced, Delete)
    assert spaced.where.op == op
    assert spaced == tight


# --- reads --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$a: P", Binding("a", "P")),
        ("$a knows $b", Traversal("a", "knows", "b")),
        ("$a knows{1,2}$_", Traversal("a", "knows", "_", Hops(1, 2))),
        ("$a _knows {1,} $b", Traversal("a", "_knows", "b", Hops(1, None))),
        ("$a contains $b", Traversal("a", "contains", "b")),
        ("$a contains {1,2} $b", Traversal("a", "contains", "b", Hops(1, 2))),
        ("$a contains $b.c", Filter(Variable("a"), "contains", PropertyOf("b", "c"))),
        ('$a.t contains "x"', Filter(PropertyOf("a", "t"), "contains", StringLiteral("x"))),
        ("$a.x <= 1.5", Filter(PropertyOf("a", "x"), "<=", FloatLiteral("1.5"))),
        ("1 != $a.x", Filter(IntLiteral(1), "!=", PropertyOf("a", "x"))),
        ("not { $a knows $b }", NotExists((Traversal("a", "knows", "b"),))),
        ('search($a.t, "x")', TextClause(TextSearch("search", PropertyOf("a", "t"), StringLiteral("x")))),
        ('fuzzy($a.t, "x", 2)', TextClause(TextSearch("fuzzy", PropertyOf("a", "t"), StringLiteral("x"), IntLiteral(2)))),
        ('match_text($a.t, $q) = true', Filter(TextSearch("match_text", PropertyOf("a", "t"), Variable("q")), "=", BoolLiteral(True))),
    ],
)  # fmt: skip
def test_every_clause_parses(text: str, expected: object) -> None:
    assert clause(text) == expected


def test_a_binding_matches_properties() -> None:
    found = clause("$a: P { x: 1, y: $p, z: now(), }")
    assert isinstance(found, Binding)
    assert [(match.name, match.value) for match in found.matches] == [
        ("x", IntLiteral(1)),
        ("y", Variable("p")),
        ("z", Now()),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$a", Variable("a")),
        ("$a.b", PropertyOf("a", "b")),
        ("total", AliasOf("total")),
        ("now()", Now()),
        ("count($a)", Aggregate("count", Variable("a"))),
        ("nearest($a.v, [1, 2.5])", Nearest("a", "v", ListLiteral((IntLiteral(1), FloatLiteral("2.5"))))),
        ("bm25($a.t, $q)", TextSearch("bm25", PropertyOf("a", "t"), Variable("q"))),
        ("rrf(nearest($a.v, $q), bm25($a.t, $q), 60)", RankFusion(Nearest("a", "v", Variable("q")), TextSearch("bm25", PropertyOf("a", "t"), Variable("q")), IntLiteral(60))),
    ],
)  # fmt: skip
def test_every_expression_parses(text: str, expected: object) -> None:
    assert expr(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        READ.format(""),
        READ.format("$a: P {}"),
        READ.format("$a: P { x: 1 y: 2 }"),
        READ.format("not {}"),
        READ.format("$a.x"),
        READ.format("bm25($a.t, $q)"),
        READ.format("$a knows {1} $b"),
        READ.format("$A: P"),
        READ.format("$a: p"),
        READ.format("$a Knows $b"),
        READ.format("$a.x = "),
        READ.format("$a.x == 1"),
        READ.format("soundex($a.x) = 1"),
        "query q() { match { $a: P } }",
        "query q() { match { $a: P } return {} }",
        "query q() { return { $a } match { $a: P } }",
        "query q() { match { $a: P } return { $a } limit 1 order { $a.x } }",
        "query q() { match { $a: P } return { $a } order {} }",
        "query q() { match { $a: P } return { $a } order { $a.x $a.y } }",
        "query q() { match { $a: P } return { $a } limit -1 }",
        "query q() { match { $a: P } return { rrf($a.x, $a.y) } }",
        "query q() { match { $a: P } return { $a } delete P where a = 1 }",
    ],
)
def test_a_malformed_read_is_refused(text: str) -> None:
    with pytest.raises(QueryInvalid):
        parse_queries(text)


# --- faults and their places --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("quer", 1, 1, "expected `query`"),
        ("query Q()", 1, 7, "expected a name, found `Q`"),
        ("query q(", 1, 9, "expected a variable, found the end"),
        ("query q($x)", 1, 11, "expected `:`"),
        ("query q($x: string)", 1, 13, "expected a type name"),
        ("query q($x: Text)", 1, 13, "unknown parameter type: `Text`"),
        ("query q($x: [Vector(3)])", 1, 14, "unknown parameter type"),
        ("query q($x: Vector(0))", 1, 20, "out of range: 0"),
        ("query q($x: Vector(2147483648))", 1, 20, "out of range"),
        ("query q($x: enum(a))", 1, 13, "expected a type name"),
        ("query q($x: I32,)", 1, 17, "expected a variable"),
        ('query q() @title("x") {', 1, 11, "unknown annotation: `@title`"),
        ('query q() @description("x") @description("y") {', 1, 29, "stands twice"),
        ("query q() {\n}", 2, 1, "expected `match`, `insert`, `update` or `delete`"),
        ("query q() {\n  insert person { a: 1 } }", 2, 10, "expected a type name"),
        ("query q() {\n  insert P a: 1 }", 2, 12, "expected `{`"),
        ("query q() {\n  insert P { a = 1 } }", 2, 16, "expected `:`"),
        ("query q() {\n  insert P { a: } }", 2, 17, "expected a value"),
        ("query q() {\n  insert P { a: null } }", 2, 17, "expected a value, found `null`"),
        ("query q() {\n  update P set { a: 1 } }", 2, 25, "expected `where`"),
        ("query q() {\n  delete P }", 2, 12, "expected `where`"),
        ("query q() {\n  delete P where a contains 1 }", 2, 20, "expected a comparison"),
        ("query q() {\n  delete P where a = 1 and b = 2 }", 2, 24, "found `and`"),
        ("query q() {\n  delete P where not a = 1 }", 2, 22, "expected a comparison"),
        ('query q() {\n  delete P where a = "x }', 2, 22, "string is not closed"),
        ("query q() { /* never", 1, 13, "comment is not closed"),
        ('query q() { delete P where a = "a\\qb" }', 1, 34, "unsupported escape in string: \\'q'"),
        ("query q() { delete P where a = $X }", 1, 32, "a variable is `$`"),
        ("query q() { delete P where a = \x00 }", 1, 32, "unexpected character '\\x00'"),
        ("query q() { delete P where a = ' OR 1=1 }", 1, 32, 'unexpected character "\'"'),
        ("query q() { delete P where а = 1 }", 1, 28, "unexpected character '\\u0430'"),  # a Cyrillic letter
        ("query q() { delete P where a = 1; }", 1, 33, "unexpected character ';'"),
        ('query q() { delete P where a = "\ud800" }', 1, 33, "surrogate"),
        ("query q() { delete P where a = " + "9" * 401 + " }", 1, 32, "integer is too large: 401 digits"),
        ("query q() { delete P where a = 1 } garbage", 1, 36, "expected `query`, found `garbage`"),
    ],
)  # fmt: skip
def test_a_fault_of_form_is_refused_at_its_place(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(QueryInvalid) as caught:
        parse_queries(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert says in error.message
    assert error.message.startswith(f"line {line}, column {column}: ")
    assert "\n" not in error.message and "\x00" not in error.message


def test_a_fault_names_the_query_around_it() -> None:
    with pytest.raises(QueryInvalid) as caught:
        parse_queries("query good() { delete P where a = 1 } query bad() { insert }")
    assert caught.value.query == "bad"


def test_positions_of_the_tree_point_into_the_text() -> None:
    (query,) = parse_queries("\n query q($x: I32) {\n  update P set { a: $x }\n where b = 1 }").queries
    assert isinstance(query.body, Mutation)
    (update,) = query.body.statements
    assert isinstance(update, Update)
    assert query.at == (2, 2)
    assert query.params[0].at == (2, 10)
    assert update.at == (3, 3)
    assert update.assigns[0].at == (3, 18)
    assert update.assigns[0].value.at == (3, 21)
    assert update.where.at == (4, 8)


# --- limits -------------------------------------------------------------------------------------------------------------


def padded(size: int) -> str:
    text = 'query q() { delete P where a = "é" }'
    return text + " " * (size - len(text.encode()))


def test_a_text_at_the_size_limit_parses_and_one_byte_more_does_not() -> None:
    bound = DEFAULT_LIMITS.source_text_bytes
    assert parse_query(padded(bound)).name == "q"
    with pytest.raises(LimitExceeded) as caught:
        parse_query(padded(bound + 1))
    assert (caught.value.limit, caught.value.bound, caught.value.actual) == ("source_text_bytes", bound, bound + 1)


@pytest.mark.parametrize("junk", ["{", "[", "(", '"', "/*", "$", "query q() { insert P { a: [", "\\", "é"])
def test_megabytes_of_junk_are_refused(junk: str) -> None:
    """A cost that grows with the square of the length would run into the time limit of every test."""
    text = junk * (2_000_000 // len(junk.encode()))
    with pytest.raises(InvalidInput):
        parse_queries(text)


def test_a_string_of_nine_megabytes_is_a_value() -> None:
    text = "x\\n" * 3_000_000
    assert value(f'"{text}"') == StringLiteral("x\n" * 3_000_000)


def nested_list(depth: int) -> str:
    return f"query q() {{ insert P {{ a: {'[' * depth}{']' * depth} }} }}"


def nested_not(depth: int) -> str:
    return READ.format("not { " * depth + "$a: P" + " }" * depth)


def nested_calls(depth: int) -> str:
    return f"query q() {{ match {{ $a: P }} return {{ {'count(' * depth}$a{')' * depth} }} }}"


def nested_searches(depth: int) -> str:
    return READ.format("search(" * depth + "$a.b" + ', "x")' * depth)


@pytest.mark.parametrize("text_of", [nested_list, nested_not, nested_calls, nested_searches])
def test_nesting_ends_at_the_limit(text_of: object) -> None:
    assert callable(text_of)
    bound = DEFAULT_LIMITS.nesting
    file = parse_queries(text_of(bound))
    # Whatever parses can be printed, checked and compared as well.
    assert parse_queries(format_queries(file)) == file
    assert hash(file) == hash(parse_queries(text_of(bound)))
    check_query(file.queries[0], catalog())
    for depth in (bound + 1, 10_000):
        with pytest.raises(LimitExceeded) as caught:
            parse_queries(text_of(depth))
        assert (caught.value.limit, caught.value.bound, caught.value.actual) == ("nesting", bound, bound + 1)


def test_a_caller_near_the_end_of_its_stack_gets_a_typed_error() -> None:
    text = nested_not(DEFAULT_LIMITS.nesting)

    def sink() -> str:
        # The deepest frames cannot parse at all; on the way up the first that can is reached.
        try:
            return sink()
        except RecursionError:
            return attempt()

    def attempt() -> str:
        try:
            parse_queries(text)
        except LimitExceeded as error:
            return str(error.limit)
        return "parsed"

    for _ in range(3):
        try:
            outcome = sink()
        except RecursionError:
            continue
        assert outcome in ("nesting", "parsed")
        return
    pytest.fail("the stack never left room for an answer")


@pytest.mark.parametrize(
    "text",
    [
        "query {}() {{ delete P where a = 1 }}",
        "query q(${}: I32) {{ delete P where a = 1 }}",
        "query q() {{ delete P{} where a = 1 }}",
        "query q() {{ delete P where {} = 1 }}",
        "query q() {{ delete P where a = ${} }}",
        "query q() {{ match {{ $a {} $b }} return {{ $a }} }}",
    ],
)
def test_names_end_at_the_limit(text: str) -> None:
    bound = DEFAULT_LIMITS.name_chars
    taken = 1 if "P{}" in text else 0
    assert parse_queries(text.format("n" * (bound - taken)))
    with pytest.raises(LimitExceeded) as caught:
        parse_queries(text.format("n" * (bound - taken + 1)))
    assert (caught.value.limit, caught.value.bound, caught.value.actual) == ("name_chars", bound, bound + 1)


def test_limits_can_be_set() -> None:
    limits = replace(DEFAULT_LIMITS, nesting=2, name_chars=6, source_text_bytes=60)
    assert parse_query("query q() { insert P { a: [[]] } }", limits=limits)
    with pytest.raises(LimitExceeded):
        parse_query("query q() { insert P { a: [[[]]] } }", limits=limits)
    with pytest.raises(LimitExceeded):
        parse_query("query too_long() { insert P { a: 1 } }", limits=limits)
    with pytest.raises(LimitExceeded):
        parse_query("query q() { insert P { a: 1 } }" + " " * 30, limits=limits)


# --- choosing a query ---------------------------------------------------------------------------------------------------

TWO = "query a() { delete P where x = 1 } query b() { delete Q where x = 1 }"


def test_the_only_query_needs_no_name() -> None:
    assert select_query(parse_queries("query a() { delete P where x = 1 }")).name == "a"


def test_several_queries_need_a_name() -> None:
    with pytest.raises(QueryInvalid, match="a name is needed: a, b"):
        select_query(parse_queries(TWO))
    assert select_query(parse_queries(TWO), "b").name == "b"


def test_an_unknown_query_is_named() -> None:
    with pytest.raises(NotFound, match="query not found: 'c'"):
        select_query(parse_queries(TWO), "c")
    with pytest.raises(NotFound):
        select_query(parse_queries(TWO), "")


def test_a_text_without_queries_says_so() -> None:
    with pytest.raises(QueryInvalid, match="declares no query"):
        select_query(parse_queries(""))


def test_the_first_query_of_a_name_wins() -> None:
    query = parse_query("query a() { delete P where x = 1 } query a() { delete Q where x = 1 }", "a")
    assert isinstance(query.body, Mutation) and query.body.statements[0].type_name == "P"


MIXED = "query mix() { insert P { a: 1 } delete Q where b = 1 }"


@pytest.mark.parametrize("write", ["insert P { a: 1 }", "update P set { a: 1 } where b = 1"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_query_that_writes_and_deletes_is_refused_before_any_schema_is_known(write: str, is_first: bool) -> None:
    delete = "delete Other where b = 1"
    body = f"{write} {delete}" if is_first else f"{delete} {write}"
    with pytest.raises(QueryInvalid) as caught:
        parse_query(f"query mix() {{ {body} }}")
    assert caught.value.query == "mix"
    assert "query mix has inserts or updates and deletes" in caught.value.message
    assert "first, then the deletes, as separate mutations" in caught.value.message
    assert caught.value.hint.startswith("split the query in two")


def test_mixing_is_judged_for_each_query_alone() -> None:
    file = parse_queries(MIXED + " query fine() { delete P where a = 1 delete Q where b = 1 }")
    assert select_query(file, "fine").name == "fine"
    with pytest.raises(QueryInvalid):
        select_query(file, "mix")


# --- growth -------------------------------------------------------------------------------------------------------------

TYPICAL = """
query add_{0}($name: String, $age: I32?, $when: DateTime) @description("adds a person and whom they know") {{
  insert Person {{ name: $name, age: $age, joined: $when, tags: ["a", "b"], mood: "happy", vec: [1, 2, 0.5] }}
  insert Knows {{ from: $name, to: "Ada", since: date("2020-02-29") }}
  update Person set {{ age: 37, active: true }} where name = $name
}}
"""


def test_parsing_and_checking_take_steps_in_proportion_to_the_number_of_queries() -> None:
    known = catalog()

    def work(count: int) -> None:
        file = parse_queries("".join(TYPICAL.format(n) for n in range(count)))
        errors = [found for query in file.queries for found in check_query(query, known) if found.is_error]
        assert len(file.queries) == count and not errors

    work(1)  # imports and tables that are made once
    few, many = steps(lambda: work(50)), steps(lambda: work(200))
    assert many < 4.2 * few


def test_a_query_is_one_declaration_whether_read_alone_or_among_others() -> None:
    text = "".join(TYPICAL.format(n) for n in range(3))
    alone: list[Query] = [parse_query(TYPICAL.format(n)) for n in range(3)]
    assert list(parse_queries(text).queries) == alone
