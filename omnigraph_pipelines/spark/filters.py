"""Filters as plain values, and as predicates of the tables.

Owns the form ``(column, operator, value)``, which travels through the options of a data source, and what of it fits a column.
"""

from __future__ import annotations

import datetime as dt
import json
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og

Filters = Sequence[Sequence[Any]]

_COMPARISONS: Final[Mapping[str, Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TESTS: Final[Mapping[str, Any]] = {"is null": pc.is_null, "is not null": pc.is_valid}
_FORM: Final = 'a filter is ("column", "operator", value), with one of = != < <= > >= in, or ("column", "is null")'


def as_expression(filters: Filters, schema: pa.Schema) -> pc.Expression | None:
    """All of the filters as one predicate; None where there is none. A comparison with null is not true."""
    found: Any = None
    for one in filters:
        made = _one_expression(one, schema)
        found = made if found is None else found & made
    return cast("pc.Expression | None", found)


def _one_expression(given: Sequence[Any], schema: pa.Schema) -> Any:
    if isinstance(given, str) or len(given) not in (2, 3) or not all(isinstance(part, str) for part in given[:2]):
        raise og.errors.InvalidInput(f"not a filter: {str(given)[:100]}", hint=_FORM)
    name, sign = given[0], given[1].lower()
    if name not in schema.names:
        raise og.errors.InvalidInput(
            f"no column {name[:80]!r} to filter by; there are {', '.join(schema.names)[:200]}", column=name[:80]
        )
    kind = schema.field(name).type
    column: Any = pc.field(name)
    if len(given) == 2 and sign in _TESTS:
        return _TESTS[sign](column)
    if len(given) != 3 or (sign != "in" and sign not in _COMPARISONS):
        raise og.errors.InvalidInput(f"not a filter: {str(given)[:100]}", hint=_FORM)
    if pa.types.is_nested(kind) or pa.types.is_large_binary(kind):
        raise og.errors.InvalidInput(f"column {name!r} ({kind}) can be tested for null only", column=name)
    try:
        if sign != "in":
            return _COMPARISONS[sign](column, _scalar(given[2], kind))
        values = [_scalar(value, kind).as_py() for value in given[2]]
        return column.isin(pa.array(values, kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = str(error).splitlines()[0][:200] if str(error) else "no value"
        raise og.errors.InvalidInput(f"filter on {name!r} ({kind}): {said}", column=name) from None


def _scalar(value: Any, kind: pa.DataType) -> Any:
    """Numbers and texts by kind; days and instants also as text, as they arrive through options."""
    if value is None or (isinstance(value, bool) != pa.types.is_boolean(kind)):
        raise TypeError(f"{value!r} is not a value of this column")
    if isinstance(value, str) and pa.types.is_temporal(kind):
        return pa.scalar(_moment(value, kind), kind)
    return pa.scalar(value, kind)


def _moment(text: str, kind: pa.DataType) -> dt.date | dt.datetime:
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(text)
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def parsed(text: str) -> list[Any]:
    if not text:
        return []
    try:
        found = json.loads(text)
    except ValueError as error:
        raise og.errors.InvalidInput(f"the option 'filters' is not JSON: {error}", hint=_FORM) from None
    if not isinstance(found, list):
        raise og.errors.InvalidInput("the option 'filters' is not a list", hint=_FORM)
    return found
