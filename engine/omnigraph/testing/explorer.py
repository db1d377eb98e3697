"""Breadth-first search through every state that a step function can reach; a counter-example is a shortest one.

States are nested tuples of small values. What is not reached is said: a search that ran out of states or time is not
exhausted, and only an exhausted one proves anything.
"""

from __future__ import annotations

import hashlib
import marshal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

State = tuple[Any, ...]
Steps = Callable[[State], Iterator[tuple[str, State]]]
Check = Callable[[State], str | None]


@dataclass(frozen=True)
class Goal:
    """What some order of steps has to bring about from every state. ``may``: which steps it may need, by their labels; without those
    of a process that is dead, others still have to get there."""

    name: str
    reached: Callable[[State], bool]
    may: Callable[[str], bool] = lambda label: True


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
        end = self.error or ("exhausted" if self.exhausted else "not exhausted")
        return f"{self.states} states, {self.transitions} transitions, depth {self.depth}, {self.seconds:.1f} s: {end}"


def _key(state: State) -> bytes:
    # Format 2 has no references: equal states have equal bytes.
    return hashlib.blake2b(marshal.dumps(state, 2), digest_size=12).digest()


def explore(
    start: State,
    steps: Steps,
    check: Check,
    *,
    goals: Sequence[Goal] = (),
    states_max: int = 5_000_000,
    seconds_max: float = 600.0,
) -> Search:
    """Visit everything reachable from ``start``, or stop at the first state that ``check`` does not accept. Where there is none, the
    first state from which one of the ``goals`` cannot be reached any more is an error too."""
    began = time.monotonic()
    found = Search()
    ways = [_Ways(goal) for goal in goals]
    parents: dict[bytes, tuple[bytes, int] | None] = {_key(start): None}
    layer = [start]
    while layer:
        following: list[State] = []
        for state in layer:
            found.states += 1
            key = _key(state)
            for way in ways:
                way.visit(key, state)
            for number, (label, after) in enumerate(steps(state)):
                found.transitions += 1
                after_key = _key(after)
                for way in ways:
                    way.add(key, label, after_key)
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
    for way in ways:
        stuck = way.stuck()
        if stuck is not None and found.error is None:
            found.error = f"no order of steps leads to: {way.goal.name}"
            found.trace = _trace(start, steps, parents, stuck)
    found.seconds = time.monotonic() - began
    return found


class _Ways:
    """Which states lead to a goal: the steps of a search, the other way round."""

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self._visited: list[bytes] = []
        self._reached: list[bytes] = []
        self._before: dict[bytes, list[bytes]] = {}

    def visit(self, key: bytes, state: State) -> None:
        self._visited.append(key)
        if self.goal.reached(state):
            self._reached.append(key)

    def add(self, key: bytes, label: str, after: bytes) -> None:
        if self.goal.may(label):
            self._before.setdefault(after, []).append(key)

    def stuck(self) -> bytes | None:
        """The first state that leads to no state of the goal."""
        leads, todo = set(self._reached), list(self._reached)
        while todo:
            for key in self._before.get(todo.pop(), ()):
                if key not in leads:
                    leads.add(key)
                    todo.append(key)
        return next((key for key in self._visited if key not in leads), None)


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
