"""Branches as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from omnigraph.core.meter import StorageCost
from omnigraph.core.shown import html_table
from omnigraph.wire.model import Model


@dataclass(frozen=True)
class BranchParent(Model):
    """The commit that a branch was made from. ``branch``: the name of the branch that it lies on, as it was then."""

    branch: str | None
    identity: str
    commit_id: str


@dataclass(frozen=True)
class BranchInfo(Model):
    """One branch. ``identity`` tells it from every other that had, or will have, its name. A list has ``parent`` and ``head``
    only where heads were asked for; main has neither a parent nor a time."""

    name: str
    identity: str
    parent: BranchParent | None = None
    head: str | None = None
    created_at: datetime | None = None
    storage: StorageCost = field(default_factory=StorageCost, compare=False)

    def __repr__(self) -> str:
        at = "" if self.head is None else f" at {self.head}"
        made = (
            "" if self.parent is None else f", made from {self.parent.branch or 'a branch'} at {self.parent.commit_id}"
        )
        return f"<Branch {self.name}{at}{made}>"

    def _repr_html_(self) -> str:
        return BranchList([self])._repr_html_()


class BranchList(list[BranchInfo]):
    """Branches in order. A plain list but for how it shows."""

    def to_dict(self) -> dict[str, Any]:
        return {"branches": [branch.to_dict() for branch in self]}

    def __repr__(self) -> str:
        return "[" + ",\n ".join(map(repr, self)) + "]"

    def _repr_html_(self) -> str:
        rows = [(b.name, b.head, b.parent.branch if b.parent is not None else None, b.created_at) for b in self]
        return html_table(("branch", "head", "made from", "created at"), rows)


@dataclass(frozen=True)
class BranchNames(Model):
    """The branches of a graph, main first."""

    branches: tuple[BranchInfo, ...]


@dataclass(frozen=True)
class BranchDeleted(Model):
    """A branch that was deleted, or, where it is not ``deleted``, would be. ``head``: its last commit."""

    name: str
    identity: str
    head: str | None
    deleted: bool
