"""Compaction with the rewriting done elsewhere: tasks that travel, and one door for what they come back with.

A task names a graph and a version, and holds no credentials: the process that runs it reaches the store in its own way. Tasks and
results are documents. A result is committed like any other rewrite, and refused where its fragments have changed since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omnigraph.commit.engine import MAIN, Engine, gather
from omnigraph.commit.maintain import LEFT, PUBLISHED, UpkeepWork, run_turn
from omnigraph.commit.upkeep_steps import Achieved, CommitRewrites
from omnigraph.core import documents
from omnigraph.core.errors import InvalidInput
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.core.shown import bytes_text, count_text, html_table
from omnigraph.distributed.staging_record import file_xxh3
from omnigraph.manifest.rows import Pin
from omnigraph.store import layout, open_store
from omnigraph.table import compaction, indices
from omnigraph.table.compaction import Limits
from omnigraph.table.dataset import TableRef, Tables
from omnigraph.upkeep.branch_upkeep import TURN_DEADLINE_S, select_keys
from omnigraph.upkeep.optimize import check_limits
from omnigraph.upkeep.rewrite_document import (
    FORMAT,
    ResultDocument,
    TaskDocument,
    files_of,
    read_result,
    read_task,
)
from omnigraph.wire.model import Model
from omnigraph.wire.optimize import OptimizeReport, TableReport

Text = str | bytes
FileLine = tuple[str, int, str | None]


@dataclass(frozen=True)
class _Rewrite(Model):
    """What a task and its result have in common. A document: ``to_json``; pickling one pickles that document."""

    op: str  # of the plan
    uri: str
    branch: str
    table_key: str
    identity: str
    location: str
    ref: str | None
    version: int
    mark: str | None
    signature: tuple[tuple[str, str], ...] = field(repr=False)
    files: tuple[FileLine, ...] = field(repr=False)  # path, bytes, xxh3

    def _document(self, body: str, lance: str) -> str:
        document: dict[str, Any] = {name: getattr(self, name) for name in _CARRIED if name != "version"}
        document |= {"format": FORMAT, "pin": self.version, body: json.loads(lance)}
        document["files"] = [dict(zip(_LINE, line, strict=True)) for line in self.files]
        return documents.canonical(document).decode()


_LINE = ("path", "bytes", "xxh3")
_CARRIED = ("op", "uri", "branch", "table_key", "identity", "location", "ref", "version", "mark", "signature")


def _carried(found: TaskDocument | ResultDocument) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in _CARRIED if name != "version"}
    signature = tuple((name, uuid) for name, uuid in found.signature)
    return {
        **values,
        "version": found.pin,
        "signature": signature,
        "files": tuple((line.path, line.bytes, line.xxh3) for line in found.files),
    }


@dataclass(frozen=True)
class CompactionTask(_Rewrite):
    """A group of fragments to be rewritten as fewer. ``run`` works in any process that reaches the store."""

    fragments: int
    rows: int
    bytes: int
    task: str = field(repr=False)

    def to_json(self) -> str:
        return self._document("task", self.task)

    @classmethod
    def from_json(cls, text: Text) -> CompactionTask:
        """Read what ``to_json`` made. Raises ``InvalidInput`` for anything else."""
        found = read_task(text)
        lance = json.dumps(found.task)
        task = compaction.task_from_json(lance)
        carried = _carried(found)
        count, rows, size = compaction.source_count(task), compaction.source_rows(task), compaction.source_bytes(task)
        return cls(**carried, fragments=count, rows=rows, bytes=size, task=lance)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompactionTask.from_json, (self.to_json(),)

    def run(self, storage_options: Mapping[str, str] | None = None) -> CompactionResult:
        """Write the new files. No version names them before ``commit_compaction``."""
        layout.check_under_root(self.location)
        tables = Tables(open_store(self.uri, storage_options))
        ref = TableRef(self.location, self.ref)
        result = compaction.rewrite(compaction.task_from_json(self.task), tables.open(ref, self.version))
        carried = {name: getattr(self, name) for name in _CARRIED}
        lance = compaction.result_to_json(result)
        lines = _lines(files_of(json.loads(lance)["new_fragments"]), tables.uri(ref))
        return CompactionResult(**carried, files=lines, result=lance)


@dataclass(frozen=True)
class CompactionResult(_Rewrite):
    """What a task has written."""

    result: str = field(repr=False)

    def to_json(self) -> str:
        return self._document("result", self.result)

    @classmethod
    def from_json(cls, text: Text) -> CompactionResult:
        """Read what ``to_json`` made. Raises ``InvalidInput`` for anything else."""
        found = read_result(text)
        return cls(**_carried(found), result=json.dumps(found.result))

    def __reduce__(self) -> tuple[Any, ...]:
        return CompactionResult.from_json, (self.to_json(),)


def _check_files(engine: Engine, pin: Pin, results: Iterable[CompactionResult], meter: Meter) -> None:
    """Refuse results of which a file is not there as it was written: a commit looks at none."""
    base = TableRef(pin.location, pin.ref).relative
    wanted = {f"{base}/{path}": size for one in results for path, size, _ in one.files}
    names = sorted(wanted)
    sizes = gather([engine.spawn(partial(engine.store.size, name, meter=meter)) for name in names])
    for name, found in zip(names, sizes, strict=True):
        if found != wanted[name]:
            said = "is missing" if found is None else f"has {found} bytes"
            raise InvalidInput(
                f"the rewritten file {name} {said}; expected {wanted[name]} bytes",
                hint="plan the compaction again",
                object=name,
            )


def _lines(files: Iterable[tuple[str, int]], table_uri: str | None = None) -> tuple[FileLine, ...]:
    """Lines of files; with their digests where they lie on a local disk and ``table_uri`` is given."""
    digest = None if table_uri is None or "://" in table_uri else table_uri
    return tuple((path, size, None if digest is None else file_xxh3(f"{digest}/{path}")) for path, size in files)


@dataclass(frozen=True, repr=False)
class CompactionPlan(Model):
    """The tasks of one look at a branch. Run them anywhere, in any order; commit what came back, all of it or some."""

    uri: str
    branch: str
    tasks: tuple[CompactionTask, ...]

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
    tasks: list[CompactionTask] = []
    op = new_ulid(engine.clock)
    for key in select_keys(engine.catalog(held.state.schema), types):
        pin = held.state.tables[key]
        if pin.fragments:
            tasks += _tasks(engine, op, branch, pin, held.state.head.mark, limits, meter)
    return CompactionPlan(engine.uri, branch, tuple(tasks))


def _tasks(
    engine: Engine, op: str, branch: str, pin: Pin, mark: str | None, limits: Limits, meter: Meter
) -> list[CompactionTask]:
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version, meter)
    signature = tuple(sorted(compaction.index_signature(handle)))
    return [
        CompactionTask(
            op=op,
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
            files=_lines(files_of(json.loads(compaction.task_to_json(task))["task"]["fragments"])),
            task=compaction.task_to_json(task),
        )
        for task in compaction.plan_rewrites(handle, limits)
    ]


def commit_compaction(
    engine: Engine, results: Iterable[CompactionResult], *, actor: str | None = None, meter: Meter | None = None
) -> OptimizeReport:
    """Commit what tasks have written, in turns. What a writer has overtaken is left out and said: plan it again."""
    meter = meter or Meter()
    given = list(results)
    branch = _check(engine, given)
    state = engine.latest(branch, meter).state
    by_table: dict[str, list[CompactionResult]] = {}
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
            _check_files(engine, pin, mine, meter)
            works.append(_work(pin, mine))
    commits = _turns(engine, branch, works, actor, reports, meter)
    return OptimizeReport(engine.uri, (branch,), tuple(reports.values()), None, tuple(commits))


def _check(engine: Engine, given: list[CompactionResult]) -> str:
    """All of one graph and one branch, and ours."""
    for one in given:
        if not isinstance(one, CompactionResult):
            raise InvalidInput(f"commit_compaction takes what tasks return, not {type(one).__name__}")
        if one.uri != engine.uri:
            raise InvalidInput(f"a result of {one.uri} cannot be committed to {engine.uri}")
    branches = {one.branch for one in given} or {MAIN}
    if len(branches) > 1:
        raise InvalidInput(f"the results are of several branches: {', '.join(sorted(branches))}")
    return branches.pop()


def _work(pin: Pin, mine: list[CompactionResult]) -> UpkeepWork:
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
        report.fragments_removed, report.fragments_added = achieved.fragments_removed, achieved.fragments_added
    if achieved.lost and report.skipped is None:
        report.skipped = f"{count_text(achieved.lost, 'rewrite')} overtaken by a writer: plan again"
