"""The staging record: which files belong to bytes that are on their way into a graph.

Owns the format of ``__staging/{ulid}.json`` and the check of files before a commit names them. Nothing is published by a
record and no write waits for one; it says whose the files are, so that they can be found, verified and given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from omnigraph.commit.engine import Engine, gather
from omnigraph.core import documents
from omnigraph.core.documents import Document, Ref, Ulid
from omnigraph.core.errors import Corruption, InvalidInput, NotFound
from omnigraph.core.meter import Meter
from omnigraph.distributed.fragments import StagedFile, StagedFragments
from omnigraph.store import KeyExists, Store, layout
from omnigraph.table.dataset import TableRef

FORMAT: Final = 2
RECORD_LIFE_S: Final = 24 * 3600  # cleanup spares the files of a live record
RECORD_BYTES_MAX: Final = 64 * 1024 * 1024


def _check_table_path(path: str) -> str:
    if not layout.is_table_path(path):
        raise ValueError(f"{path[:80]!r} is not the path of a table")
    return path


class RecordBranch(Document):
    name: str
    identity: Ulid


class RecordBase(Document):
    manifest_version: Annotated[int, Field(ge=1)]
    head: Ulid
    mark: Ulid | None
    schema_id: str


class RecordTable(Document):
    """One table, at the version that rows are staged on."""

    key: str
    identity: Ulid
    path: Annotated[str, AfterValidator(_check_table_path)]
    ref: Ref | None
    pin: Annotated[int, Field(ge=0)]

    @property
    def table(self) -> TableRef:
        return TableRef(self.path, self.ref)


class Record(Document):
    """What ``begin`` noted: the base, and what has been staged since."""

    format: Literal[2] = 2
    id: Ulid
    graph: Ulid
    branch: RecordBranch
    base: RecordBase
    actor: str | None
    created_at_us: Annotated[int, Field(ge=0)]
    tables: list[RecordTable]
    staged: list[StagedFragments]

    def table(self, key: str) -> RecordTable:
        for table in self.tables:
            if table.key == key:
                return table
        raise NotFound(f"the graph has no table {key!r}", table_key=key)

    def key_of(self, name: str) -> str:
        """The table key of a table key or a type name."""
        keys = [table.key for table in self.tables]
        for key in (name, f"node:{name}", f"edge:{name}"):
            if key in keys:
                return key
        raise NotFound(f"the graph has no type {name!r}", hint=f"it has {', '.join(keys[:20])}", table_key=name)

    def check_mine(self, one: StagedFragments) -> None:
        """Refuse fragments that were staged for another record, another table or another line of it."""
        with documents.refusals("that was given", "the description of staged fragments", given=True):
            one.check()  # a copy of a model is not validated
        noted = self.table(one.table_key)
        if (one.staging_id, one.identity, one.ref) != (self.id, noted.identity, noted.ref):
            raise InvalidInput(
                f"these fragments of {one.table_key} were staged for {one.staging_id}, not for {self.id} on the same table",
                hint="resume the transaction that they were staged for with graph.begin(resume=...)",
                staging_id=one.staging_id,
                table_key=one.table_key,
            )

    def files(self) -> dict[str, StagedFile]:
        """Everything that was added, by its key below the root."""
        return {
            f"{self.table(one.table_key).table.relative}/{file.path}": file for one in self.staged for file in one.files
        }


class Records:
    """The staging records of one graph."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, record: Record, meter: Meter | None = None) -> None:
        try:
            self._store.create(layout.staging_key(record.id), encode(record), meter=meter)
        except KeyExists as error:
            raise Corruption(f"another staging record has the id {record.id}", staging_id=record.id) from error

    def save(self, record: Record, meter: Meter | None = None) -> None:
        self._store.replace(layout.staging_key(record.id), encode(record), meter=meter)

    def read(self, staging_id: str, meter: Meter | None = None) -> Record:
        key = layout.staging_key(staging_id)
        data = self._store.get(key, meter=meter)
        if data is None:
            raise NotFound(
                f"no staging record {staging_id}: it was loaded, aborted, or cleaned up",
                hint="begin a new one with graph.begin()",
                staging_id=staging_id,
            )
        return decode(staging_id, data)

    def delete(self, staging_id: str, meter: Meter | None = None) -> None:
        self._store.delete(layout.staging_key(staging_id), meter=meter)


def encode(record: Record) -> bytes:
    data = documents.seal(record.model_dump())
    return documents.check_size(data, "the staging record", "staging_record_bytes", RECORD_BYTES_MAX)


def decode(staging_id: str, data: bytes) -> Record:
    """The record in ``data``. Raises ``Corruption`` naming the object, or ``UnsupportedStorage``."""
    with documents.refusals(layout.staging_key(staging_id), "the staging record"):
        record = documents.read(
            Record, data, format=FORMAT, bytes_max=RECORD_BYTES_MAX, sealed=True, named={"id": staging_id}
        )
        if len({table.key for table in record.tables}) < len(record.tables):
            raise documents.Malformed("a table is named twice")
        known = {table.key: table for table in record.tables}
        for one in record.staged:
            noted = known.get(one.table_key)
            if noted is None or (one.staging_id, one.identity, one.ref) != (record.id, noted.identity, noted.ref):
                raise documents.Malformed(f"it holds fragments of {one.table_key[:80]!r} that were staged for another")
        return record


# --- files --------------------------------------------------------------------------------------------------------------


def check_files(engine: Engine, record: Record, staged: Iterable[StagedFragments], meter: Meter) -> None:
    """Refuse a batch of which a file is not there as it was written, before anything is armed: a commit looks at none.

    On a local disk a file that was written before the machine was started may have lost its last bytes although it has its
    size, so its digest is compared; without one it is refused."""
    wanted: dict[str, StagedFile] = {}
    for one in staged:
        base = record.table(one.table_key).table.relative
        wanted |= {f"{base}/{file.path}": file for file in one.files}
    names = sorted(wanted)
    sizes = gather([engine.spawn(partial(engine.store.size, name, meter=meter)) for name in names])
    for name, size in zip(names, sizes, strict=True):
        if size != wanted[name].size:
            said = "is missing" if size is None else f"has {size} bytes"
            raise _not_as_written(name, f"{said}; expected {wanted[name].size} bytes")
    if not engine.store.is_remote and record.created_at_us < started_at_us():
        _check_digests(engine.store.uri, wanted)


def _check_digests(root: str, wanted: Mapping[str, StagedFile]) -> None:
    for name, file in sorted(wanted.items()):
        if file.xxh3 is None:
            raise _not_as_written(name, "was staged before this machine was started, and its digest is not known")
        if file_xxh3(f"{root}/{name}") != file.xxh3:
            raise _not_as_written(name, "does not hold the bytes that were written")


def _not_as_written(name: str, said: str) -> InvalidInput:
    return InvalidInput(f"the staged file {name} {said}", hint="stage the batch again", object=name)


def file_xxh3(path: str) -> str:
    """The xxh3-128 of a file on a local disk."""
    import xxhash

    hasher = xxhash.xxh3_128()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            hasher.update(block)
    digest: str = hasher.hexdigest()
    return digest


def described_files(table_uri: str, files: Iterable[tuple[str, int]]) -> list[StagedFile]:
    """Files (path below the table, size) as a description of fragments lists them, with their digests on a local disk."""
    is_local = "://" not in table_uri
    return [
        StagedFile(path=path, size=size, xxh3=file_xxh3(f"{table_uri}/{path}") if is_local else None)
        for path, size in files
    ]


def started_at_us() -> int:
    """When this machine was started; 0 where it does not say."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        return next(int(line.split()[1]) * 1_000_000 for line in lines if line.startswith("btime "))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0
