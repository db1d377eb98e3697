"""Cells of CSV: what is read a column at a time is what would be read a cell at a time, and only odd cells are."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.write.sources import tables
from omnigraph.write.sources.tables import read_json_values, read_texts
from omnigraph.write.values.columns import build_column

FLOATS = (ScalarKind.F32, ScalarKind.F64)
INTEGERS = (ScalarKind.I32, ScalarKind.I64, ScalarKind.U32, ScalarKind.U64)
KINDS = (ScalarKind.BOOL, *INTEGERS, *FLOATS, ScalarKind.DATE, ScalarKind.DATETIME)

DIGITS = st.text("0123456789", min_size=1, max_size=45)
NUMBERS = st.one_of(
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.integers(-(2**66), 2**66).map(str),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-", "+"]), DIGITS, DIGITS),
    st.builds("{}.{}e{}".format, DIGITS, DIGITS, st.integers(-400, 400)),
)
MOMENTS = st.one_of(
    st.dates().map(str),
    st.datetimes().map(lambda one: one.isoformat() + "Z"),
    st.builds(
        "{:%Y-%m-%d}{}{:%H:%M:%S}{}{}".format,
        st.dates(),
        st.sampled_from("T t"),
        st.times(),
        st.sampled_from(["", ".5", ".123456", ".1234567"]),
        st.sampled_from(["", "Z", "z", "+02:00", "-23:59", "+24:00", "+23:60", "+00:00", "-0330", "+05"]),
    ),
    st.sampled_from(["2024-02-30", "0000-01-01", "2024-01-01T25:00:00Z", "2024-01-01T10:00:00.1234567Z"]),
)
TEXTS = st.one_of(NUMBERS, MOMENTS, st.sampled_from(["true", "false", "True", "yes", "1", " 7 ", "", "nan", "-0"]))


def bits(value: Any) -> Any:
    """Floats by their bits: 0.0 and -0.0 differ."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def refused(bad: Any) -> dict[int, tuple[str, str]]:
    return {row: (one.code, one.reason) for one in bad for row in one.rows.tolist()}


@pytest.mark.parametrize("scalar", KINDS)
@given(texts=st.lists(st.none() | TEXTS, max_size=12))
def test_a_column_of_texts_reads_as_its_cells_do(scalar: ScalarKind, texts: list[str | None]) -> None:
    kind = PropType(scalar, nullable=True)
    taken, bad = read_texts(kind, pa.array(texts, pa.utf8()))
    values, refusals = build_column(kind, [tables._from_text(kind, text) for text in texts])
    assert taken.type == values.type and len(taken) == len(texts)
    assert refused(bad) == {row: (one.code, one.reason) for row, one in refusals.items()}
    for row, (got, wanted) in enumerate(zip(taken.to_pylist(), values.to_pylist(), strict=True)):
        assert row in refusals or bits(got) == bits(wanted), texts[row]


@pytest.mark.parametrize("scalar", [ScalarKind.DATE, ScalarKind.DATETIME])
@given(texts=st.lists(st.none() | MOMENTS, max_size=12))
def test_texts_of_json_read_as_values_of_records_do(scalar: ScalarKind, texts: list[str | None]) -> None:
    kind = PropType(scalar, nullable=True)
    taken, bad = read_json_values(kind, pa.array(texts, pa.utf8()))
    values, refusals = build_column(kind, texts)
    assert refused(bad) == {row: (one.code, one.reason) for row, one in refusals.items()}
    for row, (got, wanted) in enumerate(zip(taken.to_pylist(), values.to_pylist(), strict=True)):
        assert row in refusals or got == wanted, texts[row]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("scalar", FLOATS)
@given(
    numbers=st.lists(st.none() | st.floats() | st.floats(width=32) | st.sampled_from([1.1, 1e39, 1e-60]), max_size=12)
)
def test_numbers_of_json_read_as_values_of_records_do(
    scalar: ScalarKind, many: bool, numbers: list[float | None]
) -> None:
    kind = PropType(scalar, nullable=True, is_list=many)
    values: list[Any] = [None if number is None else [number, None] for number in numbers] if many else numbers
    taken, bad = read_json_values(kind, pa.array(values, pa.list_(pa.float64()) if many else pa.float64()))
    wanted, refusals = build_column(kind, values)
    assert refused(bad).keys() == refusals.keys()
    for row, (got, told) in enumerate(zip(taken.to_pylist(), wanted.to_pylist(), strict=True)):
        assert row in refusals or got == told, values[row]


@pytest.mark.parametrize(
    ("scalar", "plain", "odd"),
    [
        (ScalarKind.BOOL, ["true", "false", None], "TRUE"),
        (ScalarKind.I32, ["1", "-20", None], "2147483648"),
        (ScalarKind.F64, ["0.09553111288921314", "0.012345678901234567", "1.5e-7", "12"], "inf"),
        (ScalarKind.F32, ["0.1", "1e30"], "1e39"),
        (ScalarKind.DATE, ["2024-02-29", None], "2024-1-1"),
        (
            ScalarKind.DATETIME,
            ["2024-02-29T01:02:03.5Z", "2024-02-29 01:02:03", "2024-02-29 01:02:03.000001+02:00", None],
            "2024-02-29T01:02",
        ),
    ],
)
def test_only_cells_that_are_written_oddly_are_read_one_by_one(
    scalar: ScalarKind, plain: list[str | None], odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As floats are written by those who write many: with all their digits."""
    one_by_one: list[str | None] = []
    whole = tables._from_text
    monkeypatch.setattr(tables, "_from_text", lambda kind, text: one_by_one.append(text) or whole(kind, text))
    read_texts(PropType(scalar, nullable=True), pa.array([*plain, odd, *plain], pa.utf8()))
    assert one_by_one == [odd]
