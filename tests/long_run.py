"""What the long forms share: they say how far they are, and print their ledger also if they are stopped by Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

TERMINAL_S, LINE_S = 1.0, 60.0  # between two signs, where somebody looks and where a log is written
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
        self._started = self._told = now()
        self._done = 0
        self.interrupted = False

    def beat(self, at: str, findings: int) -> None:
        """One more is done."""
        self._done += 1
        if self._now() - self._told >= (TERMINAL_S if self._terminal else LINE_S):
            self._told = self._now()
            self._say(
                f"{self._what}: {self._done:,} {self._unit}, {findings} findings, "
                f"{self._told - self._started:.0f} of {self._seconds:.0f} s, at {at}"
            )

    def clear(self) -> None:
        """Before something else is printed."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ctrl-C ends what is inside, and no more than that."""
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
