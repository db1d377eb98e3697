"""The syntax tree of the query language: what a text says, before anything is known about a schema.

Frozen values only. Two trees are equal when they say the same, wherever they stand in a text: positions do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.gq.source import NOWHERE, Position
from omnigraph.schema.catalog import PropType

# --- values -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IntLiteral:
    value: int
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FloatLiteral:
    """Kept as written, so that printing loses no digit."""

    text: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def value(self) -> float:
        return float(self.text)


@dataclass(frozen=True, slots=True)
class StringLiteral:
    value: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BoolLiteral:
    value: bool
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DateLiteral:
    """``date("…")``: the text is read when it is checked against a property."""

    text: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DateTimeLiteral:
    text: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: tuple[Literal, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """``$name``: a parameter, or in a read a bound node. The name is without ``$``; ``_`` is never bound."""

    name: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Now:
    """The one instant that a run of the query has."""

    at: Position = field(default=NOWHERE, compare=False, repr=False)


Literal: TypeAlias = (
    IntLiteral | FloatLiteral | StringLiteral | BoolLiteral | DateLiteral | DateTimeLiteral | ListLiteral
)
Value: TypeAlias = Literal | Variable | Now


# --- mutations ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Value
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Predicate:
    """One comparison; the grammar has no and, or, not."""

    name: str
    op: str  # one of = != < <= > >=
    value: Value
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Insert:
    type_name: str
    assigns: tuple[Assign, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Update:
    type_name: str
    assigns: tuple[Assign, ...]
    where: Predicate
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Delete:
    type_name: str
    where: Predicate
    at: Position = field(default=NOWHERE, compare=False, repr=False)


Statement: TypeAlias = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Mutation:
    statements: tuple[Statement, ...]


# --- reads --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyOf:
    """``$variable.name``"""

    variable: str
    name: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AliasOf:
    """A bare name: the alias of a projection."""

    name: str
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Nearest:
    variable: str
    property: str
    query: Expr
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextSearch:
    """``search``, ``fuzzy``, ``match_text`` or ``bm25``; only ``fuzzy`` has a third operand."""

    function: str
    searched: Expr
    query: Expr
    edits_max: Expr | None = None
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RankFusion:
    """``rrf``: two rankings into one."""

    first: Nearest | TextSearch
    second: Nearest | TextSearch
    k: Expr | None = None
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    function: str  # count, sum, avg, min, max
    operand: Expr
    at: Position = field(default=NOWHERE, compare=False, repr=False)


Expr: TypeAlias = Value | PropertyOf | AliasOf | Nearest | TextSearch | RankFusion | Aggregate


@dataclass(frozen=True, slots=True)
class PropertyMatch:
    name: str
    value: Value
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binding:
    variable: str
    type_name: str
    matches: tuple[PropertyMatch, ...] = ()
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Hops:
    min: int
    max: int | None  # None parses and is refused by the checks


@dataclass(frozen=True, slots=True)
class Traversal:
    source: str
    edge: str
    target: str
    hops: Hops | None = None
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Filter:
    left: Expr
    op: str  # a comparison, or contains
    right: Expr
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextClause:
    """A text search standing alone: it must hold."""

    search: TextSearch
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NotExists:
    clauses: tuple[Clause, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)


Clause: TypeAlias = Binding | Traversal | Filter | TextClause | NotExists


@dataclass(frozen=True, slots=True)
class Projection:
    expr: Expr
    alias: str | None = None
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    expr: Expr
    descending: bool = False
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Read:
    match: tuple[Clause, ...]
    returns: tuple[Projection, ...]
    order: tuple[Ordering, ...] = ()
    limit: int | None = None


# --- declarations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    type: PropType
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    params: tuple[Param, ...]
    body: Read | Mutation
    description: str | None = None
    instruction: str | None = None
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.body, Mutation)


@dataclass(frozen=True, slots=True)
class QueryFile:
    queries: tuple[Query, ...]
