"""Setting bad rows aside: which ones leave, in which order, and how they are written down.

Rounds: malformed and bad values, then duplicates (all of a group), then what the graph holds against a row, endpoints
included, until nothing more falls, then sources with too many edges (all of their edges in the input). Rejecting a row can
invalidate others (an edge whose node was rejected), so the rounds repeat until nothing changes. A minimum of edges and a
dangling committed edge cannot be attributed to a row and always fail the load.

A line of a quarantine file is ``{"record": ..., "reasons": [...]}``. The record is as it was read, or its text if it was
no JSON. Loading such a file reads the records and ignores the reasons: correct it in place and load it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from omnigraph.core.errors import DataInvalid, StoreRefused
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.options import BadRowsMax as BadRowsMax
from omnigraph.schema.catalog import Catalog
from omnigraph.wire.receipt import RejectedRows
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import PinnedView, RecordingView, TypeChange
from omnigraph.write.base.rejects import Finding, Rejected, collect_rejected
from omnigraph.write.base.violations import SHOWN_MAX, ViolationLog, data_invalid
from omnigraph.write.rules.edge_rules import Loose
from omnigraph.write.rules.validate import Evaluation, Judged, Verdict
from omnigraph.write.sources.tables import row_record

REJECTED_SHOWN_MAX: Final = 1_000
MISSING_SHOWN_MAX: Final = 20

# What falls together in one round. Later kinds fall only when there is none of the earlier ones.
_LOCAL_VALUES: Final = frozenset({v.REQUIRED, v.NOT_FINITE, v.ENUM, v.RANGE, v.CHECK, v.ID_TOO_LONG})
_GRAPH: Final = frozenset({v.KEY_CONFLICT, v.UNIQUE})
_NEVER_SET_ASIDE: Final = frozenset({v.CARD_MIN, v.ORPHAN})
_LOCAL_KINDS: Final[Sequence[Callable[[str], bool]]] = (_LOCAL_VALUES.__contains__, lambda _: True)
_ASKED_KINDS: Final[Sequence[Callable[[str], bool]]] = (
    _GRAPH.__contains__,
    lambda code: code == v.ENDPOINT,
    lambda code: code not in _NEVER_SET_ASIDE,
)


class _Coded(Protocol):
    @property
    def code(self) -> str: ...


F = TypeVar("F", bound=_Coded)


@dataclass(frozen=True)
class Sifted:
    """What stays of an input, what left, and the verdict on what stays (``reads`` of all rounds)."""

    changes: tuple[TypeChange, ...]
    rejected: tuple[Rejected, ...]
    verdict: Verdict


@dataclass
class _Sieve:
    changes: dict[str, TypeChange]
    record: Callable[[TypeChange, int], Any]
    rejected: list[Rejected]
    evaluate: Callable[[Iterable[TypeChange]], Evaluation]
    view: PinnedView
    evaluation: Evaluation | None = None

    def local(self) -> list[Judged]:
        self.evaluation = self.evaluate(self.changes.values())
        return list(self.evaluation.local())

    def asked(self) -> list[Judged]:
        assert self.evaluation is not None, "a round begins without the graph"
        return list(self.evaluation.ask(self.view))

    def drop(self, judged: Iterable[Judged]) -> int:
        """Take out all rows that the findings concern, with all reasons that this round has for them."""
        by_table: dict[str, list[Finding]] = {}
        for one in judged:
            if isinstance(one.finding, Finding):
                by_table.setdefault(one.table_key, []).append(one.finding)
        dropped = 0
        for key in sorted(by_table):
            findings = by_table[key]
            change = self.changes[key]
            bad = np.unique(np.concatenate([finding.all_rows() for finding in findings]))
            self.rejected += collect_rejected(findings, bad, partial(self.record, change))
            keep = np.ones(change.rows.num_rows, dtype=np.bool_)
            keep[bad] = False
            self.changes[key] = change.take(np.flatnonzero(keep))
            dropped += len(bad)
        return dropped


class Rounds(Protocol[F]):
    """What sets rows aside, round by round. ``local``: what the rows show without the graph; ``asked``: what the graph has
    against them, on the same rows; ``drop`` takes the rows out that are concerned and returns how many."""

    def local(self) -> list[F]: ...

    def asked(self) -> list[F]: ...

    def drop(self, found: Sequence[F]) -> int: ...


def sift_rounds(rounds: Rounds[F]) -> list[F]:
    """Take out bad rows until the rest stands. Returns what is left to say, which is about no row.

    A round takes the first kind of fault that there is: what comes before may be the reason for what comes after. Ends, as
    every round but the last takes at least one row."""
    while True:
        if rounds.drop(_first_kind(rounds.local(), _LOCAL_KINDS)):
            continue
        asked = rounds.asked()
        if not rounds.drop(_first_kind(asked, _ASKED_KINDS)):
            return asked


def _first_kind(found: Sequence[F], kinds: Sequence[Callable[[str], bool]]) -> list[F]:
    for kind in kinds:
        falling = [one for one in found if kind(one.code)]
        if falling:
            return falling
    return []


def sift(
    changes: Iterable[TypeChange],
    catalog: Catalog,
    view: PinnedView,
    *,
    rejected: Iterable[Rejected] = (),
    limits: Limits = DEFAULT_LIMITS,
    record: Callable[[TypeChange, int], Any] | None = None,
    values: bool = True,
) -> Sifted:
    """Take out bad rows of a change set until the rest stands. ``rejected``: what the reader has set aside already.
    ``record``: what stands for a row that leaves, where the change does not hold it whole. ``values``: whether rows are
    checked by themselves."""
    recording = RecordingView(view)
    sieve = _Sieve(
        {change.table_key: change for change in changes},
        record or row_as_record,
        list(rejected),
        lambda held: Evaluation(held, catalog, limits, values=values),
        recording,
    )
    left = sift_rounds(sieve)
    rows = tuple(sorted(sieve.rejected, key=lambda one: one.order))
    kept = tuple(sieve.changes[key] for key in sorted(sieve.changes))
    return Sifted(kept, rows, _verdict(left, recording.reads))


def _verdict(found: Iterable[Judged], reads: set[str]) -> Verdict:
    log = ViolationLog()
    for one in found:
        finding = one.finding
        if isinstance(finding, Loose):
            log.add_rows(range(finding.count), finding.count, finding.describe)
        else:
            log.add_rows(finding.rows.tolist()[:SHOWN_MAX], len(finding.rows), finding.describe)
    return Verdict(log.shown, log.total, (), frozenset(reads))


def row_as_record(change: TypeChange, row: int) -> dict[str, Any]:
    """A row of a change as the record that would load it: of a patch, what the row names, nulls included."""
    named = [name for name in change.rows.column_names if not _left_out(change, name, row)]
    values: dict[str, Any] = {name: change.rows.column(name)[row].as_py() for name in named}
    minted = change.minted if isinstance(change.minted, bool) else bool(change.minted[row])
    adopted = change.adopted is not None and bool(change.adopted[row])
    if minted or adopted or getattr(change.type, "key", None) is not None:
        values["id"] = None  # it was not given, or the key says it
    record = row_record(change.type, values)
    if change.unnamed is not None:
        record["data"] |= {name: None for name in named if name in change.type.by_name and values[name] is None}
    return record


def _left_out(change: TypeChange, name: str, row: int) -> bool:
    unnamed = (change.unnamed or {}).get(name, False)
    return unnamed if isinstance(unnamed, bool) else bool(unnamed[row])


def rejected_rows(rejected: Sequence[Rejected]) -> RejectedRows:
    """What a receipt says about rows that were left out: the first of them, and counts over all."""
    codes = Counter(code for one in rejected for code in {reason.code for reason in one.reasons})
    missing = Counter(r.value for one in rejected for r in one.reasons if r.code == v.ENDPOINT and r.value is not None)
    return RejectedRows(
        tuple(one.to_dict() for one in rejected[:REJECTED_SHOWN_MAX]),
        len(rejected),
        dict(sorted(codes.items())),
        dict(missing.most_common(MISSING_SHOWN_MAX)),
    )


def too_many(sifted: Sifted, records: int, bound: BadRowsMax) -> DataInvalid | None:
    """The error if more rows are bad than the caller bears with."""
    bad = len(sifted.rejected)
    if bound.allows(bad, records):
        return None
    first = [reason for one in sifted.rejected[:SHOWN_MAX] for reason in one.reasons][:SHOWN_MAX]
    total = sum(len(one.reasons) for one in sifted.rejected)
    error = data_invalid(first, total)
    error.message = (
        f"{bad} of {records} records are bad, more than bad_rows_max={bound.bound}; the first: {error.message}"
    )
    error.args = (error.message,)
    error.facts |= {"bad_rows": bad, "records": records, "bad_rows_max": bound.bound}
    return error


# --- the file -----------------------------------------------------------------------------------------------------------


def quarantine_line(one: Rejected) -> str:
    return json.dumps(one.to_dict(), ensure_ascii=False, separators=(",", ":"))


def write_quarantine(path: str | PathLike[str], rejected: Iterable[Rejected]) -> int:
    """Write all rejected records, one a line; returns how many. An older file of that name is replaced."""
    count = 0
    try:
        with Path(path).open("w", encoding="utf-8", newline="\n") as stream:
            for one in rejected:
                stream.write(quarantine_line(one) + "\n")
                count += 1
    except OSError as error:
        raise StoreRefused(f"cannot write the quarantine file: {error.strerror or error}", path=str(path)) from error
    return count
