"""The syntax tree of a ``.pg`` text: what was written and where, before anything is looked up.

Plain values only. ``at`` is an offset into the text; ``source`` turns it into line and column.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from omnigraph.schema.catalog import PropType


class Word(NamedTuple):
    """A name."""

    text: str
    at: int


class ArgKind(Enum):
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    BOOL = "boolean"
    BOUND = "bound"


class Arg(NamedTuple):
    """An argument of a constraint. ``text`` is the raw spelling, of a string its content; bounds fill ``lo``, ``hi``."""

    kind: ArgKind
    at: int
    text: str = ""
    lo: int | float | None = None
    hi: int | float | None = None


class AnnotationSyntax(NamedTuple):
    name: str
    at: int
    value: str | None
    value_at: int
    kwargs: tuple[tuple[Word, str], ...]


class ConstraintSyntax(NamedTuple):
    kind: str  # key, unique, index, range, check
    at: int
    args: tuple[Arg, ...]


class PropertySyntax(NamedTuple):
    name: str
    at: int
    type: PropType
    type_at: int
    annotations: tuple[AnnotationSyntax, ...]


class Body(NamedTuple):
    properties: tuple[PropertySyntax, ...]
    constraints: tuple[ConstraintSyntax, ...]


class CardSyntax(NamedTuple):
    at: int
    min: int
    max: int | None


@dataclass(frozen=True, slots=True)
class InterfaceSyntax:
    name: str
    at: int
    body: Body


@dataclass(frozen=True, slots=True)
class NodeSyntax:
    name: str
    at: int
    annotations: tuple[AnnotationSyntax, ...]
    implements: tuple[Word, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class EdgeSyntax:
    name: str
    at: int
    src: Word
    dst: Word
    card: CardSyntax | None
    annotations: tuple[AnnotationSyntax, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class FileSyntax:
    interfaces: tuple[InterfaceSyntax, ...]
    nodes: tuple[NodeSyntax, ...]
    edges: tuple[EdgeSyntax, ...]
