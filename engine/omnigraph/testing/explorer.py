"""Breadth-first search through every state that a step function can reach; a counter-example is a shortest one.

States are nested tuples of small values. What is not reached is said: a search that ran out of states or time is not
exhausted, and only an exhausted one proves anything.
"""

from __future__ import annotations

import hashlib
import marshal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

State = tuple[Any, ...]
Steps = Callable[[State], Iterator[tuple[str, State]]]
Check = Callable[[State], str | None]


@dataclass
class Search:
    """What a search found. ``trace``: the labels of the steps that lead to ``error``."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    exhausted: bool = False
    error: str | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        end = "exhausted" if self.exhausted else self.error or "not exhausted"
        return f"{self.states} states, {self.transitions} transitions, depth {self.depth}, {self.seconds:.1f} s: {end}"


def _key(state: State) -> bytes:
    # Format 2 has no references: equal states have equal bytes.
    return hashlib.blake2b(marshal.dumps(state, 2), digest_size=12).digest()


def explore(
    start: State, steps: Steps, check: Check, *, states_max: int = 5_000_000, seconds_max: float = 600.0
) -> Search:
    """Visit everything reachable from ``start``, or stop at the first state that ``check`` does not accept."""
    began = time.monotonic()
    found = Search()
    parents: dict[bytes, tuple[bytes, int] | None] = {_key(start): None}
    layer = [start]
    while layer:
        following: list[State] = []
        for state in layer:
            found.states += 1
            key = _key(state)
            for number, (_, after) in enumerate(steps(state)):
                found.transitions += 1
                after_key = _key(after)
                if after_key in parents:
                    continue
                parents[after_key] = (key, number)
                error = check(after)
                if error is not None:
                    found.error = error
                    found.trace = _trace(start, steps, parents, after_key)
                    found.seconds = time.monotonic() - began
                    found.depth += 1
                    return found
                following.append(after)
            if found.states >= states_max or time.monotonic() - began > seconds_max:
                found.seconds = time.monotonic() - began
                return found
        layer = following
        found.depth += 1
    found.exhausted = True
    found.seconds = time.monotonic() - began
    return found


def _trace(start: State, steps: Steps, parents: dict[bytes, tuple[bytes, int] | None], end: bytes) -> list[str]:
    way: list[int] = []
    at = parents[end]
    while at is not None:
        way.append(at[1])
        at = parents[at[0]]
    state = start
    labels = []
    for number in reversed(way):
        label, state = list(steps(state))[number]
        labels.append(label)
    return labels
