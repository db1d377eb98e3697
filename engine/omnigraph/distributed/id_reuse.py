"""Ids that edges of a staged merge take over from committed ones, found in passes over the tuples that say which is meant.

The look-up is that of any merge; here only tuples of one pass are held, and what was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.table.arrays import positions
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import RowIndex

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
