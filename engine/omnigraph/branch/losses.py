"""Changes that a merge would lose: one side changed rows of what the other side dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.branch.schema_side import SchemaSide
from omnigraph.branch.table_merge import changed_rows
from omnigraph.commit.plan import Delta
from omnigraph.manifest.ancestry import Place
from omnigraph.read.states import Versioned, View
from omnigraph.schema.catalog import Property, TableType
from omnigraph.table.arrays import one_array
from omnigraph.table.delta import columns_of, delta

_SAMPLE = 10


@dataclass(frozen=True)
class Loss:
    """``side`` changed so many rows of a type, or of one property of it, that the other side dropped."""

    declared: TableType
    prop: Property | None
    side: Literal["source", "target"]
    rows: int
    sample: tuple[str, ...]


@dataclass(frozen=True)
class Losses:
    found: tuple[Loss, ...] = field(default=())

    def noted(self, delta: Delta) -> Delta:
        """The steps of the schema change with the number of rows that each gives up."""
        by_id: dict[str, int] = {}
        for loss in self.found:
            by_id[loss.declared.type_id if loss.prop is None else loss.prop.prop_id] = loss.rows
        steps = tuple(
            {**step, "lost": by_id[known]}
            if step["step"] in ("drop_type", "drop_property") and (known := step["property"] or step["type"]) in by_id
            else step
            for step in delta.steps
        )
        return replace(delta, steps=steps)


def find_losses(bases: Mapping[Place, View], source: View, target: View, schema: SchemaSide) -> Losses:
    """Compare what either side dropped with what the other made of it since the base."""
    found: list[Loss] = []
    for base in bases.values():
        for before in base.catalog.types():
            for side, view in (("source", source), ("target", target)):
                found += _of_type(base, before, view, side, schema)  # type: ignore[arg-type]  # one of the two
    distinct = {(loss.declared.type_id, loss.prop and loss.prop.prop_id, loss.side): loss for loss in found}
    return Losses(tuple(distinct.values()))


def _of_type(
    base: View, before: TableType, view: View, side: Literal["source", "target"], schema: SchemaSide
) -> Iterator[Loss]:
    after = view.type(before.ids)
    kept = next((schema.catalog.by_id[known] for known in before.ids if known in schema.catalog.by_id), None)
    if after is None:
        return
    old, new = base.pin(before), view.pin(after)
    if old is None or new is None or old.triple == new.triple:
        return
    states = Versioned(base, before, old), Versioned(view, after, new)
    if kept is None:
        ids = _changed_ids(*states)
        if len(ids):
            yield Loss(before, None, side, len(ids), _sample(ids))
        return
    for prop in before.properties:
        still = next((after.by_id[known] for known in prop.ids if known in after.by_id), None)
        if still is not None and not any(known in kept.by_id for known in still.ids):
            ids = _changed_values(*states, still)
            if len(ids):
                yield Loss(before, prop, side, len(ids), _sample(ids))


def _changed_ids(before: Versioned, after: Versioned) -> pa.Array[Any]:
    assert after.declared is not None
    changed = changed_rows(before, after, after.declared)
    return pc.unique(
        pa.concat_arrays([one_array(rows.column("id"), pa.utf8()) for rows in (changed.before, changed.after)])
    )


def _changed_values(before: Versioned, after: Versioned, prop: Property) -> pa.Array[Any]:
    """The ids of rows in which one property has another value, or that are new and have one."""
    assert before.declared is not None and after.declared is not None
    columns = columns_of(before.declared, after.declared)
    found: list[pa.Array[Any]] = [pa.array([], pa.utf8())]
    for part in delta(before.side(), after.side(), columns, meter=after.view.meter):
        if part.after is None:
            continue
        ids = one_array(part.after.column("id"), pa.utf8())
        if part.kind == "insert":
            found.append(ids.filter(one_array(part.after.column(prop.name), ids.type).is_valid()))
        elif prop.prop_id in part.changed:
            found.append(ids.filter(pa.array(part.changed[prop.prop_id])))
    return pa.concat_arrays(found)


def _sample(ids: pa.Array[Any]) -> tuple[str, ...]:
    return tuple(str(one) for one in ids.slice(0, _SAMPLE).to_pylist())
