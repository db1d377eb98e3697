"""Parameters from JSON, by their declared types.

Binding checks kinds, ranges and lengths; texts of dates and blobs are read when a statement uses them, because an
unused parameter does no harm. A key that the query does not declare is refused: where it is a misspelled name, the declared
parameter would be null, and the query would write that.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NoReturn

from omnigraph.core.errors import LimitExceeded, QueryInvalid
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.gq.check_values import NOW_PARAMETER, element_type
from omnigraph.gq.temporal import parse_date, parse_datetime
from omnigraph.gq.tree import Param, Query
from omnigraph.gq.values import Misfit, coerce, describe_value, type_name
from omnigraph.schema.catalog import PropType, ScalarKind

# Names come from outside and are shown in errors.
_NAME_SHOWN_CHARS = 128
_NAMES_SHOWN = 20


@dataclass(frozen=True)
class BoundParams:
    """What was given, by name. A declared parameter without a value and without ``?`` is absent."""

    values: Mapping[str, object]
    types: Mapping[str, PropType]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def use(self, name: str) -> object:
        """The value as its declared type has it, texts of dates read. Raises ``Misfit`` for a text that is none."""
        value, type_ = self.values[name], self.types[name]
        if type_.is_list and isinstance(value, tuple):
            return tuple(_read_text(item, type_.scalar) for item in value)
        return _read_text(value, type_.scalar)


def _read_text(value: object, kind: ScalarKind) -> object:
    if not isinstance(value, str) or kind not in (ScalarKind.DATE, ScalarKind.DATETIME):
        return value
    try:
        return parse_date(value) if kind is ScalarKind.DATE else parse_datetime(value)
    except ValueError as error:
        raise Misfit(f"{kind.value} in ISO 8601 ({error})", describe_value(value)) from None


# --- binding ------------------------------------------------------------------------------------------------------------


def bind_params(query: Query, params: object = None) -> BoundParams:
    """Check a decoded JSON document, or a mapping of Python values, against the declarations of a query.

    Raises ``QueryInvalid`` with ``parameter``, ``expected`` and ``received``.
    """
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        raise QueryInvalid(
            f"query {query.name}: parameters must be an object, received {describe_value(params)}",
            hint='give parameters as a JSON object: {"name": value}',
            query=query.name,
            expected="object",
            received=describe_value(params),
        )
    declared = {param.name: param for param in reversed(query.params)}
    values: dict[str, object] = {}
    for name, value in params.items():
        if not isinstance(name, str):
            _refuse(query, str(name), Misfit("a name", describe_value(name)))
        try:
            if name == NOW_PARAMETER:
                raise Misfit("no value: the name is reserved for now()", describe_value(value))
            if name not in declared:
                _refuse_undeclared(query, name, declared)
            values[name] = _bind(value, declared[name])
        except Misfit as misfit:
            _refuse(query, name, misfit)
    for param in query.params:
        if param.type.nullable:
            values.setdefault(param.name, None)
    return BoundParams(values, {name: param.type for name, param in declared.items()})


def _refuse_undeclared(query: Query, name: str, declared: Mapping[str, Param]) -> NoReturn:
    shown = _shown(name)
    known = ", ".join(f"${one.name}" for one in query.params[:_NAMES_SHOWN]) or "none"
    near = difflib.get_close_matches(name[:_NAME_SHOWN_CHARS], declared, n=1)
    raise QueryInvalid(
        f"query {query.name}: it has no parameter ${shown}; it declares {known}",
        hint=f"did you mean {near[0]}?" if near else "leave the parameter out, or declare it in the query",
        query=query.name,
        parameter=shown,
    )


def _shown(name: str) -> str:
    shown = name if len(name) <= _NAME_SHOWN_CHARS else name[:_NAME_SHOWN_CHARS] + "…"
    return shown if shown.isidentifier() and shown.isascii() else json.dumps(shown)


def _refuse(query: Query, name: str, misfit: Misfit) -> NoReturn:
    shown = _shown(name)
    raise QueryInvalid(
        f"query {query.name}: parameter ${shown}: {misfit}",
        hint="give the parameter a value of its declared type",
        query=query.name,
        parameter=shown,
        expected=misfit.expected,
        received=misfit.received,
    )


def _bind(value: object, param: Param) -> object:
    type_ = param.type
    if value is None:
        if not type_.nullable:
            raise Misfit(type_name(type_), "null")
        return None
    if not type_.is_list:
        return _bind_one(value, type_)
    if not isinstance(value, list | tuple):
        raise Misfit(type_name(type_), describe_value(value))
    element = element_type(type_)
    bound: list[object] = []
    for index, item in enumerate(value):
        try:
            bound.append(None if item is None else _bind_one(item, element))
        except Misfit as misfit:
            raise Misfit(f"{type_name(type_)} with {misfit.expected} at index {index}", misfit.received) from None
    return tuple(bound)


def _bind_one(value: object, type_: PropType) -> object:
    match type_.scalar:
        case ScalarKind.DATE | ScalarKind.DATETIME | ScalarKind.BLOB if isinstance(value, str):
            coerce(value, PropType(ScalarKind.STRING))
            return value
        case ScalarKind.DATETIME if isinstance(value, datetime):
            return _in_utc(value)
        case ScalarKind.DATE | ScalarKind.DATETIME | ScalarKind.BLOB if not isinstance(value, date | bytes):
            raise Misfit(f"{type_name(type_)} as a string", describe_value(value))
        case kind if kind.is_integer and isinstance(value, float):
            raise Misfit(type_name(type_), describe_value(value))
    return coerce(value, type_)


def _in_utc(value: datetime) -> datetime:
    """An instant; without a zone it is UTC, as in texts."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise Misfit("DateTime of the years 1 to 9999", describe_value(value)) from None


# --- JSON ---------------------------------------------------------------------------------------------------------------


def parse_params(text: str, limits: Limits = DEFAULT_LIMITS) -> object:
    """The JSON document of parameters, exact in integers, without the freedoms of Python's reader: no NaN, no member
    given twice."""
    limits.check("source_text_bytes", len(text.encode("utf-8", "surrogatepass")), where="parameters")
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise QueryInvalid(
            f"parameters are not JSON: line {error.lineno}, column {error.colno}: {error.msg}",
            hint='give parameters as a JSON object: {"name": value}',
            line=error.lineno,
            column=error.colno,
        ) from error
    except Misfit as misfit:
        raise QueryInvalid(
            f"parameters are not JSON: {misfit}",
            hint='give parameters as a JSON object: {"name": value}',
            expected=misfit.expected,
            received=misfit.received,
        ) from None
    except RecursionError as error:
        raise LimitExceeded(
            f"parameters have too many levels of nesting: limit=nesting bound={limits.nesting}",
            limit="nesting",
            bound=limits.nesting,
        ) from error


def _no_constant(name: str) -> NoReturn:
    raise Misfit("a finite number", name)


# Python converts no text of more than 4,300 digits; no parameter takes one of more than 309.
_DIGITS_MAX = 400


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise Misfit(f"an integer of at most {_DIGITS_MAX} digits", f"one of {len(digits)}")
    return int(digits)


def _no_duplicates(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        twice = Counter(name for name, _ in members).most_common(1)[0][0]
        raise Misfit("each member once", f"{describe_value(twice)} twice")
    return found
