"""What a mutation asks for, as values: types looked up, parameters in place, nothing left of the text.

Frozen and picklable. Predicates are data for typed expressions: no layer below has a reason to build a filter text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from omnigraph.gq.values import PyValue
from omnigraph.schema.catalog import EdgeType, NodeType, ScalarKind


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column op value``. Logic is three-valued: a null on either side, ``value`` included, matches nothing."""

    column: str  # as stored: src and dst for the ends of an edge
    op: str  # one of = != < <= > >=
    value: PyValue
    kind: ScalarKind


@dataclass(frozen=True, slots=True)
class InsertNode:
    """A whole row: every property of the type has a value, null where none was assigned."""

    type: NodeType
    id: str | None  # made of the key; None means that the writer mints one
    values: Mapping[str, PyValue]


@dataclass(frozen=True, slots=True)
class InsertEdge:
    type: EdgeType
    src: str
    dst: str
    values: Mapping[str, PyValue]


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """Assigned properties only; the others keep their values. Never a member of the key."""

    type: NodeType
    values: Mapping[str, PyValue]
    predicate: Comparison


@dataclass(frozen=True, slots=True)
class DeleteNode:
    type: NodeType
    predicate: Comparison


@dataclass(frozen=True, slots=True)
class DeleteEdge:
    type: EdgeType
    predicate: Comparison


BoundStatement: TypeAlias = InsertNode | InsertEdge | UpdateNode | DeleteNode | DeleteEdge


@dataclass(frozen=True, slots=True)
class BoundMutation:
    """The statements of one query, in order. Either all of them delete, or none does."""

    name: str
    statements: tuple[BoundStatement, ...]
    now: datetime  # what now() was, in UTC

    @property
    def deletes(self) -> bool:
        return any(isinstance(statement, DeleteNode | DeleteEdge) for statement in self.statements)
