"""Check a batch that was staged in parts without committing it: what ``load_parts`` would report, in advance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.gate import entering
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core.meter import Meter
from omnigraph.core.modes import INPUT_MODES
from omnigraph.distributed.batch_rows import PartInput
from omnigraph.distributed.fragments import schema_id_of
from omnigraph.distributed.parts_report import PartsReport, parts_digest
from omnigraph.distributed.pass_rules import Budget
from omnigraph.distributed.placement import Checker
from omnigraph.distributed.shuffle import Exchange
from omnigraph.distributed.staged_load import pins_of
from omnigraph.distributed.staged_part import StagedPart
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.write.base.violations import SHOWN_MAX, most_frequent
from omnigraph.write.load_options import LoadOptions
from omnigraph.write.rules.endpoint_policy import policy_of
from omnigraph.write.rules.left_out import LeftOut, exceeded, reasons_of
from omnigraph.write.rules.validate import Verdict

_CHECK_S = 3600.0  # a check reads every staged key once


def check_parts(
    txn: StagingTxn,
    parts: Sequence[StagedPart],
    types: Iterable[str],
    *,
    mode: str,
    on_bad_row: str = "fail",
    bad_rows_max: int | float | None = None,
    bounds: Mapping[str, int | float] | None = None,
    on_missing_endpoint: str | Mapping[str, str] | None = None,
    memory_mb: int | None = None,
    exchange: Exchange | None = None,
    exchange_always: bool = False,
) -> PartsReport:
    """Check staged parts against the branch as it is now, as ``load_parts`` with the same arguments would. Writes nothing.
    ``load_parts`` trusts the report as long as nothing has moved."""
    options = LoadOptions(
        mode=mode,
        branch=txn.branch,
        on_bad_row=on_bad_row,
        bad_rows_max=bad_rows_max,
        bounds=bounds,
        on_missing_endpoint=on_missing_endpoint,
    )
    options.check_mode(INPUT_MODES)
    with entering(txn._engine, "check"):
        return _checked(txn, list(parts), types, options, Checker(Budget.of(memory_mb), exchange, exchange_always))


def _checked(
    txn: StagingTxn, parts: list[StagedPart], types: Iterable[str], options: LoadOptions, checker: Checker
) -> PartsReport:
    engine, meter = txn._engine, Meter()
    task = txn.task(options.mode)
    keys = [txn._record.key_of(name) for name in types]
    given = PartInput(parts, keys, task.catalog, set_aside=options.sets_aside)
    held = read_current(engine, txn.branch, meter=meter)
    view = Txn(engine, txn.branch, held, Deadline(engine.clock, _CHECK_S), meter)
    left = LeftOut()
    if options.lets_rows_go:
        policy = policy_of(options, given.catalog, given.keys)
        found = checker.sift(given, view, task, options.checked_mode, policy)
        verdict, left = found.verdict, found.left
    else:
        verdict = checker.validate(given, view, task, options.checked_mode).verdict
    report = _report(given, verdict, left, options)
    return replace(
        report,
        left=left.rows_gone + left.stubbed,
        reads=tuple(sorted(verdict.reads)),
        pins=pins_of(held.state, {*verdict.reads, *given.keys}),
        schema_id=schema_id_of(held.state),
        digest=parts_digest(parts, keys, options.mode, sets_aside=options.sets_aside),
    )


def _report(given: PartInput, verdict: Verdict, left: LeftOut, options: LoadOptions) -> PartsReport:
    rejected = tuple(sorted([*given.rejected, *left.rejected], key=lambda one: one.order))
    left = replace(left, rejected=rejected)
    too_bad = exceeded(left, given.records, options)
    reasons = [reason for one in rejected for reason in one.reasons]
    shown = [one.to_dict() for one in (*verdict.violations, *reasons[:SHOWN_MAX])][:SHOWN_MAX]
    return PartsReport(
        ok=verdict.ok and too_bad is None,
        records=given.records,
        rows={key: given.rows(key) for key in given.tables},
        violations=tuple(shown),
        total=verdict.total + len(reasons),
        rejected=len(rejected),
        rejected_rows=tuple(one.to_dict() for one in rejected[:SHOWN_MAX]),
        by_reason=reasons_of(verdict, left),
        missing_ids=most_frequent({**left.missing_ids, **verdict.missing_ids}),
        stubs=left.made,
        dropped=left.dropped,
        refusal=None if too_bad is None or not verdict.ok else too_bad.message,
    )
