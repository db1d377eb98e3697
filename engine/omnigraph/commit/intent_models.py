"""The members of an intent file, format 2, as models: none more, none less, nothing converted."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from omnigraph.core.documents import Document, Ref, Ulid


class BranchModel(Document):
    name: str
    identity: Ulid


class BaseModel(Document):
    manifest_version: int = Field(ge=1)
    head: Ulid
    epoch: int = Field(ge=0)
    mark: Ulid | None
    schema_id: str


class BasePinModel(Document):
    path: str
    ref: Ref | None
    pin: int = Field(ge=1)


class TargetModel(Document):
    path: str
    ref: Ref | None
    version: int | None
    uuid: str | None


class RecentModel(Document):
    fragments: list[int]
    keys: str


class PinRowModel(Document):
    key: str
    identity: Ulid
    incarnation: int = Field(ge=1)
    type_id: str
    location: str
    ref: Ref | None
    version: int = Field(ge=1)
    rows: int = Field(ge=0)
    fragments: int = Field(ge=0)
    bytes: int = Field(ge=0)
    deleted_rows: int = Field(ge=0)
    unindexed_fragments: int = Field(ge=0)
    owner: Ulid
    bases: list[tuple[Ref | None, int, bool]]
    recent: RecentModel | None


class EffectModel(Document):
    kind: str
    key: str
    identity: str
    base: BasePinModel | None
    target: TargetModel | None
    pin_row: PinRowModel | None


class ReadModel(Document):
    key: str
    identity: Ulid
    ref: Ref | None
    pin: int = Field(ge=0)


class SchemaModel(Document):
    source: str
    canonical: str
    hash: str
    id: str
    steps: list[dict[str, Any]]


class RegistrationModel(Document):
    key: str
    identity: Ulid
    incarnation: int = Field(ge=1)
    type_id: str
    location: str


class TombstoneModel(Document):
    key: str
    identity: Ulid
    incarnation: int = Field(ge=1)
    version: int = Field(ge=0)
    renamed_to: str | None


class RenameModel(Document):
    identity: Ulid
    from_key: str = Field(alias="from")
    to_key: str = Field(alias="to")
    incarnation: int = Field(ge=1)


class DeltaModel(Document):
    schema_row: SchemaModel | None = Field(alias="schema")
    registered: list[RegistrationModel] = Field(alias="register")
    tombstone: list[TombstoneModel]
    rename: list[RenameModel]


class SourceTableModel(Document):
    path: str
    ref: Ref | None
    version: int = Field(ge=1)
    bases: list[tuple[Ref | None, int, bool]]


class SourceModel(Document):
    identity: Ulid
    ref: Ref | None
    manifest_version: int = Field(ge=1)
    commit: Ulid
    tables: list[SourceTableModel]


class MergeModel(Document):
    identity: Ulid
    ref: Ref | None
    manifest_version: int = Field(ge=1)
    commit: Ulid
    bases: list[Ulid]


class RequestModel(Document):
    id: Ulid
    kind: str
    parents: list[Ulid]
    actor: str | None
    idempotency_key: str | None
    expect_head: Ulid | None
    created_at_us: int
    request: str | None
    content: str | None
    owned: bool


class OfferRowsModel(Document):
    key: str
    rows: int = Field(ge=0)
    ipc: str


class OfferModel(Document):
    schema_id: str
    mode: str | None
    options: dict[str, Any]
    query: str | None
    params: dict[str, Any] | None
    rows: list[OfferRowsModel]
    deadline_at_us: int


class OwnerModel(Document):
    host: str
    boot_id: str
    pid: int
    started: int


class IntentFile(Document):
    format: Literal[2]
    graph: Ulid
    op: Ulid
    plan: Ulid | None
    kind: str
    state: str
    branch: BranchModel
    base: BaseModel | None
    effects: list[EffectModel]
    reads: list[ReadModel]
    delta: DeltaModel
    sources: list[SourceModel]
    merge: MergeModel | None
    reverts: list[Ulid] | None
    requests: list[RequestModel]
    applied: list[PinRowModel] | None
    offer: OfferModel | None
    durable: bool
    owner: OwnerModel
