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
from omnigraph.commit.engine import Engine
from omnigraph.commit.lines import read_lines
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import Corruption, InvalidInput, NotFound, OmnigraphError, Reclaimed
from omnigraph.core.meter import Meter
from omnigraph.manifest.ancestry import Place
from omnigraph.manifest.checkpoints import list_checkpoints
from omnigraph.manifest.rows import CommitRow, MergedRow
from omnigraph.manifest.swap import Held
from omnigraph.read.failures import is_damage
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


def state_in_history(engine: Engine, commit_id: str, *, branch: str, meter: Meter) -> Held | None:
    """The state that a commit in the history of a branch left, whichever line it was made on; None where it is not in it. What
    this process knows of the commit already is not asked again."""
    engine.ref_of(branch, meter)
    current = engine.known(branch)
    row = None if current is None else _known_row(engine, current, commit_id, meter)
    if row is None or current is None:
        current = read_current(engine, branch, meter=meter)
        row = find_row(engine, current, commit_id, meter)
    if row is None or current.state.head.commit_id == commit_id:
        return None if row is None else current
    return open_place(engine, _place(row), current, meter)


def state_on_any_line(engine: Engine, commit_id: str, meter: Meter) -> Held | None:
    """The state that a commit left on whichever line there is, those of deleted branches included. None: no line has it."""
    read = read_lines(engine, meter)
    carried: tuple[CommitRow, Held] | None = None
    for line in read.lines:
        row = engine.history.find(line.held, commit_id, meter=meter)
        if isinstance(row, CommitRow):
            return open_place(engine, _place(row), line.held, meter)
        if isinstance(row, MergedRow):
            carried = carried or (row.row, line.held)
    if carried is not None:
        return open_place(engine, _place(carried[0]), carried[1], meter)
    for trouble in read.troubles:
        raise Corruption(
            f"commit {commit_id} is on no line that can be read, and {trouble.message}",
            hint="run `omnigraph verify`, which names what cannot be read",
            object=trouble.object,
        )
    return None


def _place(row: CommitRow) -> Place:
    return Place(row.ref, row.manifest_version, row.commit_id)


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


def find_row(engine: Engine, current: Held, commit_id: str, meter: Meter) -> CommitRow | None:
    """The row of a commit in the history of a branch: its own line first, then those that it was made from. None: it has none.
    Raises ``NotFound`` for one that was aborted: it is in no history."""
    found = parents.find(engine, current, commit_id, meter)
    if found is not None and found.commit is None:
        raise _no_commit(commit_id, "was aborted; it changed nothing")
    return None if found is None else found.commit


def commit_row(engine: Engine, current: Held, commit_id: str, meter: Meter) -> CommitRow:
    """The row of a commit in the history of a branch. Raises ``NotFound`` where there is none."""
    if not isinstance(commit_id, str):
        raise InvalidInput(f"the id of a commit is a text, not {str(commit_id)[:80]!r}")
    row = find_row(engine, current, commit_id, meter)
    if row is None:
        raise not_in_history(commit_id)
    return row


def not_in_history(commit_id: str) -> NotFound:
    return _no_commit(commit_id, "is not in the history")


def _no_commit(commit_id: str, why: str) -> NotFound:
    return NotFound(
        f"commit {commit_id[:80]!r} {why}",
        hint="`omnigraph commit list` shows the commits of the graph",
        commit_id=commit_id[:80],
    )


def open_place(engine: Engine, place: Place, current: Held, meter: Meter) -> Held:
    """The state at a place, if it is the state of that commit. ``current``: a newest state, for the error where it is not."""
    held = opened(engine, place, meter)
    if isinstance(held, Held) and _found(held, place) == place.commit:
        return held  # needs neither the newest state nor the boundary
    error = not_served(engine, place, current, held, meter)
    kept = _kept_elsewhere(engine, place.commit, meter) if isinstance(error, Reclaimed) else None
    if kept is None:
        raise error
    return kept


def _kept_elsewhere(engine: Engine, commit_id: str, meter: Meter) -> Held | None:
    """The state of a commit whose own version was cleaned up, where a root keeps a later version that has it as its head: a branch
    that is still there, or from which one was made, and a checkpoint."""
    places = []
    for line in read_lines(engine, meter).lines:
        head = line.held.state.head
        if head.commit_id == commit_id:
            return line.held
        if head.parent is not None:
            places.append(Place(head.parent.ref, head.parent.manifest_version, head.parent.commit))
    pinned = list_checkpoints(engine.store, meter)
    places += [Place(one.ref, one.manifest_version, one.commit_id) for one in pinned]
    for place in places:
        held = opened(engine, place, meter) if place.commit == commit_id else None
        if isinstance(held, Held) and _found(held, place) == commit_id:
            return held
    return None


def not_served(
    engine: Engine, place: Place, current: Held, instead: Held | OmnigraphError, meter: Meter
) -> OmnigraphError:
    """The error for a place that is not what the history says. ``instead``: what opened there, or why nothing did."""
    identity = _identity(engine, place)
    current = engine.latest_of(identity, meter) or current
    repeated = current.state.head.boundary if place.ref == current.state.ref else 0
    boundary = engine.boundary.value(identity, repeated=repeated, meter=meter)
    found = _found(instead, place) if isinstance(instead, Held) else None
    if judge(asked=place.commit, found=found, version=place.version, boundary=boundary) is Verdict.RECLAIMED:
        return reclaimed(engine, current, place.commit, meter)
    if found is None and moved_aside(engine, place, meter):
        return Reclaimed(
            f"commit {place.commit} was lost in a power cut: its version {place.version} was torn",
            commit_id=place.commit,
            oldest=None,
        )
    if isinstance(instead, OmnigraphError) and "file" in instead.facts:
        return Corruption(
            f"commit {place.commit} cannot be read: {instead.message}",
            hint=instead.hint,
            **{**instead.facts, "object": "__manifest", "version": place.version, "expected": place.commit},
        )
    path = version_path(TableRef(layout.MANIFEST, place.ref), place.version)
    state = "is missing" if found is None else f"belongs to commit {found}"
    return Corruption(
        f"version {place.version} of __manifest {state}; the history names it for {place.commit}: file={path}",
        object="__manifest",
        version=place.version,
        file=path,
        expected=place.commit,
        actual=found,
    )


def moved_aside(engine: Engine, place: Place, meter: Meter) -> bool:
    """Whether `repair` has found the version torn. Asked only where it is not there."""
    path = version_path(TableRef(layout.MANIFEST, place.ref), place.version)
    moved = engine.store.list(layout.QUARANTINED_VERSIONS, meter=meter)
    return any(entry.key.endswith(f"/{path}") for entry in moved)


def is_lost(engine: Engine, row: CommitRow, meter: Meter) -> bool:
    """Whether `repair` has moved the version of a commit aside. Raise ``Corruption`` where it is missing for another reason: a cleanup
    deletes nothing above the boundary, and what stands below a missing version is not known to be reclaimed."""
    if moved_aside(engine, _place(row), meter):
        return True
    path = version_path(engine.manifest.ref(row.ref), row.manifest_version)
    raise Corruption(
        f"version {row.manifest_version} of __manifest is missing; the history names it for {row.commit_id}: file={path}",
        object="__manifest",
        version=row.manifest_version,
        file=path,
    )


def _identity(engine: Engine, place: Place) -> str:
    return engine.graph_id if place.ref is None else place.ref[2:]


def _found(held: Held, place: Place) -> str:
    """The id to compare with the place's: its own if it is one of the commits that this version made visible."""
    return place.commit if place.commit in held.state.commits_of_version() else held.state.head.commit_id


def opened(engine: Engine, place: Place, meter: Meter) -> Held | OmnigraphError:
    """The manifest at the version of a place; the error if that is not there, or not whole, any more."""
    try:
        return engine.manifest.open_at(place.ref, place.version, meter)
    except OmnigraphError as error:
        if isinstance(error, Corruption) or is_damage(error):
            return error
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
            held = opened(engine, _place(row), meter)
            if isinstance(held, Held) and _found(held, _place(row)) == row.commit_id:
                return row.commit_id
    return current.state.head.commit_id


def reclaimed_since(engine: Engine, held: Held, meter: Meter) -> OmnigraphError | None:
    """The error for a snapshot whose files are gone because a cleanup took its version; None if none did."""
    boundary = engine.boundary.value(held.state.identity, repeated=held.state.head.boundary, meter=meter)
    if held.version > boundary:
        return None
    current = engine.latest_of(held.state.identity, meter) or held
    return None if current.version == held.version else reclaimed(engine, current, held.state.head.commit_id, meter)
