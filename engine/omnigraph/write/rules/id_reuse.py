"""Ids for edges that a merge gives without one: an edge that is committed already keeps the id it has.

Only where the type declares a unique tuple over both endpoints at least: then the tuple says which edge is meant, and
loading the same edges twice changes nothing. Owns the rule and the look-up, also for batches that are read in passes; whether
the tuples are unique is the validator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.schema.catalog import EdgeType, TableType
from omnigraph.table.arrays import one_array, positions
from omnigraph.write.base.blocks import Block, blocks_of
from omnigraph.write.base.changes import Mode, PinnedView, RowIndex, TypeChange
from omnigraph.write.base.committed_rows import committed_rows, distinct, is_scanned
from omnigraph.write.rules.key_rules import KeyedRows

pc: Any = pyarrow.compute

Chosen = Callable[[Sequence[Any]], "npt.NDArray[np.bool_] | None"]


def identifying_group(edge: EdgeType) -> tuple[str, ...] | None:
    """The first declared tuple that holds both endpoints and can be compared."""
    for group in edge.uniques:
        if {"src", "dst"} <= set(group):
            others = [edge.property(name).type for name in group if name not in ("src", "dst")]
            if all(kind.is_keyable for kind in others):
                return group
    return None


def adopting_group(declared: TableType, mode: Mode, minted: object) -> tuple[str, ...] | None:
    """The tuple by which rows take committed ids over: of edges that a merge gives without ids. None: no row may.

    ``minted``: False where the input has an id for every row."""
    if not isinstance(declared, EdgeType) or mode != "merge" or minted is False:
        return None
    return identifying_group(declared)


def adopt_ids(change: TypeChange, view: PinnedView) -> TypeChange:
    """The change with committed ids in the place of made ones where the edge is there already."""
    group = adopting_group(change.type, change.mode, change.minted)
    if group is None:
        return change
    rows, ids = committed_ids(change.type.table_key, group, blocks_of(change), view)
    return _with_ids(change, rows, ids) if len(rows) else change


def _with_ids(change: TypeChange, rows: RowIndex, found: pa.Array[Any]) -> TypeChange:
    mask = np.zeros(change.rows.num_rows, dtype=np.bool_)
    mask[rows] = True
    ids = pc.replace_with_mask(one_array(change.rows.column("id"), pa.utf8()), pa.array(mask), found)
    minted = change.minted_rows() & ~mask
    return replace(
        change,
        rows=change.rows.set_column(0, change.rows.schema.field("id"), ids),
        minted=minted if minted.any() else False,
        adopted=mask,
    )


def committed_ids(
    table_key: str,
    group: tuple[str, ...],
    blocks: Iterable[Block],
    view: PinnedView,
    *,
    rows: int = 0,
    chosen: Chosen | None = None,
) -> tuple[RowIndex, pa.Array[Any]]:
    """Rows without an id of their own whose tuple is committed, ascending, and the committed ids.

    Of rows that are equal in the tuple only the first takes the id: that they are two is reported by the rule of the tuple,
    not by an id that the input never had. ``chosen`` picks rows by their tuples, ``rows`` is about how many it picks."""
    keyed = KeyedRows(len(group), rows, digest=True)
    sources: list[pa.Array[Any]] = []
    committed = view.rows(table_key)
    for block in blocks:
        fresh = _fresh(block, group)
        columns = [block.batch.column(name).take(positions(fresh)) for name in group]
        mine = chosen(columns) if chosen is not None and len(fresh) else None
        if mine is not None:
            fresh = fresh[mine]
            columns = [column.filter(pa.array(mine)) for column in columns]
        if len(fresh):
            keyed.add(block, fresh, columns)
            if not is_scanned(len(keyed.keys), committed):
                sources.append(columns[group.index("src")])
    if is_scanned(len(keyed.keys), committed):
        wanted = None
    else:
        wanted = distinct(sources, pa.utf8())
    found: list[RowIndex] = []
    texts: list[pa.Array[Any]] = []
    if len(keyed.keys):
        for batch in committed_rows(view, table_key, "src", wanted, list(dict.fromkeys(("id", *group)))):
            batch = batch.drop_null()
            at = keyed.keys.find(*[batch.column(name) for name in group]) if batch.num_rows else np.empty(0, np.int64)
            hit = np.flatnonzero(at >= 0)
            if len(hit):
                found.append(keyed.rows_at(at[hit]))
                texts.append(one_array(batch.column("id"), pa.utf8()).take(positions(hit)))
    return _in_order(found, texts)


def _fresh(block: Block, group: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Rows of a block with an id that was made for them and a tuple without nulls."""
    if block.minted is False:
        return np.empty(0, dtype=np.int64)
    mask: Any = np.ones(block.batch.num_rows, np.bool_) if block.minted is True else block.minted.copy()
    for name in group:
        column = block.batch.column(name)
        if column.null_count:
            mask &= column.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(mask)


def _in_order(found: list[RowIndex], texts: list[pa.Array[Any]]) -> tuple[RowIndex, pa.Array[Any]]:
    """By row. Where several committed edges have the tuple, the smallest id."""
    if not found:
        return np.empty(0, dtype=np.int64), pa.array([], pa.utf8())
    rows = np.concatenate(found)
    ids = pa.concat_arrays(texts)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    ids = ids.take(positions(order))
    again = np.flatnonzero(rows[1:] == rows[:-1]) + 1
    if not len(again):
        return rows, ids
    least: dict[int, str] = {}
    texts_now: list[Any] = ids.to_pylist()
    for row, text in zip(rows.tolist(), texts_now, strict=True):
        least[row] = min(text, least.get(row, text))
    return np.array(list(least), dtype=np.int64), pa.array(list(least.values()), pa.utf8())
