"""Are two rows the same? Typed and null-aware, column by column: null is not an empty text, and lists go by value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def same_rows(left: pa.Table, right: pa.Table) -> npt.NDArray[np.bool_]:
    """For each position whether all columns agree. Both tables have the columns of ``right``, in any order."""
    same = np.ones(right.num_rows, dtype=np.bool_)
    for name in right.column_names:
        if name == "id" or not same.any():
            continue
        same &= same_column(left.column(name), right.column(name), same)
    return same


def same_column(left: Any, right: Any, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """For each position whether two columns agree. They are of one type, or one is the wider number. Lists are compared only
    where ``asked`` says so; elsewhere they count as different."""
    return _same_values(_flat(left), _flat(right), asked)


def _flat(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # combine_chunks of no chunks
        column = pa.array([], column.type)
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _same_values(left: Any, right: Any, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    null_left, null_right = _nulls(left), _nulls(right)
    both_null = null_left & null_right
    if pa.types.is_nested(right.type):
        return both_null | _same_lists(left, right, asked & ~null_left & ~null_right)
    if left.type != right.type:
        wider = _wider(left.type, right.type)
        left, right = left.cast(wider), right.cast(wider)
    equal: npt.NDArray[np.bool_] = pc.fill_null(pc.equal(left, right), False).to_numpy(zero_copy_only=False)
    return np.logical_or(both_null, equal)


def _wider(left: Any, right: Any) -> Any:
    """The type that holds the values of both, of two numbers or texts."""
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (left, right))
    return left if numbers and left.bit_width > right.bit_width else right


def _nulls(column: Any) -> npt.NDArray[np.bool_]:
    if column.null_count == 0:
        return np.zeros(len(column), dtype=np.bool_)
    found: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _same_lists(left: Any, right: Any, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Lists and vectors. Scalars go first, so few rows are left to compare here where much has changed."""
    found = np.zeros(len(right), dtype=np.bool_)
    rows = np.flatnonzero(asked)
    if not len(rows):
        return found
    at = pa.array(rows)
    mine, theirs = left.take(at), right.take(at)
    if pa.types.is_fixed_size_list(right.type) and mine.flatten().null_count == 0 == theirs.flatten().null_count:
        width = right.type.list_size
        a = mine.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
        b = theirs.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
        found[rows] = (a == b).all(axis=1)
    else:
        found[rows] = [x == y for x, y in zip(mine.to_pylist(), theirs.to_pylist(), strict=True)]
    return found
