"""Data files with more columns of fragments that exist: written beside them, and named by no version yet.

Such a file has a row for each physical row of its fragment, in their order, deleted ones included. Where a row is deleted it
holds a blank, which no reader sees. Its fields have no ids before a transaction on the table gives them: a file counts them
from its own first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.core.meter import Meter
from omnigraph.table.arrays import nulls, positions
from omnigraph.table.blob import READ_BYTES
from omnigraph.table.checksums import CheckedFiles
from omnigraph.table.dataset import metered, translated
from omnigraph.table.new_file_checks import write_files

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ColumnFile:
    """One file. ``fields``: Lance's ids, counted from the first new one. ``columns``: where each is in the file."""

    fragment: int
    path: str
    fields: tuple[int, ...]
    columns: tuple[int, ...]
    format: tuple[int, int]
    size: int | None

    def beside(self, fragment: FragmentMetadata, first_id: int) -> FragmentMetadata:
        """The fragment with the file, whose fields begin at an id."""
        file = DataFile(self.path, [first_id + one for one in self.fields], list(self.columns), *self.format, self.size)
        return FragmentMetadata(
            fragment.id,
            [*fragment.files, file],
            fragment.physical_rows,
            fragment.deletion_file,
            fragment.row_id_meta,
            fragment.created_at_version_meta,
            fragment.last_updated_at_version_meta,
        )


def read_fragment(
    handle: Any, fragment_id: int, columns: Sequence[str], meter: Meter | None, *, batch_rows: int
) -> Iterator[tuple[Offsets, pa.RecordBatch]]:
    """The live rows of one fragment in their order, with the offset of each. Its files are compared with their checksums
    before the first row is read: what is computed from a damaged one would be kept as if it were right."""
    CheckedFiles(handle).check_fragments([fragment_id])
    scanner = handle.scanner(
        columns=list(columns),
        fragments=[handle.get_fragment(fragment_id)],
        with_row_address=True,
        scan_in_order=True,
        batch_size=batch_rows,
        **READ_BYTES,
    )
    with translated("read rows"), metered(handle, meter, "data"):
        for batch in scanner.to_batches():
            addresses = np.asarray(batch.column("_rowaddr").to_numpy(zero_copy_only=False), dtype=np.uint64)
            yield (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64), batch.select(list(columns))


def write_column_file(
    handle: Any,
    fragment: FragmentMetadata,
    schema: pa.Schema,
    rows: Iterator[tuple[Offsets, pa.RecordBatch]],
    meter: Meter | None,
) -> ColumnFile:
    """Write the columns of ``schema`` for one fragment. ``rows``: those of the live rows, by ascending offset."""
    count = fragment.physical_rows
    reader = pa.RecordBatchReader.from_batches(schema, _physical(schema, rows, count))
    with translated("write data files"), metered(handle, meter, "data"):
        # An overwrite takes columns that the table does not have. It is never committed: only the file is wanted.
        [written] = write_files(reader, handle, mode="overwrite", max_rows_per_file=count, max_rows_per_group=count)
    [file] = written.files
    return ColumnFile(
        fragment.id,
        file.path,
        tuple(file.fields),
        tuple(file.column_indices),
        (file.file_major_version, file.file_minor_version),
        file.file_size_bytes,
    )


def without_nulls(column: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    """The column with blanks instead of nulls, where the field takes none."""
    if field.nullable or not column.null_count:
        return column
    place = np.arange(len(column), dtype=np.int64)
    place[column.is_null().to_numpy(zero_copy_only=False)] = len(column)
    return pa.concat_arrays([column, _blank(field)]).take(positions(place))


def _physical(
    schema: pa.Schema, rows: Iterator[tuple[Offsets, pa.RecordBatch]], count: int
) -> Iterator[pa.RecordBatch]:
    """A row for each physical row: those given at their offsets, blanks between them."""
    blank = [_blank(field) for field in schema]
    done = 0
    for offsets, batch in rows:
        end = int(offsets[-1]) + 1 if len(offsets) else done
        yield _spread(schema, batch, offsets - done, end - done, blank)
        done = end
    if done < count:
        yield _spread(schema, None, np.empty(0, np.int64), count - done, blank)


def _spread(
    schema: pa.Schema, batch: pa.RecordBatch | None, at: Offsets, rows: int, blank: Sequence[pa.Array[Any]]
) -> pa.RecordBatch:
    given = 0 if batch is None else batch.num_rows
    if batch is not None and given == rows:
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    place = np.full(rows, given, dtype=np.int64)  # the blank is behind what is given
    place[at] = np.arange(given)
    held = [blank[i] if batch is None else pa.concat_arrays([batch.column(i), blank[i]]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays([one.take(positions(place)) for one in held], schema=schema)


def _blank(field: pa.Field[Any]) -> pa.Array[Any]:
    """One value that the column takes."""
    kind: Any = field.type
    found: pa.Array[Any]
    if field.nullable:
        found = nulls(1, kind)
    elif pa.types.is_fixed_size_list(kind):
        found = pa.array([[0] * kind.list_size], kind)
    elif pa.types.is_list(kind):
        found = pa.array([[]], kind)
    elif pa.types.is_string(kind):
        found = pa.array([""], kind)
    elif pa.types.is_boolean(kind):
        found = pa.array([False], kind)
    else:
        found = pa.array([0], pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).cast(kind)
    return found
