"""Forks of inherited tables, searched exhaustively with the engine's own decisions; and each guard taken out, to see it missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit import decide as engine
from omnigraph.commit.decide import Check, PublishCheck
from omnigraph.testing.explorer import Search, explore
from omnigraph.testing.forks_model import Model, Rules, Scope

BESIDE_A_CLEANUP = Scope((2, 1))
BESIDE_A_RECOVERY = Scope((2, 2), cleanups=0, recoveries=2)
BESIDE_BOTH = Scope((1, 1), recoveries=1)

SHORT = {
    "two writers, a cleanup": BESIDE_A_CLEANUP,
    "two writers, recoveries": BESIDE_A_RECOVERY,
    "two writers, a cleanup, a recovery": BESIDE_BOTH,
}
LONG = {
    "two writers of two attempts, a cleanup": Scope(),
    "two writers, one of two attempts, a cleanup, a recovery": Scope((2, 1), recoveries=1),
    "three writers, a cleanup": Scope((1, 1, 1)),
}


def search(scope: Scope, seconds_max: float = 60) -> Search:
    model = Model(scope)
    return explore(model.start, model.steps, model.check, seconds_max=seconds_max)


def check_sound(found: Search) -> None:
    assert found.error is None, f"{found.error}\n  " + "\n  ".join(found.trace)
    assert found.exhausted and found.states > 100, f"not exhausted: {found}"


@pytest.mark.parametrize("scope", SHORT.values(), ids=SHORT.keys())
def test_no_order_of_requests_loses_a_fork_or_a_row(scope: Scope) -> None:
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


BY_BRANCH = Rules(fork_ref=lambda pid: "f-branch", reclaims=True)
UNMARKED = Rules(marked=False, claims_first=False, looks=1)
GUARDS: dict[str, tuple[Scope, Rules, str]] = {
    "a plan is armed before its fork is made": (BESIDE_A_CLEANUP, Rules(arms_first=False), "broken graph"),
    "the forks of a plan are claimed": (BESIDE_A_CLEANUP, Rules(lines_claimed=lambda _: frozenset()), "broken graph"),
    "the forks that a state names are kept": (BESIDE_A_CLEANUP, Rules(lines_named=lambda _: frozenset()), "broken graph"),
    "a mark, two looks, or claims before states": (BESIDE_A_CLEANUP, UNMARKED, "broken graph"),
    "pins are compared": (BESIDE_A_CLEANUP, Rules(check_publish=passing(Check.PIN_MOVED)), "wrong rows"),
    "a fork has a name of its own": (replace(BESIDE_A_CLEANUP, cleanups=0), BY_BRANCH, "broken graph"),
    "a record ends a plan": (BESIDE_A_RECOVERY, Rules(check_publish=passing(Check.ABORTED)), "a plan ended twice"),
}  # fmt: skip


@pytest.mark.parametrize(("scope", "rules", "harm"), GUARDS.values(), ids=GUARDS.keys())
def test_without_the_guard_some_order_of_requests_does_harm(scope: Scope, rules: Rules, harm: str) -> None:
    found = search(replace(scope, rules=rules))
    assert found.error is not None, f"nobody missed it: {found}"
    assert found.error.startswith(harm), f"{found.error}\n  " + "\n  ".join(found.trace)
    assert 3 <= len(found.trace) <= 30


ONE_LESS = {"no mark": Rules(marked=False), "states first": Rules(claims_first=False), "one look": Rules(looks=1)}


@pytest.mark.parametrize("rules", ONE_LESS.values(), ids=ONE_LESS.keys())
def test_a_cleanup_of_forks_is_sound_without_any_one_of_mark_order_and_second_look(rules: Rules) -> None:
    """Of these three one may be missing. They are kept for what else a cleanup deletes."""
    check_sound(search(replace(BESIDE_A_CLEANUP, rules=rules)))
