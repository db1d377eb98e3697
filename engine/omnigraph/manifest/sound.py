"""Does a state that was read say what some swap could have written? Pure.

Every swap writes the whole current state again, so what was read wrongly once would be carried on for ever. The rows have no
checksum; but identities have a shape, history has an order, and the same fact stands in more than one row. What is read is
held against that before anything is based on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from omnigraph.core.ids import is_ulid
from omnigraph.manifest import rows as r
from omnigraph.manifest.state import State
from omnigraph.store import layout


def contradictions(state: State) -> Iterator[str]:
    """What no swap could have written, in words. Nothing for a sound state."""
    yield from _head(state)
    yield from _history(state)
    for pin in state.tables.values():
        yield from _pin(pin)
    yield from _pins_and_history(state)


def _head(state: State) -> Iterator[str]:
    for name, value in (("identity", state.head.identity), ("head", state.head.commit_id)):
        if not is_ulid(value):
            yield f"the {name} of the branch is {value[:80]!r}, which is no ULID"
    newest = next((row for row in reversed(state.tail) if isinstance(row, r.CommitRow)), None)
    if newest is not None and newest.commit_id != state.head.commit_id:
        yield f"the head is {state.head.commit_id}, the newest commit {newest.commit_id}"
    if state.head.epoch < 0 or not 0 <= state.head.boundary <= state.version:
        yield f"the head counts epoch {state.head.epoch} and boundary {state.head.boundary}"


def _history(state: State) -> Iterator[str]:
    for row in state.tail:
        if not is_ulid(row.commit_id):
            yield f"a record of history is named {row.commit_id[:80]!r}, which is no ULID"
    if state.tail and not 0 < state.tail[0].manifest_version <= state.tail[-1].manifest_version <= state.version:
        yield f"history names manifest versions that are not between 1 and {state.version}"
    for earlier, later in pairwise(state.tail):
        if later.seq != earlier.seq + 1 or later.manifest_version <= earlier.manifest_version:
            yield f"record {later.commit_id} is not the one that follows {earlier.commit_id}"
    commits = [row for row in state.tail if isinstance(row, r.CommitRow)]
    for commit in commits:
        if not all(is_ulid(parent) for parent in commit.parents):
            yield f"commit {commit.commit_id} has the parents {', '.join(commit.parents)[:80]!r}"
    for older, newer in pairwise(commits):
        if newer.parents[:1] != (older.commit_id,):
            yield f"commit {newer.commit_id} does not follow the one before it, {older.commit_id}"


def _pin(pin: r.Pin) -> Iterator[str]:
    if not layout.is_table_path(pin.location):
        yield f"table {pin.key} stands at {pin.location[:80]!r}"
    if not is_ulid(pin.identity) or (
        pin.ref is not None and (pin.ref[:2] not in ("g-", "f-") or not is_ulid(pin.ref[2:]))
    ):
        yield f"table {pin.key} has identity {pin.identity[:80]!r} and ref {pin.ref!r}"
    if pin.version < 1 or pin.incarnation < 1:
        yield f"table {pin.key} is published at version {pin.version}"
    if min(pin.rows, pin.fragments, pin.bytes, pin.deleted_rows, pin.unindexed_fragments) < 0:
        yield f"table {pin.key} counts something below zero"


def _pins_and_history(state: State) -> Iterator[str]:
    """Pins of one table only grow, so none is older than the newest commit that moved it. Not said of tables on a ref of
    their own, nor where a table of that name was dropped: their numbers are others."""
    dropped = {tombstone.key for tombstone in state.tombstones}
    seen: set[str] = set()
    for row in reversed(state.tail):
        if not isinstance(row, r.CommitRow):
            continue
        for key, counts in row.tables.items():
            pin = state.tables.get(key)
            if key in seen or key in dropped or pin is None or pin.ref is not None:
                continue
            seen.add(key)
            if pin.version < counts.version:
                yield f"table {key} is published at version {pin.version}, and commit {row.commit_id} made {counts.version}"
