"""States that are compared or merged: one version of a line each, with its tables opened when rows are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.commit.engine import Engine
from omnigraph.commit.txn import pinned_table
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.read.lifts import NO_FILLS, Fills
from omnigraph.schema import Catalog
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import TableType
from omnigraph.table.arrays import nulls, one_array
from omnigraph.table.dataset import TableRef
from omnigraph.table.delta import Side
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.stamps import Line


@dataclass(frozen=True)
class View:
    """One state of the graph, and reads of its tables by type."""

    engine: Engine = field(repr=False)
    held: Held = field(repr=False)
    meter: Meter = field(repr=False)
    _tables: dict[str, PinnedTable] = field(default_factory=dict, repr=False)

    @property
    def state(self) -> State:
        return self.held.state

    @property
    def catalog(self) -> Catalog:
        return self.engine.catalog(self.state.schema)

    def type(self, ids: Sequence[str]) -> TableType | None:
        """The type that one of these identities means."""
        known = self.catalog.by_id
        return next((known[one] for one in ids if one in known), None)

    def pin(self, declared: TableType | None) -> Pin | None:
        return None if declared is None else self.state.tables.get(declared.table_key)

    def versioned(self, declared: TableType | None) -> Versioned:
        """A type of this state; None stands for one that it lacks."""
        return Versioned(self, declared, self.pin(declared))

    def side(self, pin: Pin) -> Side:
        """The version that a pin names, as one side of a comparison."""
        handle = self.engine.tables.open(TableRef(pin.location, pin.ref), pin.version, self.meter)
        # Two tables of one type, as after equal additions on both sides, have no line in common: refs alone would say they had.
        lines = ((pin.ref, pin.version), *((base.ref, base.version) for base in pin.bases))
        known = tuple(Line(TableRef(pin.location, ref).relative, version) for ref, version in lines)
        # What this process has deleted itself, or has read before, is not read again.
        return Side(handle, known, self.engine.keys.deleted_offsets)

    def table(self, pin: Pin) -> PinnedTable:
        found = self._tables.get(pin.key)
        if found is None:
            found = self._tables[pin.key] = pinned_table(self.engine, pin, self.meter)
        return found


@dataclass(frozen=True)
class Versioned:
    """A type in one state, and its pin there. None for both where the state lacks it."""

    view: View
    declared: TableType | None
    pin: Pin | None

    def side(self) -> Side | None:
        """This version of the table, to be compared with another one; None where there are no rows."""
        return None if self.pin is None or not self.pin.rows else self.view.side(self.pin)

    def located(self, ids: pa.Array[Any]) -> pa.Table:
        """Where the rows of this state that have these ids are: the id and the address of each."""
        if self.pin is None:
            return pa.table({"id": ids.slice(0, 0), "_rowaddr": pa.array([], pa.uint64())})
        return self.view.table(self.pin).locate(ids)

    def rows_by_id(self, ids: pa.Array[Any], merged: TableType, fills: Fills) -> pa.Table:
        """The rows of this state that have these ids, as rows of the merged type."""
        if self.declared is None or self.pin is None:
            return nullable_schema(merged).empty_table()
        found = self.view.table(self.pin).fetch("id", ids, list(self.declared.columns))
        return lifted(found, self.declared, merged, fills)


def columns_in(declared: TableType, merged: TableType) -> Mapping[str, str | None]:
    """By the column of the merged type: what it is called in this state of the type; None where it is not there."""
    fixed: dict[str, str | None] = {name: name for name in merged.columns if name not in merged.by_name}
    for prop in merged.properties:
        found = next((declared.by_id[one] for one in prop.ids if one in declared.by_id), None)
        if found is None:  # what this side calls by an older identity of its own
            found = next((one for one in declared.properties if set(one.ids) & set(prop.ids)), None)
        fixed[prop.name] = None if found is None else found.name
    return fixed


def lifted(
    rows: pa.Table,
    declared: TableType,
    merged: TableType,
    fills: Fills = NO_FILLS,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Rows of a type in one state, under the names and kinds that the merged type has. What the state lacks is what it was filled
    with when it was added, or null."""
    names = columns_in(declared, merged)
    schema = nullable_schema(merged, columns)
    return pa.table([_lifted(rows, names[f.name], f, declared, merged, fills) for f in schema], schema=schema)


def _lifted(
    rows: pa.Table, old: str | None, field_: pa.Field[Any], declared: TableType, merged: TableType, fills: Fills
) -> Any:
    if old is None:
        made = fills.values(merged.property(field_.name), declared, rows)
        return nulls(rows.num_rows, field_.type) if made is None else made.cast(field_.type)
    column = one_array(rows.column(old), rows.schema.field(old).type)
    return column if column.type == field_.type else column.cast(field_.type)


def nullable_schema(merged: TableType, columns: Sequence[str] | None = None) -> pa.Schema:
    """The columns of a table before anybody knows whether the rows keep its rules."""
    schema = table_schema(merged)
    return pa.schema([schema.field(name).with_nullable(True) for name in columns or schema.names])
