"""Garbage below the root: datasets, forks and records that no state names and no intent claims.

Owns the listing and the pure judgement. The order is the caller's promise: artefacts are listed first, then intents, then
manifests, so that what is found unclaimed cannot be claimed by an operation that began in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.commit.engine import Engine, gather
from omnigraph.commit.intent import Intent
from omnigraph.commit.lines import list_folders
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import State
from omnigraph.store import layout

Line = tuple[str, str | None]  # the place of a dataset and the ref on it; None is its main line


@dataclass(frozen=True)
class Artefacts:
    """Datasets and forks that exist, by their paths."""

    datasets: frozenset[str]
    forks: frozenset[tuple[str, str]]
    lines: tuple[str, ...] = ()  # folders below __manifest/tree/


def list_artefacts(engine: Engine, meter: Meter | None = None) -> Artefacts:
    """One listing for lines of the manifest, one for nodes, one for edges, and one a dataset for its forks."""
    lines = list_folders(engine, meter or Meter())
    datasets = {
        f"{folder}{name}"
        for folder in (layout.NODES, layout.EDGES)
        for name in engine.store.folders(folder, meter=meter)
    }

    def forks_of(path: str) -> list[tuple[str, str]]:
        return [(path, ref) for ref in engine.store.folders(f"{path}/tree/", meter=meter)]

    found = gather([engine.spawn(forks_of, path) for path in sorted(datasets)])
    return Artefacts(frozenset(datasets), frozenset(fork for forks in found for fork in forks), lines)


def lines_named(states: Iterable[State]) -> frozenset[Line]:
    """Every version line that some state publishes a version of, and those that such a version needs files of. A fork needs its
    dataset's main line as well."""
    named: set[Line] = set()
    for state in states:
        for pin in state.tables.values():
            named.add((pin.location, pin.ref))
            named.add((pin.location, None))
            named.update((pin.location, base.ref) for base in pin.bases if base.needed)
    return frozenset(named)


def lines_claimed(intents: Iterable[Intent]) -> frozenset[Line]:
    """Every version line that a write in flight may be about to publish."""
    claimed: set[Line] = set()
    for intent in intents:
        if intent.plan is None:
            continue
        for chain in intent.plan.landing:
            claimed.update(((chain.path, chain.ref), (chain.path, None)))
        for effect in intent.plan.effects:
            if effect.base is not None:
                claimed.update(((effect.base.path, effect.base.ref), (effect.base.path, None)))
            if effect.pin_row is not None:
                claimed.update(((effect.pin_row.location, effect.pin_row.ref), (effect.pin_row.location, None)))
        for source in intent.plan.sources:
            for table in source.tables:
                claimed.update(((table.path, table.ref), (table.path, None)))
                claimed.update((table.path, ref) for ref, _version, _needed in table.bases)
        for made in intent.plan.delta.register:
            claimed.add((made.location, None))
    return frozenset(claimed)


def unclaimed(artefacts: Artefacts, *kept: frozenset[Line]) -> tuple[Line, ...]:
    """What none of ``kept`` names, sorted. A fork of an unclaimed dataset goes with it and is not listed."""
    known: frozenset[Line] = frozenset().union(*kept)
    datasets = {path for path in artefacts.datasets if (path, None) not in known}
    forks = {fork for fork in artefacts.forks if fork not in known and fork[0] not in datasets}
    return tuple(sorted([*((path, None) for path in datasets), *forks], key=lambda line: (line[0], line[1] or "")))
