"""The document of a compaction task and of its result, format 1: what travels between a plan and the processes that run it.

Owns the shape and what its readers refuse. What is to be rewritten, and what was, is Lance's own JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field

from omnigraph.core import documents
from omnigraph.core.documents import Document, Ref, Ulid
from omnigraph.store import layout

FORMAT: Final = 1
BYTES_MAX: Final = 64 * 1024 * 1024
_XXH3 = re.compile(r"[0-9a-f]{32}")


def _check_location(path: str) -> str:
    if not layout.is_table_path(path):
        raise ValueError(f"{path[:80]!r} is not the path of a table")
    return path


def _check_xxh3(text: str) -> str:
    if not _XXH3.fullmatch(text):
        raise ValueError("an xxh3 is 32 hexadecimal digits")
    return text


class FileLine(Document):
    """One file, below the line of its table. ``xxh3`` is null where it is not known."""

    path: str
    bytes: Annotated[int, Field(ge=0)]
    xxh3: Annotated[str, AfterValidator(_check_xxh3)] | None


class _Rewrite(Document):
    format: Literal[1]
    op: Ulid
    uri: str
    branch: str
    table_key: str
    identity: Ulid
    location: Annotated[str, AfterValidator(_check_location)]
    ref: Ref | None
    pin: Annotated[int, Field(ge=1)]
    mark: Ulid | None
    signature: list[tuple[str, str]]
    files: list[FileLine]


class TaskDocument(_Rewrite):
    task: dict[str, Any]


class ResultDocument(_Rewrite):
    result: dict[str, Any]


M = TypeVar("M", TaskDocument, ResultDocument)


def read_task(text: str | bytes) -> TaskDocument:
    return _read(TaskDocument, text, "the compaction task", "fragments", "task")


def read_result(text: str | bytes) -> ResultDocument:
    return _read(ResultDocument, text, "the result of a compaction task", "new_fragments", "result")


def _read(model: type[M], text: str | bytes, what: str, member: str, body: str) -> M:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    with documents.refusals("that was given", what, hint="plan the compaction again", given=True):
        found = documents.read(model, data, format=FORMAT, bytes_max=BYTES_MAX)
        lance: Mapping[str, Any] = getattr(found, body)
        fragments = lance.get("task", {}).get(member) if body == "task" else lance.get(member)
        if not isinstance(fragments, list):
            raise documents.Malformed(f"its {body} has no {member}")
        listed = sorted((line.path, line.bytes) for line in found.files)
        if listed != sorted(files_of(fragments)):
            raise documents.Malformed(f"its files are not those of its {body}")
        return found


def files_of(fragments: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Path below the table and size of every data file of fragments."""
    found = []
    for fragment in fragments:
        for file in fragment.get("files") or ():
            if file.get("base_id") is not None:
                raise documents.Malformed("a file of a fragment lies outside of its table")
            found.append((f"data/{file['path']}", int(file.get("file_size_bytes") or 0)))
    return found
