"""Whether upkeep runs now: pure, from a number, its marks, what was remembered and which runs there were.

Owns the marks, the keys of runs and the words for a quiet tick. Knows neither Dagster nor the graph: the sensors read the
numbers, hand them in, and do what comes out.

A number at or above the high mark arms the sensor; it stays armed until the number is at or below the low mark. While it is
armed there is never more than one run, a failed run is repeated after a pause that doubles, and a run that succeeded without
bringing the number down is not repeated before the number has grown: what it left is what the policy keeps.

The truth is in the graph and in the runs; what is remembered between ticks only spares work. With it lost, one run too many
may be asked for, and finds nothing to do.
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
    """One run of this upkeep. ``ended_s`` is None while it is queued or under way."""

    run_id: str
    succeeded: bool
    ended_s: float | None

    @property
    def name(self) -> str:
        return self.run_id[:8]


@dataclass(frozen=True)
class Memory:
    """What one tick tells the next. ``left``: the number as the run ``left_by`` left it."""

    armed: bool = False
    left: int | None = None
    left_by: str | None = None


def to_cursor(memories: Sequence[Memory]) -> str:
    return json.dumps([asdict(memory) for memory in memories], sort_keys=True)


def from_cursor(cursor: str | None, count: int) -> list[Memory]:
    """As many memories as there are numbers. Nothing is remembered where the cursor was reset, or is somebody else's."""
    try:
        found = json.loads(cursor or "[]")
    except ValueError:
        found = []
    kept = [_memory(one) for one in found] if isinstance(found, list) else []
    return [*kept, *[Memory()] * count][:count]


def _memory(found: object) -> Memory:
    if not isinstance(found, dict):
        return Memory()
    left, left_by = found.get("left"), found.get("left_by")
    return Memory(
        found.get("armed") is True,
        left if isinstance(left, int) and not isinstance(left, bool) else None,
        left_by if isinstance(left_by, str) else None,
    )


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
        pause_s = pause_after(failures)
        wait_s = ended[0].ended_s + pause_s - now_s
        if wait_s > 0:
            told = f"{numbers}; run {ended[0].name} failed, attempt {failures + 1} in {wait_s:.0f} s"
            return Decision(None, told, memory)
        # A failed run leaves nothing to compare with.
        memory = replace(memory, left=None, left_by=None)
    elif memory.left_by is not None and ended and memory.left_by != _waits_for(ended):
        memory = replace(memory, left=value, left_by=_waits_for(ended))
    return _ask(name, value, marks, memory, ended, failures, numbers)


def _ask(
    name: str, value: int, marks: Marks, memory: Memory, ended: Sequence[Run], failures: int, numbers: str
) -> Decision:
    """Armed, nobody at it, no pause to keep: run, unless the last run has left just that."""
    last = _waits_for(ended)
    if not failures and memory.left is not None and value < marks.again(memory.left):
        told = f"{numbers}; run {last[:8]} left {memory.left}, the next one at {marks.again(memory.left)}"
        return Decision(None, told, memory)
    key = run_key(name, last, failures + 1)
    return Decision(key, f"{numbers}; attempt {failures + 1}", replace(memory, left_by=last), failures + 1)


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


def _waits_for(ended: Sequence[Run]) -> str:
    return ended[0].run_id if ended else "none"
