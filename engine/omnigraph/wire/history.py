"""Commits as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from omnigraph.core.shown import html_table, list_text
from omnigraph.wire.model import Count, Model
from omnigraph.wire.receipt import TableChange


@dataclass(frozen=True)
class Commit(Model):
    """One commit of a graph. ``tables``: what it did to each table it changed; ``grouped_with``: the other commits of its
    swap; ``schema``: the ids of the schema before and after, and the steps with their fills, where it changed the schema.
    ``merge``: what was merged, where it is a merge: identity and ref of the source's line, its version of the manifest, the
    source's ``commit`` and the ``bases``. ``reverts``: the commits that it takes back. ``recovered_by``: the actor of
    the recovery that published it, where its own process had ended: ``graph.recoveries()`` says which process that was."""

    id: str
    parents: tuple[str, ...]
    actor: str | None
    created_at: datetime
    kind: str
    branch: str
    tables: Mapping[str, TableChange]
    manifest_version: Count
    idempotency_key: str | None = None
    grouped_with: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    merge: Mapping[str, Any] | None = None
    reverts: tuple[str, ...] | None = None
    recovered_by: str | None = None

    def __repr__(self) -> str:
        by = f" by {self.actor}" if self.actor is not None else ""
        when = self.created_at.isoformat(sep=" ", timespec="milliseconds")
        return f"<Commit {self.id} {self.kind}{by} at {when}: {', '.join(self.tables) or 'no tables'}>"

    def _repr_html_(self) -> str:
        return Commits([self])._repr_html_()


class Commits(list[Commit]):
    """Commits in order. A plain list but for how it shows."""

    def to_dict(self) -> dict[str, Any]:
        return {"commits": [commit.to_dict() for commit in self]}

    def __repr__(self) -> str:
        return "[" + ",\n ".join(map(repr, self)) + "]"

    def _repr_html_(self) -> str:
        rows = [(c.id, c.created_at, c.kind, c.actor, ", ".join(c.tables)) for c in self]
        return html_table(("commit", "created at", "kind", "actor", "tables"), rows)


@dataclass(frozen=True, repr=False)
class RowChange(Model):
    """What one swap did to a row. ``kind``: insert, update or delete. ``commit_ids``: the commit, or all commits of one swap that
    wrote to the table: they have one state before and one after. ``actor``: None where they have several."""

    commit_ids: tuple[str, ...]
    kind: str
    actor: str | None
    created_at: datetime
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def __repr__(self) -> str:
        by = f" by {self.actor}" if self.actor is not None else ""
        when = self.created_at.isoformat(sep=" ", timespec="milliseconds")
        changed = f": {list_text(self.changed)}" if self.changed else ""
        return f"<RowChange {self.kind} in {', '.join(self.commit_ids)}{by} at {when}{changed}>"

    def _repr_html_(self) -> str:
        before, after = self.before or {}, self.after or {}
        rows = [(name, before.get(name), after.get(name)) for name in after or before]
        return html_table(("property", "before", "after"), rows, f"{self.kind} in {', '.join(self.commit_ids)}")

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that have another value, under their names after it."""
        before, after = self.before or {}, self.after or {}
        return tuple(name for name, value in after.items() if name not in before or before[name] != value)


class RowHistory(list[RowChange]):
    """Changes of a row, newest first. A plain list, and ``reclaimed``: the commit at which it ends because a cleanup took what is
    older; None where it goes back to the beginning."""

    reclaimed: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"changes": [change.to_dict() for change in self], "reclaimed": self.reclaimed}

    def __repr__(self) -> str:
        end = [] if self.reclaimed is None else [f"… commit {self.reclaimed} and older ones: cleaned up"]
        return "[" + ",\n ".join([*map(repr, self), *end]) + "]"

    def _repr_html_(self) -> str:
        rows = [(c.commit_ids[-1], c.created_at, c.kind, c.actor, ", ".join(c.changed)) for c in self]
        notes = [] if self.reclaimed is None else [f"What commit {self.reclaimed} and older ones did was cleaned up."]
        return html_table(("commit", "created at", "kind", "actor", "changed"), rows, notes=notes)


@dataclass(frozen=True)
class HistoryOfRow(Model):
    """Changes of a row of a branch, newest first, as a command prints them. ``reclaimed``: the commit at which they end because a
    cleanup took what is older."""

    branch: str
    type: str
    id: str
    changes: tuple[RowChange, ...]
    reclaimed: str | None


@dataclass(frozen=True)
class CommitList(Model):
    """Commits of a branch, newest first."""

    branch: str
    commits: tuple[Commit, ...]
