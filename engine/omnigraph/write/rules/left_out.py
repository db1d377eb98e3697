"""What a load leaves out of its input, or makes up for it: rows set aside, edges dropped, stubs made; and how much of it is allowed.

Owns the counts and the bounds. Which rows these are is found elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.core.errors import DataInvalid
from omnigraph.options import BadRowsMax as BadRowsMax
from omnigraph.options import LoadOptions, is_within
from omnigraph.wire.receipt import RejectedRows
from omnigraph.write.base import violations as v
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.rejects import Rejected
from omnigraph.write.base.violations import SHOWN_MAX, check_of, most_frequent

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.write.rules.validate import Verdict

REJECTED_SHOWN_MAX: Final = 1_000


@dataclass(frozen=True)
class LeftOut:
    """``rejected``: rows that are set aside, with their reasons. ``dropped``: edges that are left out, by type. ``stubs``: rows
    that are made, by table key; ``stubbed``: how many edges refer to one. ``missing_ids``: how often edges that were read name
    a node that does not exist."""

    rejected: tuple[Rejected, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    stubs: Mapping[str, pa.Table] = field(default_factory=dict)
    stubbed: int = 0
    missing_ids: Mapping[str, int] = field(default_factory=dict)

    @property
    def made(self) -> dict[str, int]:
        """Stubs by the name of their type."""
        return {key.removeprefix("node:"): rows.num_rows for key, rows in sorted(self.stubs.items())}

    @property
    def rows_gone(self) -> int:
        return len(self.rejected) + sum(self.dropped.values())

    def bad_rows(self) -> dict[str, int]:
        """Rows by the check that they fail."""
        counts = Counter(check for one in self.rejected for check in {check_of(reason.code) for reason in one.reasons})
        counts["endpoints"] += sum(self.dropped.values()) + self.stubbed
        return dict(counts)


def rejected_rows(left: LeftOut) -> RejectedRows:
    """What a receipt says about rows that were left out: the first of them, and counts over all."""
    codes = Counter(code for one in left.rejected for code in {reason.code for reason in one.reasons})
    return RejectedRows(
        tuple(one.to_dict() for one in left.rejected[:REJECTED_SHOWN_MAX]),
        len(left.rejected),
        dict(sorted(codes.items())),
        most_frequent(left.missing_ids),
    )


def reasons_of(verdict: Verdict, left: LeftOut) -> dict[str, int]:
    """Violations by code: of rows that stand in the way and of rows that are left out; edges that are dropped among them."""
    counts = Counter(verdict.by_reason)
    counts.update(reason.code for one in left.rejected for reason in one.reasons)
    if left.dropped:
        counts[v.ENDPOINT] += sum(left.dropped.values())
    return dict(sorted(counts.items()))


def exceeded(left: LeftOut, records: int, options: LoadOptions) -> DataInvalid | None:
    """The error if more rows are bad than the caller allows: in one of the checks, or over all of them."""
    bad = left.bad_rows()
    for check, bound in sorted((options.bounds or {}).items()):
        found = bad.get(check, 0)
        if not is_within(bound, found, records):
            return _beyond(
                left,
                f"{found} of {records} records fail the check {check!r} ({_share(found, records)}), "
                f"more than the bound {_bound(bound)}",
                {"check": check, "bad_rows": found, "records": records, "bound": bound},
                [reason for one in left.rejected for reason in one.reasons if check_of(reason.code) == check],
            )
    return too_many(left, records, BadRowsMax(options.bad_rows_max))


def too_many(left: LeftOut, records: int, bound: BadRowsMax) -> DataInvalid | None:
    """The error if more rows are left out than the caller allows."""
    bad = left.rows_gone
    if bound.allows(bad, records):
        return None
    return _beyond(
        left,
        f"{bad} of {records} records are bad, more than bad_rows_max={bound.bound}",
        {"bad_rows": bad, "records": records, "bad_rows_max": bound.bound},
        [reason for one in left.rejected for reason in one.reasons],
    )


def _beyond(left: LeftOut, said: str, facts: Mapping[str, object], reasons: Sequence[v.Violation]) -> DataInvalid:
    counts = Counter(code for one in left.rejected for code in {reason.code for reason in one.reasons})
    if left.dropped or left.stubbed:
        counts[v.ENDPOINT] += sum(left.dropped.values()) + left.stubbed
    total = max(len(reasons), 1)
    error = data_invalid(causes_first(left, reasons)[:SHOWN_MAX], total, by_reason=counts, missing_ids=left.missing_ids)
    frequent = ", ".join(f"{name} ({count}x)" for name, count in most_frequent(left.missing_ids, 3).items())
    tail = f"; the first: {error.message}" if reasons else ""
    tail += f"; most often missing: {frequent}" if frequent and facts.get("check") == "endpoints" else ""
    error.message = said + tail
    error.args = (error.message,)
    error.facts |= facts
    return error


def causes_first(left: LeftOut, reasons: Sequence[v.Violation]) -> list[v.Violation]:
    """The reasons in their order, behind them those that follow from others: an edge whose node was left out."""
    gone = {
        v.show_value(reason.id)
        for one in left.rejected
        for reason in one.reasons
        if reason.id is not None and (reason.table_key or "").startswith("node:")
    }
    return sorted(reasons, key=lambda reason: reason.code == v.ENDPOINT and reason.value in gone)


def _share(found: int, records: int) -> str:
    return f"{100 * found / max(records, 1):.1f} %"


def _bound(bound: int | float) -> str:
    return f"{bound} ({100 * bound:g} %)" if isinstance(bound, float) else str(bound)
