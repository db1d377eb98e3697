"""Parameters from JSON: what each declared type takes, and what the refusal says."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from omnigraph.core.errors import LimitExceeded, QueryInvalid
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.gq import BoundParams, bind_params, parse_params, parse_query


def bound(declared: str, params: object) -> BoundParams:
    return bind_params(parse_query(f"query q({declared}) {{ delete P where a = 1 }}"), params)


def given(type_: str, value: object) -> object:
    return bound(f"$x: {type_}", {"x": value}).values["x"]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("String", ""),
        ("String", 'it\'s "quoted"; --\n\x00 é 𝄞'),
        ("Bool", True),
        ("Bool", False),
        ("I32", -(2**31)),
        ("I32", 2**31 - 1),
        ("I64", -(2**63)),
        ("I64", 2**63 - 1),
        ("U32", 0),
        ("U32", 2**32 - 1),
        ("U64", 0),
        ("U64", 2**64 - 1),
        ("F64", 0.1),
        ("F64", -1.7976931348623157e308),
        ("F32", 0.5),
        ("Blob", "base64:AAAA"),
        ("Date", "2020-01-01"),
        ("DateTime", "2020-01-01T00:00:00Z"),
        ("I32?", None),
        ("[I32]?", None),
        ("Vector(2)?", None),
        ("Date", date(2020, 1, 1)),
        ("DateTime", datetime(2020, 1, 1, tzinfo=UTC)),
        ("Blob", b"\x00\xff"),
    ],
)
def test_a_declared_type_takes_its_values_exactly(type_: str, value: object) -> None:
    result = given(type_, value)
    assert result == value and type(result) is type(value)


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("F64", 1, 1.0),
        ("F64", -(2**63), -9.223372036854775808e18),
        ("F32", 16777217, 16777216.0),  # rounded as the column will hold it
        ("F32", 0.1, 0.10000000149011612),
        ("[I32]", [1, None, 3], (1, None, 3)),
        ("[String]", [], ()),
        ("[Bool]", [True], (True,)),
        ("[F64]", [1, 2.5], (1.0, 2.5)),
        ("[Date]", ["2020-01-01", None], ("2020-01-01", None)),
        ("Vector(3)", [1, 2.5, -3], (1.0, 2.5, -3.0)),
        ("DateTime", datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), datetime(2020, 1, 1, tzinfo=UTC)),
        ("DateTime", datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),  # noqa: DTZ001 - that is the point
    ],
)
def test_numbers_lists_and_instants_are_taken_by_value(type_: str, value: object, expected: object) -> None:
    assert given(type_, value) == expected


MISFITS = [
    ("String", 1, "String", "integer 1"),
    ("String", None, "String", "null"),
    ("String", True, "String", "true"),
    ("String", "\ud800", "Unicode text", "half of a surrogate pair"),
    ("Bool", 1, "Bool", "integer 1"),
    ("Bool", "true", "Bool", 'string "true"'),
    ("I32", 2**31, "I32 from -2147483648 to 2147483647", "integer 2147483648"),
    ("I32", -(2**31) - 1, "I32 from", "integer -2147483649"),
    ("I64", 2**63, "I64 from", "integer 9223372036854775808"),
    ("U32", -1, "U32 from 0 to 4294967295", "integer -1"),
    ("U32", 2**32, "U32 from", "integer 4294967296"),
    ("U64", -1, "U64 from 0 to 18446744073709551615", "integer -1"),
    ("U64", 2**64, "U64 from", "integer 18446744073709551616"),
    pytest.param("U64", 10**5000, "U64 from", "integer of 16610 bits", id="huge"),
    ("I32", 1.0, "I32", "number 1.0"),
    ("I32", "1", "I32", 'string "1"'),
    ("I32", True, "I32", "true"),
    ("I32", [1], "I32", "list of 1"),
    ("I32", {"a": 1}, "I32", "object of 1"),
    ("I32", None, "I32", "null"),
    ("F64", "1", "F64", 'string "1"'),
    ("F64", True, "F64", "true"),
    ("F64", math.nan, "finite F64", "number nan"),
    ("F64", math.inf, "finite F64", "number inf"),
    pytest.param("F64", 10**400, "finite F64", "bits", id="beyond-floats"),
    ("F32", 3.5e38, "finite F32", "number 3.5e+38"),
    ("F32", -math.inf, "finite F32", "number -inf"),
    ("Date", 18262, "Date as a string", "integer 18262"),
    ("Date", True, "Date as a string", "true"),
    ("Date", datetime(2020, 1, 1, tzinfo=UTC), "Date", "datetime 2020"),
    ("Date", None, "Date", "null"),
    ("DateTime", 1577836800000, "DateTime as a string", "integer"),
    ("DateTime", date(2020, 1, 1), "DateTime", "date 2020-01-01"),
    ("DateTime", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "DateTime of the years 1 to 9999", "datetime 0001"),
    ("Blob", 1, "Blob as a string", "integer 1"),
    ("Blob", [1], "Blob as a string", "list of 1"),
    ("[I32]", 1, "[I32]", "integer 1"),
    ("[I32]", "1", "[I32]", 'string "1"'),
    ("[I32]", None, "[I32]", "null"),
    ("[I32]", [1, "2"], "[I32] with I32 from -2147483648 to 2147483647 at index 1", 'string "2"'),
    ("[I32]", [1, 1.5], "[I32] with I32 at index 1", "number 1.5"),
    ("[I32]", [2**31], "[I32] with I32 from", "integer 2147483648"),
    ("[String]", [["a"]], "[String] with String at index 0", "list of 1"),
    ("[Date]", [1], "[Date] with Date as a string at index 0", "integer 1"),
    ("Vector(3)", [1, 2], "Vector(3)", "list of 2"),
    ("Vector(3)", [1, 2, 3, 4], "Vector(3)", "list of 4"),
    ("Vector(3)", "abc", "Vector(3)", 'string "abc"'),
    ("Vector(3)", [1, 2, None], "Vector(3) with F32 at index 2", "null"),
    ("Vector(3)", [1, 2, "3"], "Vector(3) with F32 at index 2", 'string "3"'),
    ("Vector(3)", [1, 2, math.nan], "Vector(3) with finite F32 at index 2", "number nan"),
    ("Vector(3)", None, "Vector(3)", "null"),
    ("I32?", "1", "I32", 'string "1"'),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "expected", "received"), MISFITS)
def test_a_misfit_names_parameter_expected_and_received(
    type_: str, value: object, expected: str, received: str
) -> None:
    with pytest.raises(QueryInvalid) as caught:
        given(type_, value)
    error = caught.value
    assert (error.query, error.parameter) == ("q", "x")
    assert error.expected.startswith(expected) and received in error.received
    assert error.message == f"query q: parameter $x: expected {error.expected}, received {error.received}"
    assert "\n" not in error.message
    assert pickle.loads(pickle.dumps(error)).to_dict() == error.to_dict()


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(QueryInvalid) as caught:
        given("I32", "x" * 1_000_000)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("params", [[], [1], "x", 1, True, ["a", "b"]])
def test_parameters_are_an_object_or_nothing(params: object) -> None:
    with pytest.raises(QueryInvalid, match="parameters must be an object"):
        bound("", params)


@pytest.mark.parametrize("params", [None, {}])
def test_no_parameters_are_no_parameters(params: object) -> None:
    assert dict(bound("", params).values) == {}


def test_an_omitted_nullable_parameter_is_null_and_another_is_absent() -> None:
    result = bound("$a: I32?, $b: I32", {})
    assert result.values == {"a": None}
    assert "a" in result and "b" not in result


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"bron": 1}, "did you mean born?"),
        ({"born": 1, "$born": 1}, "did you mean born?"),
        ({"x": 1}, "leave the parameter out"),
    ],
)
def test_a_key_that_the_query_does_not_declare_is_refused(given: dict[str, object], hint: str) -> None:
    """Taken for nothing, a misspelled one would make the declared parameter null."""
    with pytest.raises(QueryInvalid, match=r"has no parameter .*it declares \$born, \$name") as caught:
        bound("$born: I32?, $name: String", given)
    assert hint in caught.value.hint


def test_the_value_of_now_cannot_be_given() -> None:
    with pytest.raises(QueryInvalid, match="reserved for now"):
        bound("", {"__nanograph_now": "2020-01-01"})


@pytest.mark.parametrize("name", ["a\nb", "x" * 10_000, '"', "é", "\ud800"])
def test_hostile_names_are_shown_on_one_short_line(name: str) -> None:
    with pytest.raises(QueryInvalid) as caught:
        bound("", {name: object()})
    assert "\n" not in caught.value.message and len(caught.value.message) < 400
    caught.value.message.encode()


def test_names_that_are_no_texts_are_refused() -> None:
    with pytest.raises(QueryInvalid, match="expected a name, received integer 1"):
        bound("", {1: 2})


# --- documents ----------------------------------------------------------------------------------------------------------


def test_a_document_keeps_integers_exactly() -> None:
    assert parse_params('{"a": 18446744073709551615, "b": -9007199254740993, "c": 1.0}') == {
        "a": 2**64 - 1, "b": -9007199254740993, "c": 1.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ('{"a": 1,\n "b": }', "line 2, column 7"),
        ('{"a": NaN}', "received NaN"),
        ('{"a": -Infinity}', "received -Infinity"),
        ('{"a": 1, "a": 2}', 'received string "a" twice'),
        ('{"a": 1} {"b": 2}', "line 1, column 10"),
        ('{"a": ' + "9" * 5000 + "}", "at most 400 digits"),
    ],
)
def test_a_document_that_is_not_json_is_refused(text: str, says: str) -> None:
    with pytest.raises(QueryInvalid) as caught:
        parse_params(text)
    assert "parameters are not JSON" in caught.value.message and says in caught.value.message


def test_a_document_nested_without_end_is_refused() -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_params('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert caught.value.limit == "nesting"


def test_a_document_beyond_the_size_limit_is_refused() -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_params(" " * (DEFAULT_LIMITS.source_text_bytes + 1))
    assert caught.value.limit == "source_text_bytes"
    assert parse_params("1" + " " * (DEFAULT_LIMITS.source_text_bytes - 1)) == 1
