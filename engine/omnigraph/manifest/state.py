"""The state of one branch at one manifest version, as a value, and how a swap changes it.

Pure: every function takes a state and returns one. A state built in memory after a swap equals the one that a cold open
reads back, and the tests hold that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from omnigraph.core.errors import LimitExceeded, NotFound
from omnigraph.manifest import recent
from omnigraph.manifest import rows as r

TAIL_ROLL = 128  # history rows in the current fragment at which the oldest are archived
TAIL_KEEP = 64  # what stays at least: a look-up of a recent commit must not need the archive
PINS_MAX = 64  # pins in the current fragment that differ from base, before base is written again
MERGED_ROWS_MAX = 50_000  # commits that one merge may carry along


@dataclass(frozen=True)
class Foreign:
    """Rows of kinds that this release does not know, by the fragment where they were found."""

    schema: tuple[r.RawRow, ...] = ()
    base: tuple[r.RawRow, ...] = ()
    current: tuple[r.RawRow, ...] = ()


@dataclass(frozen=True)
class State:
    """What one version of a manifest line says about its branch.

    ``base``: the pins of the base fragment by table identity; None while one fragment holds everything.
    """

    version: int
    ref: str | None
    head: r.Head
    schema: r.SchemaRow
    tables: Mapping[str, r.Pin]
    tombstones: tuple[r.Tombstone, ...] = ()
    tail: tuple[r.HistoryRow, ...] = ()
    foreign: Foreign = field(default=Foreign(), repr=False)
    base: Mapping[str, r.Pin] | None = field(default=None, repr=False)

    @cached_property
    def identity(self) -> str:
        return self.head.identity

    @property
    def last_seq(self) -> int:
        return self.tail[-1].seq if self.tail else 0

    @cached_property
    def moved(self) -> tuple[r.Pin, ...]:
        """The pins that the current fragment holds: those that differ from base."""
        if self.base is None:
            return ()
        found = ((pin, self.base.get(pin.identity)) for pin in self.tables.values())
        return tuple(pin for pin, base in found if pin is not base and pin != base)

    def in_tail(self, row_id: str) -> r.HistoryRow | None:
        """The row under this id. A record of this line comes before one that a merge has carried here."""
        merged = None
        for row in reversed(self.tail):
            if row.object_id == row_id:
                if not isinstance(row, r.MergedRow):
                    return row
                merged = merged or row
        return merged

    def commits_of_version(self) -> frozenset[str]:
        """The ids of all commits that this version made visible: the members of its swap."""
        return frozenset(
            row.commit_id for row in self.tail if isinstance(row, r.CommitRow) and row.version == self.version
        )

    @property
    def tail_begins(self) -> int:
        """The version that wrote the oldest row of the tail."""
        return self.tail[0].version if self.tail else self.version + 1

    def tail_reaches(self, version: int) -> bool:
        """Whether every history row written after that version of this line is in the tail."""
        return reaches(self.tail, version)

    def tail_reaches_own(self, version: int) -> bool:
        """The same for the line's own commits and aborts alone: no cut divides those of one version."""
        return reaches(self.tail, version + 1)

    def actual_version(self, key: str) -> int:
        """The version to report for a table in a conflict: its pin, its tombstone's version, or 0."""
        pin = self.tables.get(key)
        if pin is not None:
            return pin.version
        return max((t.version for t in self.tombstones if t.key == key), default=0)


def reaches(rows: Sequence[r.HistoryRow], version: int) -> bool:
    """Whether these newest rows of a line are all that were written after a version of it."""
    return not rows or rows[0].seq == 1 or rows[0].version <= version


@dataclass(frozen=True)
class Change:
    """What one swap does to a state. Everything optional; an empty change still makes a version (a mark, an epoch).

    ``history``: rows that a merge carries along first, oldest first, then commits in the order of their parents and aborts.
    """

    pins: Mapping[str, r.Pin] = field(default_factory=dict)
    tombstones: tuple[r.Tombstone, ...] = ()
    schema: r.SchemaRow | None = None
    history: tuple[r.HistoryRow, ...] = ()
    head: r.Head | None = None


def fold(state: State, change: Change) -> tuple[State, tuple[r.HistoryRow, ...]]:
    """Return the state after the swap, and the history rows that move to the archive with it.

    Raises ``NotFound`` on a closed state: nothing is ever swapped onto the last version of a deleted branch.
    """
    _refuse(state, change)
    version = state.version + 1
    tables = dict(state.tables)
    for tombstone in change.tombstones:
        tables.pop(tombstone.key, None)
    tables.update(change.pins)
    added = _numbered(state, change.history, version)
    newest = next((row.commit_id for row in reversed(added) if isinstance(row, r.CommitRow)), state.head.commit_id)
    tail = (*state.tail, *added)
    cut = cut_of(tail)
    after = State(
        version=version,
        ref=state.ref,
        head=replace(change.head or state.head, commit_id=newest),
        schema=change.schema or state.schema,
        tables=dict(sorted(tables.items())),
        tombstones=tuple(sorted((*state.tombstones, *change.tombstones), key=lambda t: (t.key, t.incarnation))),
        tail=tail[cut:],
        foreign=state.foreign,
        base=state.base,
    )
    return _rebased(state, after, rolled=cut > 0), tail[:cut]


def _refuse(state: State, change: Change) -> None:
    if state.head.closed is not None:
        raise NotFound(
            f"branch {state.head.name!r} was deleted; its last state takes no change",
            hint="open the graph on another branch",
            branch=state.head.name,
            identity=state.identity,
        )
    if change.head is not None and change.head.identity != state.identity:
        raise ValueError(f"the head of branch {change.head.identity} on the line of {state.identity}")
    merged = sum(isinstance(row, r.MergedRow) for row in change.history)
    if merged > MERGED_ROWS_MAX:
        raise LimitExceeded(
            f"the merge carries {merged} commits; {MERGED_ROWS_MAX} are allowed",
            hint="merge an older commit of the source first",
            limit="merged_commits",
            bound=MERGED_ROWS_MAX,
            actual=merged,
        )


def _numbered(state: State, history: Iterable[r.HistoryRow], version: int) -> tuple[r.HistoryRow, ...]:
    """The rows as this swap writes them. The first parent of a commit is the commit before it, whatever was planned."""
    found: list[r.HistoryRow] = []
    parent, own = state.head.commit_id, False
    for seq, row in enumerate(history, state.last_seq + 1):
        if isinstance(row, r.MergedRow):
            if own or row.row.ref in (None, state.ref):
                raise ValueError("a merged commit comes from another branch, and before the commit of the merge")
            found.append(r.MergedRow(replace(row.row, seq=0, version=0), version, seq))
        elif isinstance(row, r.AbortRow):
            found.append(replace(row, version=version, seq=seq, ref=state.ref))
        else:
            parents = (parent, *row.parents[1:])
            found.append(
                replace(row, parents=parents, ref=state.ref, manifest_version=version, version=version, seq=seq)
            )
            parent = row.commit_id
        own = own or not isinstance(row, r.MergedRow)
    return tuple(found)


def cut_of(tail: Sequence[r.HistoryRow]) -> int:
    """Return how many of the oldest rows leave the tail.

    The largest number that leaves ``TAIL_KEEP`` rows and divides the own records of no version: a search for one of
    them in a tail that begins with its version must find them all. Rows that a merge carried may be cut off from it.
    """
    if len(tail) < TAIL_ROLL:
        return 0
    for cut in range(len(tail) - TAIL_KEEP, 0, -1):
        before, after = tail[cut - 1], tail[cut]
        divides = before.version == after.version and not isinstance(before, r.MergedRow)
        if not divides:
            return cut
    return 0


def _rebased(before: State, after: State, *, rolled: bool) -> State:
    """``after`` with the base that its swap writes, and with no more of ``recent`` in the current fragment than allowed."""
    moved = after.moved
    if before.base is None or rolled or len(moved) > PINS_MAX or schema_moved(before, after):
        return replace(after, base={pin.identity: pin for pin in after.tables.values()})
    dropped = recent.over_limit({pin.key: pin.recent for pin in moved})
    if not dropped:
        return after
    cleared = {key: replace(pin, recent=None) if key in dropped else pin for key, pin in after.tables.items()}
    return replace(after, tables=cleared)


def schema_moved(before: State, after: State) -> bool:
    """Whether the schema fragment of ``before`` does not hold what ``after`` says."""
    if before.schema != after.schema or before.tombstones != after.tombstones:
        return True
    if before.tables.keys() != after.tables.keys():
        return True
    pairs = ((pin, before.tables[key]) for key, pin in after.tables.items())
    return any(pin is not old and pin.registration != old.registration for pin, old in pairs)


def genesis(
    *, identity: str, commit_id: str, actor: str | None, created_at_us: int, schema: r.SchemaRow, pins: Iterable[r.Pin]
) -> State:
    """The state that ``init`` commits: version 1, one commit without parents."""
    tables = {pin.key: pin for pin in sorted(pins, key=lambda pin: pin.key)}
    row = r.CommitRow(
        commit_id=commit_id,
        plan=commit_id,
        parents=(),
        actor=actor,
        created_at_us=created_at_us,
        ref=None,
        manifest_version=1,
        kind="init",
        tables={key: r.TableChange(pin.identity, pin.ref, pin.version, "schema") for key, pin in tables.items()},
        seq=1,
        version=1,
    )
    return State(
        version=1,
        ref=None,
        head=r.Head(identity, commit_id),
        schema=schema,
        tables=tables,
        tail=(row,),
    )
