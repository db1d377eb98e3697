"""One value of a record as a property takes it, or the reason why it is refused.

This is the definition of what a record may hold, a value at a time; ``columns`` gives the same answers for whole columns
and comes here for the rows that stop it. Nothing is ever nulled, wrapped or rounded in silence: JSON numbers have no
width, so a float property takes the nearest value it can hold, and that is the only rounding.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
import struct
from collections.abc import Iterable
from typing import Any, Final

from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.write.base import violations as v
from omnigraph.write.base.violations import show_value

INTEGER_BOUNDS: Final = {
    ScalarKind.I32: (-(2**31), 2**31 - 1),
    ScalarKind.I64: (-(2**63), 2**63 - 1),
    ScalarKind.U32: (0, 2**32 - 1),
    ScalarKind.U64: (0, 2**64 - 1),
}
_EPOCH: Final = dt.date(1970, 1, 1)
_EPOCH_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# What four digits of a year can write, so that every stored moment can be exported: days and microseconds.
DAY_BOUNDS: Final = ((dt.date.min - _EPOCH).days, (dt.date.max - _EPOCH).days)
MOMENT_BOUNDS_US: Final = (DAY_BOUNDS[0] * 86_400_000_000, (DAY_BOUNDS[1] + 1) * 86_400_000_000 - 1)
_FRACTION: Final = re.compile(r"[.,](\d+)")
_BASE64: Final = "base64:"


class Refusal(Exception):
    """Why a value cannot be taken: a violation's code and its reason. Raised inside this package only."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def convert(kind: PropType, value: Any) -> Any:
    """The value as Arrow takes it for this type; ``None`` stays ``None``. Raises ``Refusal``."""
    if value is None:
        return None
    if kind.scalar is ScalarKind.VECTOR:
        return _vector(kind, value)
    if not kind.is_list:
        return _scalar(kind.scalar, value)
    elements = _elements(value)
    if elements is None:
        raise Refusal(v.WRONG_KIND, "an array is needed")
    return [None if element is None else _scalar(kind.scalar, element) for element in elements]


def _scalar(kind: ScalarKind, value: Any) -> Any:
    if kind is ScalarKind.STRING:
        return _text(value)
    if kind is ScalarKind.BOOL:
        if not isinstance(value, bool):
            raise Refusal(v.WRONG_KIND, "true or false is needed")
        return value
    if kind.is_integer:
        return _integer(kind, value)
    if kind.is_float:
        return _float(kind, value)
    if kind is ScalarKind.DATE:
        return _date(value)
    if kind is ScalarKind.DATETIME:
        return _moment(value)
    return _blob(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Refusal(v.WRONG_KIND, "a string is needed")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refusal(v.BAD_TEXT, "the text is not valid UTF-8") from None
    return value


def _integer(kind: ScalarKind, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refusal(v.WRONG_KIND, "an integer is needed")
    low, high = INTEGER_BOUNDS[kind]
    if not low <= value <= high:
        raise Refusal(v.OVERFLOW, f"the integer is outside {low}..{high}")
    return value


def _float(kind: ScalarKind, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refusal(v.WRONG_KIND, "a number is needed")
    try:
        number = float(value)
        if kind is ScalarKind.F32 and math.isfinite(number):
            number = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise Refusal(v.NOT_FINITE, "the number is too large") from None
    if not math.isfinite(number):
        raise Refusal(v.NOT_FINITE, "NaN and infinities are refused")
    return number


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return _as_utc(value).date()
    if isinstance(value, dt.date):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if not DAY_BOUNDS[0] <= value <= DAY_BOUNDS[1]:
            raise Refusal(v.BAD_DATE, "the day is outside the years 0001 to 9999")
        return _EPOCH + dt.timedelta(days=value)
    if not isinstance(value, str):
        raise Refusal(v.WRONG_KIND, "a date text or an integer of days is needed")
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        pass
    try:
        # A moment is taken for its date as it is written; the time is dropped.
        return dt.datetime.fromisoformat(value).date()
    except ValueError:
        raise Refusal(v.BAD_DATE, "not an ISO date") from None


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return _as_utc(value)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    if isinstance(value, int) and not isinstance(value, bool):
        if not MOMENT_BOUNDS_US[0] <= value * 1_000 <= MOMENT_BOUNDS_US[1]:
            raise Refusal(v.BAD_DATE, "the moment is outside the years 0001 to 9999")
        return _EPOCH_UTC + dt.timedelta(milliseconds=value)
    if not isinstance(value, str):
        raise Refusal(v.WRONG_KIND, "a date-time text or an integer of milliseconds is needed")
    fraction = _FRACTION.search(value)
    if fraction and fraction.group(1)[6:].strip("0"):
        raise Refusal(v.BAD_DATE, "the moment is finer than a microsecond")
    try:
        return _as_utc(dt.datetime.fromisoformat(value))
    except ValueError:
        raise Refusal(v.BAD_DATE, "not an ISO or RFC 3339 date-time") from None


def _as_utc(value: dt.datetime) -> dt.datetime:
    """Without an offset it is UTC."""
    if value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    try:
        return value.astimezone(dt.UTC)
    except OverflowError:
        raise Refusal(v.BAD_DATE, "the moment is outside the years 0001 to 9999") from None


def _blob(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        raise Refusal(v.WRONG_KIND, f"a text {_BASE64}... is needed")
    if not value.startswith(_BASE64):
        raise Refusal(
            v.BLOB_URI, f"only managed bytes are taken, written {_BASE64}...; references to other places are refused"
        )
    try:
        return base64.b64decode(value[len(_BASE64) :], validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(v.WRONG_KIND, "not standard base64 with padding") from None


def _vector(kind: PropType, value: Any) -> list[float]:
    elements = _elements(value)
    if elements is None:
        raise Refusal(v.WRONG_KIND, "an array of numbers is needed")
    numbers = list(elements)
    if len(numbers) != kind.dim:
        raise Refusal(v.BAD_LENGTH, f"{kind.dim} numbers are needed, got {len(numbers)}")
    return [_float(ScalarKind.F32, number) for number in numbers]


def _elements(value: Any) -> Iterable[Any] | None:
    if isinstance(value, list | tuple):
        return value
    # Vectors often arrive as numpy arrays from Python callers.
    tolist = getattr(value, "tolist", None)
    if tolist is not None and getattr(value, "ndim", 0) == 1:
        listed: list[Any] = tolist()
        return listed
    return None


def describe(kind: PropType, value: Any, refusal: Refusal) -> str:
    """The part of a message that follows the place and the property."""
    return f"expects {kind}, got {show_value(value)}: {refusal.reason}"


def to_json(kind: PropType, value: Any) -> Any:
    """A stored value as a record writes it, so that it can be loaded again."""
    if value is None:
        return None
    if kind.is_list or kind.scalar is ScalarKind.VECTOR:
        scalar = PropType(ScalarKind.F32 if kind.scalar is ScalarKind.VECTOR else kind.scalar)
        return [to_json(scalar, element) for element in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return _BASE64 + base64.b64encode(value).decode()
    return value
