"""Sorted distinct numbers. Owns one function, because NumPy's own hashes integers and is a hundred times slower here."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Number = TypeVar("Number", bound=np.generic)


def sorted_distinct(values: np.ndarray[Any, np.dtype[Number]]) -> np.ndarray[Any, np.dtype[Number]]:
    """Row addresses mostly come sorted or nearly so, which a sort uses and a hash table does not."""
    ordered = np.sort(values, kind="stable")
    if len(ordered) < 2:
        return ordered
    new = np.empty(len(ordered), dtype=np.bool_)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    found: np.ndarray[Any, np.dtype[Number]] = ordered[new]
    return found
