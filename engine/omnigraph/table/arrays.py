"""The few Arrow calls whose kinds only their callers know."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# An Arrow array of any kind.
Column = Any


def positions(rows: npt.NDArray[np.int64]) -> Any:
    """Row numbers as ``take`` wants them."""
    return numbers(rows)


def numbers(values: npt.NDArray[Any]) -> Any:
    """Integers of numpy as an Arrow array over the same memory. What ``pa.array`` says of them, without its question whether they
    are masked: for that it imports ``numpy.ma``, which takes as long as a commit."""
    flat: Any = np.ascontiguousarray(values)
    make: Any = pa.Array.from_buffers
    return make(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def flags(values: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """The same of truth values, which Arrow packs."""
    packed: Any = np.packbits(values, bitorder="little")
    make: Any = pa.Array.from_buffers
    found: pa.BooleanArray = make(pa.bool_(), len(values), [None, pa.py_buffer(packed)])
    return found


def nulls(count: int, kind: pa.DataType) -> Column:
    make: Any = pa.nulls
    return make(count, kind)


def chunked(arrays: list[Any], kind: pa.DataType) -> Any:
    make: Any = pa.chunked_array
    return make(arrays, kind)


def fixed_size_lists(items: Column, kind: pa.DataType) -> Column:
    make: Any = pa.FixedSizeListArray.from_arrays
    return make(items, type=kind)


def lists(offsets: Column, items: Column, kind: pa.DataType, mask: Column | None) -> Column:
    make: Any = pa.ListArray.from_arrays
    return make(offsets, items, type=kind, mask=mask)


def over_buffer(buffer: Any, dtype: Any) -> npt.NDArray[Any]:
    """The bytes of an Arrow buffer as numbers, without a copy."""
    found: npt.NDArray[Any] = np.frombuffer(buffer, dtype=dtype)
    return found


def one_array(column: Any, kind: pa.DataType) -> pa.Array[Any]:
    """A column as one array; pieces are small enough for that."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], kind)])
    found: pa.Array[Any] = column
    return found


def own_copy(column: Column) -> Column:
    """The values by themselves: a column of a message keeps all columns of the message in memory."""
    return pa.concat_arrays([column, column.slice(0, 0)])
