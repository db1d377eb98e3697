"""The way of a change feed through the history of a branch: which swaps lie on it, in order, and what of each is reported. Pure.

A swap may make several commits visible. Those whose tables no other one names are reported apart; those that share a table have one
state before and one after, and are reported together under all their ids. Upkeep changes no row and is never reported, but it moves
tables, so its swaps lie on the way too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from omnigraph.manifest.rows import CommitRow, HistoryRow, Pin

MAINTENANCE = "maintenance"
Pins = Mapping[str, Pin]  # by the identity of the table


@dataclass(frozen=True)
class Swap:
    """The commits that one version of a line made visible, in order. ``seen``: how many of them the reader has already."""

    ref: str | None
    version: int
    members: tuple[CommitRow, ...]
    seen: int = 0

    @property
    def last_id(self) -> str:
        return self.members[-1].commit_id


@dataclass(frozen=True)
class FeedEntry:
    """Commits of one swap that are reported together, and the tables that they wrote."""

    commits: tuple[CommitRow, ...]

    @property
    def commit_ids(self) -> tuple[str, ...]:
        return tuple(one.commit_id for one in self.commits)

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(change.identity for one in self.commits for change in one.tables.values())

    @property
    def changes_schema(self) -> bool:
        return any(one.schema is not None for one in self.commits)


def swaps_of(newest_first: Iterable[HistoryRow], ref: str | None, until: int) -> Iterator[Swap]:
    """The swaps of one line up to a version of it, newest first. Commits that a merge has carried here are not its own."""
    own = (row for row in newest_first if isinstance(row, CommitRow) and row.version <= until)
    for version, rows in groupby(own, key=lambda row: row.version):
        yield Swap(ref, version, tuple(rows)[::-1])


def after(swap: Swap, since: str) -> Swap | None:
    """What is left of a swap for a reader that has seen it up to one of its commits. None: nothing."""
    ids = [one.commit_id for one in swap.members]
    seen = ids.index(since) + 1
    return None if seen == len(ids) else replace(swap, seen=seen)


def entries_of(swap: Swap) -> tuple[FeedEntry, ...]:
    """What a swap reports, in the order in which its parts are whole."""
    found: list[list[CommitRow]] = []
    for member in swap.members:
        if member.kind == MAINTENANCE:
            continue
        mine = {change.identity for change in member.tables.values()}
        shared = [part for part in found if mine & FeedEntry(tuple(part)).tables]
        found = [part for part in found if part not in shared]
        found.append([*(one for part in shared for one in part), member])
    place = {one.commit_id: at for at, one in enumerate(swap.members)}
    parts = [FeedEntry(tuple(sorted(part, key=lambda one: place[one.commit_id]))) for part in found]
    parts.sort(key=lambda one: place[one.commit_ids[-1]])
    return tuple(one for one in parts if place[one.commit_ids[-1]] >= swap.seen)


def moved(pins: Pins, swap: Swap) -> Pins | None:
    """The tables after a swap, known from its commits alone. None: the state has to be read, because the schema changed, because a
    table is new or lies on another line, or because a merge may have taken a table from elsewhere."""
    found = dict(pins)
    for member in swap.members:
        if member.schema is not None or member.merge is not None:
            return None
        for change in member.tables.values():
            pin = found.get(change.identity)
            if pin is None or pin.ref != change.ref or change.version < pin.version:
                return None
            rows = _rows(pin, change.inserted, change.deleted)
            found[change.identity] = replace(pin, version=change.version, rows=rows)
    return found


def run_of_inserts(swaps: Sequence[Swap], at: int, rows_max: int) -> int:
    """The end of the longest run of swaps from ``at`` on that did nothing but insert, and no more rows than that, as their commits
    say. Such a run is read at once."""
    rows = 0
    for end in range(at, len(swaps)):
        counted = _inserted(swaps[end])
        if counted is None or rows + counted > rows_max:
            return end
        rows += counted
    return len(swaps)


def _inserted(swap: Swap) -> int | None:
    """How many rows a swap inserted; None where it did something else, or where it is not known."""
    found = 0
    for member in swap.members:
        if member.kind == MAINTENANCE or member.schema is not None or member.merge is not None:
            return None
        for change in member.tables.values():
            if change.inserted is None or change.updated != 0 or change.deleted != 0 or change.via != "write":
                return None
            found += change.inserted
    return found


@dataclass(frozen=True)
class Counted:
    """How many rows commits have inserted into a table, and updated."""

    inserted: int
    updated: int


def stretch_of_writes(pins: Pins, swaps: Sequence[Swap], at: int, *, rows_max: int, swaps_max: int) -> tuple[Pins, ...]:
    """The tables before the longest stretch of swaps from ``at`` on that inserted and updated rows and deleted none, as their
    commits say, and after each of them."""
    states = [pins]
    rows = 0
    for swap in swaps[at : at + swaps_max]:
        counted, after = _written(swap), moved(states[-1], swap)
        if counted is None or after is None or rows + counted > rows_max:
            break
        rows += counted
        states.append(after)
    return tuple(states)


def _written(swap: Swap) -> int | None:
    """How many rows a swap inserted and updated; None where it did something else, or where it is not known."""
    found = 0
    for member in swap.members:
        if member.kind == MAINTENANCE or member.schema is not None or member.merge is not None:
            return None
        for change in member.tables.values():
            if change.inserted is None or change.updated is None or change.deleted != 0 or change.via != "write":
                return None
            found += change.inserted + change.updated
    return found


def counted_in(swap: Swap, identity: str) -> Counted:
    """What the commits of a stretch have counted of a table."""
    changes = [one for member in swap.members for one in member.tables.values() if one.identity == identity]
    return Counted(sum(one.inserted or 0 for one in changes), sum(one.updated or 0 for one in changes))


def inserted_into(swap: Swap, identity: str) -> int:
    """How many rows the commits of a run have inserted into a table."""
    changes = (change for member in swap.members for change in member.tables.values())
    return sum(change.inserted or 0 for change in changes if change.identity == identity)


def _rows(pin: Pin, inserted: int | None, deleted: int | None) -> int:
    """How many rows a table has now. Where it is not known: more than none, so that it is looked at."""
    if inserted is None or deleted is None:
        return max(pin.rows, 1)
    return max(pin.rows + inserted - deleted, 0)


def changed(entry: FeedEntry, before: Pins, now: Pins) -> Sequence[tuple[Pin | None, Pin]]:
    """The tables that an entry wrote, as they were and as they are; those that are as they were are left out."""
    pairs = ((before.get(identity), now[identity]) for identity in sorted(entry.tables) if identity in now)
    return [(old, new) for old, new in pairs if old is None or old.triple != new.triple]
