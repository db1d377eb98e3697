"""Whether a version reads files from where its graph is. A fork names the folders of other lines by their full path, so a graph that
was copied would read, or miss, the files of the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.core.errors import UnsupportedStorage
from omnigraph.table.names import TableRef

if TYPE_CHECKING:
    from lance import LanceDataset


def check_place(ref: TableRef, handle: LanceDataset, home: str) -> None:
    """Raise ``UnsupportedStorage`` where a file of the version lies elsewhere. ``home``: the place of the table. No request."""
    bases = handle.base_paths()
    outside = {number: base.path for number, base in bases.items() if not _is_below(base.path, home)}
    used = _used(handle) & outside.keys() if outside else frozenset()
    if not used:
        return
    place = outside[min(used)]
    old = place.partition(f"/{ref.location}")[0]
    raise UnsupportedStorage(
        f"table {ref.location} reads files at another place than that of its graph: {place}",
        hint=f"open the graph as {old}; before it is copied, run `omnigraph optimize {old} --settle --branch NAME` there for each "
        "branch that has written, or delete those branches and clean up",
        table=ref.location,
        place=place,
    )


def _is_below(path: str, home: str) -> bool:
    path = path.rstrip("/")
    return path == home or path.startswith(f"{home}/tree/")


def _used(handle: LanceDataset) -> frozenset[int]:
    """The numbers of the bases that files, deletions and indexes of the version lie in."""
    metas = [fragment.metadata for fragment in handle.get_fragments()]
    found = {file.base_id for meta in metas for file in meta.files}
    found |= {meta.deletion_file.base_id for meta in metas if meta.deletion_file is not None}
    found |= {segment.base_id for index in handle.describe_indices() for segment in index.segments}
    return frozenset(one for one in found if one is not None)
