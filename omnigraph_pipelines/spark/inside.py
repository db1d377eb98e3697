"""What is done once in the life of a Python worker of Spark. Owns nothing that a task does."""

from __future__ import annotations

import gc
from functools import cache


def settle() -> None:
    """Tell the collector that what is loaded by now stays. Spark lets it look through everything after every task, and the
    modules of this package alone make that some 60 ms, as much as a small task takes. Does nothing outside a worker."""
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
