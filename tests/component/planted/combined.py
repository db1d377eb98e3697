"""Plans of several processes in one swap: what may not come along, and what its owner and its helper have to do first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from omnigraph.commit import applied_plans, decide
from omnigraph.commit.advance import RECOVERY, Answer, Swap, Terms, advance
from omnigraph.commit.decide import Check, Lineage, PublishCheck
from omnigraph.commit.durable import Durable
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol.compensate import abort_change
from omnigraph.commit.protocol.withdraw import withdraw
from omnigraph.commit.queue import arming, combine
from omnigraph.commit.queue.arming import Arming
from omnigraph.commit.queue.combine import Combining
from omnigraph.core import failpoints
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.durable import Durability
from omnigraph.manifest.swap import Held
from omnigraph.testing.combining import leave_applied, losing, row, when_applied
from omnigraph.testing.content import commits_of
from omnigraph.testing.effect_operations import give_away
from omnigraph.testing.offering import adding, carry_out, leave_offer, offering_engine
from omnigraph.testing.operations import append
from tests.component.planted.scenes import TWO, Defect, Engines, Plant, passing, recovered, setting, wrong

T1, T2 = TWO
SIDE = "side"


def _combining(engines: Engines) -> Engine:
    engine = engines()
    engine.combine = True
    engine.durable = Durable(engine.store, Durability.COMMIT)
    return engine


def _helped_by(engines: Engines, mine: Engine) -> None:
    """A write to the first table that loses a swap, and so takes along what it may."""
    with losing(mine, engines()):
        append(mine, [T1], ["mine"])


def _alone(engine: Engine, *, table: str) -> list[str]:
    """The last commit of this table shares its swap with no other."""
    rows = commits_of(engine)
    last = next(one for one in reversed(rows) if table in one.tables)
    company = [one.commit_id for one in rows if one.version == last.version and one is not last]
    return [f"{last.commit_id} came along with {company}"] if company else []


# --- scenes ---------------------------------------------------------------------------------------------------------------


def an_owner_is_helped(engines: Engines) -> list[str]:
    owner, helper = _combining(engines), _combining(engines)

    def help_it() -> None:
        with losing(helper, engines()):
            append(helper, [T2], ["helper"])

    with losing(owner, engines()), when_applied(owner, help_it):
        append(owner, [T1], ["owner"], idempotency_key="k")
    return wrong(engines(), {T1: ["owner"], T2: ["helper"]})


def a_table_that_was_read_moves(engines: Engines) -> list[str]:
    dead = _combining(engines)
    leave_applied(dead, engines(), row(dead, T2, "left", reads=[T1]))
    _helped_by(engines, _combining(engines))
    recovered(engines())
    return wrong(engines(), {T1: ["mine"], T2: []})


def a_plan_that_was_aborted(engines: Engines) -> list[str]:
    """By a recovery that had looked at its tables before they changed, and so put none back: no pin tells of it."""
    dead, third = _combining(engines), engines()
    leave_applied(dead, third, row(dead, T2, "left"))
    [intent] = [third.intents.read(op) for op, _ in third.intents.names()]
    assert intent is not None and intent.plan is not None
    made = intent.plan

    def give_up(held: Held) -> Swap | Answer[None]:
        given_up = held.state.in_tail(made.id) is not None
        return Answer(None) if given_up else Swap(abort_change(made, held.state, {}, None, 1), {})

    advance(third, MAIN, give_up, Terms(RECOVERY), meter=Meter())
    _helped_by(engines, _combining(engines))
    Graph(engines()).recover(grace_s=0)
    return wrong(engines(), {T1: ["mine"], T2: []})


def one_key_in_two_processes(engines: Engines) -> list[str]:
    dead, mine = _combining(engines), _combining(engines)
    leave_applied(dead, engines(), row(dead, T2, "left", idempotency_key="k"))
    with losing(mine, engines()):
        append(mine, [T1], ["mine"], idempotency_key="k")
    recovered(engines())
    return wrong(engines(), {T1: ["mine"], T2: []})


def a_fork_meets_a_lost_swap(engines: Engines) -> list[str]:
    dead = _combining(engines)
    give_away(dead, [T2])
    leave_applied(dead, engines(), row(dead, T2, "left"))
    _helped_by(engines, _combining(engines))
    recovered(engines())
    return [*_alone(engines(), table=T2), *wrong(engines(), {T1: ["mine"], T2: ["left"]})]


def an_undo_meets_a_lost_swap(engines: Engines) -> list[str]:
    """It takes a version from elsewhere, which a cleanup may be deleting: only its owner and recovery look there."""
    dead = _combining(engines)
    bad = append(dead, [T2], ["bad"]).row
    assert bad is not None
    leave_applied(dead, engines(), lambda: Graph(dead).revert(bad.commit_id))
    _helped_by(engines, _combining(engines))
    recovered(engines())
    return [*_alone(engines(), table=T2), *wrong(engines(), {T1: ["mine"], T2: []})]


def a_plan_of_another_branch(engines: Engines) -> list[str]:
    dead = _combining(engines)
    Graph(dead).branches.create(SIDE)
    append(dead, [T2], ["own line"], branch=SIDE)
    leave_applied(dead, engines(), row(dead, T2, "left", branch=SIDE), dead.line_of(SIDE))
    _helped_by(engines, _combining(engines))
    recovered(engines())
    return wrong(engines(), {T1: ["mine"], T2: []})


def a_carried_request_was_withdrawn(engines: Engines) -> list[str]:
    """The writer that carries it has died, and its owner was told that it cannot land any more."""
    front, third = offering_engine(engines().uri), engines()
    front.combine = True
    op, made = leave_offer(front, T2, ["guest"], mode="append")
    offered = front.intents.read(op)
    assert offered is not None
    with failpoints.recording() as seen:
        leave_applied(
            front,
            third,
            lambda: carry_out(front, [offered], adding(front, "left", type_name="T2", mode="append")),
        )
    found = [] if "combine.after_applied" in [name for name, _ in seen] else ["the plan that carries is not applied"]
    withdraw(third, MAIN, op, made, actor=None, meter=Meter())
    _helped_by(engines, _combining(engines))
    recovered(engines())
    return [*found, *wrong(engines(), {T1: ["mine"], T2: []})]


def what_is_applied_is_on_disk(engines: Engines) -> list[str]:
    owner = _combining(engines)
    with failpoints.recording() as seen, losing(owner, engines()):
        append(owner, [T1], ["owner"])
    names = [name for name, _ in seen]
    said = names.index("combine.before_applied")
    landed = names.index("apply.after_commit")
    found = [] if "store.sync" in names[landed:said] else ["a plan is called applied before its files are synced"]
    return found + wrong(engines(), {T1: ["owner"]})


def saying_so_takes_long(engines: Engines) -> list[str]:
    """The plan has no end, and so no deleted file, while its file is being written."""
    owner, over = _combining(engines), threading.Event()
    with failpoints.armed("combine.before_applied", lambda **_: over.wait(0.5)), losing(owner, engines()):
        append(owner, [T1], ["owner"])
    over.set()
    owner.close()
    return wrong(engines(), {T1: ["owner"]})


# --- defects --------------------------------------------------------------------------------------------------------------


def lenient(check: Check) -> Plant:
    """Who takes plans along overlooks one check."""

    def judged(*args: Any, **facts: Any) -> PublishCheck:
        verdict = decide.check_publish(*args, **facts)
        return PublishCheck(Check.GO) if verdict.check is check else verdict

    return lambda patch: patch.setattr(applied_plans, "check_publish", judged)


def taking_pins_as_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(applied_plans, "_registered_otherwise", lambda *_: False)


def combining_everything(patch: pytest.MonkeyPatch) -> None:
    def anything(plan: PublishPlan) -> bool:
        return bool(plan.requests)

    patch.setattr(applied_plans, "may_combine", anything)
    patch.setattr(combine, "may_combine", anything)
    taking_pins_as_they_are(patch)


def combining_all_branches(patch: pytest.MonkeyPatch) -> None:
    lenient(Check.BRANCH_GONE)(patch)
    taking_pins_as_they_are(patch)


def saying_so_before_the_swap(patch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Combining] = Arming.rivals

    def rivals(*args: Any) -> Combining:
        found = real(*args)
        found.lost_swap()
        found.settle()
        return found

    patch.setattr(Arming, "rivals", rivals)


def not_waiting_for_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Combining, "newest", lambda self, branch: self._engine.latest(branch, self._meter))
    patch.setattr(Combining, "settle", lambda self: None)


def saying_so_because_it_is_crowded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arming, "joins", combine.may_join)


DEFECTS = {
    "a helped plan's own record is not looked for": Defect(an_owner_is_helped, passing(Check.PUBLISHED)),
    "a plan comes along whose read table has moved": Defect(a_table_that_was_read_moves, lenient(Check.READ_MOVED)),
    "a plan comes along that was aborted": Defect(
        a_plan_that_was_aborted, setting(applied_plans, "_lineage_in_tail", lambda *_: Lineage())
    ),
    "a plan comes along whose key is taken": Defect(one_key_in_two_processes, lenient(Check.KEY_TAKEN)),
    "a plan comes along that carries what was withdrawn": Defect(
        a_carried_request_was_withdrawn, lenient(Check.CARRIED_ENDED)
    ),
    "a fork comes along": Defect(a_fork_meets_a_lost_swap, combining_everything),
    "a plan with sources comes along": Defect(an_undo_meets_a_lost_swap, combining_everything),
    "a plan of another branch comes along": Defect(a_plan_of_another_branch, combining_all_branches),
    "applied before the owner's sync": Defect(what_is_applied_is_on_disk, saying_so_before_the_swap),
    "a crowded writer on a disk says applied before its sync": Defect(
        what_is_applied_is_on_disk, saying_so_because_it_is_crowded
    ),
    "an intent is written after its plan has ended": Defect(saying_so_takes_long, not_waiting_for_it),
}
