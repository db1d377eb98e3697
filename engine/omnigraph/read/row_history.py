"""The commits that changed one row, newest first, with the row before and after each.

The history of the branch names the commits that wrote to the row's table, and the version that each left. The row is looked up
in those versions, one after the other; nothing is compared but the row. Most versions are not opened: a commit that updated
nothing cannot have changed a row that is there, and a row says in which version it was last written. The type is followed by
the identity of its table: through renames, and on to the branches that the branch was made from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pyarrow as pa

from omnigraph.commit import parents
from omnigraph.commit.engine import Engine
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow, Pin, TableChange
from omnigraph.manifest.swap import Held
from omnigraph.read.failures import check_calendar, damaged, file_with_wrong_dates, is_damage, is_outside
from omnigraph.read.snapshot import snapshot_of_branch
from omnigraph.read.tables import whole_number
from omnigraph.schema.arrow import PROP_ID
from omnigraph.table.dataset import TableRef
from omnigraph.table.pinned import PinnedTable
from omnigraph.table.stamps import STAMP
from omnigraph.wire.history import RowChange, RowHistory

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WRITES = ("write", "rows")  # how a table comes to a version whose counts say what happened to its rows


@dataclass(frozen=True)
class TableStep:
    """One swap that gave a table a version. ``members``: its commits that name the table, in order. ``held``: the state of the
    line whose history has them."""

    members: tuple[CommitRow, ...]
    change: TableChange
    manifest_version: int
    held: Held = field(repr=False)
    counts: tuple[int, int, int] | None = (
        None  # inserted, updated and deleted by all members; None where nothing was compared
    )

    @property
    def is_upkeep(self) -> bool:
        return all(row.kind == "maintenance" for row in self.members)

    @property
    def is_schema_change(self) -> bool:
        return all(row.kind == "schema" for row in self.members)

    @property
    def changes_columns(self) -> bool:
        """Whether rows have other columns before it, as with a change of the schema or a merge that brought one."""
        return any(row.schema is not None for row in self.members)

    @property
    def fills(self) -> Mapping[str, Any]:
        """What the properties that the swap added were filled with, by identity."""
        steps = [one for row in self.members if row.schema is not None for one in row.schema["steps"]]
        return {one["property"]: one["fill"] for one in steps if one["step"] == "add_property"}


@dataclass(frozen=True)
class RowFoundAt:
    """A row in one version. ``values``: None where it is not there. ``ids``: the identity of the property by column. ``written``:
    the version of the line ``ref`` in which the row was last written."""

    values: dict[str, Any] | None
    ids: Mapping[str, str] = field(default_factory=dict)
    ref: str | None = None
    written: int | None = None


ABSENT = RowFoundAt(None)


def row_history(
    engine: Engine, type_name: str, key: object, *, branch: str, limit: int | None, meter: Meter
) -> RowHistory:
    """The newest ``limit`` changes of a row."""
    if limit is not None:
        whole_number("limit", limit, 1)
    snapshot = snapshot_of_branch(engine, branch, meter=meter)
    reader = snapshot._reader(type_name)
    found = RowHistory()
    row_id = reader._id_of(key)
    walk = _Walk(engine, reader.pin, row_id, meter)
    for change in walk.changes(snapshot._held):
        if change is None:
            found.reclaimed = walk.stopped_at
            break
        found.append(change)
        if len(found) == limit:
            break
    return found


def table_steps(engine: Engine, held: Held, identity: str, meter: Meter) -> Iterator[TableStep]:
    """The swaps in the history of a state that gave a table a version, newest first."""
    for line in parents.lineage(engine, held, meter):
        own = (row for row in engine.history.rows(line, meter) if isinstance(row, CommitRow))
        for version, swapped in groupby(own, key=lambda row: row.version):
            members = [
                (row, change)
                for row in reversed(list(swapped))
                for change in row.tables.values()
                if change.identity == identity
            ]
            if members:
                changes = [change for _, change in members]
                yield TableStep(tuple(row for row, _ in members), changes[-1], version, line, _counts(changes))


def _counts(changes: list[TableChange]) -> tuple[int, int, int] | None:
    if any(one.via not in _WRITES or None in (one.inserted, one.updated, one.deleted) for one in changes):
        return None
    return (
        sum(one.inserted or 0 for one in changes),
        sum(one.updated or 0 for one in changes),
        sum(one.deleted or 0 for one in changes),
    )


def may_have_changed(step: TableStep, older: TableStep | None, after: RowFoundAt) -> bool:
    """Whether a swap may have changed a row that is so after it. Pure: looks at nothing but what is recorded."""
    if step.is_upkeep or step.is_schema_change:
        return False
    if after.values is None:
        return step.counts is None or step.counts[2] > 0
    if step.counts is None or older is None:
        return True
    if not any(step.counts[:2]):
        return False
    # On one line a version is numbered after all that it holds: what was written by then is the same row still.
    one_line = after.ref == step.change.ref == older.change.ref
    return not (one_line and after.written is not None and after.written <= older.change.version)


class _Reclaimed(Exception):
    """A version that a cleanup took."""


@dataclass
class _Walk:
    """One row on its way back. ``stopped_at``: the commit of which a cleanup has left too little to tell what it did."""

    engine: Engine
    pin: Pin
    row_id: str
    meter: Meter
    stopped_at: str | None = None

    def changes(self, held: Held) -> Iterator[RowChange | None]:
        """What happened to the row, newest first; None at the end where a cleanup took what is older."""
        after = self.look(self.pin.ref, self.pin.version, None)
        renamed = False  # whether a change of the schema lies between what was looked at and the swap
        steps = table_steps(self.engine, held, self.pin.identity, self.meter)
        step = next(steps, None)
        while step is not None:
            older = next(steps, None)
            if may_have_changed(step, older, after):
                try:
                    if renamed and after.values is not None:
                        after = self.look(step.change.ref, step.change.version, step)
                    before = ABSENT if older is None else self.look(older.change.ref, older.change.version, older)
                except _Reclaimed:
                    self.stopped_at = step.members[-1].commit_id
                    yield None
                    return
                if _differ(before, after, step):
                    yield _change(step, before, after)
                after, renamed = before, False
            else:
                renamed = renamed or step.changes_columns
            step = older

    def look(self, ref: str | None, version: int, step: TableStep | None) -> RowFoundAt:
        """The row in one version of the table."""
        where = TableRef(self.pin.location, ref)
        engine, meter = self.engine, self.meter
        table = PinnedTable(
            lambda: engine.tables.open(where, version, meter), where, version, max(1, self.pin.rows), engine.keys, meter
        )
        try:
            return self._look(table, ref)
        except OmnigraphError as error:
            if not is_damage(error):
                raise
            if step is not None and step.manifest_version <= self._boundary(step.held):
                raise _Reclaimed from error
            file = _file(table, error)
            raise damaged(error, self.pin.key, version, lambda: file) from error

    def _look(self, table: PinnedTable, ref: str | None) -> RowFoundAt:
        addresses = table.locate(pa.array([self.row_id], pa.utf8())).column("_rowaddr")
        if not len(addresses):
            return ABSENT
        names = table.handle.schema.names
        rows = table.take(addresses.combine_chunks(), [*names, STAMP])
        check_calendar(rows)
        found = rows.to_pylist()[0]
        written = found.pop(STAMP)
        ids = {one.name: (one.metadata or {}).get(PROP_ID, one.name.encode()).decode() for one in table.handle.schema}
        return RowFoundAt(found, ids, ref, written)

    def _boundary(self, held: Held) -> int:
        state = held.state
        return self.engine.boundary.value(state.identity, repeated=state.head.boundary, meter=self.meter)


def _file(table: PinnedTable, error: OmnigraphError) -> str | None:
    return error.facts.get("file") or (file_with_wrong_dates(table.handle) if is_outside(error) else None)


def _differ(before: RowFoundAt, after: RowFoundAt, step: TableStep) -> bool:
    """Properties are matched by identity. One that the swap added counts where it is not what it was filled with; a fill
    that was computed is not computed again."""
    if before.values is None or after.values is None:
        return before.values is not after.values
    old = {before.ids[name]: value for name, value in before.values.items()}
    new = {after.ids[name]: value for name, value in after.values.items()}
    fills = step.fills
    for known, value in new.items():
        was = old.get(known)
        if known not in old and fills.get(known) is not None:
            [(kind, was)] = fills[known].items()
            if kind != "value":
                continue
        if was != value:
            return True
    return False


def _change(step: TableStep, before: RowFoundAt, after: RowFoundAt) -> RowChange:
    actors = {row.actor for row in step.members}
    kind = "insert" if before.values is None else "delete" if after.values is None else "update"
    return RowChange(
        commit_ids=tuple(row.commit_id for row in step.members),
        kind=kind,
        actor=actors.pop() if len(actors) == 1 else None,
        created_at=_EPOCH + dt.timedelta(microseconds=step.members[-1].created_at_us),
        before=before.values,
        after=after.values,
    )
