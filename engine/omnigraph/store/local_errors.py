"""Failed system calls as errors of the store."""

from __future__ import annotations

import errno
import os
from typing import Final

from omnigraph.core.errors import InvalidInput, OmnigraphError, StoreRefused, StoreUnavailable

_REFUSED: Final = {
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EROFS: "the file system is read-only",
    errno.ELOOP: "a symbolic link is in the way",
    errno.ENOTDIR: "a file is where a folder should be",
    errno.EISDIR: "a folder is where a file should be",
    errno.ENOTEMPTY: "a folder is where a file should be",
    errno.EFBIG: "the file system does not take a file of this size",
}
_FULL: Final = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}


def translate(error: OSError, what: str, path: str) -> OmnigraphError:
    """What a failed system call means to the caller."""
    number = error.errno or 0
    if number in _FULL:
        return StoreUnavailable(
            f"{what}: {_FULL[number]}: path={path}", hint="free space on the disk, then repeat the call", path=path
        )
    if number == errno.ENOTDIR:
        return StoreRefused(
            f"{what}: {_REFUSED[number]}: path={path}",
            hint="no release puts a file there: find out where it comes from, move it away, then repeat the call",
            path=path,
        )
    if number in _REFUSED:
        return StoreRefused(f"{what}: {_REFUSED[number]}: path={path}", path=path)
    if number == errno.ENAMETOOLONG:
        return InvalidInput(f"{what}: the path is too long for the file system: path={path[:200]}", path=path[:200])
    # Input and output errors, a network mount that went away, and all others: the outcome is unknown.
    reason = os.strerror(number) if number else type(error).__name__
    return StoreUnavailable(f"{what}: {reason}: path={path}", path=path, outcome="unknown")
