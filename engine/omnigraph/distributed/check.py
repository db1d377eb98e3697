"""Judge a batch that was staged in parts without committing it: what ``load_parts`` would say, before anybody calls it.

Owns the report. The judgement is that of the load; it holds for the branch as it is now, and the load checker again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core.meter import Meter
from omnigraph.distributed.batch_rows import PartInput
from omnigraph.distributed.pass_rules import Budget
from omnigraph.distributed.placement import Checker
from omnigraph.distributed.shuffle import Exchange
from omnigraph.distributed.staged_part import StagedPart
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.write.base.rejects import Rejected
from omnigraph.write.base.violations import SHOWN_MAX
from omnigraph.write.load_options import LoadOptions
from omnigraph.write.rules.quarantine import BadRowsMax, Sifted, too_many
from omnigraph.write.rules.validate import Verdict

_CHECK_S = 3600.0  # judging reads every staged key once


@dataclass(frozen=True)
class PartsReport:
    """What a load of staged parts would find now. ``ok``: it would commit. ``violations``: the first of ``total``, those of
    rows that would be left out included; ``rejected`` counts these rows, with the first of them and their reasons."""

    ok: bool
    records: int
    rows: Mapping[str, int]
    violations: tuple[Mapping[str, Any], ...] = ()
    total: int = 0
    rejected: int = 0
    rejected_rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "records": self.records,
            "rows": dict(self.rows),
            "violations": [dict(one) for one in self.violations],
            "total": self.total,
            "rejected": self.rejected,
            "rejected_rows": [dict(one) for one in self.rejected_rows],
        }


def check_parts(
    txn: StagingTxn,
    parts: Sequence[StagedPart],
    types: Iterable[str],
    *,
    mode: str,
    on_bad_row: str = "fail",
    bad_rows_max: int | float | None = None,
    memory_mb: int | None = None,
    exchange: Exchange | None = None,
    exchange_always: bool = False,
) -> PartsReport:
    """Judge staged parts against the branch as it is now, as ``load_parts`` with the same arguments would. Writes nothing."""
    options = LoadOptions(mode=mode, branch=txn.branch, on_bad_row=on_bad_row, bad_rows_max=bad_rows_max)
    options.check()
    engine, meter = txn._engine, Meter()
    task = txn.task(mode)
    catalog = task.catalog
    sets_aside = on_bad_row == "quarantine"
    given = PartInput(parts, [catalog.type(_bare(name)).table_key for name in types], catalog, set_aside=sets_aside)
    held = read_current(engine, txn.branch, meter=meter)
    view = Txn(engine, txn.branch, held, Deadline(engine.clock, _CHECK_S), meter)
    checker = Checker(Budget.of(memory_mb), exchange, exchange_always)
    if not sets_aside:
        return _report(given, checker.judge(given, view, task, options.checked_mode).verdict, ())
    found = checker.sort(given, view, task, options.checked_mode)
    rejected = tuple(sorted([*given.rejected, *found.rejected], key=lambda one: one.order))
    error = too_many(Sifted((), rejected, Verdict()), given.records, BadRowsMax(bad_rows_max))
    return _report(given, found.verdict, rejected, allowed=error is None)


def _bare(name: str) -> str:
    return name.partition(":")[2] if name.startswith(("node:", "edge:")) else name


def _report(given: PartInput, verdict: Verdict, rejected: Sequence[Rejected], *, allowed: bool = True) -> PartsReport:
    reasons = [reason for one in rejected for reason in one.reasons]
    shown = [one.to_dict() for one in (*verdict.violations, *reasons[:SHOWN_MAX])][:SHOWN_MAX]
    return PartsReport(
        ok=verdict.ok and allowed,
        records=given.records,
        rows={key: given.rows(key) for key in given.tables},
        violations=tuple(shown),
        total=verdict.total + len(reasons),
        rejected=len(rejected),
        rejected_rows=tuple(one.to_dict() for one in rejected[:SHOWN_MAX]),
    )
