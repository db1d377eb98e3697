"""What became of a commit id: read from durable state of every line of the graph, never guessed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.lines import GraphLines, ManifestLine, read_lines
from omnigraph.core.errors import Corruption, InvalidInput
from omnigraph.core.ids import is_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow, MergedRow

LANDED: Final = "landed"
ABORTED: Final = "aborted"
PENDING: Final = "pending"
ABSENT: Final = "absent"


@dataclass(frozen=True)
class Fate:
    """``state``: landed, aborted, pending or absent. Absent means that it cannot land any more, and is on no branch of
    ``searched``. ``deleted``: the names of branches that were deleted and cleaned up; what only they had cannot be searched."""

    state: Literal["landed", "aborted", "pending", "absent"]
    row: CommitRow | AbortRow | None = None
    operation_id: str | None = None
    branch: str | None = None  # where it was found
    searched: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


def find_outcome(engine: Engine, commit_id: str, meter: Meter) -> Fate:
    """Manifests, then intents, then the manifests again: an intent that is gone by then has left its record before."""
    if not is_ulid(str(commit_id)):
        raise InvalidInput(
            f"not a commit id: {str(commit_id)[:80]!r}",
            hint="a commit id has 26 characters, digits and capital letters; receipts and errors name it",
        )
    first = _recorded(engine, commit_id, [ManifestLine(MAIN, engine.latest(MAIN, meter))], meter)
    if first is not None:
        return first
    unreadable = []
    for op, _ in engine.intents.names(meter):
        try:
            intent = engine.intents.read(op, meter)
        except Corruption:
            unreadable.append(op)
            continue
        if intent is None:
            continue
        pending = () if intent.plan is None else intent.plan.members
        if commit_id in pending or (intent.request is not None and intent.request.id == commit_id):
            # It may have ended already on another line; then its file only waits to be deleted.
            ended = _recorded(engine, commit_id, read_lines(engine, meter).lines, meter)
            return ended or Fate(PENDING, operation_id=op, branch=intent.branch.name)
    lines = read_lines(engine, meter)
    second = _recorded(engine, commit_id, lines.lines, meter)
    if second is not None:
        return second
    if unreadable:
        raise Corruption(
            f"whether commit {commit_id} is pending cannot be told: intent {unreadable[0]} cannot be read",
            hint="keep a copy of the intent, run `omnigraph repair --confirm --force`, and ask again",
            operation_id=unreadable[0],
            commit_id=commit_id,
        )
    _refuse_to_guess(commit_id, lines)
    return Fate(ABSENT, searched=tuple(map(_searched, lines.lines)), deleted=lines.deleted)


def _searched(line: ManifestLine) -> str:
    head = line.held.state.head
    return f"{head.name} (deleted)" if line.name is None and head.closed is not None else line.label


def _refuse_to_guess(commit_id: str, lines: GraphLines) -> None:
    for trouble in lines.troubles:
        raise Corruption(
            f"whether commit {commit_id} landed cannot be told: {trouble.message}",
            hint="run `omnigraph verify`, which names what cannot be read",
            object=trouble.object,
            commit_id=commit_id,
        )


def _recorded(engine: Engine, commit_id: str, lines: Iterable[ManifestLine], meter: Meter) -> Fate | None:
    """The record on any of these lines. A commit stands above an abort: an id may be given up on one line only."""
    aborted = None
    for line in lines:
        row = engine.history.find(line.held, commit_id, meter=meter)
        if isinstance(row, MergedRow):
            row = row.row
        if isinstance(row, CommitRow):
            engine.durable.acknowledge(row.version, line.held)
            return Fate(LANDED, row, branch=line.name or line.held.state.head.name)
        if row is not None and aborted is None:
            aborted = Fate(ABORTED, row, branch=line.name or line.held.state.head.name)
    return aborted
