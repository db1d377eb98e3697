"""The difference of two states of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.wire.model import ABSENT, Count, Model
from omnigraph.wire.schema import SchemaStepReport


@dataclass(frozen=True)
class DiffSide(Model):
    """One of the two states. ``commit_id``: the commit that was named, or the head of the branch."""

    branch: str
    commit_id: str


@dataclass(frozen=True)
class DiffCounts(Model):
    """How many rows of a type differ. ``reason``: why they are more than were written: the type was ``created`` or ``dropped``;
    a change of the schema wrote a column of every row anew (``columns``), or the two tables have no history in common
    (``unrelated``), so that all rows were compared."""

    inserted: Count = 0
    updated: Count = 0
    deleted: Count = 0
    reason: str | None = None


@dataclass(frozen=True)
class DiffReport(Model):
    """What it takes to get from one state to the other. ``schema``: the steps from the schema of ``a`` to that of ``b``.
    ``rows``: the changed rows where they were asked for, up to a bound; ``truncated``: there are more."""

    a: DiffSide
    b: DiffSide
    types: Mapping[str, DiffCounts]
    schema: tuple[SchemaStepReport, ...] = ()
    rows: tuple[Mapping[str, Any], ...] | None = field(default=None, metadata=ABSENT)
    truncated: bool | None = field(default=None, metadata=ABSENT)
