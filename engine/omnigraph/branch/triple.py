"""What a merge does to each table, decided from pins alone. Pure.

Every merge is one of three states: what changed from ``base`` to ``source`` is done to ``target``. Merging a branch, taking a
commit back and going back to an older state differ only in which states these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from omnigraph.commit.plan import Source, SourceTable
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.schema.catalog import Catalog, EdgeType, TableType


class Action(Enum):
    SAME = "same"  # source and target are one version
    KEEP = "keep"  # the source has not changed it
    ADOPT = "adopt"  # publish the source's version as it is
    RESTORE = "restore"  # put an older version of the target's own line back
    DROP = "drop"
    ROWS = "rows"  # compare rows


@dataclass(frozen=True)
class TablePins:
    """The pins of one type in the states of a merge. None where the state has no such type. ``bases``: of every base."""

    bases: tuple[Pin | None, ...]
    source: Pin | None
    target: Pin | None


@dataclass(frozen=True)
class Terms:
    """What a merge may do besides writing rows. ``owner``: the branch that is written to. ``restores``: the source is an older
    state that no cleanup has reached."""

    owner: str
    restores: bool = False
    adopts: bool = False


def action_of(pins: TablePins, terms: Terms, *, same_fields: bool) -> Action:
    """``same_fields``: the type has the fields of the source's in the merged schema."""
    source, target = pins.source, pins.target
    if _triple(source) == _triple(target):
        return Action.SAME
    if all(_triple(base) == _triple(source) for base in pins.bases):
        return Action.KEEP
    if all(_triple(base) == _triple(target) for base in pins.bases):
        if source is None:
            return Action.DROP
        if terms.restores and same_fields and target is not None and _may_restore(source, target, terms.owner):
            return Action.RESTORE
        same_table = target is None or target.identity == source.identity
        if terms.adopts and same_fields and same_table and is_self_contained(source):
            return Action.ADOPT
    return Action.ROWS


def rests_on(pins: TablePins) -> bool:
    """Whether the source has changed the table: the merge may only be published while the target has it as it is now, also where
    nothing is written to it."""
    return pins.target is not None and any(_triple(base) != _triple(pins.source) for base in pins.bases)


def same_fields(merged: TableType, source: TableType | None) -> bool:
    """Whether a version with the source's columns is one of the merged type."""
    return source is not None and [(p.name, p.type) for p in merged.properties] == [
        (p.name, p.type) for p in source.properties
    ]


def source_of(state: State, pins: Iterable[Pin]) -> Source:
    """A state that versions are taken from."""
    return Source(
        state.identity, state.ref, state.version, state.head.commit_id, tuple(source_table(pin) for pin in pins)
    )


def source_table(pin: Pin) -> SourceTable:
    return SourceTable(
        pin.location, pin.ref, pin.version, tuple((base.ref, base.version, base.needed) for base in pin.bases)
    )


def left_alone(pins: TablePins) -> Action:
    """What is said of a table that a merge is not about."""
    return Action.SAME if _triple(pins.source) == _triple(pins.target) else Action.KEEP


def is_self_contained(pin: Pin) -> bool:
    """Whether the version needs no file of another line."""
    return not any(base.needed for base in pin.bases)


def _triple(pin: Pin | None) -> tuple[str, str | None, int] | None:
    return None if pin is None else pin.triple


def _may_restore(source: Pin, target: Pin, owner: str) -> bool:
    """A Restore works on one line, and only its owner commits there."""
    return (source.identity, source.ref, target.owner) == (target.identity, target.ref, owner) and (
        source.version < target.version
    )


def to_validate(actions: Mapping[str, Action], catalog: Catalog, *, same_rules: bool) -> frozenset[str]:
    """The table keys whose changes have to be validated, together. ``same_rules``: the source was valid under the merged
    schema.

    The state of the source was valid. Where a type, and every type that it shares an edge type with, is in the result as the
    source has it, so is their result.
    """
    changed = {key for key, action in actions.items() if action not in (Action.SAME, Action.KEEP)}
    if not same_rules:
        return frozenset(changed)
    whole = {key for key, one in actions.items() if one in (Action.SAME, Action.ADOPT, Action.RESTORE, Action.DROP)}
    partial = {declared.table_key for declared in catalog.types()} - whole
    found = {key for key in changed if key in partial or partial & _neighbours(key, catalog.edges.values())}
    # What is validated is validated with all that changes beside it: an edge that goes with its node is no orphan.
    todo = list(found)
    while todo:
        beside = (_neighbours(todo.pop(), catalog.edges.values()) & changed) - found
        found |= beside
        todo += beside
    return frozenset(found)


def _neighbours(key: str, edges: Iterable[EdgeType]) -> set[str]:
    """The tables that share a rule with this one: the edge types of a node type, and the node types that they join."""
    found: set[str] = set()
    for edge in edges:
        group = {edge.table_key, f"node:{edge.src_type}", f"node:{edge.dst_type}"}
        if key in group:
            found |= group
    return found - {key}
