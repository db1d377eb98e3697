"""Named places where a test can make the engine fail, stop or call back. Owns the registry; decides nothing itself.

The engine calls ``hit("apply.before_commit", table_key=...)`` at its cuts. With nothing armed that is one look at an
empty dictionary. A test arms a name with a callable (called with the facts), an exception (raised), or one of the words
``kill`` (SIGKILL to this process), ``stop`` (SIGSTOP, a paused machine) and ``raise``. A child
process is armed through its environment:

    OMNIGRAPH_FAILPOINTS="apply.before_commit:2=kill,publish.after_swap=raise"

``name:n`` means the n-th hit (the first if left out); ``name:*`` every hit; the name ``*`` counts hits of all names.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ENVIRONMENT = "OMNIGRAPH_FAILPOINTS"

Action = Callable[..., object] | BaseException | type[BaseException] | str

_WORDS = frozenset({"kill", "stop", "raise"})


class FailpointHit(Exception):
    """What the word ``raise`` raises. Not an error of the engine: nothing may catch it as one."""


@dataclass(slots=True)
class _Armed:
    action: Action
    at: int | None  # the hit that fires; None fires on every one
    hits: int = 0


_armed: dict[str, _Armed] = {}
_recorders: list[list[tuple[str, dict[str, Any]]]] = []
_lock = threading.Lock()


def hit(name: str, **facts: Any) -> None:
    """The engine passes the place ``name``. Does nothing unless a test armed it."""
    if not _armed and not _recorders:
        return
    _fire(name, facts)


def _fire(name: str, facts: dict[str, Any]) -> None:
    due: list[Action] = []
    with _lock:
        for recorder in _recorders:
            recorder.append((name, dict(facts)))
        for key in (name, "*"):
            armed = _armed.get(key)
            if armed is None:
                continue
            armed.hits += 1
            if armed.at is None or armed.hits == armed.at:
                due.append(armed.action)
    # Outside the lock: an action may wait for another thread that passes failpoints itself.
    for action in due:
        _act(action, name, facts)


def _act(action: Action, name: str, facts: dict[str, Any]) -> None:
    if isinstance(action, str):
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            raise FailpointHit(f"failpoint {name} was hit")
    elif isinstance(action, BaseException) or (isinstance(action, type) and issubclass(action, BaseException)):
        raise action
    else:
        action(**facts)


def arm(name: str, action: Action, *, at: int | None = 1) -> None:
    """Fire ``action`` at the ``at``-th hit of ``name`` from now on (``None``: at each)."""
    if isinstance(action, str) and action not in _WORDS:
        raise ValueError(f"unknown failpoint action: action={action!r} known={sorted(_WORDS)}")
    if at is not None and at < 1:
        raise ValueError(f"a failpoint fires from its first hit on: at={at}")
    with _lock:
        _armed[name] = _Armed(action, at)


def disarm(name: str | None = None) -> None:
    """Forget one name, or all of them."""
    with _lock:
        if name is None:
            _armed.clear()
        else:
            _armed.pop(name, None)


@contextmanager
def armed(name: str, action: Action, *, at: int | None = 1) -> Iterator[None]:
    """``arm`` for the length of a block."""
    arm(name, action, at=at)
    try:
        yield
    finally:
        disarm(name)


@contextmanager
def recording() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Collect the hits of a block in order, which is how a test learns the cuts that there are."""
    seen: list[tuple[str, dict[str, Any]]] = []
    with _lock:
        _recorders.append(seen)
    try:
        yield seen
    finally:
        with _lock:
            # By identity: two empty recordings are equal, and removing the other one would silence it.
            _recorders[:] = [recorder for recorder in _recorders if recorder is not seen]


def arm_from(text: str) -> None:
    """Arm what ``text`` (the syntax of the environment variable) says."""
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        place, equals, word = part.partition("=")
        name, _, count = place.partition(":")
        if not equals or not name:
            raise ValueError(f"not a failpoint: {part!r}; expected name[:n]=kill|stop|raise")
        arm(name, word, at=None if count == "*" else int(count or 1))


arm_from(os.environ.get(ENVIRONMENT, ""))
