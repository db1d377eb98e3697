"""What a failed read of a pinned table means: the store's weather, a reclaimed version, or damage with the file named.

A pin names files that never change, and what is asked of them was checked before. So a file that is missing, cut short
or does not decode is not the caller's mistake. Decides on what was raised; asks storage only to find the damaged file.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.errors import Corruption, NotFound, OmnigraphError, StoreRefused
from omnigraph.table.errors import Fate

_FILE = re.compile(r"(?:data|_deletions|_versions|_indices)/[\w./-]*\w")
# What readers of the file format say about bytes that are not what was written.
_DAMAGE = re.compile(
    r"corrupt|invalid magic|magic number|not appear to be a Lance file|failed to fill whole buffer|decode Protobuf"
    r"|file size is too small|panicked with message|out of range|Range .* exceed|invalid range|Version not found error|InvalidRange|416 ",
    re.IGNORECASE,
)


def is_damage(error: OmnigraphError) -> bool:
    """Whether the failure says that files of the version are missing or not what they were."""
    if isinstance(error, StoreRefused):
        return False
    fate = error.facts.get("fate")
    if isinstance(error, NotFound | Corruption):
        return fate in (Fate.MISSING_VERSION.value, Fate.MISSING_FILE.value)
    return fate in (Fate.UNKNOWN.value, Fate.INVALID.value) and _DAMAGE.search(error.message) is not None


def damaged(error: OmnigraphError, table_key: str, version: int, find_file: Callable[[], str | None]) -> Corruption:
    """The error to raise: it names table, version and file."""
    named = _FILE.search(error.message)
    file = named.group() if named is not None else find_file()
    missing = (
        error.facts.get("fate") == Fate.MISSING_VERSION.value
        or "ot found" in error.message
        or "it is not there" in error.message
    )
    state = "is missing" if missing else "is damaged"
    return Corruption(
        f"{file or 'a file'} of a table {state}: table={table_key} version={version}",
        hint="keep the files as they are; copy the file back from a backup, or export what still reads and load it anew",
        table_key=table_key,
        version=version,
        file=file,
        detail=error.message,
    )


_EPOCH = dt.date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (dt.date.min - _EPOCH).days, (dt.date.max - _EPOCH).days
_DAY_US = 86_400_000_000


def check_calendar(rows: pa.RecordBatch | pa.Table) -> None:
    """Raise ``Corruption`` for a date outside the years 0001 to 9999. No write takes one, and Python has no value for it."""
    columns: list[Any] = list(rows.columns)
    for name, column in zip(rows.schema.names, columns, strict=True):
        for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            if any(_outside(values) for values in _dates(part)):
                raise Corruption(
                    f"column {name} holds a date outside the calendar", fate=Fate.MISSING_FILE.value, outside=name
                )


def is_outside(error: OmnigraphError) -> bool:
    """Whether the error is one of ``check_calendar``, which does not know the file."""
    return "outside" in error.facts


def _dates(array: Any) -> Iterator[pa.Array[Any]]:
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _dates(array.flatten())
    elif pa.types.is_date32(array.type) or pa.types.is_timestamp(array.type):
        yield array


def _outside(array: pa.Array[Any]) -> bool:
    days = pa.types.is_date32(array.type)
    found = pc.min_max(array.view(pa.int32() if days else pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is None:
        return False
    if days:
        return bool(low < _FIRST_DAY or high > _LAST_DAY)
    return bool(low < _FIRST_DAY * _DAY_US or high >= (_LAST_DAY + 1) * _DAY_US)


def file_with_wrong_dates(handle: Any) -> str | None:
    """The first data file of a version that holds a date outside the calendar."""
    names = [field.name for field in handle.schema if any(True for _ in _dates(pa.array([], field.type)))]
    for fragment in handle.get_fragments() if names else ():
        try:
            for batch in handle.scanner(columns=names, fragments=[fragment]).to_batches():
                check_calendar(batch)
        except Corruption:
            return f"data/{fragment.metadata.files[0].path}"
    return None
