"""The parts of one batch put together: which records of which sources the staged rows are, and their key columns.

Owns numbering across tasks, and the two ways to look at staged rows: block by block, which holds nothing, and as a change
set of key columns, for what has to compare rows with one another. Checker nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.commit.txn import Txn
from omnigraph.distributed.fragments import StagedFragments, staged_otherwise
from omnigraph.distributed.id_reuse import AdoptedIds
from omnigraph.distributed.patch_rows import completed, joined
from omnigraph.distributed.staged_part import PartViolations, Split, StagedPart, Stretch, TaskRows
from omnigraph.schema import Catalog, table_schema
from omnigraph.schema.catalog import EdgeType, TableType
from omnigraph.table import staged as fragments_
from omnigraph.table.arrays import one_array
from omnigraph.table.dataset import TableRef
from omnigraph.write.base.blocks import Block, OriginLog
from omnigraph.write.base.changes import Mode, Origin, SourcePart, TypeChange, Unnamed
from omnigraph.write.base.rejects import Rejected
from omnigraph.write.base.violations import Violation, ViolationLog
from omnigraph.write.base.wording import Wording
from omnigraph.write.rules.id_reuse import identifying_group
from omnigraph.write.rules.key_rules import unique_groups

ROW: Final = "_row"  # a staged row's number in its table, through everything that is taken out before it


@dataclass(frozen=True)
class _Place:
    """What a split is called in the whole."""

    name: str | None
    order: int
    before: int  # records of the same source in earlier splits


@dataclass(frozen=True)
class StagedFragment:
    """One staged fragment and the rows of the table that it holds."""

    described: Mapping[str, Any]
    first_row: int
    rows: int


class PartInput:
    """Parts in the order of their places. ``types``: table keys that the input names, with rows or without. ``set_aside``:
    bad rows have left already, so that what was said of them concerns none of the rest. Raises the error of the first
    task that gave up: what it left unread would be missing without a word."""

    def __init__(
        self, parts: Iterable[StagedPart], types: Iterable[str], catalog: Catalog, *, set_aside: bool = False
    ) -> None:
        self._parts = sorted(parts, key=lambda part: part.place)
        for part in self._parts:
            if part.error is not None:
                raise part.error
        self._places = _places(self._parts)
        self.catalog = catalog
        held_rows: dict[str, list[TaskRows]] = {key: [] for key in types}
        for part in self._parts:
            for held in part.tables:
                held_rows.setdefault(held.table_key, []).append(held)
        self.tables: Mapping[str, Sequence[TaskRows]] = dict(sorted(held_rows.items()))
        self._packed: dict[str, list[Mapping[str, Any]]] = {}
        self.records = sum(part.records for part in self._parts)
        checked = () if set_aside else self._parts
        self.malformed = self._violations_of(part.malformed for part in checked)
        self.bad_values = self._violations_of(part.bad_values for part in checked)

    def under(self, catalog: Catalog) -> PartInput:
        """The same rows, read as rows of another schema: their columns are found by the ids of their fields."""
        other = copy(self)
        other.catalog = catalog
        return other

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.tables)

    def rows(self, key: str) -> int:
        return sum(held.rows for held in self.tables[key])

    @property
    def staged(self) -> list[StagedFragments]:
        """Everything that tasks have written."""
        return [one.staged for held in self.tables.values() for one in held if one.staged is not None]

    @property
    def rejected(self) -> list[Rejected]:
        """What the tasks have set aside, as places in the whole."""
        return sorted((self._rejected(one) for part in self._parts for one in part.rejected), key=lambda one: one.order)

    def fragments(self, key: str) -> list[StagedFragment]:
        found, first = [], 0
        for described in self._packed.get(key) or self._staged(key):
            rows = fragments_.rows_of(described)
            found.append(StagedFragment(described, first, rows))
            first += rows
        return found

    def _staged(self, key: str) -> list[Mapping[str, Any]]:
        return [one for held in self.tables[key] if held.staged is not None for one in held.staged.new]

    def pack(self, key: str, fragments: Sequence[Mapping[str, Any]]) -> None:
        """Other fragments with the same rows in the same order."""
        self._packed[key] = list(fragments)

    # --- where rows come from ----------------------------------------------------------------------------------------

    def _violations_of(self, given: Iterable[PartViolations]) -> ViolationLog:
        log = ViolationLog()
        for one in given:
            log.extend(self._placed(violation) for violation in one.shown)
            for code, more in one.more().items():
                log.count(code, more)
        return log

    def _placed(self, violation: Violation) -> Violation:
        place = self._places.get(violation.source_order)
        if place is None:
            return violation
        if violation.record is None:
            return replace(violation, source=place.name, source_order=place.order)
        return violation.at(violation.record + place.before, place.name, place.order)

    def _rejected(self, one: Rejected) -> Rejected:
        reasons = tuple(self._placed(reason) for reason in one.reasons)
        place = self._places.get(one.source_order)
        if place is None:
            return replace(one, reasons=reasons)
        return replace(
            one, reasons=reasons, number=one.number + place.before, source=place.name, source_order=place.order
        )

    def origins(self, key: str) -> OriginLog:
        log = OriginLog()
        for held in self.tables[key]:
            for stretch in held.stretches:
                log.add(self._origin(stretch), stretch.rows)
        return log

    def _origin(self, stretch: Stretch) -> Origin:
        place = self._places[stretch.split]
        part = SourcePart(0, place.name, place.order, stretch.first_number + place.before)
        return Origin((part,), None if stretch.numbers is None else stretch.numbers + place.before)

    def minted(self, key: str) -> bool | npt.NDArray[np.bool_]:
        parts = [held for held in self.tables[key] if held.rows]
        if all(held.minted is False for held in parts):
            return False
        if all(held.minted is True for held in parts):
            return True
        return np.concatenate(
            [np.full(one.rows, one.minted) if isinstance(one.minted, bool) else one.minted for one in parts]
        )

    def unnamed(self, key: str) -> Unnamed:
        """Of a patch, properties that rows of the table do not name."""
        return joined([(held.rows, held.unnamed) for held in self.tables[key]])

    # --- staged rows ---------------------------------------------------------------------------------------------------

    def blocks(
        self, txn: Txn, key: str, names: Sequence[str] | None = None, adopted: AdoptedIds | None = None
    ) -> Iterator[Block]:
        """All staged rows of a table, the key columns or those named, read as they are asked for. Edges that exist already
        have the ids that they took over."""
        declared = self.catalog.by_table_key(key)
        wording = Wording(declared, self.origins(key))
        minted, unnamed = self.minted(key), self.unnamed(key)
        first = 0
        for batch in self.key_batches(txn, key, names):
            mine = minted if isinstance(minted, bool) else minted[first : first + batch.num_rows]
            block = Block(batch, first, mine, wording)
            block = block if adopted is None else adopted.put_into(block)
            yield completed(block, unnamed, txn) if unnamed else block
            first += batch.num_rows

    def read_again(
        self, txn: Txn, key: str, row: int, names: Sequence[str], adopted: AdoptedIds | None = None
    ) -> list[Any]:
        """The values of one staged row."""
        unnamed = self.unnamed(key)
        if not unnamed.keys().isdisjoint(names):
            blocks = self.blocks(txn, key, list(dict.fromkeys(("id", *names))), adopted)
            block = next(one for one in blocks if row < one.first_row + one.batch.num_rows)
            return [block.batch.column(name)[row - block.first_row].as_py() for name in names]
        at = next(one for one in self.fragments(key) if one.first_row <= row < one.first_row + one.rows)
        pin, first = txn.pin(key), at.first_row
        read = fragments_.read_rows(
            txn.engine.tables,
            TableRef(pin.location, pin.ref),
            txn.handle(key),
            [at.described],
            list(names),
            by_id=self._by_id(txn, key),
        )
        for batch in read:
            if row < first + batch.num_rows:
                return [batch.column(name)[row - first].as_py() for name in names]
            first += batch.num_rows
        raise LookupError(row)

    def _by_id(self, txn: Txn, key: str) -> bool:
        return staged_otherwise(txn.state, (one for one in self.staged if one.table_key == key))

    def key_batches(self, txn: Txn, key: str, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        declared = self.catalog.by_table_key(key)
        names = key_columns(declared) if names is None else names
        schema = pa.schema([table_schema(declared).field(name) for name in names])
        pin = txn.pin(key)
        described = [one.described for one in self.fragments(key)]
        if not described:
            return
        rows = fragments_.read_rows(
            txn.engine.tables,
            TableRef(pin.location, pin.ref),
            txn.handle(key),
            described,
            names,
            by_id=self._by_id(txn, key),
        )
        for batch in rows:
            if batch.num_rows:
                # Blobs come back as bytes of whichever width.
                columns = [one_array(batch.column(f.name), f.type).cast(f.type) for f in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def change(self, txn: Txn, key: str, mode: Mode) -> TypeChange:
        """The key columns of a table as a change set, with the number of each row."""
        declared = self.catalog.by_table_key(key)
        schema = pa.schema([table_schema(declared).field(name) for name in key_columns(declared)])
        # In one piece: how duplicates are worded must not depend on how the rows were cut.
        rows = pa.Table.from_batches(self.key_batches(txn, key), schema=schema).combine_chunks()
        numbered = rows.append_column(ROW, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
        unnamed = {name: mask for name, mask in self.unnamed(key).items() if name in schema.names}
        origin = self._one_origin(key)
        return TypeChange(
            declared, numbered, mode, minted=self.minted(key), origin=origin, unnamed=unnamed if unnamed else None
        )

    def _one_origin(self, key: str) -> Origin:
        """One origin for all rows of a table; a number a row only where rows are not numbered through."""
        stretches = [stretch for held in self.tables[key] for stretch in held.stretches]
        if not stretches:
            return Origin()
        parts: list[SourcePart] = []
        numbers: list[npt.NDArray[np.int64]] = []
        first_row = 0
        for stretch in stretches:
            origin = self._origin(stretch)
            part = origin.parts[0]
            parts.append(replace(part, first_row=first_row))
            if any(one.numbers is not None for one in stretches):
                numbers.append(
                    origin.numbers
                    if origin.numbers is not None
                    else np.arange(part.first_number, part.first_number + stretch.rows, dtype=np.int64)
                )
            first_row += stretch.rows
        return Origin(tuple(parts), np.concatenate(numbers) if numbers else None)


def key_columns(declared: TableType) -> list[str]:
    """What rules about several rows compare: ids, endpoints and unique tuples."""
    wanted = {"id"} | {name for group in unique_groups(declared) for name in group}
    if isinstance(declared, EdgeType):
        wanted |= {"src", "dst", *(identifying_group(declared) or ())}
    return [name for name in table_schema(declared).names if name in wanted]


def _places(parts: Iterable[StagedPart]) -> dict[int, _Place]:
    counts: dict[Split, int] = {}
    for part in parts:
        for split, records in part.splits:
            counts[split] = counts.get(split, 0) + records
    places: dict[int, _Place] = {}
    before: dict[int, int] = {}
    for split in sorted(counts, key=lambda split: split.key):
        places[split.key] = _Place(split.name, split.order, before.get(split.order, 0))
        before[split.order] = before.get(split.order, 0) + counts[split]
    return places
