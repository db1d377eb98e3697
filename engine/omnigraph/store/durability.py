"""Making what is on a local disk survive a power cut: files with their names, or everything below a root.

Lance syncs nothing that it writes, so the writer syncs its files here before it acknowledges a commit. Knows paths only; which files
belong to a version is answered in ``table.files``, and when they have to be synced in ``manifest.durable``. A file whose
sync failed is never synced a second time: Linux reports a failed write once and then takes the page for clean, so that
the second sync succeeds although the bytes are lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, ClassVar, Final

from omnigraph.core import failpoints
from omnigraph.core.errors import StoreUnavailable

# Some file systems have no sync of folders, and lose nothing by it.
_NO_FOLDER_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP})

_failed: dict[str, str] = {}
_failed_lock = threading.Lock()


class SyncFailed(StoreUnavailable):
    """What is on disk may not survive a power cut. Facts: ``path``, ``outcome="unknown"``."""

    default_hint: ClassVar[str] = (
        "check the disk, then open the graph again; `omnigraph verify --deep` reads every file"
    )


def sync_paths(paths: Iterable[str], root: str, *, pool: Executor | None = None) -> None:
    """Sync each file, and each folder on the way from it up to ``root``, both ends included.

    ``pool``: where the syncs run side by side. All of them have ended when this returns or raises.
    """
    root = os.path.abspath(root)
    files = dict.fromkeys(os.path.abspath(path) for path in paths)
    folders = dict.fromkeys(folder for path in files for folder in _folders_up_to(path, root))
    targets = [*files, *folders]
    for target in targets if _failed else ():
        _refuse_second_sync(target)
    if pool is None or len(targets) < 2:
        for target in targets:
            sync_one(target)
        return
    calls = [pool.submit(sync_one, target) for target in targets]
    errors = [error for call in calls if (error := call.exception()) is not None]
    if errors:
        raise errors[0]


def sync_everything(root: str) -> None:
    """Sync all that has been written below ``root`` so far: one call for its file system where Linux has one."""
    root = os.path.abspath(root)
    _refuse_second_sync(root)
    call = _syncfs()
    if call is None:
        for path in _all_below(root):
            with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                _sync(path)
        return
    with _remembered(root):
        failpoints.hit("store.sync", path=root)
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if call(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), root)
        finally:
            os.close(descriptor)


def sync_one(path: str) -> None:
    """Sync one file or folder, or raise ``SyncFailed``."""
    try:
        _sync(path)
    except FileNotFoundError as error:
        raise SyncFailed(
            f"cannot make a file durable: it is not there: path={path}", path=path, outcome="unknown"
        ) from error


def forget_failures(root: str) -> None:
    """Allow syncs below ``root`` again. For a graph that is opened anew: what it reads then is what it goes on from."""
    root = os.path.abspath(root)
    with _failed_lock:
        for path in [path for path in _failed if _is_below(path, root)]:
            del _failed[path]


# --- one file -----------------------------------------------------------------------------------------------------------


def _sync(path: str) -> None:
    if _failed:
        _refuse_second_sync(path)
    with _remembered(path):
        failpoints.hit("store.sync", path=path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _remembered(path: str) -> Iterator[None]:
    """Turn a failure into ``SyncFailed`` and keep the path from being synced again."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        with _failed_lock:
            _failed[path] = reason
        raise SyncFailed(f"cannot make a write durable: {reason}: path={path}", path=path, outcome="unknown") from error


def _refuse_second_sync(path: str) -> None:
    with _failed_lock:
        reason = next((why for failed, why in _failed.items() if _is_below(path, failed)), None)
    if reason is not None:
        raise SyncFailed(
            f"an earlier sync has failed and is not repeated: {reason}: path={path}", path=path, outcome="unknown"
        )


# --- paths --------------------------------------------------------------------------------------------------------------


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _folders_up_to(path: str, root: str) -> Iterator[str]:
    folder = os.path.dirname(path)
    while _is_below(folder, root):
        yield folder
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _all_below(root: str) -> Iterator[str]:
    """Every regular file and folder, files first: a folder that is synced names files whose bytes are."""
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.path.isfile(path):
                yield path
        yield folder


@functools.cache
def _syncfs() -> Callable[[int], int] | None:
    """The call of the operating system that syncs one file system; None where there is none."""
    try:
        call: Any = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library of the process itself
        return None
    call.argtypes, call.restype = [ctypes.c_int], ctypes.c_int

    def syncfs(descriptor: int) -> int:
        return int(call(descriptor))

    return syncfs
