"""The argument ``fill`` of a schema change: where the values of an added property come from.

This module owns what may be filled and from what. A fill reads the row as it was before the change, under the names of
then, so a property that the same change drops can still be moved into a new one. It must not read rows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from omnigraph.core.errors import InvalidInput, OmnigraphError
from omnigraph.schema.catalog import PropType, ScalarKind, TableType
from omnigraph.schema.plan import Fill

_BOUNDS = {
    ScalarKind.I32: (-(2**31), 2**31 - 1),
    ScalarKind.I64: (-(2**63), 2**63 - 1),
    ScalarKind.U32: (0, 2**32 - 1),
    ScalarKind.U64: (0, 2**64 - 1),
}
_F32_MAX = (2 - 2**-23) * 2.0**127
_WIDENED = {
    ScalarKind.I32: ScalarKind.I64,
    ScalarKind.U32: ScalarKind.U64,
    ScalarKind.F32: ScalarKind.F64,
}


def widens(before: PropType, after: PropType) -> bool:
    """Whether ``after`` is the wider one of a pair of number types. Nullability is not looked at."""
    return not before.is_list and not after.is_list and _WIDENED.get(before.scalar) is after.scalar


def read_fill(name: str, given: object, wanted: PropType, before: TableType) -> Fill:
    """The fill ``given`` for the added property ``name`` of type ``wanted``; ``InvalidInput`` says what is wrong.

    ``before`` is the type as it was: a fill reads its rows.
    """
    if wanted.scalar is ScalarKind.BLOB:
        raise _invalid(name, "a Blob cannot be filled", hint="declare it nullable and load the bytes afterwards")
    if isinstance(given, Mapping):
        return _read_source(name, given, wanted, before)
    return Fill("value", _constant(name, given, wanted))


def _read_source(name: str, given: Mapping[Any, Any], wanted: PropType, before: TableType) -> Fill:
    kind, text = next(iter(given.items()), (None, None))
    if len(given) != 1 or kind not in ("property", "sql") or not isinstance(text, str):
        raise _invalid(
            name,
            "a fill is a constant, {'property': name} or {'sql': expression}",
            hint="give exactly one of them, as text",
        )
    if kind == "property":
        return Fill("property", _property(name, text, wanted, before))
    from omnigraph.schema.fill_sql import check_expression

    check_expression(name, text, wanted, before)
    return Fill("sql", text)


def _property(name: str, other: str, wanted: PropType, before: TableType) -> str:
    source = before.by_name.get(other)
    if source is None:
        raise _invalid(
            name,
            f"there was no property `{other[:128]}` on {before.name} before the change",
            hint="name one of " + (", ".join(before.by_name) or "its properties; it has none"),
        )
    if not _takes(wanted, source.type):
        raise _invalid(
            name,
            f"a {wanted} cannot hold every {source.type} of `{other}`",
            hint="declare the same type, or convert it with {'sql': …}",
        )
    return source.prop_id


def _takes(wanted: PropType, source: PropType) -> bool:
    """Whether every value of ``source`` is one of ``wanted``."""
    if source.nullable and not wanted.nullable:
        return False
    if widens(source, wanted):
        return True
    if (source.scalar, source.is_list, source.dim) != (wanted.scalar, wanted.is_list, wanted.dim):
        return False
    return wanted.enum is None or (source.enum is not None and set(source.enum) <= set(wanted.enum))


def _constant(name: str, given: object, wanted: PropType) -> Any:
    if given is None:
        raise _invalid(name, "null is no fill", hint="leave the fill out: a nullable property is null by itself")
    if wanted.is_list or wanted.scalar is ScalarKind.VECTOR:
        if not isinstance(given, (list, tuple)):
            raise _invalid(name, f"not a {wanted}", hint="give a list")
        if wanted.scalar is ScalarKind.VECTOR:
            if len(given) != wanted.dim:
                raise _invalid(name, f"not a {wanted}: {len(given)} elements", hint=f"give {wanted.dim} numbers")
            return [_scalar(name, ScalarKind.F32, element, wanted) for element in given]
        return [None if element is None else _scalar(name, wanted.scalar, element, wanted) for element in given]
    return _scalar(name, wanted.scalar, given, wanted)


def _scalar(name: str, kind: ScalarKind, given: object, wanted: PropType) -> Any:
    value = _value(kind, given)
    if value is None:
        raise _invalid(name, f"not a value of {wanted}: {str(given)[:60]!r}", hint=f"give a value of {wanted}")
    if wanted.enum is not None and value not in wanted.enum:
        raise _invalid(name, f"{str(value)[:60]!r} is not one of {wanted}", hint="give one of its values")
    return value


def _value(kind: ScalarKind, given: object) -> Any:
    """The constant as a JSON value, or None if it is not of the kind."""
    if kind is ScalarKind.BOOL:
        return given if isinstance(given, bool) else None
    if kind is ScalarKind.STRING:
        return given if isinstance(given, str) and _is_text(given) else None
    if isinstance(given, bool):
        return None
    if kind in _BOUNDS:
        low, high = _BOUNDS[kind]
        return given if isinstance(given, int) and low <= given <= high else None
    if kind.is_float:
        return _float(kind, given)
    return _moment(kind, given)


def _float(kind: ScalarKind, given: object) -> float | None:
    if not isinstance(given, (int, float)):
        return None
    try:
        number = float(given)
    except OverflowError:
        return None
    if not math.isfinite(number) or (kind is ScalarKind.F32 and abs(number) > _F32_MAX):
        return None
    return number + 0.0  # -0.0 becomes 0.0


def _moment(kind: ScalarKind, given: object) -> str | None:
    """A day or a moment in its canonical text, which means the same wherever it is read."""
    from omnigraph.schema.keytext import value_text  # brings Arrow along

    try:
        if kind is ScalarKind.DATE:
            if isinstance(given, str):
                given = dt.date.fromisoformat(given)
            if not isinstance(given, dt.date) or isinstance(given, dt.datetime):
                return None
        else:
            if isinstance(given, str):
                given = dt.datetime.fromisoformat(given)
            if not isinstance(given, dt.datetime):
                return None
        return value_text(PropType(kind), given)
    except (ValueError, OmnigraphError):
        return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(name: str, problem: str, *, hint: str) -> InvalidInput:
    return InvalidInput(f"fill of {name}: {problem}", hint=hint, fill=name)
