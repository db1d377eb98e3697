"""Key texts are stored as ids: one value, one text, the same from Python and from Arrow, for ever."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.core.errors import DataInvalid
from omnigraph.schema import parse_schema
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.schema.keytext import (
    canonical_id,
    column_text,
    derive_id,
    derive_ids,
    join_texts,
    tuple_text,
    value_text,
)
from tests.steps import steps

K = ScalarKind
UTC = dt.UTC
EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))

# Whoever changes a line here changes ids that graphs have stored.
TEXTS: list[tuple[ScalarKind, Any, str]] = [
    (K.STRING, "", ""),
    (K.STRING, 'a"\\\n é\x00', 'a"\\\n é\x00'),
    (K.BOOL, True, "true"),
    (K.BOOL, False, "false"),
    (K.I32, -(2**31), "-2147483648"),
    (K.I64, 2**63 - 1, "9223372036854775807"),
    (K.U32, 2**32 - 1, "4294967295"),
    (K.U64, 2**64 - 1, "18446744073709551615"),
    (K.I64, 0, "0"),
    (K.DATE, dt.date(1, 1, 1), "0001-01-01"),
    (K.DATE, dt.date(1969, 12, 31), "1969-12-31"),
    (K.DATE, dt.date(9999, 12, 31), "9999-12-31"),
    (K.DATETIME, dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC), "2024-02-29T01:02:03.000000Z"),
    (K.DATETIME, dt.datetime(2024, 2, 29, 1, 2, 3, 4), "2024-02-29T01:02:03.000004Z"),  # noqa: DTZ001
    (K.DATETIME, dt.datetime(2024, 1, 1, 1, 0, tzinfo=EAST), "2023-12-31T19:30:00.000000Z"),
    (K.DATETIME, dt.datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
    (K.DATETIME, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "1969-12-31T23:59:59.999999Z"),
    (K.DATETIME, dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "9999-12-31T23:59:59.999999Z"),
    (K.F64, 0.0, "0"),
    (K.F64, -0.0, "0"),
    (K.F64, 1.0, "1"),
    (K.F64, 1, "1"),
    (K.F64, -1.5, "-1.5"),
    (K.F64, 0.1, "0.1"),
    (K.F64, 1 / 3, "0.3333333333333333"),
    (K.F64, 100.0, "100"),
    (K.F64, 1e15, "1000000000000000"),
    (K.F64, 12345678901234.5, "12345678901234.5"),
    (K.F64, 2.0**53, "9007199254740992"),
    (K.F64, 123456789012345680000.0, "123456789012345680000"),
    (K.F64, 1e20, "100000000000000000000"),
    (K.F64, 1e21, "1e+21"),
    (K.F64, -1.2345e21, "-1.2345e+21"),
    (K.F64, 1.7976931348623157e308, "1.7976931348623157e+308"),
    (K.F64, 1e-5, "0.00001"),
    (K.F64, 1e-6, "0.000001"),
    (K.F64, 1.5e-6, "0.0000015"),
    (K.F64, 1e-7, "1e-7"),
    (K.F64, -1.5e-7, "-1.5e-7"),
    (K.F64, 5e-324, "5e-324"),
    (K.F32, 0.1, "0.1"),
    (K.F32, 16777216.0, "16777216"),
    (K.F32, 1e10, "10000000000"),
    (K.F32, 3.4028234663852886e38, "3.4028235e+38"),
    (K.F32, 1e-45, "1e-45"),
    (K.F32, -0.0, "0"),
    (K.F32, 1 / 3, "0.33333334"),
]


@pytest.mark.parametrize(("kind", "value", "text"), TEXTS, ids=[f"{k.value} {v!r}" for k, v, _ in TEXTS])
def test_a_value_has_one_text(kind: ScalarKind, value: Any, text: str) -> None:
    prop_type = PropType(kind)
    assert value_text(prop_type, value) == text
    column = pa.array([value, None], arrow_type(prop_type))
    assert column_text(prop_type, column).to_pylist() == [text, None]


VALUES = {
    K.STRING: st.text(st.characters(exclude_categories=["Cs"])),
    K.BOOL: st.booleans(),
    K.I32: st.integers(-(2**31), 2**31 - 1),
    K.I64: st.integers(-(2**63), 2**63 - 1),
    K.U32: st.integers(0, 2**32 - 1),
    K.U64: st.integers(0, 2**64 - 1),
    K.F32: st.floats(allow_nan=False, allow_infinity=False, width=32),
    K.F64: st.floats(allow_nan=False, allow_infinity=False),
    K.DATE: st.dates(),
    K.DATETIME: st.datetimes(timezones=st.just(UTC)),
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_python_and_arrow_agree(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(VALUES)))
    prop_type = PropType(kind)
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=30))
    one_by_one = [None if v is None else value_text(prop_type, v) for v in values]
    column = pa.array(values, arrow_type(prop_type))
    assert column_text(prop_type, column).to_pylist() == one_by_one
    chunked = pa.chunked_array([column.slice(0, 7), column.slice(7)], column.type)
    assert column_text(prop_type, chunked).to_pylist() == one_by_one


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_float_reads_back_from_its_text(double: float, single: float) -> None:
    assert float(value_text(PropType(K.F64), double)) == double
    assert np.float32(value_text(PropType(K.F32), single)) == np.float32(single)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(VALUES[K.STRING], VALUES[K.I64], st.none() | VALUES[K.STRING]), max_size=20))
def test_a_tuple_is_a_compact_json_array_of_texts(rows: list[tuple[str, int, str | None]]) -> None:
    types = [PropType(K.STRING), PropType(K.I64), PropType(K.STRING, nullable=True)]
    columns = [pa.array([row[i] for row in rows], arrow_type(t)) for i, t in enumerate(types)]
    found = tuple_text(types, columns).to_pylist()
    for row, text in zip(rows, found, strict=True):
        if row[2] is None:
            assert text is None
        else:
            assert json.loads(text) == [row[0], str(row[1]), row[2]]
            assert text == join_texts([row[0], str(row[1]), row[2]])


def test_composite_ids_keep_the_declared_order() -> None:
    node = parse_schema("node N { a: String b: I64 c: F64? @key(b, a) }").node("N")
    columns = {"a": pa.array(['x"', "é\n"]), "b": pa.array([1, -2]), "c": pa.array([None, 0.5])}
    texts = ['["1","x\\""]', '["-2","é\\n"]']
    ids = derive_ids(node, columns)
    assert isinstance(ids, pa.Array) and ids.type == pa.utf8()
    assert ids.to_pylist() == texts
    assert [derive_id(node, {"a": 'x"', "b": 1}), derive_id(node, {"a": "é\n", "b": -2})] == texts
    assert derive_id(node, {"a": "x"}) is None
    table = pa.table(columns)
    chunked = derive_ids(node, {name: table[name] for name in table.column_names})
    assert isinstance(chunked, pa.ChunkedArray) and chunked.to_pylist() == texts


def test_two_different_tuples_never_share_a_text() -> None:
    assert join_texts(["a,b", "c"]) != join_texts(["a", "b,c"])
    assert join_texts(['a","b', "c"]) != join_texts(["a", 'b","c'])


def test_a_type_without_a_key_derives_nothing() -> None:
    node = parse_schema("node N { a: String }").node("N")
    assert derive_id(node, {"a": "x"}) is None and derive_ids(node, {"a": pa.array(["x"])}) is None


def test_a_string_column_is_handed_back_as_it_is() -> None:
    column = pa.array(["a", "b"])
    assert column_text(PropType(K.STRING), column) is column
    for other in (pa.large_utf8(), pa.string_view(), pa.dictionary(pa.int32(), pa.utf8())):
        assert column_text(PropType(K.STRING), column.cast(other)).equals(column)


REFUSED: list[tuple[ScalarKind, Any]] = [
    (K.STRING, 1),
    (K.STRING, None),
    (K.BOOL, 1),
    (K.I32, True),
    (K.I32, 2**31),
    (K.I64, 1.0),
    (K.U32, -1),
    (K.U64, 2**64),
    (K.I32, "1"),
    (K.F64, math.nan),
    (K.F64, math.inf),
    (K.F32, -math.inf),
    (K.F32, 1e300),
    (K.F64, 10**400),
    (K.F64, True),
    (K.DATE, dt.datetime(2024, 1, 1, tzinfo=UTC)),
    (K.DATE, "2024-01-01"),
    (K.DATETIME, dt.date(2024, 1, 1)),
    (K.DATETIME, dt.datetime(1, 1, 1, tzinfo=EAST)),
    (K.VECTOR, [1.0]),
    (K.BLOB, b"x"),
]


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=[f"{k.value} {str(v)[:30]}" for k, v in REFUSED])
def test_what_is_of_another_kind_has_no_text(kind: ScalarKind, value: Any) -> None:
    with pytest.raises(DataInvalid):
        value_text(PropType(kind), value)


COLUMNS_REFUSED = [
    (K.STRING, pa.array([1])),
    (K.STRING, pa.array([b"x"])),
    (K.I32, pa.array([2**31])),
    (K.U32, pa.array([-1])),
    (K.I64, pa.array([0.5])),
    (K.I64, pa.array(["x"])),
    (K.F64, pa.array([1.0, math.nan])),
    (K.F32, pa.array([None, math.inf], pa.float32())),
    (K.DATE, pa.array([-719163], pa.int32()).cast(pa.date32())),
    (K.DATE, pa.array([2932897], pa.int32()).cast(pa.date32())),
    (K.DATETIME, pa.array([-62135596800000001], pa.timestamp("us", "UTC"))),
    (K.DATETIME, pa.array([253402300800000000], pa.timestamp("us", "UTC"))),
    (K.DATETIME, pa.array([1], pa.timestamp("ns", "UTC"))),
    (K.VECTOR, pa.array([[1.0]])),
]


@pytest.mark.parametrize(("kind", "column"), COLUMNS_REFUSED, ids=[f"{k.value} {c.type}" for k, c in COLUMNS_REFUSED])
def test_a_column_of_another_kind_has_no_text(kind: ScalarKind, column: Any) -> None:
    with pytest.raises(DataInvalid):
        column_text(PropType(kind), column)


def test_empty_and_all_null_columns_are_fine() -> None:
    for kind in VALUES:
        prop_type = PropType(kind, nullable=True)
        for values in ([], [None, None]):
            assert column_text(prop_type, pa.array(values, arrow_type(prop_type))).to_pylist() == values


@pytest.mark.parametrize("kind", [K.STRING, K.I64], ids=str)
def test_texts_of_a_column_take_as_many_calls_for_a_million_rows_as_for_a_thousand(kind: ScalarKind) -> None:
    def work(count: int) -> None:
        column_text(PropType(kind), pa.array(np.arange(count)).cast(arrow_type(PropType(kind))))

    work(1)  # imports
    few, many = steps(lambda: work(1_000)), steps(lambda: work(1_000_000))
    assert many <= few + 10


# --- other spellings of an id -------------------------------------------------------------------------------------------

SLOT = parse_schema(
    """
    node Slot { room: String  hour: I64  on: Date  level: F64  @key(room, hour) }
    node Day { day: Date @key }
    node Moment { at: DateTime @key }
    node Number { number: I64 @key }
    node Word { word: String @key }
    node Free { word: String }
    """,
    mint=str,
)

SPELLINGS = [
    ("Slot", '["x","1"]', '["x","1"]'),
    ("Slot", '["x",1]', '["x","1"]'),
    ("Slot", ' ["x", "01"]', '["x","1"]'),
    ("Slot", '["\\u0078","1"]', '["x","1"]'),
    ("Slot", '["x","1","z"]', None),
    ("Slot", '["x","one"]', None),
    ("Slot", '["x",1.5]', None),
    ("Slot", "[7,1]", None),
    ("Slot", '["x",null]', None),
    ("Slot", '{"room":"x","hour":1}', None),
    ("Slot", "x", None),
    ("Slot", "[" * 100_000, None),
    ("Day", "2026-01-02", "2026-01-02"),
    ("Day", "20260102", "2026-01-02"),
    ("Day", "2026-02-30", None),
    ("Moment", "2026-01-02T03:04+01:00", "2026-01-02T02:04:00.000000Z"),
    ("Number", "007", "7"),
    ("Number", "seven", None),
    ("Word", '["x", 1]', '["x", 1]'),
    ("Free", "anything", "anything"),
]


@pytest.mark.parametrize(("type_name", "text", "canonical"), SPELLINGS, ids=lambda one: str(one)[:20])
def test_another_spelling_of_an_id_leads_to_the_id(type_name: str, text: str, canonical: str | None) -> None:
    assert canonical_id(SLOT.nodes[type_name], text) == canonical


@pytest.mark.parametrize("kind", list(VALUES), ids=str)
@settings(max_examples=50)
@given(data=st.data())
def test_an_id_is_its_own_spelling(kind: ScalarKind, data: st.DataObject) -> None:
    values = {"v": data.draw(VALUES[kind]), "w": data.draw(VALUES[K.STRING])}
    for key in ("@key(v)", "@key(w, v)"):
        node = parse_schema(f"node N {{ v: {kind.value}  w: String  {key} }}", mint=str).nodes["N"]
        text = derive_id(node, values)
        assert text is not None and canonical_id(node, text) == text
