"""How long writers of different processes wait for each other: heuristics for waiting and fairness.

Correctness never depends on them. Everything runs on this process's own clock: how long others wait depends on when *they*
first saw an operation at the front, never on a time that another process wrote down.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.core.clock import Clock

GRACE_MIN_S = 5.0  # with commits of 0.2 to 0.6 s, one second rolled back the living; five never did
GRACE_COMMITS = 20.0
SHORT_GRACE = 0.06  # of the grace, behind a front that turned out dead: a row of dead owners must not cost one each ...
SHORT_COMMITS = 3.0  # ... and never less than a living one needs to see that it is at the front, and to say so
AWARE_GRACE = 0.06  # of the grace, for a while after a death: who kills one process often kills more
DEAD_PROBABLY = 0.5  # of the grace: a front that was silent for so long, and is gone, was ended by another waiter
AWARE_GRACES = 4.0  # how long that while is
FURTHER_BACK = 1.2  # of the grace, for waiters further back: one waiter is enough to end a dead operation
BEAT = 0.25  # of the grace: how often a writer that is long at the front says that it lives
FIRST_BEAT = 0.02  # of the grace: the first time, before those behind it could take it for one of a row of dead
CONTENDED_MIN_S = 2.0
CONTENDED_COMMITS = 30.0
POLL_COMMITS = 0.5
REJOIN_COMMITS = 0.25  # of an uncontended commit, before the second attempt of a publish
WAITS_MAX = 3  # pauses of a plan that is not taken along; then it reads what is there, and swaps
SWAP_MAX_S = 0.5  # however slow the swaps of this process were, no pause at a rank grows with them beyond it
RANK_FIRST = 0.4  # of a swap, behind one older plan in flight: its swap may be under way already ...
RANK_STEPS = 0.2  # ... and for each further one, so that those that were not taken along do not all go on at once
RANKS_MAX = 8  # no pause grows further
POLL_FIRST = 0.05  # directly behind the front, where every poll is idle time for all. Measured: a third more commits
LINGER_COMMITS = 0.2  # for requests that were answered together with the last one of this process
LINGER_MAX_S = 0.2
POLL_OFFERED = 0.35  # an offer ends with the plan of the front, wherever it stands in the queue
POLL_MIN_S = 0.002
POLL_MAX_S = 0.5
LEASE_GAP_COMMITS = 0.5  # how long a queue position is kept for a next write that has not come yet ...
LEASE_GAP_MIN_S = 0.002
LEASE_GAP_MAX_S = 0.02
LEASE_COMMITS = 4.0  # ... and how long it lasts before those behind it come first. One more commit than that fits
LEASE_WAIT_S = 0.4  # shared by all waiters: the most that leases add to one round of the queue
LEASE_PLANS_MAX = 8  # plans under one queue position
EWMA_ALPHA = 0.3
FIRST_COMMIT_S = 0.05  # before anything was measured
COMMIT_REQUESTS = 8.0  # one after the other, in any commit


@dataclass
class _Front:
    op: str
    stamp: str
    since: float


@dataclass
class WriteSpan:
    """One write under way. ``goes_on``: it is about to be made in another way, so that it has not ended."""

    goes_on: bool = False


class ContentionTiming:
    """What this process has learned about its own speed and its neighbours."""

    def __init__(self, clock: Clock, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._commit_s = FIRST_COMMIT_S
        self._alone_s = FIRST_COMMIT_S  # of commits that have lost no swap: others' pauses are not in it
        self._swap_s = 0.0
        self._request_s = 0.0
        self._crowded_until = 0.0
        self._contended_until = 0.0
        self._aware_until = 0.0
        self._ended_at = float("-inf")
        self._follows_soon = False
        self._company = 1

    @contextlib.contextmanager
    def writing(self) -> Iterator[WriteSpan]:
        """One write of this process, from where none of its own is in its way any more."""
        with self._lock:
            self._follows_soon = self._clock.monotonic() - self._ended_at <= self._keep
            ended_before = self._ended_at
        span = WriteSpan()
        try:
            yield span
        finally:
            with self._lock:
                self._ended_at = ended_before if span.goes_on else self._clock.monotonic()

    def keeps_lease(self, lasted_s: float, waiting: int) -> bool:
        """Whether a queue position held for so long is kept: this process writes in a row, and few others wait."""
        with self._lock:
            return self._follows_soon and lasted_s <= min(LEASE_COMMITS * self._slowest, LEASE_WAIT_S / max(1, waiting))

    @property
    def keep_s(self) -> float:
        """How long a lease waits for the next write to begin."""
        with self._lock:
            return self._keep

    @property
    def _keep(self) -> float:
        return min(max(LEASE_GAP_COMMITS * self._slowest, LEASE_GAP_MIN_S), LEASE_GAP_MAX_S)

    @property
    def prepare_s(self) -> float:
        """How long the next write may prepare under a lease: those behind see nothing move."""
        with self._lock:
            return FIRST_BEAT * self._grace

    def note_commit(self, seconds: float, *, lost: bool = False) -> None:
        """One of our own commits took this long, waiting for others not included. ``lost``: it has lost a swap before."""
        with self._lock:
            self._commit_s += EWMA_ALPHA * (seconds - self._commit_s)
            if not lost:
                self._alone_s += EWMA_ALPHA * (seconds - self._alone_s)

    def note_work(self, seconds: float) -> None:
        """A commit that came to nothing took this long up to its effects: whole ones take no less."""
        with self._lock:
            self._commit_s += EWMA_ALPHA * max(0.0, seconds - self._commit_s)

    def note_request(self, seconds: float) -> None:
        """One request took this long. Who waits learns from it how slow the store is for everybody now."""
        with self._lock:
            self._request_s += (seconds - self._request_s) * (EWMA_ALPHA if self._request_s else 1.0)

    def note_contention(self) -> None:
        """Another writer was ahead of us or behind us."""
        with self._lock:
            lasts = max(CONTENDED_MIN_S, CONTENDED_COMMITS * self._slowest)
            self._contended_until = self._clock.monotonic() + lasts

    def note_crowd(self) -> None:
        """Writers of other tables swap on this line: a plan of ours lost to one, was taken along by one, or took theirs along."""
        with self._lock:
            lasts = max(CONTENDED_MIN_S, CONTENDED_COMMITS * self._slowest)
            self._crowded_until = self._clock.monotonic() + lasts

    def note_quiet(self) -> None:
        """No other plan was in flight."""
        with self._lock:
            self._crowded_until = 0.0

    @property
    def crowded(self) -> bool:
        """Whether a swap on a state that is many requests old would very likely be lost."""
        with self._lock:
            return self._clock.monotonic() < self._crowded_until

    def note_swap(self, seconds: float) -> None:
        """An attempt to swap took so long, from the look at the newest state on, whether it was lost or not."""
        with self._lock:
            self._swap_s += (seconds - self._swap_s) * (EWMA_ALPHA if self._swap_s else 1.0)

    def note_company(self, requests: int) -> None:
        """The plan that answered the last request of this process had so many, of all processes."""
        with self._lock:
            self._company = requests

    @property
    def company(self) -> int:
        """How many requests are likely to be there for one plan."""
        with self._lock:
            return self._company

    @property
    def linger_s(self) -> float:
        return min(LINGER_COMMITS * self.commit_s, LINGER_MAX_S)

    def note_death(self) -> None:
        """An owner was found dead, by nothing but its silence."""
        with self._lock:
            self._aware_until = self._clock.monotonic() + AWARE_GRACES * self._grace

    @property
    def aware(self) -> bool:
        """Whether an owner was found dead not long ago."""
        with self._lock:
            return self._clock.monotonic() < self._aware_until

    @property
    def contended(self) -> bool:
        with self._lock:
            return self._clock.monotonic() < self._contended_until

    @property
    def commit_s(self) -> float:
        """How long a commit takes now, as far as this process can tell."""
        with self._lock:
            return self._slowest

    @property
    def _slowest(self) -> float:
        return max(self._commit_s, COMMIT_REQUESTS * self._request_s)

    @property
    def grace_s(self) -> float:
        with self._lock:
            return self._grace

    @property
    def _grace(self) -> float:
        return max(GRACE_MIN_S, GRACE_COMMITS * self._slowest)

    def poll_s(self, rank: int = 1) -> float:
        """How long to sleep before looking again, with ``rank - 1`` others between us and the front."""
        wanted = self.commit_s * (POLL_FIRST if rank <= 1 else POLL_COMMITS * rank)
        return min(max(wanted, POLL_MIN_S), POLL_MAX_S) * self._rng.uniform(0.5, 1.5)

    def poll_offered_s(self) -> float:
        """The same for a writer whose request the front may carry out."""
        return min(max(self.commit_s * POLL_OFFERED, POLL_MIN_S), POLL_MAX_S) * self._rng.uniform(0.5, 1.5)

    def jitter_s(self, attempt: int) -> float:
        """Pause before publish attempt ``attempt`` (from 2)."""
        return self._rng.uniform(0.0, min(self.commit_s, 1.0) * (attempt - 1))

    def rejoin_s(self, attempt: int) -> float:
        """The same for a writer whose plan others may publish meanwhile: it only spreads the swaps."""
        with self._lock:
            alone = self._alone_s
        return self._rng.uniform(0.0, REJOIN_COMMITS * min(alone, 1.0) * (attempt - 1))

    def pause_at_rank_s(self, rank: int) -> float:
        """How long a plan that is applied waits to be taken along, with ``rank`` older ones in flight."""
        with self._lock:
            swap_s = self._swap_s
        return rank_pause_s(swap_s, rank) * self._rng.uniform(0.9, 1.1)


def rank_pause_s(swap_s: float, rank: int) -> float:
    """The pause of an applied plan with ``rank`` older ones in flight, where a swap takes ``swap_s``. The oldest swaps at once and
    takes the others along. They wait for about as long as that takes, each a little longer than the one before: a swap that came to
    nothing costs a pause, and of the plans that are left the oldest is the first to look again. No plan waits for a particular other:
    the pause just ends."""
    if rank <= 0:
        return 0.0
    return min(swap_s, SWAP_MAX_S) * (RANK_FIRST + RANK_STEPS * (min(rank, RANKS_MAX) - 1))


class FrontWatch:
    """One waiter's view of who stands at the front, and since when it has not moved."""

    def __init__(self, timing: ContentionTiming, clock: Clock, grace_s: float | None = None) -> None:
        self._timing = timing
        self._clock = clock
        self._grace_s = grace_s
        self._front: _Front | None = None
        self._short = False

    @property
    def after_dead(self) -> bool:
        """Whether the one before was dead and no entry has moved since."""
        return self._short

    def standing_s(self, op: str, stamp: str) -> float:
        """How long ``op``, seen at the front now, has stood there unchanged."""
        now = self._clock.monotonic()
        if self._front is None or self._front.op != op:
            self._front = _Front(op, stamp, now)
        elif self._front.stamp != stamp:
            self._front = _Front(op, stamp, now)
            self._short = False
        return now - self._front.since

    def beyond_grace(self, op: str, stamp: str, rank: int = 1) -> bool:
        """Whether ``op``, seen at the front now, has stood there unchanged for too long. ``rank - 1`` others are between."""
        standing = self.standing_s(op, stamp)
        grace = self._timing.grace_s if self._grace_s is None else self._grace_s
        if self._short or self._timing.aware:
            grace = max(grace * (SHORT_GRACE if self._short else AWARE_GRACE), SHORT_COMMITS * self._timing.commit_s)
        return standing >= (grace if rank <= 1 else grace * FURTHER_BACK)

    def front_was_dead(self, *, silent: bool) -> None:
        """Give the next owner in the queue a shorter grace. ``silent``: the last one was taken for dead only because of its silence."""
        self._front = None
        self._short = True
        if silent:
            self._timing.note_death()

    def front_moved(self) -> None:
        """The one at the front is gone: the next has a full grace, unless an owner died not long ago. After half a grace
        of silence another waiter has probably ended it, and will be as quick with the next."""
        front = self._front
        if front is not None and self._clock.monotonic() - front.since >= DEAD_PROBABLY * self._timing.grace_s:
            self._timing.note_death()
        self._front = None
        self._short = False
