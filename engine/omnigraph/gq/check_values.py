"""Whether a value of the text fits a property: literals by value, parameters by their declared type.

Owns codes T3, T7 and T14 and the marking of parameters as used. Conversion itself is in ``values``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

from omnigraph.gq.diagnostics import Report
from omnigraph.gq.temporal import parse_date, parse_datetime
from omnigraph.gq.tree import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Literal,
    Now,
    Param,
    Query,
    StringLiteral,
    Value,
    Variable,
)
from omnigraph.gq.values import Misfit, coerce, describe_value, type_name, types_fit
from omnigraph.schema.catalog import PropType, ScalarKind

# The name that carries the value of now() to where a query runs.
NOW_PARAMETER = "__nanograph_now"


class Scope:
    """What the checks of one query share: its parameters, which of them were used, its findings."""

    def __init__(self, query: Query, report: Report) -> None:
        self.report = report
        self.params: Mapping[str, Param] = {param.name: param for param in reversed(query.params)}
        self.used: set[str] = set()

    def param(self, variable: Variable) -> Param | None:
        """The declaration; a missing one is reported."""
        found = self.params.get(variable.name)
        if found is None:
            self.report.error("T14", f"${variable.name} is not a declared parameter", variable.at)
            return None
        self.used.add(variable.name)
        return found


def literal_value(literal: Literal) -> object:
    """What a literal says, as a Python value of its own kind. Raises ``Misfit`` for a text that is no date."""
    match literal:
        case DateLiteral():
            return _temporal(parse_date, "date", literal.text)
        case DateTimeLiteral():
            return _temporal(parse_datetime, "datetime", literal.text)
        case ListLiteral():
            return [literal_value(item) for item in literal.items]
        case IntLiteral() | FloatLiteral() | StringLiteral() | BoolLiteral():
            return literal.value


def _temporal(parse: Callable[[str], date], word: str, text: str) -> date:
    try:
        return parse(text)
    except ValueError as error:
        raise Misfit(f"{word} in ISO 8601 ({error})", describe_value(text)) from None


def check_value(scope: Scope, value: Value, type_: PropType, place: str) -> None:
    """Report unless the value fits. ``place`` is ``Type.property``, as messages show it."""
    match value:
        case Variable():
            param = scope.param(value)
            if param is not None and not types_fit(param.type, type_):
                message = f"{place} is {type_name(type_)}, parameter ${param.name} is {param.type}"
                scope.report.error("T7", message, value.at)
        case Now():
            if type_.is_list or type_.scalar is not ScalarKind.DATETIME:
                scope.report.error("T3", f"{place} is {type_name(type_)}, now() is DateTime", value.at)
        case _:
            try:
                coerce(literal_value(value), type_)
            except Misfit as misfit:
                message = f"{place}: expected {misfit.expected}, received {misfit.received}"
                scope.report.error("T3", message, value.at)


def element_type(type_: PropType) -> PropType:
    """The type of one element of a list."""
    return PropType(type_.scalar, nullable=True)


def literal_type(literal: Literal) -> PropType | None:
    """The type that a literal has by itself; None for a list without elements or of mixed kinds."""
    match literal:
        case IntLiteral():
            return PropType(ScalarKind.I64)
        case FloatLiteral():
            return PropType(ScalarKind.F64)
        case StringLiteral():
            return PropType(ScalarKind.STRING)
        case BoolLiteral():
            return PropType(ScalarKind.BOOL)
        case DateLiteral():
            return PropType(ScalarKind.DATE)
        case DateTimeLiteral():
            return PropType(ScalarKind.DATETIME)
        case ListLiteral():
            kinds = {literal_type(item) for item in literal.items}
            if kinds == {PropType(ScalarKind.I64), PropType(ScalarKind.F64)}:
                return PropType(ScalarKind.F64, is_list=True)
            first = next(iter(kinds), None)
            if first is None or len(kinds) > 1 or first.is_list:
                return None
            return PropType(first.scalar, is_list=True)
