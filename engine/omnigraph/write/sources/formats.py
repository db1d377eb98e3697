"""Dates and times in a format that the caller names, as texts of a CSV column have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.write.base import violations as v
from omnigraph.write.values.conform import BadRows, WrongKind

# Formats that count from 1970, and what they count.
_EPOCHS: Final = {"epoch-s": timedelta(seconds=1), "epoch-ms": timedelta(milliseconds=1)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_formatted(kind: PropType, column: pa.Array[Any], how: str) -> tuple[Any, list[BadRows]]:
    """The column in the property's kind, and rows whose text does not follow the format. Without an offset it is UTC."""
    if kind.is_list or kind.scalar not in (ScalarKind.DATE, ScalarKind.DATETIME):
        raise WrongKind
    # A date stands in many rows; each text is read once.
    encoded: Any = column.dictionary_encode()
    values = [_read(kind, text, how) for text in encoded.dictionary.to_pylist()]
    refused = np.array([value is None for value in values], dtype=np.bool_)
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((places >= 0) & refused[places]) if len(values) else np.empty(0, dtype=np.int64)
    taken = pa.array(values, arrow_type(kind)).take(encoded.indices)
    return taken, [BadRows(rows, v.BAD_DATE, f"it does not follow the format {how}")] if len(rows) else []


def _read(kind: PropType, text: str, how: str) -> Any:
    try:
        if how in _EPOCHS:
            moment = _EPOCH + int(text.strip()) * _EPOCHS[how]
        else:
            moment = datetime.strptime(text.strip(), how)  # noqa: DTZ007 - whether there is an offset, the format says
        if kind.scalar is ScalarKind.DATE:
            return moment.date()
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
