"""Files that Lance has just written and that no version names yet: here they are written, and looked at before any does.

On a local disk Lance reports success although the last write to a file has failed, by a full disk or a broken one, and gives
the file its name all the same. A version that names such a file cannot be read again, and a ``__manifest`` that does is the
end of the graph. So each new file is held against what Lance meant to write. On an object store there is nothing to look
for: an upload is whole or absent.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import DeletionFile, FragmentMetadata, write_fragments

from omnigraph.core.errors import Corruption, StoreUnavailable
from omnigraph.table.blob import blob_columns
from omnigraph.table.errors import brief
from omnigraph.table.files import data_file_name

if TYPE_CHECKING:
    from lance import LanceDataset

BLOB_INLINE_MAX = (
    64 * 1024
)  # bytes; Lance keeps a longer value in a file of its own, or in one that it shares with others
_NOTICED = "exceeds blob object size"
_HINT = "free space on the disk, or see whether it is sound, then repeat: nothing of it was committed"


def write_files(data: Any, to: LanceDataset | str, *, mode: str = "append", **options: Any) -> list[FragmentMetadata]:
    """New fragments with these rows (an Arrow table or reader). ``to``: a table, or the path of one that is made by it."""
    uri = to if isinstance(to, str) else to.uri
    folder, columns = _local(uri), blob_columns(data.schema)
    blobs = _BlobBytes(columns) if folder is not None and columns else None
    rows = data if blobs is None else blobs.counted(data)
    with noticed() if columns else contextlib.nullcontext():
        fragments: list[FragmentMetadata] = write_fragments(rows, to, mode=mode, **options)
    check_fragments(uri, fragments)
    if folder is not None and blobs is not None:
        blobs.check(folder, fragments)
    return fragments


@contextlib.contextmanager
def noticed() -> Iterator[None]:
    """Lance looks at one kind of file itself, the one that several blobs share, and takes the fault for the caller's."""
    try:
        yield
    except Exception as error:
        if _NOTICED not in str(error):
            raise
        raise StoreUnavailable(f"a new file was not written whole: {brief(error)}", hint=_HINT) from error


def delete_rows(handle: LanceDataset, fragment_id: int, offsets: Sequence[int]) -> FragmentMetadata | None:
    """A fragment without these rows, by a new deletion file; None where no row is left."""
    fragment = handle.get_fragment(fragment_id)
    if fragment is None:
        raise Corruption("a row address names a fragment that is not there", fragment=fragment_id)
    kept: FragmentMetadata | None = fragment.delete_rows(list(offsets))
    folder = _local(handle.uri)
    if kept is not None and folder is not None:
        for path, problem in _deletion_problems(folder, kept):  # its data files are not new
            raise _not_whole(path, problem)
    return kept


def check_fragments(uri: str, fragments: Iterable[FragmentMetadata]) -> None:
    """The data and deletion files of fragments, where they lie on a local disk."""
    folder = _local(uri)
    if folder is None:
        return
    for path, problem in _problems(folder, fragments):
        raise _not_whole(path, problem)


def check_rewritten(handle: LanceDataset, old: Sequence[FragmentMetadata], new: Sequence[FragmentMetadata]) -> None:
    """The files of fragments that are to hold the same rows as others of the handle's version."""
    check_fragments(handle.uri, new)
    folder, blobs = _local(handle.uri), blob_columns(handle.schema)
    if folder is None or not blobs:
        return
    there = [fragment for fragment in map(handle.get_fragment, [one.id for one in old]) if fragment is not None]
    wanted = 0
    for batch in handle.scanner(columns=blobs, fragments=there).to_batches():  # where the bytes are, not the bytes
        wanted += sum(_large(pc.struct_field(batch.column(name), "size")) for name in blobs)
    _check_beside(folder, new, wanted)


def damaged(handle: LanceDataset) -> dict[int, str]:
    """The fragments of a version of which a file on a local disk is not whole, and what is wrong with it."""
    folder = _local(handle.uri)
    if folder is None:
        return {}
    found = {}
    for fragment in handle.get_fragments():
        for path, problem in _problems(folder, [fragment.metadata]):
            found[fragment.fragment_id] = f"{os.path.relpath(path, folder)}: {problem}"
    return found


def check_index(uri: str, segment: Any) -> None:
    """The files of an index that no version names yet."""
    folder = _local(uri)
    if folder is None:
        return
    for file in segment.files or ():
        path = f"{folder}/_indices/{segment.uuid}/{file.path}"
        problem = _short(path, file.size_bytes)
        if problem is not None:
            raise _not_whole(path, problem)


# --- what is wrong with a file ------------------------------------------------------------------------------------------


def _local(uri: str) -> str | None:
    return None if "://" in uri else uri.rstrip("/")


def _not_whole(path: str, problem: str) -> StoreUnavailable:
    return StoreUnavailable(f"a new file was not written whole: {problem}: path={path}", hint=_HINT, path=path)


def _problems(folder: str, fragments: Iterable[FragmentMetadata]) -> Iterator[tuple[str, str]]:
    for fragment in fragments:
        for file in fragment.files:
            if file.base_id is None:
                path = f"{folder}/data/{data_file_name(file)}"
                problem = _short(path, file.file_size_bytes)
                if problem is not None:
                    yield path, problem
        if fragment.deletion_file is not None:
            yield from _deletion_problems(folder, fragment)


def _deletion_problems(folder: str, fragment: FragmentMetadata) -> Iterator[tuple[str, str]]:
    deletion = fragment.deletion_file
    if deletion is not None and deletion.base_id is None:
        path = f"{folder}/{deletion.path(fragment.id)}"
        problem = _bad_deletions(path, deletion)
        if problem is not None:
            yield path, problem


def _short(path: str, wanted: int | None) -> str | None:
    found = _size(path)
    if found is None:
        return "it is not there"
    return None if wanted is None or found == wanted else f"{found} of {wanted} bytes are there"


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def _bad_deletions(path: str, deletion: DeletionFile) -> str | None:
    """The length of a deletion file is recorded nowhere, so it is read."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return "it is not there"
    try:
        found = _rows_in_bitmap(data) if deletion.file_type == "bitmap" else _rows_in_array(data)
    except (pa.ArrowException, OSError, struct.error, ValueError, IndexError, OverflowError):
        return f"its {len(data)} bytes are no deletion file"
    wanted = deletion.num_deleted_rows
    return None if found == wanted else f"it names {found} of {wanted} rows"


def _rows_in_array(data: bytes) -> int:
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        return sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))


_ROARING_PLAIN, _ROARING_RUNS = 12346, 12347
_ARRAY_ROWS_MAX, _BITS_BYTES = 4096, 8192
_RUNS_OFFSETS_FROM = 4


def _rows_in_bitmap(data: bytes) -> int:
    """Rows in a bitmap in roaring's portable form; ``ValueError`` if the bytes are not exactly as long as it says."""
    (cookie,) = struct.unpack_from("<I", data)
    kind, at = cookie & 0xFFFF, 4
    runs = b""
    if kind == _ROARING_RUNS:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += (count + 7) // 8
    elif kind == _ROARING_PLAIN:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    else:
        raise ValueError(f"not a bitmap: cookie={cookie}")
    rows_less_one = [struct.unpack_from("<HH", data, at + 4 * number)[1] for number in range(count)]
    at += 4 * count
    if kind == _ROARING_PLAIN or count >= _RUNS_OFFSETS_FROM:
        at += 4 * count
    for number, less_one in enumerate(rows_less_one):
        if runs and runs[number // 8] >> (number % 8) & 1:
            (pairs,) = struct.unpack_from("<H", data, at)
            at += 2 + 4 * pairs
        else:
            at += 2 * (less_one + 1) if less_one < _ARRAY_ROWS_MAX else _BITS_BYTES
    if at != len(data):
        raise ValueError(f"{len(data)} of {at} bytes")
    return sum(less_one + 1 for less_one in rows_less_one)


class _BlobBytes:
    """How many bytes of blobs go into files beside a data file; that one does not say how long they are."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._wanted = 0

    def counted(self, data: Any) -> Any:
        """The same rows, their large blobs counted as they are drawn."""
        if isinstance(data, pa.Table):
            self._count(data)
            return data

        def drawn() -> Iterator[pa.RecordBatch]:
            for batch in data:
                self._count(batch)
                yield batch

        return pa.RecordBatchReader.from_batches(data.schema, drawn())

    def _count(self, rows: pa.Table | pa.RecordBatch) -> None:
        for name in self._columns:
            blobs: Any = rows.column(name)
            self._wanted += _large(pc.binary_length(blobs))

    def check(self, folder: str, fragments: Sequence[FragmentMetadata]) -> None:
        _check_beside(folder, fragments, self._wanted)


def _large(lengths: Any) -> int:
    """The sum of those that make a value lie outside its data file."""
    return sum(length for length in lengths.to_pylist() if length is not None and length > BLOB_INLINE_MAX)


def _check_beside(folder: str, fragments: Sequence[FragmentMetadata], wanted: int) -> None:
    beside = [
        Path(folder, "data", os.path.splitext(data_file_name(file))[0]) for one in fragments for file in one.files
    ]
    found = sum(path.stat().st_size for place in beside if place.is_dir() for path in place.iterdir())
    if found < wanted:
        raise _not_whole(f"{folder}/data", f"{found} of {wanted} bytes of blobs are there")
