"""The states from which the next merge of a branch would begin: a cleanup keeps them, or that merge could not be made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.commit.ancestry_lines import GraphLines as Ancestry
from omnigraph.commit.ancestry_lines import place_of
from omnigraph.commit.engine import Engine
from omnigraph.commit.lines import GraphLines, ManifestLine
from omnigraph.core.errors import NotFound, OmnigraphError, Refused
from omnigraph.core.meter import Meter
from omnigraph.manifest.ancestry import Place, merge_bases, places_of, virtual_base
from omnigraph.manifest.state import State


def fork_points(engine: Engine, lines: GraphLines, dead: Sequence[ManifestLine], meter: Meter) -> dict[str, State]:
    """By the reason: the states from which branches are being made, from which those that exist were made, and the merge bases of
    each with main and with the branch that it was made from. All bases, and what a virtual base of several is computed of."""
    found = {f"source of a new branch {n}": state for n, state in enumerate(lines.sources)}
    living = [line for line in lines.lines if line not in dead]
    for line in living:
        parent = line.held.state.head.parent
        if parent is not None:
            state = _state(engine, Place(parent.ref, parent.manifest_version, parent.commit), line.label, meter)
            if state is not None:
                found[f"where {line.label} was made"] = state
    kept = {(state.ref, state.version) for state in found.values()}
    named = [line for line in living if line.name is not None]  # into others nothing is merged any more
    for one, other, place in _bases(engine, named, meter):
        if (place.ref, place.version) not in kept:
            state = _state(engine, place, one.label, meter)
            if state is not None:
                found[f"merge base of {one.label} and {other.label}, commit {place.commit}"] = state
    return found


def _bases(
    engine: Engine, living: Sequence[ManifestLine], meter: Meter
) -> Iterator[tuple[ManifestLine, ManifestLine, Place]]:
    """Told by forks and merges alone, however long the histories are."""
    if len(living) == 1:
        return
    by_identity = {line.identity: line for line in living}
    for line in living:
        parent = line.held.state.head.parent
        if parent is None:
            continue
        others = {living[0].identity: living[0]}
        if parent.identity in by_identity:
            others[parent.identity] = by_identity[parent.identity]
        for other in others.values():
            try:
                ancestry = Ancestry.of(engine, (line.held, other.held), meter)
                bases = merge_bases(place_of(line.held), place_of(other.held), ancestry)
                places = places_of(virtual_base(bases, ancestry)) or bases
            except OmnigraphError as error:
                raise _unreadable(line.label, error) from error
            yield from ((line, other, place) for place in places)


def _state(engine: Engine, place: Place, label: str, meter: Meter) -> State | None:
    """None: it was reclaimed long ago, and there is nothing left to keep."""
    try:
        return engine.manifest.open_at(place.ref, place.version, meter).state
    except NotFound:
        return None
    except OmnigraphError as error:
        raise _unreadable(label, error) from error


def _unreadable(label: str, error: OmnigraphError) -> Refused:
    return Refused(
        f"what branch {label!r} was made from cannot be read: {error.message}",
        hint="run `omnigraph verify --deep`, which names what cannot be read, and restore that from a backup",
        reason="unreadable-branch",
        branch=label,
    )
