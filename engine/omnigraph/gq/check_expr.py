"""Types of expressions in reads, and which may meet in a comparison.

Owns codes T2, T6, T7 (comparisons), T15 (nearest), T19, T20, T21 (operands). ``None`` as a type means that the fault
was reported already: nothing more is said about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.gq.check_values import Scope, element_type, literal_type, literal_value
from omnigraph.gq.tree import (
    Aggregate,
    AliasOf,
    Expr,
    Filter,
    FloatLiteral,
    IntLiteral,
    Nearest,
    Now,
    PropertyOf,
    RankFusion,
    StringLiteral,
    TextSearch,
    Variable,
)
from omnigraph.gq.values import Misfit, coerce, type_name, types_fit
from omnigraph.schema.catalog import Catalog, NodeType, PropType, ScalarKind

ExprType: TypeAlias = PropType | NodeType

_BOOL = PropType(ScalarKind.BOOL)
_SCORE = PropType(ScalarKind.F64)
_DATETIME = PropType(ScalarKind.DATETIME)
_TEXT_CODES = {"search": "T19", "fuzzy": "T19", "match_text": "T20", "bm25": "T20"}


@dataclass(frozen=True)
class ReadScope:
    """The variables in sight. A ``not { }`` has a scope of its own, which sees the outer one."""

    scope: Scope
    catalog: Catalog
    outer: Mapping[str, NodeType] = field(default_factory=dict)
    variables: dict[str, NodeType] = field(default_factory=dict)
    aliases: set[str] = field(default_factory=set)
    mentions: Counter[str] = field(default_factory=Counter)  # shared by all scopes of a query

    def node_of(self, variable: str) -> NodeType | None:
        self.mentions[variable] += 1
        return self.variables.get(variable)


def type_of(scope: ReadScope, expr: Expr) -> ExprType | None:
    match expr:
        case PropertyOf():
            return _property(scope, expr)
        case Variable():
            return _variable(scope, expr)
        case Now():
            return _DATETIME
        case TextSearch():
            return _text_search(scope, expr)
        case Nearest():
            return _nearest(scope, expr)
        case RankFusion():
            return _rank_fusion(scope, expr)
        case AliasOf():
            if expr.name not in scope.aliases:
                scope.scope.report.error("T6", f"no projection above is called {expr.name}", expr.at)
            return None
        case Aggregate():
            scope.scope.report.error("T8", f"{expr.function}() may only be a projection of its own", expr.at)
            return None
        case _:
            try:
                literal_value(expr)
            except Misfit as misfit:
                scope.scope.report.error("T3", str(misfit), expr.at)
            return literal_type(expr)


def _property(scope: ReadScope, expr: PropertyOf) -> PropType | None:
    node = scope.node_of(expr.variable)
    if node is None:
        scope.scope.report.error("T6", f"${expr.variable} is not bound in match", expr.at)
        return None
    prop = node.by_name.get(expr.name)
    if prop is None:
        scope.scope.report.error("T2", f"{node.name} has no property {expr.name}", expr.at)
        return None
    return prop.type


def _variable(scope: ReadScope, expr: Variable) -> ExprType | None:
    node = scope.node_of(expr.name)
    if node is not None:
        return node
    if expr.name in scope.scope.params:
        param = scope.scope.param(expr)
        return param.type if param is not None else None
    message = f"${expr.name} is neither bound in match nor a declared parameter"
    scope.scope.report.error("T6", message, expr.at)
    return None


# --- comparisons --------------------------------------------------------------------------------------------------------


def check_filter(scope: ReadScope, clause: Filter) -> None:
    report = scope.scope.report
    for side in (clause.left, clause.right):
        if isinstance(side, Nearest | RankFusion):
            report.error("T7", "a ranking orders and cannot be compared", side.at)
    left, right = type_of(scope, clause.left), type_of(scope, clause.right)
    if left is None or right is None:
        return
    for type_ in (left, right):
        if isinstance(type_, NodeType):
            report.error("T7", f"a whole {type_.name} cannot be compared, its properties can", clause.at)
            return
    assert isinstance(left, PropType) and isinstance(right, PropType)
    if clause.op == "contains":
        if not left.is_list or not _is_scalar(right) or not types_fit(right, element_type(left)):
            message = f"contains needs a list and an element, not {type_name(left)} and {type_name(right)}"
            report.error("T7", message, clause.at)
        return
    if not _is_scalar(left) or not _is_scalar(right) or not _comparable(left, right):
        report.error("T7", f"{type_name(left)} and {type_name(right)} cannot be compared", clause.at)
        return
    _check_enum(scope, clause.left, left, clause.right)
    _check_enum(scope, clause.right, right, clause.left)


def _is_scalar(type_: PropType) -> bool:
    return not type_.is_list and type_.scalar not in (ScalarKind.VECTOR, ScalarKind.BLOB)


def _comparable(left: PropType, right: PropType) -> bool:
    return left.scalar is right.scalar or (left.is_numeric and right.is_numeric)


def _check_enum(scope: ReadScope, expr: Expr, type_: PropType, other: Expr) -> None:
    if type_.enum is not None and isinstance(other, StringLiteral) and other.value not in type_.enum:
        place = f"{expr.variable}.{expr.name}" if isinstance(expr, PropertyOf) else "the other side"
        try:
            coerce(other.value, type_)
        except Misfit as misfit:
            scope.scope.report.error("T3", f"{place}: {misfit}", other.at)


# --- search -------------------------------------------------------------------------------------------------------------


def _text_search(scope: ReadScope, expr: TextSearch) -> PropType:
    report, code = scope.scope.report, _TEXT_CODES[expr.function]
    searched = type_of(scope, expr.searched)
    if not isinstance(expr.searched, PropertyOf) or (searched is not None and not _is_text(searched)):
        report.error(code, f"{expr.function}() searches a String property", expr.searched.at)
    query = type_of(scope, expr.query)
    if query is not None and not _is_text(query):
        report.error(code, f"{expr.function}() needs a String to search for", expr.query.at)
    if expr.edits_max is not None:
        edits = type_of(scope, expr.edits_max)
        if edits is not None and not (isinstance(edits, PropType) and edits.is_numeric and edits.scalar.is_integer):
            report.error(code, "fuzzy() takes an integer number of edits", expr.edits_max.at)
    return _SCORE if expr.function == "bm25" else _BOOL


def _is_text(type_: ExprType) -> bool:
    return isinstance(type_, PropType) and type_.scalar is ScalarKind.STRING and not type_.is_list


def _nearest(scope: ReadScope, expr: Nearest) -> PropType:
    report = scope.scope.report
    searched = _property(scope, PropertyOf(expr.variable, expr.property, at=expr.at))
    if searched is not None and searched.scalar is not ScalarKind.VECTOR:
        place = f"${expr.variable}.{expr.property}"
        report.error("T15", f"nearest() searches a Vector property, {place} is {type_name(searched)}", expr.at)
        searched = None
    if not isinstance(expr.query, Variable | StringLiteral) and literal_of_numbers(expr.query) is None:
        report.error("T15", "nearest() needs a vector or a String to search for", expr.query.at)
        return _SCORE
    query = type_of(scope, expr.query)
    if searched is None or query is None or _is_text(query):
        return _SCORE
    numbers = literal_of_numbers(expr.query)
    fits = isinstance(query, PropType) and types_fit(query, searched)
    if not fits or (numbers is not None and numbers != searched.dim):
        received = f"a list of {numbers}" if numbers is not None else type_label(query)
        report.error("T15", f"nearest() needs {type_name(searched)} or String, received {received}", expr.query.at)
    return _SCORE


def literal_of_numbers(expr: Expr) -> int | None:
    """The length of a list literal that holds numbers only; None for everything else."""
    items = getattr(expr, "items", None)
    if items is None or not all(isinstance(item, IntLiteral | FloatLiteral) for item in items):
        return None
    return len(items)


def type_label(type_: ExprType) -> str:
    return type_.name if isinstance(type_, NodeType) else type_name(type_)


def _rank_fusion(scope: ReadScope, expr: RankFusion) -> PropType:
    type_of(scope, expr.first)
    type_of(scope, expr.second)
    if expr.k is not None:
        type_ = type_of(scope, expr.k)
        is_number = type_ is None or (isinstance(type_, PropType) and type_.is_numeric)
        is_constant = isinstance(expr.k, IntLiteral | FloatLiteral | Variable)
        is_positive = not isinstance(expr.k, IntLiteral | FloatLiteral) or expr.k.value > 0
        if not (is_number and is_constant and is_positive):
            scope.scope.report.error("T21", "rrf() takes a number above 0 as k", expr.k.at)
    return _SCORE
