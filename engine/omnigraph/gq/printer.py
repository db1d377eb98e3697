"""Tree to text. What is printed parses to an equal tree; layout is this module's, values are kept to the last digit."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.gq.tree import (
    Aggregate,
    AliasOf,
    Assign,
    Binding,
    BoolLiteral,
    Clause,
    DateLiteral,
    DateTimeLiteral,
    Delete,
    Expr,
    Filter,
    FloatLiteral,
    Insert,
    IntLiteral,
    ListLiteral,
    Nearest,
    NotExists,
    Now,
    Predicate,
    PropertyOf,
    Query,
    QueryFile,
    RankFusion,
    Read,
    Statement,
    StringLiteral,
    TextClause,
    TextSearch,
    Traversal,
    Update,
    Variable,
)

_INDENT = "    "
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def format_queries(file: QueryFile) -> str:
    return "\n".join(format_query(query) for query in file.queries)


def format_query(query: Query) -> str:
    params = ", ".join(f"${param.name}: {param.type}" for param in query.params)
    lines = [f"query {query.name}({params})"]
    for name, text in (("description", query.description), ("instruction", query.instruction)):
        if text is not None:
            lines.append(f"{_INDENT}@{name}({_string(text)})")
    lines.append("{")
    body = _read(query.body) if isinstance(query.body, Read) else _statements(query.body.statements)
    lines.extend(_INDENT + line for line in body)
    lines.append("}")
    return "\n".join(lines) + "\n"


# --- mutations ----------------------------------------------------------------------------------------------------------


def _statements(statements: Iterable[Statement]) -> Iterable[str]:
    for statement in statements:
        yield _statement(statement)


def _statement(statement: Statement) -> str:
    match statement:
        case Insert():
            return f"insert {statement.type_name} {_assigns(statement.assigns)}"
        case Update():
            where = _where(statement.where)
            return f"update {statement.type_name} set {_assigns(statement.assigns)} {where}"
        case Delete():
            return f"delete {statement.type_name} {_where(statement.where)}"


def _assigns(assigns: Iterable[Assign]) -> str:
    inner = ", ".join(f"{assign.name}: {format_expr(assign.value)}" for assign in assigns)
    return f"{{ {inner} }}" if inner else "{}"


def _where(where: Predicate) -> str:
    return f"where {where.name} {where.op} {format_expr(where.value)}"


# --- reads --------------------------------------------------------------------------------------------------------------


def _read(read: Read) -> Iterable[str]:
    yield "match {"
    for clause in read.match:
        yield _INDENT + _clause(clause)
    yield "}"
    yield "return {"
    for projection in read.returns:
        alias = f" as {projection.alias}" if projection.alias is not None else ""
        yield f"{_INDENT}{format_expr(projection.expr)}{alias},"
    yield "}"
    if read.order:
        keys = ", ".join(f"{format_expr(key.expr)} {'desc' if key.descending else 'asc'}" for key in read.order)
        yield f"order {{ {keys} }}"
    if read.limit is not None:
        yield f"limit {read.limit}"


def _clause(clause: Clause) -> str:
    match clause:
        case Binding():
            inner = ", ".join(f"{match.name}: {format_expr(match.value)}" for match in clause.matches)
            return f"${clause.variable}: {clause.type_name}" + (f" {{ {inner} }}" if inner else "")
        case Traversal(hops=None):
            return f"${clause.source} {clause.edge} ${clause.target}"
        case Traversal(hops=hops):
            bounds = f"{{{hops.min}, {'' if hops.max is None else hops.max}}}" if hops else ""
            return f"${clause.source} {clause.edge} {bounds} ${clause.target}"
        case Filter():
            return f"{format_expr(clause.left)} {clause.op} {format_expr(clause.right)}"
        case TextClause():
            return format_expr(clause.search)
        case NotExists():
            return f"not {{ {' '.join(_clause(inner) for inner in clause.clauses)} }}"


# --- expressions --------------------------------------------------------------------------------------------------------


def format_expr(expr: Expr) -> str:
    match expr:
        case StringLiteral():
            return _string(expr.value)
        case IntLiteral():
            return str(expr.value)
        case FloatLiteral():
            return expr.text
        case BoolLiteral():
            return "true" if expr.value else "false"
        case DateLiteral():
            return f"date({_string(expr.text)})"
        case DateTimeLiteral():
            return f"datetime({_string(expr.text)})"
        case ListLiteral():
            return f"[{', '.join(format_expr(item) for item in expr.items)}]"
        case Variable():
            return f"${expr.name}"
        case Now():
            return "now()"
        case PropertyOf():
            return f"${expr.variable}.{expr.name}"
        case AliasOf():
            return expr.name
        case Aggregate():
            return f"{expr.function}({format_expr(expr.operand)})"
        case _:
            return _call(expr)


def _call(expr: Nearest | TextSearch | RankFusion) -> str:
    match expr:
        case Nearest():
            return f"nearest(${expr.variable}.{expr.property}, {format_expr(expr.query)})"
        case TextSearch():
            edits = f", {format_expr(expr.edits_max)}" if expr.edits_max is not None else ""
            return f"{expr.function}({format_expr(expr.searched)}, {format_expr(expr.query)}{edits})"
        case RankFusion():
            k = f", {format_expr(expr.k)}" if expr.k is not None else ""
            return f"rrf({format_expr(expr.first)}, {format_expr(expr.second)}{k})"


def _string(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'
