"""Progress: what is told, how often, and that a listener can neither slow an operation down nor break it."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from omnigraph.cli.progress import Lines, line
from omnigraph.cli.render import Screen
from omnigraph.core import progress
from omnigraph.core.clock import ManualClock
from omnigraph.core.progress import Progress


def told(work: object, *, interval_s: float = 0.1) -> tuple[list[Progress], ManualClock]:
    clock, events = ManualClock(), []
    with progress.listen(events.append, clock=clock, interval_s=interval_s), progress.named("load"):
        work(clock)  # type: ignore[operator]
    return events, clock


def test_without_a_listener_nothing_is_counted() -> None:
    with progress.phase("reading", total=3):
        progress.advance(3)
        assert not progress.listening()
    assert not progress.listening()


def test_the_first_and_the_last_word_on_a_phase_are_always_told() -> None:
    def work(_: ManualClock) -> None:
        with progress.phase("reading", total=3):
            progress.advance(1)
            progress.advance(2, bytes=7, subject="node:Person")

    first, last = told(work)[0]
    assert (first.done, first.state, first.fraction) == (0, "running", 0.0)
    assert (last.done, last.state, last.fraction) == (3, "done", 1.0)
    assert (last.operation, last.bytes, last.subject) == ("load", 7, "node:Person")


def test_twenty_thousand_steps_are_not_twenty_thousand_events() -> None:
    def work(clock: ManualClock) -> None:
        with progress.phase("reading"):
            for _ in range(20_000):
                clock.advance(0.001)
                progress.advance()

    events, _ = told(work)
    assert 150 <= len(events) <= 210  # twenty seconds at ten a second
    assert [event.done for event in events] == sorted(event.done for event in events)
    assert events[-1].done == 20_000


def test_what_is_left_follows_from_the_pace() -> None:
    def work(clock: ManualClock) -> None:
        with progress.phase("reading", total=100):
            clock.advance(10)
            progress.advance(25)

    running = told(work)[0][1]
    assert (running.fraction, running.rate, running.remaining_s) == (0.25, 2.5, 30.0)
    assert json.loads(json.dumps(running.to_dict()))["remaining_s"] == 30.0


def test_where_no_total_is_known_nothing_is_promised() -> None:
    def work(clock: ManualClock) -> None:
        with progress.phase("reading"):
            clock.advance(1)
            progress.advance(5)

    running = told(work)[0][1]
    assert running.fraction is None and running.remaining_s is None and running.rate == 5.0


def test_bytes_lead_where_their_total_is_known() -> None:
    def work(clock: ManualClock) -> None:
        with progress.phase("reading"):
            progress.expect(bytes=100)
            progress.expect(bytes=100)
            clock.advance(1)
            progress.advance(5, bytes=50)

    assert told(work)[0][1].fraction == 0.25


def test_a_phase_that_fails_says_so() -> None:
    def work(_: ManualClock) -> None:
        with pytest.raises(ValueError), progress.phase("reading"):
            raise ValueError

    assert [event.state for event in told(work)[0]] == ["running", "failed"]


def test_a_listener_that_fails_is_told_in_the_log_and_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def listener(event: Progress) -> None:
        calls.append(event)
        raise RuntimeError("the screen is gone")

    with caplog.at_level(logging.ERROR, "omnigraph.progress"), progress.listen(listener, clock=ManualClock()):
        with progress.phase("writing"):
            progress.advance(3)
        with progress.phase("publishing"):
            pass
    assert len(calls) == 1
    assert [record.message for record in caplog.records] == ["the progress listener failed; it is not called again"]


def test_threads_count_for_the_phase_that_they_were_started_in() -> None:
    def work(clock: ManualClock) -> None:
        with progress.phase("writing"), ThreadPoolExecutor(4) as pool:
            count = progress.counter()
            for _ in range(50):
                pool.submit(copy_context().run, progress.advance, 1)
                pool.submit(count, 1, 2)

    last = told(work)[0][-1]
    assert (last.done, last.bytes) == (100, 100)


def test_an_operation_inside_another_is_part_of_it() -> None:
    events: list[Progress] = []
    with progress.listen(events.append), progress.named("cleanup"), progress.named("plan"), progress.phase("looking"):
        pass
    assert {event.operation for event in events} == {"cleanup"}


# --- the two looks ------------------------------------------------------------------------------------------------------


def test_where_nobody_looks_there_is_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with progress.listen(Lines(Screen()), clock=clock), progress.named("load"), progress.phase("reading", total=20_000):
        for _ in range(20_000):
            clock.advance(0.001)
            progress.advance()
    err = capsys.readouterr().err.splitlines()
    assert 3 <= len(err) <= 4, err
    assert err[0].startswith("load: reading 5,0") and "of 20,000 rows (25%), 1,000 rows/s, 14 s left" in err[0]


def test_a_short_operation_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.listen(Lines(Screen()), clock=ManualClock()), progress.phase("reading"):
        progress.advance(10)
    assert capsys.readouterr().err == ""


def test_a_line_names_phase_rows_bytes_pace_and_what_is_left() -> None:
    event = Progress("load", "reading", "rows", 1_200_000, None, 30 << 20, 60 << 20, "node:Person", 5.0, "running")
    assert line(event) == (
        "load: reading 1,200,000 rows, 30.0 MiB of 60.0 MiB (50%), 240,000 rows/s, 5 s left, at node:Person"
    )
