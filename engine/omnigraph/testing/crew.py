"""Processes that work side by side and die at random: each is begun again where what it said ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from omnigraph.testing.children import Child

FIRST_DEATH_WORDS: Final = 6  # said by all: work that is quick would otherwise be over before the clock kills
_POLL_S: Final = 0.02


class Crew:
    """Workers by name. Everything that one of them says goes to ``note``, also what it said before it was killed."""

    def __init__(self, note: Callable[[Any], None], kill_every_s: float, rng: random.Random) -> None:
        self._note = note
        self._kill_every_s = kill_every_s
        self._rng = rng
        self._at_work: dict[str, Child] = {}
        self._heard = 0
        self.kills = 0

    @property
    def at_work(self) -> frozenset[str]:
        return frozenset(self._at_work)

    def begin(self, who: str, call: Any, *args: Any) -> None:
        """Start a worker, unless it is at work."""
        if who not in self._at_work:
            self._at_work[who] = Child(call, *args)

    def work(self, manned: Callable[[], bool], limit_s: float) -> bool:
        """Hear and kill until ``manned``, which begins who is missing each time, says that all is done. False when time is up.

        Workers are killed by the clock. The first one dies after some words at the latest.
        """
        ends = time.monotonic() + limit_s
        next_kill = time.monotonic() + self._kill_every_s
        try:
            while not manned():
                if time.monotonic() > ends:
                    return False
                self._hear()
                if (self._first_is_due or time.monotonic() > next_kill) and self._at_work:
                    self._kill_one()
                    next_kill = time.monotonic() + self._kill_every_s * (0.5 + self._rng.random())
        finally:
            for who in list(self._at_work):
                self._end(who)
        return True

    @property
    def _first_is_due(self) -> bool:
        return not self.kills and self._heard >= FIRST_DEATH_WORDS

    def _hear(self) -> None:
        """Take in all that each has said: one word a round would leave those far behind that talk more than others."""
        for who, child in list(self._at_work.items()):
            wait_s = _POLL_S
            with suppress(TimeoutError):
                while (said := child.hear(wait_s)) is not None:
                    self._heard += 1
                    self._note(said)
                    wait_s = 0.0
                    if self._first_is_due:
                        return
                child.kill()
                del self._at_work[who]

    def _kill_one(self) -> None:
        self._end(self._rng.choice(sorted(self._at_work)))
        self.kills += 1

    def _end(self, who: str) -> None:
        """Kill a worker, and note what it had said: that is done, heard or not."""
        child = self._at_work.pop(who)
        child.kill()
        while (said := child.hear()) is not None:
            self._note(said)
