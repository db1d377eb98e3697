"""What a cleanup would delete and has deleted, and the checkpoints that keep commits from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from omnigraph.core.shown import bytes_text, count_text, html_table, span_text
from omnigraph.wire.model import INSIDE, Count, Model


@dataclass(frozen=True)
class Policy(Model):
    """What is to be retained: the newest ``keep`` commits and all younger than ``older_than_s``; nothing younger than
    ``min_age_s`` is deleted in any case."""

    derived: ClassVar[tuple[str, ...]] = ("text",)

    keep: Count
    older_than_s: Count
    min_age_s: Count

    @property
    def text(self) -> str:
        commits = "commit" if self.keep == 1 else f"{self.keep} newest commits"
        parts = [f"the {'newest ' if self.keep == 1 else ''}{commits} of each branch", "checkpoints"]
        if self.older_than_s:
            parts.insert(1, f"those of the last {span_text(self.older_than_s)}")
        if self.min_age_s:
            parts.append(f"what is younger than {span_text(self.min_age_s)}")
        return f"retained are {', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True)
class DoomedVersions(Model):
    """What is to be deleted from one line of versions. ``branch``: which commits to it; None where that one was deleted.
    ``doomed``: as ranges of version numbers; ``young``: versions that are not needed, but too young."""

    table_key: str
    branch: str | None
    location: str
    ref: str | None
    doomed: str
    versions: Count
    manifest_bytes: Count
    kept: Count
    young: Count
    reason: str


@dataclass(frozen=True)
class Orphan(Model):
    """A dataset or fork without an owner, with all its files."""

    path: str
    ref: str | None
    files: Count
    bytes: Count

    @property
    def prefix(self) -> str:
        return f"{self.path}/" if self.ref is None else f"{self.path}/tree/{self.ref}/"


@dataclass(frozen=True)
class RetainedProperty(Model):
    """A type or property that was dropped on a branch, and what keeps its bytes: commits, checkpoints, branches."""

    derived: ClassVar[tuple[str, ...]] = ("text",)

    branch: str
    type: str
    prop: str | None = field(metadata={"name": "property"})
    kept_by: tuple[str, ...]

    @property
    def text(self) -> str:
        name = self.type if self.prop is None else f"{self.type}.{self.prop}"
        return f"{name} was dropped on {self.branch}; its bytes are kept by {', '.join(self.kept_by)}"


@dataclass(frozen=True)
class Unfinished(Model):
    """Files that no key names: of writes that were interrupted in the middle of one."""

    files: Count
    bytes: Count

    @property
    def text(self) -> str:
        return f"{count_text(self.files, 'file')} of interrupted writes ({bytes_text(self.bytes)})"


@dataclass(frozen=True, repr=False)
class CleanupPlan(Model):
    """What would be deleted, and what keeps the rest. Running it deletes nothing beyond it. ``oldest``: by branch, the
    oldest commit that stays; ``boundaries``: by branch, the boundary that it will have; ``expired_staging``: staging records
    of batches that were not loaded for a day; ``retained``: what was dropped from the schema and is kept all the same;
    a run deletes the versions in ``lines`` and the files in ``unfinished_files``, and passes over branches that were deleted since,
    unless they were ``named``."""

    derived: ClassVar[tuple[str, ...]] = ("versions", "unfinished")

    uri: str
    policy: Policy
    branches: tuple[str, ...]
    oldest: Mapping[str, str]
    boundaries: Mapping[str, Count]
    tables: tuple[DoomedVersions, ...]
    orphans: tuple[Orphan, ...]
    checkpoints: tuple[str, ...]
    drifting: tuple[str, ...] = ()
    expired_staging: tuple[str, ...] = ()
    retained: tuple[RetainedProperty, ...] = ()
    lines: tuple[Any, ...] = field(default=(), repr=False, metadata=INSIDE)
    unfinished_files: tuple[Any, ...] = field(default=(), repr=False, metadata=INSIDE)
    named: bool = field(default=False, repr=False, metadata=INSIDE)

    @property
    def versions(self) -> Count:
        return sum(line.versions for line in self.tables)

    @property
    def unfinished(self) -> Unfinished:
        return Unfinished(len(self.unfinished_files), sum(entry.size for entry in self.unfinished_files))

    @property
    def empty(self) -> bool:
        return self.versions == 0 and not self.orphans and not self.expired_staging and not self.unfinished_files

    def __repr__(self) -> str:
        lines = [
            f"<CleanupPlan {self.uri}: {count_text(self.versions, 'version')} and "
            f"{count_text(len(self.orphans), 'orphan')} to delete; {self.policy.text}"
        ]
        lines += [
            f"  {line.table_key} of {line.branch or 'a deleted branch'}: versions {line.doomed}; {line.reason}"
            for line in self.tables
            if line.versions
        ]
        lines += [f"  {orphan.prefix} ({bytes_text(orphan.bytes)}) has no owner" for orphan in self.orphans]
        lines += [f"  {self.unfinished.text}"] if self.unfinished_files else []
        lines += [f"  {one.text}" for one in self.retained]
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (line.table_key, line.branch, line.versions, line.doomed, line.kept, line.young, line.reason)
            for line in self.tables
        ]
        rows += [(orphan.prefix, None, None, None, None, None, "has no owner") for orphan in self.orphans]
        return html_table(("table", "branch", "doomed", "versions", "kept", "young", "reason"), rows, self.policy.text)


@dataclass(frozen=True)
class DeletedFiles(Model):
    """What one call deleted."""

    versions: Count = 0
    files: Count = 0
    bytes: Count = 0
    failed: Count = 0


@dataclass(frozen=True)
class TableCleanup(Model):
    """What was deleted of one line; ``error`` where something could not be."""

    derived: ClassVar[tuple[str, ...]] = ("bytes_removed", "old_versions_removed")

    table_key: str
    branch: str | None
    location: str
    ref: str | None
    doomed: str
    deleted: DeletedFiles
    error: str | None = None

    @property
    def bytes_removed(self) -> Count:
        return self.deleted.bytes

    @property
    def old_versions_removed(self) -> Count:
        return self.deleted.versions


@dataclass(frozen=True, repr=False)
class CleanupReport(Model):
    """``run``: the name of the record; None where there was nothing to delete. ``spared``: versions that became needed
    between the plan and the deletion. ``retained``: what was dropped from the schema and is kept all the same."""

    derived: ClassVar[tuple[str, ...]] = ("versions", "bytes")

    uri: str
    run: str | None
    policy: Policy
    boundaries: Mapping[str, Count]
    tables: tuple[TableCleanup, ...]
    orphans: tuple[Orphan, ...]
    spared: Count
    errors: tuple[str, ...]
    unfinished: Unfinished = field(default_factory=lambda: Unfinished(0, 0))
    retained: tuple[RetainedProperty, ...] = ()

    @property
    def versions(self) -> Count:
        return sum(table.deleted.versions for table in self.tables)

    @property
    def bytes(self) -> Count:
        gone = sum(table.deleted.bytes for table in self.tables) + sum(orphan.bytes for orphan in self.orphans)
        return gone + self.unfinished.bytes

    def __repr__(self) -> str:
        failed = f"; {count_text(len(self.errors), 'failure')}" if self.errors else ""
        return (
            f"<CleanupReport {self.uri}: {count_text(self.versions, 'version')} and "
            f"{count_text(len(self.orphans), 'orphan')} deleted, {bytes_text(self.bytes)}{failed}>"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (t.table_key, t.deleted.versions, t.deleted.files, t.deleted.bytes, t.error) for t in self.tables
        ]
        rows += [(orphan.prefix, None, orphan.files, orphan.bytes, None) for orphan in self.orphans]
        return html_table(
            ("table", "versions", "files", "bytes", "error"), rows, f"cleanup {self.run}", empty="nothing to delete"
        )


@dataclass(frozen=True)
class Checkpoint(Model):
    """One pinned commit."""

    name: str
    commit_id: str
    branch: str
    identity: str
    ref: str | None
    manifest_version: Count
    actor: str | None
    created_at_us: int


class CheckpointList(tuple[Checkpoint, ...]):
    """Checkpoints, sorted by name."""

    def to_dict(self) -> dict[str, Any]:
        return {"checkpoints": [checkpoint.to_dict() for checkpoint in self]}

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [(c.name, c.commit_id, c.branch, c.actor) for c in self]
        return html_table(("name", "commit", "branch", "actor"), rows, "checkpoints", empty="no checkpoints")


@dataclass(frozen=True)
class CleanupRun(Model):
    """The plan of a cleanup, and what a confirmed one did. ``tables``: what it deleted of each; none without confirmation."""

    derived: ClassVar[tuple[str, ...]] = ("keep_versions", "older_than_secs", "tables")

    uri: str
    confirmed: bool
    plan: CleanupPlan
    report: CleanupReport | None

    @property
    def keep_versions(self) -> Count:
        return self.plan.policy.keep

    @property
    def older_than_secs(self) -> Count:
        return self.plan.policy.older_than_s

    @property
    def tables(self) -> tuple[TableCleanup, ...]:
        return () if self.report is None else self.report.tables


@dataclass(frozen=True)
class CheckpointNames(Model):
    """Checkpoints by name."""

    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True)
class CheckpointDeleted(Model):
    name: str
    deleted: Literal[True] = True
