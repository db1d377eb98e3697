"""What the statements of one query have made of a type so far: rows that shadow the committed ones of their ids.

Owns the rule that later statements see earlier ones, and that one row per id is written in the end. It reads nothing
itself: committed rows are handed in, and remembered, so that they need not be read again to see what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.gq import Comparison
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import TableType
from omnigraph.table.arrays import one_array
from omnigraph.table.select import ADDRESS, selected

pc: Any = pyarrow.compute

Numbers = npt.NDArray[np.int64]


@dataclass
class _Inserted:
    """Rows of insert statements that no other statement has looked at yet, the newest of each id."""

    rows: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    minted: dict[str, bool] = field(default_factory=dict)


class PendingRows:
    """Rows by id, each as the last statement left it."""

    def __init__(self, declared: TableType) -> None:
        self.type = declared
        self.schema = table_schema(declared)
        self._rows: pa.Table = self.schema.empty_table()
        self._numbers: Numbers = np.empty(0, dtype=np.int64)  # of the statement that touched the row last
        self._minted: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._inserted = _Inserted()
        self._before: list[pa.Table] = []
        self._kept = frozenset(self.schema.names)

    # --- statements -------------------------------------------------------------------------------------------------

    def insert(self, row: Mapping[str, Any], number: int, *, minted: bool) -> None:
        """A whole row, ``id`` and ends included: it takes the place of any other of its id."""
        id_ = row["id"]
        self._kept = frozenset()
        for held in (self._inserted.rows, self._inserted.numbers, self._inserted.minted):
            held.pop(id_, None)  # the last one also stands last
        self._inserted.rows[id_] = row
        self._inserted.numbers[id_] = number
        self._inserted.minted[id_] = minted

    def update(self, committed: pa.Table, values: Mapping[str, Any], comparison: Comparison, number: int) -> int:
        """Assign ``values`` to pending rows that the comparison selects, and to ``committed`` rows (all columns and
        ``_rowaddr``) that it selected, unless they are shadowed. How many rows were meant."""
        self._settle()
        self._kept -= values.keys()
        hit = selected(self.type, comparison, self._rows)
        fresh = committed.filter(pa.array(~self._shadows(committed))) if self._rows.num_rows else committed
        if fresh.num_rows:
            self._before.append(self._shaped(fresh, [*self.schema.names, ADDRESS]))
        meant = int(hit.sum()) + fresh.num_rows
        if not meant:
            return 0
        kept = pa.array(~hit)
        changed = [self._rows.filter(pa.array(hit)), self._shaped(fresh, self.schema.names)]
        self._rows = pa.concat_tables([self._rows.filter(kept), self._assigned(pa.concat_tables(changed), values)])
        self._minted = np.concatenate([self._minted[~hit], self._minted[hit], np.zeros(fresh.num_rows, np.bool_)])
        self._numbers = np.concatenate([self._numbers[~hit], np.full(meant, number, dtype=np.int64)])
        return meant

    def _shadows(self, committed: pa.Table) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = pc.is_in(
            one_array(committed.column("id"), pa.utf8()), value_set=one_array(self._rows.column("id"), pa.utf8())
        ).to_numpy(zero_copy_only=False)
        return found

    def _assigned(self, rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
        everywhere: Any = pa.array(np.zeros(rows.num_rows, dtype=np.int64))
        for name, value in values.items():
            at = self.schema.get_field_index(name)
            one = pa.array([value], self.schema.field(at).type)
            rows = rows.set_column(at, self.schema.field(at), one.take(everywhere))
        return rows

    def _settle(self) -> None:
        """Take in what was inserted since. Deferred until it is asked for."""
        new, self._inserted = self._inserted, _Inserted()
        if not new.rows:
            return
        columns = [
            pa.array([row[name] for row in new.rows.values()], self.schema.field(name).type)
            for name in self.schema.names
        ]
        rows = pa.Table.from_arrays(columns, schema=self.schema)
        stays = ~np.isin(np.arange(self._rows.num_rows), self._replaced(rows))
        self._rows = pa.concat_tables([self._rows.filter(pa.array(stays)), rows])
        self._numbers = np.concatenate([self._numbers[stays], np.array(list(new.numbers.values()), dtype=np.int64)])
        self._minted = np.concatenate([self._minted[stays], np.array(list(new.minted.values()), dtype=np.bool_)])

    def _replaced(self, rows: pa.Table) -> Numbers:
        """Positions of pending rows whose ids come again."""
        if not self._rows.num_rows:
            return np.empty(0, dtype=np.int64)
        again = pc.is_in(
            one_array(self._rows.column("id"), pa.utf8()), value_set=one_array(rows.column("id"), pa.utf8())
        )
        return np.flatnonzero(again.to_numpy(zero_copy_only=False))

    def _shaped(self, rows: pa.Table, names: list[str]) -> pa.Table:
        """Columns under their declared fields: what storage adds to them would keep tables from being joined."""
        fields = [pa.field(ADDRESS, pa.uint64()) if name == ADDRESS else self.schema.field(name) for name in names]
        columns = [rows.column(field.name) for field in fields]
        cast = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, fields, strict=True)
        ]
        metadata: Any = self.schema.metadata
        return pa.Table.from_arrays(cast, schema=pa.schema(fields, metadata))

    # --- what came of them --------------------------------------------------------------------------------------------

    @property
    def rows(self) -> pa.Table:
        self._settle()
        return self._rows

    @property
    def numbers(self) -> Numbers:
        self._settle()
        return self._numbers

    @property
    def minted(self) -> npt.NDArray[np.bool_]:
        self._settle()
        return self._minted

    @property
    def kept(self) -> frozenset[str]:
        """Columns that no statement has written: all rows are committed ones, and as they were in these."""
        return self._kept

    @property
    def before(self) -> pa.Table:
        """Committed rows, with ``_rowaddr``, that pending rows are new states of, as far as they were handed in."""
        if not self._before:
            return self.schema.append(pa.field(ADDRESS, pa.uint64())).empty_table()
        return pa.concat_tables(self._before)

    def unlocated(self) -> pa.Array[Any]:
        """Ids of which it is not known yet whether they are committed."""
        ids = one_array(self.rows.column("id"), pa.utf8()).filter(pa.array(~self.minted))
        known = one_array(self.before.column("id"), pa.utf8())
        if not len(known) or not len(ids):
            return ids
        found: pa.Array[Any] = ids.filter(pc.invert(pc.is_in(ids, value_set=known)))
        return found

    def locate(self, committed: pa.Table) -> None:
        """Hand in the committed rows of ``unlocated`` ids."""
        if committed.num_rows:
            self._before.append(self._shaped(committed, [*self.schema.names, ADDRESS]))
