"""The state of one branch at one manifest version, as a value, and how a swap changes it.

Pure: every function takes a state and returns one. A state built in memory after a swap equals the one that a cold open
reads back, and the tests hold that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.core.errors import Corruption
from omnigraph.manifest import rows as r

TAIL_ROLL = 128  # history rows in the current fragment at which the oldest are archived
TAIL_KEEP = 64  # what stays: a look-up of a recent commit must not need the archive


@dataclass(frozen=True)
class State:
    """What one version of ``__manifest`` says about a branch."""

    version: int
    ref: str | None
    head: r.Head
    schema: r.SchemaRow
    tables: Mapping[str, r.Pin]
    tombstones: tuple[r.Tombstone, ...] = ()
    tail: tuple[r.HistoryRow, ...] = ()
    foreign: tuple[r.RawRow, ...] = field(default=(), repr=False)

    @property
    def identity(self) -> str:
        return self.head.identity

    @property
    def last_seq(self) -> int:
        return self.tail[-1].seq if self.tail else 0

    def in_tail(self, commit_id: str) -> r.HistoryRow | None:
        for row in reversed(self.tail):
            if row.commit_id == commit_id:
                return row
        return None

    def tail_reaches(self, manifest_version: int) -> bool:
        """Whether every history row written after that manifest version is in the tail."""
        if not self.tail or self.tail[0].seq == 1:
            return True
        return self.tail[0].manifest_version <= manifest_version + 1

    def actual_version(self, key: str) -> int:
        """The version to report for a table in a conflict: its pin, its tombstone's version, or 0."""
        pin = self.tables.get(key)
        if pin is not None:
            return pin.version
        return max((t.version for t in self.tombstones if t.key == key), default=0)


@dataclass(frozen=True)
class Change:
    """What one swap does to a state. Everything optional; an empty change still makes a version (a mark, an epoch)."""

    pins: Mapping[str, r.Pin] = field(default_factory=dict)
    tombstones: tuple[r.Tombstone, ...] = ()
    schema: r.SchemaRow | None = None
    history: r.HistoryRow | None = None
    head: r.Head | None = None


def fold(state: State, change: Change) -> tuple[State, tuple[r.HistoryRow, ...]]:
    """The state after the swap, and the history rows that move to the archive with it."""
    version = state.version + 1
    tables = dict(state.tables)
    for tombstone in change.tombstones:
        tables.pop(tombstone.key, None)
    tables.update(change.pins)
    head = change.head or state.head
    tail = state.tail
    if change.history is not None:
        row = replace(change.history, manifest_version=version, seq=state.last_seq + 1)
        tail = (*tail, row)
        if isinstance(row, r.CommitRow):
            head = replace(head, commit_id=row.commit_id)
    archived: tuple[r.HistoryRow, ...] = ()
    if len(tail) >= TAIL_ROLL:
        archived, tail = tail[:-TAIL_KEEP], tail[-TAIL_KEEP:]
    after = State(
        version=version,
        ref=state.ref,
        head=head,
        schema=change.schema or state.schema,
        tables=dict(sorted(tables.items())),
        tombstones=tuple(sorted((*state.tombstones, *change.tombstones), key=lambda t: (t.key, t.incarnation))),
        tail=tail,
        foreign=state.foreign,
    )
    return after, archived


def to_rows(state: State) -> list[r.RawRow]:
    """The rows of the current fragment, in a fixed order."""
    found: list[r.RawRow] = [r.head_row(state.head), r.schema_row(state.schema)]
    for pin in state.tables.values():
        found.extend(r.pin_rows(pin))
    found.extend(r.tombstone_row(tombstone) for tombstone in state.tombstones)
    found.extend(r.history_row(row) for row in state.tail)
    found.extend(state.foreign)
    return found


def from_rows(rows: Iterable[r.RawRow], *, version: int, ref: str | None) -> State:
    """The state that these rows say. Raises ``Corruption`` where they contradict each other."""
    by_type: dict[str, list[r.RawRow]] = {}
    for row in rows:
        by_type.setdefault(row.object_type, []).append(row)
    try:
        [head] = by_type.pop(r.GRAPH_HEAD)
        [schema] = by_type.pop(r.SCHEMA)
        registered = _by_key(by_type.pop(r.TABLE, []))
        versions = _by_key(by_type.pop(r.TABLE_VERSION, []))
        if registered.keys() != versions.keys():
            raise ValueError("registrations and pins name different tables")
        tables = {key: r.parse_pin(registered[key], versions[key]) for key in sorted(registered)}
        tombstones = [r.parse_tombstone(row) for row in by_type.pop(r.TABLE_TOMBSTONE, [])]
        history = [r.parse_history(row) for kind in r.HISTORY for row in by_type.pop(kind, [])]
        return State(
            version=version,
            ref=ref,
            head=r.parse_head(head),
            schema=r.parse_schema(schema),
            tables=tables,
            tombstones=tuple(sorted(tombstones, key=lambda t: (t.key, t.incarnation))),
            tail=tuple(sorted(history, key=lambda row: row.seq)),
            foreign=tuple(row for rows_ in by_type.values() for row in rows_),
        )
    except (LookupError, ValueError, TypeError) as error:
        raise Corruption(
            f"the current state in __manifest does not read: {error}", object="__manifest", version=version
        ) from error


def _by_key(rows: Iterable[r.RawRow]) -> dict[str, r.RawRow]:
    found: dict[str, r.RawRow] = {}
    for row in rows:
        if found.setdefault(row.table_key, row) is not row:
            raise ValueError(f"two rows of kind {row.object_type} for table {row.table_key!r}")
    return found


def genesis(
    *, identity: str, commit_id: str, actor: str | None, created_at_us: int, schema: r.SchemaRow, pins: Iterable[r.Pin]
) -> State:
    """The state that ``init`` commits: version 1, one commit without parents."""
    tables = {pin.key: pin for pin in sorted(pins, key=lambda pin: pin.key)}
    row = r.CommitRow(
        commit_id=commit_id,
        parents=(),
        actor=actor,
        created_at_us=created_at_us,
        ref=None,
        manifest_version=1,
        kind="init",
        tables={key: r.TableCounts(pin.version) for key, pin in tables.items()},
        seq=1,
    )
    return State(
        version=1,
        ref=None,
        head=r.Head(identity, commit_id),
        schema=schema,
        tables=tables,
        tail=(row,),
    )
