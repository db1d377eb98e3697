"""Whether a child is at work, stands still or never ends, told from its processor time, so that a loaded machine changes nothing.

The wall clock alone takes a process that waits for a core for one that hangs. Processor time does not grow while it waits, and
grows without end in a loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from omnigraph.testing.children import Child

_LOOK_S: Final = 1.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class NeverEnds(Exception):
    """A child that is taken for one that hangs; the text says why."""


@dataclass(frozen=True)
class Bounds:
    """Of one call. ``cpu_s``: processor time, all threads together. ``still_s``: without using any. ``wall_s``: for a loop that
    sleeps."""

    cpu_s: float = 60.0
    still_s: float = 90.0
    wall_s: float = 900.0


def cpu_s(pid: int) -> float:
    """Processor time of a process so far; 0.0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Watch:
    """Judges a call from looks at it: pure, so that it can be tested without waiting."""

    def __init__(self, bounds: Bounds, *, at_s: float, used_s: float) -> None:
        self._bounds = bounds
        self._began_s = self._moved_s = at_s
        self._used_before_s = self._used_s = used_s

    def look(self, *, at_s: float, used_s: float) -> str | None:
        """Why the call is taken for one that never ends; None while it may."""
        if used_s > self._used_s:
            self._used_s, self._moved_s = used_s, at_s
        if used_s - self._used_before_s > self._bounds.cpu_s:
            return f"used more than {self._bounds.cpu_s:.0f} s of processor time"
        if at_s - self._moved_s > self._bounds.still_s:
            return f"stood still for {self._bounds.still_s:.0f} s"
        if at_s - self._began_s > self._bounds.wall_s:
            return f"did not end within {self._bounds.wall_s:.0f} s"
        return None


def hear(child: Child, bounds: Bounds, clock: Callable[[], float] = time.monotonic) -> Any:
    """The next thing that a child says, None once it has ended. Raises ``NeverEnds``."""
    watch = Watch(bounds, at_s=clock(), used_s=cpu_s(child.pid))
    while True:
        try:
            return child.hear(_LOOK_S)
        except TimeoutError:
            reason = watch.look(at_s=clock(), used_s=cpu_s(child.pid))
            if reason is not None:
                raise NeverEnds(reason) from None
