"""Decide whether upkeep runs now: pure, from a number, its marks, what was remembered and which runs there were.

Owns the marks, the keys of runs and the words for a quiet tick. Knows neither Dagster nor the graph: the sensors read the
numbers, hand them in, and do what comes out.

A number at or above the high mark arms the sensor; it stays armed until the number is at or below the low mark. While it is
armed there is never more than one run, a failed run is repeated after a pause that doubles, and a run that succeeded without
bringing the number down is not repeated before the number has grown from what the run reported: that is what the policy keeps.
What was written after the run is not what it left.

The truth is in the graph and in the runs; what is remembered between ticks only spares work. If it is lost, the sensor arms
again at the high mark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

RETRY_FIRST_S = 30.0
RETRY_S_MAX = 3600.0
# What of the history of runs is looked at; beyond so many failures the pause is at its longest anyway.
RUNS_SEEN_MAX = 12


@dataclass(frozen=True)
class Marks:
    """When to begin and when it is enough. ``what`` says the number, as in "{} archive fragments". ``doubling``: what a run
    has left is looked at again when it has doubled, for a number that grows by itself, like an age."""

    what: str
    high: int
    low: int
    doubling: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise ValueError(f"the low mark must lie below the high mark, not {self.low} and {self.high}")

    def again(self, left: int) -> int:
        """How far the number must grow before another run is worth it, when the last one left so much."""
        return max(self.high, left * 2 if self.doubling else left + (self.high - self.low))


@dataclass(frozen=True)
class Run:
    """One run of this upkeep. ``ended_s`` is None while it is queued or under way. ``left``: the number as the run reported it
    when it ended; None if it reported none."""

    run_id: str
    succeeded: bool
    ended_s: float | None
    left: int | None = None

    @property
    def name(self) -> str:
        return self.run_id[:8]


@dataclass(frozen=True)
class Memory:
    """What one tick leaves for the next."""

    armed: bool = False


def to_cursor(memories: Sequence[Memory]) -> str:
    return json.dumps([asdict(memory) for memory in memories], sort_keys=True)


def from_cursor(cursor: str | None, count: int) -> list[Memory]:
    """As many memories as there are numbers. Nothing is remembered where the cursor was reset, or was written by another program."""
    try:
        found = json.loads(cursor or "[]")
    except ValueError:
        found = []
    kept = [_memory(one) for one in found] if isinstance(found, list) else []
    return [*kept, *[Memory()] * count][:count]


def _memory(found: object) -> Memory:
    if not isinstance(found, dict):
        return Memory()
    return Memory(found.get("armed") is True)


@dataclass(frozen=True)
class Decision:
    """``run_key`` is None on a quiet tick. ``reason`` is for people, with the numbers in it."""

    run_key: str | None
    reason: str
    memory: Memory
    attempt: int = 0


def decide(name: str, value: int, marks: Marks, memory: Memory, runs: Sequence[Run], now_s: float) -> Decision:
    """Ask for a run, or say why not. ``name`` begins the run's key; ``runs`` of this upkeep, newest first."""
    numbers = f"{marks.what.format(value)} (high mark {marks.high}, low mark {marks.low})"
    under_way = [run for run in runs if run.ended_s is None]
    ended = [run for run in runs if run.ended_s is not None]
    armed = value > marks.low if memory.armed else value >= marks.high
    if not armed:
        return Decision(None, numbers, Memory())
    memory = replace(memory, armed=True)
    if under_way:
        return Decision(None, f"{numbers}; run {under_way[0].name} is queued or under way", memory)
    failures = _failures(ended)
    if failures:
        assert ended[0].ended_s is not None
        wait_s = ended[0].ended_s + pause_after(failures) - now_s
        if wait_s > 0:
            told = f"{numbers}; run {ended[0].name} failed, attempt {failures + 1} in {wait_s:.0f} s"
            return Decision(None, told, memory)
    elif ended and not _is_worth_it(value, marks, ended[0], now_s):
        return Decision(None, f"{numbers}; {_left(marks, ended[0])}", memory)
    key = run_key(name, ended[0].run_id if ended else "none", failures + 1)
    return Decision(key, f"{numbers}; attempt {failures + 1}", memory, failures + 1)


def _is_worth_it(value: int, marks: Marks, last: Run, now_s: float) -> bool:
    """Return whether another run may bring the number down, after one that succeeded."""
    if last.left is None:
        assert last.ended_s is not None
        return now_s - last.ended_s >= RETRY_S_MAX  # nothing to compare with: now and then
    return value >= marks.again(last.left)


def _left(marks: Marks, last: Run) -> str:
    if last.left is None:
        return f"run {last.name} did not report what it left, the next one an hour after it"
    return f"run {last.name} left {last.left}, the next one at {marks.again(last.left)}"


def run_key(name: str, after: str, attempt: int) -> str:
    """One key for one state: it changes when a run has ended, and at no other time. So two ticks that see the same never ask
    for two runs, also when the cursor was lost in between, and a failed run does not use up its key for ever."""
    return f"{name}:after-{after}:a{attempt}"


def pause_after(failures: int) -> float:
    """Seconds between a failed run and the next attempt."""
    return min(RETRY_FIRST_S * 2.0 ** min(failures - 1, 16), RETRY_S_MAX)


def _failures(ended: Sequence[Run]) -> int:
    """Runs that failed since the last one that did not."""
    count = 0
    for run in ended:
        if run.succeeded:
            break
        count += 1
    return count
