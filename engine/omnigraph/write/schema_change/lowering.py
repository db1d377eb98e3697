"""From a plan of the schema to what its commit does: effects on tables, registrations, tombstones, the new schema. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from omnigraph.commit.plan import Delta, Registration, Rename
from omnigraph.commit.properties import Counts
from omnigraph.commit.steps import AddColumns, CreateTable, DropTable, FillColumns, ProjectColumns, Step
from omnigraph.manifest.rows import SchemaRow, Tombstone
from omnigraph.manifest.schema_id import schema_id
from omnigraph.manifest.state import State
from omnigraph.schema import SchemaPlan, canonical_text
from omnigraph.schema.arrow import property_field, table_schema
from omnigraph.schema.catalog import TableType
from omnigraph.store import layout
from omnigraph.table.column_files import ColumnFile
from omnigraph.write.schema_change.columns import ColumnChange, column_change, fills_of, kept_types

NO_ROWS = (Counts(),)


@dataclass(frozen=True)
class Lowered:
    """``changes``: of every type that stays, also where no column moves."""

    steps: tuple[Step, ...]
    changes: tuple[ColumnChange, ...]
    delta: Delta


def lower(state: State, plan: SchemaPlan, mint: Callable[[], str]) -> Lowered:
    """What a supported plan does to a state. Steps on columns are apart: some need files that have to be written first."""
    kept = kept_types(plan)
    fills = fills_of(plan)
    stays = {old.table_key for old, _ in kept}
    new_keys = {new.table_key for _, new in kept}
    added = [declared for declared in plan.new.types() if declared.table_key not in new_keys]
    dropped = [declared.table_key for declared in plan.old.types() if declared.table_key not in stays]
    register = tuple(_registration(state, declared, mint) for declared in added)
    renamed = [(old.table_key, new.table_key) for old, new in kept if old.table_key != new.table_key]
    steps: list[Step] = [
        CreateTable(one.key, NO_ROWS, one, table_schema(declared))
        for one, declared in zip(register, added, strict=True)
    ]
    steps += [DropTable(key, NO_ROWS) for key in dropped]
    delta = Delta(
        schema=schema_row(plan),
        steps=tuple(step.to_stored() for step in plan.steps),
        register=register,
        tombstone=(
            *(_tombstone(state, key, None) for key in dropped),
            *(_tombstone(state, old, new) for old, new in renamed),
        ),
        rename=tuple(Rename(state.tables[old].identity, old, new, _incarnation(state, new)) for old, new in renamed),
    )
    return Lowered(tuple(steps), tuple(column_change(old, new, fills) for old, new in kept), delta)


def schema_row(plan: SchemaPlan) -> SchemaRow:
    canonical = canonical_text(plan.new)
    return SchemaRow(plan.new.source, canonical, plan.new.hash, schema_id(canonical))


def column_steps(change: ColumnChange, files: tuple[ColumnFile, ...]) -> Iterator[Step]:
    """The steps on the columns of one table: what goes or is renamed first, so that an added column may take its name."""
    after_project = tuple(change.rename.get(name, name) for name in change.before.columns if name not in change.drop)
    place = {name: at for at, name in enumerate(change.order)}
    if change.projects:
        order = tuple(sorted(after_project, key=lambda name: place[name]))
        yield ProjectColumns(change.key, NO_ROWS, change.drop, change.rename, change.nullable, order)
    empty = tuple(property_field(prop) for prop in change.empty)
    if change.valued:
        fields = tuple(property_field(one.prop) for one in change.valued)
        yield FillColumns(change.key, NO_ROWS, fields, empty, files, change.replaced, change.order)
    elif empty:
        yield AddColumns(change.key, NO_ROWS, empty, change.order)


def _registration(state: State, declared: TableType, mint: Callable[[], str]) -> Registration:
    key = declared.table_key
    return Registration(key, mint(), _incarnation(state, key), declared.type_id, layout.table_path(key, mint()))


def _incarnation(state: State, key: str) -> int:
    return 1 + max((one.incarnation for one in state.tombstones if one.key == key), default=0)


def _tombstone(state: State, key: str, renamed_to: str | None) -> Tombstone:
    pin = state.tables[key]
    return Tombstone(key, pin.incarnation, pin.identity, pin.version, renamed_to)
