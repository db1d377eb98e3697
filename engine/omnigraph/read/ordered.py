"""Lines in the order of their ids, in bounded memory.

Owns sorting and nothing else: it gets pairs of columns (id, line) and gives lines. What fits is sorted in memory; what
does not leaves in sorted runs on the local disk and is merged. Ids are compared by bytes, which is how Arrow compares
texts, and, for the code points of valid texts, how Python does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute

HELD_BYTES_MAX = 64 * 1024 * 1024  # held and sorted at once; sorting takes a few times as much
_OUT_ROWS = 1 << 16
_RUN_BATCH_BYTES = 1 << 20  # of each run one batch is held while runs are merged

SCHEMA = pa.schema([pa.field("id", pa.utf8(), nullable=False), pa.field("line", pa.large_utf8(), nullable=False)])


def is_ascending(ids: Any) -> bool:
    """Whether each id is greater than the one before it."""
    return len(ids) < 2 or bool(pc.all(pc.less(ids[:-1], ids[1:])).as_py())


def ordered_lines(batches: Iterable[pa.RecordBatch], *, held_bytes_max: int = HELD_BYTES_MAX) -> Iterator[Any]:
    """The lines of all batches (``SCHEMA``), by ascending id, as large_utf8 arrays."""
    source = iter(batches)
    held, more = _fill(source, held_bytes_max)
    if not more:
        yield from (batch.column("line") for batch in _sorted(held).to_batches(_OUT_ROWS))
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-export-") as folder:
        runs: list[Path] = []
        while held:
            path = Path(folder) / f"{len(runs)}.arrow"
            _write_run(path, _sorted(held))
            runs.append(path)
            held, more = _fill(source, held_bytes_max) if more else ([], False)
        yield from _merged(runs)


def _fill(source: Iterator[pa.RecordBatch], held_bytes_max: int) -> tuple[list[pa.RecordBatch], bool]:
    """Batches up to the bound, and whether there may be more."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in source:
        held.append(batch)
        size += batch.nbytes
        if size >= held_bytes_max:
            return held, True
    return held, False


def _sorted(held: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(held, SCHEMA).combine_chunks()
    held.clear()
    ids = table.column("id").combine_chunks()
    return table if is_ascending(ids) else table.take(pc.sort_indices(ids))


def _write_run(path: Path, table: pa.Table) -> None:
    rows = max(1, table.num_rows * _RUN_BATCH_BYTES // max(1, table.nbytes))
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)


class _Run:
    """One run on disk and the part of it that is in memory."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path), "rb")
        self._reader = pa.ipc.open_file(self._file)
        self._next = 0
        self.batch: pa.RecordBatch = pa.RecordBatch.from_pylist([], SCHEMA)

    def advance(self) -> bool:
        """Make ``batch`` hold rows; False and closed at the end of the run."""
        while self.batch.num_rows == 0:
            if self._next == self._reader.num_record_batches:
                self._file.close()
                return False
            self.batch = self._reader.get_batch(self._next)
            self._next += 1
        return True

    @property
    def last_id(self) -> str:
        found: str = self.batch.column("id")[-1].as_py()
        return found

    def take_until(self, bound: str) -> pa.RecordBatch:
        """Rows up to and with the bound; they leave the run."""
        within = pc.less_equal(self.batch.column("id"), bound).to_numpy(zero_copy_only=False)
        n = int(np.count_nonzero(within))
        taken = self.batch.slice(0, n)
        self.batch = self.batch.slice(n)
        return taken


def _merged(paths: list[Path]) -> Iterator[Any]:
    """Up to the smallest of the last ids in memory everything is known: sort that, give it away, go on."""
    runs = [run for run in map(_Run, paths) if run.advance()]
    while runs:
        bound = min(run.last_id for run in runs)
        parts = [part for run in runs if (part := run.take_until(bound)).num_rows]
        yield _sorted(parts).column("line").combine_chunks()
        runs = [run for run in runs if run.advance()]
