"""What keeps versions: the roots of a cleanup, line by line. Pure.

A branch keeps what its retained commits need, a checkpoint and the source of a branch one state each, a pending write its tables
and its base, a staged batch what came after its base. What is deleted of the rest is ``cleanup_plan``'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from omnigraph.commit.intent import Intent
from omnigraph.commit.lines import owned_keys
from omnigraph.manifest.rows import CommitRow, Pin
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.store import layout
from omnigraph.table.version_list import VersionFile
from omnigraph.upkeep.cleanup_plan import Line, Range, SeenCommit
from omnigraph.upkeep.garbage import Line as Place


@dataclass(frozen=True)
class Staging:
    """A staging record: a live one keeps what its files may have become part of, an expired one is garbage."""

    id: str
    tables: tuple[tuple[str, str | None, int], ...]  # location, ref, base pin
    files: tuple[str, ...]
    expired: bool


Named = Mapping[tuple[str, str | None], frozenset[int]]  # (identity of a table, ref) → versions
NOTHING: Named = MappingProxyType({})


@dataclass(frozen=True)
class BranchView:
    """A branch: its newest state, and the oldest commit that is retained, with its state. ``named``: the versions that commits in
    between name. ``between``: states of theirs that name a line of a table which both ends do not. ``dropped``: the
    steps by which they dropped types and properties. ``kept_whole``: why nothing of its line is deleted; None where the cleanup acts
    upon it."""

    branch: str
    held: Held = field(repr=False)
    oldest: SeenCommit
    then: State = field(repr=False)
    named: Named = field(default_factory=lambda: NOTHING, repr=False)
    between: tuple[State, ...] = field(default=(), repr=False)
    dropped: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    kept_whole: str | None = None

    @property
    def states(self) -> tuple[State, ...]:
        return (self.then, self.held.state, *self.between)


def named_by(rows: Iterable[CommitRow]) -> Named:
    """The versions of tables that these commits published."""
    found: dict[tuple[str, str | None], set[int]] = {}
    for row in rows:
        for change in row.tables.values():
            found.setdefault((change.identity, change.ref), set()).add(change.version)
    return {place: frozenset(versions) for place, versions in found.items()}


def dropped_by(rows: Iterable[CommitRow]) -> tuple[Mapping[str, Any], ...]:
    """The steps by which these commits dropped types and properties. What they dropped is in the state before each, which is kept."""
    steps = (step for row in rows if row.schema is not None for step in row.schema["steps"])
    return tuple(step for step in steps if step["step"] in ("drop_type", "drop_property"))


# --- lines --------------------------------------------------------------------------------------------------------------


def manifest_lines(
    seen: Mapping[Place, tuple[VersionFile, ...]],
    views: Sequence[BranchView],
    intents: Sequence[Intent],
    pinned: Mapping[str, State],
) -> Iterator[Line]:
    """The lines of the manifest. ``pinned``: states that are kept, by the reason."""
    for view in views:
        state = view.held.state
        kept = [Range(view.oldest.manifest_version, None, f"commit {view.oldest.commit_id} and newer")]
        kept += _needed_by_others(state.identity, intents, pinned)
        place = (layout.MANIFEST, state.ref)
        yield Line("__manifest", *place, seen.get(place, ()), tuple(kept), view.kept_whole)


def dead_lines(
    seen: Mapping[Place, tuple[VersionFile, ...]],
    dead: Sequence[State],
    intents: Sequence[Intent],
    pinned: Mapping[str, State],
) -> Iterator[Line]:
    """Lines of the manifest that no branch is at any more: nothing of one is kept for its own sake."""
    for state in dead:
        place = (layout.MANIFEST, state.ref)
        kept = tuple(_needed_by_others(state.identity, intents, pinned))
        yield Line("__manifest", *place, seen.get(place, ()), kept)


def _needed_by_others(identity: str, intents: Sequence[Intent], pinned: Mapping[str, State]) -> Iterator[Range]:
    """What checkpoints, branches that were made here and pending writes need of a line of the manifest."""
    for why, one in pinned.items():
        if one.identity == identity:
            yield Range(one.version, one.version, why)
    for intent in intents:
        if intent.plan is None:
            continue
        if intent.branch.identity == identity:
            yield Range(intent.plan.base.manifest_version, None, f"pending {intent.kind} {intent.op}")
        for source in intent.plan.sources:
            if source.identity == identity:
                why = f"source of pending {intent.kind} {intent.op}"
                yield Range(source.manifest_version, source.manifest_version, why)


def table_lines(
    seen: Mapping[Place, tuple[VersionFile, ...]],
    views: Sequence[BranchView],
    intents: Sequence[Intent],
    pinned: Mapping[str, State],
    staging: Sequence[Staging],
) -> Iterator[Line]:
    """The lines of tables that anything names."""
    kept = kept_ranges(views, intents, pinned, staging)
    keys: dict[Place, str] = {}
    exempt: dict[str, str] = {}
    for state in (*(state for view in views for state in view.states), *pinned.values()):
        for pin in state.tables.values():
            keys.setdefault((pin.location, pin.ref), pin.key)
            for base in pin.bases:
                keys.setdefault((pin.location, base.ref), pin.key)
    for intent in intents:
        for key in intent.keys:
            exempt[key] = f"pending {intent.kind} {intent.op}"
        for read in intent.plan.reads if intent.plan is not None else ():
            exempt.setdefault(read.key, f"read by pending {intent.kind} {intent.op}")
    for place in sorted(keys, key=lambda place: (keys[place], place[0], place[1] or "")):
        key = keys[place]
        yield Line(key, *place, seen.get(place, ()), tuple(kept.get(place, ())), exempt.get(key))


# --- roots of table lines -----------------------------------------------------------------------------------------------


def kept_ranges(
    views: Sequence[BranchView], intents: Sequence[Intent], pinned: Mapping[str, State], staging: Sequence[Staging]
) -> dict[Place, list[Range]]:
    """What is kept of each line of a table. Closed under bases: what keeps a version keeps what it needs of other lines."""
    kept: dict[Place, list[Range]] = {}

    def keep(place: Place, low: int, high: int | None, why: str) -> None:
        kept.setdefault(place, []).append(Range(low, high, why))

    for view in views:
        for place, span in branch_ranges(view.then, view.held.state, view.branch, view.named, view.between):
            keep(place, span.low, span.high, span.why)
    for why, state in pinned.items():
        for pin in state.tables.values():
            keep((pin.location, pin.ref), pin.version, pin.version, why)
            for place, version in _bases(pin, needed_only=True):
                keep(place, version, version, f"base of {why}")
    for intent in intents:
        for source in intent.plan.sources if intent.plan is not None else ():
            why = f"source of pending {intent.kind} {intent.op}"
            for table in source.tables:
                keep((table.path, table.ref), table.version, table.version, why)
                for ref, version, _needed in table.bases:
                    keep((table.path, ref), version, version, why)
    for record in staging:
        for path, ref, pin_version in () if record.expired else record.tables:
            # Its files may have been committed, undone, and be about to be committed again.
            keep((path, ref), pin_version + 1, None, f"staged batch {record.id}")
    return kept


def branch_ranges(
    then: State, now: State, branch: str, named: Named = NOTHING, between: Sequence[State] = ()
) -> Iterator[tuple[Place, Range]]:
    """What a branch keeps of each table line. Pure.

    Of a line that it commits to: everything from the oldest retained pin on. One that only some of the states name was forked,
    dropped or created in between, at a version that need not be known: all of it is kept.
    Of a line that another branch commits to: exactly the versions that its retained states and commits name; whatever that
    other branch does on the line is none of its business. The bases of every pin are kept: those that it needs, and all of a
    line that began in between, because its earlier states may have needed what the newest does not.
    """
    why = f"retained commits of {branch}"
    states = (then, now, *between)
    old = {(pin.location, pin.ref): pin.version for pin in then.tables.values()}
    own = {(state.tables[key].location, state.tables[key].ref) for state in states for key in owned_keys(state)}
    for place in sorted(own, key=lambda place: (place[0], place[1] or "")):
        yield place, Range(old.get(place, 0), None, why)
    for state in states:
        for pin in state.tables.values():
            place = (pin.location, pin.ref)
            versions = {pin.version, *named.get((pin.identity, pin.ref), ())} if place not in own else set()
            for version in sorted(versions):
                yield place, Range(version, version, why)
            for base, version in _bases(pin, needed_only=place in old):
                yield base, Range(version, version, f"base of {why}")


def _bases(pin: Pin, *, needed_only: bool) -> Iterator[tuple[Place, int]]:
    for base in pin.bases:
        if base.needed or not needed_only:
            yield (pin.location, base.ref), base.version
