"""Where the rows of a batch come from: DataFrames, files of tables, files of records.

Owns the public values that name a source, and the plan that cuts files into splits of about the same work. A file is read
by pyarrow inside the task that stages it, wherever it lies: no rows pass through the JVM, and no jar is needed.
"""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import omnigraph as og

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS: Final = ("csv", "json", "ndjson", "parquet", "orc")
_SUFFIXES: Final = {
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".orc": "orc",
}
_RANGE_BYTES: Final = 32 << 20
_LINES_TRIED: Final = 10_000  # for a line break outside quotes; without one the range is joined to the next
# Guesses for planning only: how many tasks, never how many rows.
_ROW_BYTES: Final = {"csv": 60, "json": 120, "ndjson": 120}

Options = tuple[tuple[str, str], ...]
"""Connection of a store, by the names that the graph's own options have."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Frame:
    """A DataFrame whose columns are called otherwise: ``columns`` maps properties, ``from`` or ``to`` to its columns."""

    frame: DataFrame
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Files:
    """Files of one table: paths, folders, globs or URIs. ``format``: csv, json, ndjson, parquet or orc; by suffix if left
    out. ``columns`` maps properties, ``from`` or ``to`` to columns of the files. ``only``: the columns that are read; None for all."""

    paths: Paths
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    storage_options: Options = field(default=(), repr=False)
    only: frozenset[str] | None = None


@dataclass(frozen=True)
class Records:
    """Files of the engine's own format, nodes and edges mixed."""

    paths: Paths
    storage_options: Options = field(default=(), repr=False)


@dataclass(frozen=True)
class Place:
    """One file."""

    path: str
    size: int
    format: str
    storage_options: Options = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Part:
    """One stretch of a file: bytes ``start`` to ``end`` of a text, or ``groups`` (row groups, stripes); all if both are
    None. ``weight``: rows, roughly."""

    place: Place
    weight: float
    start: int | None = None
    end: int | None = None
    groups: tuple[int, ...] | None = None


# --- finding files ------------------------------------------------------------------------------------------------------


def find(paths: Paths, format: str | None = None, storage_options: Options = ()) -> list[Place]:
    """The files that paths name, in a fixed order. A folder stands for the data files directly in it."""
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if format is not None and format not in FORMATS:
        raise og.errors.InvalidInput(f"format is one of {', '.join(FORMATS)}, not {format!r}")
    found: list[Place] = []
    for one in listed:
        text = os.fspath(one)
        places = [
            Place(path, size, format or _format(path), storage_options) for path, size in _list(text, storage_options)
        ]
        if not places:
            raise og.errors.NotFound(f"no such file: {text[:200]}", path=text)
        found += places
    return found


def _format(path: str) -> str:
    name = path.lower().removesuffix(".gz")
    for suffix, found in _SUFFIXES.items():
        if name.endswith(suffix):
            return found
    raise og.errors.InvalidInput(
        f"the format of {path.rpartition('/')[2][:100]!r} does not show in its name",
        hint=f"say format=, one of {', '.join(FORMATS)}",
    )


def filesystem(path: str, storage_options: Options = ()) -> tuple[Any, str]:
    """Return the filesystem of a URI, and the path within it. What the options leave out comes from the environment."""
    from pyarrow import fs

    parts = urlsplit(path)
    if "://" not in path or parts.scheme == "file":
        return fs.LocalFileSystem(), unquote(parts.path) if parts.scheme == "file" else path
    if parts.scheme in ("s3", "s3a"):
        return fs.S3FileSystem(**_s3(dict(storage_options))), f"{parts.netloc}{parts.path}"
    found, rest = fs.FileSystem.from_uri(path)
    return found, rest


_OF_S3: Final = {
    "access_key": ("aws_access_key_id", "access_key_id"),
    "secret_key": ("aws_secret_access_key", "secret_access_key"),
    "session_token": ("aws_session_token", "session_token"),
    "region": ("aws_region", "region", "aws_default_region"),
    "endpoint": ("aws_endpoint", "endpoint", "endpoint_url", "aws_endpoint_url"),
}


def _s3(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of an S3 filesystem. Keys of one account are never mixed with those of another."""
    options = {name.lower(): value for name, value in given.items()}
    found = {ours: next((options[one] for one in theirs if one in options), None) for ours, theirs in _OF_S3.items()}
    endpoint = found.pop("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    found["region"] = found["region"] or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        where = urlsplit(endpoint)
        found |= {"endpoint_override": where.netloc, "scheme": where.scheme or "https"}
    return {name: value for name, value in found.items() if value}


def _list(text: str, storage_options: Options = ()) -> list[tuple[str, int]]:
    if "://" not in text or text.startswith("file://"):
        return _list_local(unquote(urlsplit(text).path) if text.startswith("file://") else text)
    from pyarrow import fs

    store, path = filesystem(text, storage_options)
    scheme = text.partition("://")[0]
    if "*" in path or "?" in path:
        folder = path.split("*")[0].split("?")[0].rpartition("/")[0]
        infos = store.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        infos = [info for info in infos if fnmatch.fnmatchcase(info.path, path)]
    else:
        info = store.get_file_info(path)
        if info.type == fs.FileType.Directory:
            infos = [i for i in store.get_file_info(fs.FileSelector(path)) if _is_data(i.base_name)]
        else:
            infos = [info]
    files = [(f"{scheme}://{info.path}", int(info.size)) for info in infos if info.type == fs.FileType.File]
    return sorted(files)


def _list_local(text: str) -> list[tuple[str, int]]:
    path = Path(text)
    if path.is_dir():
        found = [one for one in path.iterdir() if one.is_file() and _is_data(one.name)]
    elif path.exists():
        found = [path]
    else:
        found = [Path(one) for one in glob.glob(text) if Path(one).is_file()]
    return sorted((str(one.absolute()), one.stat().st_size) for one in found)


def _is_data(name: str) -> bool:
    return not name.startswith(("_", ".")) and any(name.lower().removesuffix(".gz").endswith(s) for s in _SUFFIXES)


# --- cutting files --------------------------------------------------------------------------------------------------------


def cut(place: Place, *, records: bool = False) -> list[Part]:
    """The splits of one file, in its order."""
    if place.format in ("parquet", "orc"):
        return _groups(place)
    rows = place.size / (120 if records else _ROW_BYTES[place.format])
    is_one = place.path.lower().endswith(".gz") or place.format == "json" or place.size <= _RANGE_BYTES
    if is_one:
        return [Part(place, rows)]
    if place.format == "csv":
        bounds = _outside_quotes(place)
    else:
        bounds = [*range(0, place.size, _RANGE_BYTES), place.size]
    share = rows / place.size
    return [Part(place, (end - start) * share, start, end) for start, end in itertools.pairwise(bounds)]


def _groups(place: Place) -> list[Part]:
    store, path = filesystem(place.path, place.storage_options)
    try:
        with store.open_input_file(path) as stream:
            if place.format == "orc":
                from pyarrow import orc

                file = orc.ORCFile(stream)
                each = file.nrows / max(1, file.nstripes)
                return [Part(place, each, groups=(i,)) for i in range(file.nstripes)]
            import pyarrow.parquet as pq

            metadata = pq.ParquetFile(stream).metadata
            return [
                Part(place, metadata.row_group(i).num_rows, groups=(i,)) for i in range(metadata.num_row_groups)
            ] or [Part(place, 0)]
    except (OSError, ValueError) as error:
        raise unreadable(place.name, error) from error


def _outside_quotes(place: Place) -> list[int]:
    """Bounds for ranges of a CSV file, each at the start of a line that is no quoted line break: the quotes before it are
    even in number. Reads the file once."""
    store, path = filesystem(place.path, place.storage_options)
    bounds, quotes, at = [0], 0, 0
    with store.open_input_stream(path) as stream:
        while at < place.size:
            block = stream.read(_RANGE_BYTES)
            if not block:
                break
            quotes += block.count(b'"')
            end = len(block)
            for _ in range(_LINES_TRIED):
                end = block.rfind(b"\n", 0, end)
                if end < 0:
                    break
                if (quotes - block.count(b'"', end)) % 2 == 0:
                    bounds.append(at + end + 1)
                    break
            at += len(block)
    return [*bounds, place.size] if bounds[-1] != place.size else bounds


def unreadable(name: str, error: Exception) -> og.errors.OmnigraphError:
    """A file that is not what it says, as the error that names it. One that is gone, or whose store does not answer, is
    neither."""
    reason = " ".join(str(error).split())[:200]
    if isinstance(error, FileNotFoundError):
        return og.errors.NotFound(f"no such file: {name}", path=name)
    if isinstance(error, PermissionError) or "ACCESS_DENIED" in reason:
        return og.errors.StoreRefused(f"{name}: not allowed to read it: {reason}")
    if "AWS Error" in reason or "curlCode" in reason:
        return og.errors.StoreUnavailable(f"{name}: its store does not answer: {reason}")
    message = f"{name}: cannot be read: {reason}"
    violation = {"code": "malformed-record", "message": f"cannot be read: {reason}", "source": name}
    return og.errors.DataInvalid(message, violations=[violation], total=1)
