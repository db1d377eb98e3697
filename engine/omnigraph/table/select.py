"""Select committed rows: comparisons of the query language against tables at their pins.

Owns the choice between looking a value up and scanning for it, and records which tables were asked: a plan that rests on an
answer depends on their pins. Comparisons become typed predicates and never text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.gq import Comparison
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType, ScalarKind, TableType
from omnigraph.schema.keytext import derive_id
from omnigraph.table.arrays import one_array
from omnigraph.table.key_set import KeySet
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.predicate import And, Compare, Not, Or, Predicate, mask

ADDRESS: Final = "_rowaddr"
Addresses = npt.NDArray[np.uint64]

# Ids of one look-up, and from which share of a table on its column is read whole instead.
_IDS_AT_ONCE: Final = 8_192
_IDS_FEW: Final = 1_024
_SCAN_SHARE: Final = 20

_OPS: Final = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Pins(Protocol):
    """The tables of a branch, each at one version."""

    def rows(self, table_key: str) -> int: ...

    def pinned(self, table_key: str) -> PinnedTable: ...


SideBySide = Callable[[Sequence[Callable[[], pa.Table]]], list[pa.Table]]


class Selection:
    """Questions to tables at their pins. ``reads`` are the tables whose pins the answers rest on. ``side_by_side`` runs
    several questions at the same time."""

    def __init__(self, pins: Pins, side_by_side: SideBySide) -> None:
        self._pins = pins
        self._side_by_side = side_by_side
        self.reads: set[str] = set()

    def where(self, declared: TableType, comparison: Comparison, columns: Sequence[str]) -> pa.Table:
        """The rows of a type that a comparison selects: ``columns``, then ``_rowaddr``."""
        key = declared.table_key
        if comparison.value is None:
            return _nothing(declared, columns)  # whatever is there or will be
        self.reads.add(key)
        if not self._pins.rows(key):
            return _nothing(declared, columns)
        table = self._pins.pinned(key)
        wanted = [*columns, ADDRESS]
        looked_up = _looked_up(declared, comparison)
        if looked_up is not None:
            column, text = looked_up
            texts = pa.array([text], pa.utf8())
            return table.fetch(column, texts, wanted) if column != "id" else _by_id(table, declared, texts, columns)
        return table.match(as_predicate(declared, comparison), columns).select(wanted)

    def by_id(self, declared: TableType, ids: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        """The rows that have one of ``ids``: ``columns``, then ``_rowaddr``."""
        self.reads.add(declared.table_key)
        if not len(ids) or not self._pins.rows(declared.table_key):
            return _nothing(declared, columns)
        return _by_id(self._pins.pinned(declared.table_key), declared, ids, columns)

    def pointing(
        self, asked: Sequence[tuple[EdgeType, str, pa.Array[Any]]], columns: Sequence[Sequence[str]]
    ) -> list[pa.Table]:
        """For each (edge type, end, node ids) the edges whose end is one of them; all questions side by side."""
        self.reads.update(edge.table_key for edge, _, _ in asked)
        questions = zip(asked, columns, strict=True)
        if len(asked) == 1:
            return [self._pointing(*one, names) for one, names in questions]
        return self._side_by_side([partial(self._pointing, *one, names) for one, names in questions])

    def _pointing(self, edge: EdgeType, end: str, ids: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        rows = self._pins.rows(edge.table_key)
        if not rows or not len(ids):
            return _nothing(edge, columns)
        table = self._pins.pinned(edge.table_key)
        wanted = [*columns, ADDRESS]
        if len(ids) > _IDS_FEW and len(ids) * _SCAN_SHARE > rows:
            known = KeySet()
            known.add(ids)
            names = list(dict.fromkeys((end, *columns)))
            found = [
                batch.filter(pa.array(known.has(batch.column(end))))
                for batch in table.scan(names, with_row_address=True)
                if batch.num_rows
            ]
            return pa.Table.from_batches(found).select(wanted) if found else _nothing(edge, columns)
        parts = [table.fetch(end, ids.slice(start, _IDS_AT_ONCE), wanted) for start in range(0, len(ids), _IDS_AT_ONCE)]
        return pa.concat_tables(parts)


def _by_id(table: PinnedTable, declared: TableType, ids: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
    """Rows by id. What the id says already is not read: every column of a row is a request of its own."""
    located = table.locate(ids)
    known: dict[str, Any] = {name: located.column(name) for name in ("id", ADDRESS)}
    if isinstance(declared, NodeType) and declared.key is not None and len(declared.key) == 1:
        (name,) = declared.key
        if declared.property(name).type.scalar is ScalarKind.STRING:
            known[name] = located.column("id")
    if not located.num_rows:
        return _nothing(declared, columns)
    rest = [name for name in columns if name not in known]
    if rest:
        rows = table.take(one_array(located.column(ADDRESS), pa.uint64()), rest)
        known |= {name: rows.column(name) for name in rest}
    return pa.table({name: known[name] for name in (*columns, ADDRESS)})


def addresses_of(rows: pa.Table) -> Addresses:
    return one_array(rows.column(ADDRESS), pa.uint64()).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)


# --- comparisons as predicates ------------------------------------------------------------------------------------------


def as_predicate(declared: TableType, comparison: Comparison) -> Predicate:
    """The typed form of a comparison whose value is not null."""
    kind = table_schema(declared).field(comparison.column).type
    value = pa.scalar(comparison.value, kind)
    if pa.types.is_boolean(kind) and comparison.op not in ("=", "!="):
        return _ordered_bools(comparison.column, comparison.op, bool(comparison.value))
    return Compare(comparison.column, _OPS[comparison.op], value)


def _ordered_bools(column: str, op: str, value: bool) -> Predicate:
    """False comes before true; kernels have no order of booleans, so it is spelt out. A null is still in neither."""
    is_true, is_false = Compare(column, "==", pa.scalar(True)), Compare(column, "==", pa.scalar(False))
    below, equal, above = (is_false, is_true, None) if value else (None, is_false, is_true)
    parts = tuple(
        part for sign, part in (("<", below), ("=", equal), (">", above)) if part is not None and (sign in op)
    )
    return Or(parts) if parts else And((is_true, Not(is_true)))


def selected(declared: TableType, comparison: Comparison, rows: pa.Table) -> npt.NDArray[np.bool_]:
    """The same logic over rows in memory."""
    if comparison.value is None or not rows.num_rows:
        return np.zeros(rows.num_rows, dtype=np.bool_)
    found: Any = mask(as_predicate(declared, comparison), rows)
    hit: npt.NDArray[np.bool_] = found.fill_null(False).to_numpy(zero_copy_only=False)
    return hit


def _looked_up(declared: TableType, comparison: Comparison) -> tuple[str, str] | None:
    """The id column and the text to look up, where equality is asked of one."""
    if comparison.op != "=":
        return None
    if isinstance(declared, NodeType):
        if declared.key != (comparison.column,):
            return None
        text = derive_id(declared, {comparison.column: comparison.value})
        return None if text is None else ("id", text)
    if comparison.column in ("src", "dst"):
        return comparison.column, str(comparison.value)
    return None


def _nothing(declared: TableType, columns: Sequence[str]) -> pa.Table:
    schema = table_schema(declared)
    return pa.schema([*(schema.field(name) for name in columns), pa.field(ADDRESS, pa.uint64())]).empty_table()
