"""A snapshot as Parquet: a folder with one file a type, for programs that read Parquet, and input that ``load`` takes.

Rows are streamed in batches, in the order in which they are stored. Files have their names only once all of them are
whole and on the disk: a reader that finds one finds all of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.core import progress
from omnigraph.core.errors import AlreadyExists, InvalidInput
from omnigraph.core.ids import new_uuid
from omnigraph.read.export import rows_to_write, whole_file
from omnigraph.read.export_places import local_path, writing_to
from omnigraph.read.tables import TableReader
from omnigraph.wire.data import ExportReport

_COMPRESSION: Final = "zstd"


def export_parquet(readers: Sequence[TableReader], dest: object, limit: int | None = None) -> ExportReport:
    """Write one file a type into a folder that is empty or not there yet. ``limit``: rows of all types together."""
    if not isinstance(dest, str | os.PathLike):
        raise InvalidInput(
            f"an export in Parquet goes to a folder, not to {type(dest).__name__}",
            hint='give the path of a folder, for example export("social", format="parquet")',
        )
    folder = local_path(dest)
    names = [f"{reader.declared.name}.parquet" for reader in readers]
    rows: dict[str, int] = {}
    with writing_to(folder, "folder"), _empty_folder(folder) as parts:
        with progress.phase("writing", total=rows_to_write(readers, limit)):
            for reader, name in zip(readers, names, strict=True):
                left = None if limit is None else limit - sum(rows.values())
                rows[reader.declared.table_key] = _write(reader, parts / name, left)
        size = sum((parts / name).stat().st_size for name in names)
    return ExportReport(str(folder), rows, size)


def write_rows(rows: pa.RecordBatchReader, dest: str | os.PathLike[str]) -> int:
    """Write the rows of a stream as one Parquet file, which is there whole or not at all; how many there were."""
    path = local_path(dest)
    count = 0
    with writing_to(path, "file"), whole_file(path) as file:
        with pq.ParquetWriter(file, rows.schema, compression=_COMPRESSION) as writer:
            for batch in rows:
                writer.write_batch(batch)
                count += batch.num_rows
    return count


def _write(reader: TableReader, path: Path, limit: int | None) -> int:
    count = 0
    with open(path, "xb") as file:
        with pq.ParquetWriter(file, reader.schema, compression=_COMPRESSION) as writer:
            for batch in reader.batches() if limit != 0 else ():
                batch = batch if limit is None else batch.slice(0, min(limit - count, batch.num_rows))
                writer.write_batch(batch)
                count += batch.num_rows
                progress.advance(batch.num_rows, bytes=batch.nbytes, subject=reader.declared.table_key)
                if count == limit:
                    break
        file.flush()
        os.fsync(file.fileno())
    return count


@contextlib.contextmanager
def _empty_folder(folder: Path) -> Iterator[Path]:
    """A folder for unfinished files inside ``folder``; at the end they move up. If anything fails, nothing is left."""
    made = not folder.exists()
    if not made and not folder.is_dir():
        raise InvalidInput(
            f"an export in Parquet goes to a folder; this is a file: path={folder}",
            hint="give the path of a new folder",
            path=str(folder),
        )
    if not made and any(folder.iterdir()):
        raise AlreadyExists(
            f"an export in Parquet goes to an empty folder; this one is not: path={folder}",
            hint="give the path of a new folder, or empty this one",
            path=str(folder),
        )
    if made:
        folder.mkdir()
    parts = folder / f".{new_uuid()}.part"
    moved: list[Path] = []
    try:
        parts.mkdir()
        yield parts
        for part in sorted(parts.iterdir()):
            moved.append(folder / part.name)
            os.replace(part, moved[-1])
        parts.rmdir()
    except BaseException:
        with contextlib.suppress(OSError):
            _remove(parts, moved, folder if made else None)
        raise


def _remove(parts: Path, moved: Sequence[Path], made: Path | None) -> None:
    for path in (*parts.iterdir(), *moved):
        path.unlink(missing_ok=True)
    parts.rmdir()
    if made is not None:
        made.rmdir()
