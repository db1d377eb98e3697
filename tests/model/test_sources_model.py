"""Plans that take versions from elsewhere, and undo, searched exhaustively with the engine's own decisions; and each guard taken out,
to see it missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit import decide as engine
from omnigraph.commit.decide import Check, PublishCheck
from omnigraph.commit.effects import RULES
from omnigraph.testing.explorer import Search, explore
from omnigraph.testing.sources_model import BRANCH_LINE, LOAD, MAIN_LINE, MERGE, UNDO, Model, Rules, Scope

ONE_MERGE = Scope(actors=((MERGE, 1),), cleans=BRANCH_LINE, recoveries=2)
LOAD_AND_MERGE = Scope(actors=((LOAD, 2), (MERGE, 1)), cleans=BRANCH_LINE)
LOAD_AND_UNDO = Scope(actors=((LOAD, 1), (UNDO, 1)), cleans=MAIN_LINE, recoveries=2)
ALL_THREE = Scope(actors=((LOAD, 2), (MERGE, 1), (UNDO, 1)), cleans=None)

SHORT = {
    "a merge, its source deleted and cleaned up, two recoveries": ONE_MERGE,
    "a load of two attempts beside it": LOAD_AND_MERGE,
    "an undo, what it restores cleaned up, two recoveries": LOAD_AND_UNDO,
    "a load of two attempts, a merge, an undo": ALL_THREE,
}
LONG = {
    "two merges, a load, a cleanup": Scope(actors=((LOAD, 2), (MERGE, 1), (MERGE, 1)), recoveries=2),
    "a load, a merge, an undo, a cleanup": Scope(actors=((LOAD, 1), (MERGE, 1), (UNDO, 1)), recoveries=2),
    "two loads, an undo, a cleanup of the line": Scope(((LOAD, 1), (LOAD, 1), (UNDO, 1)), cleans=MAIN_LINE),
}


def search(scope: Scope, seconds_max: float = 60) -> Search:
    model = Model(scope)
    return explore(model.start, model.steps, model.check, seconds_max=seconds_max)


def check_sound(found: Search) -> None:
    assert found.error is None, f"{found.error}\n  " + "\n  ".join(found.trace)
    assert found.exhausted and found.states > 100, f"not exhausted: {found}"


@pytest.mark.parametrize("scope", SHORT.values(), ids=SHORT.keys())
def test_no_order_of_requests_takes_what_is_being_deleted_or_applies_twice(scope: Scope) -> None:
    check_sound(search(scope))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scope", LONG.values(), ids=LONG.keys())
def test_no_order_of_requests_does_so_in_larger_scopes(scope: Scope) -> None:
    check_sound(search(scope, 3000))


def passing(check: Check) -> Callable[..., PublishCheck]:
    def lenient(*args: Any, **facts: Any) -> PublishCheck:
        verdict = engine.check_publish(*args, **facts)
        return PublishCheck(Check.GO) if verdict.check is check else verdict

    return lenient


NO_SOURCE = passing(Check.SOURCE_GONE)
GUARDS: dict[str, tuple[Scope, Rules, str]] = {
    "the publisher reads the boundary of its sources": (ONE_MERGE, Rules(check_publish=NO_SOURCE), "broken graph"),
    "so does a stranger": (ONE_MERGE, Rules(check_recovered=NO_SOURCE), "broken graph"),
    "sources are roots": (ONE_MERGE, Rules(kept_ranges=lambda *_: {}), "broken graph"),
    "the boundary comes before the deletion": (ONE_MERGE, Rules(bounded=False), "broken graph"),
    "a cleanup looks again": (ONE_MERGE, Rules(spare=lambda before, _: before), "broken graph"),
    "claims come before states": (ONE_MERGE, Rules(claims_first=False), "broken graph"),
    "a plan that is given up ends by a record": (ONE_MERGE, Rules(records=False), "broken graph"),
    "at the boundary is below it": (ONE_MERGE, Rules(swap_stands=lambda v, b: v >= b), "broken graph"),
    "what a Restore takes is a root": (LOAD_AND_UNDO, Rules(kept_ranges=lambda *_: {}), "broken graph"),
    "a pin never comes back": (ALL_THREE, Rules(points_back=True), "double apply"),
    "pins are compared": (LOAD_AND_MERGE, Rules(check_publish=passing(Check.PIN_MOVED)), "wrong rows"),
}


@pytest.mark.parametrize(("scope", "rules", "harm"), GUARDS.values(), ids=GUARDS.keys())
def test_without_the_guard_some_order_of_requests_does_harm(scope: Scope, rules: Rules, harm: str) -> None:
    found = search(replace(scope, rules=rules))
    assert found.error is not None, f"nobody missed it: {found}"
    assert found.error.startswith(harm), f"{found.error}\n  " + "\n  ".join(found.trace)
    assert 3 <= len(found.trace) <= 30


def test_a_record_beside_a_pin_that_has_moved_only_saves_looks() -> None:
    """While no pin comes back, such a plan is dead in any case. It is kept."""
    check_sound(search(replace(ALL_THREE, rules=Rules(needs_record=lambda _: False))))


def test_every_effect_that_takes_from_elsewhere_is_in_the_model() -> None:
    """A new one needs a plan here, before it is relied on."""
    assert {kind for kind, rule in RULES.items() if rule.needs_source} == {"adopt", "restore"}
