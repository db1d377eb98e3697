"""Bytes staged by others: the staging record, and the description of fragments that somebody has written.

Owns the format of ``__staging/{ulid}.json`` and of ``StagedFragments``. Nobody queues behind a record and nothing is
published by it; it only says which files belong to whom, so that they can be found, verified and given up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from omnigraph.commit.engine import Engine, gather
from omnigraph.core.errors import Corruption, InvalidInput, NotFound
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, Store, layout

FORMAT = 1
RECORD_LIFE_S = 24 * 3600  # cleanup spares the files of a live record


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StagedFile(_Strict):
    """One data or deletion file, relative to the root of its table."""

    path: str
    size: int


class StagedFragments(_Strict):
    """Fragments of one table that somebody has written and nobody has committed. Serialisable, picklable, plain.

    ``new`` and ``updated`` hold Lance's own fragment JSON; ``updated`` and ``removed`` only occur in ``update``, which is
    tied to the pin that it was made on.
    """

    format: Literal[1] = 1
    staging_id: str
    table_key: str
    identity: str
    base_pin: int
    kind: Literal["append", "overwrite", "update"]
    new: list[dict[str, Any]]
    updated: list[dict[str, Any]] = []
    removed: list[int] = []
    files: list[StagedFile] = []
    rows: int

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump()

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> StagedFragments:
        try:
            return cls.model_validate(dict(value))
        except ValidationError as error:
            raise InvalidInput(f"not a description of staged fragments: {_first(error)}") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> StagedFragments:
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(f"not a description of staged fragments: {error}") from None

    @property
    def digest(self) -> str:
        """Names these very fragments: a report about others does not fit."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


class _RecordTable(_Strict):
    key: str
    identity: str
    path: str
    ref: str | None
    pin: int


class Record(_Strict):
    """What ``begin`` noted: the base, and what has been staged since."""

    format: Literal[1] = 1
    id: str
    graph: str
    branch: str
    branch_identity: str
    manifest_version: int
    head: str
    schema_hash: str
    actor: str | None
    created_at_us: int
    tables: list[_RecordTable]
    staged: list[StagedFragments] = []

    def table(self, key: str) -> _RecordTable:
        for table in self.tables:
            if table.key == key:
                return table
        raise NotFound(f"the graph has no table {key!r}", table_key=key)


def record_table(key: str, identity: str, path: str, ref: str | None, pin: int) -> _RecordTable:
    return _RecordTable(key=key, identity=identity, path=path, ref=ref, pin=pin)


class Records:
    """The staging records of one graph."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, record: Record, meter: Meter | None = None) -> None:
        try:
            self._store.create(layout.staging_key(record.id), _encode(record), meter=meter)
        except KeyExists as error:
            raise Corruption(f"another staging record has the id {record.id}", staging_id=record.id) from error

    def save(self, record: Record, meter: Meter | None = None) -> None:
        self._store.replace(layout.staging_key(record.id), _encode(record), meter=meter)

    def read(self, staging_id: str, meter: Meter | None = None) -> Record:
        data = self._store.get(layout.staging_key(staging_id), meter=meter)
        if data is None:
            raise NotFound(
                f"no staging record {staging_id}: it was loaded, aborted, or cleaned up",
                hint="begin a new one with graph.begin()",
                staging_id=staging_id,
            )
        try:
            record = Record.model_validate_json(data)
        except ValidationError as error:
            raise Corruption(
                f"the staging record {layout.staging_key(staging_id)} cannot be read: {_first(error)}",
                object=layout.staging_key(staging_id),
            ) from None
        for table in record.tables:
            layout.check_under_root(table.path)
        return record

    def delete(self, staging_id: str, meter: Meter | None = None) -> None:
        self._store.delete(layout.staging_key(staging_id), meter=meter)


def _encode(record: Record) -> bytes:
    return json.dumps(record.model_dump(), sort_keys=True, separators=(",", ":")).encode()


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"


def check_files(engine: Engine, wanted: Mapping[str, int], meter: Meter) -> None:
    """Refuse a batch of which a file is not there with its size: before anything is armed."""
    names = sorted(wanted)
    sizes = gather([engine.spawn(partial(engine.store.size, name, meter=meter)) for name in names])
    for name, size in zip(names, sizes, strict=True):
        if size != wanted[name]:
            said = "is missing" if size is None else f"has {size} bytes"
            raise InvalidInput(
                f"the staged file {name} {said}; expected {wanted[name]} bytes",
                hint="stage the batch again",
                object=name,
            )
