"""How a writer that is long in its turn shows those behind it that it lives. Manners only."""

from __future__ import annotations

import contextlib
import threading

from omnigraph.commit.engine import Engine
from omnigraph.commit.manners import FIRST_SIGN, SIGN_OF_LIFE
from omnigraph.core.errors import OmnigraphError


class SignsOfLife:
    """Signs of life of a writer that prepares or stages something long in its turn: its ticket, written again.

    Must be stopped before the ticket becomes a plan or goes away.
    """

    def __init__(self, engine: Engine, op: str, ticket: bytes) -> None:
        self._engine = engine
        self._op = op
        self._ticket = ticket
        self._stopped = threading.Event()
        self._running = engine.spawn(self._run)

    def _run(self) -> None:
        pause = FIRST_SIGN
        while not self._stopped.wait(self._engine.manners.grace_s * pause):
            pause = SIGN_OF_LIFE
            # A sign that is not seen costs the turn, and nothing else.
            with contextlib.suppress(OmnigraphError):
                self._engine.intents.rewrite(self._op, self._ticket)

    def stop(self) -> None:
        self._stopped.set()
        self._running.result()
