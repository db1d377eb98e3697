"""Which file of a version is damaged, asked once a read of it has failed: Lance's error seldom says, or blames the caller."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.table import checksums, files, new_file_checks
from omnigraph.table.errors import Fate
from omnigraph.table.torn import restore_hint

if TYPE_CHECKING:
    from lance import LanceDataset

COMPARED_BYTES_MAX = 256 * 1024 * 1024
"""How much is read again to find the file by its checksum."""
_EXPLAINED = frozenset(
    fate.value
    for fate in (
        Fate.NOT_LANDED_RETRYABLE,
        Fate.NOT_LANDED_INCOMPATIBLE,
        Fate.MISSING_VERSION,
        Fate.REFUSED,
        Fate.UNAVAILABLE,
    )
)


def with_file(handle: LanceDataset, error: OmnigraphError, what: str) -> OmnigraphError:
    """The error, or ``Corruption`` with table, version and file where a file of the handle's version is damaged."""
    if error.facts.get("fate") in _EXPLAINED or "file" in error.facts:
        return error
    found = damaged_file(handle)
    if found is None:
        return error
    path, problem = found
    return Corruption(
        f"{what} failed: a file is damaged: {problem}: table={handle.uri} version={handle.version} file={path}",
        hint=_hint(handle),
        fate=Fate.MISSING_FILE.value,
        table=handle.uri,
        version=handle.version,
        file=path,
    )


def _hint(handle: LanceDataset) -> str | None:
    place = checksums.place_of(handle.uri)
    return None if place is None else restore_hint(place.root)


def damaged_file(handle: LanceDataset) -> tuple[str, str] | None:
    """The first file of a version that is not whole, or not what was written, and what is wrong with it."""
    for said in new_file_checks.damaged(handle).values():
        path, _, problem = said.partition(": ")
        return path, problem
    place = checksums.place_of(handle.uri)
    if place is None:
        return None
    lines = checksums.read_lines(place)
    left = COMPARED_BYTES_MAX
    named = (*files.files_of_fragments(handle), *files.index_files(handle))
    for path in sorted(named, key=lambda name: (name.startswith("data/"), name)):
        whole = place.path(path)
        left -= os.path.getsize(os.path.join(place.root, whole))
        if left < 0:
            return None
        problem = checksums.mismatch(place, lines, whole) or ""
        if problem:
            return path, problem
    return None
