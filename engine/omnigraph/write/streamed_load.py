"""An append of readers: checked and written batch by batch, so that the input is never held.

Staging ends, judgement included, before anything is armed. Where the graph has moved meanwhile, the staged files are
judged again on the new pins: the source is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.commit.engine import Engine
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.own_lines import inherited
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import AppendFiles, StagedFiles
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import progress
from omnigraph.core.errors import Conflict, InvalidInput, SchemaChanged
from omnigraph.core.meter import Meter
from omnigraph.schema import Catalog, EdgeType, table_schema
from omnigraph.table import staged as fragments_
from omnigraph.table.dataset import TableRef
from omnigraph.wire.receipt import Receipt
from omnigraph.write.base.staged_columns import live_fields, misfit
from omnigraph.write.load_options import LoadOptions, load_request
from omnigraph.write.receipt import receipt_of, with_warnings
from omnigraph.write.rules.left_out import LeftOut
from omnigraph.write.rules.streamed_append import StreamedAppend
from omnigraph.write.rules.validate import Verdict
from omnigraph.write.schema_change.history import filled_since
from omnigraph.write.sources.batch import Batch
from omnigraph.write.sources.files import store_opener
from omnigraph.write.staging_plan import paths_of


class LateView:
    """The pins that a check reads through, put in place once the transaction is there."""

    def __init__(self, txn: Txn | None = None) -> None:
        self.txn = txn

    def _at(self) -> Txn:
        if self.txn is None:
            raise AssertionError("nothing is asked before the transaction is open")
        return self.txn

    def rows(self, table_key: str) -> int:
        return self._at().rows(table_key)

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        return self._at().contains(table_key, ids)

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        return self._at().fetch(table_key, column, values, columns)

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._at().scan(table_key, columns)


def load_stream(engine: Engine, source: Any, options: LoadOptions, meter: Meter) -> Receipt:
    """Append tables that are read as they are written."""
    held = engine.known(options.branch) or engine.latest(options.branch, meter)
    catalog = engine.catalog(held.state.schema)
    view = LateView()
    try:
        stream = _stream(engine, source, catalog, view)
    except InvalidInput:
        # The schema that this handle knows may be an old one. Nothing has been read yet.
        newest = engine.catalog(read_current(engine, options.branch, meter=meter).state.schema)
        if newest is catalog:
            raise
        catalog = newest
        stream = _stream(engine, source, catalog, view)
    work = _StreamedLoad(engine, catalog, view, stream, again=lambda new: _stream(engine, source, new, view))
    request = load_request(options, [declared.table_key for declared in stream.types], work.own)
    try:
        outcome = run(engine, request, work.prepare, meter)
    except BaseException:
        work.give_up()
        raise
    if outcome.row is None or outcome.replayed:
        work.give_up()
    return with_warnings(receipt_of(outcome, options.branch, LeftOut(), {}, meter), work.stream.warnings)


def _stream(engine: Engine, source: Any, catalog: Catalog, view: LateView) -> StreamedAppend:
    opener = store_opener(engine.store.lance_options)
    return StreamedAppend(source, catalog, view, engine.limits, clock=engine.clock, opener=opener)


@dataclass
class _StreamedLoad:
    engine: Engine
    catalog: Catalog
    view: LateView
    stream: StreamedAppend
    again: Callable[
        [Catalog], StreamedAppend
    ]  # the same source under another schema, as long as nothing of it was read
    staged: dict[str, list[Any]] | None = None
    files: list[str] = field(default_factory=list)
    own: StagedFiles = field(default_factory=StagedFiles)
    mark: str | None = None  # the cleanup mark on which they were written
    schema_id: str = ""  # and the schema
    columns: dict[str, dict[str, int]] = field(default_factory=dict)  # and the field ids of each table's columns

    def prepare(self, txn: Txn) -> Prepared | None:
        if self.staged is None:
            forks = inherited(txn.state, [declared.table_key for declared in self.stream.types])
            if forks:
                return Prepared((), own_first=forks)
            self.mark = txn.state.head.mark
            self.schema_id = txn.state.schema.id
            if self.catalog is not txn.catalog:
                self.catalog = txn.catalog
                self.stream = self.again(self.catalog)
            with progress.phase("loading"):
                verdict = self._stage(txn)
        elif txn.state.head.mark != self.mark:
            # What an undone version of ours named may be gone with it, and the source can be read only once.
            raise Conflict(
                "a cleanup began while this load was under way, and what it has staged may be gone",
                hint="repeat the load",
            )
        else:
            self._check_schema(txn)
            described = {key: self._described(key) for key in self.staged}
            verdict = judge_staged(txn, described, by_id=txn.state.schema.id != self.schema_id)
        verdict.raise_if_bad()
        staged = self.staged or {}
        steps = tuple(_append(key, staged[key]) for key in sorted(staged) if staged[key])
        if not steps:
            return None
        return Prepared(steps, verdict.reads, revalidate=self._still_fits, stage_first=True)

    def _check_schema(self, txn: Txn) -> None:
        """The source was read once: what it came to has to fit the schema of now."""
        if txn.state.schema.id == self.schema_id:
            return
        filled = filled_since(txn, self.schema_id)
        for key, held in self.columns.items():
            pin = txn.state.tables.get(key)
            if pin is None or pin.type_id != self.catalog.by_table_key(key).type_id:
                what: str | None = f"{key} was dropped or renamed"
            else:
                ids = fragments_.column_ids(txn.handle(key))
                what = misfit(held, live_fields(txn.catalog.by_table_key(key), ids, filled))
            if what is not None:
                raise SchemaChanged(
                    f"the schema has changed since rows of {key} were read: {what}",
                    hint="repeat the load with the input from its beginning",
                    table_key=key,
                    expected=self.schema_id,
                    actual=txn.state.schema.id,
                )

    def _still_fits(self, txn: Txn) -> bool:
        return self.stream.still_fits(txn)

    def _described(self, key: str) -> list[dict[str, Any]]:
        return [fragments_.fragment_json(fragment) for fragment in (self.staged or {}).get(key, [])]

    def _stage(self, txn: Txn) -> Verdict:
        """Write every table, nodes before edges. Nothing names these files until the verdict is in."""
        self.view.txn = txn
        staged: dict[str, list[Any]] = {}
        for declared in self.stream.types:
            key = declared.table_key
            ids = fragments_.column_ids(txn.handle(key))
            names = {name: declared.by_name[name].prop_id if name in declared.by_name else name for name in ids}
            self.columns[key] = {names[name]: number for name, number in ids.items()}
            staged[key] = self._write(txn, key, table_schema(declared))
        self.staged = staged
        return self.stream.finish()

    def _write(self, txn: Txn, key: str, schema: pa.Schema) -> list[Any]:
        batches = progress.carried(self.stream.batches(key))
        first = next(batches, None)
        if first is None:
            return []
        reader = pa.RecordBatchReader.from_batches(schema, _chained(first, batches))
        transaction: Any = self.engine.tables.stage_append(txn.handle(key), reader, txn.meter)
        fragments = list(transaction.operation.fragments)
        self.files += paths_of(txn.pin(key), fragments)
        return fragments

    def give_up(self) -> None:
        """Delete what was staged, unless a version may name it: then it is not ours to delete, published or not."""
        if self.files and not self.own.sent:
            self.engine.store.delete_many(self.files)


def _append(key: str, fragments: list[Any]) -> AppendFiles:
    rows = sum(fragment.physical_rows for fragment in fragments)
    return AppendFiles(key, (Counts(inserted=rows),), tuple(fragments))


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def judge_staged(txn: Txn, described: dict[str, list[dict[str, Any]]], *, by_id: bool = False) -> Verdict:
    """The verdict of an append on files that are staged already, read back batch by batch. ``by_id``: under another schema."""
    nodes: dict[str, pa.RecordBatchReader] = {}
    edges: dict[str, pa.RecordBatchReader] = {}
    for key, new in described.items():
        declared = txn.catalog.by_table_key(key)
        schema = table_schema(declared)
        pin = txn.pin(key)
        rows = fragments_.read_rows(
            txn.engine.tables, TableRef(pin.location, pin.ref), txn.handle(key), new, schema.names, by_id=by_id
        )
        if isinstance(declared, EdgeType):
            renamed = schema.set(1, schema.field("src").with_name("from")).set(2, schema.field("dst").with_name("to"))
            edges[declared.name] = _reader(rows, schema, renamed)
        else:
            nodes[declared.name] = _reader(rows, schema, schema)
    stream = StreamedAppend(Batch(nodes, edges), txn.catalog, txn, txn.engine.limits, clock=txn.engine.clock)
    for declared in stream.types:
        for _ in stream.batches(declared.table_key):
            pass
    return stream.finish()


def _reader(rows: Iterator[pa.RecordBatch], schema: pa.Schema, renamed: pa.Schema) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [as_declared(batch.column(name), schema.field(name).type) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=renamed)

    return pa.RecordBatchReader.from_batches(renamed, batches())


def as_declared(column: Any, wanted: pa.DataType) -> Any:
    """Blobs come back as bytes of whichever width."""
    return column if column.type == wanted else column.cast(wanted)
