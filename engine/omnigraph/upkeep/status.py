"""What state a graph is in, in one value: head, tables, manifest, pending writes, and a verdict.

Owns the figures and the judgement of them. Reads the manifest, one listing of intents and one of the boundary, whatever
the number of tables, and of pending writes the oldest few, for whose they are; only ``deep`` visits tables. Changes nothing
and repairs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from omnigraph.commit import pressure
from omnigraph.commit.engine import MAIN, Engine, gather
from omnigraph.commit.exclusive import owner_is_dead
from omnigraph.commit.intent import Intent
from omnigraph.commit.lines import ManifestLine, owned_keys, read_lines, unresolved
from omnigraph.core import metrics
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.ids import ulid_time_us
from omnigraph.core.meter import Meter
from omnigraph.core.shown import time_text
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.durable import Durability
from omnigraph.manifest.rows import STORAGE_VERSION, CommitRow, Pin
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableRef
from omnigraph.table.settle import inherited_bytes
from omnigraph.table.strict import fragment_count
from omnigraph.table.version_list import VersionFile, version_files
from omnigraph.wire.status import (
    BranchStatus,
    Finding,
    HeadStatus,
    ManifestStatus,
    PendingWrite,
    PendingWrites,
    StatusReport,
    TableStatus,
    UpkeepStatus,
)

# What a verdict may tell to run, by the name of the façade's method, which is the command's name too.
OPERATIONS = ("recover", "repair", "optimize", "cleanup")

# What back-pressure warns at as well, so that both say the same thing.
FRAGMENTS_WARN = pressure.WARN
BACKLOG_WARN = pressure.WARN
FULL_FRAGMENT_ROWS = pressure.FULL_FRAGMENT_ROWS
# Each archive fragment holds at least 64 commits; a look-up of an old commit may read them all.
MANIFEST_FRAGMENTS_WARN = 64
PENDING_SHOWN = 20


def status_report(
    engine: Engine,
    *,
    branch: str = MAIN,
    deep: bool = False,
    branches: Sequence[str] | None = None,
    commands: Iterable[str] = (),
    meter: Meter | None = None,
) -> StatusReport:
    """The report. ``branches``: those to list; None for all. ``commands``: the operations that a verdict may tell to run, because this release has them."""
    meter = meter or Meter()
    held = engine.latest(branch, meter)
    now_us = engine.clock.now_us()
    reading = engine.spawn(partial(read_lines, engine, meter, main=held if branch == MAIN else None))
    boundary = engine.boundary.value(held.state.identity, repeated=held.state.head.boundary, meter=meter)
    names = [op for op, _ in engine.pending(meter)]
    intents = _readable(engine, names[:PENDING_SHOWN], meter)
    gone = _without_owner(engine, intents)
    [lines] = gather([reading])
    troubles = [*lines.troubles, *unresolved(engine, intents, lines, meter).values()]
    pending = tuple(PendingWrite(op, _age_s(ulid_time_us(op), now_us), op in gone) for op in names)
    pins = list(held.state.tables.values())
    latest = _listed_versions(engine, pins, meter) if deep else [None] * len(pins)
    tables = tuple(_table(pin, listed) for pin, listed in zip(pins, latest, strict=True))
    manifest = _manifest(held, boundary)
    _observe(pins, latest if deep else None, len(pending))
    return StatusReport(
        uri=engine.uri,
        branch=branch,
        storage_version=STORAGE_VERSION,
        schema_hash=held.state.schema.hash,
        head=_head(held, now_us),
        tables=tables,
        manifest=manifest,
        pending=PendingWrites(len(pending), pending[:PENDING_SHOWN]),
        upkeep=_upkeep(engine, held, boundary, meter),
        findings=(
            *(Finding(trouble.code, trouble.message) for trouble in troubles),
            *judge(
                tables,
                manifest,
                pending,
                grace_s=engine.timing.grace_s,
                commands=frozenset(commands),
                dead_owner=dead_owner(engine, held),
            ),
        ),
        notes=_notes(held, pending, engine.timing.grace_s, None if engine.store.is_remote else engine.durable.mode),
        deep=deep,
        branches=tuple(_branch(engine, lines.named(name), meter, deep=deep) for name in lines.scope(branches)),
        durability=None if engine.store.is_remote else engine.durable.mode.value,
    )


def _branch(engine: Engine, line: ManifestLine, meter: Meter, *, deep: bool) -> BranchStatus:
    state = line.held.state
    owned = [state.tables[key] for key in owned_keys(state)]
    unsettled = [pin for pin in owned if any(base.needed for base in pin.bases)]
    size = None
    if deep:
        handles = [engine.tables.open(TableRef(pin.location, pin.ref), pin.version, meter) for pin in unsettled]
        size = sum(map(inherited_bytes, handles))
    return BranchStatus(line.label, state.head.commit_id, len(owned), len(unsettled), size)


# --- figures ------------------------------------------------------------------------------------------------------------


def _observe(pins: Sequence[Pin], latest: Sequence[Sequence[object] | None] | None, pending: int) -> None:
    """Report the levels as metrics. ``latest``: the listed versions of each table, None where they were not listed."""
    versions = None if latest is None else max((len(files) for files in latest if files is not None), default=0)
    metrics.observe(
        {
            "omnigraph.fragments": sum(pin.fragments for pin in pins),
            "omnigraph.versions": versions,
            "omnigraph.intents": pending,
        }
    )


def _manifest(held: Held, boundary: int) -> ManifestStatus:
    return ManifestStatus(
        version=held.version,
        fragments=fragment_count(held.handle),
        boundary=min(boundary, held.version),
        backlog=0 if boundary == ALL else max(0, held.version - boundary),
    )


def _head(held: Held, now_us: int) -> HeadStatus:
    head = held.state.head
    row = held.state.in_tail(head.commit_id)
    if not isinstance(row, CommitRow):
        return HeadStatus(head.commit_id, None, None, None, None)
    return HeadStatus(
        head.commit_id, time_text(row.created_at_us), _age_s(row.created_at_us, now_us), row.actor, row.kind
    )


def _upkeep(engine: Engine, held: Held, boundary: int, meter: Meter) -> UpkeepStatus:
    """From the tail of the history, and the note of the newest boundary mark."""
    state = held.state
    commits = [row for row in state.tail if isinstance(row, CommitRow)]
    optimized = [row for row in commits if row.kind == "maintenance"]
    note = engine.boundary.note(state.identity, boundary, meter=meter) if 0 < boundary < ALL else {}
    left = [row for row in commits if row.manifest_version > boundary]
    oldest = left[0] if left and state.tail_reaches(boundary) else None
    cleaned_us = note.get("at_us")
    return UpkeepStatus(
        optimized_at=time_text(optimized[-1].created_at_us) if optimized else None,
        cleaned_at=time_text(cleaned_us) if isinstance(cleaned_us, int) else None,
        cleaned_by=note.get("actor"),
        oldest_commit=oldest.commit_id if oldest is not None else None,
        oldest_version=oldest.manifest_version if oldest is not None else None,
    )


def _table(pin: Pin, listed: tuple[VersionFile, ...] | None) -> TableStatus:
    return TableStatus(
        table_key=pin.key,
        rows=pin.rows,
        deleted_rows=pin.deleted_rows,
        fragments=pin.fragments,
        unindexed_fragments=pin.unindexed_fragments,
        bytes=pin.bytes,
        version=pin.version,
        latest_version=listed[-1].version if listed else None,
        versions=len(listed) if listed is not None else None,
    )


def _listed_versions(engine: Engine, pins: Iterable[Pin], meter: Meter) -> list[tuple[VersionFile, ...]]:
    return gather([engine.spawn(version_files, engine.store, TableRef(pin.location, pin.ref), meter) for pin in pins])


def _readable(engine: Engine, names: Iterable[str], meter: Meter) -> list[Intent]:
    """The intents that can be read. Of the others nothing is known: recovery names them."""

    def read(op: str) -> Intent | None:
        try:
            return engine.intents.read(op, meter)
        except OmnigraphError:
            return None

    answers = gather([engine.spawn(read, op) for op in names])
    return [intent for intent in answers if intent is not None]


def _age_s(then_us: int, now_us: int) -> float:
    """Never negative: clocks of two machines differ, and nothing was written in the future."""
    return max(0, now_us - then_us) / 1e6


# --- judgement (pure) ---------------------------------------------------------------------------------------------------


def judge(
    tables: Iterable[TableStatus],
    manifest: ManifestStatus,
    pending: Iterable[PendingWrite],
    *,
    grace_s: float,
    commands: frozenset[str],
    dead_owner: str | None = None,
) -> tuple[Finding, ...]:
    """What needs attention, the most urgent first."""

    def finding(code: str, message: str, command: str) -> Finding:
        return Finding(code, message, command if command in commands else None)

    found = []
    pending = tuple(pending)
    stale = [write for write in pending if _is_stale(write, grace_s)]
    if dead_owner is not None:
        found.append(finding("dead-owner", f"held exclusively by {dead_owner}, whose process is gone", "recover"))
    if stale:
        word = "write is" if len(stale) == 1 else "writes are"
        oldest = max(write.age_s for write in stale)
        dead = sum(write.owner_gone for write in stale)
        whose = "" if not dead else ", its process gone" if len(stale) == 1 else f", the processes of {dead} gone"
        found.append(
            finding("pending-intents", f"{len(stale)} {word} pending, the oldest for {oldest:.0f} s{whose}", "recover")
        )
    drifting = [table.table_key for table in tables if table.drift]
    if drifting and not pending:  # a write in flight is ahead of what is published
        found.append(finding("drift", f"{_first(drifting)} beyond the published version", "repair"))
    crumbled = [t.table_key for t in tables if t.fragments >= FRAGMENTS_WARN and _small(t)]
    if crumbled:
        found.append(finding("fragments", f"{_first(crumbled)} in many small fragments", "optimize"))
    if manifest.fragments > MANIFEST_FRAGMENTS_WARN:
        found.append(finding("manifest-fragments", f"__manifest has {manifest.fragments} fragments", "optimize"))
    if manifest.backlog >= BACKLOG_WARN:
        found.append(finding("version-backlog", f"{manifest.backlog} versions were never cleaned up", "cleanup"))
    return tuple(found)


def _without_owner(engine: Engine, intents: Iterable[Intent]) -> frozenset[str]:
    """Operations whose owner is known to be dead. Most graphs have no pending write, and then recovery is not imported."""
    if not intents:
        return frozenset()
    from omnigraph.commit.recovery.evidence import owner_gone

    return frozenset(intent.op for intent in intents if owner_gone(engine, intent))


def _is_stale(write: PendingWrite, grace_s: float) -> bool:
    return write.owner_gone or write.age_s > grace_s


def _small(table: TableStatus) -> bool:
    return table.rows < table.fragments * FULL_FRAGMENT_ROWS


def _first(keys: list[str]) -> str:
    named = ", ".join(keys[:3])
    if len(keys) > 3:
        named += f" and {len(keys) - 3} more"
    return f"{named} {'is' if len(keys) == 1 else 'are'}"


def dead_owner(engine: Engine, held: Held) -> str | None:
    """The exclusive owner, where it is known that no process holds it any more: every writer is refused until it goes."""
    token = held.state.head.owner
    return token if token is not None and owner_is_dead(engine, token) else None


def _notes(
    held: Held, pending: Iterable[PendingWrite], grace_s: float, durability: Durability | None
) -> tuple[str, ...]:
    found = []
    if durability is Durability.RELAXED:
        found.append("durability relaxed: a power cut may take back what was acknowledged")
    elif held.state.head.unsynced_since is not None:
        found.append(
            f"versions from {held.state.head.unsynced_since} on were written relaxed; the next commit syncs them"
        )
    if held.state.head.owner is not None:
        found.append(f"held exclusively by {held.state.head.owner}")
    young = sum(1 for write in pending if not _is_stale(write, grace_s))
    if young:
        found.append(f"{young} {'write is' if young == 1 else 'writes are'} in flight")
    return tuple(found)
