"""The difference of two states of a graph: the rows that were inserted, updated and deleted, and the steps of the schema.

A ``Diff`` names two states, which never change; it reads when it is asked, page by page, and costs what has changed. Which
rows those are is decided by ``row_changes``. Rows carry the names of columns in their own state.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from omnigraph.commit.engine import Engine, gather
from omnigraph.core import operation
from omnigraph.core.errors import InvalidInput, NotFound
from omnigraph.core.meter import Meter
from omnigraph.core.shown import html_table
from omnigraph.manifest.ancestry import Place
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.read.at import not_served, opened
from omnigraph.read.lifts import Fills
from omnigraph.read.place_names import At
from omnigraph.read.places import find_place
from omnigraph.read.row_changes import explained, fills_between, paired_types, row_changes
from omnigraph.read.states import Versioned, View
from omnigraph.schema import Catalog, EdgeType, SchemaStep, StepKind, TableType, diff_catalogs
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.diff import type_pairs
from omnigraph.table.arrays import nulls, one_array
from omnigraph.table.delta import Delta, Looked
from omnigraph.wire.diff import DiffCounts, DiffReport, DiffSide
from omnigraph.wire.model import plain

_OPENED_AT_ONCE = 16  # tables of either state: a store answers them side by side


class DiffRow(NamedTuple):
    """One row that differs. ``key``: its id. ``changed``: which columns of an update differ, under their names in ``row``.
    ``row`` and ``before``: the row in either state, None where it is not there."""

    kind: str
    type: str
    key: str
    changed: tuple[str, ...]
    row: dict[str, Any] | None
    before: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        return {name: plain(value) for name, value in self._asdict().items()}


@dataclass(frozen=True)
class ComparedState:
    """A state as a diff compares it. ``commit_id``: the commit that was named."""

    branch: str
    commit_id: str
    held: Held = field(repr=False)


def diff_of(engine: Engine, a: At, b: At, types: Iterable[str] | None, *, stat: bool = False) -> Diff:
    """Compare two states. Nothing is read of their tables yet, but for ``stat``."""
    meter = Meter()
    before, after = gather([engine.spawn(_compared, engine, place, meter) for place in (a, b)])
    catalogs = [engine.catalog(one.held.state.schema) for one in (before, after)]
    found = Diff(engine, before, after, None if types is None else _keys(types, *catalogs))
    if stat:
        _ = found.stat
    return found


def _compared(engine: Engine, place: At, meter: Meter) -> ComparedState:
    found = find_place(engine, place, meter=meter)
    return ComparedState(found.branch, found.commit_id, state_as_of(engine, found.held, found.commit_id, meter))


def state_as_of(engine: Engine, held: Held, commit_id: str, meter: Meter) -> Held:
    """The state as one commit of its swap left it: a table that only later commits of the swap wrote is as it was before.

    Commits that share a table have one state after them, the later ones included.
    """
    members = [row for row in held.state.tail if isinstance(row, CommitRow) and row.version == held.version]
    place = next((at for at, row in enumerate(members) if row.commit_id == commit_id), None)
    if place is None or place == len(members) - 1:
        return held
    written = [{change.identity for change in row.tables.values()} for row in members]
    later = set().union(*written[place + 1 :]) - set().union(*written[: place + 1])
    if not later:
        return held
    earlier = Place(held.state.ref, held.version - 1, commit_id)
    found = opened(engine, earlier, meter)
    if not isinstance(found, Held):
        raise not_served(engine, earlier, held, found, meter)
    before = found.state
    old = {pin.identity: pin for pin in before.tables.values()}
    tables = {
        key: old[pin.identity] if pin.identity in later and pin.identity in old else pin
        for key, pin in held.state.tables.items()
    }
    return replace(held, state=replace(held.state, tables=tables))


class Diff:
    """What changed from the state ``a`` to the state ``b``: an iterable of ``DiffRow``. It may be read any number of times."""

    def __init__(self, engine: Engine, a: ComparedState, b: ComparedState, keys: frozenset[str] | None) -> None:
        self.a = DiffSide(a.branch, a.commit_id)
        self.b = DiffSide(b.branch, b.commit_id)
        self._engine = engine
        self._states = (a.held, b.held)
        self._keys = keys
        self._lock = threading.Lock()
        self._fills: Fills | None = None
        self._counts: dict[str, DiffCounts] | None = None

    # --- what differs -----------------------------------------------------------------------------------------------

    @property
    def schema(self) -> tuple[SchemaStep, ...]:
        """The steps from the one schema to the other, with what added properties were filled with. A fill, a wider number and a
        dropped property are steps here and no changes of rows."""
        old, new = (held.state.schema for held in self._states)
        if old.id == new.id:
            return ()
        with self._reading() as meter:
            fills = self._lifts(meter)
        steps = diff_catalogs(self._engine.catalog(old), self._engine.catalog(new))
        return tuple(
            replace(
                step,
                fill=fills.by_id.get(step.prop_id or "") if step.kind is StepKind.ADD_PROPERTY else None,
                reason=None,
                hint=None,
            )
            for step in steps
        )

    @property
    def stat(self) -> dict[str, DiffCounts]:
        """By type, how many rows differ. Of types that were created or dropped no row is read for it."""
        with self._lock:
            if self._counts is None:
                self._counts = self._counted()
            return dict(self._counts)

    def __iter__(self) -> Iterator[DiffRow]:
        for before, after, part in self._read():
            yield from _rows(before, after, part)

    def to_arrow(self, type: str) -> pa.Table:
        """The rows of one type: ``kind``, ``key``, ``changed``, and ``row`` and ``before`` as structs."""
        return self.to_batches(type).read_all()

    def to_batches(self, type: str) -> pa.RecordBatchReader:
        """The same as a stream, which never holds them all."""
        old, new = self._declared(type)
        schema = _arrow_schema(old, new)
        keys = frozenset(one.table_key for one in (old, new) if one is not None)
        pages = (_page(part, schema, after.declared) for _, after, part in self._read(keys))
        return pa.RecordBatchReader.from_batches(schema, pages)

    def report(self) -> DiffReport:
        return DiffReport(self.a, self.b, self.stat, tuple(step.report() for step in self.schema))

    def to_dict(self) -> dict[str, Any]:
        """What differs, by type, and the steps of the schema; without the rows."""
        return self.report().to_dict()

    def __repr__(self) -> str:
        with self._lock:
            counts = self._counts
        if counts is not None:
            said = "; ".join(f"{name} {counts_text(one)}" for name, one in counts.items()) or "no row differs"
        else:  # showing a value must not read a table
            said = ", ".join(_name(*pair) for pair in self._pairs(Meter())) or "no table differs"
        steps = f"; {len(self.schema)} steps of the schema" if self.schema else ""
        return f"<Diff {self.a.commit_id} → {self.b.commit_id}: {said}{steps}>"

    def _repr_html_(self) -> str:
        rows = [(name, one.inserted, one.updated, one.deleted, one.reason) for name, one in self.stat.items()]
        return html_table(
            ("type", "inserted", "updated", "deleted", "reason"),
            rows,
            f"{self.a.branch} at {self.a.commit_id} → {self.b.branch} at {self.b.commit_id}",
            notes=[str(step) for step in self.schema],
            empty="no row differs",
        )

    # --- reading ----------------------------------------------------------------------------------------------------

    def _pairs(self, meter: Meter) -> list[tuple[Versioned, Versioned]]:
        before, after = (View(self._engine, held, meter) for held in self._states)
        return [pair for pair in paired_types(before, after) if _is_chosen(self._keys, *pair)]

    def _read(self, keys: frozenset[str] | None = None) -> Iterator[tuple[Versioned, Versioned, Delta]]:
        """What differs, in batches, of the types asked for."""
        with self._reading() as meter:
            for before, after in self._opened([pair for pair in self._pairs(meter) if _is_chosen(keys, *pair)]):
                with explained(before, after):
                    for part in row_changes(before, after, self._lifts(meter)):
                        yield before, after, part

    def _opened(self, pairs: list[tuple[Versioned, Versioned]]) -> Iterator[tuple[Versioned, Versioned]]:
        """The same pairs, some of them opened beside each other. What does not open fails again where it is read."""
        for at in range(0, len(pairs), _OPENED_AT_ONCE):
            some = pairs[at : at + _OPENED_AT_ONCE]
            both = [pair for pair in some if all(one.pin is not None for one in pair)]
            wait([self._engine.spawn(one.side) for pair in both for one in pair])
            yield from some

    def _counted(self) -> dict[str, DiffCounts]:
        found = {}
        with self._reading() as meter:
            for before, after in self._opened(self._pairs(meter)):
                with explained(before, after):
                    counts = self._count(before, after, meter)
                if counts != DiffCounts():
                    found[_name(before, after)] = counts
        return found

    def _count(self, before: Versioned, after: Versioned, meter: Meter) -> DiffCounts:
        if before.pin is None or after.pin is None:
            counts = DiffCounts(reason="created" if before.pin is None else "dropped")
            if after.pin is not None:
                return replace(counts, inserted=after.pin.rows)
            return replace(counts, deleted=0 if before.pin is None else before.pin.rows)
        rows = {"insert": 0, "update": 0, "delete": 0}
        looked = Looked()
        for part in row_changes(before, after, self._lifts(meter), looked=looked):
            rows[part.kind] += part.rows
        reason = looked.reason if any(rows.values()) or looked.rows else None
        return DiffCounts(rows["insert"], rows["update"], rows["delete"], reason)

    def _lifts(self, meter: Meter) -> Fills:
        if self._fills is None:
            before, after = (View(self._engine, held, meter) for held in self._states)
            self._fills = fills_between(before, after)
        return self._fills

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Meter]:
        engine = self._engine
        asked_by = operation.current()
        with operation.reading("diff", engine.uri, asked_by, clock=engine.clock) as meter, engine.counted(meter):
            yield meter

    def _declared(self, name: str) -> tuple[TableType | None, TableType | None]:
        """The type in both states, by its name in either."""
        catalogs = [self._engine.catalog(held.state.schema) for held in self._states]
        keys = _keys([name], *catalogs)
        pairs = type_pairs(*catalogs)
        return next(pair for pair in pairs if any(one is not None and one.table_key in keys for one in pair))


def counts_text(counts: DiffCounts) -> str:
    """``+3 ~1 -2``."""
    signs = (("+", counts.inserted), ("~", counts.updated), ("-", counts.deleted))
    shown = " ".join(f"{sign}{n:,}" for sign, n in signs if n) or "no rows"
    return f"{shown} ({counts.reason})" if counts.reason else shown


# --- types --------------------------------------------------------------------------------------------------------------


def _keys(types: Iterable[str], *catalogs: Catalog) -> frozenset[str]:
    """The table keys of types that are named as either state does."""
    if isinstance(types, str):
        raise InvalidInput("types is a list of names", hint=f"pass types=[{types[:80]!r}]")
    found = set()
    for name in types:
        declared = [one for catalog in catalogs for one in catalog.types() if _is_called(one, name)]
        if not declared:
            known = sorted({one.name for catalog in catalogs for one in catalog.types()})
            raise NotFound(
                f"no type {str(name)[:80]!r} in either state",
                hint=f"there is {', '.join(known[:30])}",
                type=str(name)[:80],
                known=known,
            )
        found |= {one.table_key for one in declared}
    if not found:
        raise InvalidInput("types names at least one type", hint="leave it out to compare all")
    return frozenset(found)


def _is_called(declared: TableType, name: object) -> bool:
    """By its name or its table key; edges whatever their case."""
    if not isinstance(name, str):
        return False
    own = (declared.name, declared.table_key)
    return name in own or (isinstance(declared, EdgeType) and name.lower() in map(str.lower, own))


def _is_chosen(keys: frozenset[str] | None, *pair: Versioned) -> bool:
    return keys is None or any(one.declared is not None and one.declared.table_key in keys for one in pair)


def _name(before: Versioned, after: Versioned) -> str:
    declared = after.declared or before.declared
    assert declared is not None
    return declared.name


# --- rows ---------------------------------------------------------------------------------------------------------------


def _rows(before: Versioned, after: Versioned, part: Delta) -> Iterator[DiffRow]:
    name = _name(before, after)
    old, new = _values(part.before, before.declared), _values(part.after, after.declared)
    changed = _changed(part, after.declared)
    for at in range(part.rows):
        row, was = new[at] if new else None, old[at] if old else None
        key = (row or was or {})["id"]
        yield DiffRow(part.kind, name, key, tuple(one for one, mask in changed if mask[at]), row, was)


def _values(rows: pa.Table | None, declared: TableType | None) -> list[dict[str, Any]]:
    return [] if rows is None or declared is None else rows.select(list(declared.columns)).to_pylist()


def _changed(part: Delta, declared: TableType | None) -> list[tuple[str, Any]]:
    """The columns in which rows of an update differ, under their names now, and in which rows."""
    if declared is None:
        return []
    known = {prop.prop_id: prop.name for prop in declared.properties}
    named = {known.get(one, one): mask for one, mask in part.changed.items()}
    return [(name, named[name]) for name in declared.columns if name in named]


def _arrow_schema(old: TableType | None, new: TableType | None) -> pa.Schema:
    return pa.schema(
        [
            pa.field("kind", pa.utf8(), nullable=False),
            pa.field("key", pa.utf8(), nullable=False),
            pa.field("changed", pa.list_(pa.utf8()), nullable=False),
            pa.field("row", _struct(new)),
            pa.field("before", _struct(old)),
        ]
    )


def _struct(declared: TableType | None) -> Any:
    return pa.struct([] if declared is None else [pa.field(f.name, f.type) for f in table_schema(declared)])


def _page(part: Delta, schema: pa.Schema, declared: TableType | None) -> pa.RecordBatch:
    held = part.before if part.after is None else part.after
    assert held is not None
    changed = _changed(part, declared)
    names = [[name for name, mask in changed if mask[at]] for at in range(part.rows)] if changed else [[]] * part.rows
    columns = [
        pa.array([part.kind] * part.rows, pa.utf8()),
        one_array(held.column("id"), pa.utf8()),
        pa.array(names, pa.list_(pa.utf8())),
        _structs(part.after, schema.field("row").type, part.rows),
        _structs(part.before, schema.field("before").type, part.rows),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _structs(rows: pa.Table | None, kind: Any, count: int) -> Any:
    if rows is None:
        return nulls(count, kind)
    fields = [kind.field(at) for at in range(kind.num_fields)]
    columns: list[pa.Array[Any]] = [one_array(rows.column(one.name), one.type).cast(one.type) for one in fields]
    return pa.StructArray.from_arrays(columns, fields=fields)
