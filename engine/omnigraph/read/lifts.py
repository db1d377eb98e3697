"""What a property was in rows of a state that does not have it yet: null, or what it was filled with when it was added.

The rows of the commits that changed the schema keep the fills; they are looked up by the identity of the property.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.commit import parents
from omnigraph.commit.engine import Engine
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, MergedRow
from omnigraph.manifest.swap import Held
from omnigraph.schema.catalog import Property, TableType
from omnigraph.schema.plan import Fill
from omnigraph.table.delta import NULL, Column
from omnigraph.table.fills import ColumnFills, Valued


@dataclass(frozen=True)
class Fills:
    """The fills of properties that were added since some states, by identity. ``dropped``: the identities of those that a state
    lacks because it dropped them; they are null there, whatever they were filled with once."""

    by_id: Mapping[str, Fill] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    def of(self, prop: Property) -> Fill | None:
        if self.dropped.intersection(prop.ids):
            return None
        return next((self.by_id[known] for known in prop.ids if known in self.by_id), None)

    def values(self, prop: Property, before: TableType, rows: pa.Table) -> pa.Array[Any] | None:
        """The property in rows of a state of the type that lacks it; None where it was null."""
        fill = self.of(prop)
        if fill is None or not _readable(fill, before):
            return None
        made = ColumnFills(before, before.name, (valued := Valued(prop, fill=fill),))
        try:
            [batch] = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
            return made.values(valued, batch)
        finally:
            made.close()

    def lifted(self, columns: Iterable[Column], before: TableType, after: TableType) -> tuple[Column, ...]:
        """The columns of a comparison, each with what an added property was before."""
        return tuple(self._lifted(column, before, after) for column in columns)

    def _lifted(self, column: Column, before: TableType, after: TableType) -> Column:
        prop = after.by_id.get(column.id)
        if column.before is not None or prop is None:
            return column
        if self.dropped.intersection(prop.ids):
            return Column(column.id, None, column.after, NULL, was_dropped=True)
        if self.of(prop) is None:
            return Column(column.id, None, column.after, NULL)
        return Column(column.id, None, column.after, lambda rows: self.values(prop, before, rows))


NO_FILLS = Fills()


def _readable(fill: Fill, before: TableType) -> bool:
    return fill.kind != "property" or fill.given in before.by_id


def read_fills(
    engine: Engine,
    states: Iterable[Held],
    known: frozenset[str],
    meter: Meter,
    *,
    wanted: Iterable[Property] | None = None,
) -> Fills:
    """The fills of the commits that led to these states from states with the schemas ``known``, by their ids. ``wanted``: of
    these properties only; no older history is read than their additions."""
    found: dict[str, Fill] = {}
    sought = None if wanted is None else {known_id: prop for prop in wanted for known_id in prop.ids}
    for state in states:
        if state.state.schema.id in known:
            continue
        left = None  # the schema before the oldest change that was met
        for line in parents.lineage(engine, state, meter):
            for row in engine.history.rows(line, meter):
                commit = row.row if isinstance(row, MergedRow) else row
                if not isinstance(commit, CommitRow) or commit.schema is None:
                    continue
                for step in commit.schema["steps"]:
                    if step["step"] == "add_property" and step["fill"] is not None:
                        [(kind, given)] = step["fill"].items()
                        found.setdefault(step["property"], Fill(kind, given))
                    if step["step"] == "add_property" and sought is not None and step["property"] in sought:
                        for one in sought[step["property"]].ids:
                            sought.pop(one, None)
                left = commit.schema["from"]
                if (left in known and isinstance(row, CommitRow)) or sought == {}:
                    break
            if left in known or sought == {}:
                break
    return Fills(found)


def read_dropped(engine: Engine, state: Held, other: Held, meter: Meter) -> frozenset[str]:
    """The identities of the properties that were dropped on the way to a state from where the history of the other one parts."""
    theirs = {line.state.ref: line.version for line in parents.lineage(engine, other, meter)}
    found: set[str] = set()
    for line in parents.lineage(engine, state, meter):
        since = min(theirs.get(line.state.ref, 0), line.version)
        for row in engine.history.rows(line, meter):
            if row.version <= since:
                break
            commit = row.row if isinstance(row, MergedRow) else row
            if isinstance(commit, CommitRow) and commit.schema is not None:
                found.update(
                    one["property"]
                    for one in commit.schema["steps"]
                    if one["step"] == "drop_property" and one["property"]
                )
        if line.state.ref in theirs:
            break
    return frozenset(found)
