"""Commit a batch that many tasks have staged: checked as a whole, lowered, published like any load.

Owns the order: verify that files are there, check on fresh pins, set rows aside if that is wanted, write again what has to
be written again, publish. Rows were checked by themselves where they were staged; here only key columns are read. Where
the graph moves meanwhile everything from the result on is repeated: the sources are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import AppendFiles, OverwriteFiles, StagedFiles, Step
from omnigraph.commit.txn import Txn
from omnigraph.core import progress
from omnigraph.core.errors import ReadSetChanged, SchemaChanged
from omnigraph.core.meter import Meter
from omnigraph.distributed.batch_rows import PartInput
from omnigraph.distributed.driver import RowRef
from omnigraph.distributed.fragments import StagedFragments, schema_id_of
from omnigraph.distributed.key_checks import CheckResult, matched_ids
from omnigraph.distributed.merge import PartMerge, located
from omnigraph.distributed.parts_report import PartsReport, is_trusted
from omnigraph.distributed.patch_rows import between
from omnigraph.distributed.placement import Checker, Remaining, evolved
from omnigraph.distributed.rewrite import Pack, Rewrite, RewrittenRows, pack, packs, rewrite
from omnigraph.distributed.stage_task import ROWS_PER_FILE, PartTask, at_pins, describe
from omnigraph.distributed.staged_load import check_base
from omnigraph.distributed.staged_part import Threads, Workers
from omnigraph.distributed.staging_record import Record, check_files
from omnigraph.table import parts as parts_
from omnigraph.table import staged as fragments_
from omnigraph.wire.receipt import Receipt, TableChange
from omnigraph.write.base.changes import RowIndex
from omnigraph.write.load_options import LoadOptions, load_request
from omnigraph.write.receipt import receipt_of
from omnigraph.write.rules.endpoint_policy import EndpointPolicy, policy_of
from omnigraph.write.rules.left_out import LeftOut, exceeded
from omnigraph.write.rules.quarantine_file import LoadQuarantine, held_rows
from omnigraph.write.rules.validate import Verdict

T = TypeVar("T")
R = TypeVar("R")

_PACKED_HERE_ROWS: Final = 200_000  # so few rows are packed before a job has started


@dataclass
class PartLoad:
    """One batch on its way. ``files`` tell whether a table commit of staged files may be on its way: then they are not ours to
    delete. ``written``: files that were written here, below the root, besides those that the tasks wrote."""

    engine: Engine
    options: LoadOptions
    given: PartInput
    task: PartTask
    record: Record
    workers: Workers
    note: Callable[[StagedFragments], None]  # puts files into the staging record
    checker: Checker = field(default_factory=Checker)
    files: StagedFiles = field(default_factory=StagedFiles)
    trusted: PartsReport | None = None  # on these very parts; answers as long as nothing has moved
    written: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    left: LeftOut = field(default_factory=LeftOut)
    stubs: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)  # fragments that hold them, by table key
    unchanged: dict[str, TableChange] = field(default_factory=dict)

    def run(self) -> Receipt:
        meter = Meter()
        with progress.phase("checking files", unit="tables", total=len(self.given.tables)):
            check_files(self.engine, self.record, self.given.staged, meter)
        with progress.phase("packing", unit="parts"):
            self._pack()
        keys = {*self.given.keys, *self.policy.stub_tables(self.given.catalog, self.given.keys)}
        request = load_request(self.options, keys, self.files)
        with held_rows(self.quarantine):
            outcome = run(self.engine, request, self._prepare, meter)
        left = LeftOut() if outcome.replayed else self.left
        if outcome.row is None and left.rejected:
            self.quarantine.write(left.rejected)
        told = () if outcome.row is None else self.quarantine.keep(outcome.row.commit_id)
        if outcome.row is None or outcome.replayed:
            self.used.clear()
        done = receipt_of(outcome, self.options.branch, left, self.unchanged, meter)
        return replace(done, warnings=(*done.warnings, *told))

    @cached_property
    def quarantine(self) -> LoadQuarantine:
        return LoadQuarantine(self.options.quarantine_to)

    def _hold_rejected(self, plan: PublishPlan) -> bool:
        if self.left.rejected:
            self.quarantine.hold(plan.requests[0].id, self.left.rejected)
        return True

    @property
    def policy(self) -> EndpointPolicy:
        return policy_of(self.options, self.given.catalog, self.given.keys)

    # --- files ---------------------------------------------------------------------------------------------------------

    def _pack(self) -> None:
        """However the rows came in, fragments are sized by rows. Small ones are written again, once, before anything else."""
        if self.given.malformed or self.given.bad_values:
            return
        wanted = {
            key: packs(key, [one.described for one in self.given.fragments(key)], self.task.rows_per_file)
            for key in self.given.tables
        }
        items = [one for listed in wanted.values() for one in listed if isinstance(one, Pack)]
        if not items:
            return
        progress.expect(len(items))
        rows = sum(fragments_.rows_of(one) for item in items for one in item.described)
        workers = self.workers if rows > _PACKED_HERE_ROWS else Threads()
        done = iter(workers.each(partial(pack, self.task), items))
        for key, listed in wanted.items():
            packed: list[Mapping[str, Any]] = []
            for one in listed:
                packed += next(done) if isinstance(one, Pack) else [one]
            if len(packed) < len(self.given.fragments(key)):
                fields = next(one.fields for one in self.given.staged if one.table_key == key)
                self.note(describe(self.task, key, packed, fields))
                self.given.pack(key, packed)

    # --- one plan ------------------------------------------------------------------------------------------------------

    def _prepare(self, txn: Txn) -> Prepared | None:
        with progress.phase("checking", unit="tables", total=len(self.given.keys)):
            return self._checked(txn)

    def _checked(self, txn: Txn) -> Prepared | None:
        self.quarantine.check()
        self._check_base(txn)
        self.drop_written()
        if self.options.checked_mode == "merge":
            return self._merge(txn)
        found = self._rows_that_leave(txn)
        gone = _by_table(found.gone)
        fragments = self._rewritten(txn, gone)
        steps: list[Step] = []
        for key in sorted(self.given.keys):
            step = self._step(txn, key, [*fragments[key], *self.stubs.get(key, ())])
            if step is not None:
                steps.append(step)
        return self._prepared([*steps, *self._stub_steps()], found.verdict.reads, revalidate=not gone)

    def _prepared(self, steps: list[Step], reads: frozenset[str], *, revalidate: bool) -> Prepared | None:
        if not steps:
            return None
        again = self._still_fits if revalidate and not self.stubs else None
        return Prepared(tuple(steps), reads, revalidate=again, stage_first=True, sealed=self._hold_rejected)

    def _check_base(self, txn: Txn) -> None:
        if evolved(self.given, txn) and self.options.checked_mode == "merge":
            # Rows that are compared with those in the graph would have to be read as they are now: the tasks have made them before.
            raise SchemaChanged(
                "the schema of these types has changed since the parts were staged",
                hint="stage the batch again with graph.begin()",
                expected=self.record.base.schema_id,
                actual=schema_id_of(txn.state),
            )
        for one in self.given.staged:
            check_base(txn, one.table_key, [one])
        for key in sorted(self.given.keys):
            pin, target = txn.state.tables.get(key), self.task.targets[key]
            if pin is None or pin.identity != target.identity:
                raise ReadSetChanged(
                    f"table {key} was dropped and made again since its fragments were staged",
                    table_key=key,
                    expected=target.pin,
                    actual=None if pin is None else pin.version,
                )

    def _still_fits(self, txn: Txn) -> bool:
        return self._check(txn).verdict.ok

    def _check(self, txn: Txn) -> CheckResult:
        return self.checker.validate(self.given, txn, self.task, self.options.checked_mode)

    # --- result ---------------------------------------------------------------------------------------------------------

    def _rows_that_leave(self, txn: Txn) -> Remaining:
        """Rows that have to leave, and what the others replace; raises if the batch cannot be loaded."""
        earlier = tuple(self.given.rejected)
        self.stubs.clear()
        if self.trusted is not None and is_trusted(self.trusted, txn.state, self.given.keys):
            self._leave(LeftOut(earlier))
            known = matched_ids(self.given, txn, self.options.checked_mode, self.checker.budget)
            verdict = Verdict(reads=frozenset(self.trusted.reads))
            return Remaining(LeftOut(), verdict, partial(located, txn, self.given, known))
        if not self.options.lets_rows_go:
            result = self._check(txn)
            result.verdict.raise_if_bad()
            return Remaining(LeftOut(), result.verdict, partial(located, txn, self.given, result))
        found = self.checker.sift(self.given, txn, self.task, self.options.checked_mode, self.policy)
        found.verdict.raise_if_bad()
        self._leave(replace(found.left, rejected=(*earlier, *found.left.rejected)))
        self._write_stubs(txn, found.left.stubs)
        return found

    def _leave(self, left: LeftOut) -> None:
        """Note what leaves; raises if that is more than the caller allows."""
        self.left = replace(left, rejected=tuple(sorted(left.rejected, key=lambda one: one.order)))
        error = exceeded(self.left, self.given.records, self.options)
        if error is not None:
            raise error

    # --- stubs ---------------------------------------------------------------------------------------------------------------

    def _write_stubs(self, txn: Txn, stubs: Mapping[str, pa.Table]) -> None:
        """One fragment or more a table; no version names them yet."""
        for key, rows in stubs.items():
            self.stubs[key] = list(
                parts_.write_rows(txn.handle(key), rows.schema, iter(rows.to_batches()), ROWS_PER_FILE)
            )
            self.note_written(key, self.stubs[key])

    def _stub_steps(self) -> list[Step]:
        """Of tables that the batch does not name."""
        steps: list[Step] = []
        for key in sorted(self.stubs.keys() - self.given.keys):
            self.note_used(key, self.stubs[key])
            rows = sum(fragments_.rows_of(described) for described in self.stubs[key])
            steps.append(AppendFiles(key, (Counts(inserted=rows),), tuple(self.stubs[key])))
        return steps

    # --- rows again ----------------------------------------------------------------------------------------------------------

    def _rewritten(self, txn: Txn, gone: Mapping[str, Sequence[int]]) -> dict[str, list[Mapping[str, Any]]]:
        """The fragments of each table without the rows that leave."""
        task = at_pins(self.task, txn, self.given.keys)
        found: dict[str, list[Mapping[str, Any]]] = {}
        records: dict[tuple[str, int], Any] = {}
        for key in self.given.tables:
            items = self.rewrites(key, gone.get(key, ()))
            done = iter(self._rewrite(task, [item for item in items if item.is_needed]))
            kept: list[Mapping[str, Any]] = []
            for item, first in items.with_first_rows():
                if not item.is_needed:
                    kept.append(item.described)
                    continue
                result = next(done)
                kept += result.new
                records |= {(key, first + int(r)): v for r, v in zip(item.dropped, result.records, strict=True)}
            found[key] = kept
        self.note_records(records)
        return found

    def note_records(self, records: Mapping[tuple[str, int], Any]) -> None:
        """Give the rows that left their records, now that they have been read."""
        self.left = replace(
            self.left,
            rejected=tuple(
                replace(one, record=records[one.record.key, one.record.row]) if isinstance(one.record, RowRef) else one
                for one in self.left.rejected
            ),
        )

    def rewrites(self, key: str, gone: Iterable[int]) -> Rewrites:
        """``gone``: the rows that leave."""
        rows = np.array(sorted(gone), dtype=np.int64)
        minted, unnamed = self.given.minted(key), self.given.unnamed(key)
        items = Rewrites()
        for fragment in self.given.fragments(key):
            low, high = np.searchsorted(rows, [fragment.first_row, fragment.first_row + fragment.rows])
            mine: RowIndex = rows[low:high]
            made = np.full(len(mine), minted) if isinstance(minted, bool) else minted[mine]
            item = Rewrite(key, fragment.described, mine - fragment.first_row, made)
            if self.options.mode == "patch":
                left_out = between(unnamed, fragment.first_row, fragment.first_row + fragment.rows)
                item = replace(item, unnamed=left_out)
            items.add(item, fragment.first_row)
        return items

    def _rewrite(self, task: PartTask, items: list[Rewrite]) -> list[RewrittenRows]:
        done = self.each("rewriting", partial(rewrite, task), items)
        for item, result in zip(items, done, strict=True):
            self.note_written(item.key, result.new)
        return done

    def each(self, phase: str, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Work on fragments that workers divide among themselves."""
        if not items:
            return []
        with progress.phase(phase, unit="fragments", total=len(items)):
            return self.workers.each(function, items)

    def note_written(self, key: str, fragments: Iterable[Mapping[str, Any]]) -> None:
        base = self.task.targets[key].table.relative
        self.written |= {f"{base}/{name}" for one in fragments for name in fragments_.files_of(one)}

    def drop_written(self) -> None:
        """What an earlier plan of this batch had written again is of no use to the next one."""
        if self.written and not self.files.sent:
            self.engine.store.delete_many(sorted(self.written))
        self.written.clear()
        self.used.clear()

    # --- actions -------------------------------------------------------------------------------------------------------------

    def _step(self, txn: Txn, key: str, new: list[Mapping[str, Any]]) -> Step | None:
        rows = sum(fragments_.rows_of(described) for described in new)
        pin = txn.pin(key)
        if self.options.mode == "overwrite":
            if not rows and not pin.rows:
                return None
            self.note_used(key, new)
            counts = Counts(inserted=rows, deleted=pin.rows)
            return OverwriteFiles(key, (counts,), tuple(new))
        if not rows:
            return None
        self.note_used(key, new)
        return AppendFiles(key, (Counts(inserted=rows),), tuple(new))

    def note_used(self, key: str, fragments: Iterable[Mapping[str, Any]]) -> None:
        base = self.task.targets[key].table.relative
        self.used |= {f"{base}/data/{file['path']}" for one in fragments for file in one["files"]}

    # --- merge ---------------------------------------------------------------------------------------------------------------

    def _merge(self, txn: Txn) -> Prepared | None:
        found = self._rows_that_leave(txn)
        gone = _by_table(found.gone)
        merge = PartMerge(txn, at_pins(self.task, txn, self.given.keys), self)
        steps = merge.steps(found.replacing, gone)
        self.unchanged = merge.unchanged
        self.note_records(merge.records)
        return self._prepared([*steps, *self._stub_steps()], found.verdict.reads, revalidate=not gone)


class Rewrites:
    """The fragments of one table with what becomes of them, in their order."""

    def __init__(self) -> None:
        self._items: list[tuple[Rewrite, int]] = []

    def add(self, item: Rewrite, first_row: int) -> None:
        self._items.append((item, first_row))

    def __iter__(self) -> Any:
        return (item for item, _ in self._items)

    def with_first_rows(self) -> list[tuple[Rewrite, int]]:
        return self._items


def _by_table(gone: Iterable[RowRef]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in gone:
        found.setdefault(one.key, []).append(one.row)
    return found
