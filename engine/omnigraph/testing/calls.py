"""System calls of a child that change files below a folder: counted, and at one of them the child is killed, put to sleep,
or told that the call has failed.

What ``faults`` is for a store, this is for a local disk: the cuts lie between the calls themselves, those of Lance included,
and nothing is wrapped. Linux holds each call of a process that asks for it (``give_notice``) until a process outside has
answered (``CallWatch``). Elsewhere, or where a sandbox forbids it, ``unavailable`` says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import platform
import select
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from omnigraph.testing.children import Child

START_S = 30.0  # until a child has asked for notice; it does so first of all
POLL_MS = 200  # between two looks whether the child is still there

# --- which calls --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    """Where a call says what it is about: a path (with the folder that it starts from), or an open file."""

    path: int | None = None  # argument
    folder: int | None = None
    file: int | None = None
    flags: int | None = None  # only calls that may create count, where there are flags


_AT_FDCWD = -100
_SHAPES = {
    "open": _Shape(path=0, flags=1),
    "creat": _Shape(path=0),
    "openat": _Shape(path=1, folder=0, flags=2),
    "rename": _Shape(path=1),
    "renameat": _Shape(path=3, folder=2),
    "renameat2": _Shape(path=3, folder=2),
    "link": _Shape(path=1),
    "linkat": _Shape(path=3, folder=2),
    "unlink": _Shape(path=0),
    "unlinkat": _Shape(path=1, folder=0),
    "mkdir": _Shape(path=0),
    "mkdirat": _Shape(path=1, folder=0),
    "rmdir": _Shape(path=0),
    "truncate": _Shape(path=0),
    "ftruncate": _Shape(file=0),
    "fallocate": _Shape(file=0),
    "write": _Shape(file=0),
    "pwrite64": _Shape(file=0),
    "writev": _Shape(file=0),
    "pwritev": _Shape(file=0),
    "pwritev2": _Shape(file=0),
    "sendfile": _Shape(file=0),
    "copy_file_range": _Shape(file=2),
    "fsync": _Shape(file=0),
    "fdatasync": _Shape(file=0),
}
_FREEING = ("unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "truncate", "ftruncate")
SYNCING = ("fsync", "fdatasync")  # may fail, but change nothing that another process can see

_NUMBERS = {
    "x86_64": {
        "write": 1, "open": 2, "pwrite64": 18, "writev": 20, "sendfile": 40, "fsync": 74, "fdatasync": 75, "truncate": 76,
        "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "openat": 257,
        "mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265, "fallocate": 285, "pwritev": 296,
        "renameat2": 316, "copy_file_range": 326, "pwritev2": 328,
    },
    "aarch64": {
        "mkdirat": 34, "unlinkat": 35, "linkat": 37, "renameat": 38, "truncate": 45, "ftruncate": 46, "fallocate": 47,
        "openat": 56, "write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70, "sendfile": 71, "fsync": 82,
        "fdatasync": 83, "renameat2": 276, "copy_file_range": 285, "pwritev2": 287,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call that changes something below the folder; ``path`` is relative to it."""

    name: str
    path: str

    @property
    def changes(self) -> bool:
        return self.name not in SYNCING

    @property
    def takes_space(self) -> bool:
        """Whether a full disk has no room for it."""
        return self.changes and self.name not in _FREEING


# --- what Linux calls them (linux/seccomp.h, linux/filter.h) ------------------------------------------------------------

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
_PIDFD_GETFD_CALL = 438
_SET_FILTER, _ACTION_AVAILABLE = 1, 2
_FLAG_LISTENER = 1 << 3
_NOTIFY, _ALLOW = 0x7FC00000, 0x7FFF0000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_NOTICE = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")
_GO_ON = 1
_LISTENER_LINK = "anon_inode:seccomp notify"


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction)))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _system(*arguments: object) -> int:
    result: int = _libc().syscall(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@functools.cache
def unavailable() -> str | None:
    """Why calls cannot be watched here; None if they can. Tried on a child, once."""
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in _NUMBERS:
        return f"needs Linux on {' or '.join(_NUMBERS)}, not {platform.system()} on {machine}"
    try:
        _system(_SECCOMP_CALL[machine], _ACTION_AVAILABLE, 0, ctypes.byref(ctypes.c_uint(_NOTIFY)))
        with tempfile.TemporaryDirectory() as folder, Child(_make_one_file, folder) as child:
            with CallWatch(child, folder) as watch:
                said = child.hear_all(START_S)
    except (OSError, TimeoutError) as error:
        return f"this system does not let one process hold the calls of another: {error}"
    if said != ["made"] or [call.name for call in watch.calls] != ["openat", "write"]:
        return f"the calls of a child were not seen: {said} {watch.calls}"
    return None


def _make_one_file(say: Callable[[object], None], folder: str) -> None:
    give_notice()
    with open(os.path.join(folder, "one"), "xb", buffering=0) as file:
        file.write(b"1")
    say("made")


# --- in the child -------------------------------------------------------------------------------------------------------


def give_notice() -> None:
    """From here on each call that may change a file waits for the answer of a ``CallWatch``. Cannot be taken back, and must
    come before any thread: threads inherit it."""
    machine = platform.machine()
    program = [_Instruction(_LOAD, 0, 0, 0)]
    for number in _NUMBERS[machine].values():
        program += [_Instruction(_JUMP_IF_EQUAL, 0, 1, number), _Instruction(_RETURN, 0, 0, _NOTIFY)]
    program.append(_Instruction(_RETURN, 0, 0, _ALLOW))
    filters = (_Instruction * len(program))(*program)
    if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    _system(_SECCOMP_CALL[machine], _SET_FILTER, _FLAG_LISTENER, ctypes.byref(_Program(len(program), filters)))


# --- outside of it ------------------------------------------------------------------------------------------------------


class CallWatch:
    """Answers the calls of a child that has given notice.

    ``at``: the call below ``folder`` (from 1, of those ``among``) at which ``act`` is asked first, while the call waits. It
    returns the number of an error that the call fails with, 0 to let it go on, or None if no process is left to be
    answered. ``lasts``: for which calls that follow it is asked again.
    """

    def __init__(
        self,
        child: Child,
        folder: str,
        *,
        at: int = 0,
        among: Callable[[Call], bool] = lambda _call: True,
        act: Callable[[], int | None] = lambda: 0,
        lasts: Callable[[Call], bool] = lambda _call: False,
    ) -> None:
        self.calls: list[Call] = []
        self.reached = False
        self._pid = child.pid
        self._folder = os.path.realpath(folder) + os.sep
        self._at = at
        self._among = among
        self._lasts = lasts
        self._counted = 0
        self._act = act
        self._names = {number: name for name, number in _NUMBERS[platform.machine()].items()}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="call-watch", daemon=True)
        self._broken: BaseException | None = None
        self._listener = self._taken_over()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(START_S)
        os.close(self._listener)  # a process that still waits for an answer gets an error
        if self._broken is not None:
            raise self._broken

    def wait_over(self, timeout_s: float = START_S) -> None:
        """Until the child has ended, or watching has failed."""
        self._thread.join(timeout_s)

    def _taken_over(self) -> int:
        """The child's listener, as a file of ours."""
        end = time.monotonic() + START_S
        pidfd = os.pidfd_open(self._pid)
        try:
            while time.monotonic() < end:
                for number in os.listdir(f"/proc/{self._pid}/fd"):
                    if _link(f"/proc/{self._pid}/fd/{number}") == _LISTENER_LINK:
                        return _system(_PIDFD_GETFD_CALL, pidfd, int(number), 0)
                os.sched_yield()
        finally:
            os.close(pidfd)
        raise TimeoutError(f"process {self._pid} did not give notice of its calls")

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        try:
            while not self._over.is_set():
                for _, events in poll.poll(POLL_MS):
                    if not events & select.POLLIN:
                        return  # the child has ended
                    self._one()
        except BaseException as error:  # noqa: BLE001 - raised where the watch is left
            self._broken = error

    def _one(self) -> None:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, notice, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):  # the caller was interrupted, and will call again
                return
            raise
        ident, caller, _flags, number, _arch, _ip, *arguments = _NOTICE.unpack(notice)
        failure: int | None = 0
        call = self._call(self._names[number], caller, arguments)
        if call is not None:
            self.calls.append(call)
            self._counted += self._among(call)
            if self._counted == self._at and not self.reached:
                self.reached = True
                failure = self._act()
            elif self.reached and self._lasts(call):
                failure = self._act()
        if failure is None:
            return
        reply = bytearray(_REPLY.pack(ident, 0, -failure, 0 if failure else _GO_ON))
        try:
            fcntl.ioctl(self._listener, _ANSWER, reply, True)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINPROGRESS):  # it was interrupted or killed meanwhile
                raise

    def _call(self, name: str, caller: int, arguments: list[int]) -> Call | None:
        """What is called, if it is about something below the folder."""
        shape = _SHAPES[name]
        if shape.flags is not None and not arguments[shape.flags] & os.O_CREAT:
            return None
        if shape.file is not None:
            path = _link(f"/proc/{caller}/fd/{_signed(arguments[shape.file])}")
        else:
            path = _text(caller, arguments[shape.path or 0])
            if not path.startswith(os.sep):
                start = _AT_FDCWD if shape.folder is None else _signed(arguments[shape.folder])
                path = os.path.join(_link(f"/proc/{caller}/{'cwd' if start == _AT_FDCWD else f'fd/{start}'}"), path)
        path = os.path.normpath(path) if path else path
        if not (path + os.sep).startswith(self._folder):
            return None
        return Call(name, path[len(self._folder) :])


def _signed(argument: int) -> int:
    return ctypes.c_int(argument & 0xFFFFFFFF).value


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _text(pid: int, address: int) -> str:
    """A string in the memory of a process: up to its end, a page at a time. Empty if the process is no more."""
    found = b""
    with (
        contextlib.suppress(ProcessLookupError, FileNotFoundError),
        open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
    ):
        while b"\0" not in found:
            at = address + len(found)
            memory.seek(at)
            part = memory.read(4096 - at % 4096)
            if not part:
                break
            found += part
    return os.fsdecode(found.partition(b"\0")[0])
