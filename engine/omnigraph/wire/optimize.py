"""What optimizing and compacting did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from omnigraph.core.shown import count_text, html_table
from omnigraph.wire.model import Count, Model


@dataclass(frozen=True, repr=False)
class ManifestReport(Model):
    """Archive fragments of ``__manifest`` before and after."""

    derived: ClassVar[tuple[str, ...]] = ("changed",)

    branch: str
    fragments_before: Count
    fragments: Count
    rows: Count
    version_before: Count
    version: Count

    @property
    def changed(self) -> bool:
        return self.version != self.version_before

    def __repr__(self) -> str:
        if not self.changed:
            return f"<ManifestReport {self.branch}: {self.fragments} archive fragments, nothing to do>"
        return f"<ManifestReport {self.branch}: {self.fragments_before} archive fragments to {self.fragments}>"


@dataclass(frozen=True)
class PendingIndex(Model):
    """An index that the schema asks for and the table does not have yet. Reads are right without it."""

    table_key: str
    column: str
    reason: str


@dataclass
class TableReport(Model):
    """One table of one branch. ``skipped``: why it was left as it is, if it was; ``conflicts``: how often a rewrite lost to a
    writer; ``settled_bytes``: what was copied from the folders of other lines into its own; ``fragments_removed`` and
    ``fragments_added``: by rewrites."""

    derived: ClassVar[tuple[str, ...]] = ("committed",)

    table_key: str
    version_before: Count
    version: Count
    fragments_before: Count
    fragments: Count
    rewrites: Count = 0
    rows_rewritten: Count = 0
    bytes_rewritten: Count = 0
    indices_built: list[str] = field(default_factory=list)
    indices_folded: list[str] = field(default_factory=list)
    pending_indexes: list[PendingIndex] = field(default_factory=list)
    settings_stripped: list[str] = field(default_factory=list)
    conflicts: Count = 0
    skipped: str | None = None
    branch: str = "main"
    settled_bytes: Count = 0
    fragments_removed: Count = 0
    fragments_added: Count = 0

    @property
    def committed(self) -> bool:
        return self.version != self.version_before


@dataclass(frozen=True, repr=False)
class OptimizeReport(Model):
    """Every table that was looked at, and ``__manifest``. ``commits``: one a turn."""

    derived: ClassVar[tuple[str, ...]] = ("changed",)

    uri: str
    branches: tuple[str, ...]
    tables: tuple[TableReport, ...]
    manifest: ManifestReport | None
    commits: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return bool(self.commits) or (self.manifest is not None and self.manifest.changed)

    @property
    def skipped(self) -> tuple[TableReport, ...]:
        return tuple(table for table in self.tables if table.skipped is not None)

    @property
    def pending_indexes(self) -> tuple[PendingIndex, ...]:
        return tuple(pending for table in self.tables for pending in table.pending_indexes)

    def __repr__(self) -> str:
        done = [table for table in self.tables if table.committed]
        parts = [f"{len(done)} of {count_text(len(self.tables), 'table')} changed"]
        before, after = sum(t.fragments_before for t in done), sum(t.fragments for t in done)
        if done:
            parts.append(f"{before} fragments to {after}")
        if self.skipped:
            parts.append(f"skipped {', '.join(f'{t.table_key} ({t.skipped})' for t in self.skipped[:3])}")
        if self.pending_indexes:
            parts.append(f"{count_text(len(self.pending_indexes), 'index', 'indexes')} pending")
        return f"<OptimizeReport {self.uri}: {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            (
                table.table_key,
                f"{table.fragments_before} → {table.fragments}",
                table.rewrites,
                table.bytes_rewritten,
                ", ".join([*table.indices_built, *table.indices_folded]),
                table.skipped or (f"{table.version_before} → {table.version}" if table.committed else "unchanged"),
            )
            for table in self.tables
        ]
        if self.manifest is not None:
            change = f"{self.manifest.fragments_before} → {self.manifest.fragments}"
            rows.append(("__manifest", change, None, None, None, "changed" if self.manifest.changed else "unchanged"))
        return html_table(("table", "fragments", "rewrites", "bytes", "indexes", "result"), rows, self.uri)


@dataclass(frozen=True, repr=False, kw_only=True)
class Compacted(ManifestReport):
    uri: str
