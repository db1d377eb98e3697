"""Checking a staged batch by partitions: what is asked of which rows, and the partitions' answers put together into one verdict.

Owns the rounds of such a check, and setting rows aside by it. Rows are read, brought together and compared by an
exchange, here in passes or on executors; here is a number or two a row at most. The rules are those of any load, and so is
the verdict.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.commit.txn import Txn
from omnigraph.distributed.batch_rows import PartInput
from omnigraph.distributed.id_reuse import AdoptedIds
from omnigraph.distributed.map import CommittedItem, Item, MapRows, Questions, StagedItem
from omnigraph.distributed.patch_rows import between, lacking, required
from omnigraph.distributed.reduce import PLACEHOLDER, Found, PartitionResult, ReducePartition
from omnigraph.distributed.shuffle import Exchange, Partitioning
from omnigraph.distributed.stage_task import PartTask
from omnigraph.schema.catalog import EdgeType
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import OriginLog
from omnigraph.write.base.changes import Mode, RowIndex
from omnigraph.write.base.rejects import Rejected
from omnigraph.write.base.violations import SHOWN_MAX, Violation, ViolationLog
from omnigraph.write.base.wording import Wording
from omnigraph.write.rules.endpoint_policy import EndpointPolicy, StubRules
from omnigraph.write.rules.key_rules import unique_groups
from omnigraph.write.rules.left_out import LeftOut
from omnigraph.write.rules.quarantine import Gone, made_stubs, sift_rounds
from omnigraph.write.rules.validate import Conflict, Verdict

STAGED_ROW_BYTES: Final = 400
"""What a row of the batch costs its partition, all rules together: texts of keys and what finds them."""

COMMITTED_ROW_BYTES: Final = 120
"""What a committed row costs its partition."""

ITEM_ROWS: Final = 1 << 20
"""Committed rows that are read at once."""

NOWHERE: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_PLACEHOLDERS: Final = re.compile(f"{PLACEHOLDER}([0-9]+){PLACEHOLDER}")

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class RowRef:
    """Stands for the record of a staged row until the row is read."""

    key: str
    row: int


@dataclass(frozen=True)
class PartitionedVerdict:
    """The verdict; for a merge, which committed row each row replaces; and what leaves, where that was wanted."""

    verdict: Verdict
    addresses: Mapping[str, Addresses] = field(default_factory=dict)
    left: LeftOut = field(default_factory=LeftOut)
    dropped: tuple[RowRef, ...] = ()


@dataclass
class PartitionedCheck:
    """One batch against the pins of one transaction. ``adopted``: ids that edges take over from committed ones."""

    given: PartInput
    txn: Txn
    task: PartTask
    mode: Mode
    exchange: Exchange
    memory_mb: float
    adopted: Mapping[str, AdoptedIds] = field(default_factory=dict)
    reads: frozenset[str] = frozenset()
    _gone: dict[str, RowIndex] = field(default_factory=dict)
    _stubs: StubRules | None = None
    _places: dict[str, OriginLog] = field(default_factory=dict)

    def validate(self) -> PartitionedVerdict:
        """Everything that is wrong."""
        return self._answered(self.round(every=False))

    def sift(self, policy: EndpointPolicy) -> PartitionedVerdict:
        """Take out rows until the rest stands: in the same rounds as where a batch is held."""
        limits = self.txn.engine.limits
        self._stubs = StubRules(self.given.catalog, policy, limits)
        rounds = _DriverRounds(self, Gone(policy))
        sift_rounds(rounds, policy)
        answered = self._answered(([*rounds.found], rounds.addresses))
        ids: dict[str, list[pa.Array[Any]]] = {}
        edges: dict[str, set[int]] = {}
        for one in rounds.found:
            if one.code == v.STUB and one.ends is not None:
                ids.setdefault(one.ends.node, []).append(pa.array(list(one.ends.counts), pa.utf8()))
                edges.setdefault(one.table_key, set()).update(one.ends.rows)
                rounds.gone.missing_ids.update(one.ends.counts)
        left = rounds.gone.left_out(made_stubs(self.given.catalog, ids, limits), sum(map(len, edges.values())))
        return replace(answered, left=left, dropped=tuple(rounds.dropped))

    # --- rounds --------------------------------------------------------------------------------------------------------

    def round(self, *, every: bool) -> tuple[list[Found], dict[str, Addresses]]:
        asks = not self.given.malformed
        given = frozenset(key for key in self.given.tables if self._minted(key) is not True)
        asked = Questions(self.mode, self.given.keys, given, asks=asks)
        lacking = [one for key in self.given.tables if asks for one in self._lacking(key, every)]
        if self.mode != "merge" or not asks or not self._has_others():
            answers = self._run(asked, {}, every)
            return [*lacking, *_found(answers)], self._addresses(answers)
        # Which committed rows go is known when ids have been compared.
        first = self._run(replace(asked, others=False), {}, every)
        addresses = self._addresses(first)
        gone = {key: np.sort(one[one != NOWHERE]) for key, one in addresses.items()}
        second = self._run(replace(asked, ids=False), gone, every)
        return [*lacking, *_found(first), *_found(second)], addresses

    def _lacking(self, key: str, every: bool) -> Iterator[Found]:
        """New rows of a patch without what the schema requires: their ids are looked up here."""
        unnamed = required(self.given.catalog.by_table_key(key), self.given.unnamed(key))
        if not unnamed:
            return
        gone = self._gone.get(key, np.empty(0, dtype=np.int64))
        for one in lacking(self.given.blocks(self.txn, key, ["id"], self.adopted.get(key)), unnamed, self.txn):
            rows = one.rows[~np.isin(one.rows, gone)].tolist()
            if rows:
                said = [replace(one.describe(row), record=row) for row in (rows if every else rows[:SHOWN_MAX])]
                reasons = tuple(zip(rows, said, strict=True)) if every else ()
                yield Found(key, v.REQUIRED, True, (0, "", 0), len(rows), tuple(said[:SHOWN_MAX]), reasons)

    def _has_others(self) -> bool:
        declared = [self.given.catalog.by_table_key(key) for key in self.given.tables]
        return any(unique_groups(one) or (isinstance(one, EdgeType) and not one.card.is_unbounded) for one in declared)

    def _run(self, asked: Questions, gone: Mapping[str, Addresses], every: bool) -> list[PartitionResult]:
        catalog = self.given.catalog
        items: list[Item] = [item for key in self.given.tables for item in self._staged_items(key)]
        bytes_ = STAGED_ROW_BYTES * sum(self.given.rows(key) for key in self.given.tables)
        for key in sorted(self.txn.state.tables):
            if self.txn.rows(key) and asked.reads_committed(catalog, catalog.by_table_key(key)):
                items += self._committed_items(key, gone.get(key))
                bytes_ += COMMITTED_ROW_BYTES * self.txn.rows(key)
        partitions = max(self.exchange.side_by_side, ceil(bytes_ / (self.memory_mb * (1 << 20))))
        partitioning = Partitioning(partitions, secrets.token_bytes(32))
        map_ = MapRows(self.task, asked, partitioning, self.txn.engine.tables)
        reduce_ = ReducePartition(catalog, asked, every, self._stubs)
        answers = self.exchange.run(map_, items, reduce_, partitions)
        self.reads = self.reads.union(*(one.reads for one in answers))
        return answers

    def _staged_items(self, key: str) -> list[StagedItem]:
        minted, adopted = self.given.minted(key), self.adopted.get(key)
        gone, unnamed = self._gone.get(key), self.given.unnamed(key)
        found = []
        for fragment in self.given.fragments(key):
            first, last = fragment.first_row, fragment.first_row + fragment.rows
            found.append(
                StagedItem(
                    key,
                    fragment.described,
                    first,
                    minted if isinstance(minted, bool) else minted[first:last],
                    None if adopted is None else adopted.between(first, last),
                    None if gone is None else gone[slice(*np.searchsorted(gone, [first, last]).tolist())],
                    between(unnamed, first, last),
                )
            )
        return found

    def _committed_items(self, key: str, gone: Addresses | None) -> list[CommittedItem]:
        found: list[CommittedItem] = []
        group: list[int] = []
        rows = 0
        for number, fragment in sorted(self.txn.pinned(key).layout.fragments.items()):
            group.append(number)
            rows += fragment.rows
            if rows >= ITEM_ROWS:
                found.append(_committed_item(key, group, gone))
                group, rows = [], 0
        if group:
            found.append(_committed_item(key, group, gone))
        return found

    def _minted(self, key: str) -> bool | npt.NDArray[np.bool_]:
        minted, adopted = self.given.minted(key), self.adopted.get(key)
        if adopted is not None and minted is True and any(len(rows) for rows in adopted.rows):
            return np.ones(0, dtype=np.bool_)  # some have ids by now
        return minted

    def _addresses(self, answers: Iterable[PartitionResult]) -> dict[str, Addresses]:
        found: dict[str, Addresses] = {}
        for answer in answers:
            for key, (rows, addresses) in answer.matches.items():
                if len(rows):
                    if key not in found:
                        found[key] = np.full(self.given.rows(key), NOWHERE, dtype=np.uint64)
                    found[key][rows] = addresses
        return found

    # --- what was found ------------------------------------------------------------------------------------------------

    def _answered(self, answered: tuple[list[Found], dict[str, Addresses]]) -> PartitionedVerdict:
        found, addresses = answered
        log = ViolationLog()
        log.merge(self.given.malformed)
        log.merge(self.given.bad_values)
        conflicts: dict[str, tuple[list[Violation], int]] = {}
        for one in found:
            if one.code == v.STUB:
                continue
            placed = [self._placed(violation) for violation in one.shown]
            log.extend(placed)
            log.count(one.code, one.total - len(placed))
            if one.ends is not None:
                log.missing_ids.update(one.ends.counts)
            if one.code == v.KEY_CONFLICT:
                listed, total = conflicts.get(one.table_key, ([], 0))
                conflicts[one.table_key] = ([*listed, *placed], total + one.total)
        taken = tuple(
            Conflict(key, tuple(one.id or "" for one in sorted(listed, key=lambda one: one.order)[:SHOWN_MAX]), total)
            for key, (listed, total) in sorted(conflicts.items())
        )
        return PartitionedVerdict(Verdict.of(log, taken, self.reads), addresses)

    def drop(self, falling: Sequence[Found], gone: Gone) -> list[RowRef]:
        """Take out all rows that these name, with all reasons that this round has for them. Returns those that are dropped."""
        reasons: dict[tuple[str, int], list[Violation]] = {}
        codes: dict[str, str] = {}
        for one in sorted(falling, key=lambda one: one.rank):
            codes[one.table_key] = one.code
            if one.ends is not None:
                gone.missing_ids.update(one.ends.counts)
            for row, violation in one.reasons:
                reasons.setdefault((one.table_key, row), []).append(violation)
        by_table: dict[str, list[int]] = {}
        for key, row in reasons:
            by_table.setdefault(key, []).append(row)
        dropped = []
        for key, rows in by_table.items():
            before = self._gone.get(key, np.empty(0, dtype=np.int64))
            self._gone[key] = np.union1d(before, np.array(rows, dtype=np.int64))
            if gone.drops(key, codes[key]):
                gone.note_dropped(key, len(rows))
                dropped += [RowRef(key, row) for row in rows]
        for (key, row), said in reasons.items():
            if not gone.drops(key, codes[key]):
                why = tuple(self._placed(one) for one in said)
                first = why[0]
                gone.rejected.append(
                    Rejected(RowRef(key, row), why, first.record or 0, first.source, first.source_order)
                )
        return dropped

    def _placed(self, violation: Violation) -> Violation:
        """Rows by their numbers in the table become records by their numbers in the sources."""
        if violation.record is None or violation.table_key is None:
            return violation
        key = violation.table_key
        if key not in self._places:
            self._places[key] = self.given.origins(key)
        places = self._places[key]
        wording = Wording(self.given.catalog.by_table_key(key), places)
        message = _PLACEHOLDERS.sub(lambda found: wording.record(int(found[1])), violation.message)
        return replace(violation, message=message).at(*places.place(violation.record))


def _committed_item(key: str, fragments: Sequence[int], gone: Addresses | None) -> CommittedItem:
    if gone is None or not len(gone):
        return CommittedItem(key, tuple(fragments))
    ends = np.array([fragments[0], fragments[-1] + 1], dtype=np.uint64) << np.uint64(32)
    low, high = np.searchsorted(gone, ends)
    return CommittedItem(key, tuple(fragments), gone[low:high].copy())


def _found(answers: Iterable[PartitionResult]) -> list[Found]:
    return [one for answer in answers for one in answer.found]


@dataclass
class _DriverRounds:
    """Rounds in which partitions answer both questions at once: what rows show by themselves, and what the graph says."""

    check: PartitionedCheck
    gone: Gone
    dropped: list[RowRef] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    addresses: dict[str, Addresses] = field(default_factory=dict)

    def local(self) -> list[Found]:
        self.found, self.addresses = self.check.round(every=True)
        return [one for one in self.found if one.local]

    def asked(self) -> list[Found]:
        return [one for one in self.found if not one.local]

    def drop(self, found: Sequence[Found]) -> int:
        before = len(self.gone.rejected)
        dropped = self.check.drop(found, self.gone)
        self.dropped += dropped
        return len(dropped) + len(self.gone.rejected) - before
