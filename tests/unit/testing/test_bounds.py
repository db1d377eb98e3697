"""A child that loops, stands still or sleeps for ever is told from one that waits for a core."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from omnigraph.testing.bounds import Bounds, NeverEnds, Watch, hear
from omnigraph.testing.children import Child

BOUNDS = Bounds(cpu_s=10.0, still_s=20.0, wall_s=1000.0)
SHORT = Bounds(cpu_s=2.0, still_s=4.0, wall_s=60.0)


def looked(*looks: tuple[float, float], bounds: Bounds = BOUNDS) -> str | None:
    """The first answer to looks at (wall, processor) seconds."""
    watch = Watch(bounds, at_s=0.0, used_s=5.0)
    return next((said for at, used in looks if (said := watch.look(at_s=at, used_s=used)) is not None), None)


def test_a_loop_is_told_by_its_processor_time_whatever_it_used_before() -> None:
    assert "processor time" in str(looked((1.0, 14.9), (2.0, 15.1)))
    assert looked((1.0, 14.9)) is None


def test_a_process_that_gets_little_of_a_loaded_machine_is_waited_for() -> None:
    assert looked(*((float(at), 5.0 + at / 100) for at in range(0, 400, 10))) is None


def test_what_uses_no_time_stands_still() -> None:
    assert "stood still" in str(looked((10.0, 6.0), (29.0, 6.0), (31.0, 6.0)))
    assert looked((10.0, 6.0), (29.0, 6.0)) is None


def test_a_loop_that_sleeps_ends_at_the_wall() -> None:
    assert "did not end" in str(looked(*((float(at), 5.0 + at / 1000) for at in range(0, 1100, 10))))


def _loops(say: Callable[[Any], None]) -> None:
    while True:
        pass


def _sleeps(say: Callable[[Any], None]) -> None:
    time.sleep(600)


def _answers(say: Callable[[Any], None]) -> None:
    say("done")


@pytest.mark.parametrize(("call", "reason"), [(_loops, "processor time"), (_sleeps, "stood still")])
def test_a_child_that_hangs_is_found(call: Any, reason: str) -> None:
    with Child(call) as child, pytest.raises(NeverEnds, match=reason):
        hear(child, SHORT)


def test_a_child_that_answers_is_heard_and_its_end_is_none() -> None:
    with Child(_answers) as child:
        assert [hear(child, SHORT), hear(child, SHORT)] == ["done", None]
