"""What a property takes from a record: every kind, at its edges; and the fast way takes exactly what the patient one does."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.write.values import columns
from omnigraph.write.values.cells import to_json
from omnigraph.write.values.columns import build_column

S = ScalarKind
UTC = dt.UTC

TAKEN: list[tuple[PropType, Any, Any]] = [
    (PropType(S.STRING), "", ""),
    (PropType(S.STRING), "a\n'\"\0\u2028", "a\n'\"\0\u2028"),
    (PropType(S.BOOL), False, False),
    (PropType(S.I32), -(2**31), -(2**31)),
    (PropType(S.I32), 2**31 - 1, 2**31 - 1),
    (PropType(S.I64), 2**63 - 1, 2**63 - 1),
    (PropType(S.U32), 2**32 - 1, 2**32 - 1),
    (PropType(S.U64), 2**64 - 1, 2**64 - 1),
    (PropType(S.F64), 1, 1.0),
    (PropType(S.F64), 2**70, float(2**70)),
    (PropType(S.F64), 2**53 + 1, float(2**53)),
    (PropType(S.F32), 0.1, float(np.float32(0.1))),
    (PropType(S.DATE), "2024-02-29", dt.date(2024, 2, 29)),
    (PropType(S.DATE), "0001-01-01", dt.date(1, 1, 1)),
    (PropType(S.DATE), "9999-12-31", dt.date(9999, 12, 31)),
    (PropType(S.DATE), "2024-02-29T23:59:59+12:00", dt.date(2024, 2, 29)),
    (PropType(S.DATE), 0, dt.date(1970, 1, 1)),
    (PropType(S.DATE), -1, dt.date(1969, 12, 31)),
    (PropType(S.DATETIME), "2024-02-29T12:00:00Z", dt.datetime(2024, 2, 29, 12, tzinfo=UTC)),
    (PropType(S.DATETIME), "2024-02-29T12:00:00.123456Z", dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)),
    (PropType(S.DATETIME), "2024-02-29T12:00:00.123456000Z", dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)),
    (PropType(S.DATETIME), "2024-02-29T12:00:00+02:00", dt.datetime(2024, 2, 29, 10, tzinfo=UTC)),
    (PropType(S.DATETIME), "2024-02-29T12:00:00", dt.datetime(2024, 2, 29, 12, tzinfo=UTC)),
    (PropType(S.DATETIME), "2024-02-29", dt.datetime(2024, 2, 29, tzinfo=UTC)),
    (PropType(S.DATETIME), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    (PropType(S.DATETIME), dt.datetime.fromisoformat("2024-01-01"), dt.datetime(2024, 1, 1, tzinfo=UTC)),
    (PropType(S.VECTOR, dim=2), [1, 2.5], [1.0, 2.5]),
    (PropType(S.VECTOR, dim=2), np.array([1.0, 2.0]), [1.0, 2.0]),
    (PropType(S.STRING, is_list=True), ["a", None], ["a", None]),
    (PropType(S.I32, is_list=True), [], []),
    (PropType(S.DATE, is_list=True), ["2024-01-01", None], [dt.date(2024, 1, 1), None]),
    (PropType(S.BLOB), "base64:aGk=", b"hi"),
    (PropType(S.BLOB), "base64:", b""),
    (PropType(S.BLOB), b"\xff", b"\xff"),
]

REFUSED: list[tuple[PropType, Any, str]] = [
    (PropType(S.STRING), 1, "wrong-kind"),
    (PropType(S.STRING), "\ud800", "bad-text"),
    (PropType(S.BOOL), 1, "wrong-kind"),
    (PropType(S.BOOL), "true", "wrong-kind"),
    (PropType(S.I32), True, "wrong-kind"),
    (PropType(S.I32), 1.0, "wrong-kind"),
    (PropType(S.I32), "1", "wrong-kind"),
    (PropType(S.I32), 2**31, "out-of-range-integer"),
    (PropType(S.I32), -(2**31) - 1, "out-of-range-integer"),
    (PropType(S.I64), 2**63, "out-of-range-integer"),
    (PropType(S.U32), -1, "out-of-range-integer"),
    (PropType(S.U64), 2**64, "out-of-range-integer"),
    (PropType(S.U64), -1, "out-of-range-integer"),
    (PropType(S.F64), "1", "wrong-kind"),
    (PropType(S.F64), True, "wrong-kind"),
    (PropType(S.F64), math.nan, "not-finite"),
    (PropType(S.F64), math.inf, "not-finite"),
    (PropType(S.F64), 10**400, "not-finite"),
    (PropType(S.F32), 1e39, "not-finite"),
    (PropType(S.DATE), "2023-02-29", "bad-date"),
    (PropType(S.DATE), "0000-01-01", "bad-date"),
    (PropType(S.DATE), "yesterday", "bad-date"),
    (PropType(S.DATE), 1.5, "wrong-kind"),
    (PropType(S.DATE), True, "wrong-kind"),
    (PropType(S.DATE), 10**9, "bad-date"),
    (PropType(S.DATETIME), "2024-02-29T25:00:00Z", "bad-date"),
    (PropType(S.DATETIME), "2024-02-29T12:00:00.1234567Z", "bad-date"),
    (PropType(S.DATETIME), "0001-01-01T00:00:00+01:00", "bad-date"),
    (PropType(S.DATETIME), 10**18, "bad-date"),
    (PropType(S.DATETIME), [], "wrong-kind"),
    (PropType(S.VECTOR, dim=2), [1], "wrong-length"),
    (PropType(S.VECTOR, dim=2), [1, "x"], "wrong-kind"),
    (PropType(S.VECTOR, dim=2), [1, None], "wrong-kind"),
    (PropType(S.VECTOR, dim=2), [1, math.nan], "not-finite"),
    (PropType(S.VECTOR, dim=2), "x", "wrong-kind"),
    (PropType(S.STRING, is_list=True), "a", "wrong-kind"),
    (PropType(S.STRING, is_list=True), {"a": 1}, "wrong-kind"),
    (PropType(S.I32, is_list=True), [1, 2**31], "out-of-range-integer"),
    (PropType(S.I32, is_list=True), [[1]], "wrong-kind"),
    (PropType(S.F64, is_list=True), [math.nan], "not-finite"),
    (PropType(S.BLOB), "http://elsewhere/x", "external-blob"),
    (PropType(S.BLOB), "base64:a", "wrong-kind"),
    (PropType(S.BLOB), 5, "wrong-kind"),
]


@pytest.mark.parametrize(("kind", "value", "stored"), TAKEN, ids=str)
def test_a_value_is_taken_as_it_is_meant(kind: PropType, value: Any, stored: Any) -> None:
    column, refused = build_column(kind, [value, None])
    assert refused == {}
    assert column.to_pylist() == [stored, None]


@pytest.mark.parametrize(("kind", "value", "code"), REFUSED, ids=str)
def test_a_value_of_another_kind_is_refused_and_never_nulled_or_wrapped(kind: PropType, value: Any, code: str) -> None:
    column, refused = build_column(kind, [None, value])
    assert column.to_pylist() == [None, None]
    assert {row: refusal.code for row, refusal in refused.items()} == {1: code}


@pytest.mark.parametrize(("kind", "value", "stored"), TAKEN, ids=str)
def test_what_was_taken_can_be_written_and_taken_again(kind: PropType, value: Any, stored: Any) -> None:
    column, _ = build_column(kind, [value])
    again, refused = build_column(kind, [to_json(kind, column[0].as_py())])
    assert refused == {}
    assert again.equals(column)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**33), 2**33),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["2024-01-01", "2024-01-01T00:00:00Z", "2024-13-01", "0000-01-01", "2024-01-01T00:00:00.5Z", "base64:aGk="]
    ),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.lists(st.floats(allow_nan=False), min_size=2, max_size=2))
KINDS = [PropType(kind, dim=2) if kind is S.VECTOR else PropType(kind) for kind in S]
KINDS += [PropType(kind, is_list=True) for kind in S if kind not in (S.VECTOR, S.BLOB)]


@given(st.sampled_from(KINDS), st.lists(VALUES, min_size=1, max_size=6))
def test_both_ways_take_the_same_values(kind: PropType, values: list[Any]) -> None:
    fast = columns._build_at_once(kind, values)
    patient, refused = columns._build_one_by_one(kind, values)
    if fast is not None:
        assert refused == {}
        assert fast.type == patient.type
        assert fast.to_pylist() == patient.to_pylist()


@given(st.sampled_from(KINDS), st.lists(VALUES, min_size=1, max_size=6))
def test_a_column_says_of_each_value_what_it_says_of_it_alone(kind: PropType, values: list[Any]) -> None:
    column, refused = build_column(kind, values)
    for row, value in enumerate(values):
        alone, why = build_column(kind, [value])
        assert alone.to_pylist() == [column.to_pylist()[row]]
        assert bool(why) == (row in refused)


def test_usual_columns_take_the_fast_way() -> None:
    usual: list[tuple[PropType, list[Any]]] = [
        (PropType(S.STRING), ["a", None]),
        (PropType(S.I32), [1, None]),
        (PropType(S.F64), [1, 2.5, None]),
        (PropType(S.BOOL), [True, None]),
        (PropType(S.DATE), ["2024-01-01", None]),
        (PropType(S.DATETIME), ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.123456Z"]),
        (PropType(S.VECTOR, dim=2), [[1.0, 2.0], [3, 4]]),
        (PropType(S.STRING, is_list=True), [["a"], None, []]),
    ]
    for kind, values in usual:
        assert columns._build_at_once(kind, values) is not None, kind
