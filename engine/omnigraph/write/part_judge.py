"""The verdict on a batch that was staged in parts: the rules about several rows, on key columns alone.

Owns how staged rows are fed to the one evaluator. What a row shows by itself was judged where it was staged and comes in
as a log. An append or an overwrite is fed block by block; a merge is compared with what it replaces, which holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from omnigraph.commit.txn import Txn
from omnigraph.schema import table_schema
from omnigraph.schema.catalog import EdgeType
from omnigraph.write.adopt import adopt_ids
from omnigraph.write.blocks import Block
from omnigraph.write.changes import Mode, RecordingView, TypeChange
from omnigraph.write.edge_rules import unresolved_ends
from omnigraph.write.part_input import PartInput
from omnigraph.write.rows import ENDS
from omnigraph.write.validate import Conflicts, Evaluation, Judged, Verdict, judged
from omnigraph.write.violations import ViolationLog

_SEARCH_THREADS: Final = 2
_THREADS_FROM_ROWS: Final = 1 << 14


def judge_parts(given: PartInput, txn: Txn, mode: Mode) -> Verdict:
    """Judge staged parts against the pins of a transaction. Nothing but keys is held."""
    if mode == "merge":
        return judge_changes(given, txn, mode)[0]
    view = RecordingView(txn)
    empty = []
    for key in given.shares:
        declared = given.catalog.by_table_key(key)
        empty.append(TypeChange(declared, table_schema(declared).empty_table(), mode))
    evaluation = Evaluation(empty, given.catalog, txn.engine.limits, values=False)
    log, conflicts = _given_log(given), Conflicts()
    asks = not given.malformed
    for key, checks in evaluation.checks.items():
        for block in given.blocks(txn, key):
            found = [judged(key, finding) for finding in checks.feed(block)]
            if asks and mode == "append":
                found += [judged(key, finding) for finding in checks.ids.ask(view)]
            if asks and isinstance(checks.type, EdgeType):
                found += _ends(evaluation, view, key, checks.type, block)
            evaluation.report(found, log, conflicts)
    if asks:
        evaluation.report(evaluation.ask(view), log, conflicts)
    return Verdict(log.shown, log.total, conflicts.all(), frozenset(view.reads))


def judge_changes(given: PartInput, txn: Txn, mode: Mode) -> tuple[Verdict, list[TypeChange]]:
    """Judge staged parts as a change set of key columns, and return it: edges with the ids that they have already."""
    view = RecordingView(txn)
    changes = [adopt_ids(given.change(txn, key, mode), view) for key in given.shares]
    evaluation = Evaluation(changes, given.catalog, txn.engine.limits, values=False)
    log, conflicts = _given_log(given), Conflicts()
    evaluation.report(evaluation.local(), log, conflicts)
    if not given.malformed:
        evaluation.report(evaluation.ask(view), log, conflicts)
    return Verdict(log.shown, log.total, conflicts.all(), frozenset(view.reads)), changes


def _given_log(given: PartInput) -> ViolationLog:
    log = ViolationLog()
    log.merge(given.malformed)
    log.merge(given.bad_values)
    return log


def _ends(evaluation: Evaluation, view: RecordingView, key: str, edge: EdgeType, block: Block) -> Iterator[Judged]:
    """Endpoints of one block that do not exist."""
    asked: list[Any] = [
        (block, end, evaluation.presence(edge.src_type if end == "src" else edge.dst_type)) for end in ENDS
    ]
    if block.batch.num_rows < _THREADS_FROM_ROWS:
        open_ends = [unresolved_ends(*one) for one in asked]
    else:
        with ThreadPoolExecutor(_SEARCH_THREADS, "omnigraph-check") as pool:
            open_ends = list(pool.map(lambda one: unresolved_ends(*one), asked))
    for (_, _, presence), unresolved in zip(asked, open_ends, strict=True):
        if unresolved is not None:
            for _, finding in presence.check(view, [unresolved]):
                yield judged(key, finding)
