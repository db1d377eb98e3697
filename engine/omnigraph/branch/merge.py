"""Merge one branch into another: one commit with two parents, property by property, or nothing and everything that is in the way.

The source is captured once: what is written to it meanwhile, and whether its branch is deleted, changes nothing. The bases are all
maximal common ancestors; several are folded into a virtual one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from omnigraph.branch.delete import delete_branch
from omnigraph.branch.merging import Merging, Task
from omnigraph.branch.schema_side import merge_schema_of
from omnigraph.branch.source import find_source
from omnigraph.branch.triple import Terms, source_of
from omnigraph.commit import parents
from omnigraph.commit.ancestry_lines import GraphLines, merged_rows, place_of
from omnigraph.commit.conflicts import mismatch
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import same_request
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol.planning import plan_of
from omnigraph.commit.protocol.publish import is_source_gone
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import StagedFiles
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import documents
from omnigraph.core.errors import InvalidInput, OmnigraphError, Reclaimed
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.ancestry import Place, merge_bases, places_of, virtual_base
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.options import CommitOptions
from omnigraph.read.at import find_row, not_served, opened
from omnigraph.read.lifts import read_fills
from omnigraph.read.place_names import At, place_text
from omnigraph.read.states import View
from omnigraph.wire.merge import MergedTable, MergePlan, MergeReceipt
from omnigraph.write.load_options import commit_request
from omnigraph.write.receipt import planned_tables, replay_warnings
from omnigraph.write.schema_change.rows import WrittenFiles

Outcome = Literal["up_to_date", "fast_forward", "merged"]
_HINT = "make the rows named agree: load the rows of one side (to_ndjson) into the other branch, then merge again"


@dataclass(frozen=True, kw_only=True)
class MergeOptions(CommitOptions):
    """``branch`` is the target."""

    source: str
    at: At | None = None
    strict_rows: bool = False
    allow_data_loss: bool = False
    delete_source: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at is not None:
            place_text(self.at)
        if self.source == self.branch:
            raise InvalidInput(
                f"{self.source!r} is both the source and the target of the merge",
                hint="name two branches; `omnigraph branch list` shows them",
            )

    @property
    def digest(self) -> str:
        """Names what was asked for, so that a repeated key can be compared."""
        return documents.digest(
            {
                "kind": "merge",
                "source": self.source,
                "at": None if self.at is None else place_text(self.at),
                "strict_rows": self.strict_rows,
                "allow_data_loss": self.allow_data_loss,
            }
        )


@dataclass
class _Merge:
    """One merge under way: its source, and what the newest plan of it came to."""

    engine: Engine
    options: MergeOptions
    source: Held
    meter: Meter
    outcome: Outcome = "merged"
    bases: tuple[Place, ...] = ()
    carried: int = 0
    plans_only: bool = False
    written: WrittenFiles = field(default_factory=WrittenFiles)
    files: StagedFiles = field(default_factory=StagedFiles)

    def prepare(self, txn: Txn) -> Prepared | None:
        """Find the bases on this state of the target and do to it what leads from them to the source."""
        lines = GraphLines.of(self.engine, (self.source, txn.held), self.meter)
        source, target = place_of(self.source), place_of(txn.held)
        self.bases = merge_bases(source, target, lines)
        if not self.bases:
            raise InvalidInput(
                f"{self.options.source!r} and {self.options.branch!r} have no commit in common",
                hint="both have to be branches of one graph",
            )
        if any(base.commit == source.commit for base in self.bases):
            self.outcome = "up_to_date"
            return None
        self.outcome = "fast_forward" if any(base.commit == target.commit for base in self.bases) else "merged"
        view = View(self.engine, self.source, self.meter)
        if is_source_gone(self.engine, source_of(view.state, ()), self.meter):
            raise Reclaimed(
                f"commit {source.commit} of {self.options.source!r} was cleaned up while it was merged",
                hint="merge a newer commit of the branch",
                commit_id=source.commit,
                oldest=None,
            )
        self.carried = len(merged_rows(lines, source, txn.held))
        base = virtual_base(self.bases, lines)
        task = Task(
            f"{self.options.source!r} cannot be merged into {self.options.branch!r}",
            _HINT,
            {place: self._view(place, txn) for place in (places_of(base) or self.bases)},
            base,
            view,
            Terms(txn.state.identity, adopts=True),
            strict=self.options.strict_rows,
            allow_data_loss=self.options.allow_data_loss,
            files=self.written,
            plans_only=self.plans_only,
        )
        target_view = View(self.engine, txn.held, self.meter)
        known = frozenset(one.state.schema.id for one in task.bases.values())
        fills = read_fills(self.engine, (self.source, txn.held), known, self.meter)
        schema = merge_schema_of(task.bases, base, view, target_view, fills)
        prepared = Merging(txn, task, schema).prepare()
        # A branch that wrote nothing is at a commit of its parent. There its history is found, also once the branch is gone.
        state = parents.made_on(self.engine, self.source, self.meter).state
        merge = {
            "identity": state.identity,
            "ref": state.ref,
            "manifest_version": state.version,
            "commit": source.commit,
            "bases": [place.commit for place in self.bases],
        }
        return replace(prepared, sources=prepared.sources or (source_of(view.state, ()),), merge=merge)

    def give_up(self) -> None:
        """Delete the columns that were written, unless a version may name them: then that is left to cleanup."""
        if self.written.paths and not self.files.sent:
            self.engine.store.delete_many(self.written.paths)

    def _view(self, place: Place, txn: Txn) -> View:
        """The state of a base. A base that cleanup has taken is not replaced by an older one."""
        for held in (txn.held, self.source):
            if place == place_of(held):
                return View(self.engine, held, self.meter)
        found = opened(self.engine, place, self.meter)
        if isinstance(found, Held) and found.state.head.commit_id == place.commit:
            return View(self.engine, found, self.meter)
        raise not_served(self.engine, place, txn.held, found, self.meter)


def merge_branches(engine: Engine, options: MergeOptions) -> MergeReceipt:
    """Do to the target what was done to the source since they parted."""
    meter = Meter()
    known = _replay(engine, options, meter)
    if known is not None:
        return known
    work = _captured(engine, options, meter)
    _make_durable(work)
    held = engine.known(options.branch) or engine.latest(options.branch, meter)
    keys = sorted(held.state.tables)[: engine.limits.tables_per_commit]
    request = commit_request("merge", options, keys, work.files, request=options.digest)
    try:
        outcome = run(engine, request, work.prepare, meter)
    except BaseException:
        work.give_up()
        raise
    if outcome.row is None or outcome.replayed:
        work.give_up()
    if outcome.replayed and outcome.row is not None:
        return _replayed(outcome.row, options, meter)
    row = outcome.row
    receipt = MergeReceipt(
        work.outcome,
        None if row is None else row.commit_id,
        options.source,
        options.branch,
        {} if row is None else merged_tables(row),
        warnings=outcome.warnings,
        storage=meter.snapshot(),
    )
    return _with_source_deleted(engine, options, work.source.state.head.commit_id, receipt)


def plan_merge(engine: Engine, options: MergeOptions) -> MergePlan:
    """What a merge would do now. Writes nothing."""
    meter = Meter()
    work = _captured(engine, options, meter)
    work.plans_only = True
    held = read_current(engine, options.branch, meter=meter)
    txn = Txn(engine, options.branch, held, Deadline(engine.clock, options.deadline_s), meter)
    prepared = work.prepare(txn)
    tables = {}
    if prepared is not None:
        tables = planned_tables(plan_of(txn, commit_request("merge", options, ()), prepared, new_ulid(engine.clock)))
    return MergePlan(
        work.outcome,
        options.source,
        work.source.state.head.commit_id,
        options.branch,
        txn.state.head.commit_id,
        tuple(place.commit for place in work.bases),
        work.carried,
        tables,
    )


def merged_tables(row: CommitRow) -> dict[str, MergedTable]:
    return {
        key: MergedTable(one.version, one.via, one.inserted, one.updated, one.deleted, one.unchanged)
        for key, one in sorted(row.tables.items())
    }


def _captured(engine: Engine, options: MergeOptions, meter: Meter) -> _Merge:
    """The source as it is now."""
    engine.ref_of(options.branch, meter)
    deadline = Deadline(engine.clock, options.deadline_s)
    source = find_source(engine, options.source, options.at, None, deadline, meter)
    if options.at is not None:
        _check_reaches(engine, options, source, meter)
    return _Merge(engine, options, source, meter)


def _make_durable(work: _Merge) -> None:
    """Sync the source: a power cut must not take it back under the merge. A plan rests nothing on it."""
    engine, options, source = work.engine, work.options, work.source
    newest = source if options.at is None else engine.known(options.source) or source
    engine.durable.root(source.version, newest if newest.state.ref == source.state.ref else source)


def _check_reaches(engine: Engine, options: MergeOptions, source: Held, meter: Meter) -> None:
    """Raise ``InvalidInput`` unless the commit is in the history of the branch that is merged: the branch may be deleted afterwards,
    and all that it has would be taken for merged."""
    held = engine.known(options.source) or engine.latest(options.source, meter)
    if find_row(engine, held, source.state.head.commit_id, meter) is None:
        raise InvalidInput(
            f"commit {source.state.head.commit_id} is not in the history of {options.source!r}",
            hint=f"merge {source.state.head.name!r} itself, or name a commit of {options.source!r}",
            commit_id=source.state.head.commit_id,
        )


def _replay(engine: Engine, options: MergeOptions, meter: Meter) -> MergeReceipt | None:
    """A known key is answered before the name of the source is resolved: that branch may be deleted by now."""
    if options.idempotency_key is None:
        return None
    found = parents.find_key(engine, read_current(engine, options.branch, meter=meter), options.idempotency_key, meter)
    if found is None:
        return None
    row, _ = found
    if not same_request(row, options.digest, None):
        raise mismatch(row, options.idempotency_key)
    return _replayed(row, options, meter)


def _replayed(row: CommitRow, options: MergeOptions, meter: Meter) -> MergeReceipt:
    merge: Mapping[str, Any] = row.merge or {}
    outcome: Outcome = "fast_forward" if row.parents[:1] == tuple(merge.get("bases", ())) else "merged"
    return MergeReceipt(
        outcome,
        row.commit_id,
        options.source,
        options.branch,
        merged_tables(row),
        replayed=True,
        warnings=replay_warnings(row),
        storage=meter.snapshot(),
    )


def _with_source_deleted(engine: Engine, options: MergeOptions, captured: str, receipt: MergeReceipt) -> MergeReceipt:
    """The merge stands, whatever becomes of the deletion. What was written to the source since is not lost with it."""
    if not options.delete_source:
        return receipt
    try:
        delete = CommitOptions(branch=options.source, actor=options.actor, expect_head=captured)
        delete_branch(engine, delete, Meter())
    except OmnigraphError as error:
        warning = f"the branch {options.source!r} was merged and not deleted: {error.message}"
        return replace(receipt, warnings=(*receipt.warnings, warning))
    return receipt
