"""What is pending, what recovery did about it, and what stands above the published versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from omnigraph.core.shown import count_text, html_table
from omnigraph.wire.model import Count, Model

RepairAction = Literal["preview", "healed", "forced", "refused"]


@dataclass(frozen=True, repr=False)
class PendingIntent(Model):
    """One intent. ``state``: waiting, armed, applied, offered, unreadable or unknown to this release. ``decision`` is what recovery does now; ``after_grace`` what it does once the owner counts as gone."""

    operation_id: str
    kind: str
    state: str
    branch: str | None
    commit_id: str | None
    actor: str | None
    owner: str | None
    owner_gone: bool
    age_s: float
    tables: Mapping[str, str]
    decision: str
    after_grace: str
    explanation: str

    def __repr__(self) -> str:
        tables = "; ".join(f"{key}: {what}" for key, what in self.tables.items())
        return (
            f"<PendingIntent {self.operation_id}: {self.kind} by {self.actor or 'an unnamed actor'}, {self.state} for "
            f"{self.age_s:.0f} s; {tables}; {self.explanation}>"
        )


class PendingIntents(tuple[PendingIntent, ...]):
    """The intents, oldest first."""

    def to_dict(self) -> dict[str, Any]:
        return {"intents": [intent.to_dict() for intent in self]}

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (i.operation_id, i.kind, i.state, round(i.age_s, 1), ", ".join(i.tables), i.explanation) for i in self
        ]
        return html_table(
            ("operation", "kind", "state", "age s", "tables", "what recovery does"),
            rows,
            "pending writes",
            empty="nothing is pending",
        )


@dataclass(frozen=True)
class RecoveredWrite(Model):
    """What was done about one intent."""

    operation_id: str
    decision: str
    commit_id: str | None
    branch: str
    actor: str | None
    tables: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class UnpublishedVersion(Model):
    """One version above the published one: what made it, and for which operation."""

    version: Count
    kind: str
    op: str | None
    pending: bool
    restore_of: int | None = None


@dataclass(frozen=True)
class DriftingTable(Model):
    """One table whose newest version (``head``) is not the published one (``pin``). ``published``: the version that stands
    for it now."""

    key: str
    pin: Count
    head: Count
    state: str
    versions: tuple[UnpublishedVersion, ...]
    published: int | None = None


@dataclass(frozen=True, repr=False)
class RecoveryReport(Model):
    """``recovered``: intents that were ended, and how. ``left``: intents that are still there, because their owners may be
    alive or their files could not be deleted. ``healed``: tables with garbage above their pin, put back.
    ``unresolved``: why intents that are left cannot be ended: of no branch that is there, a line cannot be read, or
    the disk is full.
    ``owner_cleared``: an exclusive owner whose process was gone."""

    derived: ClassVar[tuple[str, ...]] = ("clean",)

    recovered: tuple[RecoveredWrite, ...]
    left: tuple[str, ...]
    healed: tuple[DriftingTable, ...]
    drifting: tuple[DriftingTable, ...]
    unresolved: tuple[str, ...] = ()
    owner_cleared: str | None = None

    @property
    def clean(self) -> bool:
        return not self.left and not self.drifting and not self.unresolved

    def __repr__(self) -> str:
        parts = [count_text(len(self.recovered), "intent") + " ended"]
        parts += [f"{one.operation_id} {one.decision}" for one in self.recovered[:10]]
        if self.left:
            parts.append(f"{count_text(len(self.left), 'intent')} left")
        if self.owner_cleared:
            parts.append(f"exclusive use of {self.owner_cleared} ended")
        if self.healed:
            parts.append(f"healed {', '.join(one.key for one in self.healed)}")
        return f"<RecoveryReport {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            (one.operation_id, one.decision, one.commit_id, one.actor, ", ".join(one.tables)) for one in self.recovered
        ]
        rows += [(op, "left", None, None, None) for op in self.left]
        rows += [(None, "healed", None, None, one.key) for one in self.healed]
        rows += [(None, f"left: {why}", None, None, None) for why in self.unresolved]
        return html_table(
            ("operation", "what was done", "commit", "actor", "tables"), rows, "recovery", empty="nothing is pending"
        )


@dataclass(frozen=True)
class TableRepair(Model):
    """One drifting table. ``reason``: why it was refused, or will be."""

    table_key: str
    manifest_version: int
    latest_version: int
    classification: str
    action: RepairAction
    versions: tuple[UnpublishedVersion, ...]
    published: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class UnreadableVersion(Model):
    """A version file that is not whole. ``path``: below the graph; what was moved lies below ``__recovery/quarantine``."""

    path: str
    bytes: Count
    why: str


@dataclass(frozen=True)
class LineRepair(Model):
    """What is torn of one line of the manifest (``line``: None is main's), and the commits given up with it, as far as they can
    still be told. ``newest_left``: the version that counts then; None: no version is left."""

    line: str | None
    newest_left: int | None
    moved: tuple[UnreadableVersion, ...]
    given_up: tuple[str, ...]
    action: RepairAction
    reason: str | None = None


@dataclass(frozen=True, repr=False)
class RepairReport(Model):
    """``quarantined``: intents that did not read, where they are now. ``lines``: versions of the manifest that a power cut has
    torn."""

    uri: str
    confirm: bool
    force: bool
    tables: tuple[TableRepair, ...]
    unreadable_intents: tuple[str, ...]
    quarantined: tuple[str, ...]
    lines: tuple[LineRepair, ...] = ()

    @property
    def healed(self) -> int:
        return sum(table.action in ("healed", "forced") for table in self.tables)

    def __repr__(self) -> str:
        done = f"{self.healed} of {count_text(len(self.tables), 'drifting table')} healed"
        if not self.confirm:
            done = f"{count_text(len(self.tables), 'table')} drifting; nothing was changed"
        if self.lines:
            done = f"{count_text(len(self.lines), 'torn line')} of the manifest, {done}"
        return f"<RepairReport {self.uri}: {done}, {count_text(len(self.unreadable_intents), 'unreadable intent')}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            (t.table_key, t.manifest_version, t.latest_version, t.classification, t.action, t.reason)
            for t in self.tables
        ]
        rows += [
            (f"__manifest {one.line or ''}", one.newest_left, None, "torn", one.action, one.reason)
            for one in self.lines
        ]
        return html_table(
            ("table", "published", "newest", "classification", "action", "reason"),
            rows,
            self.uri,
            empty="no table drifts",
        )


@dataclass(frozen=True)
class RecoveryRecord(Model):
    """One operation that another process than its owner ended. ``recovered_by``: that process, as host/boot/pid/started;
    ``tables``: per table the version before and the one that counts since."""

    op: str
    plan: str | None
    how: str
    commit_ids: tuple[str, ...]
    members: Count
    branch: Mapping[str, str]
    original_actor: str | None
    recovered_by: str
    recovered_at: str
    tables: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class UnreadableRecord(Model):
    """A record of a recovery that cannot be read."""

    place: str
    reason: str


class RecoveryHistory(tuple[RecoveryRecord, ...]):
    """Recoveries, newest first. ``unreadable``: records that cannot be read, each with its place and the reason."""

    unreadable: tuple[UnreadableRecord, ...]

    @classmethod
    def of(cls, records: Iterable[RecoveryRecord], unreadable: Iterable[UnreadableRecord]) -> Self:
        made = cls(records)
        made.unreadable = tuple(unreadable)
        return made

    def to_dict(self) -> dict[str, Any]:
        return {
            "recoveries": [record.to_dict() for record in self],
            "unreadable": [one.to_dict() for one in self.unreadable],
        }

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (r.recovered_at, r.op, r.how, ", ".join(r.commit_ids), r.original_actor, r.recovered_by) for r in self
        ]
        rows += [(None, one.place, f"cannot be read: {one.reason}", None, None, None) for one in self.unreadable]
        return html_table(
            ("when", "operation", "how", "commits", "actor", "recovered by"),
            rows,
            "recoveries",
            empty="nothing was recovered",
        )


@dataclass(frozen=True)
class Recoveries(Model):
    """What recovery did, newest first."""

    uri: str
    recoveries: tuple[RecoveryRecord, ...]
    unreadable: tuple[UnreadableRecord, ...]


@dataclass(frozen=True)
class IntentList(Model):
    """Writes that have not ended, oldest first."""

    intents: tuple[PendingIntent, ...]


@dataclass(frozen=True, repr=False, kw_only=True)
class Recovered(RecoveryReport):
    uri: str
