"""A snapshot as NDJSON: records that ``load`` takes, and the same bytes for the same state.

Tables in the order of their keys (edges before nodes), rows by ascending id, every property present, ``id`` first and
the others by name. Owns the shape of a record and where the bytes go; ``jsontext`` owns the spelling of values and
``ordered`` the order of rows.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from omnigraph.core import progress
from omnigraph.core.errors import InvalidInput
from omnigraph.core.ids import new_uuid
from omnigraph.read.export_places import local_path, writing_to
from omnigraph.read.jsontext import json_text, string_text, text_bytes
from omnigraph.read.ordered import SCHEMA, is_ascending, ordered_lines
from omnigraph.read.tables import TableReader
from omnigraph.schema import EdgeType, TableType
from omnigraph.wire.data import ExportReport

pc: Any = pyarrow.compute

Destination: TypeAlias = "str | os.PathLike[str] | IO[bytes] | IO[str]"

# From here on ids are read once before the rows: a table that lies in order then needs no sorting at all.
_LARGE_BYTES = 32 * 1024 * 1024


def export_text(readers: Sequence[TableReader], limit: int | None = None) -> str:
    """All records as one text, or the first of them."""
    file = io.BytesIO()
    _write(readers, file, None, limit)
    return file.getvalue().decode()


def export_to(readers: Sequence[TableReader], dest: Destination, limit: int | None = None) -> ExportReport:
    """All records into an open file, or into a path, which is there whole or not at all (``.gz`` is compressed)."""
    if isinstance(dest, str | os.PathLike):
        with writing_to(Path(dest), "file"):
            path = _file_path(dest)
        with writing_to(path, "file"), whole_file(path) as file:
            return _write(readers, file, str(path), limit)
    if not hasattr(dest, "write"):
        raise InvalidInput(f"an export goes to a path or an open file, not to {type(dest).__name__}")
    return _write(readers, dest, None, limit)


def _write(readers: Sequence[TableReader], file: Any, path: str | None, limit: int | None) -> ExportReport:
    as_text = isinstance(file, io.TextIOBase)
    rows: dict[str, int] = {}
    size = 0
    with progress.phase("writing", total=rows_to_write(readers, limit)):
        for reader in readers:
            key = reader.declared.table_key
            rows[key] = 0
            left = None if limit is None else limit - sum(rows.values())
            for count, piece in _pieces(reader, left):
                rows[key] += count
                size += len(piece)
                file.write(str(piece, "utf-8") if as_text else piece)
                progress.advance(count, bytes=len(piece), subject=key)
    return ExportReport(path, rows, size)


def rows_to_write(readers: Iterable[TableReader], limit: int | None) -> int:
    """How many rows an export writes."""
    rows = sum(reader.pin.rows for reader in readers)
    return rows if limit is None else min(rows, limit)


# --- records ------------------------------------------------------------------------------------------------------------


def _pieces(reader: TableReader, limit: int | None) -> Iterator[tuple[int, memoryview]]:
    """Records of one table, ``limit`` at most: how many, and their bytes, each with the end of its line."""
    if limit == 0:
        return
    left = limit
    for lines in _lines(reader):
        lines = lines if left is None else lines.slice(0, min(left, len(lines)))
        if len(lines):
            yield len(lines), memoryview(text_bytes(lines)).cast("B")
        left = None if left is None else left - len(lines)
        if left == 0:
            return


def _lines(reader: TableReader) -> Iterator[Any]:
    records = (_records(reader, batch) for batch in reader.batches())
    if reader.pin.bytes > _LARGE_BYTES and _lies_in_order(reader):
        return (batch.column("line") for batch in records)
    return ordered_lines(records)


def _lies_in_order(reader: TableReader) -> bool:
    """Whether rows are stored by ascending id already. Stops at the first that is not."""
    last: Any = None
    for batch in reader.batches(["id"]):
        ids = batch.column("id")
        if not is_ascending(ids) or (last is not None and not last < ids[0].as_py()):
            return False
        last = ids[-1].as_py()
    return True


def _records(reader: TableReader, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as lines of JSON, put together a column at a time."""
    lines = _joined(reader.declared, batch, "}}\n")
    return pa.RecordBatch.from_arrays([batch.column("id"), lines], schema=SCHEMA)


def record_lines(declared: TableType, batch: pa.RecordBatch) -> list[str]:
    """The rows as records that a load takes, one a line, without the ends of the lines."""
    lines: list[str] = _joined(declared, batch, "}}").to_pylist()
    return lines


def _joined(declared: TableType, batch: pa.RecordBatch, end: str) -> Any:
    if isinstance(declared, EdgeType):
        parts = [f'{{"edge":"{declared.name}","from":', _text(batch, "src"), ',"to":', _text(batch, "dst")]
        parts += [',"data":{"id":', _text(batch, "id")]
    else:
        parts = [f'{{"type":"{declared.name}","data":{{"id":', _text(batch, "id")]
    for prop in declared.properties:
        parts += [f',"{prop.name}":', json_text(prop.type, batch.column(prop.name))]
    columns = [pa.scalar(part, pa.large_utf8()) if isinstance(part, str) else part for part in [*parts, end]]
    return pc.binary_join_element_wise(*columns, pa.scalar("", pa.large_utf8()))


def _text(batch: pa.RecordBatch, column: str) -> Any:
    return pc.cast(string_text(batch.column(column)), pa.large_utf8())


# --- files --------------------------------------------------------------------------------------------------------------


def _file_path(dest: str | os.PathLike[str]) -> Path:
    path = local_path(dest)
    if path.is_dir():
        raise InvalidInput(f"an export goes to a file, not to a folder: path={path}", path=str(path))
    return path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name when it is whole and on the disk; until then, and if anything fails, nothing shows."""
    temporary = path.parent / f".{path.name[:40]}.{new_uuid()}.part"
    raw = open(temporary, "xb")
    try:
        with raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed:
                    yield packed  # type: ignore[misc]  # a GzipFile is a file of bytes
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
