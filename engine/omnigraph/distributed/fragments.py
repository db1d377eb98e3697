"""Staged fragments: the description of files that hold rows of one table and that no version names yet.

Owns the document (format 2), what every reader refuses of it, and whether rows that were staged on another schema still fit.
Reads no file and knows nothing of Lance: a fragment is Lance's own JSON.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from omnigraph.core import documents
from omnigraph.core.documents import Document, Malformed, Ref, Ulid
from omnigraph.core.errors import SchemaChanged
from omnigraph.core.kinds import methods_checked
from omnigraph.core.shown import count_text, html_table
from omnigraph.manifest.state import State
from omnigraph.write.base.staged_columns import LiveField, misfit

FORMAT: Final = 2
FRAGMENTS_BYTES_MAX: Final = 64 * 1024 * 1024

_FILE = re.compile(r"data/[A-Za-z0-9._-]{1,200}|_deletions/[A-Za-z0-9._-]{1,200}")
_XXH3 = re.compile(r"[0-9a-f]{32}")


def schema_id_of(state: State) -> str:
    """The identity of a branch's schema, as staged rows carry it."""
    return state.schema.id


def staged_otherwise(state: State, staged: Iterable[StagedFragments]) -> bool:
    """Whether some of the rows were staged under another schema than that of the state."""
    return any(one.schema_id != schema_id_of(state) for one in staged)


def _check_path(path: str) -> str:
    if not _FILE.fullmatch(path) or path.rpartition("/")[2] in (".", ".."):
        raise ValueError(f"{path[:80]!r} is not the path of a file below a table")
    return path


def _check_xxh3(text: str) -> str:
    if not _XXH3.fullmatch(text):
        raise ValueError("an xxh3 is 32 hexadecimal digits")
    return text


class StagedFile(Document):
    """One data or deletion file, relative to the line of its table. ``xxh3`` is null on an object store."""

    path: Annotated[str, AfterValidator(_check_path)]
    size: Annotated[int, Field(ge=0)]
    xxh3: Annotated[str, AfterValidator(_check_xxh3)] | None


@methods_checked
class StagedFragments(Document):
    """Fragments of one table that a task has written and no version names. A document: ``to_json``, ``from_json``.

    ``new`` and ``updated`` hold Lance's own fragment JSON; ``updated`` and ``removed`` only occur in ``update``, which is
    tied to the pin that it was made on. ``fields`` maps the properties that the files hold to Lance's field ids: the id of a
    property, or ``id``, ``src``, ``dst``.
    """

    format: Literal[2]
    staging_id: Ulid
    table_key: Annotated[str, Field(max_length=200)]
    identity: Ulid
    ref: Ref | None
    base_pin: Annotated[int, Field(ge=0)]
    schema_id: str
    fields: dict[str, int]
    kind: Literal["append", "overwrite", "update"]
    new: list[dict[str, Any]]
    updated: list[dict[str, Any]]
    removed: list[int]
    files: list[StagedFile]
    rows: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _valid(self) -> StagedFragments:
        self.check()
        return self

    def check(self) -> None:
        """Refuse a description that contradicts itself. Raises ``ValueError``."""
        if self.kind != "update" and (self.updated or self.removed):
            raise ValueError(f"fragments that are updated or removed occur in an update, not in kind {self.kind!r}")
        if len(set(self.fields.values())) < len(self.fields):
            raise ValueError("a field id is named twice")
        named = [file.path for file in self.files]
        if len(set(named)) < len(named):
            raise ValueError("a file is listed twice")
        for fragment in self.new:
            if fragment.get("deletion_file") is not None:
                raise ValueError("a new fragment has a deletion file")
        for path in data_paths(self.new):
            _check_path(path)
            if path not in named:
                raise ValueError(f"{path} of a new fragment is not listed in files")
        for _ in data_paths(self.updated):
            pass  # raises for a file that lies elsewhere

    def __repr__(self) -> str:
        what = f"{count_text(self.rows, 'row')} in {count_text(len(self.new), 'fragment')}"
        return f"<StagedFragments of {self.table_key}: {what}, {self.kind}>"

    def _repr_html_(self) -> str:
        rows = [(file.path, file.size) for file in self.files]
        return html_table(("file", "bytes"), rows, repr(self), empty="no files")

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump()

    def to_json(self) -> str:
        return documents.canonical(self.to_dict()).decode()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> StagedFragments:
        with documents.refusals("that was given", "the description of staged fragments", given=True):
            documents.check_format(value, FORMAT)
            return documents.fill(cls, value)

    @classmethod
    def from_json(cls, text: str | bytes) -> StagedFragments:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        with documents.refusals("that was given", "the description of staged fragments", given=True):
            return documents.read(cls, data, format=FORMAT, bytes_max=FRAGMENTS_BYTES_MAX)

    @property
    def digest(self) -> str:
        """Names these very fragments: a report about others does not fit."""
        return hashlib.sha256(documents.canonical(self.to_dict())).hexdigest()


def data_paths(fragments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The data files of fragments, below the table. Raises for a file that would lie elsewhere."""
    for fragment in fragments:
        files = fragment.get("files")
        if not isinstance(files, list):
            raise Malformed("a fragment has no list of files")
        for file in files:
            if not isinstance(file, Mapping) or not isinstance(file.get("path"), str):
                raise Malformed("a file of a fragment has no path")
            if file.get("base_id") is not None:
                raise Malformed("a file of a fragment lies outside of its table")
            yield f"data/{file['path']}"


# --- rows that were staged on another schema ---------------------------------------------------------------------------


def check_schema_fits(staged: StagedFragments, schema_id: str, live: Mapping[str, LiveField]) -> None:
    """Refuse rows that were staged on a schema that they do not fit any more. ``live``: the columns of the table now, by the
    id of their property. On the same schema everything fits."""
    what = None if staged.schema_id == schema_id else misfit(staged.fields, live)
    if what is not None:
        raise SchemaChanged(
            f"the schema has changed since rows of {staged.table_key} were staged: {what}",
            table_key=staged.table_key,
            expected=staged.schema_id,
            actual=schema_id,
        )
