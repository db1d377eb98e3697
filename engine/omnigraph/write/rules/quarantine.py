"""Setting bad rows aside: which ones leave, in which order, and how they are written down.

Which may leave at all is the policy's: bad rows, or only edges whose end does not exist. Rounds: malformed and bad values, then duplicates (all of a group), then what the graph holds against a row, endpoints
included, until nothing more falls, then sources with too many edges (all of their edges in the input). Rejecting a row can
invalidate others (an edge whose node was rejected), so the rounds repeat until nothing changes. A minimum of edges and a
dangling committed edge cannot be attributed to a row and always fail the load.

A line of a quarantine file is ``{"record": ..., "reasons": [...]}``. The record is as it was read, or its text if it was
no JSON. Loading such a file reads the records and ignores the reasons: correct it in place and load it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.options import BadRowsMax as BadRowsMax
from omnigraph.schema.catalog import Catalog
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import Origin, PinnedView, RecordingView, RowIndex, TypeChange
from omnigraph.write.base.rejects import Finding, Rejected, collect_rejected
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.rules.endpoint_policy import EndpointPolicy, StubRules, stub_rows
from omnigraph.write.rules.left_out import LeftOut
from omnigraph.write.rules.validate import Conflicts, Evaluation, Judged, Verdict, count_ids
from omnigraph.write.sources.tables import row_record

pc: Any = pyarrow.compute

# What falls together in one round. Later kinds fall only when there is none of the earlier ones.
_LOCAL_VALUES: Final = frozenset({v.REQUIRED, v.NOT_FINITE, v.ENUM, v.RANGE, v.CHECK, v.ID_TOO_LONG})
_GRAPH: Final = frozenset({v.KEY_CONFLICT, v.UNIQUE})
_LOCAL_KINDS: Final[Sequence[Callable[[str], bool]]] = (_LOCAL_VALUES.__contains__, lambda _: True)
_ASKED_KINDS: Final[Sequence[Callable[[str], bool]]] = (
    _GRAPH.__contains__,
    lambda code: code == v.ENDPOINT,
    lambda _: True,
)
REJECTED_WHOLE: Final = EndpointPolicy()


class _Coded(Protocol):
    @property
    def code(self) -> str: ...

    @property
    def table_key(self) -> str: ...


F = TypeVar("F", bound=_Coded)


@dataclass(frozen=True)
class Sifted:
    """What stays of an input, stubs included, what left, and the verdict on what stays (``reads`` of all rounds)."""

    changes: tuple[TypeChange, ...]
    left: LeftOut
    verdict: Verdict

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        return self.left.rejected


@dataclass
class Gone:
    """Rows that have left, as they are collected round by round."""

    policy: EndpointPolicy
    rejected: list[Rejected] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    missing_ids: Counter[str] = field(default_factory=Counter)

    def drops(self, table_key: str, code: str) -> bool:
        """Whether rows that leave for this are counted and not kept."""
        return code == v.ENDPOINT and self.policy.of_missing(table_key.removeprefix("edge:")) == "drop"

    def note_dropped(self, table_key: str, rows: int) -> None:
        self.dropped[table_key.removeprefix("edge:")] += rows

    def left_out(self, stubs: Mapping[str, pa.Table], stubbed: int) -> LeftOut:
        rows = tuple(sorted(self.rejected, key=lambda one: one.order))
        return LeftOut(rows, dict(sorted(self.dropped.items())), stubs, stubbed, dict(self.missing_ids))


@dataclass
class _Sieve:
    changes: dict[str, TypeChange]
    record: Callable[[TypeChange, int], Any]
    gone: Gone
    dropped: Callable[[TypeChange, RowIndex], None] | None
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
        codes: dict[str, str] = {}
        for one in judged:
            if isinstance(one.finding, Finding):
                by_table.setdefault(one.table_key, []).append(one.finding)
                codes[one.table_key] = one.code
        dropped = 0
        for key in sorted(by_table):
            findings = by_table[key]
            change = self.changes[key]
            bad = np.unique(np.concatenate([finding.all_rows() for finding in findings]))
            for finding in findings:
                if finding.missing is not None:
                    self.gone.missing_ids.update(count_ids(finding.missing.ids))
            if self.gone.drops(key, codes[key]):
                self.gone.note_dropped(key, len(bad))
                if self.dropped is not None:
                    self.dropped(change, bad)
            else:
                self.gone.rejected += collect_rejected(findings, bad, partial(self.record, change))
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


def sift_rounds(rounds: Rounds[F], policy: EndpointPolicy = REJECTED_WHOLE) -> list[F]:
    """Take out rows until no row is left that may leave. Returns what is left to say: about no row, or about rows that may
    not leave, or which edges refer to stubs.

    A round takes the first kind of fault that there is: what comes before may be the reason for what comes after. Ends, as
    every round but the last takes at least one row."""
    while True:
        local = rounds.local()
        if rounds.drop(_first_kind(local, _LOCAL_KINDS, policy)):
            continue
        asked = rounds.asked()
        if not rounds.drop(_first_kind(asked, _ASKED_KINDS, policy)):
            return [*local, *asked]


def _first_kind(found: Sequence[F], kinds: Sequence[Callable[[str], bool]], policy: EndpointPolicy) -> list[F]:
    for kind in kinds:
        falling = [one for one in found if kind(one.code) and policy.leaves(one.table_key, one.code)]
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
    policy: EndpointPolicy = REJECTED_WHOLE,
    earlier: Iterable[ViolationLog] = (),
    dropped: Callable[[TypeChange, RowIndex], None] | None = None,
) -> Sifted:
    """Take out rows of a change set until what is left may stay, and make the stubs that the rest needs. ``rejected``: what
    the reader has set aside already; ``earlier``: what it has found and could not. ``record``: what stands for a row that
    leaves, where the change does not hold it whole. ``values``: whether rows are whole and checked by themselves: only then
    the changes that are returned have the stubs as well. ``dropped`` is given rows as they are dropped."""
    recording = RecordingView(view)
    stubs = StubRules(catalog, policy, limits)
    sieve = _Sieve(
        {change.table_key: change for change in changes},
        record or row_as_record,
        Gone(policy, list(rejected)),
        dropped,
        lambda held: Evaluation(held, catalog, limits, values=values, stubs=stubs),
        recording,
    )
    found = sift_rounds(sieve, policy)
    log, conflicts = ViolationLog(), Conflicts()
    for said in earlier:
        log.merge(said)
    assert sieve.evaluation is not None
    sieve.evaluation.report(found, log, conflicts)
    made, stubbed = _stubs(found, catalog, limits, sieve.gone)
    for key, rows in made.items() if values else ():
        sieve.changes[key] = with_stubs(sieve.changes.get(key), catalog, key, rows)
    kept = tuple(sieve.changes[key] for key in sorted(sieve.changes))
    return Sifted(kept, sieve.gone.left_out(made, stubbed), Verdict.of(log, conflicts.all(), recording.reads))


def _stubs(found: Iterable[Judged], catalog: Catalog, limits: Limits, gone: Gone) -> tuple[dict[str, pa.Table], int]:
    """Rows for the missing ends of edges that stay, by table key, and how many edges refer to them."""
    ids: dict[str, list[pa.Array[Any]]] = {}
    edges: dict[str, list[RowIndex]] = {}
    for one in found:
        if one.code != v.STUB or not isinstance(one.finding, Finding) or one.finding.missing is None:
            continue
        missing = one.finding.missing
        ids.setdefault(missing.node, []).append(missing.ids)
        edges.setdefault(one.table_key, []).append(one.finding.rows)
        gone.missing_ids.update(count_ids(missing.ids))
    stubbed = sum(len(np.unique(np.concatenate(rows))) for rows in edges.values())
    return made_stubs(catalog, ids, limits), stubbed


def made_stubs(
    catalog: Catalog, ids: Mapping[str, Sequence[pa.Array[Any]]], limits: Limits = DEFAULT_LIMITS
) -> dict[str, pa.Table]:
    """Stubs by table key for ids by node type, each once and in order."""
    found = {}
    for name, arrays in sorted(ids.items()):
        node = catalog.node(name)
        every = pc.unique(pa.chunked_array(list(arrays), pa.utf8()))
        batch = stub_rows(node, every.take(pc.sort_indices(every)), limits)
        found[node.table_key] = pa.Table.from_batches([batch])
    return found


def with_stubs(change: TypeChange | None, catalog: Catalog, key: str, rows: pa.Table) -> TypeChange:
    """The change with stubs behind its rows. Of a table that the input does not name they are all that is added."""
    if change is None:
        return TypeChange(catalog.by_table_key(key), rows, "append")
    before, more = change.rows.num_rows, rows.num_rows
    unnamed = change.unnamed and {
        name: np.concatenate([np.full(before, mask) if isinstance(mask, bool) else mask, np.zeros(more, np.bool_)])
        for name, mask in change.unnamed.items()
    }
    return replace(
        change,
        rows=pa.concat_tables([change.rows, rows.select(change.rows.column_names)]),
        minted=False if change.minted is False else np.concatenate([change.minted_rows(), np.zeros(more, np.bool_)]),
        origin=Origin(),  # rows are described before
        unnamed=unnamed,
        adopted=None,
    )


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
