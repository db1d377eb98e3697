from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from omnigraph.core import failpoints
from tests.steps import steps


@pytest.fixture(autouse=True)
def _nothing_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


def test_a_failpoint_that_is_not_armed_does_nothing() -> None:
    failpoints.hit("anywhere", table="t")


def test_a_callable_is_called_with_the_facts_at_the_nth_hit_only() -> None:
    seen: list[dict[str, object]] = []
    with failpoints.armed("cut", lambda **facts: seen.append(facts), at=2):
        for i in range(4):
            failpoints.hit("cut", i=i)
        failpoints.hit("other", i=9)
    failpoints.hit("cut", i=10)
    assert seen == [{"i": 1}]


def test_an_exception_is_raised_from_the_place() -> None:
    with failpoints.armed("cut", OSError("planted")), pytest.raises(OSError, match="planted"):
        failpoints.hit("cut")
    with failpoints.armed("cut", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        failpoints.hit("cut")


def test_every_hit_fires_when_asked_to() -> None:
    count: list[int] = []
    with failpoints.armed("cut", lambda: count.append(1), at=None):
        failpoints.hit("cut")
        failpoints.hit("cut")
    assert len(count) == 2


def test_the_star_counts_hits_of_all_names() -> None:
    with failpoints.armed("*", "raise", at=3):
        failpoints.hit("a")
        failpoints.hit("b")
        with pytest.raises(failpoints.FailpointHit, match="c"):
            failpoints.hit("c")


def test_a_recording_lists_the_cuts_in_order() -> None:
    with failpoints.recording() as outer, failpoints.recording() as inner:
        failpoints.hit("a", x=1)
        failpoints.hit("b")
    failpoints.hit("c")
    assert inner == outer == [("a", {"x": 1}), ("b", {})]


@pytest.mark.parametrize("text", ["cut", "=kill", "cut=explode", "cut:0=kill", "cut:x=kill"])
def test_a_malformed_environment_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        failpoints.arm_from(text)


@pytest.mark.parametrize(("spec", "printed"), [("cut:2=kill", "1\n"), ("cut=kill", ""), ("*:3=kill", "1\n2\n")])
def test_a_child_process_is_killed_at_the_hit_its_environment_names(spec: str, printed: str) -> None:
    program = (
        "from omnigraph.core import failpoints\n"
        "for i in (1, 2, 3, 4):\n"
        "    failpoints.hit('cut')\n"
        "    print(i, flush=True)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), failpoints.ENVIRONMENT: spec}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == printed


def test_a_failpoint_that_is_off_calls_nothing() -> None:
    nothing = steps(lambda: None)
    assert steps(lambda: failpoints.hit("cut", table_key="node:Person")) == nothing + 1
