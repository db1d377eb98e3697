"""Arrow columns of others in the physical kind of a property, or the rows that cannot be taken.

Only casts that lose nothing: wider integers, other text layouts, dictionaries, coarser or finer moments and decimals
where exact.
The one rounding is that of vectors, whose numbers are single precision whatever the source computed in. A column of
another kind altogether raises ``WrongKind``: there is no row to blame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.table.arrays import fixed_size_lists, lists, nulls
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import RowIndex
from omnigraph.write.values.cells import DAY_BOUNDS, INTEGER_BOUNDS, Refusal, convert

pc: Any = pyarrow.compute
Array = Any  # an Arrow array whose kind is what this module is about

_INTEGER_TYPES: Final = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_DECIMAL_DIGITS_MAX: Final = 76
_UNITS_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class WrongKind(Exception):
    """The whole column is of a kind that the property does not take."""


@dataclass(frozen=True, slots=True)
class BadRows:
    rows: RowIndex
    code: str
    reason: str


Taken = tuple[Array, list[BadRows]]


def conform_column(kind: PropType, column: pa.Array[Any]) -> Taken:
    """The column in the property's kind, and rows (null in it or not, never to be used) that break the kind."""
    column = _plain(column)
    wanted = arrow_type(kind)
    if pa.types.is_null(column.type):
        return nulls(len(column), wanted), []
    if kind.scalar is ScalarKind.VECTOR:
        return _vectors(kind, column)
    if kind.is_list:
        return _lists(kind, column)
    return _SCALARS[kind.scalar](kind.scalar, column)


def _plain(column: Array) -> Array:
    """Without an encoding around the values."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def _bad(mask: Array, code: str, reason: str) -> list[BadRows]:
    if not pc.any(mask).as_py():
        return []
    rows = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
    return [BadRows(rows, code, reason)]


# --- scalars ------------------------------------------------------------------------------------------------------------


def _strings(_: ScalarKind, column: Array) -> Taken:
    if not _is_text(column.type):
        raise WrongKind
    text = column if column.type == pa.utf8() else pc.cast(column, pa.utf8())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return _valid_texts(text)
    return text, []


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _valid_texts(text: Array) -> Taken:
    """Bytes that claim to be UTF-8 and are not; also where a text says that it lies outside its buffer."""
    try:
        raw = text.view(pa.binary())
        raw.validate(full=True)
        values: list[bytes | None] = raw.to_pylist()
    except (pa.ArrowException, IndexError) as error:
        raise WrongKind from error
    texts: list[str | None] = []
    bad: list[int] = []
    for row, value in enumerate(values):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            bad.append(row)
            texts.append(None)
    rows = np.array(bad, dtype=np.int64)
    return pa.array(texts, pa.utf8()), [BadRows(rows, v.BAD_TEXT, "the text is not valid UTF-8")]


def _bools(_: ScalarKind, column: Array) -> Taken:
    if not pa.types.is_boolean(column.type):
        raise WrongKind
    return column, []


def _integers(kind: ScalarKind, column: Array) -> Taken:
    if pa.types.is_decimal(column.type):
        return _decimal_integers(kind, column)
    if not pa.types.is_integer(column.type):
        raise WrongKind
    wanted = arrow_type(PropType(kind))
    if column.type == wanted:
        return column, []
    low, high = INTEGER_BOUNDS[kind]
    source_low, source_high = _INTEGER_TYPES[str(column.type)]
    outside = []
    if source_low < low:
        outside.append(pc.less(column, pa.scalar(low, column.type)))
    if source_high > high:
        outside.append(pc.greater(column, pa.scalar(high, column.type)))
    mask = outside[0] if len(outside) == 1 else pc.or_(*outside) if outside else nulls(len(column), pa.bool_())
    return pc.cast(column, wanted, safe=False), _bad(mask, v.OVERFLOW, f"the integer is outside {low}..{high}")


def _decimal_integers(kind: ScalarKind, column: Array) -> Taken:
    wide = pa.decimal256(_DECIMAL_DIGITS_MAX, 0)
    whole = pc.cast(column, wide, safe=False)
    low, high = INTEGER_BOUNDS[kind]
    bounds = [pa.scalar(Decimal(bound), pa.decimal128(38, 0)).cast(wide) for bound in (low, high)]
    outside = pc.or_(pc.less(whole, bounds[0]), pc.greater(whole, bounds[1]))
    broken = pc.not_equal(
        *(pc.cast(each, pa.decimal256(_DECIMAL_DIGITS_MAX, column.type.scale)) for each in (whole, column))
    )
    bad = _bad(outside, v.OVERFLOW, f"the integer is outside {low}..{high}")
    bad += _bad(broken, v.OVERFLOW, "the decimal is no whole number")
    return pc.cast(pc.if_else(outside, None, whole), arrow_type(PropType(kind)), safe=False), bad


def _decimal_floats(kind: ScalarKind, column: Array) -> Taken:
    """Decimals that come back as they were at their own scale."""
    taken = pc.cast(column, arrow_type(PropType(kind)), safe=False)
    wide = pa.decimal256(_DECIMAL_DIGITS_MAX, column.type.scale)
    lost = pc.not_equal(pc.cast(taken, wide, safe=False), pc.cast(column, wide))
    reason = f"the decimal has more digits than {kind.value} holds"
    return taken, _bad(lost, v.OVERFLOW, reason)


def _floats(kind: ScalarKind, column: Array) -> Taken:
    wanted = arrow_type(PropType(kind))
    if pa.types.is_decimal(column.type):
        return _decimal_floats(kind, column)
    if column.type == wanted:
        taken, bad = column, []
    elif pa.types.is_integer(column.type):
        taken = pc.cast(column, wanted, safe=False)
        bad = _inexact(kind, column, taken)
    elif pa.types.is_floating(column.type):
        taken = pc.cast(column, wanted, safe=False)
        narrower = kind is ScalarKind.F32 and column.type == pa.float64()
        bad = _inexact(kind, column, taken) if narrower else []
    else:
        raise WrongKind
    if not pc.all(pc.is_finite(taken), min_count=0).as_py():
        endless = pc.invert(pc.is_finite(column)) if pa.types.is_floating(column.type) else None
        finite = [] if endless is None else _bad(endless, v.NOT_FINITE, "NaN and infinities are refused")
        return taken, finite + bad
    return taken, bad


def _inexact(kind: ScalarKind, column: Array, taken: Array) -> list[BadRows]:
    """Rows that do not come back as they went in. NaN and infinities are named by another rule."""
    back = pc.cast(taken, column.type, safe=False)
    mask = pc.not_equal(column, back)
    if pa.types.is_floating(column.type):
        mask = pc.and_(mask, pc.is_finite(column))
    else:
        # Beyond 2**53 a double turned back into an integer may overflow into the same bits.
        edge = 2**24 if kind is ScalarKind.F32 else 2**53
        low, high = _INTEGER_TYPES[str(column.type)]
        if high > edge:
            mask = pc.or_(mask, pc.greater(column, pa.scalar(edge, column.type)))
        if low < -edge:
            mask = pc.or_(mask, pc.less(column, pa.scalar(-edge, column.type)))
    return _bad(mask, v.OVERFLOW, f"the number cannot be held exactly as {kind.value}")


def _dates(_: ScalarKind, column: Array) -> Taken:
    bad: list[BadRows] = []
    if pa.types.is_date64(column.type):
        part = column.view(pa.int64())
        whole = pc.multiply(pc.floor(pc.divide(pc.cast(part, pa.float64()), 86_400_000.0)), 86_400_000.0)
        bad = _bad(pc.not_equal(pc.cast(part, pa.float64()), whole), v.BAD_DATE, "the day has a time of day")
        column = pc.cast(column, pa.date32(), safe=False)
    elif not pa.types.is_date32(column.type):
        raise WrongKind
    return column, bad + _outside(column.view(pa.int32()), *DAY_BOUNDS)


def _moments(_: ScalarKind, column: Array) -> Taken:
    wanted = pa.timestamp("us", "UTC")
    if pa.types.is_date(column.type):
        days, bad = _dates(ScalarKind.DATE, column)
        return pc.cast(pc.cast(days, pa.timestamp("us"), safe=False), wanted), bad
    if not pa.types.is_timestamp(column.type):
        raise WrongKind
    unit = column.type.unit
    per_day = _UNITS_PER_DAY[unit]
    # A moment is stored in UTC whatever its zone; without a zone it is UTC.
    ticks = column.view(pa.int64())
    bad = _outside(ticks, DAY_BOUNDS[0] * per_day, (DAY_BOUNDS[1] + 1) * per_day - 1)
    if unit == "ns":
        micros = pc.divide(pc.subtract(ticks, _modulo(ticks, 1_000)), 1_000)
        bad += _bad(pc.not_equal(_modulo(ticks, 1_000), 0), v.BAD_DATE, "the moment is finer than a microsecond")
    else:
        factor = _UNITS_PER_DAY["us"] // per_day
        micros = ticks if factor == 1 else pc.multiply(ticks, factor)
    return micros.view(wanted), bad


def _modulo(ticks: Array, by: int) -> Array:
    """Never negative."""
    values = np.asarray(pc.fill_null(ticks, 0))
    return pa.array(values % by, pa.int64())


def _outside(ticks: Array, low: int, high: int) -> list[BadRows]:
    extremes = pc.min_max(ticks)
    least, most = extremes["min"].as_py(), extremes["max"].as_py()
    if least is None or (least >= low and most <= high):
        return []
    bounds = _INTEGER_TYPES[str(ticks.type)]
    low, high = max(low, bounds[0]), min(high, bounds[1])
    mask = pc.or_(pc.less(ticks, pa.scalar(low, ticks.type)), pc.greater(ticks, pa.scalar(high, ticks.type)))
    return _bad(mask, v.BAD_DATE, "outside the years 0001 to 9999")


def _blobs(_: ScalarKind, column: Array) -> Taken:
    kind = column.type
    if not (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        raise WrongKind
    return pc.cast(column, pa.large_binary()), []


_SCALARS: Final[dict[ScalarKind, Callable[[ScalarKind, Array], Taken]]] = {
    ScalarKind.STRING: _strings,
    ScalarKind.BOOL: _bools,
    ScalarKind.I32: _integers,
    ScalarKind.I64: _integers,
    ScalarKind.U32: _integers,
    ScalarKind.U64: _integers,
    ScalarKind.F32: _floats,
    ScalarKind.F64: _floats,
    ScalarKind.DATE: _dates,
    ScalarKind.DATETIME: _moments,
    ScalarKind.BLOB: _blobs,
}


# --- lists and vectors --------------------------------------------------------------------------------------------------


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _lists(kind: PropType, column: Array) -> Taken:
    if not _is_list(column.type):
        raise WrongKind
    column = pc.cast(column, pa.list_(column.type.value_type))
    element = PropType(kind.scalar, nullable=True)
    # Only what the lists of this piece hold, from offset 0 on.
    items, bad = conform_column(element, column.flatten())
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    taken = lists(pa.array(offsets), items, arrow_type(kind), column.is_null() if column.null_count else None)
    owners = np.repeat(np.arange(len(column), dtype=np.int64), lengths)
    return taken, [BadRows(np.unique(owners[each.rows]), each.code, each.reason) for each in bad]


def _vectors(kind: PropType, column: Array) -> Taken:
    if not _is_list(column.type):
        raise WrongKind
    numbers = column.type.value_type
    if not (pa.types.is_floating(numbers) or pa.types.is_integer(numbers)):
        raise WrongKind
    assert kind.dim is not None
    lengths = pc.fill_null(pc.list_value_length(column), kind.dim).to_numpy(zero_copy_only=False)
    if column.null_count or not bool((lengths == kind.dim).all()):
        return _vectors_one_by_one(kind, column)
    items = column.flatten()
    single = pc.cast(items, pa.float32(), safe=False)
    if items.null_count or not pc.all(pc.is_finite(single), min_count=0).as_py():
        return _vectors_one_by_one(kind, column)
    return fixed_size_lists(single, arrow_type(kind)), []


def _vectors_one_by_one(kind: PropType, column: Array) -> Taken:
    taken: list[Any] = []
    bad: dict[tuple[str, str], list[int]] = {}
    for row, value in enumerate(column.to_pylist()):
        try:
            taken.append(convert(kind, value))
        except Refusal as refusal:
            taken.append(None)
            bad.setdefault((refusal.code, refusal.reason), []).append(row)
    found = [BadRows(np.array(rows, dtype=np.int64), code, reason) for (code, reason), rows in bad.items()]
    return pa.array(taken, arrow_type(kind)), found
