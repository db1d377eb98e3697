"""The one way into an operation on an open graph.

Owns the checks that come before anything is done: the process that opened the graph, closed, read-only. Names and meters the
operation. Whatever may change storage enters here with ``writes=True``; there is no second check above the commit protocol.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from omnigraph.commit.engine import Engine
from omnigraph.core.errors import InvalidInput
from omnigraph.core.operation import Operation, operating
from omnigraph.core.progress import Listener


@contextlib.contextmanager
def entering(
    engine: Engine, name: str, *, writes: bool = False, listener: Listener | None = None
) -> Iterator[Operation]:
    """Run the block as the operation ``name``. Refuse it in a forked process, after close, and a write on a read-only
    handle."""
    # First, and outside the operation: locks of logs and metrics may have been held by a thread that was not forked.
    engine.check_process()
    with operating(name, engine.uri, writes=writes, listener=listener, clock=engine.clock) as operation:
        engine.check_open()
        if writes and engine.read_only:
            raise InvalidInput(
                f"the graph was opened read-only, and {name} writes: graph={engine.uri}",
                hint="open it with read_only=False",
                operation=name,
            )
        yield operation
