"""Where a staged batch is checked, and which rows leave it: here with its keys held, here in passes, or by an exchange.

Owns that choice. Whatever is chosen, the rules and what they say are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from omnigraph.commit.txn import Txn
from omnigraph.distributed.batch_rows import ROW, PartInput
from omnigraph.distributed.driver import PartitionedCheck, RowRef
from omnigraph.distributed.key_checks import CheckResult, adopt_in_passes, check_keys, held_changes
from omnigraph.distributed.merge import Replacing, located, located_changes
from omnigraph.distributed.pass_rules import Budget
from omnigraph.distributed.patch_rows import lacking, required
from omnigraph.distributed.shuffle import Exchange, Passes
from omnigraph.distributed.stage_task import PartTask, at_pins
from omnigraph.schema.arrow import table_schema
from omnigraph.write.base.blocks import blocks_of
from omnigraph.write.base.changes import Mode, RecordingView, TypeChange
from omnigraph.write.base.rejects import Finding, Rejected, collect_rejected
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.rules.endpoint_policy import EndpointPolicy
from omnigraph.write.rules.left_out import LeftOut
from omnigraph.write.rules.quarantine import sift
from omnigraph.write.rules.validate import Verdict
from omnigraph.write.rules.value_rules import ValueRules
from omnigraph.write.sources.again import same_types

Alone = Callable[[PartInput, Txn, TypeChange], Iterator[Finding]]


@dataclass(frozen=True)
class Remaining:
    """What leaves (``RowRef`` in the place of records), the verdict on the other rows, and for a merge what these replace."""

    left: LeftOut
    verdict: Verdict
    replacing: Callable[[str], Replacing]
    dropped: tuple[RowRef, ...] = ()

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        return self.left.rejected

    @property
    def gone(self) -> tuple[RowRef, ...]:
        """Every row that leaves."""
        return (*(one.record for one in self.left.rejected), *self.dropped)


def evolved(given: PartInput, txn: Txn) -> bool:
    """Whether the types of a batch, or the nodes that its edges join, are declared otherwise than where it was staged."""
    return not same_types(given.keys, given.catalog, txn.catalog)


@dataclass(frozen=True)
class Checker:
    """``exchange`` is used where comparing the keys of a table here would take more than ``budget``, or ``always``.
    ``values``: no task has held the rows against the rules of values, so that it is done here, block by block."""

    budget: Budget = field(default_factory=lambda: Budget.of(None))
    exchange: Exchange | None = None
    always: bool = False
    values: bool = False

    def validate(self, given: PartInput, txn: Txn, task: PartTask, mode: Mode) -> CheckResult:
        if evolved(given, txn):
            return self._read_again(given, txn, mode)
        exchange = self._chosen(given)
        if exchange is None:
            return check_keys(given, txn, mode, self.budget, values=self.values)
        partitioned = self._partitioned(given, txn, task, mode, exchange)
        answer = partitioned.validate()
        return CheckResult(answer.verdict, adopted=dict(partitioned.adopted), addresses=answer.addresses)

    def sift(self, given: PartInput, txn: Txn, task: PartTask, mode: Mode, policy: EndpointPolicy) -> Remaining:
        """Take out rows that may leave until the rest stands, and find the stubs that it needs. Where the schema has changed since,
        all of them stand or none."""
        if evolved(given, txn):
            result = self._read_again(given, txn, mode)
            return Remaining(LeftOut(), result.verdict, partial(located, txn, given, result))
        if self.values:
            return _sort_held(given, txn, mode, policy, _bad_values)
        exchange = self._chosen(given)
        if exchange is None or given.malformed:
            result = self.validate(given, txn, task, mode)
            if result.verdict.ok or given.malformed:
                return Remaining(LeftOut(), result.verdict, partial(located, txn, given, result))
            if all(self.budget.is_plain(given.rows(key)) for key in given.tables):
                return _sort_held(given, txn, mode, policy, _lacking)
        partitioned = self._partitioned(given, txn, task, mode, exchange or Passes())
        answer = partitioned.sift(policy)
        result = CheckResult(answer.verdict, adopted=dict(partitioned.adopted), addresses=answer.addresses)
        return Remaining(answer.left, answer.verdict, partial(located, txn, given, result), answer.dropped)

    def _read_again(self, given: PartInput, txn: Txn, mode: Mode) -> CheckResult:
        """The tasks have held values against the rules of then: every row is read, and held against those of now."""
        return check_keys(given.under(txn.catalog), txn, mode, self.budget, values=True)

    def _chosen(self, given: PartInput) -> Exchange | None:
        beyond = any(given.rows(key) > self.budget.rows for key in given.tables)
        return self.exchange if self.always or beyond else None

    def _partitioned(
        self, given: PartInput, txn: Txn, task: PartTask, mode: Mode, exchange: Exchange
    ) -> PartitionedCheck:
        view = RecordingView(txn)
        adopted = {} if given.malformed else adopt_in_passes(given, txn, mode, self.budget, view)
        task = at_pins(task, txn, txn.state.tables)
        memory_mb = self.budget.memory_mb
        return PartitionedCheck(given, txn, task, mode, exchange, memory_mb, adopted, frozenset(view.reads))


def _sort_held(given: PartInput, txn: Txn, mode: Mode, policy: EndpointPolicy, alone: Alone) -> Remaining:
    """``alone``: which rows are bad, whatever others there are. They leave first."""
    dropped: list[RowRef] = []
    changes, earlier, rejected = held_changes(given, txn, mode), ViolationLog(), []
    for at, change in enumerate(changes):
        found = list(alone(given, txn, change))
        if found and policy.sets_aside:
            bad = np.unique(np.concatenate([one.rows for one in found]))
            rejected += collect_rejected(found, bad, partial(_row_ref, change))
            changes[at] = change.take(np.setdiff1d(np.arange(change.rows.num_rows), bad))
        for one in found if not policy.sets_aside else ():
            earlier.add_rows(one.rows.tolist(), len(one.rows), one.describe)
    sifted = sift(
        changes,
        given.catalog,
        txn,
        limits=txn.engine.limits,
        record=_row_ref,
        values=False,
        policy=policy,
        rejected=rejected,
        earlier=(given.malformed, given.bad_values, earlier),
        dropped=lambda change, rows: dropped.extend(_row_ref(change, row) for row in rows.tolist()),
    )
    kept = {change.table_key: change for change in sifted.changes}
    return Remaining(sifted.left, sifted.verdict, partial(located_changes, txn, given, kept), tuple(dropped))


def _lacking(given: PartInput, txn: Txn, change: TypeChange) -> Iterator[Finding]:
    """New rows of a patch without what the schema requires."""
    unnamed = required(change.type, given.unnamed(change.table_key))
    return lacking(blocks_of(change), unnamed, txn) if unnamed else iter(())


def _bad_values(given: PartInput, txn: Txn, change: TypeChange) -> Iterator[Finding]:
    """Rows that break a rule by themselves. All columns are read, block by block; what is said of a row is said at once, as its
    block is not kept."""
    rules = ValueRules(change.type, txn.engine.limits)
    for block in given.blocks(txn, change.table_key, table_schema(change.type).names):
        for finding in rules.feed(block):
            said = {int(row): finding.describe(int(row)) for row in finding.rows}
            yield Finding(finding.rows, said.__getitem__, property=finding.property)


def _row_ref(change: TypeChange, row: int) -> RowRef:
    return RowRef(change.table_key, int(change.rows.column(ROW)[row].as_py()))
