"""What reading a graph says about itself: snapshots, queries, exports, the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from omnigraph.core.shown import count_text, html_table
from omnigraph.wire.model import ABSENT, Count, Model


@dataclass(frozen=True)
class SnapshotTable(Model):
    """One table of a snapshot."""

    table_key: str
    table_path: str
    table_version: Count
    table_branch: str | None
    row_count: Count


@dataclass(frozen=True)
class TableEntry(Model):
    """One table of a snapshot: the version that is read, how many rows it has, where it lives."""

    version: Count
    rows: Count
    branch: str
    uri: str


@dataclass(frozen=True)
class Fragment(Model):
    """One piece of a table, so that a reader elsewhere can share the work."""

    id: Count
    rows: Count
    deleted_rows: Count
    bytes: Count
    files: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class SnapshotReport(Model):
    """A branch at one commit."""

    branch: str
    commit_id: str
    manifest_version: Count
    internal_schema_version: int
    tables: tuple[SnapshotTable, ...]

    def __repr__(self) -> str:
        rows = sum(table.row_count for table in self.tables)
        return (
            f"<SnapshotReport {self.branch} at {self.commit_id}: {count_text(len(self.tables), 'table')}, {rows} rows>"
        )

    def _repr_html_(self) -> str:
        found = [(one.table_key, one.table_version, one.table_branch, one.row_count) for one in self.tables]
        return html_table(("table", "version", "branch", "rows"), found, f"{self.branch} at {self.commit_id}")


@dataclass(frozen=True)
class Target(Model):
    """What a query read."""

    branch: str
    snapshot: str


@dataclass(frozen=True)
class QueryResult(Model):
    """Rows of a query. ``truncated``: there are more."""

    query_name: str | None
    target: Target
    row_count: Count
    truncated: bool
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class RowFound(Model):
    """One row by its id."""

    target: Target
    type: str
    row: Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class ExportReport(Model):
    """What an export wrote. ``bytes`` are those of the text before any compression, or of the Parquet files."""

    derived: ClassVar[tuple[str, ...]] = ("total",)

    path: str | None
    rows: Mapping[str, Count]
    bytes: Count

    @property
    def total(self) -> Count:
        return sum(self.rows.values())

    def __repr__(self) -> str:
        where = f" to {self.path}" if self.path is not None else ""
        return f"<Export of {self.total} records in {self.bytes} bytes{where}>"


@dataclass(frozen=True, repr=False, kw_only=True)
class ExportedRecords(ExportReport):
    """An export of one commit. ``records`` is there where the document is the only place for them."""

    uri: str
    branch: str
    commit_id: str
    records: tuple[Mapping[str, Any], ...] | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class Created(Model):
    """A graph that was made."""

    uri: str
    commit_id: str
    storage_version: int
    schema_hash: str
    node_types: tuple[str, ...]
    edge_types: tuple[str, ...]


@dataclass(frozen=True, repr=False, kw_only=True)
class SnapshotOf(SnapshotReport):
    uri: str
