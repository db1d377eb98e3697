"""Pins made from table versions: the facts that the manifest repeats about them. Pure but for reading open handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omnigraph.commit.effects import Chain
from omnigraph.commit.plan import PublishPlan, Registration
from omnigraph.core.errors import Refused
from omnigraph.manifest import recent
from omnigraph.manifest.rows import BaseVersion, Pin
from omnigraph.manifest.state import State
from omnigraph.table.dataset import bases_in_use
from omnigraph.table.numbering import indexed_fragments
from omnigraph.table.stats import TableStats, stats_of

BASES_MAX = 16


def stats_of_pin(pin: Pin) -> TableStats:
    return TableStats(pin.rows, pin.fragments, pin.bytes, pin.deleted_rows, pin.unindexed_fragments)


def with_stats(pin: Pin, version: int, stats: TableStats) -> Pin:
    """The pin moved to another version of the same content or of new content. What ``recent`` knew is not carried along."""
    return replace(
        pin,
        version=version,
        rows=stats.rows,
        fragments=stats.fragments,
        bytes=stats.bytes,
        deleted_rows=stats.deleted_rows,
        unindexed_fragments=stats.unindexed_fragments,
        recent=None,
    )


def pin_of(state: State, identity: str) -> Pin | None:
    """The pin of a table on this state, by identity: a renamed table has another key."""
    return next((pin for pin in state.tables.values() if pin.identity == identity), None)


def forked_bases(old: Pin) -> tuple[BaseVersion, ...]:
    """The bases of a line that was forked from this pin, nearest first. Beyond the bound those go that are not needed. No root
    would keep a needed one that is not listed, so the table has to be settled first."""
    bases = (BaseVersion(old.ref, old.version, True), *old.bases)
    if any(base.needed for base in bases[BASES_MAX:]):
        raise Refused(
            f"table {old.key} reads files of {len(bases)} lines that were forked one from the other, and {BASES_MAX} is the most",
            hint="run `omnigraph optimize --settle --branch NAME` on the branch that this one was made from, and make this one again",
            reason="bases",
            table=old.key,
        )
    return bases[:BASES_MAX]


def landing_pin(state: State, plan: PublishPlan, chain: Chain) -> Pin:
    """The pin that publishing this chain makes, but for its figures: where the table will stand, and who owns that line."""
    if chain.first.kind == "create":
        made = next((one for one in plan.delta.register if one.identity == chain.identity), None)
        if made is None:
            raise ValueError(f"table {chain.key} is created and not registered")
        return created_pin(made, state.identity)
    base = state.tables.get(chain.key)
    if base is None or base.identity != chain.identity:
        raise ValueError(f"table {chain.key} is not on this branch")
    renamed = next((one for one in plan.delta.rename if one.identity == chain.identity), None)
    if renamed is not None:
        base = replace(base, key=renamed.to_key, incarnation=renamed.incarnation)
    if chain.first.kind == "fork":
        base = replace(base, ref=chain.ref, owner=state.identity, bases=forked_bases(base))
    if chain.first.kind == "restore":
        base = replace(base, bases=_restored_bases(plan, chain))
    return base


def _restored_bases(plan: PublishPlan, chain: Chain) -> tuple[BaseVersion, ...]:
    """The bases that the old version had: the content that comes back may lean on some that the pin has cut away since."""
    tables = (table for source in plan.sources for table in source.tables)
    found = [one for one in tables if (one.path, one.ref) == (chain.path, chain.ref)]
    if len(found) != 1:
        raise ValueError(f"the plan restores {chain.key} and does not name the version that it takes")
    return tuple(BaseVersion(*base) for base in found[0].bases)


def created_pin(made: Registration, owner: str) -> Pin:
    return Pin(
        key=made.key,
        identity=made.identity,
        incarnation=made.incarnation,
        type_id=made.type_id,
        location=made.location,
        ref=None,
        version=1,
        owner=owner,
    )


def achieved_pin(pin: Pin, handle: Any) -> Pin:
    """The pin at the version of this handle, with its figures. No request: a fork tells from its fragments which bases it
    still needs."""
    found = with_stats(pin, int(handle.version), stats_of(handle))
    if not found.bases:
        return found
    needed = bases_in_use(handle)
    return replace(found, bases=tuple(replace(base, needed=base.needed and needed) for base in found.bases))


def upkept_pin(pin: Pin, handle: Any) -> Pin:
    """The pin at a version that upkeep has made: what is known of the ids of fragments that it left alone and that no index covers
    is kept."""
    found = achieved_pin(pin, handle)
    if pin.recent is None:
        return found
    there = set(handle.fragment_ids()) - indexed_fragments(handle, "id")
    return replace(found, recent=recent.without(pin.recent, set(pin.recent.fragments) - there))


def landed_pins(state: State, plan: PublishPlan, landed: Mapping[str, Any]) -> dict[str, Pin]:
    """The pins that publishing these handles makes, by the table key that they are published under."""
    pins: dict[str, Pin] = {}
    for chain in plan.chains:
        if chain.lands:
            pin = achieved_pin(landing_pin(state, plan, chain), landed[chain.key])
        elif chain.first.kind == "adopt" and chain.first.pin_row is not None:
            pin = chain.first.pin_row
        else:
            continue
        pins[pin.key] = pin
    for one in plan.delta.rename:
        if one.to_key not in pins and (old := pin_of(state, one.identity)) is not None:
            pins[one.to_key] = replace(old, key=one.to_key, incarnation=one.incarnation)
    return pins
