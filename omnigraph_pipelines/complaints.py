"""FileComplaints about a graph file: one sentence each, with its place in the text.

Owns the sentences, the place that each belongs to, and the one error that carries all of them. Prints no value of a setting that
may hold a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

import omnigraph as og
from omnigraph_pipelines.settings import Settings

_SHOWN_MAX: Final = 20
# Below these keys stand credentials, or addresses that may contain them.
_SECRET: Final = frozenset({"storage_options", "conf", "uri", "url", "remote"})

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One complaint: file, line and column, path of the setting, sentence."""

    where: Path | None
    place: tuple[int, int] | None
    said: str
    path: str = ""

    def __str__(self) -> str:
        at = "" if self.where is None else str(self.where)
        if self.place is not None:
            at += f":{self.place[0]}:{self.place[1]}"
        return ": ".join(one for one in (at, self.path, self.said) if one)

    def to_dict(self) -> dict[str, Any]:
        line, column = self.place or (None, None)
        return {"message": str(self), "line": line, "column": column, "path": self.path}


def refused(problems: Sequence[Problem]) -> og.errors.InvalidInput:
    """Return the error that names the first problem and carries the others as facts."""
    ordered = sorted(problems, key=lambda one: one.place or (0, 0))
    more = f" (and {len(ordered) - 1} more)" if len(ordered) > 1 else ""
    first = ordered[0]
    return og.errors.InvalidInput(
        f"{first}{more}",
        hint="correct the graph file; `omnigraph-pipelines validate` lists every problem",
        file=None if first.where is None else str(first.where),
        line=None if first.place is None else first.place[0],
        problems=[one.to_dict() for one in ordered[:_SHOWN_MAX]],
        total=len(ordered),
    )


class FileComplaints:
    """Collects problems and finds the place of each in the text."""

    def __init__(self, places: Mapping[Path_, tuple[int, int]], where: Path | None) -> None:
        self._places = places
        self._where = where
        self.found: list[Problem] = []

    def add(self, path: Path_, said: str) -> None:
        at = path
        while at and at not in self._places:
            at = at[:-1]
        self.found.append(Problem(self._where, self._places.get(at), said, _dotted(path)))


def _dotted(path: Path_) -> str:
    text = ""
    for one in path:
        text += f"[{one}]" if isinstance(one, int) else f".{one}" if text else one
    return text


def sentences(error: ValidationError, values: Any) -> Iterator[tuple[Path_, str]]:
    """Yield the place and the sentence of each of pydantic's complaints."""
    for one in error.errors(include_url=False):
        path = _real(one["loc"], values)
        if one["type"] == "extra_forbidden":
            yield path, f"unknown key {path[-1]!r}{meant(str(path[-1]), _keys(path[:-1]))}"
        elif one["type"] == "missing":
            missing = str(one["loc"][-1])
            yield path if path and path[-1] != missing else path[:-1], f"{missing!r} is missing"
        elif one["type"] == "value_error":
            yield path, str(one["ctx"]["error"])
        else:
            yield path, f"{one['msg'][0].lower()}{one['msg'][1:]}, got {_shown(path, one['input'])}"


def _shown(path: Path_, value: Any) -> str:
    """Return the value as the complaint prints it: its kind alone where it may be a secret, or hold one."""
    hidden = _SECRET.intersection(path) or isinstance(value, Mapping | list | tuple)
    return f"a {type(value).__name__}" if hidden else repr(value)[:80]


def _real(location: tuple[int | str, ...], values: Any) -> Path_:
    """A place in the file: pydantic puts names of union members between."""
    path: list[str | int] = []
    at = values
    for one in location:
        if isinstance(at, Mapping) and one in at:
            at = at[one]
        elif isinstance(at, list | tuple) and isinstance(one, int) and one < len(at):
            at = at[one]
        else:
            continue
        path.append(one)
    return tuple(path)


def _keys(path: Path_) -> list[str]:
    """The keys that a part of the file may have."""
    kind: Any = Settings
    for one in path:
        if isinstance(one, int):
            continue
        fields = {f.alias or name: f for name, f in kind.model_fields.items()} if _is_part(kind) else {}
        if one not in fields:
            return []
        kind = _part_in(fields[one].annotation)
    return [f.alias or name for name, f in kind.model_fields.items()] if _is_part(kind) else []


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _part_in(annotation: Any) -> Any:
    if _is_part(annotation):
        return annotation
    for one in getattr(annotation, "__args__", ()):
        found = _part_in(one)
        if found is not None:
            return found
    return None


def meant(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, [str(one) for one in known], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
