"""The accepted schema and changes of it, as commands print them. A plan is the document that ``SchemaPlan.to_dict`` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.wire.model import Model
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
class SchemaPlanned(Model):
    """What another text would change."""

    uri: str
    branch: str
    plan: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SchemaApplied(Receipt):
    """A change of the schema. ``plan`` is None where the key was known already."""

    uri: str
    plan: Mapping[str, Any] | None
