"""What the engine tells of its progress, as lines in the log of a run.

Owns how often a line is written: people read them, and each is a row in Dagster's database. A step that is quick writes none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import omnigraph as og

EVERY_S: Final = 5.0
LATER_EVERY_S: Final = 60.0
LINES_MAX: Final = 60
"""Of one step at the first pace; after that a line a minute."""


class Lines:
    """A listener of the engine that writes a line now and then."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._told_s = clock()
        self._lines = 0

    def __call__(self, event: Any) -> None:
        now = self._clock()
        if now - self._told_s < (EVERY_S if self._lines < LINES_MAX else LATER_EVERY_S):
            return
        self._told_s = now
        self._lines += 1
        self._write(line(event))


def line(event: Any) -> str:
    """One event in words: where it is, how much is done, how long it may take."""
    said = [f"{event.operation}, {event.phase}:" if event.operation else f"{event.phase}:"]
    # A total is an estimate where rows are not counted before: one that was passed says nothing any more.
    is_passed = event.total is not None and event.done > event.total
    of = "" if event.total is None or is_passed else f" of {event.total:,}"
    said.append(f"{event.done:,}{of} {event.unit}")
    if event.bytes:
        of = (
            ""
            if event.bytes_total is None or event.bytes > event.bytes_total
            else f" of {event.bytes_total / 1e6:,.1f}"
        )
        said.append(f"({event.bytes / 1e6:,.1f}{of} MB)")
    if event.subject:
        said.append(f"at {event.subject}")
    said.append(f"after {event.elapsed_s:.0f} s")
    if event.state != "running":
        said.append(event.state)
    elif event.remaining_s is not None and not is_passed:
        said.append(f"about {event.remaining_s:.0f} s to go")
    return " ".join(said)


@contextmanager
def told_in_log(context: Any) -> Iterator[None]:
    """Work of the engine whose progress is written to the log of a step. Nothing may be yielded to Dagster from within: the
    listener belongs to the caller that runs the block."""
    with og.listen(Lines(context.log.info)):
        yield
