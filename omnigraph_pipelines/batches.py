"""Batches where they arrive: which there are, whether they are complete, and what they are made of.

Owns listing, keys and fingerprints, on a disk and on an object store. Opens no graph and remembers nothing: what was seen
before is the caller's to keep. A listing may use times to notice a change cheaply; a fingerprint never does.
"""

from __future__ import annotations

import fnmatch
import hashlib
import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import omnigraph as og
from omnigraph_pipelines.settings import SourceSettings, text_of

_log = logging.getLogger("omnigraph_pipelines")

KEY_BYTES_MAX: Final = 110  # with source and fingerprint it has to fit into an idempotency key
_RECORD_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_LEADS_OUT: Final = "is a link that leads out of the landing folder"
_UNLISTED: Final = "cannot be listed"
_DENIED: Final = ("ACCESS_DENIED", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_WILD: Final = re.compile(r"[*?\[]")
_NOT_IN_KEYS: Final = re.compile(r"[\x00-\x1f\x7f]|\.\.\.")  # Dagster writes ranges of partitions with three dots


@dataclass(frozen=True)
class BatchFile:
    """One file. ``name``: its path within the batch. ``mark`` tells two states of it apart, as far as listing shows."""

    name: str
    path: str
    size: int
    mark: str = field(repr=False, default="")
    storage_options: tuple[tuple[str, str], ...] = field(repr=False, default=())
    reason: str = ""  # why it cannot be read
    is_folder: bool = False  # a link to one, which is never followed


@dataclass(frozen=True)
class Batch:
    """One folder or file that is to be committed together. ``is_ready``: the marker that was asked for is there."""

    key: str
    path: str
    files: tuple[BatchFile, ...]
    is_ready: bool = True

    @property
    def listing(self) -> str:
        """Changes whenever a file of the batch does, and now and then when none did."""
        digest = hashlib.sha256()
        for one in self.files:
            digest.update(_bytes(f"{one.name}\0{one.size}\0{one.mark}\n"))
        return digest.hexdigest()[:16]

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.files)

    def matching(self, pattern: str) -> list[BatchFile]:
        """The files that a glob of a table means, in order."""
        return [one for one in self.files if matches(one.name, pattern)]

    def fingerprint(self) -> str:
        """What the batch is made of: names and contents, so that the same bytes are the same batch whenever they came."""
        digest = hashlib.sha256()
        for one in self.files:
            digest.update(_bytes(f"{one.name}\0{_content(one)}\n"))
        return digest.hexdigest()


def _bytes(name: str) -> bytes:
    """Return a name as bytes, also one of a disk that is not UTF-8."""
    return name.encode("utf-8", "surrogateescape")


def shown(name: str) -> str:
    """Return a name as a text that can be printed and stored, whatever bytes it has on the disk."""
    return name.encode("utf-8", "backslashreplace").decode()


def find_batches(source: SourceSettings) -> list[Batch]:
    """Every batch that there is, oldest key first. Names that begin with a dot or an underscore are no batch."""
    listed = _remote(source) if "://" in source.batches else _local(source)
    return sorted(listed, key=lambda batch: batch.key)


def find_batch(source: SourceSettings, key: str) -> Batch:
    """One batch by its key, without a look at the others."""
    for batch in () if not is_key(key) else _remote(source, key) if "://" in source.batches else _local(source, key):
        if batch.key == key:
            return batch
    raise og.errors.NotFound(
        f"source {source.name} has no batch {key!r}",
        hint=f"look under {source.batches}; `omnigraph-pipelines plan` lists what is there",
        source=source.name,
        batch=key,
    )


def options_of(source: SourceSettings) -> tuple[tuple[str, str], ...]:
    """Return the connection of the landing place; what is named by a variable is read now."""
    return tuple(sorted((name, text_of(value)) for name, value in source.storage_options.items()))


def is_key(key: str) -> bool:
    """Whether a batch of this name can be a partition."""
    return (
        0 < len(key.encode("utf-8", "replace")) <= KEY_BYTES_MAX and not _NOT_IN_KEYS.search(key) and key.isprintable()
    )


def matches(name: str, pattern: str) -> bool:
    """Whether a path fits a glob part by part: ``*`` does not cross a slash."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(
        fnmatch.fnmatchcase(one, glob) for one, glob in zip(parts, wanted, strict=True)
    )


def check_complete(source: SourceSettings, batch: Batch) -> None:
    """Refuse a batch that is not all there."""
    if not batch.is_ready:
        raise og.errors.InvalidInput(
            f"batch {batch.key} of {source.name} is still being written: it has no {source.ready}",
            hint=f"write {source.ready} when the batch is complete",
            source=source.name,
            batch=batch.key,
        )
    for one in batch.files:
        if one.reason:
            raise og.errors.InvalidInput(
                f"batch {shown(batch.key)} of {source.name}: {shown(one.name)} {one.reason}",
                hint="take it out of the batch, or put a file with its contents in its place",
                source=source.name,
                batch=shown(batch.key),
            )
    for table in source.tables or ():
        if table.files is not None and not table.optional and not batch.matching(table.files):
            raise og.errors.InvalidInput(
                f"batch {batch.key} of {source.name} has no file {table.files} for {table.type}",
                hint="add the file, or say `optional: true` for the table",
                source=source.name,
                batch=batch.key,
                type=table.type,
            )
    if not batch.files:
        raise og.errors.InvalidInput(
            f"batch {batch.key} of {source.name} has no files", hint="add its files", batch=batch.key
        )


# --- which files count ----------------------------------------------------------------------------------------------------


def _counts(source: SourceSettings) -> Any:
    """Whether a file of a folder is read at all: another one that appears is no change of the batch."""
    if source.tables is None:
        return lambda name: "/" not in name and name.endswith(_RECORD_SUFFIXES)
    globs = [table.files for table in source.tables if table.files is not None]
    return lambda name: any(matches(name, glob) for glob in globs)


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _batch(source: SourceSettings, key: str, path: str, files: Iterable[BatchFile]) -> Batch:
    every = sorted(files, key=lambda one: one.name)
    counts = _counts(source)
    is_ready = source.ready is None or any(one.name == source.ready for one in every)
    read = (one for one in every if one.reason.startswith(_UNLISTED) or one.is_folder or counts(one.name))
    return Batch(key, path, tuple(one for one in read if not _is_hidden(one.name)), is_ready)


def _above(pattern: str) -> str:
    """The folder that no wildcard is part of, with its slash."""
    found = _WILD.search(pattern)
    fixed = pattern if found is None else pattern[: found.start()]
    return fixed.rstrip("/").rpartition("/")[0] + "/" if found is None else fixed.rpartition("/")[0] + "/"


# --- on a disk --------------------------------------------------------------------------------------------------------------


def _local(source: SourceSettings, only: str | None = None) -> Iterator[Batch]:
    pattern = source.batches.rstrip("/")
    above = _above(pattern)
    if only is None:
        paths = _expanded(above, pattern[len(above) :].split("/"))
    else:
        paths = iter([above + only] if matches(only, pattern[len(above) :]) and os.path.exists(above + only) else [])
    for path in paths:
        key = path[len(above) :]
        if os.path.isdir(path) != source.in_folders or _is_hidden(key):
            continue
        if _leads_out(path, above):
            yield Batch(key, path, (BatchFile(os.path.basename(path), path, 0, reason=_LEADS_OUT),))
        elif source.in_folders:
            yield _batch(source, key, path, _files_below(path, above))
        else:
            try:
                one = _file(path, os.path.basename(path), above)
            except FileNotFoundError:
                continue  # a link to nothing, or a file that has gone since
            yield Batch(key, path, (one,))


def _leads_out(path: str, above: str) -> bool:
    """Whether a path that is, or lies behind, a link is outside of the landing folder: who may write there need not be allowed to
    read what this process may."""
    inside = os.path.realpath(above)
    return os.path.commonpath([inside, os.path.realpath(path)]) != inside


def _expanded(folder: str, parts: list[str], *, below: bool = False) -> Iterator[str]:
    head, rest = parts[0], parts[1:]
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        return
    except OSError as error:
        if below:
            # One folder of many: the batches of the others arrive all the same.
            _log.warning("%s cannot be listed, its batches are left out: %s", shown(folder), error.strerror)
            return
        raise og.errors.StoreUnavailable(f"{folder} cannot be listed: {error.strerror}", path=folder) from error
    for name in names:
        if fnmatch.fnmatchcase(name, head):
            path = os.path.join(folder, name)
            if rest:
                yield from _expanded(path, rest, below=True)
            else:
                yield path


def _files_below(folder: str, above: str) -> Iterator[BatchFile]:
    unlisted: list[OSError] = []
    for at, folders, names in os.walk(folder, onerror=unlisted.append):
        folders.sort()
        for name in folders:
            path = os.path.join(at, name)
            if os.path.islink(path) and _leads_out(
                path, above
            ):  # not followed, and what a table expects below would be missing
                yield BatchFile(
                    os.path.relpath(path, folder).replace(os.sep, "/"), path, 0, reason=_LEADS_OUT, is_folder=True
                )
        for name in names:
            path = os.path.join(at, name)
            try:
                yield _file(path, os.path.relpath(path, folder).replace(os.sep, "/"), above)
            except FileNotFoundError:
                continue  # renamed since it was listed: the next look finds what it has become
    for error in unlisted:
        if not isinstance(error, FileNotFoundError):
            name = os.path.relpath(str(error.filename), folder)
            yield BatchFile(name, str(error.filename), 0, reason=f"{_UNLISTED}: {error.strerror}")


def _file(path: str, name: str, above: str) -> BatchFile:
    if _leads_out(path, above):
        return BatchFile(name, path, 0, reason=_LEADS_OUT)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        return BatchFile(name, path, 0, reason=f"cannot be looked at: {error.strerror}")
    reason = ""
    if not stat.S_ISREG(found.st_mode):
        reason = "is no file: a pipe, a device or a link to a folder is not read"
    elif shown(path) != path:
        reason = "has a name that is not UTF-8"
    mark = f"{found.st_mtime_ns}/{found.st_ctime_ns}/{found.st_ino}"
    return BatchFile(name, path, found.st_size, mark, reason=reason)


# --- on an object store -------------------------------------------------------------------------------------------------------


def _remote(source: SourceSettings, only: str | None = None) -> Iterator[Batch]:
    """One listing of everything below the fixed part of the pattern, or below one batch."""
    from pyarrow import fs

    from omnigraph_pipelines.spark.sources import filesystem

    scheme, _, pattern = source.batches.rstrip("/").partition("://")
    above = _above(pattern)
    depth = pattern[len(above) :].count("/") + 1
    try:
        options = options_of(source)
        store, _ = filesystem(f"{scheme}://{above}", options)
        if only is not None and not source.in_folders:
            infos = [store.get_file_info(above + only)]
        else:
            below_here = above.rstrip("/") if only is None else above + only
            infos = store.get_file_info(fs.FileSelector(below_here, recursive=True, allow_not_found=True))
    except OSError as error:
        reason = " ".join(str(error).split())[:200]
        raise _unlisted(f"{scheme}://{above}", reason, source) from error
    groups: dict[str, list[BatchFile]] = {}
    for info in infos:
        if info.type != fs.FileType.File:
            continue
        below = info.path[len(above) :].split("/")
        key, inner = "/".join(below[:depth]), "/".join(below[depth:])
        if len(below) < depth or bool(inner) != source.in_folders or _is_hidden(key):
            continue
        if not matches(key, pattern[len(above) :]):
            continue
        path, size = f"{scheme}://{info.path}", int(info.size or 0)
        one = BatchFile(inner or below[-1], path, size, str(info.mtime_ns), options)
        groups.setdefault(key, []).append(one)
    for key, files in groups.items():
        path = f"{scheme}://{above}{key}"
        yield _batch(source, key, path, files) if source.in_folders else Batch(key, path, tuple(files))


def _unlisted(where: str, reason: str, source: SourceSettings) -> og.errors.OmnigraphError:
    return _out_of_reach(where, "listed", reason, f"source {source.name}")


def _out_of_reach(where: str, what: str, reason: str, whose: str) -> og.errors.OmnigraphError:
    """Return the error for a landing place, or an object in it, that may not be read or does not answer. Reading is a right of its
    own: credentials that list may be denied it."""
    said = f"{where} cannot be {what}: {reason}"
    if any(word in reason for word in _DENIED):
        return og.errors.StoreRefused(
            said,
            hint=f"check `storage_options` of {whose}, or the AWS_ variables if it has none, and its rights",
            path=where,
        )
    return og.errors.StoreUnavailable(said, path=where)


# --- contents -----------------------------------------------------------------------------------------------------------------


def _content(one: BatchFile) -> str:
    """Return the hash of a file's bytes; the store's own tag and the size for an object."""
    if one.reason:
        return one.reason  # opening a pipe would wait for ever; the batch is refused for it
    if "://" in one.path:
        return f"{_etag(one)}/{one.size}"
    try:
        with open(one.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise og.errors.StoreUnavailable(
            f"{one.path} cannot be read: {error.strerror or error}", path=one.path
        ) from error


def _etag(one: BatchFile) -> str:
    from omnigraph_pipelines.spark.sources import filesystem

    store, within = filesystem(one.path, one.storage_options)
    try:
        with store.open_input_stream(within) as stream:
            known = {_plain(name).lower(): _plain(value) for name, value in stream.metadata().items()}
            if "etag" in known:
                return known["etag"]
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
            return digest.hexdigest()
    except OSError as error:
        reason = " ".join(str(error).split())[:200]
        raise _out_of_reach(one.path, "read", reason, "the source that reads it") from error


def _plain(text: Any) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)
