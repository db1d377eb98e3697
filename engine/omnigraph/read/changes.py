"""The change feed of a branch: what each commit did since a cursor, in order.

``ChangeFeed`` walks the swaps of a branch from one commit to another and compares the state before each with the one after; what
lies on the way and what is reported is decided by ``feed_walk``, which rows differ by ``row_changes``. It costs what has changed: the
state is read where it begins, and again only where commits do not say enough.

A cursor is the id of a commit of the branch. One that is not found, and a state that a cleanup took, are errors that say from where
to begin anew: a reader that went on would have a hole and not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from omnigraph.commit.engine import Engine
from omnigraph.commit.txn import read_current
from omnigraph.core import documents, operation
from omnigraph.core.errors import InvalidInput, NotFound, Reclaimed
from omnigraph.core.meter import Meter
from omnigraph.core.shown import html_table
from omnigraph.manifest.ancestry import Place
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.swap import Held
from omnigraph.options import check_flag
from omnigraph.read.at import open_place
from omnigraph.read.feed_runs import RUN_ROWS_MAX, RUN_SWAPS_MIN, Run, read_run, states_of
from omnigraph.read.feed_walk import (
    FeedEntry,
    Pins,
    Swap,
    changed,
    entries_of,
    moved,
    run_of_inserts,
    stretch_of_writes,
)
from omnigraph.read.feed_way import FeedWay, find_way, gap_of
from omnigraph.read.feed_writes import (
    STRETCH_ROWS_MAX,
    STRETCH_SWAPS_MAX,
    STRETCH_SWAPS_MIN,
    Written,
    read_stretch,
)
from omnigraph.read.lifts import NO_FILLS, Fills
from omnigraph.read.place_names import At
from omnigraph.read.row_changes import explained, fills_between, row_changes
from omnigraph.read.states import Versioned, View
from omnigraph.schema.catalog import Catalog, EdgeType, TableType
from omnigraph.table.arrays import nulls, one_array
from omnigraph.table.delta import Delta
from omnigraph.wire.changes import Change, ChangeKind


@dataclass(frozen=True)
class _Part:
    """What one entry did to the schema, or to some rows of one type."""

    entry: FeedEntry
    schema: Mapping[str, Any] | None = None
    after: Versioned | None = None
    before: Versioned | None = None
    delta: Delta | None = None


def changes_of(
    engine: Engine, since: At, until: At | None, types: Iterable[str] | None, *, branch: str, before: bool
) -> ChangeFeed:
    """The feed of a branch after one commit and up to another, by default its newest."""
    check_flag("before", before)
    meter = Meter()
    way = find_way(engine, since, until, branch, meter)
    return ChangeFeed(engine, way, None if types is None else _type_ids(engine, way, types, meter), before)


class ChangeFeed:
    """What the commits of a branch did, from one cursor to another: an iterable of ``Change``. It may be read any number of
    times, and ends at the newest commit of the time when it was asked for."""

    def __init__(self, engine: Engine, way: FeedWay, types: frozenset[str] | None, before: bool) -> None:
        self._engine = engine
        self._way = way
        self._types = types
        self._before = before
        self._cursor = way.since

    @property
    def branch(self) -> str:
        return self._way.branch

    @property
    def since(self) -> str:
        return self._way.since

    @property
    def until(self) -> str:
        """The last commit that is reported."""
        return self._way.until

    @property
    def cursor(self) -> str:
        """From where to go on: the last commit of the last swap of which everything was taken out of this feed."""
        return self._cursor

    def __iter__(self) -> Iterator[Change]:
        for part in self._parts():
            ids = part.entry.commit_ids
            if part.schema is not None:
                yield Change(ids, None, None, "schema", dict(part.schema))
            elif part.delta is not None:
                yield from self._rows(ids, part, part.delta)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The same, in Arrow batches of one type and kind each: ``commit_ids``, ``type``, ``key``, ``kind``, and ``row`` and
        ``before`` as structs. Batches of different types, and of one type before and after a change of the schema, differ in
        those two."""
        for part in self._parts():
            if part.schema is not None:
                row = {"schema": part.schema["schema"], "steps": documents.canonical(part.schema["steps"]).decode()}
                yield _batch(part.entry, "schema", 1, None, None, pa.array([row]), None)
            elif part.delta is not None:
                delta = part.delta
                held = delta.before if delta.after is None else delta.after
                assert held is not None
                old = _structs(delta.before, part.before) if self._before else None
                keys = one_array(held.column("id"), pa.utf8())
                new = _structs(delta.after, part.after)
                yield _batch(part.entry, delta.kind, delta.rows, _name(part), keys, new, old)

    def __repr__(self) -> str:
        return f"<ChangeFeed of {self.branch}: {self.since} → {self.until}, {len(self._way.swaps)} swaps>"

    def _repr_html_(self) -> str:
        rows = [(self.branch, self.since, self.until, len(self._way.swaps))]
        return html_table(("branch", "since", "until", "swaps"), rows)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _rows(self, ids: tuple[str, ...], part: _Part, delta: Delta) -> Iterator[Change]:
        name = _name(part)
        new = _values(delta.after, part.after)
        old = _values(delta.before, part.before) if self._before or delta.after is None else None
        for at in range(delta.rows):
            row, was = new[at] if new else None, old[at] if old else None
            key = (row or was or {})["id"]
            yield Change(ids, name, key, delta.kind, row, was if self._before else None)

    def _parts(self) -> Iterator[_Part]:
        """Everything that is reported, in order. The cursor moves when what comes after a swap is asked for."""
        way, engine = self._way, self._engine
        self._cursor = way.since
        if way.start is not None:
            asked_by = operation.current()
            with operation.reading("changes", engine.uri, asked_by, clock=engine.clock) as meter, engine.counted(meter):
                now = _Now(engine, meter, way.start, _pins(way.start))
                try:
                    yield from self._of_swaps(now, way.swaps)
                except Reclaimed as error:
                    raise gap_of(engine, way.branch, error, meter) from error
        self._cursor = way.until

    def _of_swaps(self, now: _Now, swaps: tuple[Swap, ...]) -> Iterator[_Part]:
        at = 0
        while at < len(swaps):
            end = run_of_inserts(swaps, at, RUN_ROWS_MAX)
            run = self._run(now, swaps[at:end]) if end - at >= RUN_SWAPS_MIN else None
            written: Mapping[str, Written] | None = None
            if end - at < RUN_SWAPS_MIN:
                end, written = self._stretch(now, swaps, at)
            for place, swap in enumerate(swaps[at:end]):
                known = {} if written is None else {one: deltas[place] for one, deltas in written.items()}
                yield from self._of_swap(now, swap, known) if run is None else self._of_run(now, run, place)
                self._cursor = swap.last_id
            at = end

    def _run(self, now: _Now, swaps: tuple[Swap, ...]) -> Run | None:
        states = states_of(now.pins, swaps)
        if states is None:
            return None
        first, last = states[0], states[-1]
        pairs = {one: (first.get(one), last[one]) for one in self._touched(swaps, last)}
        tables = {one: (now.versioned(old), now.versioned(new)) for one, (old, new) in pairs.items()}
        return read_run(swaps, states, tables, now.meter)

    def _stretch(self, now: _Now, swaps: tuple[Swap, ...], at: int) -> tuple[int, Mapping[str, Written] | None]:
        """Where a stretch ends that begins here, and what its swaps did; None where they are to be compared one by one."""
        states = stretch_of_writes(now.pins, swaps, at, rows_max=STRETCH_ROWS_MAX, swaps_max=STRETCH_SWAPS_MAX)
        some = swaps[at : at + len(states) - 1]
        if len(some) < STRETCH_SWAPS_MIN:
            return at + 1, None
        touched = self._touched(some, states[-1])
        tables = {one: [now.versioned(state.get(one)) for state in states] for one in touched}
        return at + len(some), read_stretch(self._engine, some, tables, now.meter)

    def _touched(self, swaps: tuple[Swap, ...], last: Pins) -> set[str]:
        """The tables asked for that any of these swaps wrote."""
        touched = {one for swap in swaps for entry in entries_of(replace(swap, seen=0)) for one in entry.tables}
        return {one for one in touched if one in last and self._is_chosen(last[one])}

    def _of_run(self, now: _Now, run: Run, place: int) -> Iterator[_Part]:
        before, now.pins = run.states[place], run.states[place + 1]
        for entry in entries_of(run.swaps[place]):
            pairs = [
                (now.versioned(before.get(one)), now.versioned(now.pins[one]), one)
                for one in entry.tables
                if one in run.found
            ]
            for old, new, identity in sorted(pairs, key=lambda pair: _rank(pair[1])):
                rows = run.rows(place, identity)
                if rows.num_rows:
                    yield _Part(entry, None, new, old, Delta("insert", None, rows))

    def _of_swap(self, now: _Now, swap: Swap, known: Mapping[str, tuple[Delta, ...]]) -> Iterator[_Part]:
        """``known``: by the identity of tables, what the swap did to them, where that was read already."""
        was, fills = now.step(swap)

        def read(old: Versioned, new: Versioned) -> Iterator[Delta]:
            deltas = known.get("" if new.pin is None else new.pin.identity)
            return _deltas(old, new, fills) if deltas is None else iter(deltas)

        for entry in entries_of(swap):
            if was.held.state.schema.id != now.held.state.schema.id:
                yield _Part(entry, schema=_schema_row(now.held, entry))
            if any(one.kind != "schema" for one in entry.commits):
                pairs = changed(entry, was.pins, now.pins)
                yield from _in_order(
                    entry, [self._pair(was, now, *pair) for pair in pairs if self._is_chosen(pair[1])], read
                )

    def _is_chosen(self, pin: Pin) -> bool:
        return self._types is None or pin.type_id in self._types

    def _pair(self, was: _Now, now: _Now, old: Pin | None, new: Pin) -> tuple[Versioned, Versioned]:
        return was.versioned(old), now.versioned(new)


@dataclass
class _Now:
    """Where a feed stands: the tables as they are, and the newest state that had to be read."""

    engine: Engine
    meter: Meter
    held: Held
    pins: Pins

    def step(self, swap: Swap) -> tuple[_Now, Fills]:
        """Go on to the state after a swap. Returns where it stood before, and what properties that were added were filled with."""
        was = _Now(self.engine, self.meter, self.held, self.pins)
        pins = moved(self.pins, swap)
        if pins is not None:
            self.pins = pins
            return was, NO_FILLS
        self.held = open_place(self.engine, Place(swap.ref, swap.version, swap.last_id), self.held, self.meter)
        self.pins = _pins(self.held)
        if was.held.state.schema.id == self.held.state.schema.id:
            return was, NO_FILLS
        return was, fills_between(was.view, self.view)

    @property
    def view(self) -> View:
        tables = {pin.key: pin for pin in self.pins.values()}
        return View(self.engine, replace(self.held, state=replace(self.held.state, tables=tables)), self.meter)

    def versioned(self, pin: Pin | None) -> Versioned:
        view = View(self.engine, self.held, self.meter)
        return Versioned(view, None if pin is None else view.type([pin.type_id]), pin)


def _pins(held: Held) -> Pins:
    return {pin.identity: pin for pin in held.state.tables.values()}


def _in_order(
    entry: FeedEntry,
    pairs: list[tuple[Versioned, Versioned]],
    read: Callable[[Versioned, Versioned], Iterator[Delta]],
) -> Iterator[_Part]:
    """The rows of one entry in an order in which no edge is without its nodes: what is deleted, edges before nodes; then the rest,
    nodes before edges."""
    pairs.sort(key=lambda pair: _rank(pair[1]))
    streams = [read(*pair) for pair in pairs]
    waiting: list[Delta | None] = [next(stream, None) for stream in streams]
    for at in reversed(range(len(pairs))):
        while (delta := waiting[at]) is not None and delta.kind == "delete":
            yield _Part(entry, None, pairs[at][1], pairs[at][0], delta)
            waiting[at] = next(streams[at], None)
    for at, (old, new) in enumerate(pairs):
        while (delta := waiting[at]) is not None:
            yield _Part(entry, None, new, old, delta)
            waiting[at] = next(streams[at], None)


def _rank(table: Versioned) -> tuple[bool, str]:
    """Nodes before edges, then by name."""
    return isinstance(table.declared, EdgeType), "" if table.pin is None else table.pin.key


def _deltas(before: Versioned, after: Versioned, fills: Fills) -> Iterator[Delta]:
    with explained(before, after):
        yield from row_changes(before, after, fills)


# --- types and rows -----------------------------------------------------------------------------------------------------


def _type_ids(engine: Engine, way: FeedWay, types: Iterable[str], meter: Meter) -> frozenset[str]:
    """The identities of types that are named as the schema at the beginning of the feed, or the newest one, calls them."""
    if isinstance(types, str):
        raise InvalidInput("types is a list of names", hint=f"pass types=[{types[:80]!r}]")
    states = [read_current(engine, way.branch, meter=meter), *([] if way.start is None else [way.start])]
    catalogs = [engine.catalog(held.state.schema) for held in states]
    found: set[str] = set()
    for name in types:
        ids = {
            one
            for catalog in catalogs
            for declared in catalog.types()
            if _is_called(declared, name)
            for one in _ids(declared)
        }
        if not ids:
            raise NotFound(
                f"no type {str(name)[:80]!r}",
                hint=f"there is {', '.join(_names(catalogs)[:30])}",
                type=str(name)[:80],
                known=_names(catalogs),
            )
        found |= ids
    if not found:
        raise InvalidInput("types names at least one type", hint="leave it out to get all")
    return frozenset(found)


def _names(catalogs: Iterable[Catalog]) -> list[str]:
    return sorted({one.name for catalog in catalogs for one in catalog.types()})


def _ids(declared: TableType) -> tuple[str, ...]:
    return tuple(declared.ids)


def _is_called(declared: TableType, name: object) -> bool:
    return isinstance(name, str) and name in (declared.name, declared.table_key)


def _schema_row(held: Held, entry: FeedEntry) -> dict[str, Any]:
    steps = [step for one in entry.commits if one.schema is not None for step in one.schema["steps"]]
    return {"schema": held.state.schema.source, "steps": [dict(step) for step in steps]}


def _name(part: _Part) -> str:
    declared = None if part.after is None else part.after.declared
    assert declared is not None
    return declared.name


def _values(rows: pa.Table | None, state: Versioned | None) -> list[dict[str, Any]]:
    if rows is None or state is None or state.declared is None:
        return []
    return rows.select(list(state.declared.columns)).to_pylist()


def _structs(rows: pa.Table | None, state: Versioned | None) -> pa.Array[Any] | None:
    if rows is None or state is None or state.declared is None:
        return None
    names = list(state.declared.columns)
    columns = [one_array(rows.column(name), rows.schema.field(name).type) for name in names]
    return pa.StructArray.from_arrays(columns, names)


def _batch(
    entry: FeedEntry,
    kind: ChangeKind,
    rows: int,
    name: str | None,
    keys: Any,
    row: Any,
    before: Any,
) -> pa.RecordBatch:
    ids = pa.array([list(entry.commit_ids)], pa.list_(pa.utf8()))
    columns = {
        "commit_ids": ids.take(pa.array([0] * rows)),
        "type": pa.array([name] * rows, pa.utf8()),
        "key": nulls(rows, pa.utf8()) if keys is None else keys,
        "kind": pa.array([kind] * rows, pa.utf8()),
        "row": nulls(rows, pa.null()) if row is None else row,
        "before": nulls(rows, pa.null()) if before is None else before,
    }
    return pa.RecordBatch.from_pydict(columns)
