"""Python's cyclic garbage collector, while very many objects are made at once that all stay.

The collector starts by the number of objects made since it last ran and walks over everything that the process holds. Reading a
state of 2,000 tables starts it several times, for nothing: half of the time of an open.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_on = False


_PAUSES = _Pauses()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the collector from starting by itself, for all threads. It runs again once the last pause has ended, unless it was
    off before. For work that makes no cycles and ends soon."""
    with _PAUSES.lock:
        if not _PAUSES.count:
            _PAUSES.was_on = gc.isenabled()
            gc.disable()
        _PAUSES.count += 1
    try:
        yield
    finally:
        with _PAUSES.lock:
            _PAUSES.count -= 1
            if not _PAUSES.count and _PAUSES.was_on:
                gc.enable()
