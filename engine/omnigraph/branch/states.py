"""The states that a merge reads: one version of a line each, with its tables opened when rows are needed."""

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

    def side(self, pin: Pin) -> Side:
        """The version that a pin names, as one side of a comparison."""
        handle = self.engine.tables.open(TableRef(pin.location, pin.ref), pin.version, self.meter)
        return Side(handle, (Line(pin.ref, pin.version), *(Line(base.ref, base.version) for base in pin.bases)))

    def table(self, pin: Pin) -> PinnedTable:
        found = self._tables.get(pin.key)
        if found is None:
            found = self._tables[pin.key] = pinned_table(self.engine, pin, self.meter)
        return found


def columns_in(declared: TableType, merged: TableType) -> Mapping[str, str | None]:
    """By the column of the merged type: what it is called in this state of the type; None where it is not there."""
    fixed: dict[str, str | None] = {name: name for name in merged.columns if name not in merged.by_name}
    for prop in merged.properties:
        found = next((declared.by_id[one] for one in prop.ids if one in declared.by_id), None)
        if found is None:  # what this side calls by an older identity of its own
            found = next((one for one in declared.properties if set(one.ids) & set(prop.ids)), None)
        fixed[prop.name] = None if found is None else found.name
    return fixed


def lifted(rows: pa.Table, declared: TableType, merged: TableType) -> pa.Table:
    """Rows of a type in one state, under the names and kinds that the merged type has. What the state lacks is null."""
    names = columns_in(declared, merged)
    columns: list[Any] = []
    schema = table_schema(merged)
    for name in schema.names:
        kind, old = schema.field(name).type, names[name]
        if old is None:
            columns.append(nulls(rows.num_rows, kind))
            continue
        column = one_array(rows.column(old), rows.schema.field(old).type)
        columns.append(column if column.type == kind else column.cast(kind))
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))


def rows_by_id(view: View, pin: Pin, declared: TableType, merged: TableType, ids: pa.Array[Any]) -> pa.Table:
    """The rows of this state that have these ids, as rows of the merged type."""
    names = [name for name in columns_in(declared, merged).values() if name is not None]
    return lifted(view.table(pin).fetch("id", ids, names), declared, merged)
