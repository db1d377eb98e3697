"""The rows of one type that differ between two states of a graph.

``row_changes`` is the one way from two states to changed rows: merges, diffs and feeds use it. It decides which table of one
state belongs to which of the other, what a property that was added was before, and which columns are compared:

* types and properties are matched by identity, so a rename is no change;
* what a change of the schema did to every row (a fill, a wider number, a dropped property) is no change of a row: an added
  property counts where it differs from what it was filled with;
* upkeep is no change: versions with equal rows give nothing, and little is read to find that out.

Rows come under the names and kinds of their own state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from omnigraph.core.errors import InvalidInput, OmnigraphError
from omnigraph.read.at import reclaimed_since
from omnigraph.read.failures import check_calendar, damaged, file_with_wrong_dates, is_damage, is_outside
from omnigraph.read.lifts import NO_FILLS, Fills, read_dropped, read_fills
from omnigraph.read.states import Versioned, View
from omnigraph.schema.catalog import PropType, TableType
from omnigraph.schema.diff import type_pairs
from omnigraph.schema.fill import widens
from omnigraph.table.dataset import TableRef
from omnigraph.table.delta import Column, Delta, Looked, columns_of, delta


def paired_types(before: View, after: View) -> Iterator[tuple[Versioned, Versioned]]:
    """Every type of either state, with its table in both, in the order of names: nodes first. Those with one table and
    version in both are left out: they are equal."""
    for old, new in type_pairs(before.catalog, after.catalog):
        one, other = before.versioned(old), after.versioned(new)
        if one.pin is None or other.pin is None or one.pin.triple != other.pin.triple:
            yield one, other


def fills_between(before: View, after: View) -> Fills:
    """What the properties that ``after`` has and ``before`` lacks were filled with when they were added. Those that ``before``
    had and dropped are null there: their values in ``after`` are changes."""
    if before.state.schema.id == after.state.schema.id:
        return NO_FILLS
    added = [
        new.by_id[column.id]
        for old, new in type_pairs(before.catalog, after.catalog)
        if old is not None and new is not None
        for column in columns_of(old, new)
        if column.before is None
    ]
    if not added:
        return NO_FILLS
    known = frozenset({before.state.schema.id})
    fills = read_fills(after.engine, (after.held,), known, after.meter, wanted=added)
    dropped = read_dropped(after.engine, before.held, after.held, after.meter)
    return Fills({known: fill for known, fill in fills.by_id.items() if known not in dropped}, dropped)


def columns_between(old: TableType, new: TableType, fills: Fills) -> tuple[Column, ...]:
    """The columns of one type in two states, each with what an added property was before."""
    columns = columns_of(old, new)
    for one in columns:
        known, now = old.by_name.get(one.before or ""), new.by_name.get(one.after or "")
        if known is not None and now is not None:
            kinds = known.type, now.type
            if not _comparable(*kinds):
                raise InvalidInput(
                    f"{new.name}.{one.after} is a {kinds[0]} in one state and a {kinds[1]} in the other: their rows cannot "
                    "be compared",
                    hint="name the other types, or export both states",
                    type=new.name,
                    property=one.after,
                )
    return fills.lifted(columns, old, new)


def _comparable(old: PropType, new: PropType) -> bool:
    """Whether values of the two kinds can be equal: of one kind, or one the wider number."""
    return (old.scalar, old.is_list, old.dim) == (new.scalar, new.is_list, new.dim) or (
        widens(old, new) or widens(new, old)
    )


def row_changes(
    before: Versioned, after: Versioned, fills: Fills = NO_FILLS, *, looked: Looked | None = None
) -> Iterator[Delta]:
    """What changed from ``before`` to ``after`` in one type: deletes, then updates, then inserts, in batches. ``fills``: those
    between the two states. ``looked``: what it cost is noted there."""
    if before.pin is not None and after.pin is not None and before.pin.triple == after.pin.triple:
        return
    old, new = before.declared or after.declared, after.declared or before.declared
    if old is None or new is None:
        return
    sides = before.side(), after.side()
    for part in delta(*sides, columns_between(old, new, fills), meter=after.view.meter, looked=looked):
        for rows in (part.before, part.after):
            if rows is not None:
                check_calendar(rows)
        yield part


@contextlib.contextmanager
def explained(*tables: Versioned) -> Iterator[None]:
    """Say what a failed read of these versions means: that a cleanup took the state, or that a file is damaged."""
    try:
        yield
    except OmnigraphError as error:
        if not is_damage(error):
            raise
        for one in tables:
            view = one.view
            gone = reclaimed_since(view.engine, view.held, view.meter)
            if gone is not None:
                raise gone from error
        known = error.facts.get("file")
        pins = [(one.pin, one.view) for one in reversed(tables) if one.pin is not None]
        pin = pins[0][0]
        for one_pin, view in pins if is_outside(error) else ():
            ref = TableRef(one_pin.location, one_pin.ref)
            found = file_with_wrong_dates(view.engine.tables.open(ref, one_pin.version, view.meter))
            if found is not None:
                pin, known = one_pin, found
                break
        raise damaged(error, pin.key, pin.version, lambda: known) from error
