"""When upkeep runs: every small history of numbers, runs and lost cursors."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_pipelines.defs.upkeep.decide import (
    RETRY_S_MAX,
    Decision,
    Marks,
    Memory,
    Run,
    decide,
    from_cursor,
    pause_after,
    run_key,
    to_cursor,
)

MARKS = Marks("{} archive fragments", high=4, low=1)
AGE = Marks("oldest: {} s", high=4, low=3, doubling=True)


def tick(value: int, memory: Memory | None = None, runs: tuple[Run, ...] = (), now_s: float = 1e6) -> Decision:
    return decide("compaction", value, MARKS, memory or Memory(), runs, now_s)


def ended(run_id: str, succeeded: bool = True, at_s: float = 0.0, left: int | None = None) -> Run:
    return Run(run_id, succeeded, at_s, left)


# --- single ticks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", range(4))
def test_below_the_high_mark_nothing_is_asked_for(value: int) -> None:
    decision = tick(value)
    assert decision.run_key is None
    assert decision.memory == Memory()
    assert decision.reason == f"{value} archive fragments (high mark 4, low mark 1)"


@pytest.mark.parametrize("value", [4, 5, 400])
def test_at_the_high_mark_a_run_is_asked_for(value: int) -> None:
    decision = tick(value)
    assert decision.run_key == "compaction:after-none:a1"
    assert decision.memory.armed
    assert f"{value} archive fragments" in decision.reason


@pytest.mark.parametrize(("value", "asked"), [(0, False), (1, False), (2, True), (3, True), (4, True)])
def test_once_begun_it_goes_on_until_the_low_mark(value: int, asked: bool) -> None:
    assert (tick(value, Memory(armed=True)).run_key is not None) is asked
    assert tick(value, Memory(armed=True)).memory.armed is asked


def test_a_run_that_is_queued_or_under_way_is_waited_for() -> None:
    decision = tick(9, runs=(Run("0123456789", False, None), ended("x")))
    assert decision.run_key is None
    assert "run 01234567 is queued or under way" in decision.reason


def test_what_a_run_has_left_is_not_tried_again_before_it_has_grown() -> None:
    asked = tick(9)
    after = tick(9, asked.memory, (ended("first", left=9),))
    assert after.run_key is None
    assert "run first left 9, the next one at 12" in after.reason
    assert tick(11, after.memory, (ended("first", left=9),)).run_key is None
    assert tick(12, after.memory, (ended("first", left=9),)).run_key == "compaction:after-first:a1"


def test_what_was_written_after_a_run_is_not_what_it_left() -> None:
    after = tick(40, tick(9).memory, (ended("first", left=2),))
    assert after.run_key == "compaction:after-first:a1"
    quiet = tick(4, tick(9).memory, (ended("first", left=2),))
    assert quiet.run_key is None and "run first left 2, the next one at 5" in quiet.reason


def test_a_run_that_reported_nothing_is_repeated_an_hour_later() -> None:
    runs = (ended("first", at_s=0),)
    assert tick(9, runs=runs, now_s=RETRY_S_MAX - 1).run_key is None
    assert tick(9, runs=runs, now_s=RETRY_S_MAX).run_key == "compaction:after-first:a1"


def test_an_age_is_looked_at_again_when_it_has_doubled() -> None:
    def at(age: int, memory: Memory, *runs: Run) -> Decision:
        return decide("reconcile", age, AGE, memory, runs, 1e6)

    first = at(5, Memory())
    assert first.run_key is not None
    left = at(8, first.memory, ended("one", left=7))
    assert left.run_key is None
    assert at(13, left.memory, ended("one", left=7)).run_key is None
    assert at(14, left.memory, ended("one", left=7)).run_key is not None


def test_a_failed_run_is_repeated_under_another_key_after_a_pause() -> None:
    asked = tick(9, now_s=100)
    failed = (ended("one", succeeded=False, at_s=110),)
    waiting = tick(9, asked.memory, failed, now_s=120)
    assert waiting.run_key is None
    assert "run one failed, attempt 2 in 20 s" in waiting.reason
    again = tick(9, waiting.memory, failed, now_s=140)
    assert again.run_key == "compaction:after-one:a2"
    assert again.attempt == 2


def test_a_failed_attempt_forgets_what_an_earlier_run_has_left() -> None:
    runs = (ended("two", succeeded=False), ended("one", left=9))
    assert tick(9, Memory(armed=True), runs).run_key == "compaction:after-two:a2"


def test_pauses_double_up_to_an_hour() -> None:
    assert [pause_after(n) for n in (1, 2, 3, 4)] == [30, 60, 120, 240]
    assert pause_after(8) == pause_after(10_000) == RETRY_S_MAX == 3600


def test_a_lost_cursor_asks_for_nothing_that_was_asked_for_before() -> None:
    runs = (ended("one"),)
    assert tick(9, Memory(), runs).run_key == tick(9, Memory(), runs).run_key == run_key("compaction", "one", 1)


@pytest.mark.parametrize(
    "cursor", [None, "", "x", "{}", "3", "null", "[]", "[3]", '[{"armed": 1}]', '[{"left": "4", "left_by": 4}]']
)
def test_a_foreign_cursor_counts_as_lost(cursor: str | None) -> None:
    assert from_cursor(cursor, 2) == [Memory(), Memory()]


def test_a_cursor_says_what_was_remembered() -> None:
    memories = [Memory(True), Memory()]
    assert from_cursor(to_cursor(memories), 2) == memories
    assert from_cursor(to_cursor(memories), 1) == memories[:1]


@pytest.mark.parametrize(("high", "low"), [(4, 4), (4, 5), (0, 0), (4, -1)])
def test_marks_that_would_flap_are_refused(high: int, low: int) -> None:
    with pytest.raises(ValueError, match="low mark"):
        Marks("things", high, low)


# --- whole histories ----------------------------------------------------------------------------------------------------

# What may happen between two ticks: writers write, a run ends in one of four ways, the cursor is lost.
STEPS = ("grow", "grows on", "works", "retains", "fails", "reports nothing", "lost")


class World:
    """A number with writers beside it, the runs that were asked for, and the cursor; one tick after every step."""

    def __init__(self, marks: Marks, apart_s: float = 43_200.0) -> None:
        self.marks = marks
        self.apart_s = apart_s
        self.value = 3
        self.left: int | None = None
        self.runs: list[Run] = []
        self.cursor: str | None = None
        self.keys: list[str] = []
        self.now_s = 0.0

    def step(self, what: str) -> None:
        if what == "grow":
            self.value += 2
        elif what == "lost":
            self.cursor = None
        elif self.runs and self.runs[0].ended_s is None:
            if what in ("works", "grows on"):
                self.value = 0
            is_good = what != "fails"
            self.left = self.value if is_good else None
            reported = None if what == "reports nothing" else self.left
            self.runs[0] = Run(self.runs[0].run_id, is_good, self.now_s, reported)
            if what == "grows on":  # between the end of the run and the next tick
                self.value += 5

    def tick(self) -> Decision:
        self.now_s += self.apart_s
        [before] = from_cursor(self.cursor, 1)
        decision = decide("x", self.value, self.marks, before, self.runs, self.now_s)
        self.cursor = to_cursor([decision.memory])
        busy = bool(self.runs) and self.runs[0].ended_s is None
        if decision.run_key is not None:
            assert not busy, "a run was asked for beside another one"
            assert decision.run_key not in self.keys, "one state had two runs"
            assert self.value > self.marks.low if before.armed else self.value >= self.marks.high
            self.keys.append(decision.run_key)
            self.runs.insert(0, Run(f"run{len(self.runs)}", False, None))
        else:
            assert str(self.value) in decision.reason
            if not busy and self.value >= self.marks.high:
                self._is_idle_for_a_reason()
        return decision

    def _is_idle_for_a_reason(self) -> None:
        """At or above the high mark nothing is asked for only if the last run left nearly as much, or just now failed."""
        last = self.runs[0]
        assert last.ended_s is not None
        if not last.succeeded or last.left is None:
            assert self.now_s - last.ended_s < RETRY_S_MAX
            return
        grown = last.left if self.marks.doubling else self.marks.high - self.marks.low
        assert last.left == self.left, "the run's own report"
        assert self.value - last.left < max(grown, 1) or self.value < self.marks.high


@pytest.mark.parametrize("marks", [MARKS, AGE], ids=["count", "age"])
@pytest.mark.parametrize("apart_s", [43_200.0, 20.0], ids=["half a day", "seconds"])
def test_no_history_has_two_runs_for_one_state_or_idles_above_what_a_run_left(marks: Marks, apart_s: float) -> None:
    for history in itertools.product(STEPS, repeat=4):
        world = World(marks, apart_s)
        for what in history:
            world.step(what)
            world.tick()


@given(st.lists(st.sampled_from(STEPS), max_size=40), st.sampled_from([MARKS, AGE]), st.sampled_from([20.0, 43_200.0]))
def test_no_long_history_does_either(history: list[str], marks: Marks, apart_s: float) -> None:
    world = World(marks, apart_s)
    for what in history:
        world.step(what)
        world.tick()


@pytest.mark.parametrize("marks", [MARKS, AGE], ids=["count", "age"])
def test_from_every_history_the_number_comes_down_once_runs_work(marks: Marks) -> None:
    for history in itertools.product(STEPS, repeat=4):
        world = World(marks)
        for what in history:
            world.step(what)
            world.tick()
        for _ in range(4 * (world.value + 4)):
            world.step("works")
            if not world.runs or world.runs[0].ended_s is not None:
                world.step("grow")
            world.tick()
            if world.value == 0:
                break
        assert any(run.succeeded for run in world.runs), history


def test_the_trial_that_idled_for_good_above_its_mark() -> None:
    """A cleanup left 28 of 1,243 while a writer went on to 271, then all was quiet: the rest must be cleaned up, too."""
    marks = Marks("{} versions to clean up", 60, 20)
    asked = decide("x", 1243, marks, Memory(), (), 0)
    assert asked.run_key is not None
    after = decide("x", 271, marks, asked.memory, (Run("a", True, 10, 28),), 60)
    assert after.run_key == "x:after-a:a1"
    done = decide("x", 28, marks, after.memory, (Run("b", True, 70, 28), Run("a", True, 10, 28)), 120)
    assert done.run_key is None and "run b left 28, the next one at 68" in done.reason
