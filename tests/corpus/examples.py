"""Kept examples of every random suite: ``tests/corpus/examples`` has one file a module of tests, which are tried before anything
random is.

A file is named as its module below ``tests`` (``unit.manifest.test_state.json``) and holds a list of entries. ``test`` names the
test, ``why`` says what the example showed. What follows is what Hypothesis prints when a test fails, as text of Python, read with
the names of the module:

- ``arguments``: the text of each argument of a test, by its name. Where a test draws while it runs, ``Draws(first, second)``
  stands for ``data``.
- ``steps``: the lines of a history of a state machine, on ``state``.

``tests/conftest.py`` adds the entries to what is collected, so that a new suite has its file as soon as somebody writes one.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, is_hypothesis_test
from hypothesis.stateful import RuleBasedStateMachine

FOLDER = Path(__file__).parent / "examples"
TESTS = Path(__file__).resolve().parents[1]


class Draws:
    """What a test drew while it ran, in this order. A test that runs again begins with the first again."""

    def __init__(self, first: Any, *others: Any) -> None:
        self._values = itertools.cycle((first, *others))

    def draw(self, strategy: object, label: object = None) -> Any:
        return next(self._values)


def kept(module: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """The entries of a module of tests."""
    place = folder / f"{module}.json"
    found: list[dict[str, Any]] = json.loads(place.read_text("utf-8")) if place.exists() else []
    return found


def attach(items: Iterable[pytest.Item]) -> None:
    """Let each collected random test try its kept examples first."""
    for item in items:
        module = getattr(item, "module", None)
        if module is None or not item.path.is_relative_to(TESTS):
            continue
        name = ".".join(item.path.relative_to(TESTS).with_suffix("").parts)
        entries = kept(name)
        if machine_of(item) is not None and item.parent is not None:
            # A test case that is assigned to a name has another name of its own.
            mine = [entry for entry in entries if entry["test"] == item.parent.name]
            replay_first(item.cls, mine, vars(module))  # type: ignore[attr-defined]
            item.obj = None  # type: ignore[attr-defined]  # looked up again: pytest may have kept the method as it was
        elif isinstance(item, pytest.Function) and any(entry["test"] == item.function.__name__ for entry in entries):
            add_to(item.function, entries, vars(module))


def machine_of(item: Any) -> type[RuleBasedStateMachine] | None:
    """The state machine whose histories an item makes."""
    run = getattr(getattr(item, "cls", None), "runTest", None)
    found: type[RuleBasedStateMachine] | None = getattr(run, "_hypothesis_state_machine_class", None)
    return found


def add_to(test: Any, entries: Sequence[Mapping[str, Any]], names: Mapping[str, Any]) -> None:
    """Once a test, however many items it has."""
    if not is_hypothesis_test(test):
        raise AssertionError(f"{test.__name__} is no random test: it has no kept examples")
    if getattr(test, "tries_kept_examples", False):
        return
    for entry in reversed([entry for entry in entries if entry["test"] == test.__name__]):
        given = {name: read(text, names) for name, text in entry["arguments"].items()}
        example(**given)(test)
    test.tries_kept_examples = True


def replay_first(cls: Any, entries: Sequence[Mapping[str, Any]], names: Mapping[str, Any]) -> None:
    """Replay kept histories in the test case of a machine, once, before it makes its own."""
    run = cls.runTest
    if not entries or "tries_kept_examples" in vars(cls):
        return
    cls.tries_kept_examples = True

    @functools.wraps(run)
    def with_kept(self: Any) -> None:
        for entry in entries:
            replay(run._hypothesis_state_machine_class, entry["steps"], names)
        run(self)

    cls.runTest = with_kept


def replay(machine: type[RuleBasedStateMachine], steps: Iterable[str], names: Mapping[str, Any]) -> None:
    """One history, with every invariant after each step, as Hypothesis would run it."""
    state = machine()
    known = {**names, "Draws": Draws, "state": state}
    try:
        _check(state)
        for step in steps:
            exec(step, known)
            _check(state)
    finally:
        state.teardown()


def _check(state: RuleBasedStateMachine) -> None:
    for one in state.invariants:
        if all(holds(state) for holds in one.preconditions):
            one.function(state)


def read(text: str, names: Mapping[str, Any]) -> Any:
    return eval(text, {**names, "Draws": Draws})
