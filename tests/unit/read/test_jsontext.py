"""Every value of every kind as JSON: read back it is the same value, and its spelling is fixed."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.read.jsontext import json_text, string_text, text_bytes
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropType, ScalarKind

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ['"', "\\", "\n\r\t", "\x00\x1f\x7f", "\u2028", "a\\u0041"]
)
MOMENTS = st.datetimes(timezones=st.just(dt.UTC))
SCALARS: dict[ScalarKind, st.SearchStrategy[Any]] = {
    ScalarKind.STRING: TEXTS,
    ScalarKind.BLOB: st.binary(max_size=20),
    ScalarKind.BOOL: st.booleans(),
    ScalarKind.I32: st.integers(-(2**31), 2**31 - 1),
    ScalarKind.I64: st.integers(-(2**63), 2**63 - 1),
    ScalarKind.U32: st.integers(0, 2**32 - 1),
    ScalarKind.U64: st.integers(0, 2**64 - 1),
    ScalarKind.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    ScalarKind.F64: st.floats(allow_nan=False, allow_infinity=False),
    ScalarKind.DATETIME: MOMENTS,
    ScalarKind.DATE: st.dates(),
}
KINDS = [PropType(scalar) for scalar in SCALARS]
KINDS += [PropType(scalar, is_list=True) for scalar in SCALARS if scalar is not ScalarKind.BLOB]
KINDS += [PropType(ScalarKind.VECTOR, dim=3)]


def values_of(kind: PropType) -> st.SearchStrategy[Any]:
    if kind.scalar is ScalarKind.VECTOR:
        return st.lists(SCALARS[ScalarKind.F32], min_size=3, max_size=3)
    if kind.is_list:
        return st.lists(st.none() | SCALARS[kind.scalar], max_size=4)
    return SCALARS[kind.scalar]


def from_json(kind: PropType, value: Any) -> Any:
    """What the text says, as a value of the kind."""
    if value is None:
        return None
    if kind.is_list or kind.scalar is ScalarKind.VECTOR:
        scalar = PropType(ScalarKind.F32 if kind.scalar is ScalarKind.VECTOR else kind.scalar)
        return [from_json(scalar, item) for item in value]
    match kind.scalar:
        case ScalarKind.BLOB:
            assert value.startswith("base64:")
            return base64.b64decode(value.removeprefix("base64:"), validate=True)
        case ScalarKind.DATE:
            return dt.date.fromisoformat(value)
        case ScalarKind.DATETIME:
            assert value.endswith("Z")
            assert len(value) in (24, 27)
            return dt.datetime.fromisoformat(value)
        case ScalarKind.F32:
            return float(np.float32(value))
    return value


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right and type(left) is type(right))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_what_is_written_reads_back_as_the_same_value(kind: PropType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | values_of(kind), max_size=12))
    column = pa.array(values, arrow_type(kind))
    cut = data.draw(st.integers(0, len(values)))
    for part, wanted in ((column, values), (column.slice(cut), values[cut:]), (column.slice(0, cut), values[:cut])):
        texts = json_text(kind, part)
        assert texts.null_count == 0
        assert len(texts) == len(wanted)
        for text, value in zip(texts.to_pylist(), wanted, strict=True):
            assert same(from_json(kind, json.loads(text)), value), (text, value)


@pytest.mark.parametrize(
    ("scalar", "value", "text"),
    [
        (ScalarKind.F64, 0.1, "0.1"),
        (ScalarKind.F64, 1.0, "1.0"),
        (ScalarKind.F64, -0.0, "-0.0"),
        (ScalarKind.F64, 1e10, "10000000000.0"),
        (ScalarKind.F64, 123456789012345680.0, "123456789012345680.0"),
        (ScalarKind.F64, 1e20, "100000000000000000000.0"),
        (ScalarKind.F64, 1e21, "1e+21"),
        (ScalarKind.F64, 1e-6, "0.000001"),
        (ScalarKind.F64, 1e-7, "1e-7"),
        (ScalarKind.F64, 5e-324, "5e-324"),
        (ScalarKind.F64, math.inf, '"Infinity"'),
        (ScalarKind.F64, -math.inf, '"-Infinity"'),
        (ScalarKind.F64, math.nan, '"NaN"'),
        (ScalarKind.F32, 0.1, "0.1"),
        (ScalarKind.F32, 16777216.0, "16777216.0"),
        (ScalarKind.U64, 2**64 - 1, "18446744073709551615"),
        (ScalarKind.I64, -(2**63), "-9223372036854775808"),
        (ScalarKind.DATE, dt.date(1, 1, 1), '"0001-01-01"'),
        (ScalarKind.DATETIME, dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC), '"2024-05-06T07:08:09.000Z"'),
        (ScalarKind.DATETIME, dt.datetime(2024, 5, 6, 7, 8, 9, 120000, tzinfo=dt.UTC), '"2024-05-06T07:08:09.120Z"'),
        (ScalarKind.DATETIME, dt.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=dt.UTC), '"1969-12-31T23:59:59.000001Z"'),
        (ScalarKind.BLOB, b"\x00\xff", '"base64:AP8="'),
        (ScalarKind.BLOB, b"", '"base64:"'),
        (ScalarKind.STRING, "é\u2028", '"é\u2028"'),
        (ScalarKind.STRING, 'a"b\\c\n\x01', '"a\\"b\\\\c\\n\\u0001"'),
    ],
)
def test_spelling_is_fixed(scalar: ScalarKind, value: Any, text: str) -> None:
    kind = PropType(scalar)
    assert json_text(kind, pa.array([value], arrow_type(kind))).to_pylist() == [text]


@given(st.lists(st.none() | TEXTS, max_size=20))
def test_a_text_is_one_line(values: list[str | None]) -> None:
    texts = string_text(pa.array(values, pa.utf8()))
    for text, value in zip(texts.to_pylist(), values, strict=True):
        assert (text is None) == (value is None)
        if text is not None:
            assert json.loads(text) == value
            assert "\n" not in text
            assert "\r" not in text


@given(st.lists(TEXTS, max_size=20), st.integers(0, 20), st.sampled_from([pa.utf8(), pa.large_utf8()]))
def test_the_bytes_of_a_column_are_its_texts_end_to_end(values: list[str], cut: int, kind: pa.DataType) -> None:
    column = pa.array(values, kind).slice(cut)
    assert bytes(text_bytes(column)) == "".join(values[cut:]).encode()
