"""What commands print that write, read or look back: rows in, rows out, and the commits between."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from omnigraph.cli.shapes.base import Count, Shape

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
    searched: list[str]
