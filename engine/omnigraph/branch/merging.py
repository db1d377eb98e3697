"""The one machine behind merge, revert and restore: from three states to the steps of one commit.

Per table it decides by pins what is to be done, merges rows where pins do not tell, holds what comes of it against the
rules with the evaluator that loads use, and reports everything that two sides disagree on at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.branch.conflicts import Conflicts
from omnigraph.branch.losses import find_losses
from omnigraph.branch.schema_side import LiftedView, SchemaSide, check_target_rows
from omnigraph.branch.table_merge import (
    MergedRows,
    TableMerge,
    changed_rows,
    merge_table,
    versions_differ,
)
from omnigraph.branch.triple import (
    Action,
    TablePins,
    Terms,
    action_of,
    left_alone,
    rests_on,
    same_fields,
    source_of,
    source_table,
    to_validate,
)
from omnigraph.commit.engine import gather
from omnigraph.commit.plan import Delta, Source
from omnigraph.commit.properties import Counts
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import AdoptPin, AppendRows, RestoreTable, Step
from omnigraph.commit.txn import Txn
from omnigraph.core.ids import new_ulid
from omnigraph.manifest.ancestry import Base, Place
from omnigraph.manifest.rows import Pin
from omnigraph.read.states import Versioned, View
from omnigraph.schema import apply_plan, canonical_text
from omnigraph.schema.catalog import TableType
from omnigraph.table.arrays import one_array
from omnigraph.write.base.changes import PinnedView, TypeChange
from omnigraph.write.rules.validate import validate
from omnigraph.write.schema_change.lowering import Lowered, column_steps
from omnigraph.write.schema_change.rows import WrittenFiles, write_columns
from omnigraph.write.staging_plan import STAGE_FIRST_BYTES, replace_step

NO_ROWS = (Counts(),)


@dataclass(frozen=True)
class Task:
    """What changed from the base to ``source`` is to be done to the state of a transaction. ``bases``: the states that the
    base is computed from. ``only``: identities of the types to look at; None for all. ``files``: the column files that were
    written, across the plans of one call. ``plans_only``: none may be written."""

    what: str
    hint: str
    bases: Mapping[Place, View]
    base: Base | None
    source: View
    terms: Terms
    strict: bool = False
    allow_data_loss: bool = False
    only: frozenset[str] | None = None
    files: WrittenFiles = field(default_factory=WrittenFiles)
    plans_only: bool = False


@dataclass
class Merging:
    """One merge on one state of the target: what is known of each table, by its key in the merged schema."""

    txn: Txn
    task: Task
    schema: SchemaSide
    tables: dict[str, TableMerge] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    rows: dict[str, MergedRows] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)  # the tables that the merge is about

    def prepare(self) -> Prepared:
        """The steps that do it. Raises ``MergeConflict`` with everything that is in the way."""
        conflicts = Conflicts()
        conflicts.add_schema(self.schema.conflicts)
        self.refuse(conflicts)
        self.look()
        conflicts.add_names(self.names_in_use())
        self.refuse(conflicts)
        self.merge_rows()
        for key, found in self.rows.items():
            conflicts.add_rows(self.tables[key].merged, found.clashes, found.clashes_total)
        losses = find_losses(self.task.bases, self.task.source, self.target, self.schema)
        if not self.task.allow_data_loss:
            conflicts.add_losses(losses)
        self.refuse(conflicts)
        if self.schema.plan is not None:
            apply_plan(self.schema.plan)
        lowered = self.schema.lowered(self.txn.state, lambda: new_ulid(self.txn.engine.clock), self.adopted)
        reads = self.validate(lowered) | self.rested_on()
        steps = self.steps(lowered)
        self.txn.engine.limits.check("tables_per_commit", len({step.key for step in steps}))
        renamed = () if lowered is None else (one.from_key for one in lowered.delta.rename)
        return Prepared(
            steps,
            reads=frozenset(reads | set(renamed)),
            delta=Delta() if lowered is None else losses.noted(lowered.delta),
            sources=self.sources(),
            stage_first=sum(_bytes(found) for found in self.rows.values()) > STAGE_FIRST_BYTES,
        )

    def refuse(self, conflicts: Conflicts) -> None:
        if conflicts:
            raise conflicts.error(self.task.what, self.task.hint)

    # --- per table --------------------------------------------------------------------------------------------------

    @property
    def target(self) -> View:
        return View(self.txn.engine, self.txn.held, self.txn.meter)

    @property
    def adopted(self) -> dict[str, Pin]:
        """The source's pins that are published, by their key in the merged schema."""
        found = ((key, self.tables[key].source.pin) for key, one in self.actions.items() if one is Action.ADOPT)
        return {key: pin for key, pin in found if pin is not None}

    def look(self) -> None:
        target = self.target
        for declared in self.schema.catalog.types():
            one = TableMerge(
                declared,
                {place: _in(view, declared) for place, view in self.task.bases.items()},
                self.task.base,
                _in(self.task.source, declared),
                _in(target, declared),
                self.task.strict,
                self.schema.fills,
            )
            self.tables[declared.table_key] = one
            self.actions[declared.table_key] = self.action(one)

    def names_in_use(self) -> Iterator[str]:
        """Types whose name is another table's in the target. A plan knows tables by their names and cannot do both."""
        state = self.txn.state
        for key, one in self.tables.items():
            held, own = state.tables.get(key), one.target.pin
            if held is not None and (own is None or own.identity != held.identity):
                yield one.merged.name

    def action(self, one: TableMerge) -> Action:
        pins = _pins(one)
        if self.task.only is not None and self.task.only.isdisjoint(one.merged.ids):
            return left_alone(pins)
        self.asked.add(one.merged.table_key)
        action = action_of(pins, self.task.terms, same_fields=same_fields(one.merged, one.source.declared))
        if action is Action.RESTORE and not versions_differ(one.source, one.target):
            return Action.SAME
        return action

    def merge_rows(self) -> None:
        keys = [key for key, action in self.actions.items() if action is Action.ROWS]
        engine = self.txn.engine
        found = gather([engine.spawn(merge_table, self.tables[key]) for key in keys])
        self.rows = dict(zip(keys, found, strict=True))

    def rested_on(self) -> set[str]:
        """Tables that the source has changed and the merge leaves as they are: it may only be published while they are so."""
        found = set()
        for key in self.asked:
            one = self.tables[key]
            if one.target.pin is not None and rests_on(_pins(one)):
                found.add(one.target.pin.key)
        return found

    # --- rules ------------------------------------------------------------------------------------------------------

    def validate(self, lowered: Lowered | None) -> set[str]:
        """Hold the merged rows against the rules; the tables of the target that were read for it."""
        conflicts = Conflicts()
        same_rules = canonical_text(self.task.source.catalog) == canonical_text(self.schema.catalog)
        asked = sorted(to_validate(self.actions, self.schema.catalog, same_rules=same_rules))
        changes = {key: change for key in asked if (change := self.change(key)) is not None}
        reads: set[str] = set()
        if changes:
            verdict = validate(changes.values(), self.schema.catalog, self.view, limits=self.txn.engine.limits)
            conflicts.add_violations(verdict.violations, verdict.total, changes)
            pins = (self.tables[key].target.pin for key in verdict.reads)
            reads |= {pin.key for pin in pins if pin is not None}
        if lowered is not None and self.schema.plan is not None:
            log, read = check_target_rows(self.txn, self.schema.plan, lowered, self.rows_of_merge())
            conflicts.add_violations(log.shown, log.total, {})
            reads |= read
        self.refuse(conflicts)
        return reads

    @property
    def view(self) -> PinnedView:
        if self.schema.plan is None:
            return self.txn
        return LiftedView(self.txn, self.target, self.schema.catalog, self.schema.fills)

    def rows_of_merge(self) -> dict[str, TypeChange]:
        return {key: found.change for key, found in self.rows.items() if found.change is not None}

    def change(self, key: str) -> TypeChange | None:
        """What happens to the rows of one table, compared where a whole version takes the place of another."""
        if self.actions[key] is Action.ROWS:
            return self.rows[key].change
        one = self.tables[key]
        found = changed_rows(one.target, one.source, one.merged, one.fills)
        gone = _without(found.before.column("id"), found.after.column("id"))
        if not found.after.num_rows and not len(gone):
            return None
        return TypeChange(one.merged, found.after, mode="merge", deleted_ids=gone if len(gone) else None)

    # --- steps ------------------------------------------------------------------------------------------------------

    def steps(self, lowered: Lowered | None) -> tuple[Step, ...]:
        """Of each table the steps on its columns first, then those on its rows."""
        found: list[Step] = [] if lowered is None else [*lowered.steps]
        for change in () if lowered is None else lowered.changes:
            fills = change.valued and not self.task.plans_only
            files = write_columns(self.txn, change, None, self.task.files) if fills else ()
            found += column_steps(change, files)
        renamed = {} if lowered is None else {one.to_key: one.incarnation for one in lowered.delta.rename}
        added = {} if lowered is None else {one.key: one.incarnation for one in lowered.delta.register}
        for key in sorted(self.actions):
            found += self.table_steps(key, {**added, **renamed})
        return tuple(found)

    def table_steps(self, key: str, incarnations: Mapping[str, int]) -> Iterator[Step]:
        one, action = self.tables[key], self.actions[key]
        source, target = one.source.pin, one.target.pin
        mine = key if target is None else target.key
        if action is Action.RESTORE and source is not None:
            yield RestoreTable(mine, NO_ROWS, source_table(source))
        elif action is Action.ADOPT and source is not None:
            known = 1 if target is None else target.incarnation
            yield AdoptPin(mine, NO_ROWS, replace(source, key=key, incarnation=incarnations.get(key, known)))
        elif action is Action.ROWS:
            found = self.rows[key]
            if found.change is not None and target is None:
                rows = found.change.rows
                yield AppendRows(mine, (Counts(inserted=rows.num_rows),), rows)
            elif found.change is not None and found.located is not None:
                step = _row_step(mine, found.change, found.located)
                if step is not None:
                    yield step

    def sources(self) -> tuple[Source, ...]:
        """The state that versions are taken from, where any are."""
        taken = [
            one.source.pin
            for key, one in sorted(self.tables.items())
            if self.actions[key] in (Action.RESTORE, Action.ADOPT) and one.source.pin is not None
        ]
        return (source_of(self.task.source.state, taken),) if taken else ()


def _pins(one: TableMerge) -> TablePins:
    return TablePins(tuple(base.pin for base in one.bases.values()), one.source.pin, one.target.pin)


def _in(view: View, declared: TableType) -> Versioned:
    return view.versioned(view.type(declared.ids))


def _row_step(key: str, change: TypeChange, located: pa.Table) -> Step | None:
    replaced = _with_ids(located, one_array(change.rows.column("id"), pa.utf8()))
    gone = located.slice(0, 0) if change.deleted_ids is None else _with_ids(located, change.deleted_ids)
    return replace_step(key, change.rows, replaced, one_array(gone.column("_rowaddr"), pa.uint64()), 0)


def _with_ids(located: pa.Table, ids: pa.Array[Any]) -> pa.Table:
    return located.filter(pc.is_in(located.column("id"), value_set=ids))


def _without(ids: Any, kept: Any) -> pa.Array[Any]:
    mine = one_array(ids, pa.utf8())
    return mine.filter(pc.invert(pc.is_in(mine, value_set=one_array(kept, pa.utf8()))))


def _bytes(found: MergedRows) -> int:
    return 0 if found.change is None else found.change.rows.nbytes
