"""Repair: show versions above the pins that no operation claims, and on request put the tables back. Never publishes them.

``confirm`` heals what is certainly garbage. ``force`` also heals where that is not known, because a transaction or an
intent does not read; such an intent is moved aside, not deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from omnigraph.commit.engine import Engine
from omnigraph.commit.lines import owned_keys, read_lines, while_there
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recovery.drift import Drift, TableDrift, find_drift, heal
from omnigraph.core.errors import Corruption, InvalidInput, Refused
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, layout
from omnigraph.upkeep.recover import unpublished
from omnigraph.upkeep.repair_lines import repair_lines
from omnigraph.wire.recovery import RepairAction, RepairReport, TableRepair

PREVIEW: Final = "preview"
HEALED: Final = "healed"
FORCED: Final = "forced"
REFUSED: Final = "refused"


def repair(
    engine: Engine,
    *,
    confirm: bool = False,
    force: bool = False,
    branches: Sequence[str] | None = None,
    meter: Meter | None = None,
) -> RepairReport:
    """List drift by transaction; with ``confirm``, heal it. ``branches``: those that are looked at; None for all."""
    meter = meter or Meter()
    if force and not confirm:
        raise InvalidInput("force says how to heal and needs confirm", hint="pass confirm=True as well")
    torn = repair_lines(engine, confirm=confirm, force=force, meter=meter)
    if any(line.line is None and (line.action != HEALED or line.newest_left is None) for line in torn):
        return RepairReport(
            engine.uri, confirm, force, (), (), (), torn
        )  # without main's state nothing else can be told
    unreadable = unreadable_intents(engine, meter)
    if confirm and unreadable and not force:
        raise Refused(
            f"{unreadable[0]} cannot be read, so it is unknown which tables it claims; nothing was changed",
            hint="keep a copy, then run `omnigraph repair --confirm --force` to move it aside and heal",
            reason="unreadable-intent",
            intents=list(unreadable),
        )
    lines = read_lines(engine, meter)
    own = {line.branch: owned_keys(line.held.state) for line in map(lines.named, lines.scope(branches))}
    there = partial(while_there, engine, meter=meter, named=branches is not None)

    def look(branch: BranchName) -> dict[str, TableDrift]:
        return find_drift(engine, branch, own[branch], pass_over_unreadable=True, meter=meter)[1]

    def put_back(branch: BranchName) -> dict[str, TableDrift]:
        return heal(engine, branch, own[branch], unreadable=force, meter=meter)

    before = {(branch.name, key): drift for branch in own for key, drift in (there(branch, look) or {}).items()}
    if not confirm:
        tables = tuple(_preview(drift, bool(unreadable)) for drift in before.values())
        return RepairReport(engine.uri, confirm, force, tables, unreadable, (), torn)
    quarantined = tuple(_quarantine(engine, key, meter) for key in unreadable)
    after: dict[tuple[str, str], TableDrift] = {}
    for branch in own:
        after.update({(branch.name, key): drift for key, drift in (there(branch, put_back) or {}).items()})
    tables = tuple(_done(before.get(key, drift), drift) for key, drift in sorted(after.items()))
    return RepairReport(engine.uri, confirm, force, tables, unreadable, quarantined, torn)


def unreadable_intents(engine: Engine, meter: Meter) -> tuple[str, ...]:
    """Keys of intents that do not read."""
    found = []
    for op, _stamp in engine.pending(meter):
        try:
            engine.intents.read(op, meter)
        except Corruption:
            found.append(layout.intent_key(op))
    return tuple(found)


def _preview(drift: TableDrift, blocked: bool) -> TableRepair:
    reason = _reason(drift)
    if reason is None and blocked:
        reason = "an intent does not read: needs --force"
    if reason is None and drift.state is Drift.UNREADABLE:
        reason = "a transaction does not read: needs --force"
    return _row(drift, drift, PREVIEW, reason)


def _done(before: TableDrift, after: TableDrift) -> TableRepair:
    if after.state is Drift.HEALED:
        return _row(before, after, FORCED if before.state is Drift.UNREADABLE else HEALED, None)
    if after.state is Drift.UNREADABLE:
        return _row(before, after, REFUSED, "a transaction does not read: needs --force")
    return _row(before, after, REFUSED, _reason(after) or "other writers were faster every time")


def _reason(drift: TableDrift) -> str | None:
    if drift.state is not Drift.BUSY:
        return None
    ops = sorted({version.op for version in drift.versions if version.pending and version.op is not None})
    return f"belongs to the pending operation {ops[0]}: run recover" if ops else "upkeep is at work on it"


def _row(before: TableDrift, after: TableDrift, action: RepairAction, reason: str | None) -> TableRepair:
    return TableRepair(
        before.key,
        before.pin,
        before.head,
        before.state.value,
        action,
        unpublished(before.versions),
        after.published,
        reason,
    )


def _quarantine(engine: Engine, key: str, meter: Meter) -> str:
    """Move an intent aside. Its bytes are kept; only its name changes."""
    op = layout.record_ulid(key)
    data = engine.store.get(key, meter=meter)
    if op is None or data is None:
        return key
    aside = layout.quarantine_key(op)
    try:
        engine.store.create(aside, data, meter=meter)
    except KeyExists as error:
        raise Refused(
            f"{aside} exists and holds other bytes than {key}; nothing was changed",
            hint="move it out of the way",
            reason="quarantine-taken",
        ) from error
    engine.store.delete(key, meter=meter)
    return aside
