"""The accepted schema and changes of it, as commands print them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from omnigraph.wire.model import Count, Model
from omnigraph.wire.receipt import Receipt

SchemaFormat = Literal["pg", "json", "mermaid", "dot"]


@dataclass(frozen=True)
class SchemaSource(Model):
    """The accepted schema. ``text``: as ``format`` asks for it."""

    schema_source: str
    schema_hash: str
    schema_id: str
    format: SchemaFormat
    text: str


@dataclass(frozen=True)
class SchemaStepCost(Model):
    """What a step asks of the store, apart from the one swap of the commit. ``scans``: columns that are read whole."""

    requests: Count
    requests_a_fragment: Count
    scans: tuple[str, ...]


@dataclass(frozen=True)
class SchemaStepReport(Model):
    """One change of a schema. ``fill`` has one member, which says where the values of an added property come from."""

    kind: str
    type: str
    type_id: str
    property: str | None
    property_id: str | None
    before: str | None = field(metadata={"name": "from"})
    after: str | None = field(metadata={"name": "to"})
    fill: Mapping[str, Any] | None
    supported: bool
    loss: bool
    cost: SchemaStepCost
    reason: str | None
    hint: str | None


@dataclass(frozen=True, repr=False)
class SchemaPlanReport(Model):
    """How one schema becomes another. ``hard``: whether drops also take the bytes away."""

    supported: bool
    loss: bool
    hard: bool
    steps: tuple[SchemaStepReport, ...]

    def __repr__(self) -> str:
        found = ("" if self.supported else "not supported, ") + ("with loss" if self.loss else "no loss")
        return f"<SchemaPlanReport {found}: {len(self.steps)} steps>"


@dataclass(frozen=True)
class SchemaPlanned(Model):
    """What another text would change."""

    uri: str
    branch: str
    plan: SchemaPlanReport


@dataclass(frozen=True, kw_only=True)
class SchemaApplied(Receipt):
    """A change of the schema. ``plan`` is None where the key was known already."""

    uri: str
    plan: SchemaPlanReport | None
