"""From a commit id to the state that the commit left: the lineage, then ``__manifest`` at the version it names.

Owns the rule of when a version may be served. A row of the lineage is never deleted, the version that it names is; a
version number that was cleaned up may even be taken again by a late writer. So a version is believed only if its head is
the commit that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from omnigraph.commit import parents
from omnigraph.commit.engine import MAIN, Branch, Engine
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import Corruption, InvalidInput, NotFound, OmnigraphError, Reclaimed
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.read.failures import is_damage
from omnigraph.read.snapshot import Snapshot
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.table.version_list import version_path


class Verdict(Enum):
    SERVE = "serve"
    RECLAIMED = "reclaimed"
    CORRUPT = "corrupt"


def judge(*, asked: str, found: str | None, version: int, boundary: int) -> Verdict:
    """Whether a version may be served as a commit. ``found`` is the head commit read there, None if it did not open.

    What is retained below the boundary (by a policy, a branch or a checkpoint) still opens and says its id. What does
    not is reclaimed there, and damage above.
    """
    if found == asked:
        return Verdict.SERVE
    return Verdict.RECLAIMED if version <= boundary else Verdict.CORRUPT


def snapshot_at(engine: Engine, commit_id: str, *, branch: str = MAIN, meter: Meter | None = None) -> Snapshot:
    """The graph as this commit left it. What this process knows of the commit already is not asked again."""
    held = state_at(engine, commit_id, branch=branch, meter=meter or Meter())
    return Snapshot(engine, branch, held, asked=commit_id)


def state_at(engine: Engine, commit_id: str, *, branch: str, meter: Meter) -> Held:
    """The state that a commit in the history of a branch left, whichever line it was made on."""
    engine.ref_of(branch, meter)
    current = engine.known(branch)
    row = None if current is None else _known_row(engine, current, commit_id, meter)
    if row is None or current is None:
        current = read_current(engine, branch, meter=meter)
        row = commit_row(engine, current, commit_id, meter)
    if current.state.head.commit_id == commit_id:
        return current
    return _open(engine, branch, current, row, meter)


def _known_row(engine: Engine, current: Held, commit_id: str, meter: Meter) -> CommitRow | None:
    """The commit's row in the history of a state that may be out of date: what is in a history stays in it.

    An id that sorts before the tail is most likely in the archive, where a newer state has it as well; any other one that
    is not in the tail is newer than the state.
    """
    tail = current.state.tail
    row = current.state.in_tail(commit_id)
    if row is None and tail and str(commit_id) < tail[0].object_id:
        row = engine.history.find(current, commit_id, meter=meter)
    return row if isinstance(row, CommitRow) else None


def commit_row(engine: Engine, current: Held, commit_id: str, meter: Meter) -> CommitRow:
    """The row of a commit in the history of a branch: its own line first, then those that it was made from."""
    if not isinstance(commit_id, str):
        raise InvalidInput(f"the id of a commit is a text, not {str(commit_id)[:80]!r}")
    found = parents.find(engine, current, commit_id, meter)
    if found is not None and found.commit is not None:
        return found.commit
    ended = "was aborted; it changed nothing" if found is not None else "is not in the history"
    raise NotFound(
        f"commit {commit_id[:80]!r} {ended}",
        hint="`omnigraph commit list` shows the commits of the graph",
        commit_id=commit_id[:80],
    )


def _open(engine: Engine, branch: str, current: Held, row: CommitRow, meter: Meter) -> Held:
    held = _try(engine, row, meter)
    found = _found(held, row) if held is not None else None
    boundary = 0
    if found != row.commit_id:
        # Only now: what opens and says the right id needs neither the newest state nor the boundary.
        current = _newest_of(engine, branch, current, row, meter)
        identity = current.state.identity if row.ref == current.state.ref else _identity(engine, row)
        repeated = current.state.head.boundary if row.ref == current.state.ref else 0
        boundary = engine.boundary.value(identity, repeated=repeated, meter=meter)
    match judge(asked=row.commit_id, found=found, version=row.manifest_version, boundary=boundary):
        case Verdict.RECLAIMED:
            raise reclaimed(engine, current, row.commit_id, meter)
        case Verdict.CORRUPT:
            if found is None and _moved_aside(engine, row, meter):
                raise Reclaimed(
                    f"commit {row.commit_id} was lost in a power cut: its version {row.manifest_version} was torn",
                    commit_id=row.commit_id,
                    oldest=None,
                )
            state = "is missing" if found is None else f"belongs to commit {found}"
            raise Corruption(
                f"version {row.manifest_version} of __manifest {state}; the history names it for {row.commit_id}",
                object="__manifest",
                version=row.manifest_version,
                expected=row.commit_id,
                actual=found,
            )
    assert held is not None
    return held


def _moved_aside(engine: Engine, row: CommitRow, meter: Meter) -> bool:
    """Whether `repair` has found the version torn. Asked only where it is not there."""
    path = version_path(TableRef(layout.MANIFEST, row.ref), row.manifest_version)
    moved = engine.store.list(layout.QUARANTINED_VERSIONS, meter=meter)
    return any(entry.key.endswith(f"/{path}") for entry in moved)


def _newest_of(engine: Engine, branch: str, current: Held, row: CommitRow, meter: Meter) -> Held:
    """The newest state of the line that a commit was made on; of the branch where that line is gone."""
    if row.ref == current.state.ref:
        return read_current(engine, branch, meter=meter)
    return engine.latest_of(_identity(engine, row), meter) or current


def _identity(engine: Engine, row: CommitRow) -> str:
    return engine.graph_id if row.ref is None else row.ref[2:]


def _found(held: Held, row: CommitRow) -> str:
    """The id to compare with the row's: its own if it is one of the commits that this version made visible."""
    return row.commit_id if row.commit_id in held.state.commits_of_version() else held.state.head.commit_id


def _try(engine: Engine, row: CommitRow, meter: Meter) -> Held | None:
    """The manifest at the version that the row names; None if that is not there, or not whole, any more."""
    try:
        return engine.manifest.open_at(row.ref, row.manifest_version, meter)
    except OmnigraphError as error:
        if is_damage(error):
            return None
        raise


def reclaimed(engine: Engine, current: Held, commit_id: str, meter: Meter) -> Reclaimed:
    """The error for a commit whose version was cleaned up; it names the oldest one that still opens."""
    oldest = _oldest_left(engine, current, meter)
    hint = f"take a snapshot at {oldest} or newer" if oldest is not None else None
    row = engine.history.find(current, commit_id, meter=meter)
    version = row.version if row is not None else current.version
    note = engine.boundary.note(current.state.identity, version, meter=meter)
    return Reclaimed(
        f"commit {commit_id} was cleaned up: {_record_text(note)}oldest={oldest}",
        hint=hint,
        commit_id=commit_id,
        oldest=oldest,
        cleanup=note.get("run"),
        cleaned_by=note.get("actor"),
        cleaned_at_us=note.get("at_us"),
        policy=note.get("policy"),
    )


def _record_text(note: Mapping[str, Any]) -> str:
    """Who cleaned up and when, as the record of that run has it."""
    at_us = note.get("at_us")
    facts = {
        "run": note.get("run"),
        "by": note.get("actor"),
        "at": datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if isinstance(at_us, int)
        else None,
    }
    return "".join(f"{name}={value} " for name, value in facts.items() if value is not None)


def _oldest_left(engine: Engine, current: Held, meter: Meter) -> str | None:
    """One listing tells which versions are left; the first of them that opens as its commit is the answer."""
    left = set(engine.tables.versions_between(TableRef(layout.MANIFEST, current.state.ref), 0, current.version))
    commits = [row for row in engine.history.rows(current, meter) if isinstance(row, CommitRow)]
    for row in reversed(commits):
        if row.manifest_version in left:
            held = _try(engine, row, meter)
            if held is not None and _found(held, row) == row.commit_id:
                return row.commit_id
    return current.state.head.commit_id


def reclaimed_since(engine: Engine, branch: Branch, held: Held, meter: Meter) -> OmnigraphError | None:
    """The error for a snapshot whose files are gone because a cleanup took its version; None if none did."""
    boundary = engine.boundary.value(held.state.identity, repeated=held.state.head.boundary, meter=meter)
    if held.version > boundary:
        return None
    current = engine.latest(branch, meter)
    return None if current.version == held.version else reclaimed(engine, current, held.state.head.commit_id, meter)
