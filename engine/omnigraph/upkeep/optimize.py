"""Optimize: fewer and larger files, indexes that cover them, and a short archive of ``__manifest``.

Plans on the pins, rewrites without holding anything up, and commits in turns (``commit.maintain``). Content never changes:
every step may lose against a living writer, is planned again within a budget, and what stays undone is named with its reason.
A run that finds nothing to do writes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.maintain import BUSY, GONE, LEFT, PUBLISHED, SUPERSEDED, Done, UpkeepWork, run_turn
from omnigraph.commit.recovery import audit
from omnigraph.commit.upkeep_steps import (
    Achieved,
    AddIndices,
    CommitRewrites,
    RewriteNow,
    StripSettings,
    UpkeepStep,
    rewritten,
)
from omnigraph.core import progress
from omnigraph.core.allocator import give_freed_memory_back
from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.schema import Catalog
from omnigraph.table import compaction, indices
from omnigraph.table.checksums import CheckedFiles
from omnigraph.table.compaction import Limits
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep.compact import compact_manifest
from omnigraph.upkeep.fold_checksums import fold_checksums
from omnigraph.upkeep.index_plan import IndexWork, Need, needs_of, wanted_indices
from omnigraph.wire.optimize import OptimizeReport, PendingIndex, TableReport

ROUNDS_MAX = 5
GROUP_S = 10.0  # rewriting before the next turn is asked for; what lies longer is likelier to meet a conflict
INSIDE_BYTES_MAX = 64 * 1024 * 1024  # what may be rewritten while others wait, after it has lost once
TURN_DEADLINE_S = 120.0


def optimize(
    engine: Engine,
    *,
    types: Iterable[str] | None = None,
    target_rows: int | None = None,
    memory_mb: int | None = None,
    branches: Sequence[str] | None = None,
    actor: str | None = None,
    meter: Meter | None = None,
) -> OptimizeReport:
    """Compact, fold and build indexes, strip settings that delete versions, then compact ``__manifest``."""
    limits = check_limits(target_rows, memory_mb)
    if limits.memory_mb is not None:
        give_freed_memory_back()
    return _run(engine, types, limits, branches, actor, meter or Meter(), rewrites=True, folds=True)


def ensure_indices(
    engine: Engine, *, branch: str = MAIN, actor: str | None = None, meter: Meter | None = None
) -> OptimizeReport:
    """Build what the schema asks for and is missing. Nothing is rewritten."""
    return _run(engine, None, Limits(), (branch,), actor, meter or Meter(), rewrites=False, folds=False)


def rewrite_dropped(
    engine: Engine,
    keys: Iterable[str] | None,
    *,
    branch: str = MAIN,
    actor: str | None = None,
    meter: Meter | None = None,
) -> tuple[TableReport, ...]:
    """Rewrite the fragments that hold columns which the schema no longer has; nothing else. ``keys``: tables; None for all."""
    run = _Branch(engine, branch, Limits(dropped_only=True), actor, meter or Meter())
    run.select(keys)
    run.rewrite_planned()
    return tuple(run.reports.values())


def check_limits(target_rows: object, memory_mb: object) -> Limits:
    for name, value, least in (("target_rows", target_rows, 1), ("memory_mb", memory_mb, compaction.MEMORY_MB_MIN)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise InvalidInput(f"{name} is a whole number of {least} or more, not {value!r}")
    assert target_rows is None or isinstance(target_rows, int)
    assert memory_mb is None or isinstance(memory_mb, int)
    return Limits(target_rows, memory_mb)


def _run(
    engine: Engine,
    types: Iterable[str] | None,
    limits: Limits,
    branches: Sequence[str] | None,
    actor: str | None,
    meter: Meter,
    *,
    rewrites: bool,
    folds: bool,
) -> OptimizeReport:
    branches = tuple(branches) if branches is not None else (MAIN,)
    tables: list[TableReport] = []
    commits: list[str] = []
    manifest = None
    for branch in branches:
        run = _Branch(engine, branch, limits, actor, meter)
        run.select(types)
        if rewrites:
            run.rewrite()
        with progress.phase("indexing", unit="tables", total=len(run.reports)):
            run.index(folds=folds)
        tables += run.reports.values()
        commits += run.commits
        if rewrites:
            manifest = compact_manifest(engine, branch=branch, meter=meter)
    if rewrites:
        with contextlib.suppress(OmnigraphError):
            # The records stay files where they are, and are still read; the next run moves them.
            audit.fold(engine, meter)
        fold_checksums(engine)
    return OptimizeReport(engine.uri, branches, tuple(tables), manifest, tuple(commits))


def select_keys(catalog: Catalog, types: Iterable[str] | None) -> list[str]:
    """Table keys of type names (or of table keys); all of them without any."""
    known = [declared.table_key for declared in catalog.types()]
    if types is None:
        return known
    if isinstance(types, str):
        raise InvalidInput("types is a list of names", hint=f"pass types=[{types[:80]!r}]")
    found = []
    for name in types:
        keys = [key for key in known if name == key or key.partition(":")[2].casefold() == str(name).casefold()]
        if not keys:
            raise NotFound(f"the graph has no type {str(name)[:80]!r}", type=str(name)[:80])
        found += keys
    return sorted(set(found), key=known.index)


class _Branch:
    """One run on one branch."""

    def __init__(self, engine: Engine, branch: str, limits: Limits, actor: str | None, meter: Meter) -> None:
        self.engine = engine
        self.branch = branch
        self.limits = limits
        self.actor = actor
        self.meter = meter
        self.reports: dict[str, TableReport] = {}
        self.commits: list[str] = []
        # What a table's report gains once its turn is published; a turn may end without that.
        self.gains: dict[str, Callable[[Achieved], None]] = {}

    def select(self, types: Iterable[str] | None) -> None:
        state = self._state()
        for key in select_keys(self.engine.catalog(state.schema), types):
            pin = state.tables[key]
            self.reports[key] = TableReport(key, pin.version, pin.version, pin.fragments, pin.fragments)

    def _state(self) -> State:
        return self.engine.latest(self.branch, self.meter).state

    def _handle(self, pin: Pin) -> object:
        return self.engine.tables.open(TableRef(pin.location, pin.ref), pin.version, self.meter)

    def _left(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if self.reports[key].skipped is None]

    # --- turns ------------------------------------------------------------------------------------------------------

    def _turns(self, works: list[UpkeepWork]) -> dict[str, Done]:
        """Commit the works in as many turns as it takes."""
        done: dict[str, Done] = {}
        while works:
            turn = run_turn(
                self.engine,
                self.branch,
                works,
                actor=self.actor,
                deadline_s=TURN_DEADLINE_S,
                meter=self.meter,
            )
            if turn.commit_id is not None:
                self.commits.append(turn.commit_id)
            done.update(turn.tables)
            works = [work for work in works if turn.tables[work.key].state == LEFT]
        for key, one in done.items():
            report = self.reports[key]
            if one.state == PUBLISHED and one.handle is not None:
                report.version = one.after
                report.fragments = len(indices.fragment_ids(one.handle))
                if key in self.gains:
                    self.gains[key](one.achieved)
            self.gains.pop(key, None)
            report.conflicts += one.achieved.lost
            if one.state == GONE:
                report.skipped = one.reason
        return done

    def _again(self, done: dict[str, Done], why: dict[str, str]) -> list[str]:
        """Tables whose work has to be planned again."""
        again = []
        for key, one in done.items():
            if one.state in (PUBLISHED, GONE) and not one.achieved.lost:
                continue
            if one.state not in (PUBLISHED, GONE):
                self.reports[key].conflicts += not one.achieved.lost
                why[key] = _WORDS.get(one.state, one.reason or one.state)
            again.append(key)
        return again

    # --- compaction -------------------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        """Rewrite what is worth it. What lost to a writer once is rewritten while holding the turn, if it is small."""
        # An index in too many pieces keeps fragments apart that could be one, so it goes first.
        self.index(folds=True, only=Need.REWRITE)
        self.rewrite_planned()

    def rewrite_planned(self) -> None:
        """Rewrite what is planned as long as it takes."""
        todo = list(self.reports)
        why: dict[str, str] = {}
        for round_ in range(ROUNDS_MAX):
            again: list[str] = []
            with progress.phase("rewriting"):
                for works in self._groups(todo, inside=round_ > 0):
                    again += self._again(self._turns(works), why)
            todo = self._left(dict.fromkeys(again))
            if not todo:
                return
        for key in todo:
            self.reports[key].skipped = why.get(key, "writers were faster every time")

    def _groups(self, keys: Sequence[str], *, inside: bool) -> Iterable[list[UpkeepWork]]:
        """Works as they become ready: everything that was rewritten within a few seconds goes into one turn."""
        held = self.engine.latest(self.branch, self.meter)
        progress.expect(sum(held.state.tables[key].rows for key in keys if key in held.state.tables))
        started = self.engine.clock.monotonic()
        group: list[UpkeepWork] = []
        for key in keys:
            pin = held.state.tables.get(key)
            report = self.reports[key]
            if pin is None or pin.fragments == 0:
                continue
            try:
                work = self._rewriting(pin, report, held.state.head.mark, inside=inside)
            except OmnigraphError as error:
                report.skipped = error.message
                continue
            if work is not None:
                group.append(work)
            if group and self.engine.clock.monotonic() - started > GROUP_S:
                yield group
                group = []
                held = self.engine.latest(self.branch, self.meter)
                started = self.engine.clock.monotonic()
        if group:
            yield group

    def _rewriting(self, pin: Pin, report: TableReport, mark: str | None, *, inside: bool) -> UpkeepWork | None:
        handle = self.engine.tables.open(TableRef(pin.location, pin.ref), pin.version, self.meter)
        settings = indices.auto_cleanup_keys(handle)
        tasks = compaction.plan_rewrites(handle, self.limits)
        # Rows that stay where they are count at once, the others when they have been rewritten.
        progress.advance(pin.rows - sum(map(compaction.source_rows, tasks)), subject=pin.key)
        if not tasks and not settings:
            return None
        small = sum(compaction.source_bytes(task) for task in tasks) <= INSIDE_BYTES_MAX
        signature = compaction.index_signature(handle)
        inside = inside and small
        rewriting: UpkeepStep = (
            RewriteNow(self.limits)
            if inside
            else CommitRewrites(tuple(rewritten(task, handle, self.meter) for task in tasks), signature)
        )
        self.gains[pin.key] = lambda achieved: _gain_rewrites(report, achieved)
        return UpkeepWork(pin.key, pin, mark, (StripSettings(), rewriting))

    # --- indexes ----------------------------------------------------------------------------------------------------

    def index(self, *, folds: bool, only: Need | None = None) -> None:
        """Build, fold and rewrite indexes: all of one table in one commit."""
        todo = self._left(self.reports)
        why: dict[str, str] = {}
        for _ in range(ROUNDS_MAX):
            held = self.engine.latest(self.branch, self.meter)
            catalog = self.engine.catalog(held.state.schema)
            works = []
            for key in todo:
                progress.advance(subject=key)
                pin = held.state.tables.get(key)
                if pin is None or pin.fragments == 0:
                    continue
                work = self._indexing(catalog, pin, held.state.head.mark, folds=folds, only=only)
                if work is not None:
                    works.append(work)
            todo = self._left(self._again(self._turns(works), why))
            if not todo:
                return
        for key in todo:
            self.reports[key].skipped = why.get(key, "writers were faster every time")

    def _indexing(
        self, catalog: Catalog, pin: Pin, mark: str | None, *, folds: bool, only: Need | None
    ) -> UpkeepWork | None:
        report = self.reports[pin.key]
        handle = self.engine.tables.open(TableRef(pin.location, pin.ref), pin.version, self.meter)
        wanted = wanted_indices(catalog.by_table_key(pin.key))
        needs = needs_of(wanted, indices.indices_of(handle), indices.fragment_ids(handle))
        needs = tuple(
            need for need in needs if (only is None or need.need is only) and (folds or need.need is Need.BUILD)
        )
        report.pending_indexes = []
        added, removed, built = [], [], []
        inputs = CheckedFiles(handle)
        for need in needs:
            reason = self._unready(handle, need)
            if reason is None:
                try:
                    fragments = sorted(need.fragments)
                    segment = indices.stage_segment(handle, need.spec, fragments, self.meter, inputs=inputs)
                except OmnigraphError as error:
                    reason = error.message
                else:
                    added.append(segment)
                    built.append(need)
                    if need.replaces:
                        removed += indices.segments_of(handle, need.spec.name, segment)
            if reason is not None and need.need is Need.BUILD:
                report.pending_indexes.append(PendingIndex(pin.key, need.spec.column, reason))
        if not added:
            return None

        self.gains[pin.key] = lambda _achieved: _gain_indices(report, built)
        return UpkeepWork(pin.key, pin, mark, (AddIndices(handle, tuple(added), tuple(removed)),))

    def _unready(self, handle: object, need: IndexWork) -> str | None:
        if need.spec.kind == indices.VECTOR and need.need is Need.BUILD:
            if not indices.has_values(handle, need.spec.column, self.meter):  # type: ignore[arg-type]  # a Lance handle
                return "no vector to train on yet"
        return None


def _gain_rewrites(report: TableReport, achieved: Achieved) -> None:
    report.rewrites += achieved.rewrites
    report.rows_rewritten += achieved.rows
    report.bytes_rewritten += achieved.bytes
    report.settings_stripped += achieved.stripped


def _gain_indices(report: TableReport, built: Iterable[IndexWork]) -> None:
    for work in built:
        names = report.indices_folded if work.need is Need.FOLD else report.indices_built
        names.append(work.spec.column)


_WORDS = {
    BUSY: "a write to it has not ended",
    SUPERSEDED: "another run of upkeep was faster",
}
