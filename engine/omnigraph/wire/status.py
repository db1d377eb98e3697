"""How a graph is: the report of ``graph.status``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from omnigraph.core.shown import html_table
from omnigraph.wire.model import Count, Model

HEALTHY: Final = "healthy"
ATTENTION: Final = "attention"

# What a command cannot do without. A cleanup so typed shows its plan, and says how to go on.
ARGUMENTS: Final = {"cleanup": " --keep 10"}  # without them the command only says what it wants


@dataclass(frozen=True)
class HeadStatus(Model):
    """The newest commit of the branch. Its facts are None where it has left the tail of the manifest."""

    commit_id: str
    created_at: str | None
    age_s: float | None
    actor: str | None
    kind: str | None


@dataclass(frozen=True)
class TableStatus(Model):
    """One table as it is published. ``latest_version``, ``versions`` and ``drift`` are known after a deep look only."""

    derived: ClassVar[tuple[str, ...]] = ("drift", "reclaimable_bytes")

    table_key: str
    rows: Count
    deleted_rows: Count
    fragments: Count
    unindexed_fragments: Count
    bytes: Count
    version: Count
    latest_version: Count | None = None
    versions: Count | None = None

    @property
    def reclaimable_bytes(self) -> Count:
        """What the deleted rows take, which an optimisation gives back; as the manifest knows it."""
        stored = self.rows + self.deleted_rows
        return self.bytes * self.deleted_rows // stored if stored else 0

    @property
    def drift(self) -> int | None:
        """Versions beyond the published one: a write in flight, or something that was left behind."""
        return None if self.latest_version is None else self.latest_version - self.version


@dataclass(frozen=True)
class ManifestStatus(Model):
    """``backlog``: versions of ``__manifest`` that cleanup has not doomed yet."""

    version: Count
    fragments: Count
    boundary: Count
    backlog: Count


@dataclass(frozen=True)
class UpkeepStatus(Model):
    """When upkeep last ran, and what is left to read. ``oldest_commit`` is the oldest above the boundary, ``oldest_version``
    its version of the manifest; None where it has left the tail. Times are ISO 8601; None: never, or before the tail."""

    optimized_at: str | None
    cleaned_at: str | None
    cleaned_by: str | None
    oldest_commit: str | None
    oldest_version: Count | None


@dataclass(frozen=True)
class BranchStatus(Model):
    """One branch. ``owned_tables``: those that it commits to itself, the others are inherited. ``unsettled_tables``: those of them
    that read files of other lines, ``unsettled_bytes`` how much, which a deep look tells."""

    name: str
    head: str
    owned_tables: Count
    unsettled_tables: Count
    unsettled_bytes: Count | None = None


@dataclass(frozen=True)
class PendingWrite(Model):
    """An intent on storage. Its age is by the clock of who wrote it. ``owner_gone``: its process is known to have ended."""

    operation_id: str
    age_s: float
    owner_gone: bool = False


@dataclass(frozen=True)
class PendingWrites(Model):
    """How many intents there are, and the oldest of them."""

    total: Count
    oldest: tuple[PendingWrite, ...]

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[PendingWrite]:
        return iter(self.oldest)

    def __getitem__(self, index: int) -> PendingWrite:
        return self.oldest[index]


@dataclass(frozen=True)
class Totals(Model):
    """Figures of all tables together."""

    tables: Count
    rows: Count
    fragments: Count
    bytes: Count
    reclaimable_bytes: Count


@dataclass(frozen=True)
class Finding(Model):
    """Something to know. ``command`` is the operation that resolves it, where this release has one."""

    code: str
    message: str
    command: str | None = None


def _sum(figures: Iterable[int | None]) -> int | None:
    """None where one of them is not known."""
    found = list(figures)
    return sum(one for one in found if one is not None) if None not in found else None


@dataclass(frozen=True)
class StatusReport(Model):
    """``verdict`` is healthy, or attention with the findings that say why. ``notes`` need no action. Figures are of main;
    ``branches`` has a line for each branch. ``versions`` and ``drift``, of all tables together, are known after a deep look
    only; ``durability`` is what this handle promises on a local disk, None on an object store; ``intents`` is ``pending``."""

    derived: ClassVar[tuple[str, ...]] = ("totals", "verdict", "verdict_line", "versions", "drift", "boundary")

    uri: str
    branch: str
    storage_version: Count
    schema_hash: str
    head: HeadStatus
    tables: tuple[TableStatus, ...]
    manifest: ManifestStatus
    pending: PendingWrites
    upkeep: UpkeepStatus
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    deep: bool = False
    branches: tuple[BranchStatus, ...] = ()
    durability: Literal["commit", "relaxed"] | None = None

    @property
    def fragments(self) -> Count:
        return sum(table.fragments for table in self.tables)

    @property
    def versions(self) -> Count | None:
        return _sum(table.versions for table in self.tables)

    @property
    def drift(self) -> int | None:
        return _sum(table.drift for table in self.tables)

    @property
    def boundary(self) -> Count:
        """The version of the manifest up to which cleanups have given history up."""
        return self.manifest.boundary

    @property
    def intents(self) -> PendingWrites:
        return self.pending

    @property
    def totals(self) -> Totals:
        return Totals(
            len(self.tables),
            self.rows,
            self.fragments,
            self.bytes,
            sum(table.reclaimable_bytes for table in self.tables),
        )

    @property
    def pending_total(self) -> int:
        return self.pending.total

    @property
    def verdict(self) -> Literal["healthy", "attention"]:
        return ATTENTION if self.findings else HEALTHY

    @property
    def verdict_line(self) -> str:
        if not self.findings:
            return "healthy: nothing to do"
        first = self.findings[0]
        more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
        return f"attention: {first.message}{self.typed(first)}{more}"

    def typed(self, finding: Finding) -> str:
        """What to run against a finding, as it can be typed."""
        if finding.command is None:
            return ""
        return f": run `omnigraph {finding.command} {self.uri}{ARGUMENTS.get(finding.command, '')}`"

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)

    def __repr__(self) -> str:
        return (
            f"<StatusReport {self.uri}: head {self.head.commit_id}, {len(self.tables)} tables, {self.rows} rows, "
            f"{self.pending_total} pending; {self.verdict_line}>"
        )

    def _repr_html_(self) -> str:
        rows = [(t.table_key, t.rows, t.deleted_rows, t.fragments, t.bytes, t.version) for t in self.tables]
        names = ("table", "rows", "deleted", "fragments", "bytes", "version")
        title = f"{self.uri} at {self.head.commit_id}"
        return html_table(names, rows, title, notes=[*self.notes, self.verdict_line], empty="no tables")
