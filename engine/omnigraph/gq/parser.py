"""Text to tree: declarations and mutations, and the doors to the grammar.

Owns what a query text may look like. Whether it makes sense against a schema is decided by ``check``.
"""

from __future__ import annotations

import re

from omnigraph.core.errors import LimitExceeded, OmnigraphError, QueryInvalid
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.gq.cursor import Cursor
from omnigraph.gq.parse_reads import parse_read
from omnigraph.gq.parse_values import COMPARISONS, parse_value
from omnigraph.gq.source import Source
from omnigraph.gq.tokens import ANNOTATION, END, NAME, TYPE, VARIABLE
from omnigraph.gq.tree import (
    Assign,
    Delete,
    Insert,
    Mutation,
    Param,
    Predicate,
    Query,
    QueryFile,
    Statement,
    Update,
)
from omnigraph.schema.catalog import PropType, ScalarKind

# Lance and Arrow hold the length of a vector in a signed 32-bit integer.
VECTOR_DIM_MAX = 2_147_483_647

_BASES = {kind.value: kind for kind in ScalarKind if kind is not ScalarKind.VECTOR}
# A file with more declarations than this that do not parse is no query file; a list of a thousand faults helps no reader.
_FAULTS_MAX = 1_000

# After a fault, reading goes on at the next declaration. This is how often all of a text may be read again in that way.
_AGAIN_MAX = 4
_NEXT_QUERY = re.compile(r"(?<![A-Za-z0-9_$@])query\s+[a-z_][A-Za-z0-9_]*\s*\(")


def parse_queries(text: str, limits: Limits = DEFAULT_LIMITS) -> QueryFile:
    """Every query of a text.

    Raises ``QueryInvalid`` with ``line`` and ``column`` at the first fault of form, ``LimitExceeded`` for a text, a
    name or a nesting beyond the bounds.
    """
    cursor = Cursor(Source(text, limits), limits)
    queries: list[Query] = []
    try:
        while not cursor.sees_kind(END):
            queries.append(_query(cursor))
    except RecursionError as error:  # the caller's own stack was nearly used up
        raise _too_deep(limits) from error
    return QueryFile(tuple(queries))


def parse_what_parses(text: str, limits: Limits = DEFAULT_LIMITS) -> tuple[QueryFile, list[OmnigraphError]]:
    """The queries that parse, and one error for each that does not. For lint, which reports on a whole file."""
    errors: list[OmnigraphError] = []
    queries: list[Query] = []
    try:
        cursor = Cursor(Source(text, limits), limits)
    except LimitExceeded as error:
        return QueryFile(()), [error]
    again_chars = len(text) * _AGAIN_MAX
    while True:
        start = cursor.reached
        try:
            if cursor.sees_kind(END):
                return QueryFile(tuple(queries)), errors
            start = cursor.peek().start
            queries.append(_query(cursor))
            continue
        except (QueryInvalid, LimitExceeded) as error:
            errors.append(error)
        except RecursionError:
            errors.append(_too_deep(limits))
        # The next declaration may stand inside of what was read already, when something was not closed.
        following = _NEXT_QUERY.search(text, start + 1 if again_chars > 0 else cursor.reached)
        if following is None:
            return QueryFile(tuple(queries)), errors
        if len(errors) == _FAULTS_MAX:
            errors.append(_too_many_faults(cursor))
            return QueryFile(tuple(queries)), errors
        again_chars -= max(0, cursor.reached - following.start())
        cursor.restart(following.start())


def _too_many_faults(cursor: Cursor) -> LimitExceeded:
    line, column = cursor.source.position(cursor.reached)
    message = f"more than {_FAULTS_MAX} declarations do not parse: the text is not read any further"
    return LimitExceeded(message, limit="faults", bound=_FAULTS_MAX, line=line, column=column)


def _too_deep(limits: Limits) -> LimitExceeded:
    return LimitExceeded(
        f"too many levels of nesting: limit=nesting bound={limits.nesting}", limit="nesting", bound=limits.nesting
    )


# --- declarations -------------------------------------------------------------------------------------------------------


def _query(cursor: Cursor) -> Query:
    token = cursor.expect_keyword("query")
    name = cursor.expect_kind(NAME).text
    try:
        params = _params(cursor)
        description, instruction = _annotations(cursor)
        cursor.expect("{")
        body = parse_read(cursor) if cursor.sees_keyword("match") else _mutation(cursor)
        cursor.expect("}")
    except (QueryInvalid, LimitExceeded) as error:
        error.facts["query"] = name
        raise
    return Query(name, params, body, description, instruction, at=cursor.at(token))


def _params(cursor: Cursor) -> tuple[Param, ...]:
    cursor.expect("(")
    params: list[Param] = []
    while not cursor.skip(")"):
        if params:
            cursor.expect(",")
        token = cursor.expect_kind(VARIABLE)
        cursor.expect(":")
        params.append(Param(token.text[1:], _param_type(cursor), at=cursor.at(token)))
    return tuple(params)


def _param_type(cursor: Cursor) -> PropType:
    is_list = cursor.skip("[")
    token = cursor.expect_kind(TYPE)
    dim = None
    if token.text == ScalarKind.VECTOR.value and not is_list:
        scalar = ScalarKind.VECTOR
        cursor.expect("(")
        length = cursor.peek()
        dim = cursor.integer()
        cursor.expect(")")
        if not 1 <= dim <= VECTOR_DIM_MAX:
            raise cursor.error(f"length of a vector is out of range: {dim}, 1 to {VECTOR_DIM_MAX}", length)
    elif token.text in _BASES:
        scalar = _BASES[token.text]
    else:
        raise cursor.error(f"unknown parameter type: `{token.text}`, one of {', '.join(_BASES)}, Vector(n)", token)
    if is_list:
        cursor.expect("]")
    return PropType(scalar, nullable=cursor.skip("?"), is_list=is_list, dim=dim)


def _annotations(cursor: Cursor) -> tuple[str | None, str | None]:
    texts: dict[str, str] = {}
    while cursor.sees_kind(ANNOTATION):
        token = cursor.take()
        name = token.text[1:]
        if name not in ("description", "instruction"):
            raise cursor.error(f"unknown annotation: `@{name}`, one of @description, @instruction", token)
        if name in texts:
            raise cursor.error(f"`@{name}` stands twice", token)
        cursor.expect("(")
        texts[name] = cursor.string()
        cursor.expect(")")
    return texts.get("description"), texts.get("instruction")


# --- mutations ----------------------------------------------------------------------------------------------------------


def _mutation(cursor: Cursor) -> Mutation:
    statements = [_statement(cursor)]
    while not cursor.sees("}"):
        statements.append(_statement(cursor))
    return Mutation(tuple(statements))


def _statement(cursor: Cursor) -> Statement:
    if cursor.sees_keyword("insert"):
        at = cursor.at(cursor.expect_keyword("insert"))
        return Insert(cursor.expect_kind(TYPE).text, _assigns(cursor), at=at)
    if cursor.sees_keyword("update"):
        at = cursor.at(cursor.expect_keyword("update"))
        type_name = cursor.expect_kind(TYPE).text
        cursor.expect_keyword("set")
        assigns = _assigns(cursor)
        return Update(type_name, assigns, _where(cursor), at=at)
    if cursor.sees_keyword("delete"):
        at = cursor.at(cursor.expect_keyword("delete"))
        return Delete(cursor.expect_kind(TYPE).text, _where(cursor), at=at)
    raise cursor.unexpected("`match`, `insert`, `update` or `delete`")


def _assigns(cursor: Cursor) -> tuple[Assign, ...]:
    """May be empty: that is a check's business, with a code of its own."""
    cursor.expect("{")
    assigns: list[Assign] = []
    while not cursor.skip("}"):
        name = cursor.expect_kind(NAME)
        cursor.expect(":")
        assigns.append(Assign(name.text, parse_value(cursor), at=cursor.at(name)))
        cursor.skip(",")
    return tuple(assigns)


def _where(cursor: Cursor) -> Predicate:
    cursor.expect_keyword("where")
    name = cursor.expect_kind(NAME)
    if cursor.peek().text not in COMPARISONS:
        raise cursor.unexpected("a comparison")
    op = cursor.take().text
    return Predicate(name.text, op, parse_value(cursor), at=cursor.at(name))
