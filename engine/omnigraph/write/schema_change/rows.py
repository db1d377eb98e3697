"""One pass over the rows of a table: make the values of its new columns, hold the rows against its new rules, write the files.

Rows are read at the pin and batch by batch. Nothing is committed here; what was written is named by its path, so that it can
be deleted where the change comes to nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.commit.txn import Txn
from omnigraph.core import progress
from omnigraph.schema.arrow import arrow_type, property_field
from omnigraph.table.arrays import nulls
from omnigraph.table.column_files import ColumnFile, Offsets, read_fragment, without_nulls, write_column_file
from omnigraph.table.dataset import TableRef
from omnigraph.table.fills import ColumnFills
from omnigraph.write.schema_change.checked_rows import RowChecks
from omnigraph.write.schema_change.columns import ColumnChange

BATCH_ROWS = 1 << 16


@dataclass
class WrittenFiles:
    """Column files of one change of the schema, across its plans: below the root, whatever became of them."""

    paths: list[str] = field(default_factory=list)

    def add(self, table: TableRef, file: ColumnFile) -> None:
        self.paths.append(f"{table.relative}/data/{file.path}")


def check_rows(txn: Txn, change: ColumnChange, checks: RowChecks) -> None:
    """Hold the rows at the pin against new rules, where no column gets values."""
    one = _Pass(txn, change, checks)
    if txn.rows(change.key):
        for batch in txn.scan(change.key, one.inputs):
            one.checked(batch, {})
            progress.advance(batch.num_rows)
    checks.finish()


def write_columns(
    txn: Txn, change: ColumnChange, checks: RowChecks | None, written: WrittenFiles
) -> tuple[ColumnFile, ...]:
    """A file of values for each fragment at the pin, its rows held against new rules on the way."""
    handle = txn.handle(change.key)
    pin = txn.pin(change.key)
    files = []
    with contextlib.closing(_Pass(txn, change, checks)) as one:
        schema = pa.schema([property_field(valued.prop) for valued in change.valued])
        for fragment in handle.get_fragments():
            file = one.write(handle, fragment.metadata, schema)
            written.add(TableRef(pin.location, pin.ref), file)
            files.append(file)
    if checks is not None:
        checks.finish()
    return tuple(files)


class _Pass:
    def __init__(self, txn: Txn, change: ColumnChange, checks: RowChecks | None) -> None:
        self._txn = txn
        self._change = change
        self._checks = checks
        self._fills = ColumnFills(change.before, change.after.name, change.valued)
        self._needed = () if checks is None else checks.declared.columns
        self._failure: Exception | None = None

    def close(self) -> None:
        self._fills.close()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns to read, by the names that they have at the pin."""
        valued = {one.prop.name for one in self._change.valued}
        kept = (self._change.old_name(name) for name in self._needed if name not in valued)
        return tuple(dict.fromkeys([*self._fills.inputs, *(name for name in kept if name is not None)]))

    def write(self, handle: Any, fragment: Any, schema: pa.Schema) -> ColumnFile:
        self._failure = None
        try:
            return write_column_file(handle, fragment, schema, self._rows(handle, fragment.id, schema), self._txn.meter)
        except Exception:
            # The writer draws the rows and reports every failure of theirs as one of its own.
            if self._failure is not None:
                raise self._failure from None
            raise

    def _rows(self, handle: Any, fragment: int, schema: pa.Schema) -> Iterator[tuple[Offsets, pa.RecordBatch]]:
        try:
            for offsets, batch in self._read(handle, fragment):
                values = {one.prop.name: self._fills.values(one, batch) for one in self._change.valued}
                self.checked(batch, values)
                progress.advance(batch.num_rows)
                # A null where none may be was reported: this file will not be committed.
                yield (
                    offsets,
                    pa.RecordBatch.from_arrays([without_nulls(values[f.name], f) for f in schema], schema=schema),
                )
        except Exception as error:
            self._failure = error
            raise

    def _read(self, handle: Any, fragment: int) -> Iterator[tuple[Offsets, pa.RecordBatch]]:
        """The rows with what is asked of them. Of constants nothing is read: every physical row has the same."""
        if self.inputs:
            yield from read_fragment(handle, fragment, self.inputs, self._txn.meter, batch_rows=BATCH_ROWS)
            return
        count = handle.get_fragment(fragment).metadata.physical_rows
        for first in range(0, count, BATCH_ROWS):
            offsets = np.arange(first, min(count, first + BATCH_ROWS), dtype=np.int64)
            yield offsets, pa.RecordBatch.from_arrays([nulls(len(offsets), pa.null())], names=[""])

    def checked(self, batch: pa.RecordBatch, values: dict[str, pa.Array[Any]]) -> None:
        """Hold rows against the rules as they will be: under their new names, with their new values."""
        if self._checks is None:
            return
        columns = [self._column(name, batch, values) for name in self._needed]
        self._checks.feed(pa.RecordBatch.from_arrays(columns, names=list(self._needed)))

    def _column(self, name: str, batch: pa.RecordBatch, values: dict[str, pa.Array[Any]]) -> pa.Array[Any]:
        if name in values:
            return values[name]
        old = self._change.old_name(name)
        if old is not None:
            kept: pa.Array[Any] = batch.column(old)
            return kept
        added: pa.Array[Any] = nulls(batch.num_rows, arrow_type(self._change.after.property(name).type))
        return added
