"""Small histories of branches, all of them, with the engine's own decisions; and each guard taken out, to see it missed.

Rows are only added here. That bases are found over both parents, and all of them, is missed where values change: see
``tests/unit/branch/test_ancestry.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.branch import triple
from omnigraph.branch.triple import Action, TablePins, Terms
from omnigraph.commit import decide as engine
from omnigraph.commit.decide import Check, PublishCheck
from omnigraph.testing.explorer import Search, explore
from omnigraph.testing.merges_model import Model, Rules, Scope

TWO_PLANS = Scope(plans=2, settled=True)
THREE_BRANCHES = Scope(branches=3, commits=3, plans=2, settled=True)
BEHIND = Scope(older=2, settled=True)
WITH_UNDO = Scope(undo=True, older=1, settled=True)

SHORT = {
    "two merges at once, forks that may be adopted": TWO_PLANS,
    "two merges at once, forks that may not": replace(TWO_PLANS, settled=False),
    "three branches": THREE_BRANCHES,
    "merges of commits behind their head": BEHIND,
    "with undo": WITH_UNDO,
}
LONG = {
    "five commits, two merges at once": replace(TWO_PLANS, commits=5),
    "three branches, four commits": replace(THREE_BRANCHES, commits=4),
    "five commits with undo": replace(WITH_UNDO, commits=5),
}


def search(scope: Scope, seconds_max: float = 60) -> Search:
    model = Model(scope)
    return explore(model.start, model.steps, model.check, seconds_max=seconds_max)


def check_sound(found: Search) -> None:
    assert found.error is None, f"{found.error}\n  " + "\n  ".join(found.trace)
    assert found.exhausted and found.states > 1000, f"not exhausted: {found}"


@pytest.mark.parametrize("scope", SHORT.values(), ids=SHORT.keys())
def test_every_table_holds_what_its_ancestors_wrote_and_no_pin_comes_back(scope: Scope) -> None:
    check_sound(search(scope))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scope", LONG.values(), ids=LONG.keys())
def test_it_is_so_in_longer_histories(scope: Scope) -> None:
    check_sound(search(scope, 3000))


def passing(*checks: Check) -> Callable[..., PublishCheck]:
    def lenient(*args: Any, **facts: Any) -> PublishCheck:
        verdict = engine.check_publish(*args, **facts)
        return PublishCheck(Check.GO) if verdict.check in checks else verdict

    return lenient


def taking_what_is_unchanged(pins: TablePins, terms: Terms, *, same_fields: bool) -> Action:
    """What the source has not changed is taken from it like what it has."""
    found = triple.action_of(pins, terms, same_fields=same_fields)
    return Action.ADOPT if found is Action.KEEP else found


SHARED_LINES = Rules(forks=False, check_publish=passing(Check.NOT_OWNED))
GUARDS: dict[str, tuple[Scope, Rules, str]] = {
    "pins are compared": (TWO_PLANS, Rules(check_publish=passing(Check.PIN_MOVED)), "lost write"),
    "what the source has not changed is kept": (TWO_PLANS, Rules(action_of=taking_what_is_unchanged), "a pin came back"),
    "an undo makes a new version": (WITH_UNDO, Rules(points_back=True), "a pin came back"),
    "a line has one writer": (TWO_PLANS, SHARED_LINES, "one version with two contents"),
}  # fmt: skip


@pytest.mark.parametrize(("scope", "rules", "harm"), GUARDS.values(), ids=GUARDS.keys())
def test_without_the_guard_some_history_goes_wrong(scope: Scope, rules: Rules, harm: str) -> None:
    found = search(replace(scope, rules=rules))
    assert found.error is not None, f"nobody missed it: {found}"
    assert found.error.startswith(harm), f"{found.error}\n  " + "\n  ".join(found.trace)
    assert 2 <= len(found.trace) <= 12


def test_a_line_of_another_branch_is_refused_where_nothing_forks() -> None:
    check_sound(search(replace(TWO_PLANS, rules=Rules(forks=False), commits=5)))


def test_what_a_merge_rests_on_without_writing_it_only_adds_to_its_pins() -> None:
    """No history of this size goes wrong without it. It is kept."""
    check_sound(search(replace(TWO_PLANS, rules=Rules(rests_on=lambda pins: False))))
