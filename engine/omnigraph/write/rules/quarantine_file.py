"""The file of rows that a load sets aside. It is created: never followed, never replaced, and never inside a graph."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from omnigraph.core.errors import AlreadyExists, InvalidInput, OmnigraphError, OutcomeUnknown, StoreRefused
from omnigraph.write.base.rejects import Rejected

_GRAPH_FOLDER = "__manifest"


def check_quarantine_place(path: str | PathLike[str]) -> None:
    """Refuse, before anything is written, a place where no file can be created. A link counts as a file: what it leads to may
    be anybody's."""
    place = Path(path)
    if os.path.lexists(place):
        raise _there_already(place)
    folder = Path(os.path.realpath(place.parent))
    for one in (folder, *folder.parents):
        if (one / _GRAPH_FOLDER).is_dir():
            raise InvalidInput(
                f"the quarantine file would lie inside a graph: path={place} graph={one}",
                hint="choose a path beside the graph",
                path=str(place),
            )
    if not folder.is_dir():
        raise StoreRefused(
            f"cannot write the quarantine file: {folder} is no folder", hint="make the folder first", path=str(place)
        )


def quarantine_line(one: Rejected) -> str:
    return json.dumps(one.to_dict(), ensure_ascii=False, separators=(",", ":"))


class LoadQuarantine:
    """The file of one load. What a plan sets aside is on disk under a name of that plan before the plan is armed, and gets the name that
    the caller wants when its commit stands: a process that dies in between loses no row. ``path`` None: nothing is kept."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._held: Path | None = None

    def check(self) -> None:
        """Refuse a place where the file cannot be, before anything is written."""
        if self._path is not None:
            check_quarantine_place(self._path)

    def hold(self, commit_id: str, rejected: Iterable[Rejected]) -> None:
        """Write what the plan of this commit sets aside. What an earlier plan of this load has written is of no use: it was aborted."""
        if self._path is not None:
            self.drop()
            held = _pending(self._path, commit_id)
            write_quarantine(held, rejected)
            self._held = held

    def drop(self) -> None:
        """Nothing was committed, and nothing will be."""
        if self._held is not None:
            self._held.unlink(missing_ok=True)
            self._held = None

    def keep(self, commit_id: str) -> tuple[str, ...]:
        """Give the rows that this commit has set aside their place, also those of a process that died before it did. Return what
        to warn of: the commit stands."""
        if self._path is None:
            return ()
        held = _pending(self._path, commit_id)
        if self._held != held:
            self.drop()
        if not held.exists():
            return ()
        self._held = None
        try:
            os.link(held, self._path)  # unlike a rename it replaces nothing
            held.unlink()
        except OSError as error:
            reason = "is there already" if isinstance(error, FileExistsError) else f"cannot be made: {error.strerror}"
            return (f"quarantine file {self._path} {reason}; the rows that commit {commit_id} left out are in {held}",)
        return ()

    def write(self, rejected: Iterable[Rejected]) -> None:
        """Nothing had to be committed: a load that died here would find the same rows again."""
        if self._path is not None:
            write_quarantine(self._path, rejected)


@contextlib.contextmanager
def held_rows(quarantine: LoadQuarantine) -> Iterator[None]:
    """While a load is under way. Of one whose outcome is open the rows stay under the name of its commit."""
    try:
        yield
    except OutcomeUnknown:
        raise
    except OmnigraphError:
        quarantine.drop()
        raise


def _pending(path: Path, commit_id: str) -> Path:
    return path.with_name(f"{path.name}.{commit_id}.pending")


def write_quarantine(path: Path, rejected: Iterable[Rejected]) -> int:
    """Write rejected records to a new file, one a line, and wait until the disk has it. Return how many there are."""
    count = 0
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            for one in rejected:
                stream.write(quarantine_line(one) + "\n")
                count += 1
            stream.flush()
            os.fsync(stream.fileno())
    except FileExistsError as error:
        raise _there_already(path) from error
    except OSError as error:
        raise StoreRefused(f"cannot write the quarantine file: {error.strerror or error}", path=str(path)) from error
    return count


def _there_already(place: Path) -> AlreadyExists:
    return AlreadyExists(
        f"the quarantine file is there already: path={place}",
        hint="choose a path where nothing is, or move that file away",
        path=str(place),
    )
