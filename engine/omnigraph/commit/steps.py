"""What a write wants done to tables, as values, and how each is staged on a handle at its pin.

A step is a value that can be printed and compared; staging it is a function of the step and the pinned table. A preparer
hands over steps, ``builder`` gives each its place in a plan, and ``protocol`` stages and commits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import pyarrow as pa

from omnigraph.commit.effects import BasePin
from omnigraph.commit.plan import Registration, SourceTable
from omnigraph.commit.properties import Counts
from omnigraph.core import progress
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.table.column_files import ColumnFile
from omnigraph.table.dataset import Tables

CACHED_ROWS_MAX = 200_000  # own writes beyond this are not worth their room in the key cache


def _nowhere() -> pa.Array[Any]:
    """No addresses of rows."""
    return pa.array([], pa.uint64())


@dataclass(frozen=True)
class Staged:
    """A transaction that nothing has committed yet, and what the key cache wants to know once it has landed."""

    transaction: Any
    rows: pa.Table | None = None
    deleted: pa.Array[Any] | None = None
    cacheable: bool = False


@dataclass(frozen=True)
class Step:
    """One change to one table. ``counts``: one for each request of the plan, in their order."""

    kind: ClassVar[str]
    brings_files: ClassVar[bool] = False  # written before the plan was made, on the line that the table had then
    key: str
    counts: tuple[Counts, ...]

    @property
    def size(self) -> str:
        """What it does, for people."""
        total = self.total
        said = [f"{n} {name}" for name, n in total.to_json().items() if n and name != "unchanged"]
        return ", ".join(said) or "no rows"

    @property
    def total(self) -> Counts:
        first, *more = self.counts or (Counts(),)
        return reduce(Counts.plus, more, first)


# --- rows that this process holds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AppendRows(Step):
    """``batch`` names rows that are the same at each plan of a write: their files are written once."""

    kind: ClassVar[str] = "append"
    rows: pa.Table = field(repr=False, compare=False)
    batch: str | None = None


@dataclass(frozen=True)
class OverwriteRows(Step):
    kind: ClassVar[str] = "overwrite"
    rows: pa.Table = field(repr=False, compare=False)


@dataclass(frozen=True)
class ReplaceRows(Step):
    """Whole rows by id. ``located``: (``id``, ``_rowaddr``) of those that are there at the pin. ``gone``: addresses of other
    rows that leave."""

    kind: ClassVar[str] = "rows"
    rows: pa.Table = field(repr=False, compare=False)
    located: pa.Table = field(repr=False, compare=False)
    gone: pa.Array[Any] = field(default_factory=_nowhere, repr=False, compare=False)


@dataclass(frozen=True)
class DeleteRows(Step):
    kind: ClassVar[str] = "rows"
    addresses: pa.Array[Any] = field(default_factory=_nowhere, repr=False, compare=False)


# --- files that are there already ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AppendFiles(Step):
    """``new``: Lance's JSON of each fragment, or its own value where that would be many times as large."""

    kind: ClassVar[str] = "append"
    brings_files: ClassVar[bool] = True
    new: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class OverwriteFiles(Step):
    kind: ClassVar[str] = "overwrite"
    brings_files: ClassVar[bool] = True
    new: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class UpdateFiles(Step):
    kind: ClassVar[str] = "rows"
    brings_files: ClassVar[bool] = True
    new: tuple[Any, ...] = field(default=(), repr=False)
    updated: tuple[Any, ...] = field(default=(), repr=False)
    removed: tuple[int, ...] = ()


# --- lines and schemas --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CreateTable(Step):
    """A new, empty table at version 1."""

    kind: ClassVar[str] = "create"
    table: Registration
    schema: pa.Schema = field(repr=False, compare=False)


@dataclass(frozen=True)
class ForkTable(Step):
    """A line of this branch's own, which begins with the pin."""

    kind: ClassVar[str] = "fork"


@dataclass(frozen=True)
class RestoreTable(Step):
    """The content of an older version of the same line, as a new version."""

    kind: ClassVar[str] = "restore"
    source: SourceTable


@dataclass(frozen=True)
class AddColumns(Step):
    """Nullable columns without values: no data is written. ``order``: the names of all columns after it."""

    kind: ClassVar[str] = "columns"
    fields: tuple[pa.Field[Any], ...] = ()
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class FillColumns(Step):
    """Columns with values, which ``files`` hold: one for each fragment of the pin, written ahead. ``empty``: columns that are
    null, added along. ``replaced``: columns whose name a wider one takes."""

    kind: ClassVar[str] = "columns"
    brings_files: ClassVar[bool] = True
    fields: tuple[pa.Field[Any], ...] = ()
    empty: tuple[pa.Field[Any], ...] = ()
    files: tuple[ColumnFile, ...] = field(default=(), repr=False)
    replaced: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProjectColumns(Step):
    """Columns taken out, renamed, or with another nullability: no data is written. ``nullable`` goes by the old names."""

    kind: ClassVar[str] = "project"
    drop: frozenset[str] = frozenset()
    rename: Mapping[str, str] = field(default_factory=dict)
    nullable: Mapping[str, bool] = field(default_factory=dict)
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class AdoptPin(Step):
    """Publish a version that another branch has made. ``pin`` is the source's pin under this branch's table key."""

    kind: ClassVar[str] = "adopt"
    pin: Pin


@dataclass(frozen=True)
class DropTable(Step):
    kind: ClassVar[str] = "drop"


# --- upkeep -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RewriteTable(Step):
    """Compaction commits: Lance mints their uuids, and the run that makes them knows them by their versions."""

    kind: ClassVar[str] = "rewrite"
    counts: tuple[Counts, ...] = (Counts(),)


@dataclass(frozen=True)
class IndexTable(Step):
    kind: ClassVar[str] = "index"
    counts: tuple[Counts, ...] = (Counts(),)


# --- staging ------------------------------------------------------------------------------------------------------------


class StagedFiles:
    """Files that one write has staged or been given, across its plans.

    Files of an append do not depend on what they were planned on, so a later plan uses them again: as long as no cleanup
    has begun since they were written, which may have taken them together with a version of ours that was undone.
    """

    def __init__(self) -> None:
        self.sent = False  # a version may name them: deleting them is not the writer's business any more
        self._fragments: dict[tuple[str, str, str], tuple[str | None, tuple[Any, ...]]] = {}

    def forget(self) -> None:
        """Use none of them again: the rows are others now."""
        self._fragments.clear()

    def known(self, step: AppendRows, line: str, mark: str | None) -> tuple[Any, ...] | None:
        """``line``: the folder that the files lie in. On a fork that another writer has made instead they are not there."""
        written_at, fragments = self._fragments.get((step.key, line, step.batch or ""), (None, None))
        return fragments if fragments is not None and written_at == mark and step.batch is not None else None

    def keep(self, step: AppendRows, line: str, mark: str | None, fragments: Sequence[Any]) -> None:
        if step.batch is not None:
            self._fragments[(step.key, line, step.batch)] = (mark, tuple(fragments))


def stage(
    step: Step, handle: Any, *, tables: Tables, files: StagedFiles, mark: str | None, meter: Meter | None
) -> Staged:
    """The transaction that does ``step`` on the handle, with its files written. Moves no version."""
    if isinstance(step, AppendRows):
        return _append(step, handle, tables, files, mark, meter)
    if isinstance(step, OverwriteRows):
        return Staged(tables.stage_overwrite(handle, step.rows, meter))
    if isinstance(step, ReplaceRows | DeleteRows):
        return _replace(step, handle, meter)
    if isinstance(step, AppendFiles | OverwriteFiles | UpdateFiles):
        return Staged(_of_files(step, handle))
    return Staged(_of_schema(step, handle, tables))


def _append(
    step: AppendRows, handle: Any, tables: Tables, files: StagedFiles, mark: str | None, meter: Meter | None
) -> Staged:
    from omnigraph.table.dataset import append_of

    known = files.known(step, handle.uri, mark)
    if known is None:
        transaction: Any = tables.stage_append(handle, step.rows, meter)
        files.keep(step, handle.uri, mark, transaction.operation.fragments)
    else:
        transaction = append_of(handle, known)
        progress.advance(step.rows.num_rows)
    rows = step.rows if step.rows.num_rows <= CACHED_ROWS_MAX else None
    return Staged(transaction, rows, None, cacheable=True)


def _replace(step: ReplaceRows | DeleteRows, handle: Any, meter: Meter | None) -> Staged:
    from omnigraph.table.upsert import stage_delete, stage_located

    if isinstance(step, DeleteRows):
        change = stage_delete(handle, step.addresses, meter=meter)
        return Staged(change.transaction, None, change.deleted, cacheable=True)
    change = stage_located(handle, step.rows, located=step.located, also_deleted=step.gone, meter=meter)
    return Staged(change.transaction, change.rows, change.deleted, cacheable=True)


def _of_files(step: AppendFiles | OverwriteFiles | UpdateFiles, handle: Any) -> Any:
    from omnigraph.table import staged as fragments

    if isinstance(step, AppendFiles):
        return fragments.append_transaction(handle, step.new)
    if isinstance(step, OverwriteFiles):
        return fragments.overwrite_transaction(handle, step.new)
    return fragments.update_transaction(handle, step.new, step.updated, step.removed, fragments.field_ids(handle))


def _of_schema(step: Step, handle: Any, tables: Tables) -> Any:
    from omnigraph.table import evolve
    from omnigraph.table.fields import Projection

    if isinstance(step, AddColumns):
        return evolve.add_columns(handle, step.fields, step.order)
    if isinstance(step, FillColumns):
        return evolve.fill_columns(
            handle, step.fields, step.empty, step.files, replaced=step.replaced, order=step.order
        )
    if isinstance(step, ProjectColumns):
        return evolve.project(handle, Projection(step.drop, step.rename, step.nullable, step.order))
    if isinstance(step, RestoreTable):
        return evolve.restore(handle, step.source.version)
    raise ValueError(f"a step of kind {step.kind!r} is not staged")


def base_of(pin: Pin) -> BasePin:
    return BasePin(pin.location, pin.ref, pin.version)
