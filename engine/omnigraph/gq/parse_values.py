"""Literals, parameters and ``now()``: whatever may be assigned or compared in a mutation."""

from __future__ import annotations

from omnigraph.gq.cursor import Cursor
from omnigraph.gq.tokens import FLOAT, INT, NAME, STRING, VARIABLE
from omnigraph.gq.tree import (
    BoolLiteral,
    DateLiteral,
    DateTimeLiteral,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Literal,
    Now,
    StringLiteral,
    Value,
    Variable,
)

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})


def parse_value(cursor: Cursor) -> Value:
    found = try_value(cursor)
    if found is None:
        raise cursor.unexpected("a value")
    return found


def try_value(cursor: Cursor) -> Value | None:
    token = cursor.peek()
    if token.kind == VARIABLE:
        return Variable(cursor.variable(), at=cursor.at(token))
    if token.text == "now" and token.kind == NAME and cursor.sees("(", 1):
        cursor.take()
        cursor.expect("(")
        cursor.expect(")")
        return Now(at=cursor.at(token))
    return _try_literal(cursor)


def _try_literal(cursor: Cursor) -> Literal | None:
    token = cursor.peek()
    at = cursor.at(token)
    if token.kind == STRING:
        return StringLiteral(cursor.string(), at=at)
    if token.kind == INT:
        return IntLiteral(cursor.integer(), at=at)
    if token.kind == FLOAT:
        return FloatLiteral(cursor.take().text, at=at)
    if cursor.sees("["):
        return _list(cursor)
    if token.kind != NAME:
        return None
    if token.text in ("true", "false"):
        cursor.take()
        return BoolLiteral(token.text == "true", at=at)
    if token.text in ("date", "datetime") and cursor.sees("(", 1):
        cursor.take()
        cursor.expect("(")
        text = cursor.string()
        cursor.expect(")")
        return DateLiteral(text, at=at) if token.text == "date" else DateTimeLiteral(text, at=at)
    return None


def _list(cursor: Cursor) -> ListLiteral:
    opening = cursor.expect("[")
    items: list[Literal] = []
    with cursor.nested():
        while not cursor.skip("]"):
            if items:
                cursor.expect(",")
            item = _try_literal(cursor)
            if item is None:
                raise cursor.unexpected("a literal")
            items.append(item)
    return ListLiteral(tuple(items), at=cursor.at(opening))
