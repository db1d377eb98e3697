"""What a fault is: which requests it meets and what happens to them. Plain values that cross a process border as JSON."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from omnigraph.testing.faults.classify import Target


class Kind(StrEnum):
    """What happens to a request. Those in the second group happen to its answer, after the effect, or to both."""

    FAIL = "fail"  # answer an error
    DROP = "drop"  # close the connection
    SWALLOW = "swallow"  # never answer; the client's own time-out decides
    DELAY = "delay"
    HOLD = "hold"  # until released
    KILL = "kill"  # ask the parent to kill the child, then close
    CUT_UPLOAD = "cut-upload"  # close while the body is being sent
    IGNORE_CONDITION = "ignore-condition"  # a store without create-if-absent

    DUPLICATE = "duplicate"  # the same request reaches the store twice
    TRUNCATE = "truncate"  # part of the answer, then close
    FLIP = "flip"  # one bit of the answer's body
    EMPTY = "empty"  # an answer without its body
    SHORT_LIST = "short-list"  # a listing that misses its newest keys


@dataclass(frozen=True, slots=True)
class Action:
    """One kind with its figures. ``after``: the store has done it before the fault shows."""

    kind: Kind
    after: bool = False
    status: int = 503
    code: str = "SlowDown"
    seconds: float = 0.0
    size: int = 0


def fail(status: int = 503, code: str | None = None, *, after: bool = False) -> Action:
    return Action(Kind.FAIL, after, status, code or _CODES.get(status, "InternalError"))


def drop(*, after: bool = False) -> Action:
    """The request is lost; or, ``after``, the answer is."""
    return Action(Kind.DROP, after)


def swallow(*, after: bool = False) -> Action:
    return Action(Kind.SWALLOW, after)


def delay(seconds: float, *, after: bool = False) -> Action:
    return Action(Kind.DELAY, after, seconds=seconds)


def hold(*, after: bool = False) -> Action:
    """Stands still until the rule is released: before it reaches the store, or with the answer in hand."""
    return Action(Kind.HOLD, after)


def kill(*, after: bool = False) -> Action:
    """The parent kills its child at this request: request lost, or, ``after``, answer lost."""
    return Action(Kind.KILL, after)


def cut_upload() -> Action:
    return Action(Kind.CUT_UPLOAD)


def ignore_condition() -> Action:
    return Action(Kind.IGNORE_CONDITION)


def duplicate(*, answer_second: bool = False) -> Action:
    """The client gets the first answer, or the second one: for a create, 412 on its own write."""
    return Action(Kind.DUPLICATE, after=answer_second)


def truncate(size: int = 0) -> Action:
    """``size`` bytes of the body; 0: half of it."""
    return Action(Kind.TRUNCATE, after=True, size=size)


def flip() -> Action:
    return Action(Kind.FLIP, after=True)


def empty() -> Action:
    return Action(Kind.EMPTY, after=True)


def short_list(missing: int = 1) -> Action:
    return Action(Kind.SHORT_LIST, after=True, size=missing)


_CODES = {
    400: "BadRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
}

# One of each, for sweeps. A store may answer all of these; what a client must never do is to get the graph wrong.
CATALOGUE: dict[str, Action] = {
    "500 before": fail(500),
    "500 after": fail(500, after=True),
    "503 before": fail(503),
    "503 after": fail(503, after=True),
    "429 before": fail(429),
    "403 before": fail(403),
    "404 before": fail(404),
    "409 before": fail(409),
    "409 after": fail(409, after=True),
    "412 before": fail(412),
    "412 after": fail(412, after=True),
    "request lost": drop(),
    "answer lost": drop(after=True),
    "upload cut": cut_upload(),
    "answer cut": truncate(),
    "twice, first answer": duplicate(),
    "twice, second answer": duplicate(answer_second=True),
    "late": delay(0.2),
    "answer late": delay(0.2, after=True),
    "bit flipped": flip(),
    "body missing": empty(),
    "listing misses the newest": short_list(),
}


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests. Every condition given must hold; an empty one holds always."""

    mutating: bool | None = None
    methods: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    key: str = ""  # regular expression, searched in the key

    def holds(self, method: str, target: Target) -> bool:
        return (
            (self.mutating is None or self.mutating == target.mutating)
            and (not self.methods or method in self.methods)
            and (not self.operations or target.operation in self.operations)
            and (not self.classes or target.cls in self.classes)
            and (not self.key or re.search(self.key, target.key) is not None)
        )


ANY = Match()
MUTATING = Match(mutating=True)


@dataclass(frozen=True, slots=True)
class Rule:
    """``action`` happens to the ``at``-th request that matches since the rule was set, and to the next ones up to
    ``times`` in all (None: to every one from there)."""

    action: Action
    match: Match = field(default=ANY)
    at: int = 1
    times: int | None = 1

    def fires_at(self, nth: int) -> bool:
        return nth >= self.at and (self.times is None or nth < self.at + self.times)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(body: dict[str, Any]) -> Rule:
        action = Action(**{**body["action"], "kind": Kind(body["action"]["kind"])})
        match: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in body["match"].items()
        }
        return Rule(action, Match(**match), at=body["at"], times=body["times"])
