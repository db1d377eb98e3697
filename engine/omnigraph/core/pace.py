"""How fast bytes may be read: a reader that has other work beside it sleeps where it is ahead of its rate."""

from __future__ import annotations

from omnigraph.core.clock import SYSTEM_CLOCK, Clock


class Pace:
    """Counts bytes, and sleeps so that they take at least their time. ``bytes_per_s``: None for as fast as it goes.

    Time that went by without reading is not made up for: a burst after it would take from others what the rate leaves them.
    """

    def __init__(self, bytes_per_s: int | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._due_s = clock.monotonic()
        self.bytes = 0

    def block_bytes(self, most: int) -> int:
        """Return how much to read at once: never more than a second of the rate, so that each sleep is short."""
        return most if self._bytes_per_s is None else min(most, self._bytes_per_s)

    def took(self, count: int) -> None:
        """Account for bytes that were read, and sleep until others may be."""
        self.bytes += count
        if self._bytes_per_s is None:
            return
        now_s = self._clock.monotonic()
        self._due_s = max(self._due_s, now_s) + count / self._bytes_per_s
        self._clock.sleep(self._due_s - now_s)
