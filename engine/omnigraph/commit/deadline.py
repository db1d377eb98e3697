"""How long a caller is willing to wait. Passing it never decides what is true, only what is reported."""

from __future__ import annotations

from typing import NoReturn

from omnigraph.core.clock import Clock
from omnigraph.core.errors import InvalidInput, OmnigraphError, StoreUnavailable


class Deadline:
    """A point on the monotonic clock."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        if not seconds > 0:
            raise InvalidInput(f"deadline_s must be above 0, not {seconds!r}", hint="pass a number of seconds")
        self._clock = clock
        self._seconds = seconds
        self._end = clock.monotonic() + seconds

    def left(self) -> float:
        return self._end - self._clock.monotonic()

    @property
    def passed(self) -> bool:
        return self.left() <= 0

    def check(self, what: str, last: OmnigraphError | None = None) -> None:
        """Raise where the time is up and nothing durable depends on going on. ``last``: why it took that long."""
        if self.passed:
            self.expire(what, last)

    def expire(self, what: str, last: OmnigraphError | None = None) -> NoReturn:
        if last is not None:
            raise last
        raise StoreUnavailable(
            f"the deadline of {self._seconds:g} s passed while {what}; nothing was written",
            hint="repeat the call with a larger deadline_s",
            deadline_s=self._seconds,
        )
