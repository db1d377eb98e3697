from __future__ import annotations

import time

from omnigraph.core.clock import ManualClock, SystemClock


def test_the_system_clock_tells_the_time_of_this_machine() -> None:
    clock = SystemClock()
    assert abs(clock.now_us() - time.time() * 1e6) < 5_000_000
    first = clock.monotonic()
    clock.sleep(-1)
    assert clock.monotonic() >= first


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(1_000_000)
    assert (clock.now_us(), clock.monotonic()) == (1_000_000, 0.0)
    clock.sleep(1.5)
    assert (clock.now_us(), clock.monotonic()) == (2_500_000, 1.5)
    clock.set_wall(7)
    assert (clock.now_us(), clock.monotonic()) == (7, 1.5)
