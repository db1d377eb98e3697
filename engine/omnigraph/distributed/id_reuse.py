"""Ids that edges of a staged merge take over from committed ones, found in passes over the tuples that say which is meant.

As in ``adopt``, which holds the rows; here only tuples of one pass are held, and what was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.distributed.pass_rules import Pass
from omnigraph.table.arrays import one_array, positions
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import PinnedView, RowIndex
from omnigraph.write.base.committed_rows import committed_rows, distinct, is_scanned
from omnigraph.write.rules.key_rules import KeyedRows

pc: Any = pyarrow.compute


@dataclass(frozen=True)
class AdoptedIds:
    """By pass: rows in ascending order, and the id of each."""

    passes: tuple[tuple[Any, pa.Array[Any] | None], ...]

    @property
    def rows(self) -> list[Any]:
        return [rows for rows, _ in self.passes]

    def without_ids(self) -> AdoptedIds:
        """Only which rows they are: for rules that look at no id."""
        return AdoptedIds(tuple((rows, None) for rows, _ in self.passes))

    def between(self, first: int, last: int) -> AdoptedIds:
        """Only those of the rows from ``first`` to before ``last``."""
        found = []
        for rows, ids in self.passes:
            low, high = np.searchsorted(rows, [first, last])
            found.append((rows[low:high], None if ids is None else ids.slice(int(low), int(high - low))))
        return AdoptedIds(tuple(found))

    def put_into(self, block: Block) -> Block:
        first, count = block.first_row, block.batch.num_rows
        found: list[RowIndex] = []
        texts: list[pa.Array[Any]] = []
        for rows, ids in self.passes:
            low, high = np.searchsorted(rows, [first, first + count])
            if ids is not None and low < high:
                found.append(rows[low:high] - first)
                texts.append(ids.slice(int(low), int(high - low)))
        if not found:
            return block
        at = np.concatenate(found)
        order = np.argsort(at, kind="stable")
        mask = np.zeros(count, dtype=np.bool_)
        mask[at] = True
        ids = pc.replace_with_mask(
            block.batch.column("id"), pa.array(mask), pa.concat_arrays(texts).take(positions(order))
        )
        names = block.batch.schema.names
        columns = [ids if name == "id" else block.batch.column(name) for name in names]
        minted: Any = np.full(count, block.minted) if isinstance(block.minted, bool) else block.minted
        left = minted & ~mask
        return replace(
            block,
            batch=pa.RecordBatch.from_arrays(columns, schema=block.batch.schema),
            minted=left if left.any() else False,
        )


def adopt(
    table_key: str, group: tuple[str, ...], blocks: Iterable[Block], view: PinnedView, pass_: Pass, rows: int
) -> tuple[Any, pa.Array[Any]]:
    """Rows without an id of their own whose tuple is committed, and the committed id: of one pass."""
    keyed = KeyedRows(len(group), rows // max(pass_.count, 1) + 1, digest=True)
    sources: list[pa.Array[Any]] = []
    committed = view.rows(table_key)
    for block in blocks:
        fresh = _fresh(block, group)
        columns = [block.batch.column(name).take(positions(fresh)) for name in group]
        mine = pass_.mine(columns) if len(fresh) else None
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
    numbers, ids = _in_order(found, texts)
    return numbers.astype(np.int32) if rows < 1 << 31 else numbers, ids


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
