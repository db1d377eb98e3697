"""Counting the requests of Lance calls, and naming what failed. A commit's outcome is not decided here.

Lance counts requests per store client, and all handles of one graph share a client. So a call is a section of its meter,
which keeps calls side by side apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table.errors import panics_raised, translate

if TYPE_CHECKING:
    from lance import LanceDataset


def metered(
    handle: LanceDataset, meter: Meter | None, request_class: str, exactly: int | None = None
) -> AbstractContextManager[object]:
    """Around calls on one handle: their requests go to ``meter``. ``exactly``: how many there are, where that is known."""
    if meter is None:
        return contextlib.nullcontext()
    return meter.section(request_class, handle.io_stats_incremental, exactly)


@contextlib.contextmanager
def reading(handle: LanceDataset, meter: Meter | None, request_class: str, what: str) -> Iterator[None]:
    """``metered``, and a failure becomes ours ("``what`` failed: …"), with the file where one of the version is damaged."""
    with metered(handle, meter, request_class):
        try:
            with panics_raised():
                yield
        except Exception as error:
            found = _explained(handle, translate(error, what), what)
            if found is error:  # nothing is its own cause
                raise
            raise found from error


def _explained(handle: LanceDataset, error: OmnigraphError, what: str) -> OmnigraphError:
    from omnigraph.table.damage import with_file  # it is needed where something is wrong only

    return with_file(handle, error, what)
