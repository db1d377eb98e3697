"""What recovery did, one record an operation: a small file first, rows of a dataset once upkeep has collected it.

Recovery writes ``__recoveries/{op}.json`` after the graph itself is in order and before it deletes the intent, so that the next
recovery repeats what a crash interrupted. The file is created only if it is absent: an operation has one record, and writing
one costs the same whatever the number before. ``fold`` moves the files into a dataset whose rows are keyed by the operation;
until both have happened a record is in both places, and ``read`` joins them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from omnigraph.commit.engine import Engine, gather
from omnigraph.core import documents, failpoints
from omnigraph.core.documents import Document, Ulid
from omnigraph.core.errors import Corruption, OmnigraphError, UnsupportedStorage
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, layout
from omnigraph.table import journal
from omnigraph.table.dataset import TableRef

ROLLED_FORWARD: Final = "RolledForward"
ROLLED_BACK: Final = "RolledBack"
ORPHANED_BRANCH_DISCARDED: Final = "OrphanedBranchDiscarded"
OFFER_WITHDRAWN: Final = "OfferWithdrawn"
TORN_VERSION_MOVED_ASIDE: Final = "TornVersionMovedAside"
RECOVERY_ACTOR: Final = "omnigraph:recovery"

How = Literal["RolledForward", "RolledBack", "OrphanedBranchDiscarded", "OfferWithdrawn", "TornVersionMovedAside"]

FORMAT: Final = 1
TIME_US_MAX: Final = 253_402_300_799_999_999  # the end of the year 9999
FOLD_ROWS: Final = 2000  # records moved by one insert: about a megabyte
RETENTION_US: Final = 30 * 86_400 * 1_000_000  # a record stays at least that long, whatever a cleanup retains

_FIELDS: list[pa.Field[Any]] = [
    pa.field("op", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
    pa.field("plan", pa.string()),
    pa.field("how", pa.string(), nullable=False),
    pa.field("commit_ids", pa.string(), nullable=False),
    pa.field("members", pa.int64(), nullable=False),
    pa.field("branch", pa.string(), nullable=False),
    pa.field("original_actor", pa.string()),
    pa.field("recovered_by", pa.string(), nullable=False),
    pa.field("recovered_at_us", pa.int64(), nullable=False),
    pa.field("tables", pa.string(), nullable=False),
]
SCHEMA = pa.schema(_FIELDS)
_JSON_COLUMNS: Final = ("commit_ids", "branch", "tables")


class _Branch(Document):
    name: str
    identity: Ulid


class _File(Document):
    format: int
    op: Ulid
    plan: Ulid | None
    how: How
    commit_ids: tuple[Ulid, ...]
    members: int
    branch: _Branch
    original_actor: str | None
    recovered_by: str
    recovered_at_us: int
    tables: dict[str, dict[Literal["from", "to"], int]]


@dataclass(frozen=True)
class Recovery:
    """One recovered operation.

    ``members``: how many requests its plan had; ``commit_ids``: theirs. ``recovered_by``: the process that ended it, as
    ``host/boot/pid/started``. ``tables``: per table the version before and the one that counts now.
    """

    op: str
    plan: str | None
    how: str
    commit_ids: tuple[str, ...]
    members: int
    branch: Mapping[str, str]  # name and identity
    original_actor: str | None
    recovered_by: str
    recovered_at_us: int
    tables: Mapping[str, Mapping[str, int]]

    def to_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "commit_ids": list(self.commit_ids),
            "branch": dict(self.branch),
            "tables": {key: dict(moved) for key, moved in sorted(self.tables.items())},
        }


@dataclass(frozen=True)
class Unreadable:
    """A record that cannot be read. It blocks nothing; recovery does not need it."""

    place: str
    reason: str


# --- writing ------------------------------------------------------------------------------------------------------------


def write(engine: Engine, recovery: Recovery, meter: Meter | None = None) -> bool:
    """Record the recovery. Return False where an earlier attempt already has."""
    failpoints.hit("audit.before_write", operation_id=recovery.op)
    data = documents.canonical({"format": FORMAT, **recovery.to_dict()})
    try:
        engine.store.create(layout.recovery_key(recovery.op), data, meter=meter)
    except KeyExists:
        return False
    return True


# --- reading ------------------------------------------------------------------------------------------------------------


def read(engine: Engine, meter: Meter | None = None) -> list[Recovery]:
    """Every recovery on record, oldest first. What does not read is left out."""
    return read_all(engine, meter)[0]


def read_all(engine: Engine, meter: Meter | None = None) -> tuple[list[Recovery], list[Unreadable]]:
    """Every recovery on record, oldest first, and the records that cannot be read."""
    files, unreadable = _files(engine, _keys(engine, meter), meter)
    found = {one.op: one for one in files}
    try:
        # The dataset after the files: a file that is gone by now has its row.
        rows = collected(engine)
    except (OmnigraphError, LookupError, TypeError, ValueError) as error:
        unreadable.append(Unreadable(layout.AUDIT, str(error).partition("\n")[0]))
        rows = []
    found.update((row.op, row) for row in rows)
    return sorted(found.values(), key=lambda one: (one.recovered_at_us, one.op)), unreadable


def collected(engine: Engine) -> list[Recovery]:
    """The rows of the dataset, in no order."""
    table = journal.read_all(engine.tables, TableRef(layout.AUDIT))
    return [] if table is None else [_from_row(row) for row in table.to_pylist()]


def _keys(engine: Engine, meter: Meter | None) -> list[str]:
    return [entry.key for entry in engine.store.list(layout.RECOVERIES, meter=meter)]


def _files(engine: Engine, keys: Iterable[str], meter: Meter | None) -> tuple[list[Recovery], list[Unreadable]]:
    found: list[Recovery] = []
    unreadable: list[Unreadable] = []

    def read_one(key: str) -> Recovery | Unreadable | None:
        op = layout.recovery_op(key)
        if op is None:
            return Unreadable(key, "it is not the name of a record")
        data = engine.store.get(key, meter=meter)
        if data is None:
            return None
        try:
            return decode(op, data)
        except (Corruption, UnsupportedStorage) as error:
            return Unreadable(key, error.message)

    for one in gather([engine.spawn(read_one, key) for key in keys]):
        if isinstance(one, Unreadable):
            unreadable.append(one)
        elif one is not None:
            found.append(one)
    return found, unreadable


def decode(op: str, data: bytes) -> Recovery:
    """The record in a file. Raises ``Corruption`` or ``UnsupportedStorage`` naming it."""
    with documents.refusals(layout.recovery_key(op), "the record of a recovery"):
        return _recovery(documents.read(_File, data, format=FORMAT, named={"op": op}))


def _recovery(file: _File) -> Recovery:
    if any(moved.keys() != {"from", "to"} for moved in file.tables.values()):
        raise ValueError("tables: each has from and to")
    if not 0 <= file.recovered_at_us <= TIME_US_MAX:
        raise ValueError(f"recovered_at_us is {file.recovered_at_us}")
    facts = {name: value for name, value in file.model_dump().items() if name != "format"}
    return Recovery(**facts)


# --- upkeep -------------------------------------------------------------------------------------------------------------


def fold(engine: Engine, meter: Meter | None = None) -> int:
    """Move the files of records into the dataset. Return how many were moved.

    The row is durable before its file is deleted; repeating it inserts nothing twice. What does not read stays."""
    moved = 0
    keys = _keys(engine, meter)
    for start in range(0, len(keys), FOLD_ROWS):
        found, _unreadable = _files(engine, keys[start : start + FOLD_ROWS], meter)
        if not found:
            continue
        rows = [_to_row(one) for one in found]
        table = pa.table({name: [row[name] for row in rows] for name in SCHEMA.names}, schema=SCHEMA)
        journal.insert_once(engine.tables, TableRef(layout.AUDIT), SCHEMA, "op", table)
        failpoints.hit("audit.folded")
        engine.store.delete_many([layout.recovery_key(one.op) for one in found], meter=meter)
        moved += len(found)
    return moved


def expire(engine: Engine, before_us: int) -> None:
    """Delete the rows of recoveries before a time, and what the dataset keeps of earlier versions of itself."""
    journal.trim(engine.tables, TableRef(layout.AUDIT), f"recovered_at_us < {int(before_us)}")


def _to_row(recovery: Recovery) -> dict[str, Any]:
    values = recovery.to_dict()
    return {**values, **{name: documents.canonical(values[name]).decode() for name in _JSON_COLUMNS}}


def _from_row(row: Mapping[str, Any]) -> Recovery:
    body = {**row, **{name: json.loads(row[name]) for name in _JSON_COLUMNS}}
    return _recovery(documents.fill(_File, {"format": FORMAT, **body}))
