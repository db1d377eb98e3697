"""Change the accepted schema: plan it, hold the rows against it, commit it. One call, one commit, one receipt.

Owns the order of these and the options of a change. Which steps lead from one schema to another is decided in
``schema.diff``; what they do to tables, and what rows have to keep, in ``schema_change``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.commit import parents
from omnigraph.commit.conflicts import mismatch
from omnigraph.commit.decide import same_request
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol.own_lines import inherited
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.steps import StagedFiles
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import documents, progress
from omnigraph.core.errors import DataInvalid, SchemaChanged
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import State
from omnigraph.options import CommitOptions
from omnigraph.schema import Catalog, SchemaPlan, apply_plan, parse_schema, plan_change
from omnigraph.schema.catalog import TableType
from omnigraph.schema.diff import check_fill_names
from omnigraph.table.column_files import ColumnFile
from omnigraph.wire.receipt import Receipt
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.receipt import receipt_of, replay_warnings, table_changes
from omnigraph.write.rules.left_out import LeftOut
from omnigraph.write.schema_change.checked_rows import RowChecks
from omnigraph.write.schema_change.columns import ColumnChange
from omnigraph.write.schema_change.lowering import Lowered, column_steps, lower
from omnigraph.write.schema_change.rows import WrittenFiles, check_rows, write_columns
from omnigraph.write.schema_change.rules import rules_to_check


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(CommitOptions):
    """What ``graph.schema.apply`` was asked for, apart from the new text. ``expect_schema``: the id of the accepted schema that the
    change was planned from; None: whichever is accepted."""

    allow_data_loss: bool = False
    fill: Mapping[str, object] | None = None
    expect_schema: str | None = None


@dataclass(frozen=True, repr=False)
class SchemaReceipt(Receipt):
    """A receipt with the plan that was carried out; None where the key was known already."""

    plan: SchemaPlan | None = None


def plan_schema(engine: Engine, text: str, options: SchemaOptions) -> SchemaPlan:
    """What applying this text would do to the branch as it is now. Reads no row, writes nothing."""
    new = parse_schema(text)
    held = read_current(engine, options.branch, meter=Meter())
    return _planned(engine.catalog(held.state.schema), new, options)


def _planned(old: Catalog, new: Catalog, options: SchemaOptions) -> SchemaPlan:
    """The plan from an accepted schema to a text. Where the text is accepted already, its fills were used then."""
    same = plan_change(old, new, allow_data_loss=options.allow_data_loss)
    if not options.fill:
        return same
    if same.is_empty:
        check_fill_names(options.fill, new)
        return same
    return plan_change(old, new, fill=options.fill, allow_data_loss=options.allow_data_loss)


def apply_schema(engine: Engine, text: str, options: SchemaOptions) -> SchemaReceipt:
    """Make this text the accepted schema, whole or not at all."""
    meter = Meter()
    engine.ref_of(options.branch, meter)
    digest = _digest(text, options)
    known = _replay(engine, options, digest, meter)
    if known is not None:
        return known
    held = engine.known(options.branch) or engine.latest(options.branch, meter)
    work = _Apply(engine, parse_schema(text), options)
    engine.limits.check("types", len(list(work.new.types())))
    request = Request(
        kind="schema",
        branch=options.branch,
        keys=work.may_write(held.state),
        actor=options.actor,
        idempotency_key=options.idempotency_key,
        expect_head=options.expect_head,
        deadline_s=options.deadline_s,
        request=digest,
        files=work.files,
    )
    try:
        outcome = run(engine, request, work.prepare, meter)
    except BaseException:
        work.give_up()
        raise
    if outcome.row is None or outcome.replayed:
        work.give_up()
    receipt = receipt_of(outcome, options.branch, LeftOut(), {}, meter)
    plan = None if receipt.replayed else work.plan
    return SchemaReceipt(**vars(receipt), plan=plan)


def _replay(engine: Engine, options: SchemaOptions, digest: str | None, meter: Meter) -> SchemaReceipt | None:
    """A known key is answered with its receipt, whatever the schema has become since."""
    if options.idempotency_key is None:
        return None
    held = engine.known(options.branch) or engine.latest(options.branch, meter)
    found = parents.find_key(engine, held, options.idempotency_key, meter)
    if found is None:
        return None
    row = found[0]
    if not same_request(row, digest, None):
        raise mismatch(row, options.idempotency_key)
    changes = table_changes(row)
    return SchemaReceipt(
        row.commit_id,
        options.branch,
        changes,
        replayed=True,
        warnings=replay_warnings(row),
        storage=meter.snapshot(),
        kind=row.kind,
    )


def _digest(text: str, options: SchemaOptions) -> str | None:
    """Names what was asked for, so that a repeated key can be compared. None where a fill is no JSON value: a day."""
    fill = dict(options.fill or {})
    what = {"kind": "schema", "text": text, "fill": fill, "allow_data_loss": options.allow_data_loss}
    try:
        return hashlib.sha256(documents.canonical(what)).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return None


@dataclass
class _Apply:
    """One change under way, and what survives a change of plan."""

    engine: Engine
    new: Catalog
    options: SchemaOptions
    plan: SchemaPlan | None = None
    files: StagedFiles = field(default_factory=StagedFiles)
    written: WrittenFiles = field(default_factory=WrittenFiles)

    def may_write(self, state: State) -> frozenset[str]:
        """Tables that the change moves or reads, to be locked and queued for; that only spares work."""
        plan = _planned(self.engine.catalog(state.schema), self.new, self.options)
        touched = {step.type_id for step in plan.steps}
        keys = sorted(old.table_key for old in plan.old.types() if touched.intersection(old.ids))
        return frozenset(keys[: self.engine.limits.tables_per_commit])

    def prepare(self, txn: Txn) -> Prepared | None:
        """Plan the change from the schema that the branch has now, and hold the rows against it."""
        plan = self.plan = _planned(txn.catalog, self.new, self.options)
        if plan.is_empty:
            return None
        self._check_planned(txn)
        apply_plan(plan)
        lowered = lower(txn.state, plan, lambda: new_ulid(self.engine.clock))
        forks = inherited(txn.state, [one.key for one in lowered.changes if one.valued])
        if forks:
            return Prepared((), own_first=forks)
        rules = {one.key: declared for one in lowered.changes if (declared := rules_to_check(plan, one)) is not None}
        files = self._pass_over_rows(txn, lowered, rules)
        steps = [*lowered.steps]
        for one in lowered.changes:
            steps += column_steps(one, files.get(one.key, ()))
        self.engine.limits.check("tables_per_commit", len({step.key for step in steps}))
        renamed = {one.from_key for one in lowered.delta.rename}
        return Prepared(
            tuple(steps),
            reads=frozenset(rules) | renamed,
            delta=lowered.delta,
            # A renamed table is published at the pin that was planned: where that has moved, the plan is made again.
            revalidate=None if renamed else lambda other: self._still_hold(other, lowered, rules),
            stage_first=bool(files),
        )

    def _check_planned(self, txn: Txn) -> None:
        """What was seen in a plan is what is done: from another schema the same text may drop what it did not drop before."""
        expected = self.options.expect_schema
        if expected is not None and txn.state.schema.id != expected:
            raise SchemaChanged(
                "the schema has changed since this change was planned",
                hint="plan it again, and look at the plan",
                expected=expected,
                actual=txn.state.schema.id,
            )

    def _pass_over_rows(
        self, txn: Txn, lowered: Lowered, rules: Mapping[str, TableType]
    ) -> dict[str, tuple[ColumnFile, ...]]:
        """Write the columns that get values and check the rows of tables with new rules. By table key: the files."""
        log = ViolationLog()
        concerned = [one for one in lowered.changes if one.valued or one.key in rules]
        files: dict[str, tuple[ColumnFile, ...]] = {}
        with progress.phase("checking", total=sum(txn.pin(one.key).rows for one in concerned)):
            for one in concerned:
                checks = self._checks(one, rules, log)
                if one.valued:
                    files[one.key] = write_columns(txn, one, checks, self.written)
                elif checks is not None:
                    check_rows(txn, one, checks)
        if log:
            raise _broken(log)
        return files

    def _checks(self, one: ColumnChange, rules: Mapping[str, TableType], log: ViolationLog) -> RowChecks | None:
        declared = rules.get(one.key)
        return None if declared is None else RowChecks(declared, self.engine.limits, log)

    def _still_hold(self, txn: Txn, lowered: Lowered, rules: Mapping[str, TableType]) -> bool:
        """Only tables that were read have moved: do their rows keep the rules as they are now?"""
        log = ViolationLog()
        for one in lowered.changes:
            checks = self._checks(one, rules, log)
            if checks is not None and not one.valued:
                check_rows(txn, one, checks)
        return not log

    def give_up(self) -> None:
        """Delete the columns that were written, unless a version may name them: then that is left to cleanup."""
        if self.written.paths and not self.files.sent:
            self.engine.store.delete_many(self.written.paths)


def _broken(log: ViolationLog) -> DataInvalid:
    error = data_invalid(log.shown, log.total)
    return DataInvalid(
        error.message, hint="correct or delete these rows first, or leave the rule out of the schema", **error.facts
    )
