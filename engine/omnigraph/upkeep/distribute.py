"""Compaction with the rewriting done elsewhere: tasks that travel, and one door for what they come back with.

A task names a graph and a version, and holds no credentials: whoever runs it reaches the store in his own way. A result is
committed in a turn like any other rewrite, and refused where somebody has changed its fragments since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.maintain import LEFT, PUBLISHED, UpkeepWork, run_turn
from omnigraph.commit.upkeep_steps import Achieved, CommitRewrites
from omnigraph.core.errors import InvalidInput
from omnigraph.core.meter import Meter
from omnigraph.core.shown import bytes_text, count_text, html_table
from omnigraph.manifest.rows import Pin
from omnigraph.store import layout, open_store
from omnigraph.table import compaction, indices
from omnigraph.table.compaction import Limits
from omnigraph.table.dataset import TableRef, Tables
from omnigraph.upkeep.optimize import TURN_DEADLINE_S, OptimizeReport, TableReport, check_limits, select_keys
from omnigraph.upkeep.report import Report


@dataclass(frozen=True)
class RewriteTask(Report):
    """A group of fragments to be rewritten as fewer. Picklable; ``run`` works in any process that reaches the store."""

    uri: str
    branch: str
    table_key: str
    identity: str
    location: str
    ref: str | None
    version: int
    mark: str | None
    fragments: int
    rows: int
    bytes: int
    signature: tuple[tuple[str, str], ...] = field(repr=False)
    task: str = field(repr=False)

    def run(self, storage_options: Mapping[str, str] | None = None) -> RewriteResult:
        """Write the new files. No version names them before ``commit_compaction``."""
        layout.check_under_root(self.location)
        tables = Tables(open_store(self.uri, storage_options))
        handle = tables.open(TableRef(self.location, self.ref), self.version)
        result = compaction.rewrite(compaction.task_from_json(self.task), handle)
        return RewriteResult(
            **{name: getattr(self, name) for name in _CARRIED}, result=compaction.result_to_json(result)
        )


@dataclass(frozen=True)
class RewriteResult(Report):
    """What a task has written. Picklable."""

    uri: str
    branch: str
    table_key: str
    identity: str
    location: str
    ref: str | None
    version: int
    mark: str | None
    signature: tuple[tuple[str, str], ...] = field(repr=False)
    result: str = field(repr=False)


_CARRIED = ("uri", "branch", "table_key", "identity", "location", "ref", "version", "mark", "signature")


@dataclass(frozen=True, repr=False)
class CompactionPlan(Report):
    """The tasks of one look at a branch. Run them anywhere, in any order; commit what came back, all of it or some."""

    uri: str
    branch: str
    tasks: tuple[RewriteTask, ...]

    @property
    def bytes(self) -> int:
        return sum(task.bytes for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        shown = ("table_key", "version", "fragments", "rows", "bytes")
        tasks = [{name: getattr(task, name) for name in shown} for task in self.tasks]
        return {"uri": self.uri, "branch": self.branch, "bytes": self.bytes, "tasks": tasks}

    def __repr__(self) -> str:
        tables = sorted({task.table_key for task in self.tasks})
        what = f"{count_text(len(self.tasks), 'task')} in {count_text(len(tables), 'table')}"
        return f"<CompactionPlan {self.uri}: {what}, {bytes_text(self.bytes)}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [(t.table_key, t.fragments, t.rows, t.bytes) for t in self.tasks]
        return html_table(("table", "fragments", "rows", "bytes"), rows, self.uri, empty="nothing to compact")


def plan_compaction(
    engine: Engine,
    *,
    types: Iterable[str] | None = None,
    target_rows: int | None = None,
    memory_mb: int | None = None,
    branch: str = MAIN,
    meter: Meter | None = None,
) -> CompactionPlan:
    """What is worth rewriting now. Writes nothing."""
    meter = meter or Meter()
    limits = check_limits(target_rows, memory_mb)
    held = engine.latest(branch, meter)
    tasks: list[RewriteTask] = []
    for key in select_keys(engine.catalog(held.state.schema), types):
        pin = held.state.tables[key]
        if pin.fragments:
            tasks += _tasks(engine, branch, pin, held.state.head.mark, limits, meter)
    return CompactionPlan(engine.uri, branch, tuple(tasks))


def _tasks(engine: Engine, branch: str, pin: Pin, mark: str | None, limits: Limits, meter: Meter) -> list[RewriteTask]:
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version, meter)
    signature = tuple(sorted(compaction.index_signature(handle)))
    return [
        RewriteTask(
            uri=engine.uri,
            branch=branch,
            table_key=pin.key,
            identity=pin.identity,
            location=pin.location,
            ref=pin.ref,
            version=pin.version,
            mark=mark,
            fragments=compaction.source_count(task),
            rows=compaction.source_rows(task),
            bytes=compaction.source_bytes(task),
            signature=signature,
            task=compaction.task_to_json(task),
        )
        for task in compaction.plan_rewrites(handle, limits)
    ]


def commit_compaction(
    engine: Engine, results: Iterable[RewriteResult], *, actor: str | None = None, meter: Meter | None = None
) -> OptimizeReport:
    """Commit what tasks have written, in turns. What a writer has overtaken is left out and said: plan it again."""
    meter = meter or Meter()
    given = list(results)
    branch = _check(engine, given)
    state = engine.latest(branch, meter).state
    by_table: dict[str, list[RewriteResult]] = {}
    for one in given:
        by_table.setdefault(one.table_key, []).append(one)
    reports: dict[str, TableReport] = {}
    works = []
    for key, mine in sorted(by_table.items()):
        pin = state.tables.get(key)
        version = pin.version if pin is not None else 0
        fragments = pin.fragments if pin is not None else 0
        reports[key] = TableReport(key, version, version, fragments, fragments)
        if pin is None or any(
            (one.identity, one.location, one.ref) != (pin.identity, pin.location, pin.ref) for one in mine
        ):
            reports[key].skipped = "the table was replaced or dropped"
        elif len({(one.mark, one.version, one.signature) for one in mine}) > 1:
            reports[key].skipped = "the results are of different plans: commit those of one plan at a time"
        else:
            works.append(_work(pin, mine))
    commits = _turns(engine, branch, works, actor, reports, meter)
    return OptimizeReport(engine.uri, (branch,), tuple(reports.values()), None, tuple(commits))


def _check(engine: Engine, given: list[RewriteResult]) -> str:
    """All of one graph and one branch, and ours."""
    if engine.read_only:
        raise InvalidInput("the graph was opened read-only", hint="open it with read_only=False")
    for one in given:
        if not isinstance(one, RewriteResult):
            raise InvalidInput(f"commit_compaction takes what tasks return, not {type(one).__name__}")
        if one.uri != engine.uri:
            raise InvalidInput(f"a result of {one.uri} cannot be committed to {engine.uri}")
    branches = {one.branch for one in given} or {MAIN}
    if len(branches) > 1:
        raise InvalidInput(f"the results are of several branches: {', '.join(sorted(branches))}")
    return branches.pop()


def _work(pin: Pin, mine: list[RewriteResult]) -> UpkeepWork:
    results = tuple(compaction.result_from_json(one.result) for one in mine)
    signature = frozenset((name, uuid) for name, uuid in mine[0].signature)
    return UpkeepWork(pin.key, pin, mine[0].mark, (CommitRewrites(results, signature),))


def _turns(
    engine: Engine,
    branch: str,
    works: list[UpkeepWork],
    actor: str | None,
    reports: dict[str, TableReport],
    meter: Meter,
) -> list[str]:
    commits = []
    while works:
        turn = run_turn(engine, branch, works, actor=actor, deadline_s=TURN_DEADLINE_S, meter=meter)
        if turn.commit_id is not None:
            commits.append(turn.commit_id)
        for key, done in turn.tables.items():
            if done.state == PUBLISHED and done.handle is not None:
                reports[key].version = done.after
                reports[key].fragments = len(indices.fragment_ids(done.handle))
            elif done.state != LEFT:
                reports[key].skipped = done.reason
            _report_rewrites(reports[key], done.achieved)
        works = [work for work in works if turn.tables[work.key].state == LEFT]
    return commits


def _report_rewrites(report: TableReport, achieved: Achieved) -> None:
    report.conflicts = achieved.lost
    if report.committed:
        report.rewrites, report.rows_rewritten, report.bytes_rewritten = (
            achieved.rewrites,
            achieved.rows,
            achieved.bytes,
        )
    if achieved.lost and report.skipped is None:
        report.skipped = f"{count_text(achieved.lost, 'rewrite')} overtaken by a writer: plan again"
