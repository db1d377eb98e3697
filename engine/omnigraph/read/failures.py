"""What a failed read of a pinned table means: the store's weather, a reclaimed version, or damage with the file named.

A pin names files that never change, and what is asked of them was checked before. So a file that is missing, cut short
or does not decode is not the caller's mistake. Decides on what was raised; asks storage only to find the damaged file.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
