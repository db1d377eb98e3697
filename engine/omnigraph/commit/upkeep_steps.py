"""Commits of upkeep as values, and how each is made on a line of versions.

They keep a table's content. Lance mints the uuids of some, so a turn knows its own commits by the versions that they returned,
each directly above the one before. ``Achieved`` says what a step achieved; whether it counts is decided by the turn's
publish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.engine import Engine
from omnigraph.commit.properties import OP, PLAN
from omnigraph.core import failpoints, progress
from omnigraph.core.ids import new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.table import compaction, indices, settle
from omnigraph.table.dataset import CommitUnknown, NotLanded, TableRef

# --- what is to be committed --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StripSettings:
    """Take out settings of a table that let Lance delete versions by itself."""


@dataclass(frozen=True)
class CommitRewrites:
    """Finished rewrites. ``signature``: the index segments that they know."""

    results: tuple[Any, ...] = field(repr=False)
    signature: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class RewriteNow:
    """Plan, rewrite and commit while holding the turn: for what lost to a writer before, and is small."""

    limits: compaction.Limits


@dataclass(frozen=True)
class AddIndices:
    """Index segments that are written already, and those that they replace."""

    base: Any = field(repr=False)  # the handle that they were staged on
    added: tuple[Any, ...] = field(repr=False)
    removed: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True)
class NameCopies:
    """Files of other lines that were copied into this line's folder, and are to be read from there."""

    settled: settle.Settled = field(repr=False)


UpkeepStep = StripSettings | CommitRewrites | RewriteNow | AddIndices | NameCopies


@dataclass
class Achieved:
    """What the steps on one table came to. ``lost``: rewrites that have to be planned again."""

    rewrites: int = 0
    rows: int = 0
    bytes: int = 0
    lost: int = 0
    settled_bytes: int = 0
    stripped: tuple[str, ...] = ()
    fragments_removed: int = 0
    fragments_added: int = 0


# --- the line -----------------------------------------------------------------------------------------------------------


@dataclass
class UpkeepLine:
    """One table in a turn: commits go through it, and it notes which versions are this run's own."""

    engine: Engine
    pin: Pin
    op: str
    plan: str
    meter: Meter
    own: set[int] = field(default_factory=set)
    handle: Any = None
    spoiled: bool = False  # something was sent that may stand above what was achieved
    reason: str | None = None
    achieved: Achieved = field(default_factory=Achieved)

    @property
    def ref(self) -> TableRef:
        return TableRef(self.pin.location, self.pin.ref)

    @property
    def top(self) -> int:
        """The newest version that this run knows to be published or its own."""
        return self.pin.version if self.handle is None else int(self.handle.version)

    @property
    def current(self) -> Any:
        """The handle at ``top``."""
        return self.engine.tables.open(self.ref, self.top, self.meter) if self.handle is None else self.handle

    @property
    def properties(self) -> dict[str, str]:
        return {OP: self.op, PLAN: self.plan}

    def send(self, commit: Callable[[], Any], versions: int) -> bool:
        """Make one commit that adds ``versions`` versions. False: it did not land where it should; stop with this table."""
        top = self.top
        failpoints.hit("maintain.before_commit", table_key=self.pin.key)
        try:
            landed = commit()
        except (NotLanded, CommitUnknown) as error:
            self.spoiled = True
            self.reason = str(error)
            return False
        failpoints.hit("maintain.after_commit", table_key=self.pin.key)
        if landed.version != top + versions:
            self.spoiled = True
            self.reason = f"another writer committed in between: version {landed.version}, not {top + versions}"
            return False
        self.own.update(range(top + 1, landed.version + 1))
        self.handle = landed
        return True

    def make(self, steps: Iterable[UpkeepStep]) -> None:
        """Make the steps in order. Stops at the first that did not land where it should."""
        for step in steps:
            if not self._make(step):
                return

    def _make(self, step: UpkeepStep) -> bool:
        if isinstance(step, StripSettings):
            return self._strip()
        if isinstance(step, AddIndices):
            return self._add_indices(step)
        if isinstance(step, NameCopies):
            return self._name_copies(step.settled)
        if isinstance(step, RewriteNow):
            chosen = compaction.plan_rewrites(self.current, step.limits)
            return self._rewrite([rewritten(task, self.current, self.meter) for task in chosen], None)
        return self._rewrite(list(step.results), step.signature)

    def _strip(self) -> bool:
        base = self.current
        found = indices.auto_cleanup_keys(base)
        if not found:
            return True
        transaction = indices.strip_transaction(base, found, uuid=new_uuid(), properties=self.properties)
        if not self.send(lambda: self.engine.tables.commit(self.ref, base, transaction, self.meter), 1):
            return False
        self.achieved.stripped = found
        return True

    def _add_indices(self, step: AddIndices) -> bool:
        transaction = indices.index_transaction(
            step.base, step.added, step.removed, uuid=new_uuid(), properties=self.properties
        )
        return self.send(lambda: self.engine.tables.commit(self.ref, step.base, transaction, self.meter), 1)

    def _name_copies(self, settled: settle.Settled) -> bool:
        base = self.current
        if not settle.still_there(settled, base):
            self.achieved.lost += 1
            return True
        transaction = settle.transaction(base, settled, uuid=new_uuid(), properties=self.properties)
        if not self.send(lambda: self.engine.tables.commit(self.ref, base, transaction, self.meter), 1):
            return False
        self.achieved.settled_bytes += settled.bytes
        return True

    def _rewrite(self, results: list[Any], signature: frozenset[tuple[str, str]] | None) -> bool:
        """Commit the rewrites whose fragments are unchanged since. One conflict costs one rewrite; the others stand, because
        each is a commit of its own. ``signature`` None: they were made in this very turn."""
        achieved = self.achieved
        if signature is not None and compaction.index_signature(self.current) != signature:
            achieved.lost = len(results)
            return True
        for index, result in enumerate(results):
            if not compaction.still_there(result, self.current):
                achieved.lost += 1
                continue
            if not self.send(self._committing(result), compaction.VERSIONS_OF_A_REWRITE):
                achieved.lost += len(results) - index
                return False
            achieved.rewrites += 1
            achieved.rows += compaction.source_rows(result)
            achieved.bytes += compaction.source_bytes(result)
            achieved.fragments_removed += result.metrics.fragments_removed
            achieved.fragments_added += result.metrics.fragments_added
        return True

    def _committing(self, result: Any) -> Callable[[], Any]:
        handle = self.current
        return lambda: compaction.commit_rewrite(self.engine.tables, self.ref, handle, result, self.op, self.meter)


def rewritten(task: compaction.Task, handle: Any, meter: Meter) -> compaction.Result:
    """Write the new files of one task, and say how far it is."""
    result = compaction.rewrite(task, handle, meter)
    progress.advance(compaction.source_rows(task), bytes=compaction.source_bytes(task))
    return result
