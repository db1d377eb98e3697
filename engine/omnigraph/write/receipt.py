"""What a write reports: values for people and programs, made from the commit row and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.core.meter import StorageCost
from omnigraph.core.shown import count_text, html_table
from omnigraph.manifest.rows import CommitRow


@dataclass(frozen=True)
class TableChange:
    """What one commit did to one table."""

    version: int
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    unchanged: int | None = 0

    @property
    def changed(self) -> int:
        return (self.inserted or 0) + (self.updated or 0) + (self.deleted or 0)

    def to_dict(self) -> dict[str, int | None]:
        return dict(vars(self))


@dataclass(frozen=True)
class RejectedRows:
    """Rows that were left out, with their reasons: the first ones, and how many there were."""

    rows: tuple[Mapping[str, Any], ...] = ()
    total: int = 0

    def __len__(self) -> int:
        return self.total

    def __bool__(self) -> bool:
        return self.total > 0

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self.rows[index]

    def to_dict(self) -> dict[str, Any]:
        return {"rows": [dict(row) for row in self.rows], "total": self.total}


@dataclass(frozen=True)
class Receipt:
    """One write. ``commit_id`` is None where nothing had to change; ``replayed`` where the key was known already.

    ``matched``: nodes and edges that the statements of a mutation meant, each statement for itself. A receipt read back
    from the commit counts rows that changed, which is less where statements met on a row or left it as it was.
    """

    commit_id: str | None
    branch: str
    tables: Mapping[str, TableChange]
    replayed: bool = False
    rejected: RejectedRows = field(default_factory=RejectedRows)
    storage: StorageCost = field(default_factory=StorageCost)
    warnings: tuple[str, ...] = ()
    matched: tuple[int, int] | None = None

    @property
    def affected_nodes(self) -> int:
        return self.matched[0] if self.matched is not None else self._changed("node:")

    @property
    def affected_edges(self) -> int:
        return self.matched[1] if self.matched is not None else self._changed("edge:")

    def _changed(self, prefix: str) -> int:
        return sum(change.changed for key, change in self.tables.items() if key.startswith(prefix))

    def to_dict(self) -> dict[str, Any]:
        return {
            "commit_id": self.commit_id,
            "branch": self.branch,
            "tables": {key: change.to_dict() for key, change in sorted(self.tables.items())},
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "replayed": self.replayed,
            "rejected": self.rejected.to_dict(),
            "storage": self.storage.to_dict(),
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        parts = [f"commit {self.commit_id}" if self.commit_id else "nothing changed"]
        if self.replayed:
            parts.append("replayed")
        for key, change in sorted(self.tables.items()):
            done = [f"{getattr(change, name)} {name}" for name in _VERBS if getattr(change, name)]
            parts.append(f"{key}: {', '.join(done) or 'nothing'} (version {change.version})")
        if self.rejected:
            parts.append(f"{self.rejected.total} rows rejected")
        return f"<Receipt {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        changed = html_table(
            ("table", "version", *_VERBS),
            [(key, t.version, *(getattr(t, name) for name in _VERBS)) for key, t in sorted(self.tables.items())],
            f"commit {self.commit_id}" if self.commit_id else "nothing changed",
            notes=[*(["the key was known: this is the first receipt"] if self.replayed else []), *self.warnings],
            empty="no table changed",
        )
        if not self.rejected:
            return changed
        reasons = [
            (reason.get("source"), reason.get("record"), reason.get("id"), reason["message"])
            for row in self.rejected.rows[:_REJECTED_SHOWN]
            for reason in row["reasons"]
        ]
        title = f"{count_text(self.rejected.total, 'row')} rejected"
        return changed + html_table(("source", "record", "id", "reason"), reasons, title)


_REJECTED_SHOWN = 20
_VERBS = ("inserted", "updated", "deleted", "unchanged")


def table_changes(row: CommitRow) -> dict[str, TableChange]:
    return {
        key: TableChange(counts.version, counts.inserted, counts.updated, counts.deleted, counts.unchanged)
        for key, counts in sorted(row.tables.items())
    }
