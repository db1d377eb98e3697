"""Mutations bound to parameters: what each statement becomes, and what is refused when the values are known."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime

import pytest

from omnigraph.core.errors import QueryInvalid
from omnigraph.gq import (
    BlobUri,
    BoundMutation,
    Comparison,
    DeleteEdge,
    DeleteNode,
    InsertEdge,
    InsertNode,
    UpdateNode,
    bind_mutation,
    parse_queries,
    parse_query,
)
from omnigraph.schema import ScalarKind
from tests.unit.gq.material import NOW_US, bind, catalog, mutation

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def inserted(name: str, text: str, declared: str = "", params: object = None) -> object:
    """What a person's property becomes."""
    (statement,) = bind(f'insert Person {{ name: "n", {name}: {text} }}', declared, params).statements
    assert isinstance(statement, InsertNode)
    return statement.values[name]


def compared(text: str, declared: str = "", params: object = None) -> Comparison:
    (statement,) = bind(f"delete {text}", declared, params).statements
    assert isinstance(statement, DeleteNode | DeleteEdge)
    return statement.predicate


# --- statements ---------------------------------------------------------------------------------------------------------


def test_an_insert_is_a_whole_row_with_the_id_of_its_key() -> None:
    (statement,) = bind('insert Person { name: "Ada", age: 36 }').statements
    assert isinstance(statement, InsertNode)
    person = catalog().node("Person")
    assert statement.type == person
    assert statement.id == "Ada"
    assert list(statement.values) == [prop.name for prop in person.properties]
    given = {name: value for name, value in statement.values.items() if value is not None}
    assert given == {"name": "Ada", "age": 36}


@pytest.mark.parametrize(
    ("body", "id_"),
    [
        ('insert Company { title: "x" }', None),
        ("insert Item { number: 007 }", "7"),
        ('insert Day { day: date("2020-02-29T23:59:59") }', "2020-02-29"),
        ('insert Slot { place: "a\\"b", number: 5 }', '["5","a\\"b"]'),
    ],
)
def test_ids_come_from_keys_in_their_declared_order(body: str, id_: str | None) -> None:
    (statement,) = bind(body).statements
    assert isinstance(statement, InsertNode)
    assert statement.id == id_


@pytest.mark.parametrize(
    ("body", "src", "dst"),
    [
        ('insert Knows { from: "a", to: "b" }', "a", "b"),
        ('insert On { to: date("2020-02-29"), from: 7 }', "7", "2020-02-29"),
        ('insert On { from: "7", to: "2020-02-29" }', "7", "2020-02-29"),
        ('insert At { from: "a", to: "[\\"5\\",\\"x\\"]" }', "a", '["5","x"]'),
    ],
)
def test_ends_of_an_edge_are_ids_however_they_are_given(body: str, src: str, dst: str) -> None:
    (statement,) = bind(body).statements
    assert isinstance(statement, InsertEdge)
    assert (statement.src, statement.dst) == (src, dst)
    assert not {"from", "to", "src", "dst"} & set(statement.values)


def test_ends_of_an_edge_may_be_parameters_of_the_keys_kind() -> None:
    (statement,) = bind("insert On { from: $i, to: $d }", "$i: U64, $d: Date", {"i": 7, "d": "2020-02-29"}).statements
    assert isinstance(statement, InsertEdge)
    assert (statement.src, statement.dst) == ("7", "2020-02-29")


def test_an_edge_has_its_properties() -> None:
    (statement,) = bind('insert WorksAt { from: "a", to: "c", role: "r", marks: [1, 2] }').statements
    assert isinstance(statement, InsertEdge)
    assert statement.values == {"badge": None, "marks": (1, 2), "role": "r"}


def test_an_update_holds_what_is_assigned_and_nothing_else() -> None:
    (statement,) = bind('update Person set { age: 1, mood: "sad" } where name = "a"').statements
    assert isinstance(statement, UpdateNode)
    assert statement.values == {"age": 1, "mood": "sad"}
    assert statement.predicate == Comparison("name", "=", "a", ScalarKind.STRING)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Person where age >= 3", Comparison("age", ">=", 3, ScalarKind.I32)),
        ("Person where weight < 3", Comparison("weight", "<", 3.0, ScalarKind.F64)),
        ("Person where ratio != 0.1", Comparison("ratio", "!=", 0.10000000149011612, ScalarKind.F32)),
        ("Person where active = true", Comparison("active", "=", True, ScalarKind.BOOL)),
        ('Person where mood = "sad"', Comparison("mood", "=", "sad", ScalarKind.STRING)),
        ("Person where joined <= now()", Comparison("joined", "<=", NOW, ScalarKind.DATETIME)),
        ('Person where born = date("2020-01-01")', Comparison("born", "=", date(2020, 1, 1), ScalarKind.DATE)),
        ('Knows where from = "a"', Comparison("src", "=", "a", ScalarKind.STRING)),
        ('Knows where to > "a"', Comparison("dst", ">", "a", ScalarKind.STRING)),
        ("On where from = 7", Comparison("src", "=", "7", ScalarKind.STRING)),
        ('On where to != date("2020-02-29")', Comparison("dst", "!=", "2020-02-29", ScalarKind.STRING)),
        ("Knows where weight = 1", Comparison("weight", "=", 1.0, ScalarKind.F64)),
    ],
)
def test_a_predicate_is_a_typed_value_and_never_a_text(text: str, expected: Comparison) -> None:
    found = compared(text)
    assert found == expected and type(found.value) is type(expected.value)


@pytest.mark.parametrize("text", ["Person where age = $x", "Person where mood = $x", "Knows where from = $x"])
def test_a_null_in_a_predicate_is_kept_and_matches_nothing(text: str) -> None:
    type_ = "I32?" if "age" in text else "String?"
    assert compared(text, f"$x: {type_}", {}).value is None
    assert compared(text, f"$x: {type_}", {"x": None}).value is None


def test_statements_keep_their_order() -> None:
    found = bind(
        'insert Person { name: "a" } insert Knows { from: "a", to: "a" } update Person set { age: 1 } where age = 2'
    )
    assert [type(statement) for statement in found.statements] == [InsertNode, InsertEdge, UpdateNode]
    assert not found.deletes
    assert bind('delete Person where age = 1 delete Knows where from = "a"').deletes


def test_a_bound_mutation_crosses_process_borders() -> None:
    found = bind('insert Person { name: "a", tags: ["x"] } insert Knows { from: "a", to: "b" }')
    assert pickle.loads(pickle.dumps(found)) == found


def test_binding_is_repeatable() -> None:
    text = "insert Person { name: $n, joined: now() }"
    assert bind(text, "$n: String", {"n": "a"}) == bind(text, "$n: String", {"n": "a"})


# --- now ----------------------------------------------------------------------------------------------------------------


def test_now_is_one_instant_for_the_whole_query_to_the_microsecond() -> None:
    found = bind('insert Person { name: "a", joined: now() } update Person set { joined: now() } where joined < now()')
    assert found.now == NOW
    insert, update = found.statements
    assert isinstance(insert, InsertNode) and isinstance(update, UpdateNode)
    assert insert.values["joined"] == update.values["joined"] == update.predicate.value == NOW


@pytest.mark.parametrize(("now_us", "expected"), [(0, datetime(1970, 1, 1, tzinfo=UTC)), (-1, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))])  # fmt: skip
def test_now_is_what_the_caller_says(now_us: int, expected: datetime) -> None:
    found: BoundMutation = bind_mutation(
        parse_query("query q() { delete Person where joined = now() }"), None, catalog(), now_us
    )
    assert found.now == expected


# --- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("age", "2147483647", 2**31 - 1),
        ("age", "3.0", 3),  # by value
        ("big", "9223372036854775807", 2**63 - 1),
        ("small", "4294967295", 2**32 - 1),
        ("huge", "18446744073709551615", 2**64 - 1),
        ("ratio", "1", 1.0),
        ("ratio", "0.1", 0.10000000149011612),
        ("weight", "1", 1.0),
        ("weight", "9007199254740993", 9007199254740992.0),
        ("active", "true", True),
        ("mood", '"happy"', "happy"),
        ("tags", '["a", ""]', ("a", "")),
        ("scores", "[1, 2.0]", (1, 2)),
        ("rates", "[1, 0.1]", (1.0, 0.10000000149011612)),
        ("days", '[date("2020-01-01")]', (date(2020, 1, 1),)),
        ("vec", "[1, 2.5, 0.1]", (1.0, 2.5, 0.10000000149011612)),
        ("born", 'date("2020-02-29")', date(2020, 2, 29)),
        ("born", 'date("2020-02-29T23:59:59-05:00")', date(2020, 2, 29)),
        ("joined", 'datetime("2020-02-29")', datetime(2020, 2, 29, tzinfo=UTC)),
        ("joined", 'datetime("2020-02-29T12:30")', datetime(2020, 2, 29, 12, 30, tzinfo=UTC)),
        ("joined", 'datetime("2020-02-29 12:30:15.5")', datetime(2020, 2, 29, 12, 30, 15, 500000, tzinfo=UTC)),
        ("joined", 'datetime("2020-02-29T12:30:15.123456000z")', datetime(2020, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)),
        ("joined", 'datetime("2020-02-29T00:30:00+01:00")', datetime(2020, 2, 28, 23, 30, tzinfo=UTC)),
        ("joined", 'datetime("2020-02-29T00:30:00-0530")', datetime(2020, 2, 29, 6, 0, tzinfo=UTC)),
        ("joined", "now()", NOW),
    ],
)  # fmt: skip
def test_a_literal_becomes_a_value_of_the_propertys_kind(name: str, text: str, expected: object) -> None:
    found = inserted(name, text)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "type_", "value", "expected"),
    [
        ("age", "I64", 5, 5),
        ("age", "F64", 5, 5),  # by value
        ("huge", "U64", 2**64 - 1, 2**64 - 1),
        ("weight", "I64", 5, 5.0),
        ("ratio", "F64", 0.1, 0.10000000149011612),
        ("born", "Date", "2020-02-29", date(2020, 2, 29)),
        ("born", "Date", date(2020, 2, 29), date(2020, 2, 29)),
        ("joined", "DateTime", "2020-02-29T01:00:00+01:00", datetime(2020, 2, 29, tzinfo=UTC)),
        ("days", "[Date]", ["2020-02-29", None], (date(2020, 2, 29), None)),
        ("mood", "String", "sad", "sad"),
        ("tags", "[String]", ["a", None], ("a", None)),
        ("scores", "[F64]", [1, 2], (1, 2)),
        ("vec", "Vector(3)", [1, 2, 3], (1.0, 2.0, 3.0)),
        ("vec", "[I32]", [1, 2, 3], (1.0, 2.0, 3.0)),
        ("photo", "String", "base64:AP8=", b"\x00\xff"),
        ("photo", "Blob", "base64:", b""),
        ("photo", "Blob", b"\x01", b"\x01"),
        ("photo", "Blob", "s3://bucket/key", BlobUri("s3://bucket/key")),
        ("photos", "[Blob]", ["base64:AP8=", "file:///x", None], (b"\x00\xff", BlobUri("file:///x"), None)),
        ("age", "I32?", None, None),
        ("tags", "[String]?", None, None),
        ("vec", "Vector(3)?", None, None),
        ("photo", "Blob?", None, None),
    ],
)  # fmt: skip
def test_a_parameter_becomes_a_value_of_the_propertys_kind(
    name: str, type_: str, value: object, expected: object
) -> None:
    found = inserted(name, "$x", f"$x: {type_}", {"x": value})
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "type_", "value", "says"),
    [
        ("age", "I64", 2**31, "expected I32 from -2147483648 to 2147483647, received integer 2147483648"),
        ("age", "F64", 1.5, "expected I32 from"),
        ("age", "F64", 1e300, "expected I32 from"),
        ("small", "I32", -1, "expected U32 from 0 to 4294967295, received integer -1"),
        ("big", "U64", 2**63, "expected I64 from"),
        ("ratio", "F64", 1e39, "expected finite F32, received number 1e+39"),
        ("mood", "String", "angry", 'expected enum(happy, sad), received string "angry"'),
        ("born", "Date", "yesterday", 'expected Date in ISO 8601 (not an ISO 8601 date or date-time), received string "yesterday"'),
        ("born", "Date", "2020-02-30", "expected Date in ISO 8601"),
        ("joined", "DateTime", "2020-01-01T00:00:00.0000001", "finer than a microsecond"),
        ("joined", "DateTime", "9999-12-31T23:59:59-01:00", "years 1 to 9999"),
        ("days", "[Date]", ["2020-01-01", "x"], "expected Date in ISO 8601"),
        ("scores", "[F64]", [1, 1.5], "at index 1, received number 1.5"),
        ("vec", "[F64]", [1, 2], "expected Vector(3), received list of 2"),
        ("vec", "[F64]", [1, 2, None], "at index 2, received null"),
        ("photo", "String", "base64:!", "expected base64 of the standard alphabet, padded"),
        ("photo", "String", "base64:AP8", "expected base64"),
        ("photo", "String", "base64:_-8=", "expected base64"),
    ],
)  # fmt: skip
def test_a_parameter_that_does_not_fit_the_property_is_refused(name: str, type_: str, value: object, says: str) -> None:
    with pytest.raises(QueryInvalid) as caught:
        inserted(name, "$x", f"$x: {type_}", {"x": value})
    error = caught.value
    assert says in error.message and "\n" not in error.message
    assert f"parameter $x: Person.{name}: expected" in error.message
    assert (error.query, error.parameter, error.type, error.property) == ("q", "x", "Person", name)
    assert error.line == 1 and error.column > 20


@pytest.mark.parametrize(
    ("body", "declared", "place"),
    [
        ("insert Person { name: $x }", "$x: String?", "Person.name"),
        ("insert Item { number: $x }", "$x: I64?", "Item.number"),
        ('update Company set { title: $x } where title = "a"', "$x: String?", "Company.title"),
        ('insert Knows { from: $x, to: "b" }', "$x: String?", "Knows.from"),
        ('insert Knows { from: "a", to: $x }', "$x: String?", "Knows.to"),
        ('insert WorksAt { from: "a", to: "b", role: $x }', "$x: String?", "WorksAt.role"),
    ],
)
def test_null_for_a_property_that_must_have_a_value_is_refused(body: str, declared: str, place: str) -> None:
    for params in ({}, {"x": None}):
        with pytest.raises(QueryInvalid) as caught:
            bind(body, declared, params)
        assert f"parameter $x: {place}: expected" in caught.value.message
        assert caught.value.received == "null"


@pytest.mark.parametrize(
    "body",
    ["insert Person { name: $x }", 'insert Person { name: "a", bio: $x }', "delete Person where name = $x", 'insert Knows { from: $x, to: "b" }'],
)  # fmt: skip
def test_a_parameter_that_was_not_provided_is_refused_where_it_is_used(body: str) -> None:
    with pytest.raises(QueryInvalid) as caught:
        bind(body, "$x: String", {})
    assert "the parameter was not provided" in caught.value.message
    assert caught.value.parameter == "x"


def test_a_parameter_that_is_not_used_need_not_be_provided() -> None:
    assert bind("delete Person where age = 1", "$x: String").statements


def test_a_date_that_is_not_used_is_not_read() -> None:
    assert bind("delete Person where age = 1", "$x: Date", {"x": "never"}).statements


def test_form_is_refused_before_sense_and_sense_before_values() -> None:
    mixed = "insert Nobody { a: 1 } delete Person where age = $x"
    (unchosen,) = parse_queries(mutation(mixed, "$x: I32")).queries
    with pytest.raises(QueryInvalid, match="Q4"):
        bind_mutation(unchosen, {"x": object()}, catalog(), NOW_US)
    with pytest.raises(QueryInvalid, match="T10"):
        bind("insert Nobody { a: $x }", "$x: I32", {"x": "text"})
    with pytest.raises(QueryInvalid, match="parameter"):
        bind("delete Person where age = $x", "$x: I32", {"x": "text"})
