"""The long forms as commands: they report progress, can be stopped without losing their ledger, and refuse what they do not know."""

from __future__ import annotations

import io
import random

import pytest

from omnigraph.testing.__main__ import WRONG_USAGE, main
from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.cells import STORES
from omnigraph.testing.matrix import order
from omnigraph.testing.pulse import INTERRUPTED, LINE_S, TERMINAL_S, Pulse


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(("stream", "every_s"), [(io.StringIO(), LINE_S), (Terminal(), TERMINAL_S)])
def test_progress_is_reported_once_a_second_on_a_terminal_and_once_a_minute_in_a_log(
    stream: io.StringIO, every_s: float
) -> None:
    clock = Clock()
    pulse = Pulse("crash", "cells", 3600, stream=stream, now=clock)
    pulse.beat("append/1/s3", 0)
    assert stream.getvalue() == ""
    clock.seconds += every_s
    pulse.beat("append/1/s3", 2)
    pulse.beat("append/1/s3", 2)
    printed = stream.getvalue()
    assert printed.count("cells") == 1
    assert f"crash: 2 cells, 2 findings, {every_s:.0f} of 3600 s, at append/1/s3" in printed


def test_on_a_terminal_a_report_replaces_the_last_one_and_is_cleared_at_the_end() -> None:
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


@pytest.mark.parametrize("arguments", [[], ["crush"]])
def test_a_command_that_does_not_exist_is_refused_with_those_that_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == WRONG_USAGE
    said = capsys.readouterr()
    assert said.out == "" and all(f"\n  {name} " in said.err for name in ("crash", "fault", "pause", "soak", "share"))


@pytest.mark.parametrize("command", ["crash", "fault", "pause", "soak", "share"])
def test_every_command_has_its_own_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"python -m omnigraph.testing {command}" in capsys.readouterr().out


@pytest.mark.timeout(300)
def test_a_cell_is_repeated_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crash", "append/1/local/apply.after_commit:1/kill"]) == 0
    assert "append/1/local" in capsys.readouterr().out


def test_a_short_run_is_a_sample_of_all_operations() -> None:
    """A long form that stops early has met operations of every kind, and not those alone that are registered first."""
    seeded = [order("crash", STORES, None, random.Random(seed)) for seed in range(20)]
    assert all(sorted(one) == sorted(seeded[0]) for one in seeded)
    assert all({name for name, _, _ in one[: len(OPERATIONS)]} == set(OPERATIONS) for one in seeded)
    assert len({tuple(one[:10]) for one in seeded}) == len(seeded), "in another order with each seed"
    assert {name for name, _, _ in order("pause", STORES, ["append", "init"], random.Random(0))} == {"append"}
