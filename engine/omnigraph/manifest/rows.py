"""The rows of a manifest line as values, and the column layout of the storage format.

``codec`` turns values into stored rows and back, ``state`` says what rows mean together, ``fragments`` says in which
fragment a row lies, ``swap`` reads and writes them. Rows of a kind that this release does not know are carried along as
``RawRow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from omnigraph.manifest.recent import Recent

__all__ = [
    "ARROW_SCHEMA",
    "HISTORY",
    "STORAGE_VERSION",
    "AbortRow",
    "BaseVersion",
    "Closed",
    "CommitRow",
    "Head",
    "HistoryRow",
    "MergedRow",
    "Parent",
    "Pin",
    "RawRow",
    "Recent",
    "SchemaRow",
    "TableChange",
    "Tombstone",
]

STORAGE_VERSION: Final = 5
VERSION_KEY: Final = "omnigraph:internal_schema_version"
DIGESTS_KEY: Final = "omnigraph:digests"

TABLE: Final = "table"
TABLE_VERSION: Final = "table_version"
NO_TABLE: Final = "no_table"
TABLE_TOMBSTONE: Final = "table_tombstone"
SCHEMA: Final = "schema"
GRAPH_HEAD: Final = "graph_head"
GRAPH_COMMIT: Final = "graph_commit"
MERGED_COMMIT: Final = "merged_commit"
PLAN_ABORT: Final = "plan_abort"
HISTORY: Final = (GRAPH_COMMIT, MERGED_COMMIT, PLAN_ABORT)

KINDS: Final = ("init", "load", "mutate", "merge", "schema", "revert", "restore", "maintenance")
VIAS: Final = ("write", "adopt", "rows", "graft", "restore", "schema")

# Beyond 32 KiB of text, which a full tail is, Lance trains a compression anew for each file: two thirds of the processor time
# of writing a current fragment, in every swap, to save 30 KB. It pays where one row alone is long: the commit that makes 2,000
# types has 288 KB, rides in the tail for at least 64 swaps, and is 24 KB compressed. Lance writes a file as the version says
# that it is written on, so this is said of a version, by the rows that the next one will write again.
LONG_CHARS: Final = 4 * 1024
_PLAIN = {"lance-encoding:compression": "none"}

_FIELDS: list[pa.Field[Any]] = [
    pa.field("object_id", pa.string(), nullable=False),
    pa.field("object_type", pa.string(), nullable=False),
    pa.field("table_key", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("table_version", pa.uint64()),
    pa.field("table_branch", pa.string()),
    pa.field("row_count", pa.uint64()),
    pa.field("seq", pa.uint64()),
    pa.field("metadata", pa.string(), metadata=_PLAIN),
    pa.field("idempotency_key", pa.string()),
]
ARROW_SCHEMA = pa.schema(_FIELDS)
COMPRESSED_SCHEMA = pa.schema([one.remove_metadata() for one in _FIELDS])


@dataclass(frozen=True)
class RawRow:
    """One row as stored. Also the form in which rows of unknown kinds are kept."""

    object_id: str
    object_type: str
    table_key: str = ""
    location: str | None = None
    table_version: int | None = None
    table_branch: str | None = None
    row_count: int | None = None
    seq: int | None = None
    metadata: str | None = None
    idempotency_key: str | None = None


# --- state rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BaseVersion:
    """A version of another line of the same dataset. ``needed``: the pin still names files that lie there."""

    ref: str | None
    version: int
    needed: bool


@dataclass(frozen=True)
class Pin:
    """A registered table and the version that the branch publishes of it.

    ``owner`` is the identity of the branch whose plans may commit to that line; it never changes. ``bases`` are the versions
    that the line was forked from, nearest first.
    """

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
    owner: str = field(kw_only=True)
    bases: tuple[BaseVersion, ...] = ()
    recent: Recent | None = None

    @property
    def triple(self) -> tuple[str, str | None, int]:
        """What "the same pin" means: table identity, ref, version."""
        return (self.identity, self.ref, self.version)

    @cached_property
    def registration(self) -> tuple[str, str, int, str, str]:
        """What the ``table`` row says: everything that a swap of data leaves alone."""
        return (self.key, self.identity, self.incarnation, self.type_id, self.location)


@dataclass(frozen=True)
class Tombstone:
    """A dropped or renamed table. ``renamed_to``: the key under which the identity lives on, or None."""

    key: str
    incarnation: int
    identity: str
    version: int
    renamed_to: str | None = None


@dataclass(frozen=True)
class SchemaRow:
    """The accepted schema: the text, the form it is rebuilt from, the hash of its shape, the id with identities."""

    source: str
    canonical: str
    hash: str
    id: str


@dataclass(frozen=True)
class Parent:
    """The state that a branch was made from."""

    identity: str
    ref: str | None
    manifest_version: int
    commit: str


@dataclass(frozen=True)
class Closed:
    """When, and by whom, a branch was deleted. Its line takes no swap after the one that says this."""

    at_us: int
    actor: str | None


@dataclass(frozen=True)
class Head:
    """The mutable row that every swap of a branch rewrites.

    ``unsynced_since``: the first version of this line that a relaxed writer swapped and that has not been synced since.
    """

    identity: str
    commit_id: str
    epoch: int = 0
    owner: str | None = None
    mark: str | None = None
    boundary: int = 0
    name: str = "main"
    parent: Parent | None = None
    closed: Closed | None = None
    unsynced_since: int | None = None


# --- history rows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableChange:
    """What one commit did to one table. Counts are None where nothing was compared."""

    identity: str
    ref: str | None
    version: int
    via: str = "write"
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    unchanged: int | None = 0


@dataclass(frozen=True)
class CommitRow:
    """One graph commit. The row is its receipt too, so that a repeated idempotency key can be answered from it.

    ``manifest_version`` and ``version`` are the same number: the version of this line that wrote the row. In a commit that
    was merged from another line the first one is that line's.
    """

    commit_id: str
    plan: str
    parents: tuple[str, ...]
    actor: str | None
    created_at_us: int
    ref: str | None
    manifest_version: int
    kind: str
    tables: Mapping[str, TableChange] = field(default_factory=dict)
    idempotency_key: str | None = None
    request: str | None = None
    content: str | None = None
    schema: Mapping[str, Any] | None = None
    merge: Mapping[str, Any] | None = None
    reverts: tuple[str, ...] | None = None
    recovered_by: str | None = None
    recovered_at_us: int | None = None
    seq: int = 0
    version: int = 0

    @cached_property
    def object_id(self) -> str:
        return self.commit_id


@dataclass(frozen=True)
class MergedRow:
    """A commit of another line that a merge has carried here.

    ``row`` is the commit as it stood there, its ``seq`` and ``version`` apart, which are 0; ``version`` and ``seq`` are this
    line's.
    """

    row: CommitRow
    version: int = 0
    seq: int = 0

    @property
    def object_id(self) -> str:
        return self.row.commit_id


@dataclass(frozen=True)
class AbortRow:
    """The other way in which a plan ends.

    ``id`` is the plan's id, the id of a request that the plan owns, or the id of a withdrawn offer. ``base`` is the manifest
    version that the plan was made on.
    """

    id: str
    plan: str
    actor: str | None
    base: int
    created_at_us: int
    version: int = 0
    seq: int = 0
    ref: str | None = None

    @property
    def object_id(self) -> str:
        return self.id


HistoryRow = CommitRow | MergedRow | AbortRow
