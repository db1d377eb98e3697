"""Static checks of reads: what ``match`` binds and walks, what ``return`` and ``order`` make of it.

Clauses of one ``match`` hold together whatever their order: bindings are looked at first, then traversals, then the
rest. Owns codes T1, T4, T5, T8, T9, T15 (hops), T17, T18, T21 (limit) and the warnings about variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.gq.check_expr import ReadScope, check_filter, type_label, type_of
from omnigraph.gq.check_values import Scope, check_value, element_type
from omnigraph.gq.tree import (
    Aggregate,
    AliasOf,
    Binding,
    Clause,
    Expr,
    Filter,
    Nearest,
    NotExists,
    Now,
    Ordering,
    Projection,
    PropertyOf,
    RankFusion,
    Read,
    TextClause,
    TextSearch,
    Traversal,
    Variable,
)
from omnigraph.gq.values import type_name
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropType, ScalarKind

ANONYMOUS = "_"


def check_read(scope: Scope, read: Read, catalog: Catalog) -> None:
    reads = ReadScope(scope, catalog)
    _match(reads, read.match)
    _returns(reads, read.returns)
    _orderings(reads, read)
    _warn_of_variables(reads, read.match)


# --- match --------------------------------------------------------------------------------------------------------------


def _match(scope: ReadScope, clauses: Iterable[Clause]) -> None:
    clauses = tuple(clauses)
    for clause in clauses:
        if isinstance(clause, Binding):
            _binding(scope, clause)
    for clause in clauses:
        if isinstance(clause, Traversal):
            _traversal(scope, clause)
    for clause in clauses:
        match clause:
            case Filter():
                check_filter(scope, clause)
            case TextClause():
                type_of(scope, clause.search)
            case NotExists():
                _not_exists(scope, clause)


def _binding(scope: ReadScope, clause: Binding) -> None:
    report = scope.scope.report
    node = scope.catalog.find_node(clause.type_name)
    if node is None:
        is_known = clause.type_name in scope.catalog.interfaces or scope.catalog.find_edge(clause.type_name)
        what = "is not a node type and cannot be bound" if is_known else "is not a known node type"
        report.error("T1", f"{clause.type_name} {what}", clause.at)
        return
    _bind(scope, clause.variable, node, clause)
    for match in clause.matches:
        place = f"{node.name}.{match.name}"
        prop = node.by_name.get(match.name)
        if prop is None:
            report.error("T2", f"{node.name} has no property {match.name}", match.at)
        elif prop.type.scalar in (ScalarKind.BLOB, ScalarKind.VECTOR):
            report.error("T7", f"{place} is {type_name(prop.type)} and cannot be matched", match.at)
        else:
            wanted = element_type(prop.type) if prop.type.is_list else prop.type
            check_value(scope.scope, match.value, wanted, place)


def _bind(scope: ReadScope, variable: str, node: NodeType, clause: Binding | Traversal) -> None:
    if variable == ANONYMOUS:
        return
    known = scope.node_of(variable)
    if known is not None and known.name != node.name:
        message = f"${variable} is {known.name} already and cannot be {node.name}"
        scope.scope.report.error("T6", message, clause.at)
        return
    scope.variables[variable] = node


def _traversal(scope: ReadScope, clause: Traversal) -> None:
    report = scope.scope.report
    if clause.hops is not None:
        least, most = clause.hops.min, clause.hops.max
        if least < 1 or most is None or most < least:
            report.error("T15", f"hops of {clause.edge} need 1 ≤ min ≤ max, both given", clause.at)
    edge = scope.catalog.find_edge(clause.edge)
    if edge is None:
        report.error("T4", f"{clause.edge} is not a known edge type", clause.at)
        return
    source, target = _ends(scope, clause, edge)
    for variable, type_name_ in ((clause.source, source), (clause.target, target)):
        known = scope.variables.get(variable) if variable != ANONYMOUS else None
        if known is not None and known.name != type_name_:
            shape = f"{edge.name} runs from {edge.src_type} to {edge.dst_type}"
            report.error("T5", f"${variable} is {known.name}, which cannot stand there: {shape}", clause.at)
            scope.mentions[variable] += 1
            continue
        node = scope.catalog.find_node(type_name_)
        if node is not None:
            _bind(scope, variable, node, clause)


def _ends(scope: ReadScope, clause: Traversal, edge: EdgeType) -> tuple[str, str]:
    """The node types of the left and the right variable: the bound one says in which direction the edge is walked."""
    forward, backward = (edge.src_type, edge.dst_type), (edge.dst_type, edge.src_type)
    for side, variable in enumerate((clause.source, clause.target)):
        known = scope.variables.get(variable) if variable != ANONYMOUS else None
        if known is not None:
            is_backward = known.name == backward[side] != forward[side]
            return backward if is_backward else forward
    return forward


def _not_exists(scope: ReadScope, clause: NotExists) -> None:
    inner = ReadScope(scope.scope, scope.catalog, scope.variables, dict(scope.variables), mentions=scope.mentions)
    if not any(name in scope.variables for name in _mentioned(clause.clauses)):
        scope.scope.report.error("T9", "not { } mentions no variable from outside of it", clause.at)
    _match(inner, clause.clauses)


def _mentioned(clauses: Iterable[Clause]) -> Iterator[str]:
    for clause in clauses:
        match clause:
            case Binding():
                yield clause.variable
            case Traversal():
                yield clause.source
                yield clause.target
            case Filter():
                yield from _mentioned_in(clause.left)
                yield from _mentioned_in(clause.right)
            case TextClause():
                yield from _mentioned_in(clause.search)
            case NotExists():
                yield from _mentioned(clause.clauses)


def _mentioned_in(expr: Expr) -> Iterator[str]:
    match expr:
        case PropertyOf() | Nearest():
            yield expr.variable
        case Variable():
            yield expr.name
        case TextSearch():
            yield from _mentioned_in(expr.searched)
            yield from _mentioned_in(expr.query)


# --- return, order ------------------------------------------------------------------------------------------------------


def _returns(scope: ReadScope, projections: Iterable[Projection]) -> None:
    projections = tuple(projections)
    report = scope.scope.report
    is_grouped = any(isinstance(projection.expr, Aggregate) for projection in projections)
    names: set[str] = set()
    for projection in projections:
        expr = projection.expr
        if isinstance(expr, Aggregate):
            _aggregate(scope, expr)
        else:
            type_ = type_of(scope, expr)
            if is_grouped and type_ is not None and not _is_group_key(expr, type_):
                report.error("T9", "beside an aggregate only properties and variables may be returned", expr.at)
        name = projection.alias or _default_name(expr)
        if name in names:
            report.warning("W5", f"two projections are called {name}", projection.at)
        names.add(name)
        if projection.alias is not None:
            scope.aliases.add(projection.alias)


def _is_group_key(expr: Expr, type_: object) -> bool:
    return isinstance(expr, PropertyOf) or (isinstance(expr, Variable) and isinstance(type_, NodeType))


def _default_name(expr: Expr) -> str:
    match expr:
        case PropertyOf():
            return f"{expr.variable}.{expr.name}"
        case Variable() | AliasOf():
            return expr.name
        case Aggregate() | TextSearch():
            return expr.function
        case Nearest():
            return "nearest"
        case RankFusion():
            return "rrf"
        case Now():
            return "now"
        case _:
            return "literal"


def _aggregate(scope: ReadScope, expr: Aggregate) -> None:
    report = scope.scope.report
    if not isinstance(expr.operand, PropertyOf | Variable):
        report.error("T8", f"{expr.function}() takes a property or a variable", expr.at)
        return
    type_ = type_of(scope, expr.operand)
    if type_ is None or expr.function == "count":
        return
    is_number = isinstance(type_, PropType) and type_.is_numeric
    is_text = isinstance(type_, PropType) and type_.scalar is ScalarKind.STRING and not type_.is_list
    if not (is_number or (is_text and expr.function in ("min", "max"))):
        wanted = "numbers" if expr.function in ("sum", "avg") else "numbers or texts"
        report.error("T8", f"{expr.function}() takes {wanted}, not {type_label(type_)}", expr.at)


def _orderings(scope: ReadScope, read: Read) -> None:
    report = scope.scope.report
    exprs = [ordering.expr for ordering in read.order]
    nearest = next((expr for expr in exprs if _ranks_by_nearest(expr)), None)
    alias = next((expr for expr in exprs if isinstance(expr, AliasOf)), None)
    for ordering in read.order:
        _ordering(scope, ordering, read.returns)
    if nearest is not None and alias is not None:
        report.error("T18", f"order by the alias {alias.name} cannot be combined with nearest()", alias.at)
    if read.limit is None:
        for expr in exprs:
            if isinstance(expr, Nearest):
                report.error("T17", "order by nearest() needs a limit", expr.at)
            if isinstance(expr, RankFusion):
                report.error("T21", "order by rrf() needs a limit", expr.at)


def _ranks_by_nearest(expr: Expr) -> bool:
    if isinstance(expr, RankFusion):
        return isinstance(expr.first, Nearest) or isinstance(expr.second, Nearest)
    return isinstance(expr, Nearest)


def _ordering(scope: ReadScope, ordering: Ordering, returns: Iterable[Projection]) -> None:
    report, expr = scope.scope.report, ordering.expr
    is_ranking = isinstance(expr, Nearest | RankFusion) or (isinstance(expr, TextSearch) and expr.function == "bm25")
    if not is_ranking and not isinstance(expr, PropertyOf | AliasOf):
        report.error("T6", "order takes a property, an alias or a ranking", expr.at)
        return
    type_of(scope, expr)
    projected = [projection.expr for projection in returns]
    is_grouped = any(isinstance(found, Aggregate) for found in projected)
    if is_grouped and not isinstance(expr, AliasOf) and expr not in projected:
        report.error("T9", "beside an aggregate order takes aliases and returned properties only", expr.at)


# --- warnings -----------------------------------------------------------------------------------------------------------


def _warn_of_variables(scope: ReadScope, clauses: Iterable[Clause]) -> None:
    report = scope.scope.report
    seen: set[str] = set()
    for variable, clause in _bound(clauses):
        if variable in seen or variable == ANONYMOUS:
            continue
        seen.add(variable)
        if scope.mentions[variable] == 1:
            report.warning("W3", f"${variable} is bound and not used; `$_` says so", clause.at)
        if variable in scope.scope.params:
            report.warning("W4", f"${variable} is bound in match and hides the parameter ${variable}", clause.at)


def _bound(clauses: Iterable[Clause]) -> Iterator[tuple[str, Binding | Traversal]]:
    for clause in clauses:
        match clause:
            case Binding():
                yield clause.variable, clause
            case Traversal():
                yield clause.source, clause
                yield clause.target, clause
            case NotExists():
                yield from _bound(clause.clauses)
