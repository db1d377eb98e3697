"""Splits of files as batches, inside a task.

Owns how a stretch of a file is read by pyarrow: row groups and stripes, CSV cells as texts, JSON as blocks of whole lines.
A range of a text begins behind the first line break that is not before its start, and ends with the line that begins in it.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final, cast

import pyarrow as pa

from omnigraph_pipelines.spark.sources import Part, Place, filesystem, unreadable

BATCH_ROWS: Final = 1 << 17
_BLOCK_BYTES: Final = 8 << 20


@contextmanager
def told(place: Place) -> Iterator[None]:
    """What goes wrong inside with a file, as the error that names it."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, EOFError, zlib.error) as error:
        raise unreadable(place.name, error) from error


def batches(part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a split of a CSV, Parquet or ORC file."""
    place = part.place
    with told(place):
        store, path = filesystem(place.path, place.storage_options)
        if place.format == "csv":
            yield from _csv(part)
            return
        with store.open_input_file(path) as stream:
            if place.format == "orc":
                from pyarrow import orc

                file = orc.ORCFile(stream)
                for number in part.groups if part.groups is not None else range(file.nstripes):
                    yield file.read_stripe(number)
                return
            import pyarrow.parquet as pq

            reader = pq.ParquetFile(stream, pre_buffer=True)
            groups = None if part.groups is None else list(part.groups)
            yield from reader.iter_batches(batch_size=BATCH_ROWS, row_groups=groups)


def schema_of(place: Place) -> pa.Schema | None:
    """The columns of a file, where they are known without reading rows."""
    with told(place):
        store, path = filesystem(place.path, place.storage_options)
        if place.format == "csv":
            return pa.schema([(name, pa.utf8()) for name in _header(place)])
        if place.format in ("json", "ndjson"):
            return None
        with store.open_input_file(path) as stream:
            if place.format == "orc":
                from pyarrow import orc

                found: pa.Schema = orc.ORCFile(stream).schema
                return found
            import pyarrow.parquet as pq

            return pq.ParquetFile(stream).schema_arrow


def check_place(
    task: Any, type: str, place: Place, columns: Mapping[str, str], only: frozenset[str] | None = None
) -> None:
    """Refuse a file by its columns alone. ``only``: those that are read; None for all."""
    schema = schema_of(place)
    if schema is None:
        return
    if only is not None:
        schema = pa.schema([field for field in schema if field.name in only])
    if place.format == "csv":  # cells are texts whatever they hold
        schema = pa.schema([pa.field(name, pa.null()) for name in schema.names])
    task.check_columns(type, schema, columns, place.name)


# --- texts ----------------------------------------------------------------------------------------------------------------


def text_stream(part: Part) -> IO[bytes]:
    """The bytes of the lines that belong to a split."""
    store, path = filesystem(part.place.path, part.place.storage_options)
    if part.start is None:
        raw: Any = store.open_input_file(path)
        head = raw.read(2)
        raw.seek(0)
        stream: IO[bytes] = gzip.GzipFile(fileobj=raw, mode="rb") if head == b"\x1f\x8b" else raw  # type: ignore[assignment]  # it reads
        return stream
    return io.BufferedReader(_Lines(store.open_input_file(path), part.start, part.end or part.place.size), 1 << 20)


def text_of(part: Part) -> IO[bytes]:
    """The same bytes for readers that know nothing of files: what goes wrong names this one."""
    with told(part.place):
        return io.BufferedReader(_Told(text_stream(part), part.place), 1 << 20)


class _Told(io.RawIOBase):
    def __init__(self, source: Any, place: Place) -> None:
        self._source = source
        self._place = place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with told(self._place):
            block = self._source.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._source.close()
        super().close()


class _Lines(io.RawIOBase):
    """The lines that begin in a range of a file, as a stream."""

    def __init__(self, source: Any, start: int, end: int) -> None:
        self._source = source
        self._at = start
        self._end = end
        self._rest = b""
        self._done = False
        if start:
            # A line that begins exactly at the start is ours: look at the byte before.
            source.seek(start - 1)
            self._at = start - 1
            self._rest = self._skip_line()

    def _skip_line(self) -> bytes:
        while True:
            block = self._source.read(1 << 16)
            if not block:
                self._done = True
                return b""
            cut = block.find(b"\n")
            if cut >= 0:
                self._at += cut + 1
                if self._at >= self._end:
                    self._done = True
                    return b""
                return self._take(bytes(block[cut + 1 :]))
            self._at += len(block)
            if self._at >= self._end:
                self._done = True
                return b""

    def _take(self, block: bytes) -> bytes:
        """What of a block at the present place is ours."""
        left = self._end - self._at
        if len(block) < left:
            self._at += len(block)
            return block
        # The last line that begins before the end, to its own end.
        cut = block.find(b"\n", left - 1)
        while cut < 0:
            more = self._source.read(1 << 16)
            if not more:
                cut = len(block) - 1
                break
            searched = len(block)
            block += bytes(more)
            cut = block.find(b"\n", searched)
        self._at += cut + 1
        self._done = True
        return block[: cut + 1]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest and not self._done:
            self._rest = self._take(bytes(self._source.read(1 << 20)))
            if not self._rest:
                self._done = True
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def line_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a stream in blocks of whole lines."""
    carry = b""
    while True:
        block = stream.read(_BLOCK_BYTES)
        if not block:
            break
        cut = block.rfind(b"\n")
        if cut < 0:
            carry += block
            continue
        yield carry + block[: cut + 1]
        carry = block[cut + 1 :]
    if carry.strip():
        yield carry


def whole(stream: IO[bytes], place: Place) -> Iterator[bytes]:
    """A JSON document in one block: objects one behind the other, or an array of them."""
    text = stream.read().strip()
    if text.startswith(b"["):
        import json

        try:
            listed = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise unreadable(place.name, error) from error
        text = b"\n".join(json.dumps(one, ensure_ascii=False).encode("utf-8", "surrogatepass") for one in listed)
    if text:
        yield text


def _header(place: Place) -> list[str]:
    with text_stream(Part(place, 0)) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            names = next(csv.reader(text), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise unreadable(place.name, error) from error
    if not names:
        raise unreadable(place.name, ValueError("it has no header"))
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise unreadable(place.name, ValueError(f"two columns are named {doubled[0][:80]!r}"))
    return names


def _csv(part: Part) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv as pcsv

    names = _header(part.place)
    stream: Any = text_stream(part)
    first = stream.peek(1) if hasattr(stream, "peek") else b"x"
    if part.start and not first:
        return
    counted = _Counted(stream)
    reader: Any = pcsv.open_csv(
        cast("IO[bytes]", counted),
        read_options=pcsv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK_BYTES,
            column_names=names,
            skip_rows_after_names=0 if part.start else 1,
        ),
        parse_options=pcsv.ParseOptions(newlines_in_values=True),
        convert_options=pcsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.utf8()),
            # Nothing at all is null; a quoted empty text is an empty text.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from reader
    if counted.quotes % 2:
        _look_again(part)


class _Counted(io.RawIOBase):
    """A stream, and how many quotes went by."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        self.quotes += data.count(b'"')
        return data


def _look_again(part: Part) -> None:
    """Refuse a split that ends within quotes, as a load of the engine does: its file was not written to the end. An odd
    number of quotes alone may be right."""
    try:
        for _ in csv.reader(io.TextIOWrapper(text_stream(part), "utf-8-sig", newline=""), strict=True):
            pass
    except csv.Error as error:
        if "end of data" in str(error):
            raise pa.ArrowInvalid(
                "it ends inside a quoted value: a quote is missing, or the rest of the file"
            ) from None
