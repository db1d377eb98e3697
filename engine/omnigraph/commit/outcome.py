"""What became of a commit id: read from durable state, never guessed."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.errors import Corruption
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow, MergedRow

LANDED = "landed"
ABORTED = "aborted"
PENDING = "pending"
ABSENT = "absent"


@dataclass(frozen=True)
class Fate:
    """``state``: landed, aborted, pending or absent. Absent means that it cannot land any more."""

    state: str
    row: CommitRow | AbortRow | None = None
    operation_id: str | None = None


def find_outcome(engine: Engine, commit_id: str, meter: Meter) -> Fate:
    """Manifest, then intents, then the manifest again: an intent that is gone by then has left its record before."""
    first = _recorded(engine, commit_id, meter)
    if first is not None:
        return first
    unreadable = []
    for op, _ in engine.intents.names(meter):
        try:
            intent = engine.intents.read(op, meter)
        except Corruption:
            unreadable.append(op)
            continue
        if intent is not None and intent.plan is not None and intent.plan.commit.id == commit_id:
            return Fate(PENDING, operation_id=op)
    second = _recorded(engine, commit_id, meter)
    if second is not None:
        return second
    if unreadable:
        raise Corruption(
            f"whether commit {commit_id} is pending cannot be told: intent {unreadable[0]} cannot be read",
            hint="keep a copy of the intent, run `omnigraph repair --confirm --force`, and ask again",
            operation_id=unreadable[0],
            commit_id=commit_id,
        )
    return Fate(ABSENT)


def _recorded(engine: Engine, commit_id: str, meter: Meter) -> Fate | None:
    held = engine.latest(MAIN, meter)
    row = engine.history.find(held, commit_id, meter=meter)
    if row is None:
        return None
    if isinstance(row, MergedRow):
        row = row.row
    return Fate(ABORTED if isinstance(row, AbortRow) else LANDED, row)
