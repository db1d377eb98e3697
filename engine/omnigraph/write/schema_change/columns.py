"""What a change of the schema does to the columns of one table. Pure.

This module owns which columns are dropped, renamed, added and widened, under which names, and in which order they are then.
Types and properties are matched by identity, as the plan has carried it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.schema.catalog import Property, TableType
from omnigraph.schema.plan import Fill, SchemaPlan, StepKind
from omnigraph.table.fills import Valued


@dataclass(frozen=True)
class ColumnChange:
    """``before`` and ``after`` are one type. Names are those before the change, but in ``rename`` and ``added``."""

    before: TableType
    after: TableType
    drop: frozenset[str] = frozenset()
    rename: Mapping[str, str] = field(default_factory=dict)  # from the old name to the new one
    nullable: Mapping[str, bool] = field(default_factory=dict)
    valued: tuple[Valued, ...] = ()
    empty: tuple[Property, ...] = ()

    @property
    def key(self) -> str:
        """Where the table is before the change."""
        return self.before.table_key

    @property
    def projects(self) -> bool:
        return bool(self.drop or self.rename or self.nullable)

    @property
    def replaced(self) -> frozenset[str]:
        """New names of the columns that wider ones replace."""
        return frozenset(one.prop.name for one in self.valued if one.source is not None)

    @property
    def order(self) -> tuple[str, ...]:
        return self.after.columns

    def old_name(self, name: str) -> str | None:
        """What the column of the new schema was called; None if it was not there."""
        if name in ("id", "src", "dst"):
            return name
        old = _same(self.before, self.after.property(name))
        return None if old is None else old.name


def column_change(before: TableType, after: TableType, fills: Mapping[str, Fill]) -> ColumnChange:
    """``fills``: by the identity of the added property."""
    kept = [(old, prop) for prop in after.properties if (old := _same(before, prop)) is not None]
    wider = {prop.name for old, prop in kept if old.type.scalar is not prop.type.scalar}
    added = [prop for prop in after.properties if _same(before, prop) is None]
    stays = {old.name for old, _ in kept}
    return ColumnChange(
        before,
        after,
        drop=frozenset(prop.name for prop in before.properties if prop.name not in stays),
        rename={old.name: prop.name for old, prop in kept if old.name != prop.name},
        nullable={
            old.name: prop.type.nullable
            for old, prop in kept
            if old.type.nullable != prop.type.nullable and prop.name not in wider
        },
        valued=(
            *(Valued(prop, fill=fills[prop.prop_id]) for prop in added if prop.prop_id in fills),
            *(Valued(prop, source=old.name) for old, prop in kept if prop.name in wider),
        ),
        empty=tuple(prop for prop in added if prop.prop_id not in fills),
    )


def kept_types(plan: SchemaPlan) -> list[tuple[TableType, TableType]]:
    """Types that are there before and after, in the order of their keys after it."""
    return [
        (old, new)
        for new in plan.new.types()
        if (old := next((plan.old.by_id[i] for i in new.ids if i in plan.old.by_id), None)) is not None
    ]


def fills_of(plan: SchemaPlan) -> dict[str, Fill]:
    """By the identity of the property."""
    return {
        step.prop_id: step.fill
        for step in plan.steps
        if step.kind is StepKind.ADD_PROPERTY and step.fill is not None and step.prop_id is not None
    }


def _same(before: TableType, prop: Property) -> Property | None:
    """What the property was before the change."""
    return next((before.by_id[i] for i in prop.ids if i in before.by_id), None)
