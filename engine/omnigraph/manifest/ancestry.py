"""What two commits have in common: ancestors over both parent links, and the bases of a merge. Pure.

A line of the manifest is a chain, so the ancestors of a commit on one line are all up to some version of it. What a commit
reaches is therefore one version a line, and only forks and merges have to be read to know it, however long the lines are.
Several common ancestors may each have what the others lack; a merge then folds them into a virtual base. A single one, the
nearest or the newest, would keep superseded values without a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

BASES_MAX = 8
LEVELS_MAX = 4


@dataclass(frozen=True)
class Place:
    """A state that a commit left: a version of a line (None: main's), and the last commit of it."""

    ref: str | None
    version: int
    commit: str

    def reaches(self, other: Place) -> bool:
        """Whether the other, of the same line, is this one or comes before it. Versions without a commit are no progress."""
        return self.commit == other.commit or self.version >= other.version


@dataclass(frozen=True)
class Join:
    """A merge on a line: the version that it made, and what it merged."""

    version: int
    source: Place


@dataclass(frozen=True)
class LineHistory:
    """What of a line's history decides about ancestors. ``fork``: what the line was made from; None for main."""

    fork: Place | None
    joins: tuple[Join, ...] = ()


Lines = Callable[[str | None], LineHistory]  # by the ref of the line
Reach = Mapping[str | None, Place]  # by the ref of the line: the newest place that is reached on it


def reach(places: Iterable[Place], lines: Lines) -> Reach:
    """What is reached from these places over both parent links, themselves included."""
    found: dict[str | None, Place] = {}
    todo = list(places)
    while todo:
        place = todo.pop()
        before = found.get(place.ref)
        if before is not None and before.reaches(place):
            continue
        line = lines(place.ref)
        found[place.ref] = place
        if before is None and line.fork is not None:
            todo.append(line.fork)
        since = 0 if before is None else before.version
        todo += [join.source for join in line.joins if since < join.version <= place.version]
    return found


def contains(reached: Reach, place: Place) -> bool:
    """Whether the place is among the ancestors that were reached."""
    found = reached.get(place.ref)
    return found is not None and found.reaches(place)


def maximal_common(one: Reach, other: Reach, lines: Lines) -> tuple[Place, ...]:
    """All common ancestors that are no ancestor of another common one."""
    common = [other[ref] if place.reaches(other[ref]) else place for ref, place in one.items() if ref in other]
    reached = [reach([place], lines) for place in common]
    maximal = [
        place
        for at, place in enumerate(common)
        if not any(contains(found, place) for number, found in enumerate(reached) if number != at)
    ]
    return tuple(sorted(maximal, key=lambda place: (place.ref or "", place.version)))


def merge_bases(source: Place, target: Place, lines: Lines) -> tuple[Place, ...]:
    """The bases of a merge: ``(source,)`` where the target has it already, ``(target,)`` where the source goes on from it."""
    return maximal_common(reach([source], lines), reach([target], lines), lines)


# --- the virtual base ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """Two bases, merged over what they have in common. ``over``: None where that is too much to follow."""

    over: Base | None
    first: Base
    second: Base


Base = Place | Fold


def virtual_base(bases: Sequence[Place], lines: Lines, levels: int = LEVELS_MAX) -> Base | None:
    """How to compute the base of a merge with these maximal common ancestors. None: there are too many to follow."""
    if not bases or len(bases) > BASES_MAX or (len(bases) > 1 and levels == 0):
        return None
    made: Base = bases[0]
    reached = reach([bases[0]], lines)
    for place in bases[1:]:
        mine = reach([place], lines)
        made = Fold(virtual_base(maximal_common(reached, mine, lines), lines, levels - 1), made, place)
        reached = _joined(reached, mine)
    return made


def places_of(base: Base | None) -> tuple[Place, ...]:
    """All states that computing a base reads, each once."""
    if base is None:
        return ()
    if isinstance(base, Place):
        return (base,)
    return tuple(dict.fromkeys([*places_of(base.first), *places_of(base.second), *places_of(base.over)]))


def _joined(one: Reach, other: Reach) -> Reach:
    found = dict(one)
    for ref, place in other.items():
        if ref not in found or not found[ref].reaches(place):
            found[ref] = place
    return found
