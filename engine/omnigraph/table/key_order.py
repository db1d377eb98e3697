"""The order of a key column by the hashes of its values: a few values are found in it by bisection. Pure.

Twelve bytes a row, whatever the values are. Equal values have equal hashes; each row that has the right hash is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.table.key_set import digest_words, encode_words

BYTES_PER_ROW = 12
_ROWS_MAX = 1 << 32


@dataclass(frozen=True, slots=True)
class KeyOrder:
    hashes: npt.NDArray[np.uint64]
    """Of all rows that have a value, sorted."""
    rows: npt.NDArray[np.uint32]
    """The row of each hash."""

    @property
    def nbytes(self) -> int:
        return self.hashes.nbytes + self.rows.nbytes

    def candidates(self, needles: pa.Array[Any]) -> npt.NDArray[np.int64]:
        """The rows whose value may be one of ``needles``, ascending. The caller compares them."""
        wanted = np.unique(_hashes(needles.drop_null()))
        first = np.searchsorted(self.hashes, wanted, side="left")
        last = np.searchsorted(self.hashes, wanted, side="right")
        found = [self.rows[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True) if b > a]
        return np.sort(np.concatenate(found)).astype(np.int64) if found else np.empty(0, np.int64)


def order_of(keys: pa.Array[Any]) -> KeyOrder | None:
    """The order of a column; None for kinds of values that are not hashed here."""
    if not can_be_ordered(keys.type) or len(keys) >= _ROWS_MAX:
        return None
    rows = None if keys.null_count == 0 else np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    hashes = _hashes(keys.drop_null())
    order = np.argsort(hashes, kind="stable")
    placed = order if rows is None else rows[order]
    return KeyOrder(hashes[order], placed.astype(np.uint32))


def can_be_ordered(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_integer(kind)


def _hashes(values: pa.Array[Any]) -> npt.NDArray[np.uint64]:
    return digest_words([encode_words(values)])[0]
