"""The protocol with offers searched exhaustively, with the engine's own decisions; and each guard taken out, to see it missed.

The long settings have the marker ``long``. A search that does not end in time proves nothing and fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit.applied_plans import AppliedPlan, take_along
from omnigraph.commit.plan import PublishPlan
from omnigraph.manifest.state import Change, State
from omnigraph.testing.explorer import Goal, explore
from omnigraph.testing.explorer import State as Node
from omnigraph.testing.protocol_model import APPEND
from omnigraph.testing.protocol_offers import OfferRules, Offers, OfferSetting

THREE: dict[str, Any] = {
    "writes": ((0,),) * 3, "reads": ((),) * 3, "operations": (0, 1, 2), "kinds": (APPEND,) * 3,
}  # fmt: skip
NESTED: dict[str, Any] = {"tables": 2, "writes": ((0, 1), (0,))}
RECOVERY: dict[str, Any] = {"recoverers": 1, "recoveries": 1}
# A front and the owner of an offer to it, and a writer of another table, which may take the front's plan along.
BESIDE: dict[str, Any] = {**THREE, "tables": 2, "writes": ((0,), (1,), (0,)), "offers": (2,), "combining": True}

SHORT = {
    "a front and an owner, a refusal, an interrupt, recovery": OfferSetting(refusals=1, interrupts=1, **RECOVERY),
    "a front and an owner, 2 attempts, a spent budget": OfferSetting(attempts=2, exhausted=1),
    "a front of 2 tables, an owner of one, a refusal, recovery": OfferSetting(**NESTED, refusals=1, **RECOVERY),
    "one key in a front and in an offer, recovery": OfferSetting(keyed=True, operations=(0, 0), refusals=1, **RECOVERY),
    "2 fronts that carry what a caller without answer has offered": OfferSetting(
        **THREE, answered=(2,), asks=True, **RECOVERY
    ),
    "a front that carries, and a writer of another table that takes it along, an interrupt": OfferSetting(
        **BESIDE, interrupts=1
    ),
}
LONG = {
    "a front and an owner, 2 attempts, a lost request, a spent budget": OfferSetting(attempts=2, lost=1, exhausted=1),
    "2 writers that carry each other, a lost request, recovery": OfferSetting(offers=(0, 1), lost=1, **RECOVERY),
    "a front and an owner, 2 attempts, a spent budget, recovery": OfferSetting(attempts=2, exhausted=1, **RECOVERY),
    "a front and an owner whose caller asks, a lost request, an interrupt, recovery": OfferSetting(
        asks=True, lost=1, interrupts=1, **RECOVERY
    ),
    "3 writers of which 2 offer, a refusal": OfferSetting(**THREE, offers=(1, 2), refusals=1),
    "a front, an owner and the offer of a caller without answer, a refusal, an interrupt, recovery": OfferSetting(
        **THREE, offers=(1,), answered=(2,), refusals=1, interrupts=1, **RECOVERY
    ),
    "2 fronts and an owner, a spent budget": OfferSetting(**THREE, offers=(2,), exhausted=1),
    "2 fronts that share swaps, and the offer of a caller without answer": OfferSetting(
        **THREE, answered=(2,), asks=True, combining=True, **RECOVERY
    ),
    "a front that carries, a writer of another table, an interrupt, recovery": OfferSetting(
        **BESIDE, interrupts=1, **RECOVERY
    ),
    "a front that carries, a writer of another table, a spent budget, an interrupt": OfferSetting(
        **BESIDE, exhausted=1, interrupts=1
    ),
    "a front that carries, a writer of another table, a refusal, a lost request": OfferSetting(
        **BESIDE, refusals=1, lost=1
    ),
    "a front that carries, a writer of another table, 2 attempts, a spent budget": OfferSetting(
        **BESIDE, attempts=2, exhausted=1
    ),
    "a front that carries, a writer of another table, a caller that asks, a lost request, an interrupt": OfferSetting(
        **BESIDE, asks=True, lost=1, interrupts=1
    ),
    "a front and an offer with one key, a writer of another table, an interrupt, recovery": OfferSetting(
        **{**BESIDE, "operations": (0, 1, 0)}, keyed=True, interrupts=1, **RECOVERY
    ),
    "2 recoveries beside each other": OfferSetting(recoverers=2, recoveries=2),
}


@pytest.mark.parametrize("setting", SHORT.values(), ids=SHORT.keys())
def test_no_order_of_requests_breaks_a_promise(setting: OfferSetting) -> None:
    _search(setting, 60)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("setting", LONG.values(), ids=LONG.keys())
def test_no_order_of_requests_breaks_a_promise_in_larger_settings(setting: OfferSetting) -> None:
    _search(setting, 3000)


def _search(setting: OfferSetting, seconds_max: float) -> None:
    model = Offers(setting)
    found = explore(model.start, model.steps, model.check, seconds_max=seconds_max)
    print(found)
    assert found.error is None, f"{found.error}\n  " + "\n  ".join(found.trace)
    assert found.exhausted, f"not exhausted: {found}"


# --- every caller gets an answer, also while one writer is dead --------------------------------------------------------------------------------


def _answered(dead: int | None) -> Goal:
    """A dead writer takes no step. What it has left is ended by those that are alive."""

    def reached(s: Node) -> bool:
        return all(writer[0] == "done" for number, writer in enumerate(s[3]) if number != dead)

    name = "" if dead is None else "ABC"[dead]
    return Goal(
        f"every caller has its answer, and {name or 'no writer'} is dead", reached, lambda label: label[0] != name
    )


def test_from_every_state_the_owner_of_an_offer_gets_an_answer_though_the_front_is_dead() -> None:
    _live(OfferSetting(recoverers=1, recoveries=-1), [_answered(0)])


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_from_every_state_every_caller_gets_an_answer_whoever_is_dead() -> None:
    _live(
        OfferSetting(recoverers=1, recoveries=-1, refusals=1, interrupts=1),
        [_answered(None), _answered(0), _answered(1)],
    )


def _live(setting: OfferSetting, goals: list[Goal]) -> None:
    model = Offers(setting)
    found = explore(model.start, model.steps, model.check, goals=goals, seconds_max=3000)
    print(found)
    assert found.exhausted and found.error is None, f"{found}\n  " + "\n  ".join(found.trace)


def test_without_recovery_some_caller_waits_for_a_dead_writer_for_ever() -> None:
    """The search finds a caller who waits for ever: a dead writer's plan stands ahead, and no recovery ends it."""
    model = Offers(OfferSetting(recoverers=1, recoveries=1))
    found = explore(model.start, model.steps, model.check, goals=[_answered(0)], seconds_max=100)
    assert found.error is not None and found.error.startswith("no order of steps leads to")


# --- guards -------------------------------------------------------------------------------------------------------------------


def aborting_all(plan: PublishPlan, *_: object) -> tuple[str, ...]:
    """The records of a plan that treats what it carries like what it owns."""
    return tuple(dict.fromkeys((plan.id, *plan.members)))


def taking_whatever_its_guests_came_to(
    state: State, own: PublishPlan, change: Change, others: Sequence[AppliedPlan]
) -> Change:
    """``take_along`` that looks for the requests which a plan owns, and for none that it carries."""
    guests = {one.id for other in others for one in other.plan.requests if not one.owned}
    return take_along(
        replace(state, tail=tuple(row for row in state.tail if row.object_id not in guests)), own, change, others
    )


GUARDS: dict[str, OfferSetting] = {
    "carried ids of a plan to be taken along": OfferSetting(
        **BESIDE, interrupts=1, rules=OfferRules(take_along=taking_whatever_its_guests_came_to)
    ),
    "an offered id is looked for in the whole line": OfferSetting(rules=OfferRules(whole_line=False)),
    "a refusal is final once it is withdrawn": OfferSetting(
        **THREE, offers=(2,), refusals=1, rules=OfferRules(refusal_withdraws=False)
    ),
    "the offer of a dead owner is withdrawn": OfferSetting(
        answered=(1,), asks=True, **RECOVERY, rules=OfferRules(dead_withdraws=False)
    ),
    "no abort for a carried request": OfferSetting(exhausted=1, rules=OfferRules(aborted_by=aborting_all)),
    "a carried request keeps its id": OfferSetting(attempts=2, exhausted=1, rules=OfferRules(carried_keeps_id=False)),
    "its owner keeps it too": OfferSetting(attempts=2, rules=OfferRules(owner_keeps_id=False)),
    "an answered request is not planned again": OfferSetting(
        attempts=2, interrupts=1, rules=OfferRules(answered_is_over=False)
    ),
    "every id of a plan": OfferSetting(rules=OfferRules(looked_for=lambda plan: (plan.id, *plan.members[:1]))),
    "the plan's own record": OfferSetting(
        **THREE, offers=(1,), answered=(2,), **RECOVERY, rules=OfferRules(looked_for=lambda plan: plan.members)
    ),
    "a plan is armed in a file of its own": OfferSetting(
        asks=True, lost=1, interrupts=1, **RECOVERY, rules=OfferRules(own_file=False)
    ),
}
SOUND_LONG = {"a plan is armed in a file of its own", "the plan's own record"}  # with their guards they are larger


@pytest.mark.parametrize("setting", GUARDS.values(), ids=GUARDS.keys())
def test_without_the_guard_some_order_of_requests_breaks_a_promise(setting: OfferSetting) -> None:
    model = Offers(setting)
    found = explore(model.start, model.steps, model.check, seconds_max=60)
    assert found.error is not None, f"no search missed it: {found}"
    assert 3 <= len(found.trace) <= 30


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(setting, id=name, marks=[pytest.mark.long] if name in SOUND_LONG else [])
        for name, setting in GUARDS.items()
    ],
)
def test_with_the_guard_the_same_setting_is_sound(setting: OfferSetting) -> None:
    _search(replace(setting, rules=OfferRules()), 100)
