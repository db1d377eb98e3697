"""What keeps versions: the roots of a cleanup, line by line. Pure.

A branch keeps what its retained commits need, a checkpoint and the source of a branch one state each, a pending write its tables
and its base, a staged batch what came after its base. What is deleted of the rest is ``cleanup_plan``'s business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from omnigraph.commit.intent import Intent
from omnigraph.commit.lines import owned_keys
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.store import layout
from omnigraph.table.collect import VersionFile
from omnigraph.upkeep.cleanup_plan import Line, Range, SeenCommit
from omnigraph.upkeep.rubbish import Line as Place
from omnigraph.wire.cleanup import Checkpoint


@dataclass(frozen=True)
class Staging:
    """A staging record: a live one keeps what its files may have become part of, an expired one is rubbish."""

    id: str
    tables: tuple[tuple[str, str | None, int], ...]  # location, ref, base pin
    files: tuple[str, ...]
    expired: bool


@dataclass(frozen=True)
class BranchView:
    """A branch: its newest state, and the oldest commit that is retained, with its state. ``named``: versions of each table that
    commits in between name. ``kept_whole``: why nothing of its line is deleted; None where the cleanup acts upon it."""

    branch: str
    held: Held = field(repr=False)
    oldest: SeenCommit
    then: State = field(repr=False)
    named: Mapping[str, frozenset[int]] = field(default_factory=dict, repr=False)
    kept_whole: str | None = None


def manifest_lines(
    seen: Mapping[Place, tuple[VersionFile, ...]],
    views: Sequence[BranchView],
    intents: Sequence[Intent],
    checkpoints: Sequence[Checkpoint],
    sources: Sequence[State],
) -> Iterator[Line]:
    for view in views:
        state = view.held.state
        kept = [Range(view.oldest.manifest_version, None, f"commit {view.oldest.commit_id} and newer")]
        kept += [
            Range(one.manifest_version, one.manifest_version, f"checkpoint {one.name}")
            for one in checkpoints
            if one.ref == state.ref and one.identity == state.identity
        ]
        kept += [
            Range(intent.plan.base.manifest_version, None, f"pending {intent.kind} {intent.op}")
            for intent in intents
            if intent.plan is not None and intent.branch.identity == state.identity
        ]
        kept += [
            Range(source.version, source.version, "a branch is being made from it")
            for source in sources
            if source.ref == state.ref and source.identity == state.identity
        ]
        place = (layout.MANIFEST, state.ref)
        yield Line("__manifest", *place, seen.get(place, ()), tuple(kept), view.kept_whole)


def table_lines(
    seen: Mapping[Place, tuple[VersionFile, ...]],
    views: Sequence[BranchView],
    intents: Sequence[Intent],
    pinned: Mapping[str, State],
    staging: Sequence[Staging],
) -> Iterator[Line]:
    kept: dict[Place, list[Range]] = {}
    keys: dict[Place, str] = {}
    exempt: dict[str, str] = {}
    for view in views:
        for pin in (*view.then.tables.values(), *view.held.state.tables.values()):
            keys[(pin.location, pin.ref)] = pin.key
        for place, span in branch_ranges(view.then, view.held.state, view.branch, view.named):
            kept.setdefault(place, []).append(span)
    for name, state in pinned.items():
        for pin in state.tables.values():
            keys.setdefault((pin.location, pin.ref), pin.key)
            kept.setdefault((pin.location, pin.ref), []).append(Range(pin.version, pin.version, f"checkpoint {name}"))
    for intent in intents:
        for key in intent.keys:
            exempt[key] = f"pending {intent.kind} {intent.op}"
        for read in intent.plan.reads if intent.plan is not None else ():
            exempt.setdefault(read.key, f"read by pending {intent.kind} {intent.op}")
    for record in staging:
        for path, ref, pin_version in () if record.expired else record.tables:
            # Its files may have been committed, undone, and be about to be committed again.
            kept.setdefault((path, ref), []).append(Range(pin_version + 1, None, f"staged batch {record.id}"))
    for place in sorted(keys, key=lambda place: (keys[place], place[0], place[1] or "")):
        key = keys[place]
        yield Line(key, *place, seen.get(place, ()), tuple(kept.get(place, ())), exempt.get(key))


def branch_ranges(
    then: State, now: State, branch: str, named: Mapping[str, frozenset[int]] = MappingProxyType({})
) -> Iterator[tuple[Place, Range]]:
    """What a branch keeps of each table line. Pure.

    Of a line that it commits to: everything from the oldest retained pin on. One that only one of the two states names was
    forked, dropped or created in between, at a version that nobody has to know: all of it from there on is kept.
    Of a line that another branch commits to: exactly the versions that its retained states and commits name; whatever that
    other branch does on the line is none of its business."""
    why = f"retained commits of {branch}"
    old = {(pin.location, pin.ref): pin.version for pin in then.tables.values()}
    new = {(pin.location, pin.ref): pin.version for pin in now.tables.values()}
    own = {(state.tables[key].location, state.tables[key].ref) for state in (then, now) for key in owned_keys(state)}
    for place in sorted(old.keys() | new.keys(), key=lambda place: (place[0], place[1] or "")):
        if place in own:
            yield place, Range(old.get(place, 0), None, why)
    for state in (then, now):
        for key, pin in state.tables.items():
            place = (pin.location, pin.ref)
            for version in sorted({pin.version, *named.get(key, ())}) if place not in own else ():
                yield place, Range(version, version, why)
