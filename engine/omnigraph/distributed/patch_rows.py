"""Staged rows of a patch: what they do not name, filled in from what is committed wherever rows are compared or written again.

Owns that for blocks of rows, and which new rows lack what the schema requires. Files keep what was staged: a property that a row
does not name has null there, or a placeholder where the column takes no null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.schema.catalog import TableType
from omnigraph.table.arrays import positions
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import PinnedView, TypeChange, Unnamed
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import Violation
from omnigraph.write.rules.completion import complete

if TYPE_CHECKING:
    from omnigraph.table.pinned import PinnedTable


def between(unnamed: Unnamed, first: int, last: int) -> Unnamed:
    """The same of the rows from ``first`` to before ``last``. Properties that all of these name are left out."""
    found: dict[str, bool | npt.NDArray[np.bool_]] = {}
    for name, mask in unnamed.items():
        if isinstance(mask, bool):
            found[name] = mask
        elif mask[first:last].any():
            found[name] = mask[first:last]
    return found


def joined(parts: Sequence[tuple[int, Unnamed]]) -> Unnamed:
    """What rows do not name that follow one another: each part with its number of rows."""
    found: dict[str, bool | npt.NDArray[np.bool_]] = {}
    for name in sorted({name for _, one in parts for name in one}):
        masks = [one.get(name, False) for rows, one in parts if rows]
        if masks and all(mask is True for mask in masks):
            found[name] = True
            continue
        every = [
            np.full(rows, mask) if isinstance(mask, bool) else mask
            for (rows, _), mask in zip(((n, one) for n, one in parts if n), masks, strict=True)
        ]
        found[name] = np.concatenate([np.empty(0, np.bool_), *every])
    return found


def completed(block: Block, unnamed: Unnamed, view: PinnedView) -> Block:
    """The block with the committed values of what its rows do not name. ``unnamed``: of the rows of the whole table."""
    names = block.batch.schema.names
    mine = between({name: unnamed[name] for name in names if name in unnamed}, block.first_row, _last(block))
    if not mine:
        return block
    rows = pa.Table.from_batches([block.batch])
    change = TypeChange(block.wording.type, rows, "merge", minted=block.minted, unnamed=mine)
    done = complete(change, view).rows.combine_chunks()
    return replace(block, batch=done.to_batches()[0]) if done.num_rows else block


def _last(block: Block) -> int:
    return block.first_row + block.batch.num_rows


def required(declared: TableType, unnamed: Unnamed) -> Unnamed:
    """Of what rows do not name, the properties that a new row needs."""
    return {name: mask for name, mask in unnamed.items() if not declared.property(name).type.nullable}


def lacking(blocks: Iterable[Block], unnamed: Unnamed, view: PinnedView) -> Iterator[Finding]:
    """New rows that do not name a property which the schema requires. ``blocks``: with the ids of rows, at least."""
    for block in blocks:
        mine = between(required(block.wording.type, unnamed), block.first_row, _last(block))
        if not mine:
            continue
        count = block.batch.num_rows
        new = np.full(count, block.minted) if isinstance(block.minted, bool) else block.minted.copy()
        given = np.flatnonzero(~new)
        key = block.wording.type.table_key
        if len(given) and view.rows(key):
            ids = block.batch.column("id").take(positions(given))
            new[given] = ~view.contains(key, ids).to_numpy(zero_copy_only=False)
        else:
            new[given] = True
        for name, mask in sorted(mine.items()):
            rows = np.flatnonzero(new if isinstance(mask, bool) else new & mask)
            if len(rows):
                yield Finding(rows + block.first_row, _Lacks(block, name), property=name)


@dataclass(frozen=True)
class _Lacks:
    block: Block
    name: str

    def __call__(self, row: int) -> Violation:
        id_ = self.block.batch.column("id")[row - self.block.first_row].as_py()
        return self.block.wording.row(row, v.REQUIRED, "is required", property=self.name, id=id_)


def with_placeholders(declared: TableType, batch: pa.RecordBatch, unnamed: Unnamed) -> pa.RecordBatch:
    """The batch as it can be written: without nulls in columns that take none, where rows do not name the property."""
    columns = list(batch.columns)
    for name in required(declared, unnamed):
        at = batch.schema.get_field_index(name)
        column: pa.Array[Any] = columns[at]
        if column.null_count:
            places = np.arange(len(column), dtype=np.int64)
            places[column.is_null().to_numpy(zero_copy_only=False)] = len(column)
            columns[at] = pa.concat_arrays([column, pa.array([_placeholder(column.type)], column.type)]).take(
                positions(places)
            )
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _placeholder(kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return [0] * kind.list_size
    if pa.types.is_list(kind):
        return []
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return b""
    return False if pa.types.is_boolean(kind) else 0


class OneTable:
    """The committed rows of one table, as the rules see them."""

    def __init__(self, key: str, table: PinnedTable, rows: int) -> None:
        self._key = key
        self._table = table
        self._rows = rows

    def rows(self, table_key: str) -> int:
        return self._rows if table_key == self._key else 0

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        return self._table.contains(ids)

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        return self._table.fetch(column, values, columns)

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._table.scan(columns)
