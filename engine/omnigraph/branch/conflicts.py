"""What two sides of a merge disagree on, as a ``MergeConflict``: all of it at once, and as records that a load takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.branch.losses import Losses
from omnigraph.branch.table_merge import ClashedRow
from omnigraph.core.errors import MergeConflict
from omnigraph.core.reasons import ConflictKind
from omnigraph.core.shown import count_text
from omnigraph.read.export import record_lines
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import TableType
from omnigraph.schema.merge import SchemaConflict
from omnigraph.wire.model import plain
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.base.violations import Violation

SHOWN_MAX = 1000
_SCHEMA_HINT = (
    "make what is named alike on both branches, or rename it on one: change that one with `omnigraph schema apply --schema FILE "
    "--branch NAME`, then merge again"
)
_NAME_HINT = "merge the source at a commit before it used the name again (at=…), then merge it once more"
_LOSS_HINT = "let the drop stand with allow_data_loss=True (--allow-data-loss); what was changed of it goes with it"
SIDES = ("base", "source", "target")
_KINDS: Mapping[str, ConflictKind] = {
    v.ORPHAN: "orphan_edge",
    v.ENDPOINT: "orphan_edge",
    v.UNIQUE: "unique_violation",
    v.CARD_MAX: "cardinality_violation",
    v.CARD_MIN: "cardinality_violation",
}


@dataclass
class Conflicts:
    """Collected over all tables of a merge. ``records``: of each side, its rows that are in conflict, as lines of a load.
    ``way_out``: what to do where the rows are not what disagrees."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    by_kind: Counter[str] = field(default_factory=Counter)
    records: dict[str, list[str]] = field(default_factory=lambda: {side: [] for side in SIDES})
    way_out: str | None = None

    def __bool__(self) -> bool:
        return bool(self.by_kind)

    def add_rows(self, declared: TableType, clashed: Iterable[ClashedRow], total: int) -> None:
        shown = 0
        for one in clashed:
            shown += 1
            names = one.clash.properties if one.clash.kind == "divergent_update" else (None,)
            for name in names:
                self.add(one.clash.kind, declared.name, one.id, name, *(_part(one, side, name) for side in SIDES))
            for side in SIDES:
                row = getattr(one, side)
                if row is not None and len(self.records[side]) < SHOWN_MAX:
                    self.records[side].append(_line(declared, row))
        if total > shown:
            self.by_kind["divergent_update"] += total - shown

    def add_schema(self, found: Iterable[SchemaConflict]) -> None:
        for one in found:
            self.way_out = _SCHEMA_HINT
            self.add(
                "divergent_schema", one.type, None, one.prop, one.base, one.source, one.target, element=one.element
            )

    def add_names(self, types: Iterable[str]) -> None:
        for name in types:
            self.way_out = _NAME_HINT
            said = f"{name} is another type in the target, whose name the source has taken"
            self.add("divergent_schema", name, None, None, None, None, None, message=said)

    def add_losses(self, losses: Losses) -> None:
        """One side changed rows of what the other one dropped."""
        for loss in losses.found:
            self.way_out = _LOSS_HINT
            facts = {loss.side: {"rows": loss.rows, "ids": list(loss.sample)}}
            prop = None if loss.prop is None else loss.prop.name
            said = f"{count_text(loss.rows, 'row')} were changed on one side and dropped on the other"
            sides = facts.get("source"), facts.get("target")
            self.add("drop_vs_update", loss.declared.name, None, prop, None, *sides, message=said)

    def add_violations(self, found: Sequence[Violation], total: int, changes: Mapping[str, TypeChange]) -> None:
        """Rules that the merged rows break. Rows are named by their ids."""
        for one in found:
            kind = _KINDS.get(one.code, "value_violation")
            self.add(kind, one.type, _id_of(one, changes), one.property, None, one.value, None, message=one.message)
        if total > len(found):
            self.by_kind["value_violation"] += total - len(found)

    def add(
        self,
        kind: ConflictKind,
        type_: str | None,
        id_: str | None,
        prop: str | None,
        base: Any,
        source: Any,
        target: Any,
        **more: Any,
    ) -> None:
        self.by_kind[kind] += 1
        if len(self.rows) < SHOWN_MAX:
            found = {"kind": kind, "type": type_, "id": id_, "property": prop}
            sides = {"base": plain(base), "source": plain(source), "target": plain(target)}
            self.rows.append({**found, **sides, **more})

    def error(self, what: str, hint: str) -> MergeConflict:
        total = sum(self.by_kind.values())
        first = self.rows[0]
        where = ".".join(str(one) for one in (first["type"], first["property"]) if one is not None)
        row = "" if first["id"] is None else f" of {first['id']!r}"
        said = first.get("message") or first.get("element") or ""
        return MergeConflict(
            f"{what}: {count_text(total, 'conflict')}, the first {first['kind']} at {where}{row}{said and f': {said}'}",
            hint=hint if self.way_out is None or any(self.records.values()) else self.way_out,
            conflicts=self.rows,
            total=total,
            by_kind=dict(sorted(self.by_kind.items())),
            records=self.records,
        )


def _part(one: ClashedRow, side: str, prop: str | None) -> Any:
    row = getattr(one, side)
    return row if row is None or prop is None else row[prop]


def _line(declared: TableType, row: Mapping[str, Any]) -> str:
    schema = pa.schema([f.with_nullable(True) for f in table_schema(declared)])
    [line] = record_lines(declared, pa.RecordBatch.from_pylist([dict(row)], schema=schema))
    return line


def _id_of(one: Violation, changes: Mapping[str, TypeChange]) -> str | None:
    change = changes.get(one.table_key or "")
    if one.record is not None and change is not None and 0 < one.record <= change.rows.num_rows:
        found: str = change.rows.column("id")[one.record - 1].as_py()
        return found
    return one.id
