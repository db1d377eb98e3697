"""Drift without an owner: put a table back to its pin and publish that, so that quiet tables do not keep it.

Nothing of a pin's content changes: what is published is a ``Restore`` of the very pin that it replaces. A version belongs to
the pending intent that its properties name, or to a maintenance intent on the table; where there is one, it is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from omnigraph.commit.advance import RECOVERY, Answer, LookAgain, Spots, Swap, Swapped, Terms, advance
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.intent import Intent
from omnigraph.commit.pins import achieved_pin
from omnigraph.commit.plan import MAINTENANCE, BranchName
from omnigraph.commit.properties import OP
from omnigraph.commit.recovery.torn import clear_table
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TORN, CommitUnknown, NotLanded, TableRef, VersionTx, same_files
from omnigraph.table.errors import is_full, no_room

ROUNDS_MAX = 12  # each finds that another writer has moved the manifest, or has healed tables; none repeats a swap
VERSIONS_READ_MAX = 200  # above one pin; each is read once, and what is behind them changes nothing


class Drift(Enum):
    """What stands above a pin, or what was done about it."""

    GARBAGE = "garbage"  # no pending operation claims it
    UNREADABLE = "unreadable"  # no pending operation claims it, and what made a version cannot be read
    BUSY = "busy"  # belongs to a pending operation, whose own recovery ends it
    INHERITED = "inherited"  # the line belongs to another branch, whose upkeep heals it
    HEALED = "healed"


@dataclass(frozen=True)
class VersionAbove:
    """One version above a pin: what made it, and for which operation."""

    version: int
    kind: str
    op: str | None
    pending: bool
    restore_of: int | None = None


@dataclass(frozen=True)
class TableDrift:
    """One table whose newest version is not its pin. ``published``: the version that stands for the pin now."""

    key: str
    pin: int
    head: int
    state: Drift
    versions: tuple[VersionAbove, ...]
    published: int | None = None


def pending_intents(engine: Engine, meter: Meter, *, pass_over_unreadable: bool = False) -> list[Intent]:
    """Every intent as it reads now. Raises ``Corruption`` for one that does not, unless told to pass over it."""
    found = []
    for op, _stamp in engine.pending(meter):
        try:
            intent = engine.intents.read(op, meter)
        except Corruption:
            if not pass_over_unreadable:
                raise
            continue
        if intent is not None:
            found.append(intent)
    return found


# --- looking ------------------------------------------------------------------------------------------------------------


def find_drift(
    engine: Engine,
    branch: Branch,
    keys: Iterable[str] | None = None,
    *,
    own_ops: frozenset[str] = frozenset(),
    pass_over_unreadable: bool = False,
    meter: Meter,
    held: Held | None = None,
) -> tuple[Held, dict[str, TableDrift]]:
    """Tables whose newest version is above the pin, and the state that was read before and after looking.

    Manifest, heads, intents, manifest again, in this order. An operation that was alive when its effect was seen still has
    its intent when these are listed; if it has none any more, it has ended, and the second look at the manifest shows how.
    """
    held = held or engine.latest(branch, meter)
    for _ in range(ROUNDS_MAX):
        wanted = held.state.tables if keys is None else set(keys) & held.state.tables.keys()
        owned = [key for key in sorted(wanted) if held.state.tables[key].owner == held.state.identity]
        heads = {key: _head(engine, held.state.tables[key], meter) for key in owned}
        above = {key: head for key, head in heads.items() if head > held.state.tables[key].version}
        if not above:
            return held, {}
        intents = [
            intent
            for intent in pending_intents(engine, meter, pass_over_unreadable=pass_over_unreadable)
            if intent.op not in own_ops
        ]
        again = engine.latest(branch, meter)
        if all(again.state.tables.get(key) == held.state.tables[key] for key in above):
            return again, {
                key: _judge(engine, again.state.tables[key], head, intents, meter) for key, head in above.items()
            }
        held = again
    return held, {}


def _head(engine: Engine, pin: Pin, meter: Meter) -> int:
    return engine.tables.head_version(engine.tables.open(TableRef(pin.location, pin.ref), pin.version, meter), meter)


def _judge(engine: Engine, pin: Pin, head: int, intents: Iterable[Intent], meter: Meter) -> TableDrift:
    ref = TableRef(pin.location, pin.ref)
    handle = engine.tables.open(ref, pin.version, meter)
    intents = list(intents)
    ops = frozenset(intent.op for intent in intents)
    in_upkeep = any(intent.kind == MAINTENANCE and pin.key in intent.keys for intent in intents)
    last = min(head, pin.version + VERSIONS_READ_MAX)
    numbers = [*range(pin.version + 1, last + 1), *([head] if head > last else [])]
    versions = tuple(
        describe(number, engine.tables.transaction_at(ref, handle, number, meter), ops, in_upkeep=in_upkeep)
        for number in numbers
    )
    return TableDrift(pin.key, pin.version, head, classify_drift(versions), versions)


def describe(number: int, note: VersionTx | None, ops: frozenset[str], *, in_upkeep: bool) -> VersionAbove:
    """Compaction commits carry no operation id. Treat them as owned while a maintenance intent names the table."""
    if note is None:
        return VersionAbove(number, "gone", None, pending=False)
    op = note.properties.get(OP)
    return VersionAbove(number, note.kind, op, op in ops if op is not None else in_upkeep, note.restore_of)


def classify_drift(versions: Iterable[VersionAbove]) -> Drift:
    """Pure. If any version belongs to a pending operation, the table is busy."""
    listed = list(versions)
    if any(version.pending for version in listed):
        return Drift.BUSY
    if any(version.kind == "unreadable" for version in listed):
        return Drift.UNREADABLE
    return Drift.GARBAGE


# --- healing ------------------------------------------------------------------------------------------------------------


def heal(
    engine: Engine,
    branch: Branch,
    keys: Iterable[str] | None = None,
    *,
    own_ops: frozenset[str] = frozenset(),
    unreadable: bool = True,
    pass_over_unreadable: bool = False,
    meter: Meter,
) -> dict[str, TableDrift]:
    """Restore and publish every drifting table that no pending operation claims. Raises ``NotFound`` where the branch was deleted:
    no table is put back for it.

    ``own_ops``: operations whose effects the caller itself gives up. ``unreadable``: heal also where a transaction does not
    read. That is right wherever every intent reads, because a version that cannot be read belongs to no plan.
    """
    wanted = None if keys is None else frozenset(keys)
    healing = _Healing(engine, branch, wanted, own_ops, unreadable, pass_over_unreadable, meter)
    for _ in range(ROUNDS_MAX):
        ended = advance(
            engine,
            branch,
            healing.propose,
            Terms(RECOVERY, spots=Spots("heal.before_swap", "heal.after_swap")),
            meter=meter,
        )
        if not isinstance(ended, Swapped):
            break
        healing.note_published()
    return {**healing.found, **healing.healed}


@dataclass
class _Healing:
    engine: Engine
    branch: Branch
    keys: frozenset[str] | None
    own_ops: frozenset[str]
    unreadable: bool
    pass_over_unreadable: bool
    meter: Meter
    found: dict[str, TableDrift] = field(default_factory=dict)
    healed: dict[str, TableDrift] = field(default_factory=dict)
    _standing: dict[str, tuple[TableDrift, Any]] = field(default_factory=dict)

    def propose(self, held: Held) -> Swap | Answer[None] | LookAgain:
        """Restore what drifts on the newest state, and move the pins of what was restored."""
        self._refuse_closed(held)
        held, self.found = find_drift(
            self.engine,
            self.branch,
            self.keys,
            own_ops=self.own_ops,
            pass_over_unreadable=self.pass_over_unreadable,
            meter=self.meter,
            held=held,
        )
        mine = {key: drift for key, drift in self.found.items() if self._is_ours(drift)}
        if not mine:
            return Answer(None)
        self._refuse_closed(held)
        if self._clear_torn(held, mine):
            return LookAgain()
        op = new_ulid(self.engine.clock)
        standing = {
            key: (drift, _restore_pin(self.engine, held.state.tables[key], drift, op, self.meter))
            for key, drift in mine.items()
        }
        self._standing = {key: (drift, handle) for key, (drift, handle) in standing.items() if handle is not None}
        if not self._standing:
            return LookAgain(pause=True)
        pins = {key: achieved_pin(held.state.tables[key], handle) for key, (_, handle) in self._standing.items()}
        return Swap(Change(pins=pins), {OP: op}, base=held)

    def _refuse_closed(self, held: Held) -> None:
        """Nothing is swapped onto the last state of a deleted branch, so nothing is restored for it either."""
        head = held.state.head
        if head.closed is not None and held.state.ref is not None:
            raise self.engine.gone(head.name, held.state.ref, self.meter)

    def _clear_torn(self, held: Held, mine: Mapping[str, TableDrift]) -> bool:
        """Move aside what a power cut has torn above the pins: Lance restores nothing on top of it."""
        torn = {key: one for key, one in mine.items() if any(version.kind == TORN for version in one.versions)}
        branch = BranchName(held.state.head.name, held.state.identity)
        for key, drift in torn.items():
            pin = held.state.tables[key]
            clear_table(self.engine, TableRef(pin.location, pin.ref), pin.version, branch, key, self.meter)
            self.healed[key] = replace(drift, state=Drift.HEALED, published=pin.version)
        return bool(torn)

    def _is_ours(self, drift: TableDrift) -> bool:
        return drift.state is Drift.GARBAGE or (self.unreadable and drift.state is Drift.UNREADABLE)

    def note_published(self) -> None:
        for key, (drift, handle) in self._standing.items():
            self.healed[key] = replace(drift, state=Drift.HEALED, published=int(handle.version))


def _restore_pin(engine: Engine, pin: Pin, drift: TableDrift, op: str, meter: Meter) -> Any | None:
    """Return a dataset whose newest version restores the pin, committing one if needed. Return None if the outcome of that
    commit is unknown; the caller looks again."""
    ref = TableRef(pin.location, pin.ref)
    newest = drift.versions[-1]
    handle = engine.tables.open(ref, pin.version, meter)
    if newest.version == drift.head and newest.restore_of == pin.version:
        standing = engine.tables.open(ref, drift.head, meter)
        if same_files(handle, standing):
            return standing
    failpoints.hit("heal.before_restore", table_key=pin.key)
    transaction = engine.tables.restore_transaction(handle, uuid=new_uuid(), properties={OP: op})
    try:
        landed = engine.tables.commit(ref, handle, transaction, meter)
    except (NotLanded, CommitUnknown) as error:
        if is_full(error):
            raise no_room(f"table {pin.key} could not be put back", error) from error
        return None
    engine.tables.check_restored(handle, landed)
    failpoints.hit("heal.after_restore", table_key=pin.key)
    return landed
