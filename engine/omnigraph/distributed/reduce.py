"""The verdict on one partition of a batch: the rules themselves, on the rows whose keys fell to it and what is committed of them.

Owns the half of a partitioned check that compares. The rules are those of any load; here they are fed the rows of a partition,
numbered anew, and asked of a view that holds the committed rows of the partition. What they say names rows by their number in
the table: which records these are is known where the batch is put together. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.distributed.map import CARD, IDS, Questions, node_of, unique_about
from omnigraph.distributed.shuffle import ADDRESS, ROW, Piece, PieceKind
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, TableType
from omnigraph.table.arrays import one_array
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import RecordingView, RowIndex
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import Violation
from omnigraph.write.base.wording import Wording
from omnigraph.write.rules.edge_rules import CardinalityRule, Loose, NodePresence, orphans, unresolved_ends
from omnigraph.write.rules.endpoint_policy import StubRules
from omnigraph.write.rules.key_rules import IdRule, Rewritten, UniqueRule, unique_groups
from omnigraph.write.rules.validate import count_ids, judged_ends

pc: Any = pyarrow.compute

# No text of a message holds it: what is not printable is written otherwise.
PLACEHOLDER: Final = "\x00"


@dataclass(frozen=True)
class Found:
    """What one rule has against the rows of a partition. ``local``: without having asked the graph. ``rank`` puts rules in the
    order in which a load would go through them. ``shown``: the first violations, by row; ``reasons``: those of every row
    that would have to leave, where that was asked for. ``ends``: nodes that edges name and that do not exist."""

    table_key: str
    code: str
    local: bool
    rank: tuple[int, str, int]
    total: int
    shown: tuple[Violation, ...]
    reasons: tuple[tuple[int, Violation], ...] = ()
    ends: MissingEnds | None = None


@dataclass(frozen=True)
class MissingEnds:
    """Nodes of one type that do not exist: how often edges of the partition name each, the most frequent first, and for edges
    that will refer to a stub their rows."""

    node: str
    counts: Mapping[str, int]
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class PartitionResult:
    """``matches``: by table, rows of the batch and the addresses of the committed rows that have their ids."""

    found: tuple[Found, ...] = ()
    reads: frozenset[str] = frozenset()
    matches: Mapping[str, tuple[RowIndex, npt.NDArray[np.uint64]]] = field(default_factory=dict)


@dataclass(frozen=True)
class ReducePartition:
    """Check one partition. Picklable. ``every``: all rows that would have to leave are named with their reasons. ``stubs``: for
    which missing ends stubs can be made; without, for none."""

    catalog: Catalog
    asked: Questions
    every: bool = False
    stubs: StubRules | None = None

    def __call__(self, partition: int, pieces: Iterable[Piece]) -> PartitionResult:
        return _Partition(self, pieces).run()


class PartitionView:
    """Committed rows of one partition. A table may be there several times, by what its rows were divided by."""

    def __init__(self, tables: Sequence[tuple[str, pa.Table]]) -> None:
        self._tables = tables

    def rows(self, table_key: str) -> int:
        return max((rows.num_rows for key, rows in self._tables if key == table_key), default=0)

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        found: pa.BooleanArray = pc.is_in(ids, value_set=self._of(table_key, ["id"]).column("id"))
        return found

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        rows = self._of(table_key, [column, *columns])
        return rows.filter(pc.is_in(rows.column(column), value_set=values)).select(list(columns))

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._of(table_key, columns).select(list(columns)).to_batches()

    def _of(self, table_key: str, columns: Sequence[str]) -> pa.Table:
        return next(rows for key, rows in self._tables if key == table_key and set(columns) <= set(rows.column_names))


class _ByRow(Wording):
    """Places are the numbers of rows in their table; the driver replaces them by records."""

    def record(self, row: int) -> str:
        return f"{PLACEHOLDER}{self.places.place(row)[0]}{PLACEHOLDER}"


@dataclass(frozen=True)
class _Numbers:
    rows: RowIndex

    def place(self, row: int) -> tuple[int, str | None, int]:
        return int(self.rows[row]), None, 0


class _PartitionCardinality(CardinalityRule):
    """Edges that go are not among the committed ones here; which sources had some came along."""

    def __init__(self, edge: EdgeType, asked: Questions, gone: pa.Array[Any]) -> None:
        super().__init__(edge, "overwrite" if asked.mode == "overwrite" else "append", Rewritten(asked.mode))
        self._gone = gone

    def _lost(self, view: Any) -> pa.Array[Any]:
        return self._gone


class _Partition:
    def __init__(self, reducing: ReducePartition, pieces: Iterable[Piece]) -> None:
        self._catalog = reducing.catalog
        self._asked = reducing.asked
        self._every = reducing.every
        self._stubs = reducing.stubs
        self._rows: dict[PieceKind, list[pa.RecordBatch]] = {}
        for piece in pieces:
            self._rows.setdefault(piece.kind, []).append(piece.rows)
        self._reads: set[str] = set()
        self._found: list[Found] = []
        self._given: dict[str, Rewritten] = {}
        self._matches: dict[str, tuple[RowIndex, npt.NDArray[np.uint64]]] = {}

    def run(self) -> PartitionResult:
        declared = [self._catalog.by_table_key(key) for key in sorted(self._asked.keys)]
        nodes = [one for one in declared if isinstance(one, NodeType)]
        edges = [one for one in declared if isinstance(one, EdgeType)]
        every: list[TableType] = [*nodes, *edges]
        for one in every:
            self._ids(one)
            if self._asked.others:
                for number, group in enumerate(unique_groups(one)):
                    self._unique(one, number, group)
        if self._asked.asks:
            for edge in edges:
                self._ends(edge)
                self._cardinality(edge)
            for node in nodes:
                self._orphans(node)
        return PartitionResult(tuple(self._found), frozenset(self._reads), self._matches)

    # --- rows of the partition ---------------------------------------------------------------------------------------------

    def _staged(self, declared: TableType, about: str) -> tuple[Block, RowIndex] | None:
        """The rows of the batch in their order, numbered from 0, and their numbers in the table."""
        batches = self._rows.get(PieceKind(declared.table_key, "staged", about))
        if not batches:
            return None
        ordered = sorted(batches, key=lambda batch: batch.column(ROW)[0].as_py())
        rows = pa.Table.from_batches(ordered).combine_chunks().to_batches()[0]
        numbers: RowIndex = rows.column(ROW).to_numpy()
        return Block(rows, 0, False, _ByRow(declared, _Numbers(numbers))), numbers

    def _committed(self, key: str, about: str, *, side: str = "committed") -> pa.Table | None:
        batches = self._rows.get(PieceKind(key, side, about))  # type: ignore[arg-type]  # a literal at every call
        return pa.Table.from_batches(batches) if batches else None

    def _view(self, *tables: tuple[str, pa.Table | None]) -> RecordingView:
        return RecordingView(PartitionView([(key, rows) for key, rows in tables if rows is not None]))

    # --- rules ---------------------------------------------------------------------------------------------------------

    def _ids(self, declared: TableType) -> None:
        key, mode = declared.table_key, self._asked.mode
        staged = self._staged(declared, IDS)
        if staged is None:
            return
        block, numbers = staged
        rewritten = self._given[key] = Rewritten(mode)
        rule = IdRule(declared, mode, rewritten)
        findings = list(rule.feed(block))
        if not (self._asked.ids and key in self._asked.given):
            return  # they are here as nodes only
        self._note(declared, findings, (0, "", 0), local=True)
        committed = self._committed(key, IDS)
        if self._asked.asks and mode == "append":
            view = self._view((key, committed))
            self._note(declared, rule.ask(view), (0, "", 0), local=False)
            self._reads |= view.reads
        if committed is not None and mode == "merge":
            at = rewritten.given.find(one_array(committed.column("id"), pa.utf8()))
            hit = np.flatnonzero(at >= 0)
            addresses = one_array(committed.column(ADDRESS), pa.uint64()).to_numpy()
            self._matches[key] = numbers[rewritten.given_rows.rows_at(at[hit])], addresses[hit]

    def _unique(self, declared: TableType, number: int, group: tuple[str, ...]) -> None:
        staged = self._staged(declared, unique_about(number))
        if staged is None:
            return
        block, _ = staged
        rule = UniqueRule(declared, group, self._asked.mode)
        self._note(declared, rule.feed(block), (1 + number, "", 0), local=True)
        if not self._asked.asks:
            return
        rewritten = Rewritten(self._asked.mode)
        if self._asked.mode == "append":
            given = np.flatnonzero(block.batch.column("id").is_valid().to_numpy(zero_copy_only=False))
            minted = np.ones(block.batch.num_rows, dtype=np.bool_)
            minted[given] = False
            for _ in IdRule(declared, "merge", rewritten).feed(replace(block, minted=minted)):
                pass  # said where ids are compared
        view = self._view((declared.table_key, self._committed(declared.table_key, unique_about(number))))
        # What a merge replaces is not among the committed rows here: each that is here stays.
        self._note(declared, rule.ask(view, rewritten), (1 + number, "", 0), local=False)
        self._reads |= view.reads

    def _presence(self, node: NodeType) -> NodePresence:
        held = self._given.get(node.table_key)
        replaced = self._asked.mode == "overwrite" and node.table_key in self._asked.keys
        if held is None and node.table_key in self._asked.keys:
            self._ids(node)
            held = self._given.get(node.table_key)
        return NodePresence(node, held.given if held else None, replaced_all=replaced, deleted=None)

    def _ends(self, edge: EdgeType) -> None:
        for place, end in enumerate(ENDS):
            staged = self._staged(edge, end)
            if staged is None:
                continue
            node = node_of(self._catalog, edge, end)
            presence = self._presence(node)
            unresolved = unresolved_ends(staged[0], end, presence)
            if unresolved is None:
                continue
            view = self._view((node.table_key, self._committed(node.table_key, IDS)))
            for _, finding in presence.check(view, [unresolved]):
                for one in judged_ends(edge, finding, self._stubs):
                    if one.code == v.STUB:
                        self._note_stubs(edge, one.finding, staged[1])
                    else:
                        self._note(edge, [one.finding], (100, node.name, place), local=False)
            self._reads |= view.reads

    def _cardinality(self, edge: EdgeType) -> None:
        if not self._asked.others or edge.card.is_unbounded:
            return
        gone = self._committed(edge.table_key, CARD, side="gone")
        staged = self._staged(edge, CARD)
        if gone is None and staged is None:
            return
        none = pa.array([], pa.utf8())
        lost = none if gone is None else pc.unique(gone.column("src"))
        rule = _PartitionCardinality(edge, self._asked, lost)
        if staged is not None:
            rule.feed(staged[0])
        node = node_of(self._catalog, edge, "src")
        committed = self._committed(edge.table_key, CARD)
        view = self._view((edge.table_key, committed), (node.table_key, self._committed(node.table_key, IDS)))
        self._note(edge, rule.ask(view, self._presence(node)), (200, "", 0), local=False)
        self._reads |= view.reads
        if gone is not None:
            self._reads.add(edge.table_key)

    def _orphans(self, node: NodeType) -> None:
        committed = self._committed(node.table_key, IDS)
        if self._asked.mode != "overwrite" or not self._asked.ids:
            return
        ends = {
            edge.table_key: (edge, [end for end in lost if node_of(self._catalog, edge, end).name == node.name])
            for edge in self._catalog.edges.values()
            if (lost := self._asked.loses_nodes(self._catalog, edge))
        }
        if committed is None:
            return
        self._reads.add(node.table_key)
        ids: pa.Array[Any] = one_array(committed.column("id"), pa.utf8())
        held = self._given.get(node.table_key)
        gone = ids.filter(pa.array(~held.given.has(ids))) if held is not None and len(held.given) else ids
        for edge, lost in ends.values():
            tables = []
            for end in lost:
                rows = self._committed(edge.table_key, end)
                empty = pa.schema([table_schema(edge).field("id"), table_schema(edge).field(end)]).empty_table()
                tables.append((edge.table_key, empty if rows is None else rows))
            if tables:
                view = self._view(*tables)
                self._note(edge, orphans(view, edge, node, gone, Rewritten()), (300, "", 0), local=False)
                self._reads |= view.reads

    # --- what they say ---------------------------------------------------------------------------------------------------

    def _note(
        self, declared: TableType, findings: Iterable[Finding | Loose], rank: tuple[int, str, int], *, local: bool
    ) -> None:
        for one in findings:
            if isinstance(one, Loose):
                shown = tuple(one.describe(i) for i in range(min(one.count, v.SHOWN_MAX)))
                if shown:
                    self._found.append(Found(declared.table_key, shown[0].code, local, rank, one.count, shown))
                continue
            if not len(one.rows):
                continue
            shown = tuple(one.describe(int(row)) for row in one.rows[: v.SHOWN_MAX])
            reasons: tuple[tuple[int, Violation], ...] = ()
            if self._every:
                said = [one.describe(int(row)) for row in one.all_rows()]
                reasons = tuple((violation.record or 0, violation) for violation in said)
            ends = None
            if one.missing is not None:
                counts = count_ids(one.missing.ids)
                ends = MissingEnds(one.missing.node, counts if self._every else v.most_frequent(counts))
            found = Found(declared.table_key, shown[0].code, local, rank, len(one.rows), shown, reasons, ends)
            self._found.append(found)

    def _note_stubs(self, edge: EdgeType, finding: Finding | Loose, numbers: RowIndex) -> None:
        """Edges whose missing end will be a stub."""
        assert isinstance(finding, Finding) and finding.missing is not None
        rows = tuple(numbers[finding.rows].tolist())
        ends = MissingEnds(finding.missing.node, count_ids(finding.missing.ids), rows)
        self._found.append(Found(edge.table_key, v.STUB, False, (100, finding.missing.node, 0), 0, (), (), ends))
