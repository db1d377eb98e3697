"""The one machine behind merge, revert and restore: from three states to the steps of one commit.

Per table it decides by pins what is to be done, merges rows where pins do not tell, holds what comes of it against the
rules with the evaluator that loads use, and reports everything that two sides disagree on at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.branch.conflicts import Conflicts
from omnigraph.branch.states import View
from omnigraph.branch.table_merge import (
    MergedRows,
    TableMerge,
    Versioned,
    changed_rows,
    merge_table,
    versions_differ,
)
from omnigraph.branch.triple import Action, TablePins, Terms, action_of, left_alone, to_validate
from omnigraph.commit.engine import gather
from omnigraph.commit.plan import Source, SourceTable
from omnigraph.commit.properties import Counts
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import AdoptPin, RestoreTable, Step
from omnigraph.commit.txn import Txn
from omnigraph.manifest.ancestry import Base, Place
from omnigraph.manifest.rows import Pin
from omnigraph.schema.catalog import Catalog, TableType
from omnigraph.table.arrays import one_array
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.rules.validate import validate
from omnigraph.write.staging_plan import STAGE_FIRST_BYTES, replace_step

NO_ROWS = (Counts(),)


@dataclass(frozen=True)
class Task:
    """What changed from the base to ``source`` is to be done to the state of a transaction. ``bases``: the states that the
    base is computed from. ``only``: identities of the types to look at; None for all."""

    what: str
    hint: str
    bases: Mapping[Place, View]
    base: Base | None
    source: View
    terms: Terms
    strict: bool = False
    only: frozenset[str] | None = None


@dataclass
class Merging:
    """One merge on one state of the target: what is known of each table, by its key in the merged schema."""

    txn: Txn
    task: Task
    catalog: Catalog
    tables: dict[str, TableMerge] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    rows: dict[str, MergedRows] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)  # the tables that the merge is about

    def prepare(self) -> Prepared:
        """The steps that do it. Raises ``MergeConflict`` with everything that is in the way."""
        self.look()
        self.merge_rows()
        conflicts = Conflicts()
        for key, found in self.rows.items():
            conflicts.add_rows(self.tables[key].merged, found.clashes, found.clashes_total)
        if conflicts:
            raise conflicts.error(self.task.what, self.task.hint)
        reads = self.validate()
        steps = tuple(step for key in sorted(self.actions) for step in self.steps(key))
        self.txn.engine.limits.check("tables_per_commit", len({step.key for step in steps}))
        return Prepared(
            steps,
            reads=frozenset(reads | self.rested_on()),
            sources=self.sources(),
            stage_first=sum(_bytes(found) for found in self.rows.values()) > STAGE_FIRST_BYTES,
        )

    # --- per table --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        target = View(self.txn.engine, self.txn.held, self.txn.meter)
        for declared in self.catalog.types():
            one = TableMerge(
                declared,
                {place: _in(view, declared) for place, view in self.task.bases.items()},
                self.task.base,
                _in(self.task.source, declared),
                _in(target, declared),
                self.task.strict,
            )
            pins = TablePins(tuple(base.pin for base in one.bases.values()), one.source.pin, one.target.pin)
            key = declared.table_key
            self.tables[key] = one
            if self.task.only is not None and self.task.only.isdisjoint(declared.ids):
                self.actions[key] = left_alone(pins)
                continue
            action = action_of(pins, self.task.terms, same_fields=_same_fields(declared, one.source.declared))
            if action is Action.RESTORE and not versions_differ(one.source, one.target):
                action = Action.SAME
            self.actions[key] = action
            self.asked.add(key)

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
            source = one.source.pin
            if one.target.pin is not None and any(
                (base.pin and base.pin.triple) != (source and source.triple) for base in one.bases.values()
            ):
                found.add(one.target.pin.key)
        return found

    # --- rules ------------------------------------------------------------------------------------------------------

    def validate(self) -> set[str]:
        """Hold the merged rows against the rules; the tables that were read for it."""
        same_rules = self.task.source.state.schema.id == self.txn.state.schema.id
        asked = sorted(to_validate(self.actions, self.catalog, same_rules=same_rules))
        changes = {key: change for key in asked if (change := self.change(key)) is not None}
        if not changes:
            return set()
        verdict = validate(changes.values(), self.catalog, self.txn, limits=self.txn.engine.limits)
        if not verdict.ok:
            conflicts = Conflicts()
            conflicts.add_violations(verdict.violations, verdict.total, changes)
            raise conflicts.error(self.task.what, self.task.hint)
        return set(verdict.reads)

    def change(self, key: str) -> TypeChange | None:
        """What happens to the rows of one table, compared where a whole version takes the place of another."""
        if self.actions[key] is Action.ROWS:
            return self.rows[key].change
        one = self.tables[key]
        before, after = changed_rows(one.target, one.source, one.merged)
        gone = _without(before.column("id"), after.column("id"))
        if not after.num_rows and not len(gone):
            return None
        return TypeChange(one.merged, after, mode="merge", deleted_ids=gone if len(gone) else None)

    # --- steps ------------------------------------------------------------------------------------------------------

    def steps(self, key: str) -> Iterable[Step]:
        one, action = self.tables[key], self.actions[key]
        source, target = one.source.pin, one.target.pin
        if action is Action.RESTORE and source is not None and target is not None:
            yield RestoreTable(target.key, NO_ROWS, source_table(source))
        elif action is Action.ADOPT and source is not None and target is not None:
            yield AdoptPin(target.key, NO_ROWS, replace(source, key=target.key, incarnation=target.incarnation))
        elif action is Action.ROWS and target is not None:
            found = self.rows[key]
            if found.change is not None and found.located is not None:
                step = _row_step(target.key, found.change, found.located)
                if step is not None:
                    yield step

    def sources(self) -> tuple[Source, ...]:
        """The state that versions are taken from, where any are."""
        taken = [
            one.source.pin
            for key, one in sorted(self.tables.items())
            if self.actions[key] in (Action.RESTORE, Action.ADOPT) and one.source.pin is not None
        ]
        return (source_of(self.task.source, taken),) if taken else ()


def source_of(view: View, pins: Iterable[Pin]) -> Source:
    state = view.state
    return Source(
        state.identity, state.ref, state.version, state.head.commit_id, tuple(source_table(pin) for pin in pins)
    )


def source_table(pin: Pin) -> SourceTable:
    return SourceTable(
        pin.location, pin.ref, pin.version, tuple((base.ref, base.version, base.needed) for base in pin.bases)
    )


def _in(view: View, declared: TableType) -> Versioned:
    found = view.type(declared.ids)
    return Versioned(view, found, view.pin(found))


def _same_fields(merged: TableType, source: TableType | None) -> bool:
    """Whether a version with the source's columns is one of the merged type."""
    return source is not None and [(p.name, p.type) for p in merged.properties] == [
        (p.name, p.type) for p in source.properties
    ]


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
