"""What could not become a row: the violations, and on request the records themselves.

Owns the difference between failing (count, keep the first violations) and quarantining (keep every bad record with its
reasons). It does not decide what is bad.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.core.shown import Shown
from omnigraph.write.base.changes import RowIndex
from omnigraph.write.base.violations import Violation, ViolationLog

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Rejected(Shown):
    """A record that was left out, as it can be written down and loaded again, and why."""

    record: Any  # the record; or its text, if that is no JSON
    reasons: tuple[Violation, ...]
    number: int
    source: str | None = None
    source_order: int = 0

    @property
    def order(self) -> tuple[int, int]:
        return self.source_order, self.number

    def to_dict(self) -> dict[str, Any]:
        return {
            "record": _ordered(writable(self.record)),
            "reasons": [writable(reason.to_dict()) for reason in self.reasons],
        }


# The members of a record in the order in which people read them.
_MEMBERS = ("type", "edge", "from", "to", "data")


def _ordered(record: Any) -> Any:
    """The record with its members in one order, whichever way it has come: documents on the way sort theirs."""
    if isinstance(record, dict):
        names = [*(name for name in _MEMBERS if name in record), *sorted(record.keys() - set(_MEMBERS))]
        return {name: _ordered(record[name]) for name in names}
    return [_ordered(inner) for inner in record] if isinstance(record, list) else record


def writable(value: Any, nesting_max: int = 1_000) -> Any:
    """What a caller may put into a record, as JSON. NaN and infinities become texts, since no JSON number stands for them;
    so do half surrogate pairs, and values that are nested deeper than ``nesting_max``."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping | list | tuple) and nesting_max <= 0:
        return json.dumps(writable(value), ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, Mapping):
        return {writable(str(name)): writable(inner, nesting_max - 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [writable(inner, nesting_max - 1) for inner in value]
    if isinstance(value, bytes | bytearray):
        return "base64:" + base64.b64encode(value).decode()
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else str(value)


@dataclass(frozen=True, slots=True)
class Missing:
    """Ends of edges that do not exist: the node type, and an id a row."""

    node: str
    ids: pa.Array[Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows that break one rule, ascending, and how to word it for one of them.

    ``rows`` count as violations. ``others`` do not, but have to leave with them: all of a group of duplicates, all edges
    of a source that has too many. ``describe`` answers for both.
    """

    rows: RowIndex
    describe: Callable[[int], Violation]
    others: RowIndex | None = None
    property: str | None = None  # where one property is at fault
    missing: Missing | None = None  # for each row the node that does not exist

    def all_rows(self) -> RowIndex:
        return self.rows if self.others is None else np.union1d(self.rows, self.others)


class Rejects:
    """Collects what the reader refuses."""

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.log = ViolationLog()
        self.records: list[Rejected] = []
        # Record numbers of refused records, to know how many records the input had.
        self.refused = 0
        self._warnings: dict[str, int] = {}

    def warn(self, text: str, rows: int) -> None:
        """Count rows that were taken with a loss that the caller has agreed to."""
        self._warnings[text] = self._warnings.get(text, 0) + rows

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(f"{text} ({rows:,} {'row' if rows == 1 else 'rows'})" for text, rows in self._warnings.items())

    def record(self, record: Any, number: int, source: str | None, order: int, reasons: Sequence[Violation]) -> None:
        """Refuse one record that has no row at all."""
        placed = tuple(reason.at(number, source, order) for reason in reasons)
        self.log.extend(placed)
        self.refused += 1
        if self.keep:
            self.records.append(Rejected(record, placed, number, source, order))

    def rows(self, findings: Iterable[Finding], original: Callable[[int], Any]) -> RowIndex:
        """Refuse rows of one piece; ``original`` gives the record of a row. Returns all rows refused."""
        findings = [finding for finding in findings if len(finding.rows)]
        if not findings:
            return np.empty(0, dtype=np.int64)
        for finding in findings:
            self.log.add_rows(iter(finding.rows), len(finding.rows), finding.describe)
        bad = np.unique(np.concatenate([finding.all_rows() for finding in findings]))
        self.refused += len(bad)
        if self.keep:
            self.records.extend(collect_rejected(findings, bad, original))
        return bad


def collect_rejected(findings: Sequence[Finding], bad: RowIndex, original: Callable[[int], Any]) -> list[Rejected]:
    """One ``Rejected`` a row, with every reason that names it."""
    reasons: dict[int, list[Violation]] = {int(row): [] for row in bad}
    for finding in findings:
        for row in finding.all_rows().tolist():
            reasons[row].append(finding.describe(row))
    found = []
    for row, why in reasons.items():
        first = why[0]
        found.append(Rejected(original(row), tuple(why), first.record or 0, first.source, first.source_order))
    return found
