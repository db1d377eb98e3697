"""Which rows lie in which fragment of a version, and the state that the fragments of a version say. Pure.

A version lists archive fragments, oldest first, then schema, base and current. Version 1 of a line may hold everything in
one fragment. A fragment with rows of a known kind that belongs elsewhere is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from omnigraph.core.errors import Corruption
from omnigraph.manifest import codec
from omnigraph.manifest import rows as r
from omnigraph.manifest.state import Foreign, State

STATE_FRAGMENTS: Final = 3  # schema, base, current

_HOLDS: Final = {
    "schema": frozenset({r.SCHEMA, r.TABLE, r.TABLE_TOMBSTONE}),
    "base": frozenset({r.TABLE_VERSION, r.NO_TABLE}),
    "current": frozenset({r.GRAPH_HEAD, r.TABLE_VERSION, *r.HISTORY}),
    "archive": frozenset(r.HISTORY),
}
_KNOWN: Final = frozenset().union(*_HOLDS.values())
_KIND: Final = attrgetter("object_type")


def archives(fragments: int) -> int:
    """Return how many of so many fragments are archive fragments."""
    return max(0, fragments - STATE_FRAGMENTS)


# --- what a swap writes -------------------------------------------------------------------------------------------------


def schema_rows(state: State) -> list[r.RawRow]:
    return [
        codec.schema_row(state.schema),
        *(codec.table_row(pin) for pin in state.tables.values()),
        *(codec.tombstone_row(tombstone) for tombstone in state.tombstones),
        *state.foreign.schema,
    ]


def base_rows(state: State) -> list[r.RawRow]:
    """At least one row: Lance keeps no empty fragment, and fragments are known by their place."""
    pins = (state.base or {}).values()
    return [*(codec.pin_row(pin) for pin in pins), *state.foreign.base] or [r.RawRow(r.NO_TABLE, r.NO_TABLE)]


def current_rows(state: State) -> list[r.RawRow]:
    return [
        codec.head_row(state.head),
        *map(codec.pin_row, state.moved),
        *codec.history_rows(state.tail),
        *state.foreign.current,
    ]


def single_rows(state: State) -> list[r.RawRow]:
    """Everything in one fragment: how version 1 of a line begins."""
    return [
        codec.head_row(state.head),
        *schema_rows(state),
        *(codec.pin_row(pin) for pin in state.tables.values()),
        *codec.history_rows(state.tail),
        *state.foreign.current,
    ]


# --- what an open reads -------------------------------------------------------------------------------------------------


def join(parts: Sequence[Sequence[r.RawRow]], *, version: int, ref: str | None) -> State:
    """The state of these fragments: schema, base and current, or one that holds everything.

    Raises ``Corruption`` where rows do not read or contradict each other.
    """
    try:
        if len(parts) == 1:
            return _single(parts[0], version, ref)
        schema, base, current = (_sorted_out(name, rows) for name, rows in zip(_HOLDS, parts, strict=False))
        registered = _registered(schema)
        pins = {pin.identity: pin for pin in _pins(registered, base.pop(r.TABLE_VERSION, []))}
        if pins.keys() != registered.keys():
            raise ValueError("registrations and the pins of base name different tables")
        moved = {pin.identity: pin for pin in _pins(registered, current.pop(r.TABLE_VERSION, []))}
        foreign = Foreign(_rest(schema), _rest(base), _rest(current))
        return _state({**pins, **moved}, schema, current, foreign, version=version, ref=ref, base=pins)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise Corruption(
            f"the current state in __manifest does not read: {error}", object="__manifest", version=version
        ) from error


def archived(rows: Iterable[r.RawRow]) -> list[r.RawRow]:
    """The history rows of an archive fragment, as stored, oldest first. Raises ``Corruption`` where a row does not belong."""
    try:
        by_type = _sorted_out("archive", rows)
    except ValueError as error:
        raise _bad_archive(error) from error
    found = [row for kind in r.HISTORY for row in by_type.get(kind, [])]
    if not found:
        raise _bad_archive("it holds no history")
    return sorted(found, key=lambda row: row.seq or 0)


def history(rows: Iterable[r.RawRow]) -> tuple[r.HistoryRow, ...]:
    """History rows as values. Raises ``Corruption`` where one does not read."""
    try:
        return tuple(map(codec.parse_history, rows))
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise _bad_archive(error) from error


def _bad_archive(why: object) -> Corruption:
    return Corruption(
        f"a fragment of the archive in __manifest does not read: {why}",
        hint="read again; if it stays so, keep the files and run `omnigraph verify --deep`",
        object="__manifest",
    )


_Rows = dict[str, list[r.RawRow]]


def _single(rows: Sequence[r.RawRow], version: int, ref: str | None) -> State:
    if version != 1:
        raise ValueError("one fragment holds everything, which only the first version of a line may do")
    by_type: _Rows = {}
    for row in rows:
        by_type.setdefault(row.object_type, []).append(row)
    registered = _registered(by_type)
    pins = {pin.identity: pin for pin in _pins(registered, by_type.pop(r.TABLE_VERSION, []))}
    if pins.keys() != registered.keys():
        raise ValueError("registrations and pins name different tables")
    current: _Rows = {kind: by_type.pop(kind) for kind in (r.GRAPH_HEAD, *r.HISTORY) if kind in by_type}
    schema: _Rows = {kind: by_type.pop(kind) for kind in _HOLDS["schema"] if kind in by_type}
    return _state(pins, schema, current, Foreign(current=_rest(by_type)), version=version, ref=ref, base=None)


def _state(
    pins: dict[str, r.Pin],
    schema: _Rows,
    current: _Rows,
    foreign: Foreign,
    *,
    version: int,
    ref: str | None,
    base: dict[str, r.Pin] | None,
) -> State:
    [head] = current[r.GRAPH_HEAD]
    [accepted] = schema[r.SCHEMA]
    tombstones = [codec.parse_tombstone(row) for row in schema.get(r.TABLE_TOMBSTONE, [])]
    tail = [codec.parse_history(row) for kind in r.HISTORY for row in current.get(kind, [])]
    return State(
        version=version,
        ref=ref,
        head=codec.parse_head(head),
        schema=codec.parse_schema(accepted),
        tables={pin.key: pin for pin in sorted(pins.values(), key=attrgetter("key"))},
        tombstones=tuple(sorted(tombstones, key=lambda t: (t.key, t.incarnation))),
        tail=tuple(sorted(tail, key=attrgetter("seq"))),
        foreign=foreign,
        base=base,
    )


def _sorted_out(name: str, rows: Iterable[r.RawRow]) -> _Rows:
    found: _Rows = {}
    for kind, together in groupby(rows, _KIND):
        found.setdefault(kind, []).extend(together)
    for kind in found.keys() & _KNOWN - _HOLDS[name]:
        raise ValueError(f"the {name} fragment holds {kind} {found[kind][0].object_id[:80]!r}")
    return found


def _registered(schema: _Rows) -> dict[str, r.RawRow]:
    """The ``table`` rows by identity."""
    rows = schema.get(r.TABLE, [])
    by_identity = dict(zip(codec.identities(rows), rows, strict=True))
    if len(by_identity) != len(rows) or len({row.table_key for row in rows}) != len(rows):
        raise ValueError("two registrations have one key or one identity")
    return by_identity


def _pins(registered: dict[str, r.RawRow], rows: Sequence[r.RawRow]) -> Iterable[r.Pin]:
    seen: set[str] = set()
    for identity, row in zip(codec.identities(rows), rows, strict=True):
        registration = registered.get(identity)
        if registration is None or registration.table_key != row.table_key:
            raise ValueError(f"the pin of {row.table_key!r} is of table {identity!r}, which is not registered under it")
        if identity in seen:
            raise ValueError(f"two pins of table {row.table_key!r}")
        seen.add(identity)
        yield codec.pin_of(registration, row)


def _rest(by_type: _Rows) -> tuple[r.RawRow, ...]:
    return tuple(row for kind, rows in by_type.items() if kind not in _KNOWN for row in rows)
