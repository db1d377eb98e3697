"""Does a state that was read say what some swap could have written? Pure.

Every swap writes the current rows again, so what was read wrongly once would be carried on for ever. Digests find bytes that
changed after they were written; this module finds what was written wrongly: identities have a shape, history has an order,
and the same fact stands in more than one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from omnigraph.core.ids import is_ulid
from omnigraph.manifest import codec, lineage
from omnigraph.manifest import rows as r
from omnigraph.manifest.schema_id import schema_id, shape_hash
from omnigraph.manifest.state import State
from omnigraph.store import layout

_SOUND = "_sound"


@dataclass(frozen=True)
class Contradiction:
    """``message`` names the two versions of the manifest that cannot both be right about this table."""

    table_key: str
    message: str


def contradictions(state: State) -> Iterator[str]:
    """What no swap could have written, in words. Nothing for a sound state."""
    yield from _head(state)
    yield from _schema(state.schema)
    yield from lineage.contradictions(state.tail, line_of(state))
    yield from _tables(state.tables.values())
    yield from _tombstones(state)
    yield from _pins_and_history(state)


def line_of(state: State) -> lineage.Line:
    """What the head says about the history of its line."""
    parent = state.head.parent
    return lineage.Line(state.version, state.ref, state.head.commit_id, None if parent is None else parent.commit)


def _head(state: State) -> Iterator[str]:
    head = state.head
    for name, value in (("identity", head.identity), ("head", head.commit_id)):
        if not is_ulid(value):
            yield f"the {name} of the branch is {value[:80]!r}, which is no ULID"
    if head.mark is not None and not is_ulid(head.mark):
        yield f"the cleanup mark is {head.mark[:80]!r}, which is no ULID"
    if head.boundary > state.version:
        yield f"the boundary is {head.boundary}, above version {state.version}"
    if head.unsynced_since is not None and not 1 <= head.unsynced_since <= state.version:
        yield f"versions from {head.unsynced_since} on are not synced, but this is version {state.version}"
    if state.ref is not None and state.ref != f"g-{head.identity}":
        yield f"the line {state.ref} belongs to branch {head.identity}"
    if (state.ref is None) != (head.parent is None):
        yield f"the line {state.ref} has the parent {head.parent}"
    if head.parent is not None:
        yield from _parent(head.parent, head.identity)


def _parent(parent: r.Parent, identity: str) -> Iterator[str]:
    if not is_ulid(parent.identity) or not is_ulid(parent.commit) or parent.identity == identity:
        yield f"the branch was made from {parent.commit[:80]!r} of branch {parent.identity[:80]!r}"
    if parent.manifest_version < 1 or parent.ref not in (None, f"g-{parent.identity}"):
        yield f"the branch was made from version {parent.manifest_version} of line {parent.ref}"


def _schema(schema: r.SchemaRow) -> Iterator[str]:
    try:
        shape = shape_hash(schema.canonical)
    except ValueError as error:
        yield f"the canonical form of the schema does not read: {error}"
        return
    if schema.hash != shape:
        yield f"the schema has the hash {schema.hash[:80]!r}, its canonical form {shape}"
    if schema.id != schema_id(schema.canonical):
        yield f"the schema has the id {schema.id[:80]!r}, its canonical form {schema_id(schema.canonical)}"


def _tables(pins: Iterable[r.Pin]) -> Iterator[str]:
    """What is wrong with each pin. One never changes, and most of a state were there before; most branches own all they have."""
    owners: set[str] = set()
    for pin in pins:
        known = vars(pin)
        if _SOUND in known:
            continue
        if pin.owner in owners and not pin.bases and pin.version > 0 < pin.incarnation and is_ulid(pin.identity):
            if layout.is_table_path(pin.location):
                known[_SOUND] = True
                continue
        wrong = list(_pin(pin))
        yield from wrong
        if not wrong:
            known[_SOUND] = True
            owners.add(pin.owner)


def _pin(pin: r.Pin) -> Iterator[str]:
    if not layout.is_table_path(pin.location):
        yield f"table {pin.key} stands at {pin.location[:80]!r}"
    if not is_ulid(pin.identity):
        yield f"table {pin.key} has identity {pin.identity[:80]!r}"
    if not is_ulid(pin.owner):
        yield f"table {pin.key} has the owner {pin.owner[:80]!r}, which is no ULID"
    if pin.version < 1 or pin.incarnation < 1:
        yield f"table {pin.key} is published at version {pin.version} in incarnation {pin.incarnation}"
    if len(pin.bases) > codec.BASES_MAX:
        yield f"table {pin.key} has {len(pin.bases)} bases"
    if not pin.bases:
        return
    versions = [pin.version, *(base.version for base in pin.bases)]
    if versions[-1] < 1 or any(later > earlier for earlier, later in pairwise(versions)):
        yield f"table {pin.key} at version {pin.version} has bases at {versions[1:]}"


def _tombstones(state: State) -> Iterator[str]:
    for tombstone in state.tombstones:
        pin = state.tables.get(tombstone.key)
        if pin is not None and pin.incarnation <= tombstone.incarnation:
            yield f"table {pin.key} is alive in incarnation {pin.incarnation}, which was dropped"
        if not is_ulid(tombstone.identity):
            yield f"a dropped table {tombstone.key} has identity {tombstone.identity[:80]!r}"


def _pins_and_history(state: State) -> Iterator[str]:
    """Pins of one table's line only grow, so none is older than the newest commit of this line that moved it."""
    seen: set[str] = set()
    for row in reversed(state.tail):
        if not isinstance(row, r.CommitRow):
            continue
        for key, change in row.tables.items():
            pin = state.tables.get(key)
            if pin is None or key in seen or (pin.identity, pin.ref) != (change.identity, change.ref):
                continue
            seen.add(key)
            if pin.version < change.version:
                yield f"table {key} is published at version {pin.version}, and commit {row.commit_id} made {change.version}"


def between(states: Iterable[State]) -> Iterator[Contradiction]:
    """What the newest states of several lines contradict in each other. For ``verify``.

    One line of a table has one owner, and the bases that two pins give it are those of one chain: one list begins the other.
    """
    seen: dict[tuple[str, str | None], tuple[State, r.Pin]] = {}
    for state in states:
        for pin in state.tables.values():
            before, other = seen.setdefault((pin.location, pin.ref), (state, pin))
            line = f"{_described(before)} and {_described(state)} disagree on the line {pin.ref} of {pin.location}"
            if other.owner != pin.owner:
                yield Contradiction(pin.key, f"{line}: its owner is {other.owner}, or {pin.owner}")
            chains = [[(base.ref, base.version) for base in one.bases] for one in (other, pin)]
            shorter, longer = sorted(chains, key=len)
            if longer[: len(shorter)] != shorter:
                yield Contradiction(pin.key, f"{line}: its bases are {_chain(chains[0])}, or {_chain(chains[1])}")


def _described(state: State) -> str:
    return f"manifest version {state.version} of branch {state.head.name or state.identity}"


def _chain(bases: list[tuple[str | None, int]]) -> str:
    return ", ".join(f"version {version} of {ref}" for ref, version in bases) or "none"
