"""Time as a parameter. Owns the only calls to the system's clocks; code that needs time takes a ``Clock``.

Wall-clock time is for records and for people. Deadlines and waits use ``monotonic``, which no operator can turn back.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the engine may know about time."""

    def now_us(self) -> int:
        """Wall clock, microseconds since 1970-01-01 UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary point, never going back."""

    def sleep(self, seconds: float) -> None:
        """Return after about ``seconds``; at once if that is not positive."""


class SystemClock:
    """The clocks of this machine."""

    __slots__ = ()

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to; sleeping moves it. Lets a test pass hours without waiting for them."""

    def __init__(self, start_us: int = 1_700_000_000_000_000) -> None:
        self._lock = threading.Lock()
        self._start_us = start_us
        self._elapsed_us = 0

    def now_us(self) -> int:
        with self._lock:
            return self._start_us + self._elapsed_us

    def monotonic(self) -> float:
        with self._lock:
            return self._elapsed_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._elapsed_us += round(seconds * 1_000_000)

    def set_wall(self, now_us: int) -> None:
        """Turn the wall clock, as an operator may; ``monotonic`` does not notice."""
        with self._lock:
            self._start_us = now_us - self._elapsed_us


SYSTEM_CLOCK = SystemClock()
