"""How much memory something takes at its peak: what is resident, looked at every few milliseconds while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EVERY_S = 0.002


def peak_of(act: Callable[[], Any]) -> int:
    """Bytes above what was resident before."""
    base = _resident()
    stop, peak = threading.Event(), [base]

    def watch() -> None:
        while not stop.wait(_EVERY_S):
            peak[0] = max(peak[0], _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        act()
    finally:
        stop.set()
        watcher.join()
    return peak[0] - base


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
