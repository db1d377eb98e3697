"""The rows of ``__manifest``: values, and their one physical form.

Owns the column layout of the storage format and nothing else. What rows mean together is ``state``; where they are kept
is ``swap``. Rows of a kind that this release does not know are carried along unread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from omnigraph.core.errors import Corruption

STORAGE_VERSION = 4
VERSION_KEY = "omnigraph:internal_schema_version"

TABLE = "table"
TABLE_VERSION = "table_version"
TABLE_TOMBSTONE = "table_tombstone"
SCHEMA = "schema"
GRAPH_HEAD = "graph_head"
GRAPH_COMMIT = "graph_commit"
PLAN_ABORT = "plan_abort"
HISTORY = (GRAPH_COMMIT, PLAN_ABORT)

_FIELDS: list[pa.Field[Any]] = [
    pa.field("object_id", pa.string(), nullable=False),
    pa.field("object_type", pa.string(), nullable=False),
    pa.field("table_key", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("table_version", pa.uint64()),
    pa.field("table_branch", pa.string()),
    pa.field("row_count", pa.uint64()),
    pa.field("seq", pa.uint64()),
    pa.field("metadata", pa.string()),
]
ARROW_SCHEMA = pa.schema(_FIELDS, metadata={VERSION_KEY: str(STORAGE_VERSION)})


@dataclass(frozen=True)
class RawRow:
    """One row as stored. Also the form in which rows of unknown kinds survive."""

    object_id: str
    object_type: str
    table_key: str = ""
    location: str | None = None
    table_version: int | None = None
    table_branch: str | None = None
    row_count: int | None = None
    seq: int | None = None
    metadata: str | None = None


@dataclass(frozen=True)
class Pin:
    """A registered table and the version that the branch publishes of it."""

    key: str
    identity: str
    incarnation: int
    type_id: str
    location: str
    ref: str | None
    version: int
    rows: int = 0
    fragments: int = 0
    bytes: int = 0
    deleted_rows: int = 0
    unindexed_fragments: int = 0

    @property
    def triple(self) -> tuple[str, str | None, int]:
        """What "the same pin" means: table identity, ref, version."""
        return (self.identity, self.ref, self.version)


@dataclass(frozen=True)
class Tombstone:
    key: str
    incarnation: int
    version: int


@dataclass(frozen=True)
class SchemaRow:
    """The accepted schema: what was written, the form it is rebuilt from, and the hash a plan is made on."""

    source: str
    canonical: str
    hash: str


@dataclass(frozen=True)
class Head:
    """The mutable row that every swap of a branch rewrites."""

    identity: str
    commit_id: str
    epoch: int = 0
    owner: str | None = None
    mark: str | None = None
    boundary: int = 0


@dataclass(frozen=True)
class TableCounts:
    """What one commit did to one table."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class CommitRow:
    """One graph commit. The row is its receipt too, so that a repeated idempotency key can be answered from it."""

    commit_id: str
    parents: tuple[str, ...]
    actor: str | None
    created_at_us: int
    ref: str | None
    manifest_version: int
    kind: str
    tables: Mapping[str, TableCounts] = field(default_factory=dict)
    idempotency_key: str | None = None
    seq: int = 0


@dataclass(frozen=True)
class AbortRow:
    """The other way a plan can end. Keyed by the plan's commit id, whoever writes it."""

    commit_id: str
    actor: str | None
    base: int
    created_at_us: int
    manifest_version: int = 0
    seq: int = 0


HistoryRow = CommitRow | AbortRow
_ENCODED = "_encoded"


# --- values to rows -----------------------------------------------------------------------------------------------------


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def pin_rows(pin: Pin) -> tuple[RawRow, RawRow]:
    """A registered table is two rows: what it is, and where it stands."""
    return (
        RawRow(
            object_id=pin.key,
            object_type=TABLE,
            table_key=pin.key,
            location=pin.location,
            metadata=_json({"identity": pin.identity, "incarnation": pin.incarnation, "type_id": pin.type_id}),
        ),
        RawRow(
            object_id=pin.key,
            object_type=TABLE_VERSION,
            table_key=pin.key,
            table_version=pin.version,
            table_branch=pin.ref,
            row_count=pin.rows,
            metadata=_json(
                {
                    "fragments": pin.fragments,
                    "bytes": pin.bytes,
                    "deleted_rows": pin.deleted_rows,
                    "unindexed_fragments": pin.unindexed_fragments,
                }
            ),
        ),
    )


def tombstone_row(tombstone: Tombstone) -> RawRow:
    return RawRow(
        object_id=f"{tombstone.key}$tombstone${tombstone.incarnation}",
        object_type=TABLE_TOMBSTONE,
        table_key=tombstone.key,
        metadata=_json({"version": tombstone.version}),
    )


def schema_row(schema: SchemaRow) -> RawRow:
    body = {"source": schema.source, "canonical": schema.canonical, "hash": schema.hash}
    return RawRow(object_id="schema", object_type=SCHEMA, metadata=_json(body))


def head_row(head: Head) -> RawRow:
    return RawRow(
        object_id=f"graph_head:{head.identity}",
        object_type=GRAPH_HEAD,
        metadata=_json(
            {
                "head": head.commit_id,
                "epoch": head.epoch,
                "owner": head.owner,
                "mark": head.mark,
                "boundary": head.boundary,
            }
        ),
    )


def history_row(row: HistoryRow) -> RawRow:
    """History never changes, and each swap writes the newest rows again: what was encoded once is kept with its value."""
    found: RawRow | None = vars(row).get(_ENCODED)
    if found is None:
        found = _encoded_history(row)
        vars(row)[_ENCODED] = found  # no field: a changed copy of the value does not take it along
    return found


def _encoded_history(row: HistoryRow) -> RawRow:
    if isinstance(row, CommitRow):
        tables = {
            key: {
                "version": counts.version,
                "inserted": counts.inserted,
                "updated": counts.updated,
                "deleted": counts.deleted,
                "unchanged": counts.unchanged,
            }
            for key, counts in row.tables.items()
        }
        body: dict[str, Any] = {
            "parents": list(row.parents),
            "actor": row.actor,
            "created_at_us": row.created_at_us,
            "ref": row.ref,
            "manifest_version": row.manifest_version,
            "idempotency_key": row.idempotency_key,
            "kind": row.kind,
            "tables": tables,
        }
        kind, ref = GRAPH_COMMIT, row.ref
    else:
        body = {"actor": row.actor, "base": row.base, "created_at_us": row.created_at_us}
        kind, ref = PLAN_ABORT, None
    return RawRow(
        object_id=row.commit_id,
        object_type=kind,
        table_version=row.manifest_version,
        table_branch=ref,
        seq=row.seq,
        metadata=_json(body),
    )


# --- rows to values -----------------------------------------------------------------------------------------------------


def _body(row: RawRow) -> dict[str, Any]:
    loaded = json.loads(row.metadata or "{}")
    if not isinstance(loaded, dict):
        raise ValueError(f"metadata of {row.object_type} {row.object_id!r} is not an object")
    return loaded


def parse_pin(registration: RawRow, version: RawRow) -> Pin:
    what, where = _body(registration), _body(version)
    if registration.location is None or version.table_version is None:
        raise ValueError(f"row of table {registration.table_key!r} is incomplete")
    return Pin(
        key=registration.table_key,
        identity=what["identity"],
        incarnation=what["incarnation"],
        type_id=what["type_id"],
        location=registration.location,
        ref=version.table_branch,
        version=version.table_version,
        rows=version.row_count or 0,
        fragments=where["fragments"],
        bytes=where["bytes"],
        deleted_rows=where["deleted_rows"],
        unindexed_fragments=where["unindexed_fragments"],
    )


def parse_tombstone(row: RawRow) -> Tombstone:
    return Tombstone(row.table_key, int(row.object_id.rsplit("$", 1)[1]), _body(row)["version"])


def parse_schema(row: RawRow) -> SchemaRow:
    body = _body(row)
    return SchemaRow(body["source"], body["canonical"], body["hash"])


def parse_head(row: RawRow) -> Head:
    body = _body(row)
    return Head(
        row.object_id.removeprefix("graph_head:"),
        body["head"],
        body["epoch"],
        body["owner"],
        body["mark"],
        body["boundary"],
    )


@lru_cache(maxsize=1024)
def parse_history(row: RawRow) -> HistoryRow:
    """History never changes, and each reload of a state reads the newest rows again."""
    found = _decoded_history(row)
    vars(found)[_ENCODED] = row
    return found


def _decoded_history(row: RawRow) -> HistoryRow:
    body = _body(row)
    if row.object_type == PLAN_ABORT:
        return AbortRow(
            row.object_id, body["actor"], body["base"], body["created_at_us"], row.table_version or 0, row.seq or 0
        )
    return CommitRow(
        commit_id=row.object_id,
        parents=tuple(body["parents"]),
        actor=body["actor"],
        created_at_us=body["created_at_us"],
        ref=body["ref"],
        manifest_version=body["manifest_version"],
        kind=body["kind"],
        tables={key: TableCounts(**counts) for key, counts in body["tables"].items()},
        idempotency_key=body["idempotency_key"],
        seq=row.seq or 0,
    )


def parse_archive(table: pa.Table) -> tuple[HistoryRow, ...]:
    """The history in a fragment of the archive, oldest first. Raises ``Corruption`` where a row does not read."""
    found: list[HistoryRow] = []
    for row in from_arrow(table):
        if row.object_type not in HISTORY:
            continue
        try:
            found.append(parse_history(row))
        except (LookupError, ValueError, TypeError) as error:
            raise Corruption(
                f"a record of the history in __manifest does not read: {row.object_type} {row.object_id[:80]!r}",
                hint="read again; if it stays so, keep the files and run `omnigraph verify --deep`",
                object="__manifest",
            ) from error
    return tuple(sorted(found, key=lambda one: one.seq))


# --- Arrow --------------------------------------------------------------------------------------------------------------


def to_arrow(rows: Iterable[RawRow]) -> pa.Table:
    listed = list(rows)
    columns = {name: [getattr(row, name) for row in listed] for name in ARROW_SCHEMA.names}
    return pa.table(columns, schema=ARROW_SCHEMA)


def from_arrow(table: pa.Table) -> list[RawRow]:
    columns = (table.column(name).to_pylist() for name in ARROW_SCHEMA.names)
    return list(map(RawRow, *columns))
