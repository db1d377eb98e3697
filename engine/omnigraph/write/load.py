"""Bring records into a graph: read, check, lower, commit. One call, one commit, one receipt.

Owns the order of these. Reading is ``input``'s, judging ``validate``'s, staging ``lower``'s, and
everything durable ``commit``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import pyarrow as pa

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.planning import plan_of
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import StagedFiles, Step
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import progress
from omnigraph.core.errors import InvalidInput
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.schema import Catalog
from omnigraph.schema.catalog import EdgeType, has_blobs
from omnigraph.wire.receipt import LoadPlan, Receipt, TableChange
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.violations import SHOWN_MAX, most_frequent
from omnigraph.write.group.front import shares, submit
from omnigraph.write.load_options import CheckReport, LoadOptions, load_request, replay
from omnigraph.write.receipt import planned_tables, receipt_of, with_warnings
from omnigraph.write.rules.completion import complete
from omnigraph.write.rules.endpoint_policy import policy_of
from omnigraph.write.rules.id_reuse import adopt_ids
from omnigraph.write.rules.left_out import LeftOut, exceeded, reasons_of, rejected_rows
from omnigraph.write.rules.quarantine import Sifted, sift
from omnigraph.write.rules.quarantine_file import LoadQuarantine, held_rows
from omnigraph.write.rules.validate import Verdict, validate
from omnigraph.write.sources.again import is_read_once, same_types, schema_changed
from omnigraph.write.sources.batch import Batch
from omnigraph.write.sources.content import content_of
from omnigraph.write.sources.files import store_opener
from omnigraph.write.sources.input import Input, read_source
from omnigraph.write.sources.opening import is_record_source
from omnigraph.write.staging_plan import STAGE_FIRST_BYTES, lower, staged_beside
from omnigraph.write.streamed_load import load_stream


@dataclass
class Load:
    """One load under way: what was read, under which schema, and what survives a change of plan."""

    engine: Engine
    source: Any
    options: LoadOptions
    catalog: Catalog
    input: Input
    sifted: Sifted | None = None
    unchanged: dict[str, TableChange] = field(default_factory=dict)
    files: StagedFiles = field(default_factory=StagedFiles)
    stages_ahead: bool = False  # whether anything may be written before the verdict
    quarantine: LoadQuarantine = field(default_factory=lambda: LoadQuarantine(None))

    def prepare(self, txn: Txn) -> Prepared | None:
        """Judge the input against the pins of one transaction and say what it comes to."""
        self._follow_schema(txn)
        txn.open_ahead(self.input.tables, self._endpoints())
        changes, verdict, steps = self._judge(txn)
        by_key = {change.table_key: change for change in changes}
        acted = {step.key for step in steps}
        self.unchanged = {
            key: TableChange(txn.pin(key).version, unchanged=change.rows.num_rows)
            for key, change in by_key.items()
            if key not in acted and change.rows.num_rows
        }
        if not steps:
            return None
        size = sum(change.rows.nbytes for change in changes)
        # Rows that are there already are not written, yet edges lean on them: their tables were read.
        idle = frozenset(by_key) - acted
        return Prepared(
            steps,
            verdict.reads | idle,
            revalidate=lambda other: _unmoved(idle, txn, other) and self._still_fits(other, changes),
            stage_first=size > STAGE_FIRST_BYTES,
            sealed=self._hold_rejected,
        )

    def _hold_rejected(self, plan: PublishPlan) -> bool:
        if self.sifted is not None:
            self.quarantine.hold(plan.requests[0].id, self.left.rejected)
        return True

    def changes(self, txn: Txn) -> tuple[TypeChange, ...]:
        """The rows under the schema of this state, for a group that judges them with those of others."""
        self._follow_schema(txn)
        if self.input.malformed:
            raise data_invalid(self.input.malformed.shown, self.input.malformed.total)
        txn.open_ahead(self.input.tables, self._endpoints())
        return tuple(with_committed_ids(self.input, self.options, txn, asks=True))

    def offered(self, txn: Txn) -> tuple[TypeChange, ...] | None:
        """The rows as they were read. An input that lies in files, or is not held in memory, is its own process's business."""
        self._follow_schema(txn)
        if self.input.malformed or has_readers(self.source) or is_path(self.source):
            return None
        return tuple(self.input.changes(self.options.input_mode))

    def left_alone(self, unchanged: Mapping[str, TableChange]) -> None:
        self.unchanged = dict(unchanged)

    @property
    def nbytes(self) -> int:
        return sum(table.rows.nbytes for table in self.input.tables.values())

    def may_share(self) -> bool:
        """Whether its rows may be judged together with those of other requests."""
        options = self.options
        plain = options.mode != "overwrite" and not options.lets_rows_go and not self.input.malformed
        return plain and not any(has_blobs(table.type) for table in self.input.tables.values())

    def _follow_schema(self, txn: Txn) -> None:
        """Where the schema has changed since the input was read: go on if that is nothing to its types, else read it again
        under the new schema, as it would be read now."""
        before, now = self.catalog, txn.catalog
        if before is now:
            return
        if not self.input.malformed and same_types(self.input.tables, before, now):
            self.catalog = now
            return
        if is_read_once(self.source):
            raise schema_changed(before, now)
        self.files.forget()
        self.input, self.catalog = _read_under(self.engine, self.source, self.options, now), now

    @property
    def _batch(self) -> str | None:
        """Rows that are appended as they were read are the same whatever they are checked against."""
        return "input" if self.options.mode == "append" and not self.options.lets_rows_go else None

    def _endpoints(self) -> set[str]:
        """Node tables that edges of the input point at, and that it does not write itself."""
        edges = [table.type for table in self.input.tables.values() if isinstance(table.type, EdgeType)]
        named = {f"node:{name}" for edge in edges for name in (edge.src_type, edge.dst_type)}
        return named - self.input.tables.keys()

    def _judge(self, txn: Txn) -> tuple[list[TypeChange], Verdict, tuple[Step, ...]]:
        """The rows that stand, the verdict on them, and the steps that they come to. Of a large append that has to stand as it is
        the files are written meanwhile."""
        complete = self.options.sets_aside or not self.input.malformed
        with progress.phase("checking", total=self.input.rows):
            changes = with_committed_ids(self.input, self.options, txn, asks=complete)
            if self.options.lets_rows_go and complete:
                changes, verdict = self._sift(txn, changes)
                progress.advance(self.input.rows)
                return changes, verdict, self._lowered(txn, changes)
            ahead = self._lowered(txn, changes) if self.stages_ahead and complete and self._batch else ()
            with staged_beside(txn, ahead, self.files):
                malformed = self.input.malformed
                verdict = validate(changes, self.catalog, txn, limits=self.engine.limits, malformed=malformed)
                verdict.raise_if_bad()
                progress.advance(self.input.rows)
        return changes, verdict, ahead or self._lowered(txn, changes)

    def _lowered(self, txn: Txn, changes: list[TypeChange]) -> tuple[Step, ...]:
        return lower(txn, {change.table_key: change for change in changes}, self._batch)

    def _sift(self, txn: Txn, changes: list[TypeChange]) -> tuple[list[TypeChange], Verdict]:
        sifted = self.sift(changes, txn)
        sifted.verdict.raise_if_bad()
        error = exceeded(sifted.left, self.input.records, self.options)
        if error is not None:
            raise error
        self.sifted = sifted
        return list(sifted.changes), sifted.verdict

    def sift(self, changes: list[TypeChange], txn: Txn) -> Sifted:
        policy = policy_of(self.options, self.catalog, self.input.tables)
        return sift(changes, self.catalog, txn, rejected=self.input.rejected, limits=self.engine.limits, policy=policy)

    @property
    def left(self) -> LeftOut:
        return LeftOut() if self.sifted is None else self.sifted.left

    def keys(self) -> set[str]:
        """Tables that may be written: those of the input, and those of stubs."""
        policy = policy_of(self.options, self.catalog, self.input.tables)
        return {*self.input.tables, *policy.stub_tables(self.catalog, self.input.tables)}

    def _still_fits(self, txn: Txn, changes: list[TypeChange]) -> bool:
        """Only tables that were read have moved: do the checks pass on them as they are now?"""
        return not self.left.stubs and validate(changes, self.catalog, txn, limits=self.engine.limits).ok


def _unmoved(keys: frozenset[str], txn: Txn, other: Txn) -> bool:
    """Whether tables are where they were. Of rows that were found unchanged nothing else says that they still are."""
    return all(txn.pin(key).triple == other.pin(key).triple for key in keys)


def with_committed_ids(given: Input, options: LoadOptions, txn: Txn, *, asks: bool) -> list[TypeChange]:
    """Return the change set; edges that are committed already keep the ids that they have, and rows that a patch names in part
    have the rest of what is committed. Unless ``asks``, the graph is
    asked nothing: records are malformed, so rows are missing that others may depend on."""
    changes = given.changes(options.input_mode)
    return [complete(adopt_ids(change, txn), txn) for change in changes] if asks else changes


def load(engine: Engine, source: Any, options: LoadOptions) -> Receipt:
    """Read the source, then commit it whole or not at all."""
    meter = Meter()
    engine.ref_of(options.branch, meter)
    quarantine = LoadQuarantine(options.quarantine_to)
    known = replay(engine, options, meter, lambda: content_of(source))
    if known is not None:
        assert known.commit_id is not None, "a key is that of a commit"
        return replace(known, warnings=(*known.warnings, *quarantine.keep(known.commit_id)))
    quarantine.check()
    if options.mode == "append" and not options.lets_rows_go and has_readers(source):
        return load_stream(engine, source, options, meter)
    work = _read(engine, source, options, meter)
    work.stages_ahead = True
    work.quarantine = quarantine
    if not work.input.tables and not work.input.malformed:
        return Receipt(None, options.branch, {}, storage=meter.snapshot())
    content = None if options.idempotency_key is None else content_of(source)
    request = load_request(options, work.keys(), work.files, content=content)
    with held_rows(quarantine):
        if work.may_share() and shares(engine, options.group, work.nbytes):
            outcome = submit(engine, request, work, work.nbytes, meter)
        else:
            outcome = run(engine, request, work.prepare, meter)
    left = LeftOut() if outcome.replayed else work.left
    if outcome.row is None and work.sifted is not None:
        quarantine.write(left.rejected)
    told = () if outcome.row is None else quarantine.keep(outcome.row.commit_id)
    done = receipt_of(outcome, options.branch, left, work.unchanged, meter)
    return replace(done, warnings=(*with_warnings(done, work.input.warnings).warnings, *told))


def has_readers(source: Any) -> bool:
    """Whether some of the input is not in memory: then an append need not bring it there."""
    if is_record_source(source):
        return False
    given = [*source.nodes.values(), *source.edges.values()] if isinstance(source, Batch) else list(source.values())
    return any(not isinstance(one, pa.Table | pa.RecordBatch | list | tuple) for one in given)


def is_path(source: Any) -> bool:
    """Whether the records lie in a file."""
    return isinstance(source, PathLike) or (isinstance(source, str) and not source.lstrip().startswith("{"))


def check(engine: Engine, source: Any, options: LoadOptions) -> CheckReport:
    """What a load of this source would be told. Writes nothing."""
    meter = Meter()
    work = _read(engine, source, options, meter)
    held = read_current(engine, options.branch, meter=meter)
    txn = Txn(engine, options.branch, held, Deadline(engine.clock, options.deadline_s), meter)
    left = LeftOut()
    complete = options.sets_aside or not work.input.malformed
    changes = with_committed_ids(work.input, options, txn, asks=complete)
    with progress.phase("checking", total=work.input.rows):
        if options.lets_rows_go and complete:
            sifted = work.sift(changes, txn)
            verdict, left = sifted.verdict, sifted.left
        else:
            verdict = validate(changes, work.catalog, txn, limits=engine.limits, malformed=work.input.malformed)
        progress.advance(work.input.rows)
    rows = {key: table.rows.num_rows for key, table in work.input.tables.items()}
    return check_report(verdict, left, work.input.records, rows, options)


def check_report(
    verdict: Verdict, left: LeftOut, records: int, rows: Mapping[str, int], options: LoadOptions
) -> CheckReport:
    """What a check says: what is wrong, rows that would be left out included, and whether a load would stand."""
    reasons = [reason for one in left.rejected for reason in one.reasons]
    return CheckReport(
        verdict.ok and exceeded(left, records, options) is None,
        records,
        rows,
        tuple(violation.to_dict() for violation in [*verdict.violations, *reasons][:SHOWN_MAX]),
        verdict.total + len(reasons),
        tuple(sorted(verdict.reads)),
        rejected=rejected_rows(left),
        by_reason=reasons_of(verdict, left),
        missing_ids=most_frequent({**left.missing_ids, **verdict.missing_ids}),
        stubs=left.made,
        dropped=left.dropped,
    )


def plan_load(engine: Engine, source: Any, options: LoadOptions) -> LoadPlan:
    """What ``load`` would do now. Writes nothing; what can be read only once is read."""
    meter = Meter()
    return _explained(_read(engine, source, options, meter), meter)


def _read(engine: Engine, source: Any, options: LoadOptions, meter: Meter) -> Load:
    """Read the source under the schema that this process knows; under the newest one where it does not fit that."""
    held = engine.known(options.branch) or engine.latest(options.branch, meter)
    catalog = engine.catalog(held.state.schema)
    try:
        given = _read_under(engine, source, options, catalog)
    except InvalidInput:
        newest = engine.catalog(read_current(engine, options.branch, meter=Meter()).state.schema)
        if newest is catalog or is_read_once(source):
            raise
        catalog = newest
        given = _read_under(engine, source, options, catalog)
    return Load(engine, source, options, catalog, given)


def _read_under(engine: Engine, source: Any, options: LoadOptions, catalog: Catalog) -> Input:
    with progress.phase("reading"):
        return read_source(
            source,
            catalog,
            engine.limits,
            mode=options.input_mode,
            clock=engine.clock,
            keep_rejected=options.on_bad_row == "quarantine",
            opener=store_opener(engine.store.lance_options),
        )


def _explained(work: Load, meter: Meter) -> LoadPlan:
    """Judge the input against the branch as it is now, and tell what would be written. Writes nothing."""
    engine, options = work.engine, work.options
    held = read_current(engine, options.branch, meter=meter)
    txn = Txn(engine, options.branch, held, Deadline(engine.clock, options.deadline_s), meter)
    prepared = work.prepare(txn)
    planned = None
    if prepared is not None:
        planned = plan_of(txn, load_request(options, work.keys()), prepared, new_ulid(engine.clock))
    state = txn.state
    return LoadPlan(
        branch=options.branch,
        mode=options.input_mode,
        base_commit=state.head.commit_id,
        base_version=state.version,
        schema_id=state.schema.id,
        tables={} if planned is None else planned_tables(planned),
        reads={} if planned is None else {read.key: read.pin for read in planned.plan.reads},
        unchanged={key: change.unchanged or 0 for key, change in work.unchanged.items()},
        rejected=rejected_rows(work.left),
        stubs=work.left.made,
        dropped=work.left.dropped,
        stages_first=prepared is not None and prepared.stage_first,
    )
