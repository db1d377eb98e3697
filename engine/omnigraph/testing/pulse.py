"""Progress of the long forms on standard error, and their exit codes. Ctrl-C ends a run without losing its ledger."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

TERMINAL_S, LINE_S = 1.0, 60.0  # between two reports: on a terminal, and in a log
INTERRUPTED = 130


class Pulse:
    """One line on standard error that is kept up to date on a terminal; elsewhere a line every minute."""

    def __init__(
        self,
        what: str,
        unit: str,
        seconds: float,
        *,
        stream: IO[str] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._unit, self._seconds = what, unit, seconds
        self._stream = stream or sys.stderr
        self._now = now
        self._terminal = self._stream.isatty()
        self._started = self._reported = now()
        self._done = 0
        self.interrupted = False

    def beat(self, at: str, findings: int) -> None:
        """Count one more unit as done, and report if it is time to."""
        self._done += 1
        if self._now() - self._reported >= (TERMINAL_S if self._terminal else LINE_S):
            self._reported = self._now()
            self._say(
                f"{self._what}: {self._done:,} {self._unit}, {findings} findings, "
                f"{self._reported - self._started:.0f} of {self._seconds:.0f} s, at {at}"
            )

    def clear(self) -> None:
        """Clear the progress line, before something else is printed."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    @contextmanager
    def running(self) -> Iterator[None]:
        """End the block at Ctrl-C without ending the program."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
        self.clear()

    def exit_code(self, findings: int) -> int:
        return 1 if findings else INTERRUPTED if self.interrupted else 0

    def _say(self, line: str) -> None:
        self._stream.write(f"\r{line}\x1b[K" if self._terminal else f"{line}\n")
        self._stream.flush()
