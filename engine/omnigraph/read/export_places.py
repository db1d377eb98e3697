"""Where an export goes: a path of this machine, and what a system call that failed there means to the caller."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError, StoreRefused, StoreUnavailable


def local_path(dest: str | os.PathLike[str]) -> Path:
    """The path that was given; refuse what is none, and what is elsewhere."""
    text: Any = os.fspath(dest)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInput("the path of an export is a text without NUL")
    if "://" in text:
        raise InvalidInput(
            f"an export goes to a local path or an open file, not to {text[:80]!r}",
            hint="export to a local path and copy it",
        )
    return Path(text).expanduser()


@contextlib.contextmanager
def writing_to(path: Path, kind: str) -> Iterator[None]:
    """Turn errors of system calls into what happened. ``kind``: what ``path`` was meant to be, a file or a folder."""
    try:
        yield
    except OSError as error:
        raise _translated(error, path, kind) from error


def _translated(error: OSError, path: Path, kind: str) -> OmnigraphError:
    """What a failed system call means to the caller. Nothing was written under the path."""
    what = f"cannot export: {os.strerror(error.errno) if error.errno else type(error).__name__}: path={path}"
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
        error_type: type[OmnigraphError] = NotFound if error.errno == errno.ENOENT else InvalidInput
        return error_type(what, hint=f"give the path of a {kind} in a folder that exists", path=str(path))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreRefused(what, hint="choose a folder that may be written", path=str(path))
    return StoreUnavailable(what, hint="free space on the disk, or choose another place", path=str(path))
