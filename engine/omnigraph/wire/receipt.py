"""What a write reports: what it did to each table, what was left out, what it cost, and what became of it later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from omnigraph.core.meter import StorageCost
from omnigraph.core.modes import InputMode
from omnigraph.core.shown import count_text, html_table, list_text
from omnigraph.wire.model import INSIDE, Count, Model

_VERBS: Final = ("inserted", "updated", "deleted", "unchanged")
_REJECTED_SHOWN: Final = 20


@dataclass(frozen=True)
class TableChange(Model):
    """What one commit did to one table. Counts are None where nothing was compared."""

    version: Count
    inserted: Count | None = 0
    updated: Count | None = 0
    deleted: Count | None = 0
    unchanged: Count | None = 0

    @property
    def changed(self) -> int:
        return (self.inserted or 0) + (self.updated or 0) + (self.deleted or 0)


@dataclass(frozen=True)
class RejectedRows(Model):
    """Rows that were left out, with their reasons: the first ones, and how many there were. ``by_reason``: rows that have a
    reason of each code; ``missing_ids``: nodes that edges of the input name and that did not exist, the most frequent first,
    whether these edges are set aside, dropped, or refer to a stub now."""

    rows: tuple[Mapping[str, Any], ...] = ()
    total: Count = 0
    by_reason: Mapping[str, Count] = field(default_factory=dict)
    missing_ids: Mapping[str, Count] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.total

    def __bool__(self) -> bool:
        return self.total > 0

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self.rows[index]


@dataclass(frozen=True)
class Receipt(Model):
    """One write. ``commit_id`` is None where nothing had to change; ``replayed`` where the key was known already.
    ``grouped_with``: the other commits of its swap; ``stubs`` and ``dropped``: rows by type that were made, or left out, for
    ends of edges that do not exist.

    ``matched``: nodes and edges that the statements of a mutation meant, each statement for itself. A receipt read back
    from the commit counts rows that changed, which is less where statements met on a row or left it as it was.
    """

    derived: ClassVar[tuple[str, ...]] = ("affected_nodes", "affected_edges")

    commit_id: str | None
    branch: str
    tables: Mapping[str, TableChange]
    replayed: bool = False
    rejected: RejectedRows = field(default_factory=RejectedRows)
    storage: StorageCost = field(default_factory=StorageCost)
    warnings: tuple[str, ...] = ()
    kind: str = "load"
    grouped_with: tuple[str, ...] = ()
    stubs: Mapping[str, Count] = field(default_factory=dict)
    dropped: Mapping[str, Count] = field(default_factory=dict)
    matched: tuple[int, int] | None = field(default=None, metadata=INSIDE)

    @property
    def affected_nodes(self) -> Count:
        return self.matched[0] if self.matched is not None else self._changed("node:")

    @property
    def affected_edges(self) -> Count:
        return self.matched[1] if self.matched is not None else self._changed("edge:")

    def _changed(self, prefix: str) -> int:
        return sum(change.changed for key, change in self.tables.items() if key.startswith(prefix))

    def __repr__(self) -> str:
        parts = [f"commit {self.commit_id}" if self.commit_id else "nothing changed"]
        if self.replayed:
            parts.append("replayed")
        for key, change in sorted(self.tables.items()):
            done = [f"{getattr(change, name)} {name}" for name in _VERBS if getattr(change, name)]
            parts.append(f"{key}: {', '.join(done) or 'nothing'} (version {change.version})")
        if self.rejected:
            parts.append(f"{self.rejected.total} rows rejected")
        parts += [f"{count} {type} dropped" for type, count in self.dropped.items()]
        parts += [f"{count} stubs of {type}" for type, count in self.stubs.items()]
        return f"<Receipt {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        changed = html_table(
            ("table", "version", *_VERBS),
            [(key, t.version, *(getattr(t, name) for name in _VERBS)) for key, t in sorted(self.tables.items())],
            f"commit {self.commit_id}" if self.commit_id else "nothing changed",
            notes=list(self.warnings),
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


@dataclass(frozen=True, repr=False)
class Outcome(Model):
    """What became of a write: ``landed`` carries the receipt, ``pending`` the operation, ``absent`` the branches that were
    ``searched``: it cannot land any more. ``deleted``: names of branches that were deleted and cleaned up since; what was written to
    one of them, and merged nowhere, cannot be searched."""

    state: Literal["landed", "aborted", "pending", "absent"]
    commit_id: str
    receipt: Receipt | None = None
    operation_id: str | None = None
    searched: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __repr__(self) -> str:
        more = {
            "landed": "",
            "aborted": "",
            "pending": f", as operation {self.operation_id}",
            "absent": f", searched {list_text(self.searched)}",
        }[self.state]
        return f"<Outcome of {self.commit_id}: {self.state}{more}>"

    def _repr_html_(self) -> str:
        if self.receipt is not None:
            return self.receipt._repr_html_()
        return html_table((), [], f"commit {self.commit_id}", empty=self.state, notes=[self.hint] if self.hint else [])

    @property
    def hint(self) -> str:
        """What to do about an answer that settles nothing; empty where it does."""
        if self.state == "absent":
            if not self.deleted:
                return "it did not land, and no branch that was deleted can have had it: it may be repeated"
            return (
                f"if it was written to {' or '.join(self.deleted)}, it may have landed and been deleted with the branch; else it did "
                "not land and may be repeated"
            )
        return "wait for it, or end it with `omnigraph recover`, then ask again" if self.state == "pending" else ""

    @property
    def landed(self) -> bool:
        return self.state == "landed"

    @property
    def aborted(self) -> bool:
        return self.state == "aborted"

    @property
    def pending(self) -> bool:
        return self.state == "pending"

    @property
    def absent(self) -> bool:
        return self.state == "absent"

    def __str__(self) -> str:
        return self.state


@dataclass(frozen=True)
class PlannedTable(Model):
    """What a plan does to one table. ``effects``: the kinds of its durable changes, in their order; ``version``: what would be
    published, from ``version_before``. Counts are of rows; None where nothing is compared."""

    effects: tuple[str, ...]
    version_before: Count
    version: Count
    inserted: Count | None = 0
    updated: Count | None = 0
    deleted: Count | None = 0
    unchanged: Count | None = 0


@dataclass(frozen=True, repr=False)
class LoadPlan(Model):
    """What a load would do now. Nothing was written. ``tables``: those that change; ``reads``: tables that the checks rest on,
    with their versions; ``unchanged``: rows that are there already, by table; ``stages_first``: the files are written before
    the write is announced, because that takes long."""

    branch: str
    mode: InputMode
    base_commit: str
    base_version: Count
    schema_id: str
    tables: Mapping[str, PlannedTable]
    reads: Mapping[str, Count] = field(default_factory=dict)
    unchanged: Mapping[str, Count] = field(default_factory=dict)
    rejected: RejectedRows = field(default_factory=RejectedRows)
    stages_first: bool = False
    stubs: Mapping[str, Count] = field(default_factory=dict)
    dropped: Mapping[str, Count] = field(default_factory=dict)

    @property
    def effects(self) -> Mapping[str, tuple[str, ...]]:
        """Of each table that changes, the kinds of its durable changes, in their order."""
        return {key: table.effects for key, table in self.tables.items()}

    @property
    def counts(self) -> Mapping[str, Mapping[str, Count | None]]:
        """Of each table that changes, its rows by what becomes of them."""
        return {key: {verb: getattr(table, verb) for verb in _VERBS} for key, table in self.tables.items()}

    @property
    def read_set(self) -> Mapping[str, Count]:
        """The same as ``reads``."""
        return self.reads

    def __repr__(self) -> str:
        tables = "; ".join(f"{key}: {'+'.join(table.effects)}" for key, table in self.tables.items())
        return f"<LoadPlan on {self.base_commit} of {self.branch}: {tables or 'nothing to do'}>"

    def _repr_html_(self) -> str:
        rows = [
            (key, ", ".join(t.effects), t.version_before, t.version, t.inserted, t.updated, t.deleted, t.unchanged)
            for key, t in self.tables.items()
        ]
        names = ("table", "effects", "from version", "to", *_VERBS)
        return html_table(names, rows, f"a load on {self.branch}", empty="nothing to do")


@dataclass(frozen=True)
class CheckReport(Model):
    """What ``graph.check`` found. Nothing was written. ``ok``: a load with the same options would commit. ``violations``: the
    first of ``total``, those of rows that would be left out included; ``by_reason`` counts all of them, ``missing_ids`` how often
    edges name a node that does not exist. ``rejected``, ``stubs``, ``dropped``: as in the receipt of that load. ``pins``: what the
    answer rests on; ``digest``: of the staged fragments that were checked."""

    ok: bool
    records: Count
    rows: Mapping[str, Count]
    violations: tuple[Mapping[str, Any], ...]
    total: Count
    reads: tuple[str, ...] = ()
    pins: Mapping[str, tuple[str, str | None, int]] = field(default_factory=dict)
    digest: str | None = None
    rejected: RejectedRows = field(default_factory=RejectedRows)
    by_reason: Mapping[str, Count] = field(default_factory=dict)
    missing_ids: Mapping[str, Count] = field(default_factory=dict)
    stubs: Mapping[str, Count] = field(default_factory=dict)
    dropped: Mapping[str, Count] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = ", ".join(f"{key}: {count}" for key, count in sorted(self.rows.items()))
        return f"<CheckReport {'ok' if self.ok else f'{self.total} violations'}; {self.records} records; {rows}>"

    def _repr_html_(self) -> str:
        names = ("source", "record", "id", "reason")
        rows = [(one.get("source"), one.get("record"), one.get("id"), one["message"]) for one in self.violations]
        title = f"{count_text(self.records, 'record')} checked, {count_text(self.total, 'violation')}"
        return html_table(names, rows, title, empty="ok")


@dataclass(frozen=True, repr=False, kw_only=True)
class Loaded(Receipt):
    """The receipt of a load, with the counts of its input: rows that were there already are among them."""

    uri: str
    mode: InputMode
    branch_created: bool
    nodes_loaded: Count
    edges_loaded: Count
    node_types_loaded: Count
    edge_types_loaded: Count


@dataclass(frozen=True, repr=False, kw_only=True)
class Mutated(Receipt):
    """The receipt of a mutation."""

    uri: str
    query_name: str
    actor_id: str | None
