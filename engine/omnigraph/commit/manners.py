"""How writers of different processes give way to each other. Speed and fairness only: no step is safe because of this.

Everything runs on this process's own clock. How long others wait depends on when *they* first saw an operation at the
front, never on a time that somebody wrote down.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from omnigraph.core.clock import Clock

GRACE_MIN_S = 5.0  # with commits of 0.2 to 0.6 s, one second rolled back the living; five never did
GRACE_COMMITS = 20.0
SHORT_GRACE = 0.1  # of the grace, behind a front that turned out dead: a row of dead owners must not cost one each
SIGN_OF_LIFE = 0.25  # of the grace: how often a writer that is long at the front says that it lives
CONTENDED_MIN_S = 2.0
CONTENDED_COMMITS = 30.0
POLL_COMMITS = 0.5
POLL_MIN_S = 0.002
POLL_MAX_S = 0.5
EWMA_ALPHA = 0.3
FIRST_COMMIT_S = 0.05  # before anything was measured


@dataclass
class _Front:
    op: str
    stamp: str
    since: float


class Manners:
    """What this process has learned about its own speed and its neighbours."""

    def __init__(self, clock: Clock, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._commit_s = FIRST_COMMIT_S
        self._contended_until = 0.0

    def note_commit(self, seconds: float) -> None:
        """One of our own commits took this long, waiting for others not included."""
        with self._lock:
            self._commit_s += EWMA_ALPHA * (seconds - self._commit_s)

    def note_neighbour(self) -> None:
        """Somebody was ahead of us or behind us."""
        with self._lock:
            lasts = max(CONTENDED_MIN_S, CONTENDED_COMMITS * self._commit_s)
            self._contended_until = self._clock.monotonic() + lasts

    @property
    def contended(self) -> bool:
        with self._lock:
            return self._clock.monotonic() < self._contended_until

    @property
    def commit_s(self) -> float:
        with self._lock:
            return self._commit_s

    @property
    def grace_s(self) -> float:
        return max(GRACE_MIN_S, GRACE_COMMITS * self.commit_s)

    def poll_s(self, rank: int = 1) -> float:
        """How long to sleep before looking again, with ``rank - 1`` others between us and the front."""
        wanted = POLL_COMMITS * self.commit_s * max(1, rank)
        return min(max(wanted, POLL_MIN_S), POLL_MAX_S) * self._rng.uniform(0.5, 1.5)

    def jitter_s(self, attempt: int) -> float:
        """Pause before publish attempt ``attempt`` (from 2)."""
        return self._rng.uniform(0.0, min(self.commit_s, 1.0) * (attempt - 1))


class FrontWatch:
    """One waiter's view of who stands at the front, and since when it has not moved."""

    def __init__(self, manners: Manners, clock: Clock, grace_s: float | None = None) -> None:
        self._manners = manners
        self._clock = clock
        self._grace_s = grace_s
        self._front: _Front | None = None
        self._short = False

    def beyond_grace(self, op: str, stamp: str) -> bool:
        """Whether ``op``, seen at the front now, has stood there unchanged for too long."""
        now = self._clock.monotonic()
        if self._front is None or self._front.op != op:
            self._front = _Front(op, stamp, now)
        elif self._front.stamp != stamp:
            self._front = _Front(op, stamp, now)
            self._short = False
        grace = self._manners.grace_s if self._grace_s is None else self._grace_s
        return now - self._front.since >= (grace * SHORT_GRACE if self._short else grace)

    def front_was_dead(self) -> None:
        """Whoever is next must show a sign of life sooner."""
        self._front = None
        self._short = True

    def front_moved(self) -> None:
        """The one at the front finished by itself: the next has a full grace."""
        self._front = None
        self._short = False
