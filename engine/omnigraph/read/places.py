"""From a place to a state of the graph: a commit, a checkpoint, a branch, the beginning of a commit id, or a time.

Everything that takes ``at`` comes through here. What a text can mean is decided in ``place_names``; here is looked up what exists.
A full commit id is found on every line that exists; the beginning of an id and a time are of the history of one branch.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from omnigraph.commit import parents
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.lines import read_lines
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import InvalidInput, NotFound
from omnigraph.core.meter import Meter
from omnigraph.manifest.ancestry import Place
from omnigraph.manifest.checkpoints import find_checkpoint, list_checkpoints
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.read.at import commit_row, not_in_history, open_place, state_in_history, state_on_any_line
from omnigraph.read.place_names import (
    At,
    PlaceName,
    hint_for,
    meaning,
    read_commit_name,
    read_place,
    the_one,
)
from omnigraph.read.snapshot import Snapshot
from omnigraph.store import layout
from omnigraph.wire.cleanup import Checkpoint

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class FoundPlace:
    """``commit_id``: the commit that the place means; ``held``: the state after the swap that made it visible. ``branch``: the
    branch that it was looked for in, or that it is of."""

    commit_id: str
    branch: str
    held: Held = field(repr=False)


def snapshot_at(engine: Engine, at: At, *, branch: str = MAIN, meter: Meter | None = None) -> Snapshot:
    """The graph at a place."""
    found = find_place(engine, at, branch=branch, meter=meter or Meter())
    return Snapshot(engine, found.branch, found.held, asked=found.commit_id)


def find_place(engine: Engine, at: At, *, branch: str = MAIN, meter: Meter) -> FoundPlace:
    """What a place means for a branch. Raises ``NotFound`` where it means nothing, ``Reclaimed`` where its state is gone."""
    name = read_place(at, engine.clock.now_us())
    if name.kind == "commit" and name.is_commit_id:
        return _commit(engine, name.value, branch, meter)
    checkpoint = _checkpoint(engine, name, meter)
    match meaning(name, checkpoint=checkpoint is not None, branch=_is_branch(engine, name, meter)):
        case "checkpoint":
            return _of_checkpoint(engine, name, checkpoint, branch, meter)
        case "branch":
            held = read_current(engine, name.value, meter=meter)
            return FoundPlace(held.state.head.commit_id, name.value, held)
        case "commit":
            current = read_current(engine, branch, meter=meter)
            return _commit(engine, _begun(engine, current, name, branch, meter), branch, meter)
        case "time":
            return _at_time(engine, name, branch, meter)
        case None:
            raise NotFound(
                f"{name.text[:80]!r} is not in the history of {branch}, and no checkpoint and no branch",
                hint=_hint(engine, name, meter),
                place=name.text[:80],
            )


def commit_named(engine: Engine, held: Held, given: object, meter: Meter) -> CommitRow:
    """The row of a commit in the history of a branch, by its id or the beginning of it."""
    name = read_commit_name(given)
    found = name.value if name.is_commit_id else _begun(engine, held, name, held.state.head.name, meter)
    return commit_row(engine, held, found, meter)


def branch_with(engine: Engine, given: object, meter: Meter) -> tuple[str, str] | None:
    """The branch that is there on whose own line a commit is, and the id of it. None: no such branch has it."""
    name = read_commit_name(given)
    for line in read_lines(engine, meter).lines:
        found = {name.value} if name.is_commit_id else set(engine.history.starting(line.held, name.value, meter))
        rows = (engine.history.find(line.held, one, meter=meter) for one in found)
        own = [row.commit_id for row in rows if isinstance(row, CommitRow)]
        if line.name is not None and len(own) == 1:
            return line.name, own[0]
    return None


# --- commits ------------------------------------------------------------------------------------------------------------


def _commit(engine: Engine, commit_id: str, branch: str, meter: Meter) -> FoundPlace:
    held = state_in_history(engine, commit_id, branch=branch, meter=meter)
    if held is not None:
        return FoundPlace(commit_id, branch, held)
    held = state_on_any_line(engine, commit_id, meter)
    if held is None:
        raise not_in_history(commit_id)
    return FoundPlace(commit_id, held.state.head.name, held)


def _begun(engine: Engine, current: Held, name: PlaceName, branch: str, meter: Meter) -> str:
    """The one commit in the history of a branch whose id begins so."""
    found: set[str] = set()
    for line in parents.lineage(engine, current, meter):
        found.update(engine.history.starting(line, name.value, meter))
    commit_id = the_one(name, sorted(found), branch)
    if commit_id is None:
        raise NotFound(
            f"no commit that begins with {name.value!r} is in the history of {branch}",
            hint=_hint(engine, name, meter),
            place=name.text,
        )
    return commit_id


def _at_time(engine: Engine, name: PlaceName, branch: str, meter: Meter) -> FoundPlace:
    """The newest commit of a branch, in the order of its lineage, that is not younger."""
    oldest: CommitRow | None = None
    for line in parents.lineage(engine, read_current(engine, branch, meter=meter), meter):
        for row in engine.history.rows(line, meter):
            if not isinstance(row, CommitRow):
                continue
            if name.time_us is not None and row.created_at_us <= name.time_us:
                return _commit(engine, row.commit_id, branch, meter)
            oldest = row
    began = "" if oldest is None else f"; its first commit {oldest.commit_id} is of {_shown(oldest.created_at_us)}"
    raise NotFound(
        f"{branch} has no commit as old as {name.value!r}{began}",
        hint="name a later time, or a commit; `omnigraph commit list` shows them with their times",
        place=name.text,
    )


def _shown(time_us: int) -> str:
    return (_EPOCH + dt.timedelta(microseconds=time_us)).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- names --------------------------------------------------------------------------------------------------------------


def _checkpoint(engine: Engine, name: PlaceName, meter: Meter) -> Checkpoint | None:
    if name.kind not in (None, "checkpoint"):
        return None
    try:
        layout.checkpoint_key(name.value)
    except InvalidInput:
        return None  # what is no name of a checkpoint names none
    return find_checkpoint(engine.store, name.value, meter)


def _is_branch(engine: Engine, name: PlaceName, meter: Meter) -> bool:
    if name.value == MAIN or name.kind is not None:
        return name.value == MAIN
    try:
        entry = engine.names.highest(name.value, meter)
    except InvalidInput:
        return False
    return entry is not None and entry.state == "bound" and entry.name == name.value


def _of_checkpoint(
    engine: Engine, name: PlaceName, checkpoint: Checkpoint | None, branch: str, meter: Meter
) -> FoundPlace:
    if checkpoint is None:
        raise NotFound(f"no checkpoint {name.value[:80]!r}", hint=_hint(engine, name, meter), place=name.text[:80])
    place = Place(checkpoint.ref, checkpoint.manifest_version, checkpoint.commit_id)
    current = read_current(engine, branch, meter=meter)
    held = open_place(engine, place, current, meter)
    return FoundPlace(checkpoint.commit_id, held.state.head.name, held)


def _hint(engine: Engine, name: PlaceName, meter: Meter) -> str:
    checkpoints = [one.name for one in list_checkpoints(engine.store, meter)]
    bound = [entry.name for entry in engine.names.all(meter) if entry.state == "bound"]
    of_kind = name.kind
    return hint_for(
        name,
        [] if of_kind == "branch" else checkpoints,
        [] if of_kind == "checkpoint" else [MAIN, *bound],
    )
