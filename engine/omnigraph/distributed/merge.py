"""A merge of staged parts: which rows replace which, shared among workers, in one transaction a table.

Owns the lowering of a merge that no process could hold: here is an address for each staged row and no more. Rows are
compared, written and carried over by ``rewrite`` wherever the workers are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.commit.properties import Counts
from omnigraph.commit.steps import AppendFiles, Step, UpdateFiles
from omnigraph.commit.txn import Txn
from omnigraph.distributed.batch_rows import ROW, PartInput
from omnigraph.distributed.driver import NOWHERE
from omnigraph.distributed.key_checks import CheckResult
from omnigraph.distributed.rewrite import Addresses, Rewrite, RewrittenRows, removals, remove, rewrite
from omnigraph.distributed.stage_task import PartTask
from omnigraph.table import staged as fragments_
from omnigraph.table.arrays import one_array, positions
from omnigraph.wire.receipt import TableChange
from omnigraph.write.base.changes import RowIndex, TypeChange
from omnigraph.write.base.committed_rows import is_scanned

if TYPE_CHECKING:
    from omnigraph.distributed.load import PartLoad

pc: Any = pyarrow.compute

_LOCATED_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True)
class Replacing:
    """For each staged row of a table the address of the committed row that it replaces, or ``NOWHERE``; and whether it
    takes over its id. None where no row does."""

    addresses: Addresses | None = None
    adopting: npt.NDArray[np.bool_] | None = None


def located(txn: Txn, given: PartInput, result: CheckResult, key: str) -> Replacing:
    """What the rows of a checked batch replace."""
    if result.addresses is not None:
        known = result.addresses.get(key)
        return Replacing() if known is None else Replacing(known, _adopting(given.rows(key), result, key))
    committed, ids = txn.pin(key).rows, result.ids[key]
    if not committed or not len(ids.keys):
        return Replacing()
    addresses: Addresses = np.full(given.rows(key), NOWHERE, dtype=np.uint64)
    table = txn.pinned(key)
    if is_scanned(len(ids.keys), committed):
        for batch in table.scan(["id"], with_row_address=True):
            at = ids.keys.find(batch.column("id"))
            hit = at >= 0
            addresses[ids.rows_at(at[hit])] = batch.column("_rowaddr").to_numpy()[hit]
    else:
        adopted = result.adopted.get(key)
        for block in given.blocks(txn, key, ["id"], adopted):
            rows = block.given()
            texts: pa.Array[Any] = block.batch.column("id")
            if rows is not None:
                texts = texts.take(positions(rows))
            at, found = _looked_up(table, texts)
            addresses[block.first_row + (at if rows is None else rows[at])] = found
    if not (addresses != NOWHERE).any():
        return Replacing()
    return Replacing(addresses, _adopting(given.rows(key), result, key))


def _adopting(rows: int, result: CheckResult, key: str) -> npt.NDArray[np.bool_] | None:
    adopted = result.adopted.get(key)
    if adopted is None or not any(len(one) for one in adopted.rows):
        return None
    mask = np.zeros(rows, dtype=np.bool_)
    for one in adopted.rows:
        mask[one] = True
    return mask


def located_changes(txn: Txn, given: PartInput, changes: Mapping[str, TypeChange], key: str) -> Replacing:
    """The same for the rows that are left after others were set aside."""
    change = changes[key]
    if not txn.pin(key).rows or not change.rows.num_rows:
        return Replacing()
    rows: RowIndex = change.rows.column(ROW).to_numpy()
    addresses: Addresses = np.full(given.rows(key), NOWHERE, dtype=np.uint64)
    for start in range(0, len(rows), _LOCATED_AT_ONCE):
        texts = one_array(change.rows.column("id").slice(start, _LOCATED_AT_ONCE), pa.utf8())
        at, found = _looked_up(txn.pinned(key), texts)
        addresses[rows[start + at]] = found
    if not (addresses != NOWHERE).any():
        return Replacing()
    was = given.minted(key)
    if was is False:
        return Replacing(addresses)
    before = np.full(len(rows), was) if isinstance(was, bool) else was[rows]
    mask = np.zeros(len(addresses), dtype=np.bool_)
    mask[rows[before & ~change.minted_rows()]] = True
    return Replacing(addresses, mask)


def _looked_up(table: Any, texts: pa.Array[Any]) -> tuple[RowIndex, Addresses]:
    """Positions of the ids that are committed, and the addresses of their rows."""
    if not len(texts):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    found = table.locate(texts)
    at = pc.index_in(found.column("id"), value_set=texts).to_numpy().astype(np.int64)
    return at, found.column("_rowaddr").to_numpy().astype(np.uint64)


class PartMerge:
    """One plan of a merge."""

    def __init__(self, txn: Txn, task: PartTask, load: PartLoad) -> None:
        self._txn = txn
        self._task = task
        self._load = load
        self.unchanged: dict[str, TableChange] = {}
        self.records: dict[tuple[str, int], Any] = {}

    def steps(self, replacing: Callable[[str], Replacing], gone: Mapping[str, Sequence[int]]) -> list[Step]:
        """One step a table that changes. ``replacing``: asked table by table; ``gone``: rows that leave."""
        found = []
        for key in sorted(self._load.given.tables):
            step = self._table(key, replacing(key), gone.get(key, ()))
            if step is not None:
                found.append(step)
        return found

    def _table(self, key: str, replacing: Replacing, gone: Iterable[int]) -> Step | None:
        pin = self._txn.pin(key)
        items = self._items(key, replacing, gone)
        needed = [item for item, _ in items if item.is_needed]
        done = self._load.each("rewriting", partial(rewrite, self._task), needed)
        for item, result in zip(needed, done, strict=True):
            self._load.note_written(item.key, result.new)
        unchanged = sum(result.unchanged for result in done)
        self._note_records(key, items, done)
        new = self._fragments(items, done)
        new += [fragments_.fragment_of(one) for one in self._load.stubs.get(key, ())]
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
            return AppendFiles(key, (counts,), tuple(new))
        removed = self._load.each("removing", partial(remove, self._task), removals(key, replaced))
        base = self._task.targets[key].table.relative
        files = {f"{base}/{one.file[0]}" for one in removed if one.file is not None}
        self._load.written |= files
        self._load.used |= files
        kept = [one.updated for one in removed if one.updated is not None]
        emptied = [one.fragment for one in removed if one.updated is None]
        return UpdateFiles(key, (counts,), tuple(new), tuple(kept), tuple(emptied))

    def _items(self, key: str, replacing: Replacing, gone: Iterable[int]) -> list[tuple[Rewrite, int]]:
        """Every staged fragment with what becomes of it."""
        items = []
        for item, first in self._load.rewrites(key, gone).with_first_rows():
            if replacing.addresses is None:
                items.append((item, first))
                continue
            mine = replacing.addresses[first : first + fragments_.rows_of(item.described)]
            at = np.flatnonzero(mine != NOWHERE)
            adopting = None if replacing.adopting is None else replacing.adopting[first + at]
            if adopting is not None and not adopting.any():
                adopting = None
            items.append(
                (
                    replace(item, replacing=at, addresses=mine[at].copy(), adopting=adopting),
                    first,
                )
            )
        return items

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
