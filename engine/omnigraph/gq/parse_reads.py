"""``match … return … order … limit``: the reading half of the grammar.

Recursion happens in ``not { }`` and in nested calls only, and each takes a level of the cursor's nesting.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.gq.cursor import Cursor
from omnigraph.gq.parse_values import COMPARISONS, parse_value, try_value
from omnigraph.gq.tokens import NAME, OPERATOR, TYPE, VARIABLE
from omnigraph.gq.tree import (
    Aggregate,
    AliasOf,
    Binding,
    Clause,
    Expr,
    Filter,
    Hops,
    Nearest,
    NotExists,
    Ordering,
    Projection,
    PropertyMatch,
    PropertyOf,
    RankFusion,
    Read,
    TextClause,
    TextSearch,
    Traversal,
)

_BARE_CLAUSES = frozenset({"search", "fuzzy", "match_text"})


def parse_read(cursor: Cursor) -> Read:
    cursor.expect_keyword("match")
    match = _clauses(cursor)
    cursor.expect_keyword("return")
    returns = _projections(cursor)
    order = _orderings(cursor) if cursor.sees_keyword("order") else ()
    limit = None
    if cursor.sees_keyword("limit"):
        cursor.expect_keyword("limit")
        limit = cursor.integer()
    return Read(match, returns, order, limit)


# --- clauses ------------------------------------------------------------------------------------------------------------


def _clauses(cursor: Cursor) -> tuple[Clause, ...]:
    cursor.expect("{")
    clauses = [_clause(cursor)]
    while not cursor.skip("}"):
        clauses.append(_clause(cursor))
    return tuple(clauses)


def _clause(cursor: Cursor) -> Clause:
    token = cursor.peek()
    if cursor.sees("not") and cursor.sees("{", 1):
        cursor.take()
        with cursor.nested():
            return NotExists(_clauses(cursor), at=cursor.at(token))
    if token.kind == VARIABLE:
        if cursor.sees(":", 1):
            return _binding(cursor)
        if cursor.sees_kind(NAME, 1) and _starts_traversal(cursor):
            return _traversal(cursor)
    return _filter(cursor)


def _starts_traversal(cursor: Cursor) -> bool:
    """An edge may be called ``contains``. Then ``$a contains $b`` walks it, and ``$a contains $b.p`` compares."""
    if not cursor.sees("contains", 1):
        return True
    if cursor.sees("{", 2):
        return True
    return cursor.sees_kind(VARIABLE, 2) and not cursor.sees(".", 3)


def _binding(cursor: Cursor) -> Binding:
    token = cursor.peek()
    variable = cursor.variable()
    cursor.expect(":")
    type_name = cursor.expect_kind(TYPE).text
    matches: list[PropertyMatch] = []
    if cursor.skip("{"):
        while not matches or not cursor.skip("}"):
            name = cursor.expect_kind(NAME)
            cursor.expect(":")
            matches.append(PropertyMatch(name.text, parse_value(cursor), at=cursor.at(name)))
            if not cursor.skip(",") and not cursor.sees("}"):
                raise cursor.unexpected("`,` or `}`")
    return Binding(variable, type_name, tuple(matches), at=cursor.at(token))


def _traversal(cursor: Cursor) -> Traversal:
    token = cursor.peek()
    source = cursor.variable()
    edge = cursor.expect_kind(NAME).text
    hops = None
    if cursor.skip("{"):
        least = cursor.integer()
        cursor.expect(",")
        most = None if cursor.sees("}") else cursor.integer()
        cursor.expect("}")
        hops = Hops(least, most)
    return Traversal(source, edge, cursor.variable(), hops, at=cursor.at(token))


def _filter(cursor: Cursor) -> Filter | TextClause:
    token = cursor.peek()
    at = cursor.at(token)
    left = _try_expr(cursor)
    if left is None:
        raise cursor.unexpected("a clause or `}`")
    operator = cursor.peek()
    if (operator.kind == OPERATOR and operator.text in COMPARISONS) or cursor.sees("contains"):
        cursor.take()
        return Filter(left, operator.text, parse_expr(cursor), at=at)
    if isinstance(left, TextSearch) and left.function in _BARE_CLAUSES:
        return TextClause(left, at=at)
    raise cursor.unexpected("a comparison")


# --- return, order ------------------------------------------------------------------------------------------------------


def _projections(cursor: Cursor) -> tuple[Projection, ...]:
    cursor.expect("{")
    found: list[Projection] = []
    while not found or not cursor.skip("}"):
        token = cursor.peek()
        expr = parse_expr(cursor)
        alias = cursor.expect_kind(NAME).text if cursor.skip("as") else None
        cursor.skip(",")
        found.append(Projection(expr, alias, at=cursor.at(token)))
    return tuple(found)


def _orderings(cursor: Cursor) -> tuple[Ordering, ...]:
    cursor.expect_keyword("order")
    cursor.expect("{")
    found = [_ordering(cursor)]
    while not cursor.skip("}"):
        if not cursor.skip(","):
            raise cursor.unexpected("`,` or `}`")
        found.append(_ordering(cursor))
    return tuple(found)


def _ordering(cursor: Cursor) -> Ordering:
    token = cursor.peek()
    expr = parse_expr(cursor)
    descending = cursor.skip("desc")
    if not descending:
        cursor.skip("asc")
    return Ordering(expr, descending, at=cursor.at(token))


# --- expressions --------------------------------------------------------------------------------------------------------


def parse_expr(cursor: Cursor) -> Expr:
    found = _try_expr(cursor)
    if found is None:
        raise cursor.unexpected("an expression")
    return found


def _try_expr(cursor: Cursor) -> Expr | None:
    token = cursor.peek()
    if token.kind == VARIABLE and cursor.sees(".", 1):
        return _property(cursor)
    value = try_value(cursor)
    if value is not None:
        return value
    if token.kind != NAME:
        return None
    if cursor.sees("(", 1):
        call = _CALLS.get(token.text)
        if call is None:
            raise cursor.error(f"unknown function: `{token.text}`", token)
        with cursor.nested():
            return call(cursor)
    cursor.take()
    return AliasOf(token.text, at=cursor.at(token))


def _property(cursor: Cursor) -> PropertyOf:
    token = cursor.peek()
    variable = cursor.variable()
    cursor.expect(".")
    return PropertyOf(variable, cursor.expect_kind(NAME).text, at=cursor.at(token))


def _aggregate(cursor: Cursor) -> Aggregate:
    token = cursor.take()
    cursor.expect("(")
    operand = parse_expr(cursor)
    cursor.expect(")")
    return Aggregate(token.text, operand, at=cursor.at(token))


def _nearest(cursor: Cursor) -> Nearest:
    token = cursor.take()
    cursor.expect("(")
    searched = _property(cursor)
    cursor.expect(",")
    query = parse_expr(cursor)
    cursor.expect(")")
    return Nearest(searched.variable, searched.name, query, at=cursor.at(token))


def _text_search(cursor: Cursor) -> TextSearch:
    token = cursor.take()
    cursor.expect("(")
    searched = parse_expr(cursor)
    cursor.expect(",")
    query = parse_expr(cursor)
    edits = parse_expr(cursor) if token.text == "fuzzy" and cursor.skip(",") else None
    cursor.expect(")")
    return TextSearch(token.text, searched, query, edits, at=cursor.at(token))


def _rank_fusion(cursor: Cursor) -> RankFusion:
    token = cursor.take()
    cursor.expect("(")
    first = _rank(cursor)
    cursor.expect(",")
    second = _rank(cursor)
    k = parse_expr(cursor) if cursor.skip(",") else None
    cursor.expect(")")
    return RankFusion(first, second, k, at=cursor.at(token))


def _rank(cursor: Cursor) -> Nearest | TextSearch:
    if cursor.sees("nearest"):
        return _nearest(cursor)
    if cursor.sees("bm25"):
        return _text_search(cursor)
    raise cursor.unexpected("a ranking, `nearest(…)` or `bm25(…)`")


_CALLS: dict[str, Callable[[Cursor], Expr]] = {
    **dict.fromkeys(("count", "sum", "avg", "min", "max"), _aggregate),
    **dict.fromkeys(("search", "fuzzy", "match_text", "bm25"), _text_search),
    "nearest": _nearest,
    "rrf": _rank_fusion,
}
