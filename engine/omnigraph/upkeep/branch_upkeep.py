"""Upkeep of the tables of one branch: what is rewritten, indexed and copied, in turns, as long as writers let it.

Plans on the pins, rewrites without holding anything up, and commits in turns (``commit.maintain``). A table whose line another
branch commits to is left to that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from omnigraph.commit.engine import Engine
from omnigraph.commit.lines import branch_names
from omnigraph.commit.maintain import BUSY, GONE, LEFT, PUBLISHED, SUPERSEDED, Done, UpkeepWork, run_turn
from omnigraph.commit.upkeep_steps import (
    Achieved,
    AddIndices,
    CommitRewrites,
    NameCopies,
    RewriteNow,
    StripSettings,
    UpkeepStep,
    rewritten,
)
from omnigraph.core import progress
from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.core.similar import did_you_mean
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.schema import Catalog
from omnigraph.table import compaction, indices, settle
from omnigraph.table.checksums import CheckedFiles
from omnigraph.table.compaction import Limits
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep.index_plan import IndexWork, Need, needs_of, wanted_indices
from omnigraph.wire.optimize import PendingIndex, TableReport

ROUNDS_MAX = 5
GROUP_S = 10.0  # rewriting before the next turn is asked for; what lies longer is likelier to meet a conflict
INSIDE_BYTES_MAX = 64 * 1024 * 1024  # what may be rewritten while others wait, after it has lost once
TURN_DEADLINE_S = 120.0


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
            hint = did_you_mean(name, [key.partition(":")[2] for key in known])
            raise NotFound(f"the graph has no type {str(name)[:80]!r}", hint=hint, type=str(name)[:80])
        found += keys
    return sorted(set(found), key=known.index)


class BranchUpkeep:
    """One run of upkeep on the tables of one branch."""

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
        names: dict[str, str] = {}
        for key in select_keys(self.engine.catalog(state.schema), types):
            pin = state.tables[key]
            report = TableReport(key, pin.version, pin.version, pin.fragments, pin.fragments, branch=self.branch)
            if pin.owner != state.identity:
                names = names or branch_names(self.engine, self.meter)
                report.skipped = f"inherited: branch {names.get(pin.owner, 'that was deleted')} commits to it"
            self.reports[key] = report

    def _state(self) -> State:
        return self.engine.latest(self.branch, self.meter).state

    def _handle(self, pin: Pin) -> Any:
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

    def _rounds(self, todo: list[str], plan: Callable[[Sequence[str], int], Iterable[list[UpkeepWork]]]) -> None:
        """Plan, commit, and plan what was not published again, as long as it takes. ``plan``: the works of these tables, in
        groups of which each goes into one turn, given the number of rounds before."""
        why: dict[str, str] = {}
        for round_ in range(ROUNDS_MAX):
            again: list[str] = []
            for works in plan(todo, round_):
                again += self._again(self._turns(works), why)
            todo = self._left(dict.fromkeys(again))
            if not todo:
                return
        for key in todo:
            self.reports[key].skipped = why.get(key, "writers were faster every time")

    def _one_group(
        self, work_of: Callable[[Catalog, Pin, str | None], UpkeepWork | None]
    ) -> Callable[[Sequence[str], int], Iterable[list[UpkeepWork]]]:
        """A plan whose works all go into one turn. A table that cannot be worked on is skipped, and says why."""

        def plan(keys: Sequence[str], _round: int) -> Iterable[list[UpkeepWork]]:
            held = self.engine.latest(self.branch, self.meter)
            catalog = self.engine.catalog(held.state.schema)
            works = []
            for key in keys:
                pin = held.state.tables.get(key)
                if pin is None:
                    continue
                try:
                    work = work_of(catalog, pin, held.state.head.mark)
                except OmnigraphError as error:
                    self.reports[key].skipped = error.message
                    continue
                if work is not None:
                    works.append(work)
            yield works

        return plan

    # --- compaction -------------------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        """Rewrite what is worth it."""
        # An index in too many pieces keeps fragments apart that could be one, so it goes first.
        self.index(folds=True, only=Need.REWRITE)
        self.rewrite_planned()

    def _own_indices(self) -> None:
        """Build on the table's own line what lies in the folder of another one and would be broken by a rewrite."""
        self.index(folds=True, only=Need.REWRITE, settles=lambda handle: compaction.is_held_up(handle, self.limits))

    def rewrite_planned(self) -> None:
        """Rewrite what is planned as long as it takes."""
        self._own_indices()
        with progress.phase("rewriting"):
            self._rounds(self._left(self.reports), self._rewrites)

    def _rewrites(self, keys: Sequence[str], round_: int) -> Iterable[list[UpkeepWork]]:
        """Works as they become ready: everything that was rewritten within a few seconds goes into one turn. What lost to a
        writer once is rewritten while holding the turn, if it is small."""
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
                work = self._rewriting(pin, report, held.state.head.mark, inside=round_ > 0)
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

    # --- files of other lines ---------------------------------------------------------------------------------------

    def settle(self, bytes_max: float) -> None:
        """Copy what tables read from other lines into the folders of their own, up to so many bytes a table."""
        if bytes_max:
            self._rounds(
                self._left(self.reports),
                self._one_group(lambda catalog, pin, mark: self._settling(catalog, pin, mark, bytes_max)),
            )

    def _settling(self, catalog: Catalog, pin: Pin, mark: str | None, bytes_max: float) -> UpkeepWork | None:
        if not any(base.needed for base in pin.bases):
            return None
        ref = TableRef(pin.location, pin.ref)
        handle = self._handle(pin)
        if settle.inherited_bytes(handle) > bytes_max:
            return None
        indexing = self._indexing(catalog, pin, mark, folds=True, only=Need.REWRITE, settles=True)
        indexed = None if indexing is None else self.gains[pin.key]
        copied = settle.copy_inherited(self.engine.store, ref, handle, self.meter)
        if indexing is None and not copied.after:
            return None
        report = self.reports[pin.key]

        def gain(achieved: Achieved) -> None:
            report.settled_bytes += achieved.settled_bytes
            if indexed is not None:
                indexed(achieved)

        self.gains[pin.key] = gain
        steps = () if indexing is None else indexing.steps
        return UpkeepWork(pin.key, pin, mark, (*steps, *((NameCopies(copied),) if copied.after else ())))

    # --- indexes ----------------------------------------------------------------------------------------------------

    def index(
        self, *, folds: bool, only: Need | None = None, settles: Callable[[Any], bool] = lambda _handle: False
    ) -> None:
        """Build, fold and rewrite indexes: all of one table in one commit. ``settles``: of which tables those are built anew that
        lie in the folder of another line."""

        def indexing(catalog: Catalog, pin: Pin, mark: str | None) -> UpkeepWork | None:
            progress.advance(subject=pin.key)
            if pin.fragments == 0:
                return None
            return self._indexing(catalog, pin, mark, folds=folds, only=only, settles=settles(self._handle(pin)))

        self._rounds(self._left(self.reports), self._one_group(indexing))

    def _indexing(
        self, catalog: Catalog, pin: Pin, mark: str | None, *, folds: bool, only: Need | None, settles: bool = False
    ) -> UpkeepWork | None:
        report = self.reports[pin.key]
        handle = self._handle(pin)
        wanted = wanted_indices(catalog.by_table_key(pin.key))
        needs = needs_of(wanted, indices.indices_of(handle), indices.fragment_ids(handle), settles=settles)
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
                        removed += indices.segments_of(handle, need.spec.name)
            if reason is not None and need.need is Need.BUILD:
                report.pending_indexes.append(PendingIndex(pin.key, need.spec.column, reason))
        if settles:
            # What the schema does not ask for, or what has nothing to be trained on, does not come along.
            kept = {need.spec.name for need in built}
            for name in sorted(indices.inherited_indices(handle) - kept):
                removed += indices.segments_of(handle, name)
        if not added and not removed:
            return None

        self.gains[pin.key] = lambda _achieved: _gain_indices(report, built)
        return UpkeepWork(pin.key, pin, mark, (AddIndices(handle, tuple(added), tuple(removed)),))

    def _unready(self, handle: Any, need: IndexWork) -> str | None:
        if need.spec.kind == indices.VECTOR and need.need is Need.BUILD:
            if not indices.has_values(handle, need.spec.column, self.meter):
                return "no vector to train on yet"
        return None


def _gain_rewrites(report: TableReport, achieved: Achieved) -> None:
    report.rewrites += achieved.rewrites
    report.rows_rewritten += achieved.rows
    report.bytes_rewritten += achieved.bytes
    report.fragments_removed += achieved.fragments_removed
    report.fragments_added += achieved.fragments_added
    report.settings_stripped += achieved.stripped


def _gain_indices(report: TableReport, built: Iterable[IndexWork]) -> None:
    for work in built:
        names = report.indices_folded if work.need is Need.FOLD else report.indices_built
        names.append(work.spec.column)


_WORDS = {
    BUSY: "a write to it has not ended",
    SUPERSEDED: "another run of upkeep was faster",
}
