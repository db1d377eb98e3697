"""The verdict on a batch that was staged in parts: the rules about several rows, on key columns alone.

Owns how staged rows are fed to the one evaluator: block by block, so that of a row only what its id and its keys come to is
held, and in passes where even that is more than there is budget for. What a row shows by itself was checked where it was
staged and comes in as a log, unless ``values`` says that it was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from omnigraph.commit.txn import Txn
from omnigraph.distributed.batch_rows import PartInput, key_columns
from omnigraph.distributed.id_reuse import AdoptedIds
from omnigraph.distributed.pass_rules import Budget, PassCardinality, PassUnique, forget_texts
from omnigraph.distributed.patch_rows import completed, lacking, required
from omnigraph.schema import table_schema
from omnigraph.schema.catalog import EdgeType, TableType
from omnigraph.table.arrays import positions
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import Mode, PinnedView, TypeChange
from omnigraph.write.base.committed_rows import is_scanned
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Finding
from omnigraph.write.rules.completion import complete
from omnigraph.write.rules.edge_rules import CardinalityRule
from omnigraph.write.rules.id_reuse import adopt_ids, adopting_group, committed_ids
from omnigraph.write.rules.key_rules import KeyedRows, UniqueRule, unique_groups
from omnigraph.write.rules.streamed import StreamedEvaluation
from omnigraph.write.rules.validate import Verdict

Addresses = npt.NDArray[np.uint64]

_SEARCH_THREADS: Final = 2
_THREADS_FROM_ROWS: Final = 1 << 14
_FOUND_NODES_MAX: Final = 1 << 22


@dataclass(frozen=True)
class CheckResult:
    """The verdict, and what a merge goes on with: the rows of each id, and ids that were taken over."""

    verdict: Verdict
    ids: dict[str, KeyedRows] = field(default_factory=dict)
    adopted: dict[str, AdoptedIds] = field(default_factory=dict)
    addresses: Mapping[str, Addresses] | None = None  # of the rows that are replaced, where they were looked up already


def check_keys(
    given: PartInput, txn: Txn, mode: Mode, budget: Budget | None = None, *, values: bool = False
) -> CheckResult:
    """Check staged parts against the pins of a transaction."""
    return _KeyChecks(given, txn, mode, budget or Budget.of(None), values).run()


def matched_ids(given: PartInput, txn: Txn, mode: Mode, budget: Budget) -> CheckResult:
    """What a merge goes on with where the batch was checked before: the rows of each id, and ids that were taken over. No
    rule is asked."""
    adopted = adopt_in_passes(given, txn, mode, budget, txn)
    found: dict[str, KeyedRows] = {}
    for key in given.tables if mode == "merge" else ():
        keyed = found[key] = KeyedRows(1, given.rows(key), digest=True)
        for block in given.blocks(txn, key, ["id"], adopted.get(key)):
            rows = block.given()
            texts = block.batch.column("id")
            texts = texts if rows is None else texts.take(positions(rows))
            if len(texts):
                keyed.add(block, rows, [texts])
    return CheckResult(Verdict(), found, adopted)


def held_changes(given: PartInput, txn: Txn, mode: Mode) -> list[TypeChange]:
    """Staged parts as a change set that holds their key columns: for finding out which rows have to go."""
    return [complete(adopt_ids(given.change(txn, key, mode), txn), txn) for key in given.tables]


def adopt_in_passes(given: PartInput, txn: Txn, mode: Mode, budget: Budget, view: PinnedView) -> dict[str, AdoptedIds]:
    """Committed ids that edges of a merge take over, by table."""
    found = {}
    for key in given.tables:
        adopted = _adopted(given, key, mode, budget, view, partial(given.blocks, txn))
        if adopted is not None:
            found[key] = adopted
    return found


def _adopted(
    given: PartInput, key: str, mode: Mode, budget: Budget, view: PinnedView, blocks: Callable[..., Iterator[Block]]
) -> AdoptedIds | None:
    """None where no edge of the table can take an id over."""
    group = adopting_group(given.catalog.by_table_key(key), mode, given.minted(key))
    if group is None:
        return None
    rows = given.rows(key)
    names = list(dict.fromkeys(("id", *group)))
    passes = []
    for pass_ in budget.passes(rows):
        about = rows // max(pass_.count, 1) + 1
        numbers, ids = committed_ids(key, group, blocks(key, names), view, rows=about, chosen=pass_.mine)
        passes.append((numbers.astype(np.int32) if rows < 1 << 31 else numbers, ids))
    return AdoptedIds(tuple(passes))


class _KeyChecks:
    def __init__(self, given: PartInput, txn: Txn, mode: Mode, budget: Budget, values: bool) -> None:
        self._given = given
        self._txn = txn
        self._mode: Mode = mode
        self._budget = budget
        self._values = values
        types = [given.catalog.by_table_key(key) for key in given.tables]
        self._evaluation = StreamedEvaluation(
            types, given.catalog, mode, txn, txn.engine.limits, values=values, found_nodes_max=_FOUND_NODES_MAX
        )
        if given.malformed:
            self._evaluation.stop_asking()  # rows are missing that others may depend on
        self._adopted: dict[str, AdoptedIds] = {}
        self._held: dict[str, list[Block]] = {}  # small enough to be read once

    def run(self) -> CheckResult:
        checks = self._evaluation.checks
        uniques: list[tuple[str, tuple[str, ...]]] = []
        counted: list[str] = []
        for key, one in checks.items():
            uniques += [(key, group) for group in unique_groups(one.type)]
            counted += [key] if one.card is not None else []
            needs_ids = one.card is not None and isinstance(one.type, EdgeType) and bool(one.type.card.min)
            forget_texts(one.rewritten, self._rows(key), keeps_ids=needs_ids and self._budget.is_plain(self._rows(key)))
            # These two have passes of their own, when all ids are known.
            one.uniques, one.card = [], None
        for key, one in checks.items():
            if self._evaluation.asks:
                self._adopt(key)
                self._evaluation.report(key, self._lacking(key))
            for block in self._blocks(key, None if self._values else ["id", *_ends_of(one.type)]):
                self._evaluation.feed(key, block)
            self._forget_ids(key)
        for key, group in uniques:
            self._unique(key, group)
        for key in counted:
            self._cardinality(key)
        verdict = self._evaluation.finish(self._given.malformed, self._given.bad_values)
        return CheckResult(verdict, {key: one.rewritten.given_rows for key, one in checks.items()}, self._adopted)

    def _rows(self, key: str) -> int:
        return self._given.rows(key)

    def _blocks(self, key: str, names: list[str] | None) -> Iterator[Block]:
        declared = self._given.catalog.by_table_key(key)
        if names is None:
            return self._given.blocks(self._txn, key, table_schema(declared).names)
        adopted = self._adopted.get(key)
        if not self._budget.is_plain(self._rows(key)):
            return self._given.blocks(self._txn, key, names, adopted)
        if key not in self._held:
            self._held[key] = list(self._given.blocks(self._txn, key, key_columns(declared)))
        if adopted is None:
            return iter(self._held[key])
        # Edges that took an id over are committed ones only now.
        unnamed = self._given.unnamed(key)
        return (completed(adopted.put_into(block), unnamed, self._txn) for block in self._held[key])

    def _lacking(self, key: str) -> Iterator[Finding]:
        """New rows of a patch without what the schema requires."""
        unnamed = required(self._given.catalog.by_table_key(key), self._given.unnamed(key))
        if unnamed:
            yield from lacking(self._blocks(key, ["id"]), unnamed, self._evaluation.view)

    # --- ids and endpoints, block by block -------------------------------------------------------------------------------

    def _adopt(self, key: str) -> None:
        adopted = _adopted(self._given, key, self._mode, self._budget, self._evaluation.view, self._blocks)
        if adopted is not None:
            self._adopted[key] = adopted

    def _forget_ids(self, key: str) -> None:
        """Texts that took part already, unless they will be looked up."""
        adopted, ids = self._adopted.get(key), self._evaluation.checks[key].rewritten.given
        is_large = not self._budget.is_plain(self._rows(key)) and is_scanned(len(ids), self._txn.rows(key))
        if adopted is not None and is_large:
            self._adopted[key] = adopted.without_ids()

    # --- tuples and numbers of edges, in passes --------------------------------------------------------------------------

    def _unique(self, key: str, group: tuple[str, ...]) -> None:
        checks = self._evaluation.checks[key]
        for pass_ in self._budget.passes(self._rows(key)):
            rule = UniqueRule(checks.type, group, self._mode)
            if not pass_.is_plain:
                rule = PassUnique(checks.type, group, self._mode, pass_, self._rows(key), self._again(key))
            for block in self._blocks(key, list(dict.fromkeys(("id", *group)))):
                self._evaluation.report(key, rule.feed(block))
            if self._evaluation.asks:
                self._evaluation.report(key, rule.ask(self._evaluation.view, checks.rewritten), asked=True)

    def _cardinality(self, key: str) -> None:
        checks = self._evaluation.checks[key]
        assert isinstance(checks.type, EdgeType)
        rows = self._rows(key)
        for pass_ in self._budget.passes(rows):
            rule = CardinalityRule(checks.type, self._mode, checks.rewritten)
            if not pass_.is_plain:
                rule = PassCardinality(checks.type, self._mode, checks.rewritten, pass_, rows, self._again(key))
            for block in self._blocks(key, ["id", "src"]):
                rule.feed(block)
            if self._evaluation.asks:
                nodes = self._evaluation.presence(checks.type.src_type).alike()
                self._evaluation.report(key, rule.ask(self._evaluation.view, nodes), asked=True)

    def _again(self, key: str) -> Any:
        return partial(self._given.read_again, self._txn, key, adopted=self._adopted.get(key))


def _ends_of(declared: TableType) -> list[str]:
    return list(ENDS) if isinstance(declared, EdgeType) else []
