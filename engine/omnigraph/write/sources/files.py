"""Files as byte streams and as record batches.

Owns how a place is opened and which format a name means. A place is a path, a ``file://`` URI, or a URI of an object
store; the last is read through ``store``, which has the client and the credentials.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from omnigraph.core import progress
from omnigraph.core.errors import InvalidInput, NotFound, StoreRefused
from omnigraph.core.shown import name_text
from omnigraph.write.base.constants import PIECE_ROWS
from omnigraph.write.sources.batch import CsvOptions
from omnigraph.write.sources.csv_files import FileTable, read_csv, unreadable

# Opens what a URI names as a seekable binary stream.
Opener = Callable[[str], IO[bytes]]


def store_opener(storage_options: Callable[[], Mapping[str, str] | None] = lambda: None) -> Opener:
    """Reads objects of a store whole. ``storage_options`` gives those of the graph; asked only where there is a URI."""

    def opener(uri: str) -> IO[bytes]:
        from omnigraph.store import open_store

        parent, _, name = uri.rstrip("/").rpartition("/")
        data = open_store(parent, storage_options()).get(name)
        if data is None:
            raise NotFound(f"no such object: {uri[:200]}", path=uri)
        return io.BytesIO(data)

    return opener


RECORD_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES: Final = (".parquet", ".csv", ".tsv")
_GZIP: Final = b"\x1f\x8b"


def place_text(place: str | PathLike[str]) -> str:
    """The place as messages show it."""
    return fspath(place)


@contextmanager
def open_bytes(
    place: str | PathLike[str], opener: Opener | None = None, *, watched: bool = True
) -> Iterator[IO[bytes]]:
    """The bytes of a place, unpacked if they are gzip, whatever the name says. ``watched``: reading them is progress."""
    with ExitStack() as held:
        stream = held.enter_context(_open(place, opener, watched))
        buffered = (
            held.enter_context(io.BufferedReader(stream, 1 << 20)) if isinstance(stream, io.RawIOBase) else stream
        )
        try:
            start = buffered.read(len(_GZIP))
            buffered.seek(0)
        except OSError as error:
            raise InvalidInput(f"cannot read {fspath(place)[:200]}: {error.strerror or error}") from error
        if start == _GZIP:
            buffered = held.enter_context(gzip.GzipFile(fileobj=buffered, mode="rb"))
        yield buffered


def _open(place: str | PathLike[str], opener: Opener | None, watched: bool) -> Any:
    text = fspath(place)
    if not text:
        raise InvalidInput("the source is an empty text: neither records nor a path")
    if "\0" in text:
        raise InvalidInput("the path of the source contains a NUL character")
    if not text.isascii():
        _check_unicode(text)
    scheme = urlsplit(text).scheme if "://" in text else ""
    if scheme == "file":
        text = unquote(urlsplit(text).path)
    elif scheme:
        return (opener or store_opener())(text)
    try:
        # A pipe has no size and cannot be asked where it is.
        watched = watched and progress.listening() and Path(text).is_file()
        return _Watched(text) if watched else Path(text).open("rb")
    except FileNotFoundError as error:
        raise NotFound(
            f"no such file: {name_text(text)}",
            hint=f"check the path; a relative one starts at {Path.cwd()}",
            path=text,
        ) from error
    except IsADirectoryError as error:
        raise InvalidInput(
            f"a directory where a file is needed: {name_text(text)}", hint="give the path of a file"
        ) from error
    except PermissionError as error:
        raise StoreRefused(
            f"not allowed to read {name_text(text)}",
            hint="give the user of this process the right to read the file and its folders",
        ) from error
    except OSError as error:
        raise InvalidInput(f"cannot read {name_text(text)}: {error.strerror or type(error).__name__}") from error


def _check_unicode(text: str) -> None:
    """A name of a disk that is not UTF-8 cannot stand in a message, a receipt or a record of the graph."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"the path of the source is not UTF-8: {ascii(text)[:200]}", hint="rename the file"
        ) from error


def _told(batches: Iterator[pa.RecordBatch], file: Any, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """Batches of a Parquet file. It is read here and there, so each row counts for its share of the bytes."""
    if not progress.listening():
        yield from batches
        return
    rows, size = max(1, file.metadata.num_rows), stream.seek(0, io.SEEK_END)
    progress.expect(bytes=size)
    for batch in batches:
        yield batch
        progress.advance(0, bytes=size * batch.num_rows // rows)


class _Watched(io.FileIO):
    """A local file whose bytes count as progress as they are read for the first time."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "rb")
        self._reached = 0
        self._count = progress.counter()
        progress.expect(bytes=self.seek(0, io.SEEK_END))
        self.seek(0)

    def readinto(self, buffer: Any, /) -> int | None:
        n = super().readinto(buffer)
        reached = self.tell()
        if reached > self._reached:
            self._count(0, reached - self._reached)
            self._reached = reached
        return n


def expand(paths: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    """Files in a fixed order; a directory stands for the tables directly in it."""
    if isinstance(paths, str | PathLike):
        paths = [paths]
    found: list[str] = []
    for path in paths:
        text = fspath(path)
        if "://" not in text and os.path.isdir(text):
            found += sorted(str(p) for p in Path(text).iterdir() if _is_table(p.name))
        else:
            found.append(text)
    return found


def _is_table(name: str) -> bool:
    return not name.startswith((".", "_")) and _format(name) in TABLE_SUFFIXES


def _format(name: str) -> str:
    lowered = name.lower().split("?")[0].removesuffix(".gz")
    return "." + lowered.rpartition(".")[2]


def is_csv(place: str) -> bool:
    return _format(place) in (".csv", ".tsv")


@contextmanager
def open_table(place: str, opener: Opener | None = None, options: CsvOptions | None = None) -> Iterator[FileTable]:
    """Column names and batches of a Parquet or CSV file."""
    found = _format(place)
    if found not in TABLE_SUFFIXES:
        raise InvalidInput(f"not a table this can read ({', '.join(TABLE_SUFFIXES)}, .csv.gz): {place[:200]}")
    is_parquet = found == ".parquet"
    with open_bytes(place, opener, watched=not is_parquet) as stream:
        try:
            if is_parquet:
                import pyarrow.parquet as pq

                file: Any = pq.ParquetFile(stream)
                batches = file.iter_batches(batch_size=PIECE_ROWS)
                yield FileTable(list(file.schema_arrow.names), _told(batches, file, stream))
            else:
                yield read_csv(place, stream, _delimited(place, options or CsvOptions()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeError) as error:
            raise unreadable(place, str(error)) from error
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(place, str(error)) from error


def _delimited(place: str, options: CsvOptions) -> CsvOptions:
    """A file named .tsv has tabs, unless another delimiter was asked for."""
    return replace(options, delimiter="\t") if _format(place) == ".tsv" and options.delimiter == "," else options
