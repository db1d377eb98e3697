"""Kept examples are tried before anything random, and each still belongs to a test."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.corpus import examples

FILES = sorted(examples.FOLDER.glob("*.json"))
SEEN: list[Any] = []
KEPT = 123_456_789


@settings(max_examples=2)
@given(number=st.integers(0, 1), data=st.data())
def test_what_is_tried(number: int, data: Any) -> None:
    SEEN.append((number, data.draw(st.just("drawn"))))


def test_the_kept_example_was_tried_first() -> None:
    test_what_is_tried()
    assert SEEN[0] == (KEPT, "kept")
    assert (0, "drawn") in SEEN


class Clock(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hours = 0
        self.stopped = False

    @rule(hours=st.integers(0, 3))
    def forward(self, hours: int) -> None:
        self.hours += hours

    @invariant()
    def it_is_no_day_yet(self) -> None:
        assert self.hours < 24

    def teardown(self) -> None:
        STOPPED.append(self.hours)


STOPPED: list[int] = []
TestClock = Clock.TestCase
TestClock.settings = settings(max_examples=1, stateful_step_count=1)


def test_a_machine_that_is_collected_replays_what_is_kept(request: pytest.FixtureRequest) -> None:
    STOPPED.clear()
    collected: list[Any] = [item for item in request.session.items if item.parent.name == "TestClock"]  # type: ignore[union-attr]
    run = collected[0].obj if collected else TestClock("runTest").debug  # what pytest would call
    run()
    assert STOPPED[0] == 23 and len(STOPPED) > 1


def test_a_kept_history_is_replayed_with_its_invariants() -> None:
    STOPPED.clear()
    examples.replay(Clock, ["state.forward(hours=3)", "state.forward(hours=KEPT_HOURS)"], {"KEPT_HOURS": 2})
    assert STOPPED == [5]
    with pytest.raises(AssertionError):
        examples.replay(Clock, ["state.forward(hours=24)", "state.forward(hours=-24)"], {})
    assert STOPPED == [5, 24], "the machine is taken down where an invariant fails"


def test_a_kept_history_that_fails_ends_the_test_of_its_machine() -> None:
    class Case(Clock.TestCase): ...

    examples.replay_first(Case, [{"steps": ["state.forward(hours=24)"]}], {})
    with pytest.raises(AssertionError):
        Case("runTest").debug()


def random_test() -> Any:
    @settings(max_examples=5, database=None)
    @given(st.integers(0, 100))
    def a_test(number: int) -> None:
        assert number != KEPT

    return a_test


def test_a_defect_that_only_the_kept_example_shows_is_found() -> None:
    random_test()()
    test = random_test()
    examples.add_to(test, [{"test": "a_test", "arguments": {"number": "KEPT"}}], {"KEPT": KEPT})
    with pytest.raises(AssertionError):
        test()


def test_only_a_random_test_has_kept_examples() -> None:
    def plain() -> None: ...

    with pytest.raises(AssertionError, match="no random test"):
        examples.add_to(plain, [], {})


@pytest.mark.parametrize("place", FILES, ids=lambda place: place.stem)
def test_every_kept_example_belongs_to_a_test_and_fits_it(place: Any) -> None:
    module = importlib.import_module(f"tests.{place.stem}")
    entries = examples.kept(place.stem)
    assert entries
    for entry in entries:
        assert entry["why"]
        test = getattr(module, entry["test"])
        if inspect.isclass(test):
            for step in entry["steps"]:
                compile(step, place.name, "exec")
        else:
            strategies: Callable[..., Any] = test.hypothesis._given_kwargs
            assert set(entry["arguments"]) == set(strategies)
            for text in entry["arguments"].values():
                examples.read(text, vars(module))
