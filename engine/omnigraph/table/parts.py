"""Files that tasks elsewhere write: batches as a table's writer takes them, and what was written as plain values.

Owns how rows become fragments outside the process that commits. Nothing here moves a version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.core.meter import Meter
from omnigraph.table.blob import as_stored, blob_columns, logical_schema
from omnigraph.table.dataset import translated
from omnigraph.table.new_file_checks import delete_rows, write_files
from omnigraph.table.rowids import row_ids
from omnigraph.table.staged import fragment_json, fragment_of


def write_rows(
    handle: Any, schema: pa.Schema, batches: Iterator[pa.RecordBatch], rows_per_file: int, meter: Meter | None = None
) -> list[dict[str, Any]]:
    """New fragments of a table, described. Batches are drawn as they are written."""
    blobs = blob_columns(handle.schema)
    if blobs:
        stored = logical_schema(handle.schema)
        schema = pa.schema([stored.field(field.name) if field.name in blobs else field for field in schema])

    def written() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from as_stored(pa.Table.from_batches([batch]), handle.schema).to_batches() if blobs else (batch,)

    reader = pa.RecordBatchReader.from_batches(schema, written())
    with translated("write data files"):
        fragments = write_files(reader, handle, max_rows_per_file=rows_per_file)
    return [fragment_json(fragment) for fragment in fragments]


def data_files(fragments: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Path below the table and size of every data file."""
    return [(f"data/{file['path']}", file["file_size_bytes"] or 0) for one in fragments for file in one["files"]]


def carry_row_ids(
    handle: Any, fragments: Sequence[Mapping[str, Any]], replaced: np.ndarray[Any, np.dtype[np.uint64]]
) -> list[FragmentMetadata]:
    """The fragments with the row ids of the committed rows that their leading rows replace, in the order of the rows. As
    Lance's own values: as JSON the ids of many rows would be many times as large."""
    ids = row_ids(handle, replaced) if len(replaced) else replaced
    found, start = [], 0
    for described in fragments:
        fragment = fragment_of(described)
        mine = ids[start : start + fragment.physical_rows]
        if len(mine):
            fragment.row_id_meta = RowIdSequence(pa.array(mine)).to_inline_metadata()
        start += fragment.physical_rows
        found.append(fragment)
    return found


def delete_offsets(
    handle: Any, fragment_id: int, offsets: np.ndarray[Any, np.dtype[np.uint32]]
) -> tuple[dict[str, Any], str | None] | None:
    """A committed fragment without some of its rows, and the deletion file that says so; None where none are left."""
    with translated("write a deletion file"):
        kept = delete_rows(handle, fragment_id, offsets.tolist())
    if kept is None:
        return None
    deletion = kept.deletion_file
    return fragment_json(kept), None if deletion is None else deletion.path(kept.id)
