"""Files and folders of a local store: read, listed, made and synced."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from omnigraph.store.interface import Entry
from omnigraph.store.keys import is_temporary_name


def make_folders(folder: str) -> None:
    """Make a folder and those above it, durably: a synced file in a folder that is lost is lost."""
    missing = []
    path = folder
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(path)
        sync_folder(os.path.dirname(path))


def sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems have no sync of folders, and nothing to be lost by it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def read_file(path: str) -> bytes | None:
    """The bytes of a regular file; ``None`` for a folder, which is no object."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        parts = []
        while part := os.read(descriptor, max(status.st_size + 1, 65_536)):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_folder(
    path: str, base: str, prefix: str, start_after: str | None, found: list[Entry]
) -> Iterable[tuple[str, str]]:
    """Append the objects of one folder to ``found`` and return the folders below that may hold more."""
    below: list[tuple[str, str]] = []
    try:
        scan = os.scandir(path)
    except FileNotFoundError:
        return below  # removed since its parent was read, or never there; a file in its place is an error
    with scan:
        for item in scan:
            key = base + item.name
            if item.is_dir(follow_symlinks=False):
                folder = key + "/"
                if folder.startswith(prefix) or prefix.startswith(folder):
                    below.append((item.path, folder))
                continue
            if not key.startswith(prefix) or (start_after is not None and key <= start_after):
                continue
            if is_temporary_name(item.name) or not item.is_file(follow_symlinks=False):
                continue
            try:
                status = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            found.append(Entry(key, status.st_size, status.st_mtime_ns // 1_000))
    return below
