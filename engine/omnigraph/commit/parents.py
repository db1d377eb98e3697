"""The history of a branch below its own line: the states that it, and the branches before it, were made from.

A line holds what was written on it. What is older lies on the line of the parent, up to the version that the branch was made
from; cleanup keeps that version as long as the branch is there. Nothing that a write plans on needs these rows: its base is on
its own line. They answer keys, ids and lists of commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from omnigraph.commit.engine import Engine
from omnigraph.core.errors import Corruption, NotFound
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, HistoryRow, MergedRow
from omnigraph.manifest.swap import Held
from omnigraph.table.version_list import version_path


@dataclass(frozen=True)
class Located:
    """A history row, and the state of the line whose history has it."""

    row: HistoryRow
    held: Held = field(repr=False)

    @property
    def commit(self) -> CommitRow | None:
        """The commit that the row is, one that a merge has carried here included."""
        row = self.row.row if isinstance(self.row, MergedRow) else self.row
        return row if isinstance(row, CommitRow) else None


def lineage(engine: Engine, held: Held, meter: Meter) -> Iterator[Held]:
    """The state itself, then the state that its branch was made from, and so on to main's. Each line is opened when it is
    asked for, and once a handle: a version never changes."""
    while True:
        yield held
        parent = held.state.head.parent
        if parent is None:
            return
        held = _fork_point(engine, held, meter)


def made_on(engine: Engine, held: Held, meter: Meter) -> Held:
    """The state at the same commit on the line that the commit was made on: the state itself, unless its branch has only
    inherited the commit."""
    for line in lineage(engine, held, meter):
        parent = line.state.head.parent
        if parent is None or parent.commit != line.state.head.commit_id:
            return line
    raise AssertionError("main has no parent")


def find(engine: Engine, held: Held, row_id: str, meter: Meter) -> Located | None:
    """The record under an id: of the branch's own line, else of the nearest line below it that has one."""
    for line in lineage(engine, held, meter):
        row = engine.history.find(line, row_id, meter=meter)
        if row is not None:
            return Located(row, line)
    return None


def find_key(engine: Engine, held: Held, idempotency_key: str, meter: Meter) -> tuple[CommitRow, Held] | None:
    """The commit that carries an idempotency key in the history of a branch: its own, else the newest that a merge has
    carried here, else the parent's. With the state whose history has it."""
    for line in lineage(engine, held, meter):
        row = engine.history.find_key(line, idempotency_key, meter=meter)
        if row is not None:
            return row, line
    return None


def _fork_point(engine: Engine, held: Held, meter: Meter) -> Held:
    parent = held.state.head.parent
    assert parent is not None
    where = f"version {parent.manifest_version} of line {parent.ref or 'main'}"
    try:
        found = engine.fork_point(parent.ref, parent.manifest_version, meter)
    except NotFound as error:
        raise Corruption(
            f"{where}, from which branch {held.state.head.name!r} was made, is not there",
            hint="run `omnigraph verify --deep`, which names what cannot be read",
            object="__manifest",
            version=parent.manifest_version,
            file=version_path(engine.manifest.ref(parent.ref), parent.manifest_version),
        ) from error
    if found.state.head.commit_id != parent.commit:
        raise Corruption(
            f"{where} has the head {found.state.head.commit_id}; branch {held.state.head.name!r} was made from {parent.commit}",
            hint="keep the files and run `omnigraph verify --deep`",
            object="__manifest",
            expected=parent.commit,
            actual=found.state.head.commit_id,
        )
    return found
