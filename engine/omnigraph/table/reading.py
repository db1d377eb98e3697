"""Counting the requests of look-ups, and naming what failed. Reads only: a commit's outcome is not decided here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.core.meter import Meter
from omnigraph.table.errors import translate

if TYPE_CHECKING:
    from lance import LanceDataset


@contextlib.contextmanager
def reading(handle: LanceDataset, meter: Meter | None, request_class: str, what: str) -> Iterator[None]:
    """Around calls on one handle: their requests go to ``meter``, their failures become ours ("``what`` failed: …").

    The counter belongs to the handle's store client, so two threads on one handle share what they see between them;
    nothing is counted twice.
    """
    if meter is not None:
        handle.io_stats_incremental()
    try:
        yield
    except Exception as error:
        raise translate(error, what) from error
    finally:
        if meter is not None:
            seen = handle.io_stats_incremental()
            meter.count(
                request_class,
                seen.read_iops + seen.write_iops,
                bytes_read=seen.read_bytes,
                bytes_written=seen.written_bytes,
            )
