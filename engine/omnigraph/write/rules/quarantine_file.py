"""The file of rows that a load sets aside. It is created: never followed, never replaced, and never inside a graph."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from omnigraph.core.errors import AlreadyExists, InvalidInput, StoreRefused
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


def write_quarantine(path: str | PathLike[str], rejected: Iterable[Rejected]) -> int:
    """Write all rejected records to a new file, one a line; returns how many."""
    count = 0
    try:
        with Path(path).open("x", encoding="utf-8", newline="\n") as stream:
            for one in rejected:
                stream.write(quarantine_line(one) + "\n")
                count += 1
    except FileExistsError as error:
        raise _there_already(Path(path)) from error
    except OSError as error:
        raise StoreRefused(f"cannot write the quarantine file: {error.strerror or error}", path=str(path)) from error
    return count


def _there_already(place: Path) -> AlreadyExists:
    return AlreadyExists(
        f"the quarantine file is there already: path={place}",
        hint="choose a path where nothing is, or move that file away",
        path=str(place),
    )
