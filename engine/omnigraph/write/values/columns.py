"""Values of many records as one Arrow column.

The fast way asks once a column which Python kinds occur and lets Arrow convert them together. Whenever something is
out of the ordinary the column is made again a value at a time by ``cells``, which says what is wrong with which row.
Both ways take the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.table.arrays import fixed_size_lists, lists
from omnigraph.write.values.cells import DAY_BOUNDS, Refusal, convert

pc: Any = pyarrow.compute

_NONE: Final = type(None)
_PLAIN_KINDS: Final[dict[ScalarKind, frozenset[type]]] = {
    ScalarKind.STRING: frozenset({str, _NONE}),
    ScalarKind.BOOL: frozenset({bool, _NONE}),
    ScalarKind.I32: frozenset({int, _NONE}),
    ScalarKind.I64: frozenset({int, _NONE}),
    ScalarKind.U32: frozenset({int, _NONE}),
    ScalarKind.U64: frozenset({int, _NONE}),
    ScalarKind.F32: frozenset({float, int, _NONE}),
    ScalarKind.F64: frozenset({float, int, _NONE}),
    ScalarKind.DATE: frozenset({str, _NONE}),
    ScalarKind.DATETIME: frozenset({str, _NONE}),
}
# The shapes that Arrow reads exactly as ``cells`` does; it refuses a day or an hour that does not exist.
_DATE_TEXT: Final = r"\A\d{4}-\d{2}-\d{2}\z"
_MOMENT_TEXT: Final = r"\A\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3}|\.\d{6})?Z\z"

Refused = dict[int, Refusal]


def build_column(kind: PropType, values: Sequence[Any]) -> tuple[pa.Array[Any], Refused]:
    """The column, null where a value is refused, and why, by position."""
    column = _build_at_once(kind, values)
    if column is not None:
        return column, {}
    return _build_one_by_one(kind, values)


def _build_at_once(kind: PropType, values: Sequence[Any]) -> pa.Array[Any] | None:
    if kind.is_list:
        return _lists_at_once(kind, values)
    if kind.scalar is ScalarKind.VECTOR:
        return _vectors_at_once(kind, values)
    plain = _PLAIN_KINDS.get(kind.scalar)
    kinds = set(map(type, values))
    if plain is None or not kinds <= plain:
        return None
    if kind.scalar in (ScalarKind.DATE, ScalarKind.DATETIME):
        return _times_at_once(kind, values)
    try:
        column = pa.array(values, arrow_type(kind))
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    if kind.scalar.is_float and not _all_finite(column):
        return None
    return column


def _all_finite(column: pa.Array[Any]) -> bool:
    return bool(pc.all(pc.is_finite(column), min_count=0).as_py())


def _times_at_once(kind: PropType, values: Sequence[Any]) -> pa.Array[Any] | None:
    try:
        texts = pa.array(values, pa.utf8())
    except UnicodeError:
        return None
    shape = _DATE_TEXT if kind.scalar is ScalarKind.DATE else _MOMENT_TEXT
    if not pc.all(pc.match_substring_regex(texts, shape), min_count=0).as_py():
        return None
    try:
        column = pc.cast(texts, arrow_type(kind))
    except pa.ArrowException:
        return None
    # Arrow knows a year 0000, a calendar does not.
    low = pc.min(column.view(pa.int32() if kind.scalar is ScalarKind.DATE else pa.int64())).as_py()
    unit = 1 if kind.scalar is ScalarKind.DATE else 86_400_000_000
    return column if low is None or low >= DAY_BOUNDS[0] * unit else None


def _lists_at_once(kind: PropType, values: Sequence[Any]) -> pa.Array[Any] | None:
    if not set(map(type, values)) <= {list, _NONE}:
        return None
    element = PropType(kind.scalar, nullable=True)
    flat = [item for value in values if value is not None for item in value]
    items = _build_at_once(element, flat)
    if items is None:
        return None
    offsets: list[int | None] = [0]
    end = 0
    for value in values:
        end += 0 if value is None else len(value)
        offsets.append(end)
    mask = pa.array([value is None for value in values], pa.bool_())
    column: pa.Array[Any] = lists(pa.array(offsets, pa.int32()), items, arrow_type(kind), mask)
    return column


def _vectors_at_once(kind: PropType, values: Sequence[Any]) -> pa.Array[Any] | None:
    assert kind.dim is not None
    if set(map(type, values)) != {list} or set(map(len, values)) != {kind.dim}:
        return None
    items = _build_at_once(PropType(ScalarKind.F32), [item for value in values for item in value])
    if items is None or items.null_count:
        return None
    column: pa.Array[Any] = fixed_size_lists(items, arrow_type(kind))
    return column


def _build_one_by_one(kind: PropType, values: Sequence[Any]) -> tuple[pa.Array[Any], Refused]:
    refused: Refused = {}
    converted: list[Any] = []
    for position, value in enumerate(values):
        try:
            converted.append(convert(kind, value))
        except Refusal as refusal:
            refused[position] = refusal
            converted.append(None)
    return pa.array(converted, arrow_type(kind)), refused
