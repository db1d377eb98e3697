"""Rules about rows that must differ: ids within an input, ids against the graph, unique tuples in both.

Each rule is fed the blocks of one change in order, which costs no reading, and is then asked once what the committed side
says. So a whole change and a stream of batches are judged by the same code, and all questions can be asked side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.schema.catalog import EdgeType, NodeType, PropType, ScalarKind, TableType
from omnigraph.table.arrays import own_copy, positions
from omnigraph.table.key_set import KeySet
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import Mode, PinnedView, RowIndex
from omnigraph.write.base.committed_rows import committed_rows, distinct, without
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.base.wording import Wording

pc: Any = pyarrow.compute


class KeyedRows:
    """Keys of the rows of one change and the rows they belong to. Rows that take no part have no key."""

    def __init__(self, columns: int = 1, expected_rows: int = 0, *, digest: bool = False) -> None:
        self.keys = KeySet(columns, expected_rows, digest=digest)
        # Stretches of positions: where each begins, and its rows or, where they are numbered on, only by how much they
        # are ahead of the positions.
        self._starts: list[int] = []
        self._stretches: list[RowIndex | int] = []

    def add(self, block: Block, rows: RowIndex | None, columns: Sequence[pa.Array[Any]]) -> tuple[RowIndex, RowIndex]:
        """Add the block's rows (all if ``None``). Returns the rows, and for each the first row with an equal key."""
        start = len(self.keys)
        firsts = self.keys.add(*columns)
        stretch: RowIndex | int = block.first_row - start if rows is None else rows + block.first_row
        last = self._stretches[-1] if self._stretches else None
        if not (isinstance(stretch, int) and isinstance(last, int) and last == stretch):
            self._starts.append(start)
            self._stretches.append(stretch)
        return self.rows_at(np.arange(start, len(self.keys), dtype=np.int64)), self.rows_at(firsts)

    def rows_at(self, positions: RowIndex) -> RowIndex:
        if len(self._stretches) == 1 and isinstance(self._stretches[0], int):
            return positions + self._stretches[0] if self._stretches[0] else positions
        rows = np.empty(len(positions), dtype=np.int64)
        owner = np.searchsorted(np.array(self._starts), positions, side="right") - 1
        for i in np.unique(owner).tolist():
            mine, stretch = owner == i, self._stretches[i]
            rows[mine] = (
                positions[mine] + stretch if isinstance(stretch, int) else stretch[positions[mine] - self._starts[i]]
            )
        return rows


@dataclass
class Rewritten:
    """Ids that the change gives rows, and ids that it deletes."""

    mode: Mode = "merge"
    given_rows: KeyedRows = field(default_factory=KeyedRows)
    given_ids: list[pa.Array[Any]] = field(default_factory=list)
    deleted: KeySet | None = None
    deleted_ids: pa.Array[Any] | None = None
    again: list[tuple[RowIndex, RowIndex]] = field(default_factory=list)  # rows whose id came before, and where first

    def first_of(self, row: int) -> int:
        """The first row with the id of this one."""
        for later, first in self.again:
            at = int(np.searchsorted(later, row))
            if at < len(later) and later[at] == row:
                return int(first[at])
        return row

    @property
    def given(self) -> KeySet:
        return self.given_rows.keys

    def sets(self) -> tuple[KeySet | None, ...]:
        """Ids whose committed rows do not stay as they are. An append leaves all as they are."""
        return (None if self.mode == "append" else self.given, self.deleted)

    def asked(self) -> Iterator[tuple[pa.Array[Any], KeySet]]:
        """Ids to look up, with the set that says whether a row found is one of them."""
        if self.given_ids:
            yield distinct(self.given_ids, pa.utf8()), self.given
        if self.deleted_ids is not None and self.deleted is not None and len(self.deleted_ids):
            yield self.deleted_ids, self.deleted


class IdRule:
    """No id twice in one input; in an append, no id that is committed."""

    def __init__(self, declared: TableType, mode: Mode, rewritten: Rewritten) -> None:
        self._type = declared
        self._mode = mode
        self._given: list[tuple[Block, RowIndex | None, pa.Array[Any]]] = []
        self._rewritten = rewritten

    def feed(self, block: Block) -> Iterator[Finding]:
        rows = block.given()
        ids: pa.Array[Any] = block.batch.column("id")
        if rows is not None:
            ids = ids.take(positions(rows))
        if not len(ids):
            return
        mine, firsts = self._rewritten.given_rows.add(block, rows, [ids])
        if self._mode == "append":
            self._given.append((block, rows, ids))
        else:
            self._rewritten.given_ids.append(ids)
        again = firsts != mine
        if again.any():
            self._rewritten.again.append((mine[again], firsts[again]))
            yield self._duplicates(block, mine[again], firsts[again])

    def _duplicates(self, block: Block, later: RowIndex, first: RowIndex) -> Finding:
        shown = dict(zip(first.tolist(), later.tolist(), strict=True))
        partner = shown | dict(zip(later.tolist(), first.tolist(), strict=True))

        def describe(row: int) -> Violation:
            # The first row may lie in a block that is gone: the id is the same in a later one.
            at = row if row >= block.first_row else shown[row]
            text = block.batch.column("id")[at - block.first_row].as_py()
            reason = f"{show_value(text)} is also the id of {block.wording.record(partner[row])}"
            return block.wording.row(row, v.DUPLICATE_ID, reason, property="id", value=text, id=text)

        return Finding(later, describe, others=np.unique(first), property="id")

    def forget(self) -> None:
        """Release the memory of what was fed. No more questions may follow."""
        self._given = []

    def ask(self, view: PinnedView) -> Iterator[Finding]:
        """Ids of an append that exist already."""
        given, self._given = self._given, []
        if not given or not view.rows(self._type.table_key):
            return
        for block, rows, ids in given:
            found = view.contains(self._type.table_key, ids).to_numpy(zero_copy_only=False)
            at = np.flatnonzero(found)
            if len(at):
                yield self._conflict(block, at if rows is None else rows[at])

    def _conflict(self, block: Block, at: RowIndex) -> Finding:
        def describe(row: int) -> Violation:
            text = block.batch.column("id")[row - block.first_row].as_py()
            reason = f"{show_value(text)} exists already"
            return block.wording.row(row, v.KEY_CONFLICT, reason, property="id", value=text, id=text)

        return Finding(at + block.first_row, describe, property="id")


class UniqueRule:
    """One ``@unique`` tuple: no two rows of the graph with the same one. A row with a null in it is exempt."""

    def __init__(self, declared: TableType, group: tuple[str, ...], mode: Mode, wording: Wording | None = None) -> None:
        self._type = declared
        self._group = group
        self._mode = mode
        self._wording = wording
        self._keyed = KeyedRows(len(group))
        self._columns: list[list[pa.Array[Any]]] = []  # the tuples, to show and to look up
        self._starts: list[int] = []

    @property
    def name(self) -> str:
        return f"({', '.join(ENDS.get(n, n) if isinstance(self._type, EdgeType) else n for n in self._group)})"

    def feed(self, block: Block) -> Iterator[Finding]:
        self._wording = block.wording
        columns = [block.batch.column(name) for name in self._group]
        rows = self._taking_part(columns)
        if rows is not None:
            columns = [column.take(positions(rows)) for column in columns]
        if not len(columns[0]):
            return
        if not all(is_keyable(self._type, name) for name in self._group):
            at = np.arange(block.batch.num_rows, dtype=np.int64) if rows is None else rows
            yield self._unkeyable(block, at + block.first_row)
            return
        start = len(self._keyed.keys)
        self._keep(start, columns)
        mine, firsts = self._keyed.add(block, rows, columns)
        again = firsts != mine
        if again.any():
            yield self._duplicates(mine[again], firsts[again], start + np.flatnonzero(again))

    def _taking_part(self, columns: Sequence[pa.Array[Any]]) -> RowIndex | None:
        """Rows without a null; ``None`` means all."""
        if not any(column.null_count for column in columns):
            return None
        valid = np.ones(len(columns[0]), dtype=np.bool_)
        for column in columns:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
        return np.flatnonzero(valid)

    def _keep(self, start: int, columns: Sequence[pa.Array[Any]]) -> None:
        """What is needed to show tuples and to look them up; ``start`` is the position of the first."""
        self._starts.append(start)
        self._columns.append([own_copy(column) for column in columns])

    def _unkeyable(self, block: Block, rows: RowIndex) -> Finding:
        return Finding(
            rows,
            lambda row: block.wording.row(row, v.UNIQUE, f"{self.name} holds a value that cannot be compared as a key"),
        )

    def _duplicates(self, later: RowIndex, first: RowIndex, positions: RowIndex) -> Finding:
        firsts, laters, places = first.tolist(), later.tolist(), positions.tolist()
        at = dict(zip(firsts, places, strict=True)) | dict(zip(laters, places, strict=True))
        partner = dict(zip(firsts, laters, strict=True)) | dict(zip(laters, firsts, strict=True))

        def describe(row: int) -> Violation:
            wording = self._wording
            assert wording is not None
            shown = self._show(at[row])
            reason = f"{self.name} is unique: {shown} is also in {wording.record(partner[row])}"
            return wording.row(row, v.UNIQUE, reason, value=shown)

        return Finding(later, describe, others=np.unique(first))

    def _show(self, position: int) -> str:
        values = self._values(position)
        return show_value(values[0] if len(values) == 1 else values)

    def _values(self, position: int) -> list[Any]:
        part = int(np.searchsorted(np.array(self._starts), position, side="right")) - 1
        return [column[position - self._starts[part]].as_py() for column in self._columns[part]]

    def _leading(self) -> pa.Array[Any] | None:
        """What to look tuples up by; ``None`` where reading the whole table is better."""
        lead = self._lead()
        return distinct((columns[lead] for columns in self._columns), self._columns[0][lead].type)

    def ask(self, view: PinnedView, rewritten: Rewritten) -> Iterator[Finding]:
        """Rows whose tuple a committed row has that stays."""
        if self._mode == "overwrite" or not len(self._keyed.keys):
            return
        values = self._leading()
        # An append leaves every committed row as it is: which one it is matters only if it is in the way.
        stay = self._mode == "append" and rewritten.deleted is None
        if stay and not any(len(found) for _, found in self._matches(view, values, list(self._group))):
            return
        hits: dict[int, tuple[int, str]] = {}
        sets = () if stay else rewritten.sets()
        for batch, found in self._matches(view, values, list(dict.fromkeys(("id", *self._group))), sets):
            for i in np.flatnonzero(found >= 0).tolist():
                position = int(found[i])
                if self._is_itself(rewritten, batch.column("id").slice(i, 1), position):
                    continue
                committed = batch.column("id")[i].as_py()
                held = hits.get(position)
                if held is None or committed < held[1]:
                    hits[position] = (position, committed)
        if hits:
            yield self._taken(hits)

    def _is_itself(self, rewritten: Rewritten, committed_id: pa.Array[Any], position: int) -> bool:
        """Whether the row has the committed row's own id. An append says so by another rule."""
        held = rewritten.given.find(committed_id)
        if held[0] < 0:
            return False
        mine = int(self._keyed.rows_at(np.array([position], dtype=np.int64))[0])
        return rewritten.first_of(mine) == int(rewritten.given_rows.rows_at(held)[0])

    def _matches(
        self, view: PinnedView, values: pa.Array[Any] | None, columns: list[str], gone: Sequence[KeySet | None] = ()
    ) -> Iterator[tuple[pa.RecordBatch, RowIndex]]:
        """Committed batches in which a tuple of the change occurs, and for each row its position in the change, or -1."""
        for batch in committed_rows(view, self._type.table_key, self._group[self._lead()], values, columns):
            batch = without(batch.drop_null() if _any_null(batch) else batch, gone)
            if not batch.num_rows:
                continue
            found = self._keyed.keys.find(*[batch.column(name) for name in self._group])
            if (found >= 0).any():
                yield batch, found

    def _lead(self) -> int:
        """The column to look up by: an endpoint of edges, else the first that is a text."""
        for name in ("src", "dst"):
            if name in self._group:
                return self._group.index(name)
        texts = [i for i, name in enumerate(self._group) if self._type.property(name).type.scalar is ScalarKind.STRING]
        return texts[0] if texts else 0

    def _taken(self, hits: dict[int, tuple[int, str]]) -> Finding:
        positions = np.array(sorted(hits), dtype=np.int64)
        rows = self._keyed.rows_at(positions)
        by_row = dict(zip(rows.tolist(), (hits[p] for p in positions.tolist()), strict=True))

        def describe(row: int) -> Violation:
            position, committed = by_row[row]
            wording = self._wording
            assert wording is not None
            shown = self._show(position)
            reason = f"{self.name} is unique: {shown} is taken by the committed {show_value(committed)}"
            return wording.row(row, v.UNIQUE, reason, value=shown, id=committed)

        return Finding(rows, describe)


def _any_null(batch: pa.RecordBatch) -> bool:
    return any(column.null_count for column in batch.columns)


def is_keyable(declared: TableType, name: str) -> bool:
    if isinstance(declared, EdgeType) and name in ENDS:
        return True
    kind: PropType = declared.property(name).type
    return kind.is_keyable


def unique_groups(declared: TableType) -> tuple[tuple[str, ...], ...]:
    """The tuples to check. The key is not among them: equal keys are equal ids."""
    key = set(declared.key or ()) if isinstance(declared, NodeType) else set()
    return tuple(group for group in declared.uniques if set(group) != key)
