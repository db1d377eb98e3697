"""Decide which batches of a source are run now, from what is there, what was seen before and what is under way.

Pure. The memory is a sensor's cursor and only spares work: if it is lost, every batch is offered once more, and the graph
answers a batch that it has with the receipt of its commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal

from omnigraph_pipelines.batches import Batch, is_key, shown
from omnigraph_pipelines.settings import SETTLE_S
from omnigraph_pipelines.wording import counted

REQUESTS_MAX: Final = 50  # of one tick; the rest waits for the next
ATTEMPTS_MAX: Final = 5  # of one batch whose runs died or found the store away
WAITING_ATTEMPTS_MAX: Final = 8  # of one batch that was refused for what it refers to
WAITING_S_MAX: Final = 6 * 3600.0  # since its first refusal; after that it counts as refused
FIRST_PAUSE_S: Final = 60.0
PAUSE_S_MAX: Final = 3600.0
RETIRED_S: Final = 300.0  # without its batch a partition is kept for so long
_FINGERPRINT_CHARS: Final = 16
_NAMED_MAX: Final = 3


Standing = Literal["ended", "canceled", "waiting", "refused", "failed", "given up"]


@dataclass(frozen=True)
class Seen:
    """What is remembered of a batch: how it looked, since when, as what it was offered, and whether that still holds."""

    listing: str
    since_s: float
    fingerprint: str | None = None
    is_settled: bool = False

    def to_list(self) -> list[Any]:
        return [self.listing, round(self.since_s, 1), self.fingerprint, int(self.is_settled)]


@dataclass(frozen=True)
class LastRun:
    """How the newest run of a batch ended. ``attempts``: runs of this fingerprint so far; ``first_s``: when the first ended.

    ``judged_at``: the commit that the run was judged against, where it was refused only for what the graph does not hold yet.
    ``reason``: the refusal in a few words.
    """

    fingerprint: str
    failed: bool
    permanent: bool
    attempts: int
    ended_s: float
    first_s: float | None = None
    judged_at: str | None = None
    reason: str = ""
    canceled: bool = False

    def standing(self, now_s: float) -> Standing:
        """Return what the run means for its batch."""
        if self.canceled:
            return "canceled"
        if not self.failed:
            return "ended"
        if self.judged_at is not None:
            first_s = self.ended_s if self.first_s is None else self.first_s
            is_over = self.attempts >= WAITING_ATTEMPTS_MAX or now_s - first_s >= WAITING_S_MAX
            return "refused" if is_over else "waiting"
        if self.permanent:
            return "refused"
        return "failed" if self.attempts < ATTEMPTS_MAX else "given up"


@dataclass(frozen=True)
class Offer:
    """One run to ask for."""

    batch: str
    fingerprint: str
    attempt: int = 1

    @property
    def run_key(self) -> str:
        """A failed run uses its key up: a further attempt has its own."""
        again = f":a{self.attempt}" if self.attempt > 1 else ""
        return f"{self.batch}/{self.fingerprint[:_FINGERPRINT_CHARS]}{again}"


def run_key(offers: Sequence[Offer]) -> str:
    """The key of a run of these batches."""
    if len(offers) == 1:
        return offers[0].run_key
    every = hashlib.sha256("\n".join(offer.run_key for offer in offers).encode()).hexdigest()
    return f"{offers[0].run_key}+{len(offers) - 1}:{every[:_FINGERPRINT_CHARS]}"


@dataclass(frozen=True)
class Decision:
    """``runs``: the offers, by the run that they share. ``complete``: batches that may be partitions. ``gone``: partitions to retire. ``missed``: since when a partition has no
    batch, for the next tick."""

    runs: tuple[tuple[Offer, ...], ...]
    seen: Mapping[str, Seen]
    said: str
    complete: tuple[str, ...] = ()
    gone: frozenset[str] = frozenset()
    missed: Mapping[str, float] = field(default_factory=dict)

    @property
    def offers(self) -> tuple[Offer, ...]:
        return tuple(offer for run in self.runs for offer in run)


@dataclass(frozen=True)
class Tick:
    """Everything that a decision rests on.

    ``done``: the fingerprint of each batch that was committed, as recorded; None where nothing is recorded.
    ``held_up``: why nothing is offered at all, such as a source that comes before this one.
    ``waits_in_line``: whether later batches wait while one is refused for what it refers to.
    ``partitions``: in the order in which they were added. ``per_run``: how many batches may share a run, if they follow each other there.
    """

    batches: Sequence[Batch]
    seen: Mapping[str, Seen]
    now_s: float
    under_way: Sequence[str] = ()  # batches with a run that has not ended
    last: Mapping[str, LastRun] = field(default_factory=dict)
    is_serial: bool = True
    has_marker: bool = False
    done: Mapping[str, str] | None = None
    held_up: str = ""
    partitions: Sequence[str] = ()
    missed: Mapping[str, float] = field(default_factory=dict)
    waits_in_line: bool = True
    per_run: int = 1


def decide(tick: Tick, fingerprint: Callable[[Batch], str], head: Callable[[], str] = str) -> Decision:
    """Offer the oldest batch that is due if the source is serial and nothing of it is under way, else every batch that is due. Those
    that come right after it share its run, up to ``per_run``.

    ``head`` is asked at most once, and only if a batch waits for the graph to change.
    """
    look = _Look(tick, head)
    for batch in tick.batches:
        look.at(batch, fingerprint)
    missed = _missed(tick)
    gone = frozenset(key for key, since_s in missed.items() if tick.now_s - since_s >= RETIRED_S)
    return Decision(tuple(map(tuple, look.runs)), look.seen, look.said(), tuple(look.complete), gone, missed)


def _missed(tick: Tick) -> dict[str, float]:
    """Return the partitions without a batch, and since when. A landing place in which nothing is left may be one that is not
    mounted: it retires no partition."""
    here = {batch.key for batch in tick.batches} | set(tick.under_way)
    if not tick.batches:
        return {}
    return {key: tick.missed.get(key, tick.now_s) for key in tick.partitions if key not in here}


def pause(attempts: int) -> float:
    """Return the seconds between a failed attempt and the next."""
    return min(FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 16), PAUSE_S_MAX)


class _Look:
    """One pass over the batches, oldest first: what to offer, what to remember, and what to say."""

    def __init__(self, tick: Tick, head: Callable[[], str]) -> None:
        self._tick = tick
        self._head = cache(head)
        self._room = REQUESTS_MAX if not tick.is_serial else 0 if tick.under_way else 1
        if tick.held_up:
            self._room = 0
        self.runs: list[list[Offer]] = []
        self._run: list[Offer] = []  # that the next offer may join
        self._places = {key: place for place, key in enumerate(tick.partitions)}
        self.seen: dict[str, Seen] = {}
        self.complete: list[str] = []
        self._done = 0
        self._notes: dict[str, list[str]] = {}

    def at(self, batch: Batch, fingerprint: Callable[[Batch], str]) -> None:
        key = batch.key
        if not is_key(key):
            self._note("have a name that cannot be a partition", key)
            return
        before = self._tick.seen.get(key)
        if before is not None and before.listing == batch.listing:
            seen = before
        else:
            seen = Seen(batch.listing, self._tick.now_s, None if before is None else before.fingerprint)
        self.seen[key] = seen
        if seen.is_settled or self._is_complete(batch, seen):
            self.complete.append(key)
            self._places.setdefault(key, len(self._places))
        if key in self._tick.under_way:
            self._note("under way", key)
        elif seen.is_settled:
            self._settled(key, seen)
        elif not self._is_complete(batch, seen):
            self._note("have no marker yet" if self._tick.has_marker else "may still be being written", key)
        elif not self._has_room(key):
            self._note("waiting", key)
        else:
            self._offer(batch, seen, fingerprint(batch)[:_FINGERPRINT_CHARS])

    def _is_complete(self, batch: Batch, seen: Seen) -> bool:
        if self._tick.has_marker:
            return batch.is_ready
        return bool(batch.files) and self._tick.now_s - seen.since_s >= SETTLE_S

    def _offer(self, batch: Batch, seen: Seen, found: str) -> None:
        self.seen[batch.key] = replace(seen, fingerprint=found, is_settled=True)
        if found == seen.fingerprint:  # touched, with the same contents
            self._settled(batch.key, self.seen[batch.key])
            return
        self._ask(Offer(batch.key, found))

    def _settled(self, key: str, seen: Seen) -> None:
        """Judge a batch that was offered as it is: offer it again if its runs did not bring it to an end."""
        last, done = self._tick.last.get(key), self._tick.done
        if last is not None and last.fingerprint != seen.fingerprint:
            last = None  # of earlier contents
        if done is not None and done.get(key) == seen.fingerprint:
            self._done += 1
        elif last is None:
            # No run and no commit on record: the records were deleted. The graph answers if it has the batch.
            if done is None:
                self._note("offered before", key)
            else:
                self._again(key, seen, 2)
        else:
            self._ended(key, seen, last)

    def _ended(self, key: str, seen: Seen, last: LastRun) -> None:
        """Judge a batch by its newest run."""
        standing = last.standing(self._tick.now_s)
        why = f"{key}: {last.reason}" if last.reason else key
        is_early = last.ended_s + pause(last.attempts) > self._tick.now_s
        if standing == "ended" and self._tick.done is None:
            self._done += 1
        elif standing == "ended" and last.attempts >= ATTEMPTS_MAX:
            self._note("ended without a commit and are left to you", why)
        elif standing == "canceled":
            self._note("canceled", key)
        elif standing == "refused":
            self._note("refused", why)
        elif standing == "given up":
            self._note(f"failed {ATTEMPTS_MAX} times and are left to you", why)
        elif standing == "failed" and is_early:
            self._note("failed and will be tried again", why)
            self._hold()
        elif standing == "waiting" and (is_early or self._head() == last.judged_at):
            self._note("waiting for what they refer to", why)
            if self._tick.waits_in_line:
                self._hold()
        else:
            self._again(key, seen, last.attempts + 1)

    def _again(self, key: str, seen: Seen, attempt: int) -> None:
        if not self._has_room(key):
            self._note("waiting", key)
            return
        self._ask(Offer(key, seen.fingerprint or "", attempt))

    def _has_room(self, key: str) -> bool:
        if self._joins(key) or self._room > 0:
            return True
        self._hold()
        return False

    def _joins(self, key: str) -> bool:
        """Return whether a batch can share the run of the one before it: a range of partitions has all that lie between its ends."""
        if not self._run or len(self._run) >= self._tick.per_run:
            return False
        return self._places[key] == self._places[self._run[-1].batch] + 1

    def _ask(self, offer: Offer) -> None:
        if self._joins(offer.batch):
            self._run.append(offer)
            return
        self._room -= 1
        self._run = [offer]
        self.runs.append(self._run)

    def _hold(self) -> None:
        """Let the later batches of a serial source wait: they may build on this one."""
        if self._tick.is_serial:
            self._room, self._run = 0, []

    def _note(self, what: str, key: str) -> None:
        self._notes.setdefault(what, []).append(shown(key))

    def said(self) -> str:
        """Return one line with numbers: the first thing that an operator reads."""
        parts = [f"{counted(len(self._tick.batches), 'batch', 'batches')}, {self._done} done"]
        for what, keys in self._notes.items():
            more = ", …" if len(keys) > _NAMED_MAX else ""
            parts.append(f"{len(keys)} {what} ({', '.join(key[:80] for key in keys[:_NAMED_MAX])}{more})")
        if self._tick.held_up:
            parts.append(self._tick.held_up)
        return "; ".join(parts)


# --- the cursor -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """What one tick leaves for the next: the batches of the source, those of each source that comes before it, and since when
    a partition has no batch."""

    seen: Mapping[str, Seen] = field(default_factory=dict)
    before: Mapping[str, Mapping[str, Seen]] = field(default_factory=dict)
    missed: Mapping[str, float] = field(default_factory=dict)


def to_cursor(memory: Memory) -> str:
    before = {name: _to_plain(seen) for name, seen in sorted(memory.before.items())}
    found = {"v": 2, "seen": _to_plain(memory.seen), "before": before, "missed": dict(sorted(memory.missed.items()))}
    return json.dumps(found, separators=(",", ":"))


def from_cursor(text: str | None) -> Memory:
    """Return what a cursor says, and nothing for one that does not read: a person may have edited it."""
    try:
        found = json.loads(text) if text else {}
        if found.get("v") != 2:
            return Memory(_from_plain(found))  # of the first release: batches alone
        before = {str(name): _from_plain(seen) for name, seen in found["before"].items()}
        missed = {str(key): float(since_s) for key, since_s in found.get("missed", {}).items()}
        return Memory(_from_plain(found["seen"]), before, missed)
    except (ValueError, TypeError, AttributeError, LookupError):
        return Memory()


def _to_plain(seen: Mapping[str, Seen]) -> dict[str, list[Any]]:
    return {key: one.to_list() for key, one in sorted(seen.items())}


def _from_plain(found: Mapping[str, Any]) -> dict[str, Seen]:
    return {
        str(key): Seen(str(listing), float(since_s), None if known is None else str(known), bool(is_settled))
        for key, (listing, since_s, known, is_settled) in found.items()
    }
