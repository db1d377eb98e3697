"""How a writer that is long in its turn shows those behind it that it lives. Manners only."""

from __future__ import annotations

import contextlib
import threading

from omnigraph.commit import live
from omnigraph.commit.engine import Engine
from omnigraph.commit.manners import FIRST_SIGN, SIGN_OF_LIFE
from omnigraph.core.errors import OmnigraphError


class SignsOfLife:
    """Signs of life of a writer that prepares or stages something long in its turn: its ticket, written again.

    Must be stopped before the ticket becomes a plan or goes away. They end by themselves with the operation: an interrupt
    may come between the start of the thread and the hand that would stop it. The thread is its own: one of the pool would
    be held for as long as its writer waits for others of the pool.
    """

    def __init__(self, engine: Engine, op: str, ticket: bytes) -> None:
        self._engine = engine
        self._op = op
        self._ticket = ticket
        self._stopped = threading.Event()
        self._writing = threading.Lock()

    def start(self) -> None:
        threading.Thread(target=self._run, name="omnigraph-life", daemon=True).start()

    def _run(self) -> None:
        pause = FIRST_SIGN
        while not self._stopped.wait(self._engine.manners.grace_s * pause):
            pause = SIGN_OF_LIFE
            with self._writing:
                if self._stopped.is_set() or not live.has(self._op):
                    return
                # A sign that is not seen costs the turn, and nothing else.
                with contextlib.suppress(OmnigraphError):
                    self._engine.intents.rewrite(self._op, self._ticket)

    def stop(self) -> None:
        """No sign is written after this."""
        self._stopped.set()
        with self._writing:  # one that is on its way lands first
            pass
