"""The commits of a branch as values, newest first. Reads the lineage; opens no version."""

from __future__ import annotations

import datetime as dt

from omnigraph.commit import parents
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.lines import read_lines
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import NotFound
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, MergedRow
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
    """The newest ``limit`` commits of a branch, of one actor if named: those made on it, then those of the branches that it was
    made from. Older archives, and other lines, are read only if they are needed."""
    if limit is not None:
        whole_number("limit", limit)
    meter = meter or Meter()
    current = read_current(engine, branch, meter=meter)
    found = Commits()
    if limit == 0:
        return found
    for line in parents.lineage(engine, current, meter):
        for members in engine.history.swaps(line, meter):
            ids = tuple(row.commit_id for row in reversed(members) if isinstance(row, CommitRow))
            for row in members:
                commit = row.row if isinstance(row, MergedRow) else row
                if not isinstance(commit, CommitRow) or (actor is not None and commit.actor != actor):
                    continue
                found.append(commit_of(commit, line.state.head.name, ids))
                if len(found) == limit:
                    return found
    return found


def find_commit(engine: Engine, commit_id: str, *, meter: Meter | None = None) -> Commit:
    """One commit by its id."""
    meter = meter or Meter()
    main = read_current(engine, MAIN, meter=meter)
    try:
        row = commit_row(engine, main, commit_id, meter)
        return commit_of(row, MAIN, engine.history.swap_of(main, row, meter))
    except NotFound as error:
        for line in read_lines(engine, meter, main=main).lines[1:]:
            found = engine.history.find(line.held, commit_id, meter=meter)
            if isinstance(found, CommitRow):
                swap = engine.history.swap_of(line.held, found, meter)
                return commit_of(found, line.held.state.head.name, swap)
        raise error


def commit_of(row: CommitRow, branch: str, swap: tuple[str, ...]) -> Commit:
    """``swap``: the ids of all commits of its swap, in order."""
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
        merge=row.merge,
        reverts=row.reverts,
        recovered_by=row.recovered_by,
        grouped_with=tuple(one for one in swap if one != row.commit_id),
    )
