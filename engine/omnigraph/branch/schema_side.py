"""The schema of a merge: what it becomes, what that does to the target's tables, and reads of the target as it will be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.plan import Registration
from omnigraph.commit.txn import Txn
from omnigraph.manifest.ancestry import Base, Place
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.read.lifts import Fills
from omnigraph.read.states import View, columns_in, lifted, nullable_schema
from omnigraph.schema import Catalog, SchemaPlan, canonical_text, diff_catalogs
from omnigraph.schema.catalog import TableType
from omnigraph.schema.merge import MergedSchema, SchemaConflict, merge_schemas
from omnigraph.schema.plan import StepKind
from omnigraph.table.arrays import one_array
from omnigraph.write.base.changes import PinnedView, TypeChange
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.schema_change.checked_rows import RowChecks
from omnigraph.write.schema_change.columns import fills_of
from omnigraph.write.schema_change.lowering import Lowered, lower
from omnigraph.write.schema_change.rules import rules_to_check


@dataclass(frozen=True)
class SchemaSide:
    """The merged schema. ``plan``: how the target's becomes it; None where it stays."""

    catalog: Catalog
    plan: SchemaPlan | None = None
    fills: Fills = field(default_factory=Fills)
    conflicts: tuple[SchemaConflict, ...] = ()

    def lowered(self, state: State, mint: Callable[[], str], adopted: Mapping[str, Pin]) -> Lowered | None:
        """What the change of the schema does to the target. ``adopted``: tables that come from the source as they are, by their
        merged key."""
        if self.plan is None:
            return None
        found = lower(state, self.plan, mint)
        steps = tuple(step for step in found.steps if step.kind != "create" or step.key not in adopted)
        register = tuple(
            Registration(one.key, pin.identity, one.incarnation, pin.type_id, pin.location)
            if (pin := adopted.get(one.key)) is not None
            else one
            for one in found.delta.register
        )
        changes = tuple(change for change in found.changes if change.after.table_key not in adopted)
        return Lowered(steps, changes, replace(found.delta, register=register))


def merge_schema_of(
    bases: Mapping[Place, View], base: Base | None, source: View, target: View, fills: Fills
) -> SchemaSide:
    """Merge the schemas of the three states."""
    if source.state.schema.id == target.state.schema.id:
        return SchemaSide(target.catalog, fills=fills)
    merged = _merged(bases, base, source.catalog, target.catalog)
    if merged.conflicts:
        return SchemaSide(target.catalog, conflicts=merged.conflicts)
    if canonical_text(merged.catalog) == canonical_text(target.catalog):
        return SchemaSide(target.catalog, fills=fills)
    steps = tuple(
        replace(step, fill=fill)
        if step.kind is StepKind.ADD_PROPERTY and (fill := fills.by_id.get(step.prop_id or "")) is not None
        else step
        for step in diff_catalogs(target.catalog, merged.catalog)
    )
    steps = tuple(replace(step, reason=None, hint=None) if step.fill is not None else step for step in steps)
    return SchemaSide(merged.catalog, SchemaPlan(target.catalog, merged.catalog, steps), fills)


def _merged(bases: Mapping[Place, View], base: Base | None, source: Catalog, target: Catalog) -> MergedSchema:
    known = _base_catalog(bases, base)
    if known is None:
        conflict = SchemaConflict("schema", None, "the schema that both sides come from cannot be told")
        return MergedSchema(target, (conflict,))
    return merge_schemas(known, source, target)


def _base_catalog(bases: Mapping[Place, View], base: Base | None) -> Catalog | None:
    """The schema of the base; of a virtual one, the bases' schemas merged. None where they disagree."""
    if isinstance(base, Place):
        return bases[base].catalog
    parts = [view.catalog for view in bases.values()] if base is None else None
    if parts is not None:
        return parts[0] if len({canonical_text(one) for one in parts}) == 1 else None
    assert base is not None and not isinstance(base, Place)
    first, second = _base_catalog(bases, base.first), _base_catalog(bases, base.second)
    if first is None or second is None or canonical_text(first) == canonical_text(second):
        return first if second is not None else None
    over = None if base.over is None else _base_catalog(bases, base.over)
    found = None if over is None else merge_schemas(over, second, first)
    return None if found is None or found.conflicts else found.catalog


# --- the target as it will be -------------------------------------------------------------------------------------------


class LiftedView:
    """The target's rows under the merged schema: other names, and properties that are added."""

    def __init__(self, view: PinnedView, target: View, catalog: Catalog, fills: Fills) -> None:
        self._view = view
        self._fills = fills
        self._types: dict[str, tuple[TableType, TableType | None]] = {
            declared.table_key: (declared, target.type(declared.ids)) for declared in catalog.types()
        }

    def rows(self, table_key: str) -> int:
        _, before = self._types[table_key]
        return 0 if before is None else self._view.rows(before.table_key)

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        _, before = self._types[table_key]
        if before is None:
            return pa.array([False] * len(ids), pa.bool_())
        return self._view.contains(before.table_key, ids)

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        declared, before = self._types[table_key]
        if before is None:
            return nullable_schema(declared, columns).empty_table()
        name = columns_in(before, declared).get(column)
        if name is None:
            wanted = list(dict.fromkeys([*columns, column]))
            whole = pa.Table.from_batches(self.scan(table_key, wanted), nullable_schema(declared, wanted))
            return whole.filter(pc.is_in(whole.column(column), value_set=values)).select(list(columns))
        read = self._view.fetch(before.table_key, name, values, list(before.columns))
        return lifted(read, before, declared, self._fills, columns=columns)

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        declared, before = self._types[table_key]
        if before is None:
            return
        for batch in self._view.scan(before.table_key, list(before.columns)):
            found = lifted(pa.Table.from_batches([batch]), before, declared, self._fills, columns=columns)
            yield from found.to_batches()


def check_target_rows(
    txn: Txn, plan: SchemaPlan, lowered: Lowered, merged: Mapping[str, TypeChange]
) -> tuple[ViolationLog, set[str]]:
    """Hold the rows of the target that the merge leaves as they are against the rules that it did not have; with the tables read."""
    log, reads = ViolationLog(), set()
    for change in lowered.changes:
        declared = rules_to_check(plan, change)
        if declared is None:
            continue
        reads.add(change.key)
        checks = RowChecks(declared, txn.engine.limits, log)
        mine = merged.get(change.after.table_key)
        gone = [] if mine is None else [one_array(mine.rows.column("id"), pa.utf8()), mine.deleted_ids]
        ids = pa.concat_arrays([pa.array([], pa.utf8()), *(one for one in gone if one is not None)])
        fills = Fills(fills_of(plan))
        for batch in txn.scan(change.key, list(change.before.columns)) if txn.rows(change.key) else ():
            rows = lifted(pa.Table.from_batches([batch]), change.before, change.after, fills, columns=declared.columns)
            for part in without_ids(rows, ids).to_batches():
                checks.feed(part)
        checks.finish()
    return log, reads


def without_ids(rows: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(one_array(rows.column("id"), pa.utf8()), value_set=ids)))
