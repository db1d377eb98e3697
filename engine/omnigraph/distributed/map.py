"""What one stretch of rows contributes to a partitioned check: the columns that rules compare, cut into partitions.

Owns reading, on whichever machine: a staged fragment, or fragments of a committed table at its pin. What is asked says which
columns go where; nothing is checked here. Credentials come from the environment that it runs in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.distributed.id_reuse import AdoptedIds
from omnigraph.distributed.patch_rows import OneTable, completed
from omnigraph.distributed.shuffle import ADDRESS, ROW, Partitioning, Piece, PieceKind, Side
from omnigraph.distributed.stage_task import PartTask
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, TableType
from omnigraph.table import staged as fragments_
from omnigraph.table.arrays import nulls, one_array, positions
from omnigraph.table.dataset import Tables
from omnigraph.table.keys import KeyCache
from omnigraph.table.pinned import PinnedTable
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import Mode, RowIndex, Unnamed
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.wording import NOWHERE, Wording
from omnigraph.write.rules.key_rules import is_keyable, unique_groups

pc: Any = pyarrow.compute

IDS: Final = "ids"
CARD: Final = "card"
_KEY_CACHE_BYTES: Final = 1 << 20  # nothing is looked up by key here
_LOOKED_UP_BYTES: Final = 64 << 20  # of a patch, rows whose values are kept are


def unique_about(number: int) -> str:
    return f"unique:{number}"


@dataclass(frozen=True)
class Questions:
    """What one round is to find out. ``ids``: ids and endpoints. ``others``: unique tuples and numbers of edges; in a merge
    these have to know which committed rows go. ``asks``: whether the graph is asked at all."""

    mode: Mode
    keys: frozenset[str]  # tables of the batch
    given: frozenset[str]  # of these, those with rows that have ids of their own
    ids: bool = True
    others: bool = True
    asks: bool = True

    # --- which tables are needed for what -----------------------------------------------------------------------------

    def ends(self, catalog: Catalog) -> list[EdgeType]:
        """Edge types of the batch whose endpoints are to be there."""
        return [one for one in self._edges(catalog) if self.ids and self.asks]

    def _edges(self, catalog: Catalog) -> list[EdgeType]:
        found = [catalog.by_table_key(key) for key in sorted(self.keys)]
        return [one for one in found if isinstance(one, EdgeType)]

    def _is_referred_to(self, catalog: Catalog, key: str) -> bool:
        if not self.asks:
            return False
        needed = {one for edge in self.ends(catalog) for one in (edge.src_type, edge.dst_type)}
        if self.others:
            needed |= {edge.src_type for edge in self._edges(catalog) if edge.card.min}
        return key in {catalog.node(name).table_key for name in needed}

    def sends_ids(self, catalog: Catalog, key: str) -> bool:
        """Whether ids that the batch gives rows of a table take part: as such, or as nodes that edges refer to."""
        return key in self.keys and ((self.ids and key in self.given) or self._is_referred_to(catalog, key))

    def committed_ids(self, catalog: Catalog, key: str) -> bool:
        if not self.asks:
            return False
        if self.mode == "overwrite" and key in self.keys:
            return any(key in self._lost_by(catalog, edge) for edge in catalog.edges.values())
        return (self.ids and key in self.given) or self._is_referred_to(catalog, key)

    def _lost_by(self, catalog: Catalog, edge: EdgeType) -> list[str]:
        """Node tables of which committed edges of a type may lose nodes."""
        return [node_of(catalog, edge, end).table_key for end in self.loses_nodes(catalog, edge)]

    def loses_nodes(self, catalog: Catalog, edge: EdgeType) -> list[str]:
        """The ends at which committed edges that stay may lose their node."""
        if not (self.asks and self.ids and self.mode == "overwrite") or edge.table_key in self.keys:
            return []
        return [end for end in ENDS if node_of(catalog, edge, end).table_key in self.keys]

    def committed_uniques(self, key: str) -> bool:
        return self.others and self.asks and self.mode != "overwrite" and key in self.keys

    def committed_card(self, declared: TableType) -> bool:
        """Whether committed edges count, or at least which sources had some."""
        if not (self.others and self.asks and declared.table_key in self.keys and isinstance(declared, EdgeType)):
            return False
        return not declared.card.is_unbounded and (self.mode != "overwrite" or bool(declared.card.min))

    def reads_committed(self, catalog: Catalog, declared: TableType) -> bool:
        key = declared.table_key
        return (
            self.committed_ids(catalog, key)
            or (self.committed_uniques(key) and bool(unique_groups(declared)))
            or self.committed_card(declared)
            or (isinstance(declared, EdgeType) and bool(self.loses_nodes(catalog, declared)))
        )


@dataclass(frozen=True)
class StagedItem:
    """One staged fragment. Rows are numbered in their table; ``dropped`` ones have left the batch."""

    key: str
    described: Mapping[str, Any]
    first_row: int
    minted: bool | npt.NDArray[np.bool_] = False
    adopted: AdoptedIds | None = None
    dropped: RowIndex | None = None
    unnamed: Unnamed = field(default_factory=dict)  # of the rows of this fragment


@dataclass(frozen=True)
class CommittedItem:
    """Fragments of a committed table; ``gone``: ascending addresses of the rows in them that the batch replaces."""

    key: str
    fragments: tuple[int, ...]
    gone: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))


Item = StagedItem | CommittedItem


@dataclass(frozen=True)
class MapRows:
    """The half of a partitioned check that reads. Picklable."""

    task: PartTask
    asked: Questions
    partitioning: Partitioning
    opened: Tables | None = field(default=None, repr=False)  # stays behind: tables that this process has open

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "opened": None}

    def __call__(self, item: Item, only: int | None = None) -> Iterator[Piece]:
        tables = self.opened or Tables(self.task.store)
        if isinstance(item, StagedItem):
            yield from self._staged(tables, item, only)
        else:
            yield from self._committed(tables, item, only)

    def _cut(
        self, kind: PieceKind, columns: Mapping[str, pa.Array[Any]], by: Sequence[str], only: int | None
    ) -> Iterator[Piece]:
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        yield from self.partitioning.cut(kind, rows, [columns[name] for name in by], only)

    # --- rows of the batch ---------------------------------------------------------------------------------------------

    def _staged(self, tables: Tables, item: StagedItem, only: int | None) -> Iterator[Piece]:
        declared = self.task.catalog.by_table_key(item.key)
        names = self._staged_columns(declared)
        if not names:
            return
        target = self.task.targets[item.key]
        handle = tables.open(target.table, target.pin)
        schema = table_schema(declared)
        first = item.first_row
        table = PinnedTable(lambda: handle, target.table, target.pin, handle.count_rows(), KeyCache(_LOOKED_UP_BYTES))
        view = OneTable(item.key, table, table.rows)
        for batch in fragments_.read_rows(tables, target.table, handle, [item.described], names):
            fields = [schema.field(name) for name in names]
            columns = [one_array(batch.column(one.name), one.type).cast(one.type) for one in fields]
            block = Block(
                pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)),
                first,
                _slice(item.minted, first - item.first_row, batch.num_rows),
                Wording(declared, NOWHERE),
            )
            first += batch.num_rows
            block = block if item.adopted is None else item.adopted.put_into(block)
            if item.unnamed:
                shifted = replace(block, first_row=block.first_row - item.first_row)
                block = replace(completed(shifted, item.unnamed, view), first_row=block.first_row)
            yield from self._block(declared, block, item, only)

    def _staged_columns(self, declared: TableType) -> list[str]:
        wanted: set[str] = set()
        if self.asked.sends_ids(self.task.catalog, declared.table_key):
            wanted |= {"id"}
        if isinstance(declared, EdgeType) and declared in self.asked.ends(self.task.catalog):
            wanted |= set(ENDS)
        if self.asked.others:
            for group in unique_groups(declared):
                wanted |= {"id", *group}
            if isinstance(declared, EdgeType) and not declared.card.is_unbounded:
                wanted |= {"src"}
        return [name for name in table_schema(declared).names if name in wanted]

    def _block(self, declared: TableType, block: Block, item: StagedItem, only: int | None) -> Iterator[Piece]:
        key, batch = declared.table_key, block.batch
        rows = np.arange(block.first_row, block.first_row + batch.num_rows, dtype=np.int64)
        given = np.ones(batch.num_rows, dtype=np.bool_)
        minted: Any = block.minted
        given &= ~np.full(batch.num_rows, minted) if isinstance(minted, bool) else ~minted
        if item.dropped is not None:
            kept = np.flatnonzero(~np.isin(rows, item.dropped, assume_unique=True))
            batch, rows, given = batch.take(positions(kept)), rows[kept], given[kept]
        if not len(rows):
            return
        if self.asked.sends_ids(self.task.catalog, key):
            at = np.flatnonzero(given)
            ids = batch.column("id") if len(at) == len(rows) else batch.column("id").take(positions(at))
            yield from self._cut(PieceKind(key, "staged", IDS), {ROW: pa.array(rows[at]), "id": ids}, ["id"], only)
        if isinstance(declared, EdgeType) and declared in self.asked.ends(self.task.catalog):
            for end in ENDS:
                columns = {ROW: pa.array(rows), end: batch.column(end)}
                yield from self._cut(PieceKind(key, "staged", end), columns, [end], only)
        if self.asked.others:
            yield from self._others(declared, batch, rows, given, only)

    def _others(
        self,
        declared: TableType,
        batch: pa.RecordBatch,
        rows: RowIndex,
        given: npt.NDArray[np.bool_],
        only: int | None,
    ) -> Iterator[Piece]:
        key = declared.table_key
        for number, group in enumerate(unique_groups(declared)):
            whole = _whole(batch, group)
            ids = pc.if_else(pa.array(given[whole]), batch.column("id").take(positions(whole)), nulls(1, pa.utf8())[0])
            columns = {ROW: pa.array(rows[whole]), "id": ids}
            columns |= {name: batch.column(name).take(positions(whole)) for name in group}
            by = group if all(is_keyable(declared, name) for name in group) else ()
            yield from self._cut(PieceKind(key, "staged", unique_about(number)), columns, by, only)
        if isinstance(declared, EdgeType) and not declared.card.is_unbounded:
            columns = {ROW: pa.array(rows), "src": batch.column("src")}
            yield from self._cut(PieceKind(key, "staged", CARD), columns, ["src"], only)

    # --- rows of the graph ---------------------------------------------------------------------------------------------

    def _committed(self, tables: Tables, item: CommittedItem, only: int | None) -> Iterator[Piece]:
        declared = self.task.catalog.by_table_key(item.key)
        target = self.task.targets[item.key]
        handle = tables.open(target.table, target.pin)
        table = PinnedTable(lambda: handle, target.table, target.pin, handle.count_rows(), KeyCache(_KEY_CACHE_BYTES))
        names = self._committed_columns(declared)
        for read in table.scan(names, with_row_address=True, fragments=list(item.fragments)):
            addresses: Any = one_array(read.column("_rowaddr"), pa.uint64())
            batch = pa.RecordBatch.from_arrays(
                [one_array(read.column(n), read.schema.field(n).type) for n in names], names
            )
            if self.asked.committed_ids(self.task.catalog, item.key):
                columns = {ADDRESS: addresses, "id": batch.column("id")}
                yield from self._cut(PieceKind(item.key, "committed", IDS), columns, ["id"], only)
            if isinstance(declared, EdgeType):
                for end in self.asked.loses_nodes(self.task.catalog, declared):
                    columns = {"id": batch.column("id"), end: batch.column(end)}
                    yield from self._cut(PieceKind(item.key, "committed", end), columns, [end], only)
            stay = ~np.isin(addresses.to_numpy(), item.gone, assume_unique=True)
            if self.asked.committed_uniques(item.key):
                yield from self._committed_uniques(declared, batch, np.flatnonzero(stay), only)
            if self.asked.committed_card(declared):
                yield from self._sources(item.key, batch, stay, only)

    def _committed_columns(self, declared: TableType) -> list[str]:
        key, wanted = declared.table_key, {"id"}
        if isinstance(declared, EdgeType):
            wanted |= set(self.asked.loses_nodes(self.task.catalog, declared))
        if self.asked.committed_uniques(key):
            wanted |= {name for group in unique_groups(declared) for name in group}
        if self.asked.committed_card(declared):
            wanted |= {"src"}
        return [name for name in table_schema(declared).names if name in wanted]

    def _committed_uniques(
        self, declared: TableType, batch: pa.RecordBatch, stay: RowIndex, only: int | None
    ) -> Iterator[Piece]:
        left = batch.take(positions(stay))
        for number, group in enumerate(unique_groups(declared)):
            if not all(is_keyable(declared, name) for name in group):
                continue
            whole = _whole(left, group)
            columns = {name: left.column(name).take(positions(whole)) for name in dict.fromkeys(("id", *group))}
            yield from self._cut(PieceKind(declared.table_key, "committed", unique_about(number)), columns, group, only)

    def _sources(
        self, key: str, batch: pa.RecordBatch, stay: npt.NDArray[np.bool_], only: int | None
    ) -> Iterator[Piece]:
        """Sources of edges that stay, and of edges that go: those may be left with too few."""
        if self.asked.mode == "overwrite":
            stay = np.zeros(len(stay), dtype=np.bool_)
        sides: tuple[tuple[Side, Any], ...] = (("committed", stay), ("gone", ~stay))
        for side, mask in sides:
            columns = {"src": batch.column("src").filter(pa.array(mask))}
            yield from self._cut(PieceKind(key, side, CARD), columns, ["src"], only)


def _whole(batch: pa.RecordBatch, group: Sequence[str]) -> RowIndex:
    """Rows without a null in the tuple."""
    mask = np.ones(batch.num_rows, dtype=np.bool_)
    for name in group:
        if batch.column(name).null_count:
            mask &= batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(mask)


def _slice(minted: bool | npt.NDArray[np.bool_], start: int, count: int) -> bool | npt.NDArray[np.bool_]:
    return minted if isinstance(minted, bool) else minted[start : start + count]


def node_of(catalog: Catalog, edge: EdgeType, end: str) -> NodeType:
    return catalog.node(edge.src_type if end == "src" else edge.dst_type)
