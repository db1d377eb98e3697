"""Static checks of mutations: types, properties, what must be assigned, and what may be compared.

Also owns the rule that one query either adds and changes, or deletes: that is a matter of form, known before any
schema is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from omnigraph.core.similar import did_you_mean
from omnigraph.gq.check_values import Scope, check_value
from omnigraph.gq.diagnostics import Report
from omnigraph.gq.tree import (
    Assign,
    Delete,
    Insert,
    Mutation,
    Predicate,
    Query,
    Statement,
    StringLiteral,
    Update,
    Value,
    Variable,
)
from omnigraph.gq.values import type_name
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Property, PropType, ScalarKind, TableType

TEXT = PropType(ScalarKind.STRING)

_NAMES_SHOWN = 20
_IN_TABLES = {"src": "from", "dst": "to"}  # what the ends of an edge are called in columns

MIXED_HINT = "split the query in two: run the inserts and updates first, then the deletes, as separate mutations"


def check_form(query: Query, report: Report) -> None:
    """What can be said of a mutation without a schema."""
    if not isinstance(query.body, Mutation):
        return
    deletes = [statement for statement in query.body.statements if isinstance(statement, Delete)]
    if deletes and len(deletes) < len(query.body.statements):
        message = f"query {query.name} has inserts or updates and deletes; {MIXED_HINT}"
        report.error("Q4", message, deletes[0].at)


def check_statement(scope: Scope, statement: Statement, catalog: Catalog) -> None:
    found = find_type(catalog, statement.type_name)
    if found is None:
        known = (*catalog.nodes, *catalog.edges)
        hint = _meant(statement.type_name, known, "the schema has")
        scope.report.error("T10", f"unknown type: {statement.type_name}", statement.at, hint=hint)
        return
    match statement:
        case Insert():
            _insert(scope, statement, found, catalog)
        case Update():
            _update(scope, statement, found, catalog)
        case Delete():
            _predicate(scope, statement.where, found, catalog)


def find_type(catalog: Catalog, name: str) -> TableType | None:
    """Node types by their exact name; edge types whatever the case, as everywhere."""
    return catalog.find_node(name) or catalog.find_edge(name)


def endpoint_type(edge: EdgeType, name: str, catalog: Catalog) -> NodeType | None:
    """The node type behind ``from`` and ``to``; None for every other name."""
    match name:
        case "from":
            return catalog.find_node(edge.src_type)
        case "to":
            return catalog.find_node(edge.dst_type)
    return None


def key_type(node: NodeType) -> PropType | None:
    """The type of the only key property: endpoints may be given as its values, not only as ids."""
    return node.property(node.key[0]).type if node.key is not None and len(node.key) == 1 else None


# --- statements ---------------------------------------------------------------------------------------------------------


def _insert(scope: Scope, statement: Insert, found: TableType, catalog: Catalog) -> None:
    if not statement.assigns:
        scope.report.error("T10", f"insert {found.name} assigns nothing", statement.at)
        return
    given = _assigns(scope, statement.assigns, found, catalog)
    missing = [prop.name for prop in found.properties if not prop.type.nullable and prop.name not in given]
    if isinstance(found, EdgeType):
        missing = [name for name in ("from", "to") if name not in given] + missing
    else:
        sources = {embed.property: embed.source for embed in found.embeds}
        missing = [name for name in missing if sources.get(name) not in given]
    for name in missing:
        scope.report.error("T12", f"insert omits {found.name}.{name}, which is required", statement.at)


def _update(scope: Scope, statement: Update, found: TableType, catalog: Catalog) -> None:
    if isinstance(found, EdgeType):
        message = f"{found.name} is an edge type: edges are inserted and deleted, not updated"
        scope.report.error("T16", message, statement.at)
        return
    if not statement.assigns:
        scope.report.error("T10", f"update {found.name} assigns nothing", statement.at)
    _assigns(scope, statement.assigns, found, catalog)
    for assign in statement.assigns:
        if assign.name in (found.key or ()):
            message = f"{found.name}.{assign.name} is part of @key and cannot be updated"
            scope.report.error("T11", message, assign.at)
    _predicate(scope, statement.where, found, catalog)


def _assigns(scope: Scope, assigns: Iterable[Assign], found: TableType, catalog: Catalog) -> set[str]:
    """Check each assignment; the names assigned, valid or not."""
    given: set[str] = set()
    for assign in assigns:
        place = f"{found.name}.{assign.name}"
        if assign.name in given:
            scope.report.error("T13", f"{place} is assigned twice", assign.at)
        given.add(assign.name)
        if isinstance(found, EdgeType) and assign.name in ("from", "to"):
            _endpoint(scope, assign.value, endpoint_type(found, assign.name, catalog), place)
            continue
        prop = find_property(scope, found, assign.name, place, assign)
        if prop is not None:
            check_value(scope, assign.value, prop.type, place)
    return given


def find_property(scope: Scope, found: TableType, name: str, place: str, node: Assign | Predicate) -> Property | None:
    prop = found.by_name.get(name)
    if prop is None:
        ends = ("from", "to") if isinstance(found, EdgeType) else ()
        hint = _meant(_IN_TABLES.get(name, name), (*ends, *found.by_name), f"{found.name} has")
        scope.report.error("T11", f"{found.name} has no property {name}", node.at, hint=hint)
        if isinstance(node.value, Variable) and node.value.name in scope.params:
            scope.used.add(node.value.name)  # one mistake, one finding
    return prop


def _meant(name: str, known: Collection[str], owner: str) -> str:
    """The name that is nearest, else those that there are."""
    shown = ", ".join(list(known)[:_NAMES_SHOWN])
    more = f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    return did_you_mean(name, known) or f"{owner} {shown or 'none'}{more}"


# --- predicates ---------------------------------------------------------------------------------------------------------


def _predicate(scope: Scope, where: Predicate, found: TableType, catalog: Catalog) -> None:
    place = f"{found.name}.{where.name}"
    if isinstance(found, EdgeType) and where.name in ("from", "to"):
        text_only = where.op not in ("=", "!=")
        node = endpoint_type(found, where.name, catalog)
        _endpoint(scope, where.value, None if text_only else node, place)
        return
    prop = find_property(scope, found, where.name, place, where)
    if prop is None:
        return
    if prop.type.is_list or prop.type.scalar in (ScalarKind.VECTOR, ScalarKind.BLOB):
        scope.report.error("T11", f"{place} is {type_name(prop.type)} and cannot be compared in where", where.at)
        return
    check_value(scope, where.value, prop.type, place)


def _endpoint(scope: Scope, value: Value, node: NodeType | None, place: str) -> None:
    """An id as text, or a value of the endpoint's only key property. Order is defined on texts alone: no ``node``."""
    key = key_type(node) if node is not None else None
    check_value(scope, value, TEXT if key is None or is_text(scope, value) else key, place)


def is_text(scope: Scope, value: Value) -> bool:
    if isinstance(value, Variable):
        param = scope.params.get(value.name)
        return param is None or (param.type.scalar is ScalarKind.STRING and not param.type.is_list)
    return isinstance(value, StringLiteral)
