"""The documents that ``--json`` prints, as models. The published JSON schema is made from them, and tests hold both to
what the commands print. No command imports this module.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.json_schema import models_json_schema

from omnigraph.cli.render import SCHEMA_VERSION
from omnigraph.cli.tree import COMMANDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Count = Annotated[int, Field(ge=0)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# --- writes -------------------------------------------------------------------------------------------------------------


class Init(Shape):
    uri: str
    commit_id: str
    storage_version: int
    schema_hash: str
    node_types: list[str]
    edge_types: list[str]


class TableChange(Shape):
    version: Count
    inserted: Count
    updated: Count
    deleted: Count
    unchanged: Count


class Rejected(Shape):
    rows: list[dict[str, JsonValue]]
    total: Count


class StorageCost(Shape):
    requests: Count
    hops: Count
    bytes_read: Count
    bytes_written: Count
    by_class: dict[str, Count]
    exact: bool


class Receipt(Shape):
    commit_id: str | None
    branch: str
    tables: dict[str, TableChange]
    affected_nodes: Count
    affected_edges: Count
    replayed: bool
    rejected: Rejected
    storage: StorageCost
    warnings: list[str]


class Load(Receipt):
    uri: str
    mode: Literal["append", "merge", "overwrite"]
    branch_created: bool
    nodes_loaded: Count
    edges_loaded: Count
    node_types_loaded: Count
    edge_types_loaded: Count


class Mutate(Receipt):
    uri: str
    query_name: str
    actor_id: str | None


class LoadCheck(Shape):
    """``load --check``. An input with violations is an error document with the code data-invalid instead."""

    ok: Literal[True]
    pins: dict[str, JsonValue]
    digest: str | None
    records: Count
    rows: dict[str, Count]
    violations: list[dict[str, JsonValue]]
    total: Count
    reads: list[str]


# --- reading ------------------------------------------------------------------------------------------------------------


class SnapshotTable(Shape):
    table_key: str
    table_path: str
    table_version: Count
    table_branch: str | None
    row_count: Count


class Snapshot(Shape):
    uri: str
    branch: str
    commit_id: str
    manifest_version: Count
    internal_schema_version: int
    tables: list[SnapshotTable]


class Target(Shape):
    branch: str
    snapshot: str


class Query(Shape):
    query_name: str | None
    target: Target
    row_count: Count
    truncated: bool
    columns: list[str]
    rows: list[dict[str, JsonValue]]


class Export(Shape):
    """``records`` is there without ``--output``, when the document is the only place for them."""

    uri: str
    branch: str
    commit_id: str
    path: str | None
    rows: dict[str, Count]
    total: Count
    bytes: Count
    records: list[dict[str, JsonValue]] | None = None


class SchemaShow(Shape):
    schema_source: str
    schema_hash: str


# --- history ------------------------------------------------------------------------------------------------------------


class Commit(Shape):
    id: str
    parents: list[str]
    actor: str | None
    created_at: str
    kind: str
    tables: dict[str, TableChange]
    manifest_version: Count
    idempotency_key: str | None


class CommitList(Shape):
    branch: str
    commits: list[Commit]


class Outcome(Shape):
    state: Literal["landed", "aborted", "pending", "absent"]
    commit_id: str
    receipt: Receipt | None
    operation_id: str | None


# --- upkeep -------------------------------------------------------------------------------------------------------------


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
    """``left``: operations whose owners may be alive. ``healed``, ``drifting``: versions that belong to nobody."""

    uri: str
    recovered: list[Recovered]
    left: list[str]
    healed: list[TableDrift]
    drifting: list[TableDrift]
    clean: bool


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


# --- the rest -----------------------------------------------------------------------------------------------------------


class LintFinding(Shape):
    severity: Literal["error", "warning"]
    code: str
    message: str
    line: int
    column: int
    query: str | None


class Lint(Shape):
    """A file with errors is an error document with the code query-invalid and these members."""

    query_file: str
    status: Literal["ok"]
    error_count: Count
    warning_count: Count
    findings: list[LintFinding]


class ErrorCode(Shape):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    code: str
    class_: str = Field(alias="class")
    exit_code: int
    http_status: int
    meaning: str
    hint: str


class ErrorCodes(Shape):
    codes: list[ErrorCode]


class Version(Shape):
    version: str
    storage_version: int


class ErrorBody(BaseModel):
    """Every error has these three; further members are the facts of its kind."""

    model_config = ConfigDict(extra="allow", frozen=True)

    error: str
    code: str
    hint: str


RESULTS: dict[str, tuple[type[Shape], ...]] = {
    "init": (Init,),
    "load": (Load, LoadCheck),
    "mutate": (Mutate,),
    "snapshot": (Snapshot,),
    "query": (Query,),
    "export": (Export,),
    "status": (Status,),
    "commit list": (CommitList,),
    "commit show": (Commit,),
    "commit outcome": (Outcome,),
    "intent list": (IntentList,),
    "intent show": (PendingIntent,),
    "recover": (Recover,),
    "verify": (Verify,),
    "repair": (Repair,),
    "optimize": (Optimize,),
    "compact": (Compact,),
    "ensure-indices": (Optimize,),
    "cleanup": (Cleanup,),
    "checkpoint create": (Checkpoint,),
    "checkpoint list": (CheckpointList,),
    "checkpoint delete": (CheckpointDeleted,),
    "schema show": (SchemaShow,),
    "lint": (Lint,),
    "explain": (ErrorCode, ErrorCodes),
    "doctor": (Doctor,),
    "version": (Version,),
}


def published_schema() -> dict[str, Any]:
    """One schema for all commands: ``#/$defs/command.load`` is what ``load --json`` prints."""
    models = {model for shapes in RESULTS.values() for model in shapes} | {ErrorBody}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, defs = models_json_schema([(model, "serialization") for model in ordered], ref_template="#/$defs/{model}")
    found: dict[str, Any] = {name: _untitled(shape) for name, shape in defs["$defs"].items()}
    found["failed"] = _document(False, "error", {"$ref": "#/$defs/ErrorBody"})
    for command in COMMANDS:
        refs = [{"$ref": f"#/$defs/{model.__name__}"} for model in RESULTS[command.path]]
        result = refs[0] if len(refs) == 1 else {"anyOf": refs}
        found[f"command.{command.path}"] = {"oneOf": [_document(True, "result", result), {"$ref": "#/$defs/failed"}]}
    return {
        "$schema": DIALECT,
        "title": "What `omnigraph … --json` prints",
        "description": "Validate against #/$defs/command.NAME for one command, or against the whole for any.",
        "anyOf": [{"$ref": f"#/$defs/command.{command.path.replace(' ', '%20')}"} for command in COMMANDS],
        "$defs": dict(sorted(found.items())),
    }


def _untitled(shape: Any) -> Any:
    """Without the titles that pydantic makes from names: they say nothing and are a third of the text."""
    if isinstance(shape, list):
        return [_untitled(each) for each in shape]
    if not isinstance(shape, dict):
        return shape
    return {
        name: {field: _untitled(each) for field, each in value.items()} if name == "properties" else _untitled(value)
        for name, value in shape.items()
        if name != "title"
    }


def schema_text() -> str:
    return json.dumps(published_schema(), indent=1, ensure_ascii=False) + "\n"


def _document(ok: bool, member: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"schema_version": {"const": SCHEMA_VERSION}, "ok": {"const": ok}, member: content},
        "required": ["schema_version", "ok", member],
        "additionalProperties": False,
    }
