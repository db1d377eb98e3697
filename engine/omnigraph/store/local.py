"""A store on a local file system. Owns temporary files, hard links and syncs; knows nothing of what the bytes mean.

A create writes a temporary file, syncs it, and gives it its name by a hard link, which fails if the name is taken: the
only create-if-absent that also appears whole at once. A replace renames instead. Temporary files are called
``name#digits``, as Lance's own; listings do not show them and no key can name them.

Refusals (permissions, a read-only mount) are ``StoreRefused`` and a full disk is ``StoreUnavailable``; neither is ever
taken for an absent object.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError, StoreRefused, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from omnigraph.store.interface import DeleteFailure, Entry, KeyExists
from omnigraph.store.keys import check_key, check_prefix, is_temporary_name
from omnigraph.store.local_errors import translate
from omnigraph.store.local_files import make_folders, read_file, read_folder, sync_folder

# How often a folder may vanish (another process prunes) between making it and writing into it.
_FOLDER_ATTEMPTS: Final = 5
# How often a name may be found taken and then free again.
_CREATE_ATTEMPTS: Final = 5
_HARD_LINKS_HINT: Final = "put the graph on a file system with hard links, or on an object store"

_NO_HARD_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)

_COPIED_BYTES = 1 << 20


class LocalStore:
    """``Store`` below one folder, which is made with the first write."""

    is_remote: Final = False

    def __init__(self, root: str) -> None:
        self._root = root
        self._probe_lock = threading.Lock()
        self._probed = False
        self._named_folders: set[str] = set()

    @property
    def uri(self) -> str:
        return self._root

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalStore, (self._root,)

    def lance_uri(self, relative: str) -> str:
        return self._path(relative)

    def lance_options(self) -> dict[str, str] | None:
        return None

    # --- writing --------------------------------------------------------------------------------------------------------

    def check_conditional_create(self, *, meter: Meter | None = None) -> None:
        with self._probe_lock:
            if self._probed:
                return
            # The first refusal is the proof, so the object stays: the next create is refused at once.
            for _ in range(2):
                _count(meter, layout.PROBE)
                if not self._link_new(layout.PROBE, b""):
                    self._probed = True
                    return
            raise StoreRefused(
                f"the file system lets two creates of one name succeed: root={self._root}", hint=_HARD_LINKS_HINT
            )

    def create(self, key: str, data: bytes, *, meter: Meter | None = None) -> None:
        check_key(key)
        self.check_conditional_create(meter=meter)
        failpoints.hit("store.create", key=key)
        for _ in range(_CREATE_ATTEMPTS):
            _count(meter, key, written=len(data))
            if self._link_new(key, data):
                break
            found = self.get(key, meter=meter)
            if found == data:
                break
            if found is not None:
                raise KeyExists(f"another object is there: key={key}", key=key)
            if os.path.isdir(self._path(key)):
                raise StoreRefused(f"cannot create: a folder is where a file should be: key={key}", key=key)
            # Deleted since the name was taken: the name is free again.
        else:
            raise StoreUnavailable(f"cannot create: others keep creating and deleting the object: key={key}", key=key)
        failpoints.hit("store.created", key=key)

    def replace(self, key: str, data: bytes, *, meter: Meter | None = None) -> None:
        path = self._path(key)
        self.check_conditional_create(meter=meter)
        _count(meter, key, written=len(data))
        failpoints.hit("store.replace", key=key)
        with self._translated("write", key), self._temporary(path, data) as temporary:
            os.replace(temporary, path)
            self._sync_named(path)
        failpoints.hit("store.replaced", key=key)

    def copy(self, source: str, target: str, *, meter: Meter | None = None) -> None:
        path = self._path(target)
        self.check_conditional_create(meter=meter)
        with self._translated("copy", source), open(self._path(source), "rb") as file:
            _count(meter, target, written=os.fstat(file.fileno()).st_size)
            with self._temporary(path, iter(lambda: file.read(_COPIED_BYTES), b"")) as temporary:
                os.replace(temporary, path)
                self._sync_named(path)

    def _link_new(self, key: str, data: bytes) -> bool:
        """Create; false if the name is taken."""
        path = self._path(key)
        with self._translated("create", key), self._temporary(path, data) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            except OSError as error:
                # The temporary file could be written, so this is not about permissions on the folder.
                if error.errno in _NO_HARD_LINKS:
                    raise StoreRefused(
                        f"the file system has no hard links, so it cannot create if absent: root={self._root}",
                        hint=_HARD_LINKS_HINT,
                    ) from error
                raise
            self._sync_named(path)
            return True

    def _sync_named(self, path: str) -> None:
        """Make a name durable. If that fails the object is there for readers, and it is unknown whether it stays."""
        folder = os.path.dirname(path)
        try:
            sync_folder(folder)
            self._sync_name_of(folder)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StoreUnavailable(
                f"cannot make a write durable: {reason}: path={path}", path=path, outcome="unknown"
            ) from error

    def _sync_name_of(self, folder: str) -> None:
        """Sync the folders above, once for each folder: another process may have made it and ended before its own sync."""
        if folder in self._named_folders:
            return
        above = folder
        while above != self._root:
            above = os.path.dirname(above)
            sync_folder(above)
        self._named_folders.add(folder)

    @contextmanager
    def _temporary(self, path: str, data: bytes | Iterator[bytes]) -> Iterator[str]:
        """A synced file beside ``path``, gone afterwards if it is still there."""
        temporary = f"{path}#{secrets.randbits(63)}"
        descriptor = self._open_new(temporary)
        try:
            try:
                with os.fdopen(descriptor, "wb", buffering=0) as file:
                    for piece in [data] if isinstance(data, bytes) else data:
                        rest = memoryview(piece)
                        while rest:
                            rest = rest[file.write(rest) :]
                    os.fsync(file.fileno())
                yield temporary
            finally:
                # Renamed away is the good end of a replace; anything else left over is only an invisible temporary file, and
                # must not hide the error that is on its way.
                with suppress(OSError):
                    os.unlink(temporary)
        except FileNotFoundError as error:
            raise StoreUnavailable(
                f"the folder was removed while writing: path={path}", path=path, outcome="unknown"
            ) from error

    def _open_new(self, path: str) -> int:
        folder = os.path.dirname(path)
        for attempt in range(_FOLDER_ATTEMPTS):
            self._check_inside(folder)
            try:
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except FileNotFoundError:
                if attempt == _FOLDER_ATTEMPTS - 1:
                    raise
                make_folders(folder)
        raise AssertionError("unreachable")

    # --- reading --------------------------------------------------------------------------------------------------------

    def get(self, key: str, *, meter: Meter | None = None) -> bytes | None:
        path = self._path(key)
        data: bytes | None = None
        with self._translated("read", key):
            try:
                self._check_inside(os.path.dirname(path))
                data = read_file(path)
            except FileNotFoundError:
                pass
            except NotADirectoryError:
                self._check_root_is_folder()
        _count(meter, key, read=len(data or b""))
        return data

    def exists(self, key: str, *, meter: Meter | None = None) -> bool:
        return self.size(key, meter=meter) is not None

    def size(self, key: str, *, meter: Meter | None = None) -> int | None:
        path = self._path(key)
        _count(meter, key)
        with self._translated("look up", key):
            try:
                self._check_inside(os.path.dirname(path))
                found = os.lstat(path)
            except FileNotFoundError:
                return None
            except NotADirectoryError:
                self._check_root_is_folder()
                return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def list(self, prefix: str, *, start_after: str | None = None, meter: Meter | None = None) -> list[Entry]:
        check_prefix(prefix)
        _count(meter, prefix)
        folder = prefix.rpartition("/")[0]
        found: list[Entry] = []
        with self._translated("list", prefix):
            top = os.path.join(self._root, *folder.split("/")) if folder else self._root
            self._check_inside(top)
            self._check_root_is_folder()
            todo = [(top, folder + "/" if folder else "")]
            while todo:
                path, base = todo.pop()
                todo.extend(read_folder(path, base, prefix, start_after, found))
        found.sort(key=lambda entry: entry.key)
        return found

    def folders(self, prefix: str, *, meter: Meter | None = None) -> tuple[str, ...]:
        check_prefix(prefix)
        _count(meter, prefix)
        folder = prefix.removesuffix("/")
        with self._translated("list", prefix):
            top = os.path.join(self._root, *folder.split("/")) if folder else self._root
            self._check_inside(top)
            self._check_root_is_folder()
            try:
                with os.scandir(top) as entries:
                    return tuple(sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False)))
            except FileNotFoundError:
                return ()

    # --- deleting -------------------------------------------------------------------------------------------------------

    def delete(self, key: str, *, meter: Meter | None = None) -> bool:
        path = self._path(key)
        _count(meter, key)
        failpoints.hit("store.delete", key=key)
        with self._translated("delete", key):
            try:
                self._check_inside(os.path.dirname(path))
                os.unlink(path)
            except FileNotFoundError:
                return False
            except NotADirectoryError:
                self._check_root_is_folder()
                return False
            except (IsADirectoryError, PermissionError):
                # A folder is no object. Linux says EISDIR, others EPERM.
                if os.path.isdir(path) and not os.path.islink(path):
                    return False
                raise
            sync_folder(os.path.dirname(path))
        return True

    def delete_many(self, keys: Iterable[str], *, meter: Meter | None = None) -> tuple[DeleteFailure, ...]:
        failures = []
        for key in [check_key(key) for key in keys]:
            try:
                self.delete(key, meter=meter)
            except OmnigraphError as error:
                failures.append(DeleteFailure(key, error))
        return tuple(failures)

    def prune(self, prefix: str) -> None:
        for path, _ in self._folders_below("prune", prefix):
            if path != self._root:
                # Not empty, or removed by another process: both mean that there is nothing to remove.
                with suppress(OSError):
                    os.rmdir(path)

    def unfinished(self, prefix: str, before_us: int) -> tuple[Entry, ...]:
        found = []
        for path, names in self._folders_below("look for unfinished files", prefix):
            for name in filter(is_temporary_name, names):
                entry = self._unfinished(os.path.relpath(os.path.join(path, name), self._root))
                if entry is not None and entry.modified_us < before_us:
                    found.append(entry)
        return tuple(sorted(found, key=lambda entry: entry.key))

    def _unfinished(self, key: str) -> Entry | None:
        try:
            status = os.lstat(os.path.join(self._root, key))
        except FileNotFoundError:
            return None
        return Entry(key, status.st_size, status.st_mtime_ns // 1_000) if stat.S_ISREG(status.st_mode) else None

    def delete_unfinished(self, entries: Iterable[Entry]) -> tuple[DeleteFailure, ...]:
        failures = []
        for entry in entries:
            path = os.path.join(self._root, entry.key)
            try:
                with self._translated("delete", entry.key):
                    self._check_inside(os.path.dirname(path))
                    # A name may have been taken again by a writer that lives.
                    if self._unfinished(entry.key) == entry:
                        os.unlink(path)
            except OmnigraphError as error:
                failures.append(DeleteFailure(entry.key, error))
        return tuple(failures)

    def _folders_below(self, what: str, prefix: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Every folder and the names of its files, the deepest first."""
        check_prefix(prefix)
        top = os.path.join(self._root, *prefix.strip("/").split("/")) if prefix else self._root
        with self._translated(what, prefix):
            self._check_inside(top)
            for path, _, names in os.walk(top, topdown=False):
                yield path, names

    # --- paths and errors -----------------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return os.path.join(self._root, *check_key(key).split("/"))

    def _check_inside(self, folder: str) -> None:
        """A symbolic link below the root must not lead out of it, even one that a user has made. Where there is none, nothing can."""
        at = folder
        while at != self._root and not os.path.islink(at):
            at = os.path.dirname(at)
        if at == self._root:
            return
        real_root = os.path.realpath(self._root)
        real = os.path.realpath(folder)
        if real != real_root and not real.startswith(real_root.rstrip(os.sep) + os.sep):
            raise StoreRefused(
                f"a symbolic link leads out of the root: root={self._root} folder={folder}",
                hint="remove the link; everything of a graph lives below its root",
            )

    def _check_root_is_folder(self) -> None:
        """What is missing below a root that is itself a file is not absent: nothing can ever be there."""
        try:
            mode = os.stat(self._root).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._root)

    @contextmanager
    def _translated(self, what: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translate(error, f"cannot {what}", os.path.join(self._root, key)) from error


def _count(meter: Meter | None, key: str, read: int = 0, written: int = 0) -> None:
    """One operation counts as the one request that it would be on an object store."""
    if meter is not None:
        meter.count(layout.request_class(key), bytes_read=read, bytes_written=written)
