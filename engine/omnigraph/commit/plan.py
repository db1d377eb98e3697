"""The one plan type: everything a stranger needs to end a write, known before anything durable happens.

Plain values. ``intent`` turns a plan into a file and back; ``decide`` judges it; ``publish`` and ``compensate`` end it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.manifest.rows import Pin, SchemaRow, Tombstone

KINDS = ("load", "mutate", "merge", "schema", "maintenance")


@dataclass(frozen=True)
class BranchName:
    """A branch as a plan carries it: the name for people, the identity for truth."""

    name: str
    identity: str


@dataclass(frozen=True)
class Base:
    """What the plan was made on."""

    manifest_version: int
    head: str
    epoch: int
    mark: str | None
    schema_hash: str


@dataclass(frozen=True)
class TablePlan:
    """One table that the plan writes. The i-th uuid is the transaction that must land at ``pin + 1 + i``."""

    key: str
    identity: str
    path: str
    ref: str | None
    pin: int
    uuids: tuple[str, ...]
    creates: bool = False

    @property
    def target(self) -> int:
        """The version that publishing this plan pins."""
        return self.pin + len(self.uuids)


@dataclass(frozen=True)
class ReadPin:
    """A table that the validators read at this pin."""

    key: str
    identity: str
    ref: str | None
    pin: int


@dataclass(frozen=True)
class Delta:
    """What else the swap changes: the accepted schema, new registrations, dropped tables."""

    schema: SchemaRow | None = None
    register: tuple[Pin, ...] = ()
    tombstone: tuple[Tombstone, ...] = ()


@dataclass(frozen=True)
class CommitInfo:
    """The graph commit that the plan ends in, minted once."""

    id: str
    parents: tuple[str, ...]
    actor: str | None
    idempotency_key: str | None
    expect_head: str | None
    created_at_us: int


@dataclass(frozen=True)
class Owner:
    """The process that made the plan. Only manners look at it: whether to wait, never what is true."""

    host: str
    boot_id: str
    pid: int
    started: int

    @property
    def token(self) -> str:
        return f"{self.host}/{self.boot_id}/{self.pid}/{self.started}"


@dataclass(frozen=True)
class PublishPlan:
    """A write, decided. Complete before any table moves."""

    graph: str
    op: str
    kind: str
    branch: BranchName
    base: Base
    tables: tuple[TablePlan, ...]
    reads: tuple[ReadPin, ...]
    commit: CommitInfo
    owner: Owner
    delta: Delta = field(default_factory=Delta)

    def table(self, key: str) -> TablePlan | None:
        return next((table for table in self.tables if table.key == key), None)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(table.key for table in self.tables)


@dataclass(frozen=True)
class Counts:
    """What an action does to its table, row by row. Travels in the table transaction, so that recovery can report it."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0

    def to_json(self) -> Mapping[str, int]:
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
        }
