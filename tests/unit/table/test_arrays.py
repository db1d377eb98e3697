"""Arrow arrays over numpy's memory are what ``pa.array`` makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.table.arrays import flags, numbers


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32, np.uint8])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_numbers_are_those_of_arrow(kind: Any, count: int) -> None:
    values = np.arange(2 * count, dtype=kind)[::2]  # not contiguous
    made = numbers(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_flags_are_those_of_arrow(count: int) -> None:
    values = np.random.default_rng(count).random(count) > 0.5
    made = flags(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))
