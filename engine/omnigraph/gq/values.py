"""One value into one property: by kind and by value, exactly, or not at all.

Owns ranges, rounding to 32-bit floats, enum membership, vector lengths and blob texts. Callers add where it was: this
module says only what was expected and what was received. Python values out: ``str``, ``bool``, ``int``, ``float``,
``date``, ``datetime`` (UTC), ``bytes``, ``BlobUri``, tuples of these, ``None``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

from omnigraph.schema.catalog import PropType, ScalarKind

# How much of a value an error may repeat.
SHOWN_CHARS = 80
# An enum may have thousands of values.
_TYPE_CHARS_MAX = 200

INTEGER_RANGES: dict[ScalarKind, tuple[int, int]] = {
    ScalarKind.I32: (-(2**31), 2**31 - 1),
    ScalarKind.I64: (-(2**63), 2**63 - 1),
    ScalarKind.U32: (0, 2**32 - 1),
    ScalarKind.U64: (0, 2**64 - 1),
}
_BASE64_PREFIX = "base64:"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class BlobUri:
    """A blob given by reference. Whether that is allowed is the write path's question."""

    uri: str


Scalar: TypeAlias = str | bool | int | float | date | bytes | BlobUri | None
PyValue: TypeAlias = Scalar | tuple[Scalar, ...]


class Misfit(Exception):
    """A value that a type does not take. Never leaves this package: callers name the place and raise their error."""

    def __init__(self, expected: str, received: str) -> None:
        super().__init__(f"expected {expected}, received {received}")
        self.expected = expected
        self.received = received


def describe_value(value: object) -> str:
    """What was received: kind and value, cut, on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return f"integer {_cut(_int_text(value))}"
        case float():
            return f"number {value!r}"
        case str():
            return f"string {_cut(json.dumps(value[: SHOWN_CHARS + 1]))}"
        case datetime():
            return f"datetime {value.isoformat()}"
        case date():
            return f"date {value.isoformat()}"
        case bytes():
            return f"{len(value)} bytes"
        case BlobUri():
            return f"URI {_cut(json.dumps(value.uri[: SHOWN_CHARS + 1]))}"
        case list() | tuple():
            return f"list of {len(value)}"
        case dict():
            return f"object of {len(value)}"
        case _:
            return type(value).__name__


def _int_text(value: int) -> str:
    # Python refuses to print integers of more than 4,300 digits.
    return str(value) if value.bit_length() <= 8 * SHOWN_CHARS else f"of {value.bit_length()} bits"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


# --- coercion -----------------------------------------------------------------------------------------------------------


def coerce(value: object, type_: PropType) -> PyValue:
    """The value as the property holds it. Null passes: whether it may be null depends on what is done with it."""
    if value is None:
        return None
    if type_.is_list:
        if not isinstance(value, list | tuple):
            raise Misfit(str(type_), describe_value(value))
        element = PropType(type_.scalar, nullable=True)
        return tuple(_element(item, element, index) for index, item in enumerate(value))
    if type_.scalar is ScalarKind.VECTOR:
        return _vector(value, type_)
    return _scalar(value, type_)


def _element(item: object, type_: PropType, index: int) -> Scalar:
    try:
        return None if item is None else _scalar(item, type_)
    except Misfit as misfit:
        raise Misfit(f"{misfit.expected} at index {index}", misfit.received) from None


def _scalar(value: object, type_: PropType) -> Scalar:
    kind = type_.scalar
    if kind.is_integer:
        return _integer(value, kind)
    if kind.is_float:
        return _float(value, kind)
    match kind:
        case ScalarKind.STRING:
            return _string(value, type_)
        case ScalarKind.BOOL if isinstance(value, bool):
            return value
        case ScalarKind.DATETIME if isinstance(value, datetime):
            return value.astimezone(UTC)
        case ScalarKind.DATE if isinstance(value, date) and not isinstance(value, datetime):
            return value
        case ScalarKind.BLOB if isinstance(value, bytes | BlobUri):
            return value
    raise Misfit(type_name(type_), describe_value(value))


def _integer(value: object, kind: ScalarKind) -> int:
    low, high = INTEGER_RANGES[kind]
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int) or not low <= whole <= high:
        raise Misfit(f"{kind.value} from {low} to {high}", describe_value(value))
    return whole


def _float(value: object, kind: ScalarKind) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misfit(kind.value, describe_value(value))
    try:
        number = float(value)
        if kind is ScalarKind.F32:
            number = _as_f32(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Misfit(f"finite {kind.value}", describe_value(value))
    return number


def _as_f32(number: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return rounded


def _string(value: object, type_: PropType) -> str:
    if not isinstance(value, str):
        raise Misfit(type_name(type_), describe_value(value))
    if _SURROGATE.search(value):
        raise Misfit("Unicode text", "half of a surrogate pair")
    if type_.enum is not None and value not in type_.enum:
        raise Misfit(type_name(type_), describe_value(value))
    return value


def _vector(value: object, type_: PropType) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or len(value) != type_.dim:
        raise Misfit(type_name(type_), describe_value(value))
    numbers: list[float] = []
    for index, item in enumerate(value):
        try:
            numbers.append(_float(item, ScalarKind.F32))
        except Misfit as misfit:
            raise Misfit(f"{type_name(type_)} with {misfit.expected} at index {index}", misfit.received) from None
    return tuple(numbers)


def type_name(type_: PropType) -> str:
    """The type as the language writes it, without ``?``: null is a question of its own."""
    shown = str(type_).removesuffix("?")
    return shown if len(shown) <= _TYPE_CHARS_MAX else shown[:_TYPE_CHARS_MAX] + "…"


def blob_of(text: str) -> bytes | BlobUri:
    """What a text stands for in a blob property."""
    if not text.startswith(_BASE64_PREFIX):
        return BlobUri(text)
    try:
        return base64.b64decode(text[len(_BASE64_PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("base64 of the standard alphabet, padded", describe_value(text)) from None


# --- static fit ---------------------------------------------------------------------------------------------------------


def types_fit(given: PropType, wanted: PropType) -> bool:
    """Whether values of a declared type can fit a property at all. Null, ranges, enums, lengths show when bound."""
    if wanted.scalar is ScalarKind.VECTOR:
        if given.scalar is ScalarKind.VECTOR:
            return given.dim == wanted.dim
        return given.is_list and given.scalar.is_numeric
    if given.is_list != wanted.is_list or given.scalar is ScalarKind.VECTOR:
        return False
    if wanted.scalar is ScalarKind.BLOB:
        return given.scalar in (ScalarKind.BLOB, ScalarKind.STRING)
    return given.scalar is wanted.scalar or (given.scalar.is_numeric and wanted.scalar.is_numeric)
