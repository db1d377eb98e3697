"""Typed predicates, and the only place where anything becomes filter text.

A predicate is a small tree of frozen values. It can be evaluated over Arrow in memory (:func:`mask`) and turned into a
filter for Lance (:func:`to_filter`); both follow SQL's three-valued logic, so a row is selected only where the answer
is true. User text never reaches a filter: names pass :func:`quote_name`, values :func:`quote_value`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.errors import InvalidInput

_NAME_FORBIDDEN = re.compile(r"[`.\x00-\x1f\x7f]")
"""What Lance cannot address in a filter, quoted or not: its own quote, the path separator, control characters."""

_INT64_MIN = -(2**63)

_COMPARE = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_KERNELS: dict[str, Callable[..., Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True)
class Compare:
    """``column op value``; ``op`` is one of ``== != < <= > >=``. Null on either side selects nothing."""

    column: str
    op: str
    value: pa.Scalar[Any]


@dataclass(frozen=True, eq=False)
class Among:
    """``column`` is one of ``values``. Nulls among the values match nothing; nothing is one of none, not even null."""

    column: str
    values: pa.Array[Any]


@dataclass(frozen=True)
class Contains:
    """The list in ``column`` has ``value`` among its members."""

    column: str
    value: pa.Scalar[Any]


@dataclass(frozen=True)
class IsNull:
    column: str


@dataclass(frozen=True)
class Not:
    part: Predicate


@dataclass(frozen=True)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Predicate, ...]


Predicate = Compare | Among | Contains | IsNull | Not | And | Or


def columns_of(predicate: Predicate) -> set[str]:
    """The columns that a predicate reads."""
    if isinstance(predicate, Not):
        return columns_of(predicate.part)
    if isinstance(predicate, And | Or):
        return set().union(*(columns_of(part) for part in predicate.parts))
    return {predicate.column}


# --- in memory ----------------------------------------------------------------------------------------------------------


def mask(predicate: Predicate, table: pa.Table | pa.RecordBatch) -> pa.BooleanArray:
    """True, false or null for each row."""
    found: Any = _mask(predicate, table)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    return found  # type: ignore[no-any-return]


def _mask(predicate: Predicate, table: pa.Table | pa.RecordBatch) -> Any:
    if isinstance(predicate, Not):
        return pc.invert(_mask(predicate.part, table))
    if isinstance(predicate, And | Or):
        join = pc.and_kleene if isinstance(predicate, And) else pc.or_kleene
        found: Any = _constant(isinstance(predicate, And), table.num_rows)
        for part in predicate.parts:
            found = join(found, _mask(part, table))
        return found
    column = table.column(predicate.column)
    if isinstance(predicate, IsNull):
        return pc.is_null(column)
    if isinstance(predicate, Compare):
        return _KERNELS[predicate.op](column, predicate.value.cast(column.type))
    if isinstance(predicate, Among):
        values = predicate.values.cast(column.type).drop_null()
        if len(values) == 0:
            return _constant(False, table.num_rows)
        return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=values), pa.scalar(None, pa.bool_()))
    return _mask_contains(predicate, column)


def _mask_contains(predicate: Contains, column: Any) -> Any:
    if not predicate.value.is_valid:
        return pa.nulls(len(column), pa.bool_())
    # One row may hold the value twice, so count hits per row instead of joining back.
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    members = pc.list_flatten(flat)
    hit: Any = pc.equal(members, predicate.value.cast(members.type))
    rows: Any = pc.filter(pc.list_parent_indices(flat), pc.fill_null(hit, False))
    positions = pa.array(range(len(flat)), type=rows.type)
    return pc.if_else(pc.is_valid(flat), pc.is_in(positions, value_set=rows), pa.scalar(None, pa.bool_()))


def _constant(value: bool, rows: int) -> pa.BooleanArray:
    return pa.array([value] * rows, pa.bool_())


# --- as Lance wants it ----------------------------------------------------------------------------------------------------


def to_filter(predicate: Predicate) -> str:
    """The filter text for a Lance scan, made of quoted names and quoted values only.

    A negation is carried down to the leaves, where it also asks that the column is not null. Above them only AND and OR
    are left, for which unknown is as good as false. That matters: the planner folds ``x IN (0) AND x IN (1)`` to false,
    also where x is null, and a NOT around it would then select those rows.
    """
    return _filter(predicate, negated=False)


def _filter(predicate: Predicate, *, negated: bool) -> str:
    if isinstance(predicate, Not):
        return _filter(predicate.part, negated=not negated)
    if isinstance(predicate, And | Or):
        conjunction = isinstance(predicate, And) is not negated
        if not predicate.parts:
            return "true" if conjunction else "false"
        parts = [_filter(part, negated=negated) for part in predicate.parts]
        return "(" + (" AND " if conjunction else " OR ").join(parts) + ")"
    name = quote_name(predicate.column)
    if isinstance(predicate, IsNull):
        return f"({name} IS {'NOT ' if negated else ''}NULL)"
    if isinstance(predicate, Among):
        if predicate.values.null_count == len(predicate.values):
            return "true" if negated else "false"
        leaf = among(predicate.column, predicate.values)
    elif not predicate.value.is_valid:
        return "false"  # unknown for every row, negated or not
    else:
        leaf = _leaf(predicate, name)
    return f"({name} IS NOT NULL AND NOT {leaf})" if negated else leaf


def _leaf(predicate: Compare | Contains, name: str) -> str:
    value = quote_value(predicate.value)
    if isinstance(predicate, Compare):
        return f"({name} {_COMPARE[predicate.op]} {value})"
    return f"array_has({name}, {value})"


def among(column: str, values: pa.Array[Any] | pa.ChunkedArray[Any]) -> str:
    """``column IN (…)``; an empty list is false."""
    listed = ", ".join(quote_value(value) for value in values if value.is_valid)
    return f"({quote_name(column)} IN ({listed}))" if listed else "false"


def addresses_among(addresses: pa.Array[Any]) -> str:
    """The filter that picks rows by physical address; Lance reads only those."""
    return "_rowaddr IN (" + ",".join(map(str, addresses.to_pylist())) + ")"


def quote_name(name: str) -> str:
    """A column name, case preserved. Raises for a name that Lance cannot address."""
    if not name or _NAME_FORBIDDEN.search(name):
        raise InvalidInput("a column name must not hold a back-tick, a dot or a control character", column=name[:80])
    return f"`{name}`"


def quote_value(value: pa.Scalar[Any]) -> str:
    """A non-null value as a literal of exactly its type."""
    kind = value.type
    if not value.is_valid:
        raise InvalidInput("a null cannot be compared; ask for IsNull instead", type=str(kind))
    if _is_text(kind):
        text: str = value.as_py()
        return "'" + text.replace("'", "''") + "'"
    if pa.types.is_boolean(kind):
        return "true" if value.as_py() else "false"
    if pa.types.is_integer(kind):
        # The parser reads a minus and a number apart, and 2**63 alone fits no signed integer.
        return f"CAST('{_INT64_MIN}' AS BIGINT)" if value.as_py() == _INT64_MIN else str(value.as_py())
    if pa.types.is_floating(kind):
        return _quote_float(value.as_py(), kind)
    if pa.types.is_date32(kind):
        return f"arrow_cast({value.cast(pa.int32()).as_py()}, 'Date32')"
    if pa.types.is_timestamp(kind):
        return f"arrow_cast({value.cast(pa.int64()).as_py()}, '{_timestamp_name(kind)}')"
    raise InvalidInput("values of this type cannot be compared in storage", type=str(kind))


def _quote_float(value: float, kind: pa.DataType) -> str:
    if not math.isfinite(value):
        raise InvalidInput("NaN and infinities are no values of a property", value=str(value))
    return f"CAST({value!r} AS {'DOUBLE' if pa.types.is_float64(kind) else 'FLOAT'})"


def _timestamp_name(kind: Any) -> str:
    unit = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[kind.unit]
    zone: str | None = kind.tz
    if zone not in (None, "UTC"):
        raise InvalidInput("times are compared in UTC", zone=str(zone))
    return f"Timestamp({unit}, None)" if zone is None else f'Timestamp({unit}, Some("UTC"))'


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
