"""The validator: one evaluator over a change set against pinned tables, for load, mutation, merge and staged batches.

It returns what is wrong and what it read to know. First everything that needs no reading is settled, nodes before edges;
then all questions to the committed side are asked side by side, so that a small write waits for one answer, not for six.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from omnigraph.core.errors import KeyConflict, OmnigraphError
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.table.key_set import KeySet
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block, blocks_of
from omnigraph.write.base.changes import PinnedView, RecordingView, TypeChange, Unnamed
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import Violation, ViolationLog
from omnigraph.write.rules.edge_rules import CardinalityRule, Loose, NodePresence, Unresolved, orphans, unresolved_ends
from omnigraph.write.rules.endpoint_policy import StubRules
from omnigraph.write.rules.key_rules import IdRule, KeyedRows, Rewritten, UniqueRule, unique_groups
from omnigraph.write.rules.value_rules import ValueRules

pc: Any = pyarrow.compute

# Searching staged nodes runs on two threads from so many edges on; below, starting them costs more.
_THREADS_FROM_ROWS: Final = 1 << 16
_SEARCH_THREADS: Final = 2
_ASK_THREADS: Final = 8

Question = Callable[[], "Iterable[Finding | Loose]"]


@dataclass(frozen=True)
class Conflict:
    """Ids of an append that are committed already: the first ones, and how many."""

    table_key: str
    ids: tuple[str, ...]
    total: int


@dataclass(frozen=True)
class Verdict:
    """``violations`` are the first by record number of ``total``; ``reads`` the tables whose pins the answer rests on.
    ``by_reason`` counts all by code, ``missing_ids`` how often edges name a node that does not exist."""

    violations: tuple[Violation, ...] = ()
    total: int = 0
    conflicts: tuple[Conflict, ...] = ()
    reads: frozenset[str] = frozenset()
    by_reason: Mapping[str, int] = field(default_factory=dict)
    missing_ids: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, log: ViolationLog, conflicts: tuple[Conflict, ...], reads: Iterable[str]) -> Verdict:
        return cls(
            log.shown, log.total, conflicts, frozenset(reads), dict(log.by_code), v.most_frequent(log.missing_ids)
        )

    @property
    def ok(self) -> bool:
        return self.total == 0

    def error(self) -> OmnigraphError | None:
        """``DataInvalid`` if the data is wrong; ``KeyConflict`` if only the graph is in the way."""
        if self.ok:
            return None
        if sum(conflict.total for conflict in self.conflicts) < self.total:
            return data_invalid(self.violations, self.total, by_reason=self.by_reason, missing_ids=self.missing_ids)
        first = self.conflicts[0]
        return KeyConflict(
            f"{self.violations[0].line}" + (f" (and {self.total - 1} more)" if self.total > 1 else ""),
            table_key=first.table_key,
            ids=list(first.ids),
            total=self.total,
            violations=[violation.to_dict() for violation in self.violations],
        )

    def raise_if_bad(self) -> None:
        error = self.error()
        if error is not None:
            raise error


def validate(
    changes: Iterable[TypeChange],
    catalog: Catalog,
    view: PinnedView,
    *,
    limits: Limits = DEFAULT_LIMITS,
    malformed: ViolationLog | None = None,
) -> Verdict:
    """Judge a change set. ``malformed``: what the reader refused already; the graph is then not asked, as rows are
    missing that others may lean on."""
    recording = RecordingView(view)
    evaluation = Evaluation(changes, catalog, limits)
    log, conflicts = ViolationLog(), Conflicts()
    if malformed is not None:
        log.merge(malformed)
    evaluation.report(evaluation.local(), log, conflicts)
    if not malformed:
        evaluation.report(evaluation.ask(recording), log, conflicts)
    return Verdict.of(log, conflicts.all(), recording.reads)


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding, and the table whose rows it counts."""

    table_key: str
    code: str
    finding: Finding | Loose


class TableChecks:
    """The rules of one table, fed block by block."""

    def __init__(self, change: TypeChange, limits: Limits, values: bool = True) -> None:
        declared = change.type
        self.type = declared
        self.mode = change.mode
        self.cascaded = change.cascaded
        given = 0 if change.minted is True else change.rows.num_rows
        self.rewritten = Rewritten(change.mode, KeyedRows(expected_rows=given), deleted_ids=change.deleted_ids)
        if change.deleted_ids is not None and len(change.deleted_ids):
            self.rewritten.deleted = KeySet()
            self.rewritten.deleted.add(change.deleted_ids)
        self.values = ValueRules(declared, limits) if values else None
        self.ids = IdRule(declared, change.mode, self.rewritten)
        self.uniques = [
            UniqueRule(declared, group, change.mode)
            for group in unique_groups(declared)
            if not change.kept.issuperset(group)
        ]
        self.card: CardinalityRule | None = None
        if isinstance(declared, EdgeType) and not declared.card.is_unbounded:
            self.card = CardinalityRule(declared, change.mode, self.rewritten)
        self.unresolved: list[Unresolved] = []

    def feed(self, block: Block) -> Iterator[Finding]:
        """Everything that needs no reading, endpoints set aside."""
        values = [] if self.values is None else list(self.values.feed(block))
        yield from values
        if any(finding.property in ("id", *ENDS, *ENDS.values()) and _has_nulls(block) for finding in values):
            return  # without ids and endpoints there is nothing to compare
        yield from self.ids.feed(block)
        for unique in self.uniques:
            yield from unique.feed(block)
        if self.card is not None:
            self.card.feed(block)


def _has_nulls(block: Block) -> bool:
    names = [name for name in ("id", *ENDS) if name in block.batch.schema.names]
    return any(block.batch.column(name).null_count for name in names)


class Evaluation:
    """One pass over one change set. ``local`` has to be drawn before ``ask``. Without ``values`` rows have been looked at by
    themselves before, and only the columns that rules compare are needed. With ``stubs`` an edge whose end is missing and can
    be made is no violation: it is found with the code ``STUB``."""

    def __init__(
        self,
        changes: Iterable[TypeChange],
        catalog: Catalog,
        limits: Limits,
        *,
        values: bool = True,
        stubs: StubRules | None = None,
    ) -> None:
        ordered = sorted(changes, key=lambda change: change.table_key)
        nodes = [change for change in ordered if isinstance(change.type, NodeType)]
        edges = [change for change in ordered if isinstance(change.type, EdgeType)]
        self._catalog = catalog
        self._stubs = stubs
        self.changes = {change.table_key: change for change in nodes + edges}
        self.checks = {key: TableChecks(change, limits, values) for key, change in self.changes.items()}
        self._presences: dict[str, NodePresence] = {}

    def presence(self, name: str) -> NodePresence:
        """Of a node type; its rows have to be fed before it is asked about."""
        held = self._presences.get(name)
        if held is None:
            node = self._catalog.node(name)
            checks = self.checks.get(node.table_key)
            held = NodePresence(
                node,
                checks.rewritten.given if checks else None,
                replaced_all=bool(checks and checks.mode == "overwrite"),
                deleted=checks.rewritten.deleted if checks else None,
            )
            self._presences[name] = held
        return held

    def presences(self) -> Iterable[NodePresence]:
        """Of all node types that were asked about."""
        return self._presences.values()

    # --- without reading -------------------------------------------------------------------------------------------

    def local(self) -> Iterator[Judged]:
        for key, checks in self.checks.items():
            blocks = list(blocks_of(self.changes[key]))
            for block in blocks:
                for finding in checks.feed(block):
                    change = self.changes[key]
                    known = known_finding(finding, None if change.completed else change.unnamed)
                    if known is not None:
                        yield judged(key, known)
            if isinstance(checks.type, EdgeType):
                checks.unresolved = self._unresolved(checks.type, blocks)

    def _unresolved(self, edge: EdgeType, blocks: Sequence[Block]) -> list[Unresolved]:
        tasks = [
            (block, end, self.presence(edge.src_type if end == "src" else edge.dst_type))
            for block in blocks
            if not _has_nulls(block)
            for end in ENDS
        ]
        if sum(block.batch.num_rows for block in blocks) < _THREADS_FROM_ROWS:
            found = [unresolved_ends(*task) for task in tasks]
        else:
            with ThreadPoolExecutor(_SEARCH_THREADS, "omnigraph-check") as pool:
                found = list(pool.map(lambda task: unresolved_ends(*task), tasks))
        return [one for one in found if one is not None]

    # --- with reading ----------------------------------------------------------------------------------------------

    def ask(self, view: PinnedView) -> Iterator[Judged]:
        """All questions side by side; the answers in the order of the questions."""
        questions = list(self._questions(view))
        if len(questions) <= 1:
            answers: Iterable[list[Judged]] = [list(question()) for question in questions]
        else:
            with ThreadPoolExecutor(min(len(questions), _ASK_THREADS), "omnigraph-check") as pool:
                answers = list(pool.map(lambda question: list(question()), questions))
        for answer in answers:
            yield from answer

    def _questions(self, view: PinnedView) -> Iterator[Callable[[], Iterator[Judged]]]:
        for key, checks in self.checks.items():
            if checks.mode == "append" and len(checks.rewritten.given):
                yield _asking(key, partial(checks.ids.ask, view))
            for unique in checks.uniques:
                if checks.mode != "overwrite":
                    yield _asking(key, partial(unique.ask, view, checks.rewritten))
        by_node: dict[str, list[Unresolved]] = {}
        for checks in self.checks.values():
            for one in checks.unresolved:
                assert isinstance(checks.type, EdgeType)
                by_node.setdefault(checks.type.src_type if one.end == "src" else checks.type.dst_type, []).append(one)
        for name, unresolved in sorted(by_node.items()):
            yield _asking_ends(self.presence(name), view, unresolved, self._stubs)
        for key, checks in self.checks.items():
            if checks.card is not None:
                assert isinstance(checks.type, EdgeType)
                # Its own look at the nodes: the one above may be at work on another thread.
                presence = self.presence(checks.type.src_type).alike()
                yield _asking(key, partial(checks.card.ask, view, presence))
        for key, checks in self.checks.items():
            if isinstance(checks.type, NodeType):
                yield from self._orphan_questions(key, checks, view)

    def _orphan_questions(
        self, key: str, checks: TableChecks, view: PinnedView
    ) -> Iterator[Callable[[], Iterator[Judged]]]:
        deletes = checks.rewritten.deleted is not None and not checks.cascaded
        if checks.mode != "overwrite" and not deletes:
            return
        node = checks.type
        assert isinstance(node, NodeType)
        pointing = [edge for edge in self._catalog.edges.values() if node.name in (edge.src_type, edge.dst_type)]
        pointing = [edge for edge in pointing if not self._is_overwritten(edge)]
        if not pointing:
            return

        def question() -> Iterator[Judged]:
            gone = _gone(view, checks)
            for edge in sorted(pointing, key=lambda edge: edge.table_key):
                change = self.checks.get(edge.table_key)
                rewritten = change.rewritten if change else Rewritten()
                for loose in orphans(view, edge, node, gone, rewritten):
                    yield Judged(edge.table_key, v.ORPHAN, loose)

        yield question

    def _is_overwritten(self, edge: EdgeType) -> bool:
        checks = self.checks.get(edge.table_key)
        return checks is not None and checks.mode == "overwrite"

    # --- reporting -------------------------------------------------------------------------------------------------

    def report(self, judged: Iterable[Judged], log: ViolationLog, conflicts: Conflicts) -> None:
        for one in judged:
            note_violation(one, log)
            if one.code == v.KEY_CONFLICT and isinstance(one.finding, Finding):
                conflicts.add(one.table_key, one.finding)


def note_violation(one: Judged, log: ViolationLog) -> None:
    """Count the violations of a finding, and keep the first of them."""
    finding = one.finding
    if isinstance(finding, Loose):
        log.add_rows(range(finding.count), finding.count, finding.describe)
        return
    if one.code == v.STUB:
        return
    log.add_rows(finding.rows.tolist()[: v.SHOWN_MAX], len(finding.rows), finding.describe)
    if finding.missing is not None:
        log.missing_ids.update(count_ids(finding.missing.ids))


def count_ids(ids: pa.Array[Any]) -> dict[str, int]:
    """How often each id occurs."""
    counted = pc.value_counts(ids)
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def known_finding(finding: Finding, left_out: Unnamed | None) -> Finding | None:
    """The finding on the rows for which it is one. Where a patch was not completed, because the graph is not asked, a property
    that a row does not name (``left_out``) may have a value."""
    unnamed = (left_out or {}).get(finding.property or "")
    if unnamed is None or unnamed is True:
        return finding if unnamed is None else None
    assert not isinstance(unnamed, bool)
    rows = finding.rows[~unnamed[finding.rows]]
    return replace(finding, rows=rows) if len(rows) else None


def judged(key: str, finding: Finding | Loose) -> Judged:
    if isinstance(finding, Loose):
        return Judged(key, finding.describe(0).code, finding)
    return Judged(key, finding.describe(int(finding.rows[0])).code, finding)


def _asking(key: str, ask: Callable[[], Iterable[Finding | Loose]]) -> Callable[[], Iterator[Judged]]:
    return lambda: (judged(key, finding) for finding in ask())


def _asking_ends(
    presence: NodePresence, view: PinnedView, unresolved: Sequence[Unresolved], stubs: StubRules | None
) -> Callable[[], Iterator[Judged]]:
    def question() -> Iterator[Judged]:
        for one, finding in presence.check(view, unresolved):
            edge = one.block.wording.type
            assert isinstance(edge, EdgeType)
            yield from judged_ends(edge, finding, stubs)

    return question


def judged_ends(edge: EdgeType, finding: Finding, stubs: StubRules | None) -> Iterator[Judged]:
    """What is said of edges with a missing end: that a stub will be there, or that they cannot stand."""
    made, rest = (None, finding) if stubs is None else stubs.split(edge, finding)
    if made is not None:
        yield Judged(edge.table_key, v.STUB, made)
    if rest is not None:
        yield judged(edge.table_key, rest)


def _gone(view: PinnedView, checks: TableChecks) -> pa.Array[Any]:
    """Committed ids of a node table that the change leaves without a row."""
    given, deleted = checks.rewritten.given, checks.rewritten.deleted_ids
    key = checks.type.table_key
    if checks.mode != "overwrite":
        assert deleted is not None
        return deleted.filter(pa.array(~given.has(deleted))) if len(given) else deleted
    if not view.rows(key):
        return pa.array([], pa.utf8())
    parts = []
    for batch in view.scan(key, ["id"]):
        ids = batch.column("id")
        parts.append(ids.filter(pa.array(~given.has(ids))) if len(given) else ids)
    return pa.concat_arrays(parts) if parts else pa.array([], pa.utf8())


@dataclass
class Conflicts:
    """Ids that an append found taken, by table."""

    _by_table: dict[str, tuple[list[str], int]] = field(default_factory=dict)

    def add(self, table_key: str, finding: Finding) -> None:
        ids, total = self._by_table.get(table_key, ([], 0))
        shown = finding.rows[: max(0, v.SHOWN_MAX - len(ids))]
        ids += [finding.describe(int(row)).id or "" for row in shown]
        self._by_table[table_key] = (ids, total + len(finding.rows))

    def all(self) -> tuple[Conflict, ...]:
        return tuple(Conflict(key, tuple(ids), total) for key, (ids, total) in sorted(self._by_table.items()))
