"""The canonical text of key values, and the ids that are made of them.

Two ways to the same text: one value at a time from Python, a column at a time from Arrow. Ids are stored, so the text
of a value may never change: decimal integers, ``true``/``false``, ``YYYY-MM-DD``, ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, and
for floats the shortest digits that read back the same, in the notation of ECMAScript (RFC 8785). One key column gives
its text as id, several a compact JSON array of their texts in declared order.

This module owns spelling only. It refuses what has no canonical text (a value of another kind, NaN, an infinity, a year
outside 0001 to 9999); whether a value is allowed, is missing or exists already is the validator's.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from omnigraph.core.errors import DataInvalid
from omnigraph.core.shown import value_shown
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import NodeType, PropType, ScalarKind

# Kernels take and give columns of kinds that only the caller knows.
pc: Any = pyarrow.compute

_INTEGER_RANGES = {
    ScalarKind.I32: (-(2**31), 2**31 - 1),
    ScalarKind.I64: (-(2**63), 2**63 - 1),
    ScalarKind.U32: (0, 2**32 - 1),
    ScalarKind.U64: (0, 2**64 - 1),
}
_FLOAT = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?\Z")

# The first and the last moment of the years that four digits can write.
_DATE_BOUNDS = (dt.date.min, dt.date.max)
_UTC = dt.UTC
_DATETIME_BOUNDS = (dt.datetime.min.replace(tzinfo=_UTC), dt.datetime.max.replace(tzinfo=_UTC))

# Characters that JSON writes escaped.
_ESCAPED = r'[\x00-\x1f"\\]'


# --- one value ----------------------------------------------------------------------------------------------------------


def value_text(prop_type: PropType, value: object) -> str:
    """The canonical text of one value that is not null."""
    kind = prop_type.scalar
    if not prop_type.is_keyable:
        raise DataInvalid(f"a {prop_type} has no key text")
    if kind is ScalarKind.STRING and isinstance(value, str):
        return value
    if kind is ScalarKind.BOOL and isinstance(value, bool):
        return "true" if value else "false"
    if kind.is_integer and isinstance(value, int) and not isinstance(value, bool):
        low, high = _INTEGER_RANGES[kind]
        if low <= value <= high:
            return str(value)
    elif kind.is_float and isinstance(value, int | float) and not isinstance(value, bool):
        return _float_text(kind, value)
    elif kind is ScalarKind.DATETIME and isinstance(value, dt.datetime):
        return _datetime_text(value)
    elif kind is ScalarKind.DATE and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    raise DataInvalid(f"not a {prop_type}: {value_shown(value)}")


def derive_id(node: NodeType, record: Mapping[str, object]) -> str | None:
    """The id that the key values of a record make; nothing if the type has no key or one of its values is null."""
    if node.key is None:
        return None
    texts: list[str] = []
    for name in node.key:
        value = record.get(name)
        if value is None:
            return None
        texts.append(value_text(node.property(name).type, value))
    return join_texts(texts)


def join_texts(texts: Sequence[str]) -> str:
    """The text of a tuple: of one its text, of several a compact JSON array."""
    return texts[0] if len(texts) == 1 else json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))


def key_values(node: NodeType, text: str) -> tuple[object, ...] | None:
    """The values of the key, in declared order, of which ``text`` is the id; None if it is the id of none."""
    kinds = [node.property(name).type for name in node.key or ()]
    if len(kinds) == 1:
        texts: object = [text]
    else:
        try:
            texts = json.loads(text)
        except (ValueError, RecursionError):
            return None
    if not isinstance(texts, list) or len(texts) != len(kinds):
        return None
    values = tuple(_read_text(kind, one) for kind, one in zip(kinds, texts, strict=True))
    return None if None in values or join_texts(list(texts)) != text else values


def _read_text(kind: PropType, text: object) -> object:
    """The value with this canonical text; None if there is none."""
    read = _READERS.get(kind.scalar, float if kind.scalar.is_float else int)
    if not isinstance(text, str):
        return None
    try:
        value = read(text)
        return value if value_text(kind, value) == text else None
    except (ValueError, OverflowError, DataInvalid):
        return None


def canonical_id(node: NodeType, text: str) -> str | None:
    """The id that ``text`` spells, in whatever spelling of numbers, days and blanks; None if it spells none."""
    kinds = [node.property(name).type for name in node.key or ()]
    if not kinds or (len(kinds) == 1 and kinds[0].scalar is ScalarKind.STRING):
        return text
    try:
        members = [text] if len(kinds) == 1 else json.loads(text)
        if not isinstance(members, list) or len(members) != len(kinds):
            return None
        values = [
            _READERS.get(kind.scalar, float if kind.scalar.is_float else int)(one) if isinstance(one, str) else one
            for kind, one in zip(kinds, members, strict=True)
        ]
        return join_texts([value_text(kind, value) for kind, value in zip(kinds, values, strict=True)])
    except (ValueError, OverflowError, RecursionError, DataInvalid):
        return None


_READERS: Mapping[ScalarKind, Callable[[str], object]] = {
    ScalarKind.STRING: str,
    ScalarKind.BOOL: {"true": True, "false": False}.get,
    ScalarKind.DATE: dt.date.fromisoformat,
    ScalarKind.DATETIME: dt.datetime.fromisoformat,
}


# --- a column -----------------------------------------------------------------------------------------------------------

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"


def column_text(prop_type: PropType, column: Column) -> Column:
    """The canonical text of every value as utf8; null stays null. A utf8 column is returned as it is."""
    if not prop_type.is_keyable:
        raise DataInvalid(f"a {prop_type} has no key text")
    if prop_type.scalar is ScalarKind.STRING and column.type == pa.utf8():
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_array_text(prop_type, chunk) for chunk in column.chunks], pa.utf8())
    return _array_text(prop_type, column)


def derive_ids(node: NodeType, columns: Mapping[str, Column]) -> Column | None:
    """The ids that the key columns make; nothing if the type has no key. ``columns`` may be a plain mapping by name."""
    if node.key is None:
        return None
    return tuple_text([node.property(name).type for name in node.key], [columns[name] for name in node.key])


def tuple_text(types: Sequence[PropType], columns: Sequence[Column]) -> Column:
    """The text of every tuple, null where one of its members is null. Of one column it is the column's text."""
    if len(types) == 1:
        return column_text(types[0], columns[0])
    arrays = [column for column in columns if isinstance(column, pa.Array)]
    if len(arrays) == len(columns):
        return _tuple_array(types, arrays)
    # A table cuts columns of different chunks into batches of the same rows.
    batches = pa.Table.from_arrays(list(columns), [str(i) for i in range(len(columns))]).to_batches()
    return pa.chunked_array([_tuple_array(types, batch.columns) for batch in batches], pa.utf8())


# --- an array -----------------------------------------------------------------------------------------------------------

Array: TypeAlias = "pa.Array[Any]"


def _array_text(prop_type: PropType, array: Array) -> Array:
    kind = prop_type.scalar
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    if kind is ScalarKind.STRING:
        return _utf8(array, prop_type)
    values = _cast(array, arrow_type(prop_type), prop_type)
    if kind.is_float:
        return _float_array(values)
    text: Array
    if kind is ScalarKind.BOOL:
        text = pc.if_else(values, "true", "false")
    elif kind is ScalarKind.DATETIME:
        _require_years(values, _DATETIME_BOUNDS)
        # Without the zone, which is UTC anyhow, the cast takes a tenth of the time.
        text = pc.cast(pc.cast(values, pa.timestamp("us")), pa.utf8())
        text = pc.binary_join_element_wise(pc.utf8_replace_slice(text, 10, 11, "T"), "Z", "")
    else:
        if kind is ScalarKind.DATE:
            _require_years(values, _DATE_BOUNDS)
        text = pc.cast(values, pa.utf8())
    return text


def _tuple_array(types: Sequence[PropType], arrays: Sequence[Array]) -> Array:
    quoted = [_quoted_array(prop_type, array) for prop_type, array in zip(types, arrays, strict=True)]
    joined: Array = pc.binary_join_element_wise("[", pc.binary_join_element_wise(*quoted, ","), "]", "")
    return joined


def _quoted_array(prop_type: PropType, array: Array) -> Array:
    """As JSON strings. Only the rows that need escapes leave Arrow, and only texts can have such rows."""
    text = column_text(prop_type, array)
    quoted: Array = pc.binary_join_element_wise('"', text, '"', "")
    if prop_type.scalar is not ScalarKind.STRING:
        return quoted
    return _rewritten(quoted, text, _ESCAPED, lambda value: json.dumps(value, ensure_ascii=False))


def _rewritten(result: Array, text: Any, pattern: str, write: Callable[[str], str]) -> Array:
    """``result``, but where ``text`` has the pattern, what ``write`` makes of the text."""
    mask = pc.fill_null(pc.match_substring_regex(text, pattern), False)
    if not pc.any(mask).as_py():
        return result
    replacements = pa.array([write(value) for value in text.filter(mask).to_pylist()], pa.utf8())
    replaced: Array = pc.replace_with_mask(result, mask, replacements)
    return replaced


def _utf8(array: Array, prop_type: PropType) -> Array:
    """Only texts of another layout: anything else can be written as text too, and would be by mistake."""
    if array.type == pa.utf8():
        return array
    if not (pa.types.is_large_string(array.type) or array.type in (pa.string_view(), pa.null())):
        raise DataInvalid(f"a column of {array.type} is not a {prop_type}")
    text: Array = pc.cast(array, pa.utf8())
    return text


def _cast(array: Array, wanted: pa.DataType, prop_type: PropType) -> Array:
    if array.type == wanted:
        return array
    try:
        done: Array = pc.cast(array, wanted)
    except pa.ArrowException as error:
        raise DataInvalid(f"a column of {array.type} is not a {prop_type}: {str(error)[:80]}") from error
    return done


def _require_years(array: Array, bounds: tuple[Any, Any]) -> None:
    extremes = pc.min_max(array)
    low, high = extremes["min"], extremes["max"]
    if not low.is_valid:
        return
    first, last = (pa.scalar(bound, array.type) for bound in bounds)
    if pc.less(low, first).as_py() or pc.greater(high, last).as_py():
        raise DataInvalid("a date outside the years 0001 to 9999 has no key text")


# --- floats and moments -------------------------------------------------------------------------------------------------


def _datetime_text(value: dt.datetime) -> str:
    """Without an offset it is UTC."""
    try:
        moment = value.replace(tzinfo=_UTC) if value.tzinfo is None else value.astimezone(_UTC)
    except OverflowError as error:
        raise DataInvalid("a date outside the years 0001 to 9999 has no key text") from error
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _float_text(kind: ScalarKind, value: float) -> str:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if kind is ScalarKind.F32:
        single = pa.scalar(number, pa.float32())
        number = single.as_py()
        digits = str(pc.cast(single, pa.utf8()).as_py())
    else:
        digits = repr(number)
    if not math.isfinite(number):
        raise DataInvalid(f"not a finite number: {str(value)[:80]}")
    return _notation(digits)


def _float_array(array: Array) -> Array:
    """Arrow finds the shortest digits; where its notation may differ, the row is written again."""
    if pc.any(pc.invert(pc.is_finite(array))).as_py():
        raise DataInvalid("NaN and infinities have no key text")
    text: Array = pc.cast(array, pa.utf8())
    return _rewritten(text, text, r"e|\.0*\z|^-0\z", _notation)


def _notation(text: str) -> str:
    """Any spelling of the shortest digits in the notation of ECMAScript: plain from 1e-6 up to below 1e21."""
    found = _FLOAT.match(text)
    assert found is not None, text
    sign, whole, fraction, exponent = found.group(1), found.group(2), found.group(3) or "", int(found.group(4) or 0)
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + exponent - (len(whole + fraction) - len(digits))  # digits before the decimal point
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"
