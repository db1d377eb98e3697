"""The one plan type: everything that another process needs to end a write, known before anything durable happens.

Plain values. ``intent`` turns a plan into a file and back; ``decide`` judges it; ``protocol`` and ``recovery`` end it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from omnigraph.commit.effects import Chain, Effect, chains
from omnigraph.commit.properties import Counts
from omnigraph.manifest.rows import SchemaRow, Tombstone

__all__ = [
    "KINDS",
    "Base",
    "BranchName",
    "Counts",
    "Delta",
    "Owner",
    "PublishPlan",
    "ReadPin",
    "Registration",
    "Rename",
    "RequestInfo",
    "Source",
    "SourceTable",
]

MAINTENANCE = "maintenance"
KINDS = ("load", "mutate", "merge", "schema", "revert", "restore", MAINTENANCE)
REQUESTS_MAX = 64


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
    schema_id: str


@dataclass(frozen=True)
class ReadPin:
    """A table that the validators read at this pin. Pin 0: it was absent."""

    key: str
    identity: str
    ref: str | None
    pin: int


@dataclass(frozen=True)
class Registration:
    """A table that the swap makes known: what it is, apart from where it stands."""

    key: str
    identity: str
    incarnation: int
    type_id: str
    location: str


@dataclass(frozen=True)
class Rename:
    """A table whose type gets another name. Its identity and its files stay."""

    identity: str
    from_key: str
    to_key: str
    incarnation: int


@dataclass(frozen=True)
class Delta:
    """What else the swap changes: the accepted schema, new registrations, dropped and renamed tables.

    ``steps`` are the steps of the schema change as the commit's row keeps them."""

    schema: SchemaRow | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    register: tuple[Registration, ...] = ()
    tombstone: tuple[Tombstone, ...] = ()
    rename: tuple[Rename, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.schema is None and not (self.register or self.tombstone or self.rename)


@dataclass(frozen=True)
class SourceTable:
    """One table version that the plan copies from or adopts."""

    path: str
    ref: str | None
    version: int
    bases: tuple[tuple[str | None, int, bool], ...] = ()


@dataclass(frozen=True)
class Source:
    """A manifest version that the plan leans on. It stays a root of cleanup while the intent is there."""

    identity: str
    ref: str | None
    manifest_version: int
    commit: str
    tables: tuple[SourceTable, ...] = ()


@dataclass(frozen=True)
class RequestInfo:
    """One request that the plan answers: the graph commit that it becomes, minted once."""

    id: str
    kind: str
    parents: tuple[str, ...]
    actor: str | None
    idempotency_key: str | None
    expect_head: str | None
    created_at_us: int
    request: str | None = None
    content: str | None = None
    owned: bool = True  # False only for a request taken from another writer's offer


@dataclass(frozen=True)
class Owner:
    """The process that made the plan. It decides only how long others wait, never what is true."""

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
    id: str
    kind: str
    branch: BranchName
    base: Base
    effects: tuple[Effect, ...]
    reads: tuple[ReadPin, ...]
    requests: tuple[RequestInfo, ...]
    owner: Owner
    delta: Delta = field(default_factory=Delta)
    sources: tuple[Source, ...] = ()
    merge: Mapping[str, Any] | None = None
    reverts: tuple[str, ...] | None = None

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        """The effects by table, in key order."""
        return chains(self.effects)

    @cached_property
    def landing(self) -> tuple[Chain, ...]:
        """The tables that get new versions."""
        return tuple(chain for chain in self.chains if chain.lands)

    def chain(self, key: str) -> Chain | None:
        return next((chain for chain in self.chains if chain.key == key), None)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(effect.key for effect in self.effects)

    @property
    def members(self) -> tuple[str, ...]:
        """The commit ids that publishing the plan makes visible, in order."""
        return tuple(request.id for request in self.requests)

    @property
    def owned(self) -> tuple[str, ...]:
        return tuple(request.id for request in self.requests if request.owned)

    @property
    def ends(self) -> tuple[str, ...]:
        """The ids that an abort of this plan is recorded under: the plan's own, and those of the requests it owns."""
        return (self.id, *(one for one in self.owned if one != self.id))

    @property
    def head(self) -> str:
        """The commit that is the branch's head once the plan is published; the plan id where it carries none."""
        return self.requests[-1].id if self.requests else self.id

    @property
    def actor(self) -> str | None:
        return self.requests[0].actor if self.requests else None

    @property
    def needs_record(self) -> bool:
        """Whether giving this plan up must leave an abort record even where a moved pin has ended it already.

        A plan that takes versions from elsewhere, or whose pin can come back, is not dead by a pin."""
        special = any(effect.kind in ("adopt", "fork", "restore") for effect in self.effects)
        return bool(special or self.sources or not self.delta.is_empty or len(self.requests) != 1 or not self.owned)


def plan_id(requests: tuple[RequestInfo, ...], fresh: str) -> str:
    """The id of a plan: its commit's where there is exactly one request and the plan owns it, else one of its own."""
    if len(requests) == 1 and requests[0].owned:
        return requests[0].id
    return fresh
