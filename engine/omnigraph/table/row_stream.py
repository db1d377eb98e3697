"""Rows on their way to Lance, which draws them from a thread of its own: counted for progress, and errors kept whole.

An error that is raised while rows are drawn (a file that cannot be read to its end, a row that breaks a rule) comes back
from Lance as a text. What was raised first is raised again as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from omnigraph.core import progress
from omnigraph.core.errors import OmnigraphError

# Rows between two reports of progress.
_REPORTED_ROWS = 64 * 1024


@contextlib.contextmanager
def drawing(data: Any) -> Iterator[Any]:
    """The same rows for Lance. A table is handed on as it is where progress is not listened to: Lance makes a reader of it."""
    held = isinstance(data, pa.Table)
    if not isinstance(data, pa.RecordBatchReader) and not (held and progress.listening()):
        yield data
        return
    batches: Iterable[pa.RecordBatch] = data.to_batches(max_chunksize=_REPORTED_ROWS) if held else data
    count = progress.counter() if progress.listening() else None
    raised: list[OmnigraphError] = []

    def drawn() -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                yield batch
                if count is not None:
                    # The bytes of a stream were counted where it was read.
                    count(batch.num_rows, batch.nbytes if held else 0)
        except OmnigraphError as error:
            raised.append(error)
            raise

    try:
        yield pa.RecordBatchReader.from_batches(data.schema, drawn())
    except OmnigraphError as error:
        if raised and error is not raised[0]:
            raise raised[0] from None
        raise
