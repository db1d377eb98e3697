"""What taking back a commit, or going back to an older state, would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.core.shown import html_table
from omnigraph.wire.model import Count, Model
from omnigraph.wire.receipt import PlannedTable, Receipt


@dataclass(frozen=True, repr=False)
class UndoPlan(Model):
    """What a revert or a restore would do now. Nothing was written. ``commits``: those that a revert takes back; ``tables``:
    those that change."""

    kind: str
    branch: str
    base_commit: str
    base_version: Count
    commits: tuple[str, ...] | None
    tables: Mapping[str, PlannedTable]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        tables = "; ".join(f"{key}: {'+'.join(table.effects)}" for key, table in self.tables.items())
        return f"<UndoPlan {self.kind} on {self.base_commit} of {self.branch}: {tables or 'nothing to do'}>"

    def _repr_html_(self) -> str:
        rows = [
            (key, ", ".join(t.effects), t.version_before, t.version, t.inserted, t.updated, t.deleted)
            for key, t in self.tables.items()
        ]
        names = ("table", "effects", "from version", "to", "inserted", "updated", "deleted")
        return html_table(
            names, rows, f"{self.kind} on {self.branch}", notes=list(self.warnings), empty="nothing to do"
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class Undone(Receipt):
    """The receipt of a revert or a restore."""

    uri: str
