"""What commands print that keep a graph fast and small: optimize, compact, cleanup, checkpoints."""

from __future__ import annotations

from omnigraph.cli.shapes.base import Count, Shape


class PendingIndex(Shape):
    table_key: str
    column: str
    reason: str


class OptimizedTable(Shape):
    """``skipped``: why the table was left as it is, if it was."""

    table_key: str
    version_before: Count
    version: Count
    fragments_before: Count
    fragments: Count
    rewrites: Count
    rows_rewritten: Count
    bytes_rewritten: Count
    indices_built: list[str]
    indices_folded: list[str]
    pending_indexes: list[PendingIndex]
    settings_stripped: list[str]
    conflicts: Count
    skipped: str | None
    committed: bool


class CompactedManifest(Shape):
    branch: str
    fragments_before: Count
    fragments: Count
    rows: Count
    version_before: Count
    version: Count
    changed: bool


class Compact(CompactedManifest):
    uri: str


class Optimize(Shape):
    uri: str
    branches: list[str]
    tables: list[OptimizedTable]
    manifest: CompactedManifest | None
    commits: list[str]
    changed: bool


class CleanupPolicy(Shape):
    keep: Count
    older_than_s: Count
    min_age_s: Count
    text: str


class DoomedVersions(Shape):
    """``doomed``: version numbers as ranges."""

    table_key: str
    location: str
    ref: str | None
    doomed: str
    versions: Count
    manifest_bytes: Count
    kept: Count
    young: Count
    reason: str


class Orphan(Shape):
    path: str
    ref: str | None
    files: Count
    bytes: Count


class Unfinished(Shape):
    """Files of interrupted writes, under names that are nobody's."""

    files: Count
    bytes: Count


class CleanupPlan(Shape):
    uri: str
    policy: CleanupPolicy
    branches: list[str]
    oldest: dict[str, str]
    boundaries: dict[str, Count]
    versions: Count
    tables: list[DoomedVersions]
    orphans: list[Orphan]
    checkpoints: list[str]
    drifting: list[str]
    expired_staging: list[str]
    unfinished: Unfinished


class DeletedFiles(Shape):
    versions: Count
    files: Count
    bytes: Count
    failed: Count


class CleanedTable(Shape):
    table_key: str
    location: str
    ref: str | None
    doomed: str
    deleted: DeletedFiles
    error: str | None


class CleanupReport(Shape):
    """``run``: the name of the record; null where there was nothing to delete."""

    uri: str
    run: str | None
    policy: CleanupPolicy
    boundaries: dict[str, Count]
    tables: list[CleanedTable]
    orphans: list[Orphan]
    spared: Count
    errors: list[str]
    unfinished: Unfinished
    versions: Count
    bytes: Count


class Cleanup(Shape):
    uri: str
    confirmed: bool
    plan: CleanupPlan
    report: CleanupReport | None


class Checkpoint(Shape):
    name: str
    commit_id: str
    branch: str
    identity: str
    ref: str | None
    manifest_version: Count
    actor: str | None
    created_at_us: int


class CheckpointList(Shape):
    checkpoints: list[Checkpoint]


class CheckpointDeleted(Shape):
    name: str
    deleted: bool
