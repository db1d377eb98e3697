"""The version files of a dataset as a listing shows them, by the names that Lance gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.core.meter import Meter
from omnigraph.table.names import V2_MANIFEST_MAX, TableRef

if TYPE_CHECKING:
    from omnigraph.store import Store

_SUFFIX = ".manifest"


@dataclass(frozen=True)
class VersionFile:
    """One version of a line as a listing shows it. The time is the store's own."""

    version: int
    bytes: int
    modified_us: int


def version_files(store: Store, ref: TableRef, meter: Meter | None = None) -> tuple[VersionFile, ...]:
    """Every version of a line, oldest first: a listing of names, a request for each thousand."""
    found = []
    for entry in store.list(f"{ref.relative}/_versions/", meter=meter):
        name = entry.key.rsplit("/", 1)[-1]
        number = name.removesuffix(_SUFFIX)
        if name.endswith(_SUFFIX) and number.isdigit():
            found.append(VersionFile(V2_MANIFEST_MAX - int(number), entry.size, entry.modified_us))
    return tuple(sorted(found, key=lambda one: one.version))


def version_path(ref: TableRef, version: int) -> str:
    """The version file of one version, below the graph's root."""
    return f"{ref.relative}/_versions/{V2_MANIFEST_MAX - version:020d}{_SUFFIX}"
