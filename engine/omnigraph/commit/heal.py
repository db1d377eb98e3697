"""Drift that belongs to nobody: put a table back to its pin and publish that, so that quiet tables do not keep it.

Nothing of a pin's content changes: what is published is a ``Restore`` of the very pin that it replaces. Whose a version is,
is told by the intent that its properties name, and by a turn of upkeep on the table; where there is one, it is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from omnigraph.commit.compensate import OP_PROPERTY
from omnigraph.commit.decide import swap_stands
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent
from omnigraph.commit.pins import with_stats
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held, SwapLost, SwapUnknown
from omnigraph.table.dataset import CommitUnknown, NotLanded, TableRef, VersionTx, same_files, stats_of

ROUNDS_MAX = 12  # each ends with a swap, or finds that somebody else has moved the manifest
VERSIONS_READ_MAX = 200  # above one pin; each is read once, and what is behind them changes nothing


class Drift(Enum):
    """What stands above a pin, or what was done about it."""

    RUBBISH = "rubbish"  # belongs to nobody
    UNREADABLE = "unreadable"  # belongs to nobody, and what made a version cannot be read
    BUSY = "busy"  # belongs to a pending operation, whose own recovery ends it
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
    branch: str,
    keys: Iterable[str] | None = None,
    *,
    own_ops: frozenset[str] = frozenset(),
    pass_over_unreadable: bool = False,
    meter: Meter,
) -> tuple[Held, dict[str, TableDrift]]:
    """Tables whose newest version is above the pin, and the state that was read before and after looking.

    Manifest, heads, intents, manifest again, in this order. An operation that was alive when its effect was seen still has
    its intent when these are listed; if it has none any more, it has ended, and the second look at the manifest shows how.
    """
    held = engine.latest(branch, meter)
    for _ in range(ROUNDS_MAX):
        wanted = held.state.tables if keys is None else set(keys) & held.state.tables.keys()
        heads = {key: _head(engine, held.state.tables[key], meter) for key in sorted(wanted)}
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
    in_upkeep = any(intent.kind == "maintenance" and pin.key in intent.keys for intent in intents)
    last = min(head, pin.version + VERSIONS_READ_MAX)
    numbers = [*range(pin.version + 1, last + 1), *([head] if head > last else [])]
    versions = tuple(
        describe(number, engine.tables.transaction_at(ref, handle, number, meter), ops, in_upkeep=in_upkeep)
        for number in numbers
    )
    return TableDrift(pin.key, pin.version, head, classify_drift(versions), versions)


def describe(number: int, note: VersionTx | None, ops: frozenset[str], *, in_upkeep: bool) -> VersionAbove:
    """Rewrites of upkeep carry no name of their own; a turn of upkeep on the table speaks for them."""
    if note is None:
        return VersionAbove(number, "gone", None, pending=False)
    op = note.properties.get(OP_PROPERTY)
    return VersionAbove(number, note.kind, op, op in ops if op is not None else in_upkeep, note.restore_of)


def classify_drift(versions: Iterable[VersionAbove]) -> Drift:
    """Pure. An effect that somebody may still publish, or will undo himself, makes the whole table his."""
    listed = list(versions)
    if any(version.pending for version in listed):
        return Drift.BUSY
    if any(version.kind == "unreadable" for version in listed):
        return Drift.UNREADABLE
    return Drift.RUBBISH


# --- healing ------------------------------------------------------------------------------------------------------------


def heal(
    engine: Engine,
    branch: str,
    keys: Iterable[str] | None = None,
    *,
    own_ops: frozenset[str] = frozenset(),
    unreadable: bool = True,
    pass_over_unreadable: bool = False,
    meter: Meter,
) -> dict[str, TableDrift]:
    """Restore and publish every drifting table that is nobody's.

    ``own_ops``: operations whose effects the caller itself gives up. ``unreadable``: heal also where a transaction does not
    read. That is right wherever every intent reads, because a version that cannot be read belongs to no plan.
    """
    healed: dict[str, TableDrift] = {}
    keys = None if keys is None else frozenset(keys)
    found: dict[str, TableDrift] = {}
    for attempt in range(1, ROUNDS_MAX + 1):
        held, found = find_drift(
            engine, branch, keys, own_ops=own_ops, pass_over_unreadable=pass_over_unreadable, meter=meter
        )
        mine = {
            key: drift
            for key, drift in found.items()
            if drift.state is Drift.RUBBISH or (unreadable and drift.state is Drift.UNREADABLE)
        }
        if not mine:
            break
        op = new_ulid(engine.clock)
        standing = {key: _stand(engine, held.state.tables[key], drift, op, meter) for key, drift in mine.items()}
        landed = {key: handle for key, handle in standing.items() if handle is not None}
        if landed and _publish(engine, branch, held, landed, op, meter):
            for key, handle in landed.items():
                healed[key] = replace(mine[key], state=Drift.HEALED, published=handle.version)
        engine.clock.sleep(engine.manners.jitter_s(min(attempt, 6)))
    return {**found, **healed}


def _stand(engine: Engine, pin: Pin, drift: TableDrift, op: str, meter: Meter) -> Any | None:
    """A handle at a Restore of the pin: the newest version if it is one, else one made now. None: look again."""
    ref = TableRef(pin.location, pin.ref)
    newest = drift.versions[-1]
    handle = engine.tables.open(ref, pin.version, meter)
    if newest.version == drift.head and newest.restore_of == pin.version:
        standing = engine.tables.open(ref, drift.head, meter)
        if same_files(handle, standing):
            return standing
    failpoints.hit("heal.before_restore", table_key=pin.key)
    transaction = engine.tables.restore_transaction(handle, uuid=new_uuid(), properties={OP_PROPERTY: op})
    try:
        landed = engine.tables.commit(ref, handle, transaction, meter)
    except (NotLanded, CommitUnknown):
        return None
    engine.tables.check_restored(handle, landed)
    failpoints.hit("heal.after_restore", table_key=pin.key)
    return landed


def _publish(engine: Engine, branch: str, held: Held, landed: Mapping[str, Any], op: str, meter: Meter) -> bool:
    """One swap that moves the healed pins and nothing else. It lands only on the very state whose pins were restored."""
    pins = {key: with_stats(held.state.tables[key], handle.version, stats_of(handle)) for key, handle in landed.items()}
    failpoints.hit("heal.before_swap")
    try:
        written = engine.manifest.write(held, Change(pins=pins), meter)
        after = engine.manifest.swap(held, written, uuid=new_uuid(), properties={OP_PROPERTY: op}, meter=meter)
    except (SwapLost, SwapUnknown):
        return False
    failpoints.hit("heal.after_swap")
    doomed = engine.boundary.value(after.state.identity, meter=meter)
    if swap_stands(after.version, doomed):
        engine.remember(branch, after)
        return True
    # Unknown: only the newest manifest can tell. Nothing is lost either way, the next look finds what stands.
    engine.drop(branch)
    newest = engine.latest(branch, meter)
    return all(
        key in newest.state.tables and newest.state.tables[key].version >= pin.version for key, pin in pins.items()
    )
