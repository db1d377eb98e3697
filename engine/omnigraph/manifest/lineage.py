"""Does a stretch of a line's history say what its swaps could have written? Pure.

Used for the tail whenever a state is read, and for the whole history by ``verify``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from omnigraph.core.ids import is_ulid
from omnigraph.manifest import rows as r


@dataclass(frozen=True)
class Line:
    """What the head row of a line says about its history. ``version``: the newest version of the line."""

    version: int
    ref: str | None
    head: str
    parent: str | None


def contradictions(rows: Sequence[r.HistoryRow], line: Line) -> Iterator[str]:
    """What no swap could have written, in words. ``rows``: the newest rows of the line, oldest first, down to any."""
    yield from _numbers(rows, line)
    for row in rows:
        yield from _row(row, line)
    yield from _parents(rows, line)
    yield from _ends(rows)


def _numbers(rows: Sequence[r.HistoryRow], line: Line) -> Iterator[str]:
    if rows and not (rows[0].seq >= 1 and 1 <= rows[0].version <= rows[-1].version <= line.version):
        yield f"history is numbered from {rows[0].seq}, at versions that are not between 1 and {line.version}"
    for earlier, later in pairwise(rows):
        if later.seq != earlier.seq + 1 or later.version < earlier.version:
            yield f"record {later.object_id} is not the one that follows {earlier.object_id}"


def _row(row: r.HistoryRow, line: Line) -> Iterator[str]:
    if not is_ulid(row.object_id):
        yield f"a record of history is named {row.object_id[:80]!r}, which is no ULID"
    if isinstance(row, r.AbortRow):
        if not is_ulid(row.plan):
            yield f"abort {row.id} is of plan {row.plan[:80]!r}"
        if row.ref != line.ref:
            yield f"abort {row.id} was written on line {row.ref}"
        return
    commit = row.row if isinstance(row, r.MergedRow) else row
    if not all(map(is_ulid, (commit.plan, *commit.parents))):
        yield f"commit {commit.commit_id} has the plan and the parents {(commit.plan, *commit.parents)!r:.80}"
    if isinstance(row, r.MergedRow):
        if commit.ref in (None, line.ref):
            yield f"commit {commit.commit_id} was merged from line {commit.ref}, which keeps its own history"
    elif commit.ref != line.ref or commit.manifest_version != row.version:
        yield f"commit {commit.commit_id} names version {commit.manifest_version} of line {commit.ref}"


def _parents(rows: Sequence[r.HistoryRow], line: Line) -> Iterator[str]:
    commits = [row for row in rows if isinstance(row, r.CommitRow)]
    for older, newer in pairwise(commits):
        if newer.parents[:1] != (older.commit_id,):
            yield f"commit {newer.commit_id} does not follow the one before it, {older.commit_id}"
    whole = not rows or rows[0].seq == 1
    if commits and whole:
        wanted = () if line.parent is None else (line.parent,)
        if commits[0].parents[:1] != wanted:
            yield f"the first commit of the line, {commits[0].commit_id}, has the parents {commits[0].parents!r:.80}"
    newest = commits[-1].commit_id if commits else line.parent
    if (commits or whole) and newest != line.head:
        yield f"the head is {line.head}, the newest commit {newest}"


def _ends(rows: Sequence[r.HistoryRow]) -> Iterator[str]:
    """A plan ends once: by commits or by aborts, and no id has two records."""
    seen: set[str] = set()
    committed = {row.plan for row in rows if isinstance(row, r.CommitRow)}
    for row in rows:
        if isinstance(row, r.MergedRow):
            continue
        id_ = row.object_id
        if id_ in seen:
            yield f"{id_} has two records"
        seen.add(id_)
        if isinstance(row, r.AbortRow) and row.plan in committed:
            yield f"plan {row.plan} was committed and aborted"
