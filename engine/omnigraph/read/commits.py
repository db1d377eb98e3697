"""The commits of a branch as values, newest first. Reads the lineage; opens no version."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.txn import read_current
from omnigraph.core.meter import Meter
from omnigraph.core.shown import html_table
from omnigraph.manifest.rows import CommitRow, TableChange
from omnigraph.read.at import commit_row
from omnigraph.read.tables import whole_number

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Commit:
    """One commit of a graph. ``tables``: what it did to each table it changed."""

    id: str
    parents: tuple[str, ...]
    actor: str | None
    created_at: dt.datetime
    kind: str
    tables: Mapping[str, TableChange]
    manifest_version: int
    idempotency_key: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "parents": list(self.parents),
            "actor": self.actor,
            "created_at": self.created_at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "kind": self.kind,
            "tables": {key: _counts(change) for key, change in self.tables.items()},
            "manifest_version": self.manifest_version,
            "idempotency_key": self.idempotency_key,
        }

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


def _counts(change: TableChange) -> dict[str, int | None]:
    return {name: getattr(change, name) for name in ("version", "inserted", "updated", "deleted", "unchanged")}


def list_commits(
    engine: Engine,
    *,
    branch: str = MAIN,
    actor: str | None = None,
    limit: int | None = None,
    meter: Meter | None = None,
) -> Commits:
    """The newest ``limit`` commits of a branch, of one actor if named. Older archives are read only if they are needed."""
    if limit is not None:
        whole_number("limit", limit)
    meter = meter or Meter()
    current = read_current(engine, branch, meter=meter)
    found = Commits()
    if limit == 0:
        return found
    for row in engine.history.rows(current, meter):
        if isinstance(row, CommitRow) and (actor is None or row.actor == actor):
            found.append(commit_of(row))
            if len(found) == limit:
                break
    return found


def find_commit(engine: Engine, commit_id: str, *, meter: Meter | None = None) -> Commit:
    """One commit by its id."""
    meter = meter or Meter()
    return commit_of(commit_row(engine, read_current(engine, MAIN, meter=meter), commit_id, meter))


def commit_of(row: CommitRow) -> Commit:
    return Commit(
        id=row.commit_id,
        parents=row.parents,
        actor=row.actor,
        created_at=_EPOCH + dt.timedelta(microseconds=row.created_at_us),
        kind=row.kind,
        tables=dict(sorted(row.tables.items())),
        manifest_version=row.manifest_version,
        idempotency_key=row.idempotency_key,
    )
