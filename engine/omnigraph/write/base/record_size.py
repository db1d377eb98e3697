"""How long a row is as a record of an export. A row that is longer than a load takes could not come back from a backup.

Every way into the graph is held to it, because the length of what was read says little: a table has no texts of JSON, and an
export names properties that a record left out. A row that is too long fails the load and cannot be set aside: the file of rows
that are set aside has to be loadable as well.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from omnigraph.core.limits import Limits
from omnigraph.schema.catalog import TableType

_ESCAPED: Final = 6  # a control character of one byte is written as six
_FIXED_BYTES: Final = 40  # of a number, a moment, an id that is given on loading; quotes, comma and colon
_BITS_BYTES: Final = 64  # a list of booleans has one bit for each, and six characters in an export


def check_record_bytes(declared: TableType, batch: pa.RecordBatch, limits: Limits) -> None:
    """Raise ``LimitExceeded`` for the first row whose record could be longer than a load takes."""
    bound = limits.record_bytes
    names = sum(len(name.encode()) + _FIXED_BYTES for name in batch.schema.names)
    has_bits = any(
        pa.types.is_list(field.type) and pa.types.is_boolean(field.type.value_type) for field in batch.schema
    )
    # Nearly every batch ends here: all of its rows together are shorter than one may be.
    if batch.nbytes * (_BITS_BYTES if has_bits else _ESCAPED) + names <= bound:
        return
    if len(batch) > 1:
        half = len(batch) // 2
        check_record_bytes(declared, batch.slice(0, half), limits)
        check_record_bytes(declared, batch.slice(half), limits)
        return
    row = batch.to_pylist()[0]
    size = names + sum(map(_json_bytes, row.values()))
    limits.check("record_bytes", size, where=f"{declared.name} {str(row['id'])[:80]}")


def _json_bytes(value: Any) -> int:
    """How many bytes the value has in an export, at most."""
    if isinstance(value, str):
        return len(json.dumps(value, ensure_ascii=False).encode())
    if isinstance(value, bytes):
        return len(value) * 4 // 3 + _FIXED_BYTES
    if isinstance(value, list):
        return 2 + sum(_json_bytes(item) + 1 for item in value)
    if isinstance(value, dict):  # a blob as it is stored
        return sum(map(_json_bytes, value.values()))
    if isinstance(value, float):
        return len(repr(value)) + 2 if abs(value) < 1e16 else _FIXED_BYTES
    return _FIXED_BYTES if value is not None and not isinstance(value, int) else len(str(value)) + 1
