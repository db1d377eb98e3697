"""The commits of a branch as values, newest first. Reads the lineage; opens no version."""

from __future__ import annotations

import datetime as dt

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.txn import read_current
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow
from omnigraph.read.at import commit_row
from omnigraph.read.tables import whole_number
from omnigraph.wire.history import Commit, Commits
from omnigraph.wire.receipt import TableChange

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


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
            found.append(commit_of(row, branch))
            if len(found) == limit:
                break
    return found


def find_commit(engine: Engine, commit_id: str, *, meter: Meter | None = None) -> Commit:
    """One commit by its id."""
    meter = meter or Meter()
    return commit_of(commit_row(engine, read_current(engine, MAIN, meter=meter), commit_id, meter))


def commit_of(row: CommitRow, branch: str = MAIN) -> Commit:
    return Commit(
        id=row.commit_id,
        parents=row.parents,
        actor=row.actor,
        created_at=_EPOCH + dt.timedelta(microseconds=row.created_at_us),
        kind=row.kind,
        branch=branch,
        tables={
            key: TableChange(c.version, c.inserted, c.updated, c.deleted, c.unchanged)
            for key, c in sorted(row.tables.items())
        },
        manifest_version=row.manifest_version,
        idempotency_key=row.idempotency_key,
        schema=row.schema,
    )
