"""Writers of different tables that meet at the swap, in one process and in a known order: one that loses it, one whose plan is
applied and whose owner is gone, one that takes another's plan along.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from omnigraph.commit.advance import RECOVERY, Answer, Swap, Terms, advance
from omnigraph.commit.engine import MAIN, Branch, Engine
from omnigraph.commit.intent import decode
from omnigraph.commit.intent_format import APPLIED
from omnigraph.core.errors import OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held
from omnigraph.testing.operations import append


class OwnerGone(Exception):
    """What ends a writer in the middle of its publish."""


def bump(engine: Engine, branch: Branch = MAIN) -> None:
    """Make a version of the line that changes nothing: who holds the one before it loses its swap."""
    done: list[bool] = []

    def propose(held: Held) -> Swap | Answer[None]:
        if done:
            return Answer(None)
        done.append(True)
        return Swap(Change(), {})

    advance(engine, branch, propose, Terms(RECOVERY), meter=Meter())


@contextlib.contextmanager
def before_swaps(engine: Engine, *calls: Callable[[], object]) -> Iterator[None]:
    """Within the block each of the next swaps of this engine is made after one of these calls."""
    left, swap = list(calls), engine.manifest.swap

    def late(*args: Any, **facts: Any) -> Held:
        if left:
            left.pop(0)()
        return swap(*args, **facts)

    setattr(engine.manifest, "swap", late)  # noqa: B010 - of this one engine
    try:
        yield
    finally:
        setattr(engine.manifest, "swap", swap)  # noqa: B010


@contextlib.contextmanager
def losing(engine: Engine, rival: Engine, branch: Branch = MAIN) -> Iterator[None]:
    """Within the block the first swap of this engine is lost."""
    with before_swaps(engine, lambda: bump(rival, branch)):
        yield


@contextlib.contextmanager
def when_applied(engine: Engine, call: Callable[[], object]) -> Iterator[None]:
    """Within the block this is called as soon as a plan of this engine is known as applied; the plan goes on after it."""
    rewrite = engine.intents.rewrite

    def told(op: str, data: bytes, *args: Any, **facts: Any) -> None:
        rewrite(op, data, *args, **facts)
        if decode(op, data).state == APPLIED:  # a heartbeat is written by the same request
            call()

    setattr(engine.intents, "rewrite", told)  # noqa: B010 - of this one engine
    try:
        yield
    finally:
        setattr(engine.intents, "rewrite", rewrite)  # noqa: B010


def leave_applied(engine: Engine, rival: Engine, write: Callable[[], object], branch: Branch = MAIN) -> None:
    """A write of this engine that loses a swap, says that it is applied, and ends there."""

    def die() -> None:
        raise OwnerGone

    with before_swaps(engine, lambda: bump(rival, branch), die), contextlib.suppress(OutcomeUnknown):
        write()


def row(engine: Engine, key: str, name: str, **facts: Any) -> Callable[[], Any]:
    return lambda: append(engine, [key], [name], **facts)
