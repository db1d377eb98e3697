"""Version lines as lists: which versions and files exist, which no version names, and the deletion of exact versions.

Owns every call that deletes through Lance. It decides nothing: which versions are doomed is a plan made above, and only
versions that are named by number are ever deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table.dataset import TableRef, Tables, metered, translated

if TYPE_CHECKING:
    from lance import LanceDataset

EXPLAINED_FILES_MAX = 100_000


@dataclass(frozen=True)
class LooseFile:
    """A file that no version names."""

    path: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Deleted:
    """What one call deleted."""

    versions: int = 0
    files: int = 0
    bytes: int = 0
    failed: int = 0

    def plus(self, other: Deleted) -> Deleted:
        return Deleted(
            self.versions + other.versions,
            self.files + other.files,
            self.bytes + other.bytes,
            self.failed + other.failed,
        )


def loose_files(handle: LanceDataset, what: str, meter: Meter | None = None) -> tuple[LooseFile, ...]:
    """Files under a dataset that no existing version names, those of writers under way included. Reads every version.

    Asks Lance what it would delete if it had to delete nothing but the newest version, which it never does.
    """
    with translated(f"look for unreferenced files of {what}"), metered(handle, meter, "versions"):
        explained = handle.explain_cleanup_old_versions(
            versions=[handle.version],
            delete_unverified=True,
            error_if_tagged_old_versions=False,
            include_files=True,
            max_files=EXPLAINED_FILES_MAX,
        )
    return tuple(
        sorted(
            (LooseFile(file.path, str(file.kind), file.size_bytes) for file in explained.candidate_files),
            key=lambda file: file.path,
        )
    )


def retained_files(tables: Tables, ref: TableRef) -> dict[str, int] | None:
    """Every file that an existing version names, below the dataset's folder, with the newest such version. Reads every
    version; None where Lance cannot."""
    try:
        with translated(f"list the files of {ref.relative}"):
            named = tables.open_latest(ref).tracked_files().read_all()
            paths: list[Any] = named.column("path").to_pylist()
            versions: list[Any] = named.column("version").to_pylist()
    except OmnigraphError:
        return None
    newest: dict[str, int] = {}
    for path, version in zip(paths, versions, strict=True):
        newest[path] = max(version, newest.get(path, 0))
    return newest


def delete_versions(tables: Tables, ref: TableRef, versions: Sequence[int], meter: Meter | None = None) -> Deleted:
    """Delete exactly these versions, and the files that only they name. Asks for the newest handle first, because Lance
    spares whatever is newer than the handle it is given."""
    if not versions:
        return Deleted()
    handle = tables.open_latest(ref, meter)
    with translated(f"delete versions of {ref.relative}"), metered(handle, meter, "versions"):
        stats = handle.cleanup_old_versions(
            versions=sorted(versions), delete_unverified=False, error_if_tagged_old_versions=False
        )
    for version in versions:
        tables.release(ref, version)
    return Deleted(
        versions=int(stats.old_versions),
        files=int(
            stats.data_files_removed
            + stats.transaction_files_removed
            + stats.index_files_removed
            + stats.deletion_files_removed
        ),
        bytes=int(stats.bytes_removed),
        failed=int(stats.failed_deletes),
    )
