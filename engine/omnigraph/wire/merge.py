"""What merging a branch did, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from omnigraph.core.meter import StorageCost
from omnigraph.core.shown import html_table
from omnigraph.wire.model import Count, Model
from omnigraph.wire.receipt import PlannedTable

MergeOutcome = Literal["up_to_date", "fast_forward", "merged"]


@dataclass(frozen=True)
class MergedTable(Model):
    """What a merge did to one table. ``via``: ``adopt`` (the source's version is published as it is), ``rows`` or ``schema``.
    Counts are None where nothing was compared."""

    version: Count
    via: str
    inserted: Count | None = 0
    updated: Count | None = 0
    deleted: Count | None = 0
    unchanged: Count | None = 0


@dataclass(frozen=True)
class MergeReceipt(Model):
    """One merge. ``commit_id`` is None where the target had everything already. ``fast_forward``: the target had no commit of its
    own since; it still is a commit with two parents."""

    outcome: MergeOutcome
    commit_id: str | None
    source: str
    branch: str
    tables: Mapping[str, MergedTable]
    replayed: bool = False
    warnings: tuple[str, ...] = ()
    storage: StorageCost = field(default_factory=StorageCost)

    def __repr__(self) -> str:
        tables = "; ".join(f"{key}: {table.via}" for key, table in self.tables.items())
        made = "" if self.commit_id is None else f" by commit {self.commit_id}"
        return f"<MergeReceipt {self.source} into {self.branch}: {self.outcome}{made}{tables and f'; {tables}'}>"

    def _repr_html_(self) -> str:
        names = ("table", "via", "version", "inserted", "updated", "deleted")
        rows = [(key, t.via, t.version, t.inserted, t.updated, t.deleted) for key, t in self.tables.items()]
        title = f"{self.source} into {self.branch}: {self.outcome}"
        return html_table(names, rows, title, notes=list(self.warnings), empty="no table changed")


@dataclass(frozen=True)
class MergePlan(Model):
    """What a merge would do now. Nothing was written. ``bases``: the newest commits that both sides have; ``commits``: how many
    commits would come along into the history of the target."""

    outcome: MergeOutcome
    source: str
    source_commit: str
    branch: str
    base_commit: str
    bases: tuple[str, ...]
    commits: Count
    tables: Mapping[str, PlannedTable]

    def __repr__(self) -> str:
        tables = "; ".join(f"{key}: {'+'.join(table.effects)}" for key, table in self.tables.items())
        return f"<MergePlan {self.source} into {self.branch}: {self.outcome}; {tables or 'no table changes'}>"

    def _repr_html_(self) -> str:
        rows = [
            (key, ", ".join(t.effects), t.version_before, t.version, t.inserted, t.updated, t.deleted)
            for key, t in self.tables.items()
        ]
        names = ("table", "effects", "from version", "to", "inserted", "updated", "deleted")
        return html_table(names, rows, f"{self.source} into {self.branch}", empty="no table changes")


@dataclass(frozen=True, repr=False, kw_only=True)
class BranchMerged(MergeReceipt):
    """The receipt of a merge."""

    uri: str
