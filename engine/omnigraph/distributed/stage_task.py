"""What a task elsewhere does with its rows: read, check each row by itself, write fragments that no version names yet.

Owns the work of one task from source batches to a ``StagedPart``. It asks the graph nothing: what rows mean to each other
and to the graph is checked where everything comes together. Credentials come from the environment that it runs in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.core.errors import OmnigraphError
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.distributed.fragments import StagedFragments
from omnigraph.distributed.patch_rows import joined, with_placeholders
from omnigraph.distributed.staged_part import PartViolations, Split, StagedPart, Stretch, TaskRows
from omnigraph.distributed.staging_record import described_files
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, TableType
from omnigraph.store import Store
from omnigraph.table import parts as parts_
from omnigraph.table import staged as fragments_
from omnigraph.table.dataset import TableRef, Tables
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import TypeChange, Unnamed
from omnigraph.write.base.rejects import Finding, Rejected, Rejects, collect_rejected
from omnigraph.write.base.staged_columns import live_fields
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.base.wording import Wording
from omnigraph.write.rules.quarantine import row_as_record
from omnigraph.write.rules.validate import known_finding
from omnigraph.write.rules.value_rules import ValueRules
from omnigraph.write.sources.batch import TableFile
from omnigraph.write.sources.json_objects import ObjectReader
from omnigraph.write.sources.json_stream import read_values
from omnigraph.write.sources.pieces import Piece
from omnigraph.write.sources.records import RecordReader
from omnigraph.write.sources.tables import Reading, TableReader, read_json_texts, read_texts
from omnigraph.write.values.conform import conform_column

if TYPE_CHECKING:
    from omnigraph.commit.txn import Txn

ROWS_PER_FILE: Final = 1 << 20
# Records mix their types, so the rows of a type wait here until they are worth a fragment.
_BUFFER_BYTES: Final = 128 << 20

READINGS: Final[Mapping[str, Reading]] = {"arrow": conform_column, "texts": read_texts, "json": read_json_texts}


@dataclass(frozen=True)
class Target:
    """Where the fragments of one table go."""

    key: str
    identity: str
    location: str
    ref: str | None
    pin: int

    @property
    def table(self) -> TableRef:
        return TableRef(self.location, self.ref)


@dataclass
class TableRows:
    """The rows of one split of a table. ``columns`` maps properties (``from``, ``to``) to source columns; ``reading`` is
    how cells are written: Arrow values, texts as in CSV, or texts that are JSON."""

    split: Split
    batches: Iterable[pa.RecordBatch]
    columns: Mapping[str, str] = field(default_factory=dict)
    reading: str = "arrow"


@dataclass
class ObjectRows:
    """The rows of one split of a table whose rows are JSON objects, in blocks of whole lines."""

    split: Split
    blocks: Iterable[bytes]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass
class RecordRows:
    """The records of one split of the engine's own format: lists of values, or a stream of their bytes."""

    split: Split
    values: Iterable[list[Any]] | IO[bytes]


@dataclass(frozen=True)
class PartTask:
    """Everything that a task needs. Picklable; the store leaves its credentials behind."""

    store: Store
    catalog: Catalog
    staging_id: str
    schema_id: str
    targets: Mapping[str, Target]
    kind: Literal["append", "overwrite"]
    set_aside: bool = False
    rows_per_file: int = ROWS_PER_FILE
    limits: Limits = DEFAULT_LIMITS
    patches: bool = False  # rows need not name every property

    def stage_table(self, type: str, rows: Iterable[TableRows], place: int) -> StagedPart:
        """Stage the rows of one type. What the data is to blame for is reported, not raised."""
        work = _Work(self)
        declared = self.catalog.type(type)
        error = None
        try:
            work.write(declared, self._pieces(declared, rows, work))
        except OmnigraphError as caught:
            error = caught
        return work.part(place, error)

    def stage_objects(self, type: str, rows: Iterable[ObjectRows], place: int) -> StagedPart:
        """Stage rows of one type that are written as JSON objects."""
        work = _Work(self)
        declared = self.catalog.type(type)
        error = None
        try:
            work.write(declared, self._object_pieces(declared, rows, work))
        except OmnigraphError as caught:
            error = caught
        return work.part(place, error)

    def _object_pieces(
        self, declared: TableType, rows: Iterable[ObjectRows], work: _Work
    ) -> Iterator[tuple[Split, Piece]]:
        for one in rows:
            reader = ObjectReader(
                declared,
                self.catalog,
                self.limits,
                work.rejects,
                source=one.split.name,
                order=one.split.key,
                columns=one.columns,
                partial=self.patches,
            )
            try:
                for piece in reader.pieces(one.blocks):
                    yield one.split, piece
            finally:
                work.splits.append((one.split, reader.records))

    def check_columns(self, type: str, schema: pa.Schema, columns: Mapping[str, str], name: str | None = None) -> None:
        """Refuse a table by its columns alone, before anybody reads it."""
        declared = self.catalog.type(type)
        rejects = Rejects(keep=False)
        file = TableFile((), columns)
        reader = TableReader(
            declared, self.catalog, self.limits, None, rejects, source=name, file=file, partial=self.patches
        )
        reader.check(schema)

    def stage_records(self, rows: Iterable[RecordRows], place: int) -> StagedPart:
        """Stage records of any types."""
        work = _Work(self)
        error = None
        try:
            for one in rows:
                reader = RecordReader(
                    self.catalog,
                    self.limits,
                    None,
                    work.rejects,
                    partial(work.buffer, one.split),
                    one.split.name,
                    order=one.split.key,
                    partial=self.patches,
                )
                for values in _lists(one.values, self.limits):
                    reader.feed(values)
                work.splits.append((one.split, reader.records))
            work.flush()
        except OmnigraphError as caught:
            error = caught
        return work.part(place, error)

    def _pieces(self, declared: TableType, rows: Iterable[TableRows], work: _Work) -> Iterator[tuple[Split, Piece]]:
        for one in rows:
            reader = TableReader(
                declared,
                self.catalog,
                self.limits,
                None,
                work.rejects,
                source=one.split.name,
                order=one.split.key,
                file=TableFile((), one.columns),
                reading=READINGS[one.reading],
                partial=self.patches,
            )
            try:
                for piece in reader.pieces(one.batches):
                    yield one.split, piece
            finally:
                work.splits.append((one.split, reader.records))


class _Rows:
    """What is known of the rows of one table as they are written."""

    def __init__(self) -> None:
        self.fragments: list[dict[str, Any]] = []
        self.fields: dict[str, int] = {}
        self.stretches: list[Stretch] = []
        self.minted: list[tuple[int, bool | npt.NDArray[np.bool_]]] = []
        self.unnamed: list[tuple[int, Unnamed]] = []
        self.buffer: list[pa.RecordBatch] = []
        self.buffered = 0

    def note(self, split: Split, piece: Piece) -> None:
        rows = piece.batch.num_rows
        origin = piece.origin
        numbers = origin.numbers
        first = origin.parts[0].first_number if numbers is None else int(numbers[0])
        if numbers is not None and int(numbers[-1]) - first == rows - 1:
            numbers = None
        last = self.stretches[-1] if self.stretches else None
        if (
            last is not None
            and last.split == split.key
            and numbers is None is last.numbers
            and last.first_number + last.rows == first
        ):
            self.stretches[-1] = replace(last, rows=last.rows + rows)
        else:
            self.stretches.append(Stretch(split.key, rows, first, numbers))
        self.minted.append((rows, piece.minted))
        self.unnamed.append((rows, piece.unnamed))

    def minted_rows(self) -> bool | npt.NDArray[np.bool_]:
        kinds = {one if isinstance(one, bool) else None for _, one in self.minted}
        if kinds <= {False}:
            return False
        if kinds == {True}:
            return True
        return np.concatenate([np.full(n, one) if isinstance(one, bool) else one for n, one in self.minted])


class _Work:
    """One task under way."""

    def __init__(self, task: PartTask) -> None:
        self._task = task
        self._tables = Tables(task.store)
        self._values: dict[str, ValueRules] = {}
        self._log = ViolationLog()
        self._rejected: list[Rejected] = []
        self._rows: dict[str, _Rows] = {}
        self.rejects = Rejects(task.set_aside)
        self.splits: list[tuple[Split, int]] = []

    def write(self, declared: TableType, pieces: Iterator[tuple[Split, Piece]]) -> None:
        """Straight from the source to files: nothing is held."""
        batches = self._checked(declared, pieces)
        first = next(batches, None)
        if first is not None:
            self._write(declared, _chained(first, batches))

    def buffer(self, split: Split, declared: TableType, piece: Piece) -> None:
        for batch in self._checked(declared, iter([(split, piece)])):
            held = self._rows[declared.table_key]
            held.buffer.append(batch)
            held.buffered += batch.nbytes
            if held.buffered > _BUFFER_BYTES:
                self._flush(declared, held)

    def flush(self) -> None:
        for key, held in self._rows.items():
            self._flush(self._task.catalog.by_table_key(key), held)

    def _flush(self, declared: TableType, held: _Rows) -> None:
        batches, held.buffer, held.buffered = held.buffer, [], 0
        if batches:
            self._write(declared, iter(batches))

    def _write(self, declared: TableType, batches: Iterator[pa.RecordBatch]) -> None:
        target = self._task.targets[declared.table_key]
        handle = self._tables.open(target.table, target.pin)
        drawn = _Drawn(batches)
        try:
            written = parts_.write_rows(handle, table_schema(declared), iter(drawn), self._task.rows_per_file)
        except OmnigraphError as error:
            if drawn.error is not None:
                raise drawn.error from error
            raise
        held = self._rows[declared.table_key]
        held.fragments += written
        held.fields = held.fields or field_ids(declared, handle)

    def _checked(self, declared: TableType, pieces: Iterator[tuple[Split, Piece]]) -> Iterator[pa.RecordBatch]:
        key = declared.table_key
        held = self._rows.setdefault(key, _Rows())
        rules = self._values.setdefault(key, ValueRules(declared, self._task.limits))
        for split, piece in pieces:
            if not piece.batch.num_rows:
                continue
            block = Block(piece.batch, 0, piece.minted, Wording(declared, piece.origin))
            known = (known_finding(one, piece.unnamed) for one in rules.feed(block))
            findings = [one for one in known if one is not None]
            for finding in findings:
                self._log.add_rows(finding.rows.tolist(), len(finding.rows), finding.describe)
            if findings and self._task.set_aside:
                piece = self._without(declared, piece, findings)
                if not piece.batch.num_rows:
                    continue
            held.note(split, piece)
            yield with_placeholders(declared, piece.batch, piece.unnamed) if piece.unnamed else piece.batch

    def _without(self, declared: TableType, piece: Piece, findings: Sequence[Finding]) -> Piece:
        rows = pa.Table.from_batches([piece.batch])
        unnamed = piece.unnamed if self._task.patches else None
        change = TypeChange(declared, rows, minted=piece.minted, origin=piece.origin, unnamed=unnamed)
        bad = np.unique(np.concatenate([finding.all_rows() for finding in findings]))
        self._rejected += collect_rejected(findings, bad, partial(row_as_record, change))
        keep = np.ones(piece.batch.num_rows, dtype=np.bool_)
        keep[bad] = False
        left = change.take(np.flatnonzero(keep))
        batches = left.rows.combine_chunks().to_batches()
        batch = batches[0] if batches else piece.batch.slice(0, 0)
        return Piece(batch, left.minted, left.origin, left.unnamed or {})

    def part(self, place: int, error: OmnigraphError | None) -> StagedPart:
        tables = tuple(self._task_rows(key, held) for key, held in sorted(self._rows.items()))
        malformed = self.rejects.log
        return StagedPart(
            self._task.staging_id,
            place,
            tuple(self.splits),
            tables,
            _violations_of(malformed),
            _violations_of(self._log),
            (*self.rejects.records, *self._rejected),
            error,
        )

    def _task_rows(self, key: str, held: _Rows) -> TaskRows:
        staged = describe(self._task, key, held.fragments, held.fields) if held.fragments else None
        return TaskRows(key, staged, tuple(held.stretches), held.minted_rows(), joined(held.unnamed))


def _violations_of(log: ViolationLog) -> PartViolations:
    shown = log.shown
    return PartViolations(shown, log.total, dict(sorted(log.by_code.items())) if log.total > len(shown) else {})


class _Drawn:
    """Batches, and what went wrong where they come from: who writes them would call it trouble of its own."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except Exception as error:
            self.error = error
            raise


def at_pins(task: PartTask, txn: Txn, keys: Iterable[str]) -> PartTask:
    """The task with its tables at the pins of a transaction."""
    targets = dict(task.targets)
    for key in keys:
        pin = txn.pin(key)
        targets[key] = replace(targets[key], location=pin.location, ref=pin.ref, pin=pin.version)
    return replace(task, targets=targets)


def field_ids(declared: TableType, handle: Any) -> dict[str, int]:
    """Lance's field ids of the properties of a table, as a description of fragments names them."""
    return {name: field.field_id for name, field in live_fields(declared, fragments_.column_ids(handle)).items()}


def describe(
    task: PartTask, key: str, fragments: Sequence[Mapping[str, Any]], fields: Mapping[str, int]
) -> StagedFragments:
    """Fragments that a task has written, as the process that commits takes them."""
    target = task.targets[key]
    return StagedFragments(
        format=2,
        staging_id=task.staging_id,
        table_key=key,
        identity=target.identity,
        ref=target.ref,
        base_pin=target.pin,
        schema_id=task.schema_id,
        fields=dict(fields),
        kind=task.kind,
        new=[dict(one) for one in fragments],
        updated=[],
        removed=[],
        files=described_files(Tables(task.store).uri(target.table), parts_.data_files(fragments)),
        rows=sum(fragments_.rows_of(one) for one in fragments),
    )


def _lists(values: Iterable[list[Any]] | IO[bytes], limits: Limits) -> Iterable[list[Any]]:
    given: Any = values
    lists: Iterable[list[Any]] = read_values(given, limits) if hasattr(given, "read") else given
    return lists


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
