"""What the statements of one query come to, at the pins of one transaction.

Owns running them in order, and which rows differ in the end from what is committed. Pure but for reads through the
transaction: running it again at other pins tells whether a plan made at these still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.commit.engine import gather
from omnigraph.commit.steps import Step
from omnigraph.commit.txn import Txn
from omnigraph.core.limits import Limits
from omnigraph.gq import BlobUri, BoundMutation, DeleteEdge, DeleteNode, InsertEdge, InsertNode, UpdateNode
from omnigraph.schema.catalog import NodeType, TableType
from omnigraph.table.arrays import one_array
from omnigraph.table.row_equality import same_rows
from omnigraph.table.select import ADDRESS, Selection
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import Origin, TypeChange
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.mutation.deletes import Removals
from omnigraph.write.mutation.pending_rows import PendingRows
from omnigraph.write.staging_plan import replace_step

pc: Any = pyarrow.compute


@dataclass(frozen=True)
class Affected:
    """Rows that statements meant, summed over statements: inserts one each, updates what they matched, deletes what
    they removed, edges that went with their nodes included."""

    nodes: int = 0
    edges: int = 0

    def __add__(self, other: Affected) -> Affected:
        return Affected(self.nodes + other.nodes, self.edges + other.edges)


@dataclass(frozen=True, eq=False)
class TableEffect:
    """One table's share: rows to write, where the rows that they replace are (``id``, ``_rowaddr``), addresses that
    leave, and how many rows were meant and stay as they are."""

    rows: pa.Table
    located: pa.Table
    gone: pa.Array[Any]
    unchanged: int = 0

    @property
    def changes(self) -> bool:
        return self.rows.num_rows > 0 or len(self.gone) > 0

    def same(self, other: TableEffect) -> bool:
        # Tables and arrays say `equals` alike; their stubs do not agree on what it returns.
        pairs: list[tuple[Any, Any]] = [(self.rows, other.rows), (self.located, other.located), (self.gone, other.gone)]
        return all(a.equals(b) for a, b in pairs)


@dataclass(frozen=True)
class Effect:
    tables: Mapping[str, TableEffect] = field(default_factory=dict)
    changes: tuple[TypeChange, ...] = ()  # for the checks
    reads: frozenset[str] = frozenset()
    affected: Affected = Affected()

    def steps(self) -> tuple[Step, ...]:
        """One a table that changes, in key order."""
        found = (
            replace_step(key, effect.rows, effect.located, effect.gone, effect.unchanged)
            for key, effect in sorted(self.tables.items())
        )
        return tuple(step for step in found if step is not None)

    def same(self, other: Effect) -> bool:
        mine, theirs = self._changing(), other._changing()
        return mine.keys() == theirs.keys() and all(mine[key].same(theirs[key]) for key in mine)

    def _changing(self) -> dict[str, TableEffect]:
        return {key: effect for key, effect in self.tables.items() if effect.changes}

    @property
    def nbytes(self) -> int:
        return sum(effect.rows.nbytes for effect in self.tables.values())


def run_statements(mutation: BoundMutation, txn: Txn, mint: Callable[[int], str], limits: Limits) -> Effect:
    """``mint`` gives the id of the row that the statement of a number inserts, always the same for one number."""
    selection = Selection(txn, lambda calls: gather([txn.engine.spawn(call) for call in calls]))
    if mutation.deletes:
        return _deletes(mutation, txn, selection)
    return _writes(mutation, selection, mint, limits)


def inserted(mutation: BoundMutation, mint: Callable[[int], str]) -> Effect:
    """What insert statements come to whatever is committed: rows for the checks, and how many were meant."""
    pending: dict[str, PendingRows] = {}
    affected = Affected()
    for number, statement in enumerate(mutation.statements, start=1):
        assert isinstance(statement, InsertNode | InsertEdge)
        rows = pending.setdefault(statement.type.table_key, PendingRows(statement.type))
        _insert(mutation.name, statement, rows, number, mint)
        affected += _counted(statement.type, 1)
    return Effect(changes=tuple(_change(rows) for _, rows in sorted(pending.items())), affected=affected)


# --- deletes --------------------------------------------------------------------------------------------------------------


def _deletes(mutation: BoundMutation, txn: Txn, selection: Selection) -> Effect:
    removals = Removals(txn.catalog, selection)
    affected = Affected()
    for statement in mutation.statements:
        assert isinstance(statement, DeleteNode | DeleteEdge)
        affected += _counted(statement.type, removals.delete(statement))
    affected += Affected(edges=removals.cascade())
    tables = {declared.table_key: _leaving(addresses) for declared, addresses in removals.addresses()}
    return Effect(tables, tuple(removals.changes()), frozenset(selection.reads), affected)


def _leaving(addresses: pa.Array[Any]) -> TableEffect:
    return TableEffect(pa.table({}), _located(None), addresses)


def _counted(declared: TableType, rows: int) -> Affected:
    return Affected(nodes=rows) if isinstance(declared, NodeType) else Affected(edges=rows)


# --- inserts and updates --------------------------------------------------------------------------------------------------


def _writes(mutation: BoundMutation, selection: Selection, mint: Callable[[int], str], limits: Limits) -> Effect:
    pending: dict[str, PendingRows] = {}
    affected = Affected()
    for number, statement in enumerate(mutation.statements, start=1):
        declared = statement.type
        rows = pending.setdefault(declared.table_key, PendingRows(declared))
        match statement:
            case InsertNode() | InsertEdge():
                _insert(mutation.name, statement, rows, number, mint)
                affected += _counted(declared, 1)
            case UpdateNode():
                _no_references(mutation.name, number, declared, statement.values)
                committed = selection.where(declared, statement.predicate, rows.schema.names)
                affected += _counted(declared, rows.update(committed, statement.values, statement.predicate, number))
                limits.check("merge_rows", rows.rows.num_rows)
    tables = {}
    for key, rows in sorted(pending.items()):
        unlocated = rows.unlocated()
        if len(unlocated):
            rows.locate(selection.by_id(rows.type, unlocated, rows.schema.names))
        if rows.rows.num_rows:
            tables[key] = _differing(rows)
    changes = tuple(_change(pending[key]) for key in tables)
    return Effect(tables, changes, frozenset(selection.reads), affected)


def _insert(
    query: str, statement: InsertNode | InsertEdge, rows: PendingRows, number: int, mint: Callable[[int], str]
) -> None:
    _no_references(query, number, statement.type, statement.values)
    if isinstance(statement, InsertEdge):
        ends = {"src": statement.src, "dst": statement.dst}
        rows.insert({"id": mint(number), **ends, **statement.values}, number, minted=True)
    elif statement.id is None:
        rows.insert({"id": mint(number), **statement.values}, number, minted=True)
    else:
        rows.insert({"id": statement.id, **statement.values}, number, minted=False)


def _change(rows: PendingRows) -> TypeChange:
    """Rows are numbered by the statement that touched them last: that is where a violation points."""
    origin = Origin(numbers=rows.numbers)
    return TypeChange(rows.type, rows.rows, "merge", minted=rows.minted, origin=origin, kept=rows.kept)


def _differing(pending: PendingRows) -> TableEffect:
    """Rows that are new or unlike what is committed, and where the latter are."""
    rows, before = pending.rows, pending.before
    if not before.num_rows:
        return TableEffect(rows, _located(None), _nowhere())
    place: Any = pc.index_in(
        one_array(before.column("id"), pa.utf8()), value_set=one_array(rows.column("id"), pa.utf8())
    )
    equal = same_rows(before, rows.take(place))
    unlike = np.ones(rows.num_rows, dtype=np.bool_)
    unlike[place.to_numpy(zero_copy_only=False)[equal]] = False
    located = before.filter(pa.array(~equal))
    return TableEffect(rows.filter(pa.array(unlike)), _located(located), _nowhere(), int(equal.sum()))


def _located(before: pa.Table | None) -> pa.Table:
    if before is None:
        return pa.table({"id": pa.array([], pa.utf8()), ADDRESS: _nowhere()})
    return before.select(["id", ADDRESS])


def _nowhere() -> pa.Array[Any]:
    return pa.array([], pa.uint64())


def _no_references(query: str, number: int, declared: TableType, values: Mapping[str, Any]) -> None:
    """The graph keeps bytes; what a URI names may go at any time."""
    for name, value in values.items():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, BlobUri):
                raise data_invalid(
                    [
                        Violation(
                            v.BLOB_URI,
                            f"query {query}, statement {number}: {declared.name}.{name} {show_value(one.uri)} refers to "
                            "another place: only managed bytes are taken, written base64:...",
                            table_key=declared.table_key,
                            type=declared.name,
                            property=name,
                            value=show_value(one.uri),
                            expected=str(declared.property(name).type),
                        )
                    ],
                    1,
                )
