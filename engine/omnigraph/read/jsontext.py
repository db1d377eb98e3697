"""Columns as JSON text, a column at a time. Owns the spelling of every value in an export; reads nothing.

Strings keep their characters and escape only what JSON must have escaped. Numbers are exact: integers of any width in
full, floats with the fewest digits that read back the same in their own width, with a point or an exponent. Dates are
``YYYY-MM-DD``, moments ``YYYY-MM-DDTHH:MM:SS.mmmZ`` in UTC, with six digits where three are not enough. Lists and vectors
are arrays, bytes ``base64:`` texts, null is ``null``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.schema.catalog import PropType, ScalarKind

# Kernels take and give columns of kinds that only the caller knows.
pc: Any = pyarrow.compute
Array: TypeAlias = Any  # a pyarrow Array of a kind that the property says

_NULL = "null"
_PLAIN_BELOW = 21  # digits before the point up to which a number is written without an exponent, as ECMAScript does
_EXPONENT_FROM = 1e9  # Arrow writes an exponent from 1e10 on; below this no value needs a second look
_ODD_FLOAT = r"e[+]|n"  # a large one, NaN, an infinity
# No property holds one; a reader of foreign columns must still get JSON.
_NOT_FINITE = {"nan": '"NaN"', "-nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def json_text(kind: PropType, column: Array) -> Array:
    """The JSON text of every value, as large_utf8 without nulls."""
    if kind.is_list:
        text = _array_text(PropType(kind.scalar), column)
    elif kind.scalar is ScalarKind.VECTOR:
        text = _array_text(PropType(ScalarKind.F32), column)
    else:
        text = _scalar_text(kind.scalar, column)
    return pc.cast(pc.fill_null(text, _NULL), pa.large_utf8())


def string_text(column: Array) -> Array:
    """Quoted and escaped; null stays null."""
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    if not _needs_escapes(column):
        return quoted
    # Whole columns first for what is common; what is left of the control characters is rare enough to go one by one.
    escaped = column
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        escaped = pc.replace_substring(escaped, character, escape)
    quoted = pc.binary_join_element_wise('"', escaped, '"', "")
    return _rewritten(quoted, escaped, r"[\x00-\x1f]", column, lambda text: json.dumps(text, ensure_ascii=False))


def _scalar_text(scalar: ScalarKind, column: Array) -> Array:
    if scalar is ScalarKind.STRING:
        return string_text(column)
    if scalar is ScalarKind.BOOL:
        return pc.if_else(column, "true", "false")
    if scalar.is_float:
        return _float_text(column)
    if scalar is ScalarKind.DATETIME:
        return _moment_text(column)
    if scalar is ScalarKind.BLOB:
        return _bytes_text(column)
    text = pc.cast(column, pa.utf8())
    return pc.binary_join_element_wise('"', text, '"', "") if scalar is ScalarKind.DATE else text


def _float_text(column: Array) -> Array:
    text = pc.cast(column, pa.utf8())
    if not pc.all(pc.less(pc.abs(column), _EXPONENT_FROM), min_count=0).as_py():
        text = _rewritten(text, text, _ODD_FLOAT, text, _odd_float)
    if pc.all(pc.match_substring(text, "."), min_count=0).as_py():
        return text
    whole = pc.invert(pc.match_substring_regex(text, r'[.e"]'))
    return pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)


def _odd_float(text: str) -> str:
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    number = Decimal(text)
    return f"{number:f}" if number.adjusted() < _PLAIN_BELOW else text


def _moment_text(column: Array) -> Array:
    # Without the zone: the values are UTC, and looking the zone up costs thirty times the rest.
    plain = column.view(pa.timestamp("us"))
    text = pc.cast(plain, pa.utf8())  # 2024-05-06 12:00:00.123000
    text = pc.binary_replace_slice(text, 10, 11, "T")
    thousandths = pc.match_substring_regex(text, r"000\z")
    text = pc.if_else(thousandths, pc.binary_replace_slice(text, 23, 26, ""), text)
    return pc.binary_join_element_wise('"', text, 'Z"', "")


def _bytes_text(column: Array) -> Array:
    texts = [None if value is None else f'"base64:{base64.b64encode(value).decode()}"' for value in column.to_pylist()]
    return pa.array(texts, pa.large_utf8())


def _array_text(element: PropType, column: Array) -> Array:
    """``[a,b]`` of lists of any length and of vectors; null stays null."""
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        offsets = np.arange(len(column) + 1, dtype=np.int64) * size
        values = column.values.slice(column.offset * size, len(column) * size)
    else:
        raw = column.offsets.to_numpy().astype(np.int64)
        offsets = raw - raw[0]
        values = column.values.slice(int(raw[0]), int(raw[-1] - raw[0]))
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), json_text(element, values))
    text = pc.binary_join_element_wise(_large("["), pc.binary_join(lists, _large(",")), _large("]"), _large(""))
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.large_utf8()))


def _large(text: str) -> Any:
    return pa.scalar(text, pa.large_utf8())


def _needs_escapes(column: Array) -> bool:
    """Looked for in the bytes of all values at once: hardly any column has them."""
    window = text_bytes(column)
    return bool(((window < 0x20) | (window == ord('"')) | (window == ord("\\"))).any())


def text_bytes(column: Array) -> Any:
    """The bytes of all values of a text column, end to end, without a copy."""
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return np.empty(0, np.uint8)
    width = np.int64 if pa.types.is_large_string(column.type) else np.int32
    ends = np.frombuffer(offsets, width)
    return np.frombuffer(data, np.uint8)[ends[column.offset] : ends[column.offset + len(column)]]


def _rewritten(result: Array, where: Array, pattern: str, source: Array, write: Callable[[str], str]) -> Array:
    """``result``, but where ``where`` has the pattern, what ``write`` makes of ``source``."""
    mask = pc.fill_null(pc.match_substring_regex(where, pattern), False)
    if not pc.any(mask).as_py():
        return result
    made = pa.array([write(text) for text in source.filter(mask).to_pylist()], result.type)
    return pc.replace_with_mask(result, mask, made)
