"""A run of an hour says how far it is, and can be stopped without losing what it has found out."""

from __future__ import annotations

import io

import pytest

from tests.long_run import INTERRUPTED, LINE_S, TERMINAL_S, Pulse


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(("stream", "every_s"), [(io.StringIO(), LINE_S), (Terminal(), TERMINAL_S)])
def test_a_sign_comes_as_often_as_somebody_would_look(stream: io.StringIO, every_s: float) -> None:
    clock = Clock()
    pulse = Pulse("crash", "cells", 3600, stream=stream, now=clock)
    pulse.beat("append/1/s3", 0)
    assert stream.getvalue() == ""
    clock.seconds += every_s
    pulse.beat("append/1/s3", 2)
    pulse.beat("append/1/s3", 2)
    told = stream.getvalue()
    assert told.count("cells") == 1
    assert f"crash: 2 cells, 2 findings, {every_s:.0f} of 3600 s, at append/1/s3" in told


def test_on_a_terminal_a_sign_takes_the_place_of_the_last_and_leaves_none() -> None:
    clock, stream = Clock(), Terminal()
    pulse = Pulse("soak", "rounds", 60, stream=stream, now=clock)
    with pulse.running():
        for _ in range(2):
            clock.seconds += TERMINAL_S
            pulse.beat("bank/local", 0)
    assert "\n" not in stream.getvalue() and stream.getvalue().endswith("\r\x1b[K")


def test_ctrl_c_ends_the_run_and_not_the_ledger() -> None:
    pulse = Pulse("crash", "cells", 60, stream=io.StringIO())
    with pulse.running():
        raise KeyboardInterrupt
    assert pulse.exit_code(0) == INTERRUPTED and pulse.exit_code(1) == 1
    finished = Pulse("crash", "cells", 60, stream=io.StringIO())
    with finished.running():
        pass
    assert finished.exit_code(0) == 0
