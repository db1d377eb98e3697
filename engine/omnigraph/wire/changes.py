"""What a change feed tells, as values and as documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from omnigraph.wire.model import Model

ChangeKind = Literal["insert", "update", "delete", "schema"]


@dataclass(frozen=True)
class Change(Model):
    """One row that was inserted, updated or deleted, or a change of the schema. ``commit_ids``: the commits that did it.

    ``row``: the row as it became, None where it was deleted; of a schema its text and the steps that led to it. ``before``: the
    row as it was, if it was asked for.
    """

    derived: ClassVar[tuple[str, ...]] = ("commit_id",)

    commit_ids: tuple[str, ...]
    type: str | None
    key: str | None
    kind: ChangeKind
    row: Mapping[str, Any] | None
    before: Mapping[str, Any] | None = None

    @property
    def commit_id(self) -> str:
        """The last of its commits. A reader that has every change up to it may give it as ``since``."""
        return next(reversed(self.commit_ids), "")


@dataclass(frozen=True)
class ChangeList(Model):
    """The changes of a branch after one commit and up to another. ``cursor``: from where to go on."""

    branch: str
    since: str
    until: str
    cursor: str
    changes: tuple[Change, ...]
