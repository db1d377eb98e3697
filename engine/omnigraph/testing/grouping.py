"""Requests that meet: threads that are held back until all of them wait, so that one group takes them in a known order."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.write.group.front import queue_of
from omnigraph.write.group.queue import GroupQueue

T = TypeVar("T")

ARRIVAL_S = 60.0  # reading a small input takes milliseconds; beyond it a request went another way


@dataclass
class Ended(Generic[T]):
    """How one call ended: with a value, or an error."""

    value: T | None = None
    error: BaseException | None = None
    over: bool = False


class Held(Generic[T]):
    """Calls of one branch, each on a thread of its own, while none may lead."""

    def __init__(self, queue: GroupQueue) -> None:
        self._queue = queue
        self._threads: list[threading.Thread] = []
        self.ended: list[Ended[T]] = []

    def start(self, call: Callable[[], T], *, waits: bool = True) -> None:
        """Begin the call, and return once it waits in the queue or has ended without it. ``waits``: False returns at once."""
        ended: Ended[T] = Ended()
        self.ended.append(ended)

        def run() -> None:
            try:
                ended.value = call()
            except BaseException as error:  # noqa: BLE001 - the caller of the helper judges it
                ended.error = error
            with self._queue.lock:
                ended.over = True
                self._queue._arrived.notify_all()

        before = self.waiting
        self._threads.append(threading.Thread(target=run, name=f"call-{len(self._threads)}"))
        self._threads[-1].start()
        if waits:
            with self._queue.lock:
                if not self._queue._arrived.wait_for(
                    lambda: ended.over or len(self._queue._waiting) > before, ARRIVAL_S
                ):
                    raise AssertionError(f"the call did not come to the queue: {ended}")

    @property
    def waiting(self) -> int:
        with self._queue.lock:
            return len(self._queue._waiting)

    def join(self) -> list[Ended[T]]:
        for thread in self._threads:
            thread.join()
        return self.ended


@contextlib.contextmanager
def held_back(engine: Engine, branch: str = MAIN) -> Iterator[Held[Any]]:
    """Within the block calls gather in the queue; at its end the oldest leads, and all have ended."""
    queue = queue_of(engine, branch)
    with queue.lock:
        assert not queue._led, "a write is under way already"
        queue._led = True
    held: Held[Any] = Held(queue)
    try:
        yield held
    finally:
        queue.pass_on()
        held.join()


def together(engine: Engine, calls: Sequence[Callable[[], T]], branch: str = MAIN) -> list[Ended[T]]:
    """Run the calls so that one group takes them all, in this order."""
    with held_back(engine, branch) as held:
        for call in calls:
            held.start(call)
    return held.ended
