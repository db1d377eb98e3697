"""Which data files make up one version of a table, as plain values.

A :class:`Layout` is read off an open handle without a request, or derived from the layout before it and the
transaction that a writer of this process has just landed. It holds no rows; caches key by what it says is immutable:
a data file never changes, and a deletion file never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.table.blob import logical_schema
from omnigraph.table.files import data_file_name

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment of a version: an ordered set of rows, some of them deleted."""

    id: int
    files: str
    """Names of its data files, joined. Globally unique and never written twice."""
    rows: int
    """Physical rows, deleted ones included."""
    deletion: str | None
    """Identity of its deletion file; None when nothing is deleted."""
    deleted_rows: int = 0


@dataclass(frozen=True)
class Layout:
    """The fragments of one version on one version line, and the field ids of its columns."""

    version: int
    fragments: Mapping[int, Fragment]
    by_files: Mapping[str, tuple[int, ...]]
    fields: Mapping[str, int]
    schema: pa.Schema
    covered: Mapping[str, frozenset[int]]
    """Column → fragments that a BTREE on it covers."""

    def field(self, column: str) -> int:
        return self.fields[column]

    @cached_property
    def live_rows(self) -> int:
        return sum(fragment.rows - fragment.deleted_rows for fragment in self.fragments.values())


def layout_of(handle: LanceDataset) -> Layout:
    """The layout of the handle's version. No request: everything is in the manifest that the handle holds."""
    fragments = {}
    for item in handle.get_fragments():
        fragment = describe(item.metadata)
        fragments[fragment.id] = fragment
    return Layout(
        version=handle.version,
        fragments=fragments,
        by_files=_by_files(fragments.values()),
        fields={field.name(): field.id() for field in handle.lance_schema.fields()},
        schema=logical_schema(handle.schema),
        covered=covered(handle) if fragments else {},
    )


def describe(metadata: FragmentMetadata, fragment_id: int | None = None) -> Fragment:
    """A fragment as Lance's metadata has it; ``fragment_id`` where the metadata predates its assignment."""
    deletion = metadata.deletion_file
    return Fragment(
        id=metadata.id if fragment_id is None else fragment_id,
        files="|".join(map(data_file_name, metadata.files)),
        rows=metadata.physical_rows,
        deletion=None if deletion is None else f"{deletion.read_version}-{deletion.id}-{deletion.num_deleted_rows}",
        deleted_rows=metadata.num_deletions,
    )


def advance(base: Layout, handle: LanceDataset, operation: Any) -> tuple[Layout, list[Fragment]] | None:
    """The layout after ``operation`` landed on ``base`` as ``handle``, and its new fragments in the order written.

    None where that cannot be told without reading the manifest again (other operations, other places to land).
    """
    from lance import LanceOperation

    if handle.version != base.version + 1:
        return None
    fragments = dict(base.fragments)
    by_files = dict(base.by_files)
    if isinstance(operation, LanceOperation.Append):
        added: list[FragmentMetadata] = list(operation.fragments)
    elif isinstance(operation, LanceOperation.Update | LanceOperation.Delete):
        removed = (
            operation.removed_fragment_ids
            if isinstance(operation, LanceOperation.Update)
            else operation.deleted_fragment_ids
        )
        for fragment_id in removed:
            gone = fragments.pop(fragment_id)
            by_files[gone.files] = tuple(other for other in by_files[gone.files] if other != fragment_id)
        for metadata in operation.updated_fragments:
            if metadata.id not in fragments:
                return None
            fragments[metadata.id] = describe(metadata)
        added = list(operation.new_fragments) if isinstance(operation, LanceOperation.Update) else []
    else:
        return None
    # The commit numbers new fragments in the order in which the transaction lists them.
    new_ids = sorted(set(handle.fragment_ids()) - base.fragments.keys())
    if len(new_ids) != len(added):
        return None
    new = [describe(metadata, fragment_id) for metadata, fragment_id in zip(added, new_ids, strict=True)]
    for fragment in new:
        fragments[fragment.id] = fragment
        by_files[fragment.files] = (*by_files.get(fragment.files, ()), fragment.id)
    return Layout(handle.version, fragments, by_files, base.fields, base.schema, base.covered), new


def arrive(handle: LanceDataset, operation: Any) -> tuple[Layout, list[Fragment]] | None:
    """The same where the layout before is not known: read off the handle, new fragments told by their files."""
    from lance import LanceOperation

    if isinstance(operation, LanceOperation.Append | LanceOperation.Overwrite):
        added: list[FragmentMetadata] = list(operation.fragments)
    elif isinstance(operation, LanceOperation.Update):
        added = list(operation.new_fragments)
    else:
        return None
    layout = layout_of(handle)
    places = [layout.by_files.get(describe(metadata).files, ()) for metadata in added]
    if any(len(place) != 1 for place in places):
        return None
    return layout, [layout.fragments[place[0]] for place in places]


def _by_files(fragments: Iterable[Fragment]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for fragment in fragments:
        found[fragment.files] = (*found.get(fragment.files, ()), fragment.id)
    return found


def covered(handle: LanceDataset) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for index in handle.describe_indices():
        if index.index_type.upper() != "BTREE" or len(index.field_names) != 1:
            continue
        ids: set[int] = set()
        for segment in index.segments:
            ids |= set(segment.fragment_ids)
        column = index.field_names[0]
        found[column] = found.get(column, frozenset()) | ids
    return found
