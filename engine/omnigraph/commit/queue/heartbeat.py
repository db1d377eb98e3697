"""How a writer that holds its queue position for long shows those behind it that it is alive."""

from __future__ import annotations

import contextlib
import threading

from omnigraph.commit.engine import Engine
from omnigraph.commit.queue import local_operations
from omnigraph.commit.queue.timing import BEAT, FIRST_BEAT
from omnigraph.core.errors import OmnigraphError


class Heartbeat:
    """Writes the ticket of a writer again while it prepares or stages something long.

    Must be stopped before the ticket becomes a plan or is deleted. It ends by itself with the operation: an interrupt may
    come between the start of the thread and the call that would stop it. The thread is its own: one of the pool would be
    held for as long as its writer waits for others of the pool.
    """

    def __init__(self, engine: Engine, op: str, ticket: bytes) -> None:
        self._engine = engine
        self._op = op
        self._ticket = ticket
        self._stopped = threading.Event()
        self._writing = threading.Lock()

    def start(self) -> None:
        threading.Thread(target=self._run, name="omnigraph-heartbeat", daemon=True).start()

    def _run(self) -> None:
        pause = FIRST_BEAT
        while not self._stopped.wait(self._engine.timing.grace_s * pause):
            pause = BEAT
            with self._writing:
                if self._stopped.is_set() or not local_operations.has(self._op):
                    return
                # A beat that is lost costs the queue position, and nothing else.
                with contextlib.suppress(OmnigraphError):
                    self._engine.intents.rewrite(self._op, self._ticket)

    def stop(self) -> None:
        """No beat is written after this."""
        self._stopped.set()
        with self._writing:  # a beat that is on its way lands first
            pass
