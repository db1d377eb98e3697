"""A merge of staged parts: which rows replace which, shared among workers, in one transaction a table.

Owns the lowering of a merge that no process could hold: here are keys and addresses only. Rows are compared, written and
carried over by ``part_rewrite`` wherever the workers are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.commit.plan import Counts
from omnigraph.commit.run import Action
from omnigraph.commit.txn import Txn
from omnigraph.table import parts as parts_
from omnigraph.table import staged as fragments_
from omnigraph.write.arrays import one_array, positions
from omnigraph.write.changes import RowIndex, TypeChange
from omnigraph.write.part import Workers
from omnigraph.write.part_input import ROW
from omnigraph.write.part_rewrite import Addresses, Rewrite, RewrittenRows, removals, remove, rewrite
from omnigraph.write.part_task import PartTask
from omnigraph.write.receipt import TableChange
from omnigraph.write.rejects import Rejected

if TYPE_CHECKING:
    from omnigraph.write.part_load import PartLoad

pc: Any = pyarrow.compute

_LOCATED_AT_ONCE: Final = 1 << 20


class PartMerge:
    """One plan of a merge."""

    def __init__(self, txn: Txn, task: PartTask, workers: Workers, load: PartLoad) -> None:
        self._txn = txn
        self._task = task
        self._workers = workers
        self._load = load
        self.unchanged: dict[str, TableChange] = {}
        self.records: dict[tuple[str, int], Any] = {}

    def actions(self, changes: Mapping[str, TypeChange], dropped: Mapping[str, list[Rejected]]) -> list[Action]:
        """One action a table that changes. ``changes``: the key columns of what stays, with the ids that they have."""
        found = []
        for key in sorted(changes):
            action = self._table(key, changes[key], dropped.get(key, ()))
            if action is not None:
                found.append(action)
        return found

    def _table(self, key: str, change: TypeChange, dropped: Iterable[Rejected]) -> Action | None:
        pin = self._txn.pin(key)
        rows: RowIndex = change.rows.column(ROW).to_numpy()
        replacing, addresses = self._located(change) if pin.rows else _nothing()
        adopted = self._adopted(key, change, rows)
        items = self._items(key, adopted, replacing, addresses, dropped)
        needed = [item for item, _ in items if item.is_needed]
        done = self._workers.each(partial(rewrite, self._task), needed)
        for item, result in zip(needed, done, strict=True):
            self._load.note_written(item.key, result.new)
        unchanged = sum(result.unchanged for result in done)
        self._note_records(key, items, done)
        new = self._fragments(items, done)
        replaced = [result.replaced for result in done if len(result.replaced)]
        updated = sum(len(one) for one in replaced)
        count = sum(int(fragment.physical_rows) for fragment in new)
        if not count:
            if unchanged:
                self.unchanged[key] = TableChange(pin.version, unchanged=unchanged)
            return None
        self._load.note_used(key, [fragments_.fragment_json(fragment) for fragment in new])
        counts = Counts(inserted=count - updated, updated=updated, unchanged=unchanged)
        if not updated:
            described = [fragments_.fragment_json(fragment) for fragment in new]
            return self._load.sending(key, lambda handle: fragments_.append_transaction(handle, described), counts)
        removed = self._workers.each(partial(remove, self._task), removals(key, replaced))
        base = self._task.targets[key].table.relative
        files = {f"{base}/{one.file[0]}" for one in removed if one.file is not None}
        self._load.written |= files
        self._load.used |= files
        kept = [one.updated for one in removed if one.updated is not None]
        gone = [one.fragment for one in removed if one.updated is None]
        return self._load.sending(key, lambda handle: parts_.update_of(handle, new, kept, gone), counts)

    # --- what replaces what --------------------------------------------------------------------------------------------

    def _located(self, change: TypeChange) -> tuple[RowIndex, Addresses]:
        """Staged rows whose id is committed, and the addresses of the rows that they replace."""
        rows: RowIndex = change.rows.column(ROW).to_numpy()
        table = self._txn.pinned(change.table_key)
        found_rows, found_addresses = [], []
        for start in range(0, len(rows), _LOCATED_AT_ONCE):
            ids = one_array(change.rows.column("id").slice(start, _LOCATED_AT_ONCE), pa.utf8())
            located = table.locate(ids)
            if not located.num_rows:
                continue
            place = pc.index_in(located.column("id"), value_set=ids).to_numpy()
            found_rows.append(rows[start : start + len(ids)][place])
            found_addresses.append(located.column("_rowaddr").to_numpy().astype(np.uint64))
        if not found_rows:
            return _nothing()
        every = np.concatenate(found_rows)
        order = np.argsort(every, kind="stable")
        return every[order], np.concatenate(found_addresses)[order]

    def _items(
        self,
        key: str,
        adopted: Mapping[int, str],
        replacing: RowIndex,
        addresses: Addresses,
        dropped: Iterable[Rejected],
    ) -> list[tuple[Rewrite, int]]:
        """Every staged fragment with what becomes of it."""
        items = []
        for item, first in self._load.rewrites(key, dropped).with_first_rows():
            count = fragments_.rows_of(item.described)
            low, high = np.searchsorted(replacing, [first, first + count])
            ids = {row - first: text for row, text in adopted.items() if first <= row < first + count}
            items.append(
                (
                    Rewrite(
                        key,
                        item.described,
                        item.dropped,
                        item.dropped_minted,
                        ids,
                        replacing[low:high] - first,
                        addresses[low:high],
                    ),
                    first,
                )
            )
        return items

    def _adopted(self, key: str, change: TypeChange, rows: RowIndex) -> dict[int, str]:
        """Rows that were staged under a made id and take that of a committed edge."""
        was = self._load.given.minted(key)
        if was is False:
            return {}
        now = change.minted_rows()
        before = np.full(len(rows), was) if isinstance(was, bool) else was[rows]
        at = np.flatnonzero(before & ~now)
        if not len(at):
            return {}
        texts: list[Any] = change.rows.column("id").take(positions(at)).to_pylist()
        return dict(zip(rows[at].tolist(), texts, strict=True))

    # --- what it came to -------------------------------------------------------------------------------------------------

    def _note_records(self, key: str, items: list[tuple[Rewrite, int]], done: list[RewrittenRows]) -> None:
        results = iter(done)
        for item, first in items:
            if item.is_needed:
                records = next(results).records
                self.records |= {
                    (key, first + int(row)): record for row, record in zip(item.dropped, records, strict=True)
                }

    def _fragments(self, items: list[tuple[Rewrite, int]], done: list[RewrittenRows]) -> list[Any]:
        """Lance's own values: they carry row ids."""
        results = iter(done)
        found: list[Any] = []
        for item, _ in items:
            if item.is_needed:
                found += next(results).carried
            else:
                found.append(fragments_.fragment_of(item.described))
        return found


def _nothing() -> tuple[RowIndex, Addresses]:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
