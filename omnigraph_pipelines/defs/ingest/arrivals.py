"""Which batches are to be run now: what is there, what was seen before, what is under way; a decision out.

Pure. The memory is a sensor's cursor and only spares work: lost, every batch is offered once more, and the graph answers a
batch that it has with the receipt of its commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from omnigraph_pipelines.batches import Batch, is_key
from omnigraph_pipelines.settings import SETTLE_S

REQUESTS_MAX: Final = 50  # of one tick; the rest waits for the next
ATTEMPTS_MAX: Final = 5  # of one batch whose runs died or found the store away
FIRST_PAUSE_S: Final = 60.0
_FINGERPRINT_CHARS: Final = 16
_NAMED_MAX: Final = 3


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
    """How the newest run of a batch ended. ``attempts``: runs of this fingerprint so far."""

    fingerprint: str
    failed: bool
    permanent: bool
    attempts: int
    ended_s: float


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


@dataclass(frozen=True)
class Decision:
    offers: tuple[Offer, ...]
    seen: Mapping[str, Seen]
    said: str


@dataclass(frozen=True)
class Tick:
    """Everything that a decision rests on."""

    batches: Sequence[Batch]
    seen: Mapping[str, Seen]
    now_s: float
    under_way: Sequence[str] = ()  # batches with a run that has not ended
    last: Mapping[str, LastRun] = field(default_factory=dict)
    is_serial: bool = True
    has_marker: bool = False


def decide(tick: Tick, fingerprint: Callable[[Batch], str]) -> Decision:
    """Serial: the oldest batch that is due, when nothing of the source is under way. Else every batch that is due."""
    look = _Look(tick)
    for batch in tick.batches:
        look.at(batch, fingerprint)
    return Decision(tuple(look.offers), look.seen, look.said())


def pause(attempts: int) -> float:
    """Seconds after a failed attempt before the next."""
    return float(FIRST_PAUSE_S * 2 ** (attempts - 1))


class _Look:
    """One pass over the batches, oldest first: what to ask for, what is remembered, and what there is to say."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._room = REQUESTS_MAX if not tick.is_serial else 0 if tick.under_way else 1
        self.offers: list[Offer] = []
        self.seen: dict[str, Seen] = {}
        self._known = 0
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
        if key in self._tick.under_way:
            self._note("are under way", key)
        elif seen.is_settled:
            self._settled(key, seen)
        elif not self._is_complete(batch, seen):
            self._note("have no marker yet" if self._tick.has_marker else "may still be being written", key)
        elif self._room <= 0:
            self._note("wait for their turn", key)
        else:
            self._offer(batch, seen, fingerprint(batch)[:_FINGERPRINT_CHARS])

    def _is_complete(self, batch: Batch, seen: Seen) -> bool:
        if self._tick.has_marker:
            return batch.is_ready
        return bool(batch.files) and self._tick.now_s - seen.since_s >= SETTLE_S

    def _offer(self, batch: Batch, seen: Seen, found: str) -> None:
        self.seen[batch.key] = replace(seen, fingerprint=found, is_settled=True)
        if found == seen.fingerprint:  # touched, with the same contents
            self._known += 1
            return
        self._room -= 1
        self.offers.append(Offer(batch.key, found))

    def _settled(self, key: str, seen: Seen) -> None:
        """Offered as it is. Offered again if its run died or found the store away, in time and so many times."""
        last = self._tick.last.get(key)
        is_to_be_tried = (
            last is not None and last.failed and not last.permanent and last.fingerprint == seen.fingerprint
        )
        if last is None or not is_to_be_tried:
            self._known += 1
        elif last.attempts >= ATTEMPTS_MAX:
            self._note(f"failed {ATTEMPTS_MAX} times and are left to you", key)
        elif last.ended_s + pause(last.attempts) > self._tick.now_s:
            self._note("failed and will be tried again", key)
            if self._tick.is_serial:
                self._room = 0  # the ones after it may build on it
        elif self._room > 0:
            self._room -= 1
            self.offers.append(Offer(key, last.fingerprint, last.attempts + 1))
        else:
            self._note("wait for their turn", key)

    def _note(self, what: str, key: str) -> None:
        self._notes.setdefault(what, []).append(key)

    def said(self) -> str:
        """One line with numbers: the first thing that an operator reads."""
        parts = [f"{len(self._tick.batches)} batches, {self._known} done or offered before"]
        for what, keys in self._notes.items():
            more = ", …" if len(keys) > _NAMED_MAX else ""
            parts.append(f"{len(keys)} {what} ({', '.join(key[:80] for key in keys[:_NAMED_MAX])}{more})")
        return "; ".join(parts)


# --- the cursor -----------------------------------------------------------------------------------------------------------


def to_cursor(seen: Mapping[str, Seen]) -> str:
    return json.dumps({key: one.to_list() for key, one in sorted(seen.items())}, separators=(",", ":"))


def from_cursor(text: str | None) -> dict[str, Seen]:
    """What a cursor says; nothing for one that does not read: a person may have edited it."""
    try:
        found = json.loads(text) if text else {}
        return {
            str(key): Seen(str(listing), float(since_s), None if known is None else str(known), bool(is_settled))
            for key, (listing, since_s, known, is_settled) in found.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
