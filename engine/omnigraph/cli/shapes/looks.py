"""What commands print that look at a graph's state, or bring it in order: status, intents, recover, verify, repair."""

from __future__ import annotations

from typing import Literal

from omnigraph.cli.shapes.base import Count, Shape


class Head(Shape):
    commit_id: str
    created_at: str | None
    age_s: float | None
    actor: str | None
    kind: str | None


class StatusTable(Shape):
    table_key: str
    rows: Count
    deleted_rows: Count
    fragments: Count
    unindexed_fragments: Count
    bytes: Count
    version: Count
    latest_version: Count | None
    versions: Count | None
    drift: int | None
    reclaimable_bytes: Count


class Totals(Shape):
    tables: Count
    rows: Count
    fragments: Count
    bytes: Count
    reclaimable_bytes: Count


class Upkeep(Shape):
    optimized_at: str | None
    cleaned_at: str | None
    cleaned_by: str | None
    oldest_commit: str | None
    oldest_version: Count | None


class Manifest(Shape):
    version: Count
    fragments: Count
    boundary: Count
    backlog: Count


class PendingWrite(Shape):
    operation_id: str
    age_s: float
    owner_gone: bool


class Pending(Shape):
    total: Count
    oldest: list[PendingWrite]


class StatusFinding(Shape):
    code: str
    message: str
    command: str | None


class Status(Shape):
    uri: str
    branch: str
    storage_version: int
    schema_hash: str
    head: Head
    tables: list[StatusTable]
    totals: Totals
    upkeep: Upkeep
    manifest: Manifest
    pending: Pending
    verdict: Literal["healthy", "attention"]
    verdict_line: str
    findings: list[StatusFinding]
    notes: list[str]
    deep: bool


class DoctorCheck(Shape):
    name: str
    status: Literal["ok", "warn", "fail"]
    message: str
    hint: str | None


class Doctor(Shape):
    uri: str | None
    status: Literal["ok", "warn"]
    checks: list[DoctorCheck]


class PendingIntent(Shape):
    """``decision`` is what recovery does now, ``after_grace`` once the owner counts as gone."""

    operation_id: str
    kind: str
    state: Literal["waiting", "armed", "unreadable"]
    branch: str | None
    commit_id: str | None
    actor: str | None
    owner: str | None
    owner_gone: bool
    age_s: float
    tables: dict[str, str]
    decision: str
    after_grace: str
    explanation: str


class IntentList(Shape):
    intents: list[PendingIntent]


class Recovered(Shape):
    operation_id: str
    decision: str
    commit_id: str | None
    branch: str
    actor: str | None
    tables: dict[str, dict[str, int]]


class VersionAbove(Shape):
    version: int
    kind: str
    op: str | None
    pending: bool
    restore_of: int | None


class TableDrift(Shape):
    key: str
    pin: int
    head: int
    state: str
    versions: list[VersionAbove]
    published: int | None


class Recover(Shape):
    """``left``: operations whose owners may be alive. ``healed``, ``drifting``: versions that belong to nobody. ``unresolved``:
    why others that are left cannot be ended."""

    uri: str
    recovered: list[Recovered]
    left: list[str]
    healed: list[TableDrift]
    drifting: list[TableDrift]
    unresolved: list[str]
    clean: bool


class RecoveryRecord(Shape):
    """``recovered_by``: the process that ended the write, as host/boot/pid/started."""

    op: str
    plan: str | None
    how: str
    commit_ids: list[str]
    members: int
    branch: dict[str, str]
    original_actor: str | None
    recovered_by: str
    recovered_at: str
    tables: dict[str, dict[str, int]]


class UnreadableRecord(Shape):
    place: str
    reason: str


class RecoveryHistory(Shape):
    uri: str
    recoveries: list[RecoveryRecord]
    unreadable: list[UnreadableRecord]


class Problem(Shape):
    severity: Literal["damage", "pending", "rubbish"]
    code: str
    message: str
    table_key: str | None
    command: str | None


class Verify(Shape):
    """A graph with damage is an error document with the code corruption and these members."""

    uri: str
    branches: list[str]
    commit_id: str
    manifest_version: Count
    deep: bool
    tables: Count
    rows: Count
    ok: bool
    clean: bool
    verdict: str
    problems: list[Problem]
    notes: list[str]


class TableRepair(Shape):
    table_key: str
    manifest_version: int
    latest_version: int
    classification: str
    action: Literal["preview", "healed", "forced"]
    versions: list[VersionAbove]
    published: int | None
    reason: str | None


class Repair(Shape):
    """A table that could not be healed makes it an error document with the code refused and these members."""

    uri: str
    confirm: bool
    force: bool
    tables: list[TableRepair]
    unreadable_intents: list[str]
    quarantined: list[str]
