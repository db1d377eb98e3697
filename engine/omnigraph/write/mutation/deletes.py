"""What the delete statements of one query take away: rows by predicate, and with nodes every edge that touches them.

Owns that overlapping statements count a row once, and the cascade. A row is known by its address at the pin; ids are
read only where they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.gq import DeleteEdge, DeleteNode
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, TableType
from omnigraph.table.arrays import chunked, one_array, positions
from omnigraph.table.distinct import sorted_distinct
from omnigraph.table.select import Addresses, Selection, addresses_of
from omnigraph.write.base.changes import TypeChange


@dataclass
class _Gone:
    """Rows of one table that leave, each once."""

    type: TableType
    addresses: Addresses = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    ids: list[pa.Array[Any]] = field(default_factory=list)

    def add(self, rows: pa.Table) -> int:
        """Rows with ``_rowaddr``, and ``id`` where ids are wanted; how many of them were not gone already."""
        mine, first = np.unique(addresses_of(rows), return_index=True)
        new = ~np.isin(mine, self.addresses)
        self.addresses = sorted_distinct(np.concatenate([self.addresses, mine]))
        if "id" in rows.column_names:
            self.ids.append(one_array(rows.column("id"), pa.utf8()).take(positions(first[new])))
        return int(new.sum())

    @property
    def all_ids(self) -> pa.Array[Any]:
        return one_array(chunked(self.ids, pa.utf8()), pa.utf8())


class Removals:
    """The delete statements of one query, against one transaction."""

    def __init__(self, catalog: Catalog, selection: Selection) -> None:
        self._catalog = catalog
        self._selection = selection
        self._gone: dict[str, _Gone] = {}

    def delete(self, statement: DeleteNode | DeleteEdge) -> int:
        """How many rows the statement removes that none before it did."""
        rows = self._selection.where(statement.type, statement.predicate, _columns(statement.type))
        return self._of(statement.type).add(rows)

    def cascade(self) -> int:
        """Take along the edges of all nodes that leave; how many of them no statement had named."""
        asked = [
            (edge, end, self._gone[node].all_ids)
            for edge in self._catalog.edges.values()
            for end, node in (("src", f"node:{edge.src_type}"), ("dst", f"node:{edge.dst_type}"))
            if node in self._gone and len(self._gone[node].addresses)
        ]
        if not asked:
            return 0
        found = self._selection.pointing(asked, [_columns(edge) for edge, _, _ in asked])
        return sum(self._of(edge).add(rows) for (edge, _, _), rows in zip(asked, found, strict=True))

    def _of(self, declared: TableType) -> _Gone:
        return self._gone.setdefault(declared.table_key, _Gone(declared))

    # --- what came of them --------------------------------------------------------------------------------------------

    def addresses(self) -> Iterator[tuple[TableType, pa.Array[Any]]]:
        """Per table that loses rows, where they are."""
        for _, gone in sorted(self._gone.items()):
            if len(gone.addresses):
                yield gone.type, pa.array(gone.addresses, pa.uint64())

    def changes(self) -> list[TypeChange]:
        """What the checks have to see: nothing, unless an edge type wants a least number of edges a source."""
        lost = [gone for _, gone in sorted(self._gone.items()) if len(gone.addresses)]
        if not any(_counted(gone.type) for gone in lost):
            return []
        return [
            TypeChange(
                gone.type,
                table_schema(gone.type).empty_table(),
                "merge",
                deleted_ids=gone.all_ids,
                cascaded=isinstance(gone.type, NodeType),
            )
            for gone in lost
            if isinstance(gone.type, NodeType) or _counted(gone.type)
        ]


def _counted(declared: TableType) -> bool:
    return isinstance(declared, EdgeType) and declared.card.min > 0


def _columns(declared: TableType) -> Sequence[str]:
    """Ids of nodes lead to their edges, ids of counted edges to their sources; others are not looked up."""
    return ("id",) if isinstance(declared, NodeType) or _counted(declared) else ()
