"""Fragments that are written and not committed: as plain JSON, read back, verified, given up.

Owns what staged files look like to Lance. Whose they are and whether they may be committed is decided elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata

from omnigraph.table.blob import blob_columns
from omnigraph.table.dataset import TableRef, Tables, translated

BATCH_ROWS = 1 << 17


def fragment_json(fragment: FragmentMetadata) -> dict[str, Any]:
    """Lance's own description of a fragment, as plain values."""
    described: dict[str, Any] = fragment.to_json()
    return described


def fragment_of(described: Mapping[str, Any] | FragmentMetadata) -> FragmentMetadata:
    """The fragment that the JSON describes, or the fragment itself."""
    if isinstance(described, FragmentMetadata):
        return described
    return FragmentMetadata.from_json(json.dumps(dict(described)))


def files_of(described: Mapping[str, Any]) -> list[str]:
    """The files of a staged fragment below its table: data files, and the deletion file if it has one."""
    fragment = fragment_of(described)
    found = [f"data/{file.path}" for file in fragment.files]
    deletion = fragment.deletion_file
    if deletion is not None:
        found.append(deletion.path(fragment.id))
    return found


def rows_of(described: Mapping[str, Any]) -> int:
    fragment = fragment_of(described)
    return int(fragment.physical_rows - fragment.num_deletions)


def append_transaction(handle: Any, new: Sequence[Mapping[str, Any] | FragmentMetadata]) -> Transaction:
    return Transaction(handle.version, LanceOperation.Append([fragment_of(one) for one in new]))


def overwrite_transaction(handle: Any, new: Sequence[Mapping[str, Any] | FragmentMetadata]) -> Transaction:
    fragments = [fragment_of(one) for one in new]
    return Transaction(handle.version, LanceOperation.Overwrite(handle.lance_schema, fragments))


def update_transaction(
    handle: Any,
    new: Sequence[Mapping[str, Any] | FragmentMetadata],
    updated: Sequence[Mapping[str, Any] | FragmentMetadata],
    removed: Sequence[int],
    fields: Sequence[int],
) -> Transaction:
    operation = LanceOperation.Update(
        removed_fragment_ids=list(removed),
        updated_fragments=[fragment_of(one) for one in updated],
        new_fragments=[fragment_of(one) for one in new],
        fields_modified=[],
        fields_for_preserving_frag_bitmap=list(fields),
        update_mode="rewrite_rows",
    )
    return Transaction(handle.version, operation)


def field_ids(handle: Any) -> list[int]:
    """Ids of all fields of a table, nested ones included."""
    found: list[int] = []
    todo = list(handle.lance_schema.fields())
    while todo:
        one = todo.pop()
        found.append(one.id())
        todo.extend(one.children())
    return sorted(found)


def column_ids(handle: Any) -> dict[str, int]:
    """Field ids of the columns of a table, by name."""
    return {one.name(): one.id() for one in handle.lance_schema.fields()}


def deleted_by(handle: Any, updated: Sequence[Mapping[str, Any]], removed: Sequence[int]) -> int:
    """Rows of the handle's version that an update takes away."""
    gone = 0
    for described in updated:
        after = fragment_of(described)
        before = handle.get_fragment(after.id)
        gone += after.num_deletions - (0 if before is None else before.metadata.num_deletions)
    for number in removed:
        before = handle.get_fragment(number)
        if before is not None:
            gone += before.metadata.physical_rows - before.metadata.num_deletions
    return int(gone)


def read_rows(
    tables: Tables,
    ref: TableRef,
    handle: Any,
    new: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    by_id: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of staged fragments in the order of the fragments, blobs as bytes. ``by_id``: the table has other columns than
    when they were staged, so that their files may call columns otherwise, or lack some, which are null."""
    for described in new:
        fragment = fragment_of(described)
        if len(fragment.files) != 1 or fragment.deletion_file is not None:
            raise ValueError("a staged fragment has one data file and deletes nothing")
    if by_id or blob_columns(handle.schema):
        yield from _read_detached(tables, ref, handle, new, columns)
        return
    for described in new:
        name = f"{ref.relative}/data/{fragment_of(described).files[0].path}"
        with translated(f"read staged file {name}"):
            reader = LanceFileReader(tables.store_uri(name), storage_options=tables.options, columns=list(columns))
            yield from reader.read_all(batch_size=BATCH_ROWS).to_batches()


def _read_detached(
    tables: Tables, ref: TableRef, handle: Any, new: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Lance's file reader cannot project a file past a blob column, a dataset can: so the fragments become one for as long
    as they are read, under a version that is in no line and is deleted afterwards."""
    if not new:
        return
    with translated(f"read staged files of {ref.relative}"):
        empty = Transaction(
            handle.version, LanceOperation.Overwrite(handle.lance_schema, [fragment_of(n) for n in new])
        )
        detached = LanceDataset.commit(handle, empty, detached=True)
    try:
        with translated(f"read staged files of {ref.relative}"):
            yield from detached.scanner(
                columns=list(columns), batch_size=BATCH_ROWS, scan_in_order=True, blob_handling="all_binary"
            ).to_batches()
    finally:
        tables.drop_detached(ref, detached.version)
