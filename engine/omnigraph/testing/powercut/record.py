"""Runs a program under strace and reads what it did to the files below one folder, in the order in which it happened."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RUN_S = 300.0
_STRING_BYTES = 64 << 20
_TRACED = (
    "open,openat,creat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "truncate,ftruncate,fallocate,write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,lseek,"
    "fsync,fdatasync,sync_file_range,sync,syncfs"
)


@dataclass(frozen=True, slots=True)
class Event:
    """One call that has ended. Paths are relative to the folder; ``mark`` is a line that the program wrote for us."""

    kind: (
        str  # create write copy truncate rename link unlink mkdir rmdir sync-begins sync sync-all-begins sync-all mark
    )
    path: str = ""
    to: str = ""
    data: bytes = b""
    at: int | None = None  # where bytes go; None is the end; of a copy, where they come from
    size: int = 0  # of a copy
    caller: int = 0


ALL = "*"  # instead of a path


class NotUnderstood(Exception):
    """A call that the recorder cannot replay: the recording would be wrong without it."""


@functools.cache
def unavailable() -> str | None:
    """Why nothing can be recorded here; None if it can."""
    if shutil.which("strace") is None:
        return "needs strace"
    tried = subprocess.run(["strace", "-f", "-e", "trace=openat", "-o", os.devnull, "true"], capture_output=True)
    return None if tried.returncode == 0 else "strace may not trace here"


def record(command: Sequence[str], folder: str, marks: str, env: Mapping[str, str] | None = None) -> list[Event]:
    """Run ``command`` to its end. ``marks``: the file outside ``folder`` to which it writes lines for us."""
    with tempfile.TemporaryDirectory() as scratch:
        trace = Path(scratch, "trace")
        watched = ["strace", "-f", "-y", "-xx", "-s", str(_STRING_BYTES), "-e", f"trace={_TRACED}", "--seccomp-bpf"]
        ran = subprocess.run(
            [*watched, "-o", str(trace), *command],
            env={**os.environ, **(env or {})},
            capture_output=True,
            timeout=RUN_S,
        )
        if ran.returncode != 0:
            raise NotUnderstood(f"{' '.join(command)} ended with {ran.returncode}: {ran.stderr.decode()[-2000:]}")
        with trace.open(encoding="ascii", errors="surrogateescape") as lines:
            return list(read_trace(lines, folder, marks))


# --- lines --------------------------------------------------------------------------------------------------------------

_LINE = re.compile(r"(\d+) +(.*)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(?:<([^>]*)>)?.*")
_HEX = re.compile(r"(?:\\x[0-9a-f]{2})*")
_SYNCS = ("fsync", "fdatasync", "syncfs", "sync")


def read_trace(lines: Iterable[str], folder: str, marks: str) -> Iterator[Event]:
    reader = _Reader(os.path.realpath(folder), os.path.realpath(marks))
    begun: dict[str, str] = {}
    for line in lines:
        found = _LINE.fullmatch(line.rstrip("\n"))
        if found is None:
            raise NotUnderstood(f"a line of strace: {line[:200]!r}")
        caller, text = found.groups()
        if text.startswith(("+++", "---")):
            continue
        if text.endswith(_UNFINISHED):
            begun[caller] = text.removesuffix(_UNFINISHED)
            yield from reader.begins(begun[caller], int(caller))
            continue
        resumed = _RESUMED.fullmatch(text)
        if resumed is not None:
            text = begun.pop(caller) + resumed[1]
        else:
            yield from reader.begins(text, int(caller))
        yield from reader.ended(text, int(caller))


class _Reader:
    """Turns the text of calls into events. What a sync covers is what was there when it began."""

    def __init__(self, folder: str, marks: str) -> None:
        self._folder = folder
        self._marks = marks
        self._copied: dict[str, int] = {}  # by open file: how much of it was copied

    def begins(self, text: str, caller: int) -> Iterator[Event]:
        name, _, rest = text.partition("(")
        if name in ("sync", "syncfs"):
            yield Event("sync-all-begins", ALL, caller=caller)
        elif name in _SYNCS:
            path = self._inside(_open_file(_arguments(rest)[0])[1])
            if path is not None:
                yield Event("sync-begins", path, caller=caller)

    def ended(self, text: str, caller: int) -> Iterator[Event]:
        found = _CALL.fullmatch(text)
        if found is None:
            raise NotUnderstood(f"a call: {text[:200]!r}")
        name, inside, answer, opened = found.groups()
        if answer == "?" or int(answer) < 0:
            return
        arguments = _arguments(inside)
        if name in ("open", "openat", "creat"):
            yield from self._opened(name, arguments, _decoded(opened or "").decode(errors="surrogateescape"))
        elif name in ("sync", "syncfs"):
            yield Event("sync-all", ALL, caller=caller)
        elif name in _BY_FILE:
            yield from self._on_file(name, arguments, int(answer), caller)
        else:
            yield from self._on_names(name, arguments)

    def _opened(self, name: str, arguments: list[str], path: str) -> Iterator[Event]:
        relative = self._inside(path)
        flags = "O_CREAT|O_TRUNC|O_WRONLY" if name == "creat" else next((a for a in arguments if "O_" in a), "")
        if relative is None:
            return
        self._copied = {file: at for file, at in self._copied.items() if file != relative}
        if "O_CREAT" in flags:
            yield Event("create", relative)
        if "O_TRUNC" in flags:
            yield Event("truncate", relative, at=0)

    def _on_file(self, name: str, arguments: list[str], answer: int, caller: int) -> Iterator[Event]:
        _, path = _open_file(arguments[0])
        if path == self._marks and name == "write":
            yield Event("mark", data=_text(arguments[1])[:answer])
            return
        relative = self._inside(path)
        if relative is None:
            if name in ("sendfile", "copy_file_range") and self._inside(_open_file(arguments[2])[1]) is not None:
                raise NotUnderstood(f"a copy into {arguments[2]}")
            return
        match name:
            case "write":
                yield Event("write", relative, data=_text(arguments[1])[:answer])
            case "pwrite64":
                yield Event("write", relative, data=_text(arguments[1])[:answer], at=int(arguments[-1]))
            case "copy_file_range" if arguments[1] == arguments[3] == "NULL":
                yield from self._copy(relative, self._inside(_open_file(arguments[2])[1]), answer)
            case "writev":
                bytes_ = b"".join(_decoded(one) for one in re.findall(r'iov_base="([^"]*)"', arguments[1]))
                yield Event("write", relative, data=bytes_[:answer])
            case "ftruncate":
                yield Event("truncate", relative, at=int(arguments[1]))
            case "fsync" | "fdatasync":
                yield Event("sync", relative, caller=caller)
            case "lseek" if arguments[-1] in ("SEEK_END", "SEEK_CUR") or arguments[1] == "0":
                return  # of a file that is read, or to where it is
            case "lseek" | "sync_file_range":
                return
            case _:
                raise NotUnderstood(f"{name} on {relative}")

    def _copy(self, source: str, target: str | None, size: int) -> Iterator[Event]:
        """Bytes from where the last copy of this file has ended to the end of another one."""
        if target is None:
            return
        at = self._copied.get(source, 0)
        self._copied[source] = at + size
        yield Event("copy", source, target, at=at, size=size)

    def _on_names(self, name: str, arguments: list[str]) -> Iterator[Event]:
        paths = [self._inside(path) for path in _paths(arguments)]
        if all(path is None for path in paths):
            return
        if any(path is None for path in paths):
            raise NotUnderstood(f"{name} across the folder's border: {arguments}")
        inside = [path for path in paths if path is not None]
        match name:
            case "rename" | "renameat" | "renameat2":
                yield Event("rename", inside[0], inside[1])
            case "link" | "linkat":
                yield Event("link", inside[0], inside[1])
            case "unlink":
                yield Event("unlink", inside[0])
            case "unlinkat":
                yield Event("rmdir" if "AT_REMOVEDIR" in arguments[-1] else "unlink", inside[0])
            case "mkdir" | "mkdirat":
                yield Event("mkdir", inside[0])
            case "rmdir":
                yield Event("rmdir", inside[0])
            case _:
                raise NotUnderstood(f"{name} of {inside}")

    def _inside(self, path: str) -> str | None:
        """Relative to the folder; an empty text is the folder itself."""
        path = os.path.normpath(path) if path else path
        if path == self._folder:
            return ""
        return path[len(self._folder) + 1 :] if path.startswith(self._folder + os.sep) else None


_BY_FILE = frozenset(
    "write pwrite64 writev pwritev pwritev2 ftruncate fallocate fsync fdatasync lseek sendfile copy_file_range "
    "sync_file_range".split()
)

# --- arguments ----------------------------------------------------------------------------------------------------------


def _arguments(text: str) -> list[str]:
    """Split at the commas that separate arguments. Texts are written in hexadecimal, so they hold none."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text) if "{" in text or "[" in text else ():
        if letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    if start or "{" in text or "[" in text:
        return [*found, text[start:].strip()]
    return [part.strip() for part in text.rstrip(")").split(",")]


def _open_file(argument: str) -> tuple[str, str]:
    """The number of an open file and its path, which says so if it has been deleted."""
    number, _, rest = argument.partition("<")
    return number, _decoded(rest.partition(">")[0]).decode(errors="surrogateescape")


def _paths(arguments: list[str]) -> Iterator[str]:
    """The paths of a call, each joined to the folder that the argument before it names."""
    start = os.sep
    for argument in arguments:
        if argument.startswith('"'):
            yield os.path.join(start, _text(argument).decode(errors="surrogateescape"))
        elif "<" in argument:
            start = _open_file(argument)[1]


def _text(argument: str) -> bytes:
    if not (argument.startswith('"') and argument.endswith('"')):
        raise NotUnderstood(f"a text that was cut: {argument[:100]!r}")
    return _decoded(argument[1:-1])


def _decoded(text: str) -> bytes:
    if not _HEX.fullmatch(text):
        return text.encode(errors="surrogateescape")
    return bytes.fromhex(text.replace("\\x", ""))
