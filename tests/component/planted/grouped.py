"""Requests that share a plan: what a group may not do to one of them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from omnigraph.commit import decide, maintain
from omnigraph.commit.decide import End, Lineage
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.upkeep_steps import UpkeepLine
from omnigraph.core import failpoints
from omnigraph.core.errors import IdempotencyMismatch, OmnigraphError, OutcomeUnknown
from omnigraph.graph import Graph
from omnigraph.manifest import state
from omnigraph.manifest.rows import AbortRow, CommitRow
from omnigraph.options import LoadOptions
from omnigraph.testing.effect_operations import give_away
from omnigraph.testing.grouping import Held, held_back
from omnigraph.testing.operations import append
from omnigraph.wire.receipt import Receipt
from omnigraph.write.group import front, plan, queue
from omnigraph.write.group.member import Member, Stage
from omnigraph.write.group.queue import GroupQueue
from omnigraph.write.load import load
from tests.component.planted.scenes import ONE, TWO, Defect, Engines, wrong

WAIT_S = 60.0  # for another thread; what it waits for takes milliseconds


def _load(engine: Engine, name: str, *, table: str = "T1", mode: str = "merge", **options: Any) -> Any:
    record = {"type": table, "data": {"name": name, "n": 1}}
    return lambda: load(engine, [record], LoadOptions(mode=mode, **options))


def _receipt(held: Held[Receipt], number: int) -> Receipt:
    ended = held.ended[number]
    if ended.error is not None:
        raise ended.error
    assert ended.value is not None
    return ended.value


def told_unknown_and_aborted(engines: Engines) -> list[str]:
    """A caller is answered before its plan is aborted. It may repeat its request, so that must not land by itself."""
    engine, rival = engines(), engines()
    with held_back(engine) as held:
        held.start(_load(engine, "told", deadline_s=0.5))
        held.start(_load(engine, "other"))

        def stall(**_: Any) -> None:
            held._threads[0].join()
            append(rival, ONE, ["rival"])

        failpoints.arm("apply.before_commit", stall)
    _receipt(held, 1)
    if not isinstance(held.ended[0].error, OutcomeUnknown):
        return [f"the caller was told {held.ended[0]}"]
    return wrong(engines(), {ONE[0]: ["other", "rival"]})


def left_before_it_was_armed(engines: Engines) -> list[str]:
    """A caller leaves while its plan is made: it is told that nothing was written."""
    engine = engines()
    live, waited = GroupQueue.live, []
    with held_back(engine) as held:
        held.start(_load(engine, "late", deadline_s=0.5))
        held.start(_load(engine, "other"))

        def take(mine: GroupQueue, members: Any) -> Any:
            found = live(mine, members)
            if not waited:
                waited.append(found)
                held._threads[0].join()
            return found

        with mock.patch.object(GroupQueue, "live", take):
            front.queue_of(engine, MAIN).pass_on()
            held.join()
            front.queue_of(engine, MAIN)._led = True
    _receipt(held, 1)
    return wrong(engines(), {ONE[0]: ["other"]})


def one_key_in_two_members(engines: Engines) -> list[str]:
    engine = engines()
    with held_back(engine) as held:
        held.start(_load(engine, "a", idempotency_key="k"))
        held.start(_load(engine, "b", idempotency_key="k"))
    _receipt(held, 0)
    found = wrong(engines(), {ONE[0]: ["a"]})
    return found if isinstance(held.ended[1].error, IdempotencyMismatch) else [*found, f"told {held.ended[1]}"]


def a_head_in_second_place(engines: Engines) -> list[str]:
    engine = engines()
    head = engine.latest(MAIN).state.head.commit_id
    with held_back(engine) as held:
        held.start(_load(engine, "first"))
        held.start(_load(engine, "second", table="T2", expect_head=head))
    _receipt(held, 0)
    return wrong(engines(), {ONE[0]: ["first"], TWO[1]: []})


def a_bad_member_among_good_ones(engines: Engines) -> list[str]:
    engine = engines()
    append(engine, ONE, ["there"])
    with held_back(engine) as held:
        held.start(_load(engine, "good", mode="append"))
        held.start(_load(engine, "there", mode="append"))
        held.start(_load(engine, "fine", table="T2", mode="append"))
    _receipt(held, 0), _receipt(held, 2)
    if not isinstance(held.ended[1].error, OmnigraphError):
        return [f"a taken key was not refused: {held.ended[1]}"]
    return wrong(engines(), {ONE[0]: ["there", "good"], TWO[1]: ["fine"]})


def an_inherited_table(engines: Engines) -> list[str]:
    """A fork is alone in its plan."""
    engine = engines()
    give_away(engine, ONE)
    with held_back(engine) as held:
        held.start(_load(engine, "forks"))
        held.start(_load(engine, "other", table="T2"))
        held.start(_load(engine, "third", table="T2"))
    receipts = [_receipt(held, number) for number in range(3)]
    found = wrong(engines(), {ONE[0]: ["forks"], TWO[1]: ["other", "third"]})
    if receipts[0].grouped_with:
        found.append("a fork shares its swap")
    return found


def the_leader_is_interrupted(engines: Engines) -> list[str]:
    engine = engines()
    runs_on: list[int | None] = []
    with held_back(engine) as held:
        held.start(_load(engine, "leader"))
        held.start(_load(engine, "other"))
        failpoints.arm("apply.before_commit", lambda **_: runs_on.append(threading.get_ident()))
    _receipt(held, 1)
    if runs_on[0] in [thread.ident for thread in held._threads]:
        return ["the work of a group runs where one of its callers may be interrupted"]
    return wrong(engines(), {ONE[0]: ["leader", "other"]})


def a_record_of_one_member(engines: Engines) -> list[str]:
    """A lineage that has one member's commit and not the other's is damage, and is called so."""
    engine = engines()
    seen: list[PublishPlan] = []
    with held_back(engine) as held:
        held.start(_load(engine, "a"))
        held.start(_load(engine, "b"))
        with mock.patch.object(plan.Group, "_seal", _noting(seen)):
            front.queue_of(engine, MAIN).pass_on()
            held.join()
            front.queue_of(engine, MAIN)._led = True
    [made] = seen
    committed = next(row for row in engine.latest(MAIN).state.tail if row.object_id == made.members[0])
    mixed = {
        made.members[0]: committed,
        made.members[1]: AbortRow(made.members[1], made.id, None, made.base.manifest_version, 0),
    }
    own = {made.id: AbortRow(made.id, made.id, None, made.base.manifest_version, 0)}
    found = []
    if decide.how_ended(made, Lineage(mixed)) is not End.MIXED:
        found.append("an abort beside a commit of the same plan is not seen")
    if decide.how_ended(made, Lineage({made.members[0]: committed})) is not End.MIXED:
        found.append("one commit of two is not seen")
    if decide.how_ended(made, Lineage(own)) is not End.ABORTED:
        found.append("the abort of the plan is not seen")
    return found


LINKED = (
    "node T1 { name: String @key n: I32? }\nnode T2 { name: String @key n: I32? }\nedge Likes: T1 -> T1 { n: String }\n"
)


def an_edge_to_a_node_of_a_refused_member(engines: Engines) -> list[str]:
    """The node does not come, so the edge may not either."""
    engine = engines()
    Graph(engine).schema.apply(LINKED)
    append(engine, ONE, ["there"])

    def nodes() -> Receipt:
        records = [{"type": "T1", "data": {"name": name, "n": 1}} for name in ("new", "there")]
        return load(engine, records, LoadOptions(mode="append"))

    def edge() -> Receipt:
        record = {"edge": "Likes", "from": "there", "to": "new", "data": {"n": "e"}}
        return load(engine, [record], LoadOptions(mode="append"))

    with held_back(engine) as held:
        held.start(nodes)
        held.start(edge)
        held.start(_load(engine, "fine", table="T2", mode="append"))
    _receipt(held, 2)
    found = wrong(engines(), {ONE[0]: ["there"], TWO[1]: ["fine"]})
    if engine.latest(MAIN).state.tables["edge:Likes"].rows:
        found.append("an edge is visible whose node's member was refused")
    return found + [f"member {at} was told {held.ended[at]}" for at in (0, 1) if held.ended[at].error is None]


def the_tail_rolls_within_a_group(engines: Engines) -> list[str]:
    """Who asks for one member of an old swap has to be told of all."""
    engine = engines()
    with mock.patch.multiple(state, TAIL_ROLL=6, TAIL_KEEP=3):
        append(engine, ONE, ["before"])
        with held_back(engine) as held:
            for name in ("a", "b", "c"):
                held.start(_load(engine, name))
        for name in ("after", "later"):
            append(engine, ONE, [name])
    ids = [_receipt(held, number).commit_id for number in range(3)]
    cold = engines()
    newest = cold.latest(MAIN)
    found = wrong(cold, {ONE[0]: ["before", "a", "b", "c", "after", "later"]})
    for one in ids:
        assert one is not None
        row = cold.history.find(newest, one)
        company = cold.history.swap_of(newest, row) if isinstance(row, CommitRow) else ()
        if company != tuple(ids):
            found.append(f"{one} shares its swap with {company}, not with {ids}")
    return found


def a_group_beside_a_compactor(engines: Engines) -> list[str]:
    """The rows of a group stand between the pin and what a compactor has made of both. They are published by the group, or not at all."""
    engine, keeper = engines(), engines()
    for name in ("a", "b"):
        append(engine, ONE, [name])
    landed, compacted = threading.Event(), threading.Event()
    group: list[Held[Receipt]] = []

    def waits(**_: Any) -> None:
        landed.set()
        compacted.wait(WAIT_S)

    def begins(**_: Any) -> None:
        group.append(Held(front.queue_of(engine, MAIN)))
        front.queue_of(engine, MAIN)._led = True
        for name in ("c", "d"):
            group[0].start(_load(engine, name, mode="append"))
        with failpoints.armed("publish.before_swap", waits):
            front.queue_of(engine, MAIN).pass_on()
            landed.wait(WAIT_S)

    publish = maintain._publish

    def published(*args: Any) -> Any:
        try:
            return publish(*args)
        finally:
            compacted.set()

    with failpoints.armed("maintain.armed", begins), mock.patch.object(maintain, "_publish", published):
        Graph(keeper).optimize(types=["T1"])
    group[0].join()
    if not landed.is_set():
        return ["the group did not come in between"]
    for number in (0, 1):
        _receipt(group[0], number)
    return wrong(engines(), {ONE[0]: ["a", "b", "c", "d"]})


def _noting(seen: list[PublishPlan]) -> Any:
    seal = plan.Group._seal

    def noted(group: plan.Group, made: PublishPlan) -> bool:
        seen.append(made)
        return seal(group, made)

    return noted


# --- defects ------------------------------------------------------------------------------------------------------------


def planning_the_answered_again(patch: pytest.MonkeyPatch) -> None:
    def live(self: GroupQueue, members: Any) -> list[Member]:
        with self.lock:
            found = list(members)
            for member in found:
                member.stage = Stage.TAKEN
            return found

    patch.setattr(GroupQueue, "live", live)


def arming_the_gone(patch: pytest.MonkeyPatch) -> None:
    def seal(self: plan.Group, made: PublishPlan) -> bool:
        for member, info in zip(self._planned, made.requests, strict=True):
            if member.stage is not Stage.OVER:
                member.arm(info.id, made.op)
        return True

    patch.setattr(plan.Group, "_seal", seal)


def taking_everyone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue, "choose", lambda leader, waiting, tables_max: [leader, *waiting])


def refusing_all_together(patch: pytest.MonkeyPatch) -> None:
    from omnigraph.write.group import judging

    def all_or_nothing(candidates: Any, ask: Any) -> Any:
        error = ask([change for one in candidates for change in one.changes.values()][:1]).error()
        whole = ask(judging._rows(candidates))
        return [], [], dict.fromkeys((one.member for one in candidates), error or whole.error()), whole

    patch.setattr(judging, "_one_by_one", all_or_nothing)


def forking_in_company(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan.Group, "_inherits", lambda *_: False)


def running_on_the_leader(patch: pytest.MonkeyPatch) -> None:
    class Inline:
        def __init__(self, target: Any, args: Any = (), **_: Any) -> None:
            self._call = lambda: target(*args)

        def start(self) -> None:
            self._call()

    patch.setattr(front, "threading", SimpleNamespace(Thread=Inline))


def keeping_who_leans_on_the_refused(patch: pytest.MonkeyPatch) -> None:
    from omnigraph.write.group import judging

    def one_by_one(candidates: Any, ask: Any) -> Any:
        errors = {}
        for one in candidates:
            error = ask(list(one.changes.values())).error()
            if error is not None and not judging._leans_on_one_of(one, candidates):
                errors[one.member] = error
        sound = [one for one in candidates if one.member not in errors]
        return sound, [], errors, ask([])

    patch.setattr(judging, "_one_by_one", one_by_one)


def cutting_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state, "cut_of", lambda tail: len(tail) - state.TAIL_KEEP if len(tail) >= state.TAIL_ROLL else 0)


def counting_what_is_below_as_own(patch: pytest.MonkeyPatch) -> None:
    """A compactor that takes every version between the pin and its own last commit for its own, and does not look whose it is."""

    def send(self: UpkeepLine, commit: Any, versions: int) -> bool:
        top, landed = self.top, commit()
        self.own.update(range(top + 1, landed.version + 1))
        self.handle = landed
        return True

    patch.setattr(UpkeepLine, "send", send)


def looking_for_one_member(patch: pytest.MonkeyPatch) -> None:
    def how_ended(made: PublishPlan, lineage: Lineage) -> End:
        first = lineage.rows.get(made.members[0])
        return End.PUBLISHED if isinstance(first, CommitRow) else End.OPEN

    patch.setattr(decide, "how_ended", how_ended)


DEFECTS = {
    "a member that was answered is planned again": Defect(told_unknown_and_aborted, planning_the_answered_again),
    "a member that has left is armed": Defect(left_before_it_was_armed, arming_the_gone),
    "one key in two members": Defect(one_key_in_two_members, taking_everyone),
    "an expected head in second place": Defect(a_head_in_second_place, taking_everyone),
    "one bad member costs the others their commits": Defect(a_bad_member_among_good_ones, refusing_all_together),
    "a fork is taken into a group": Defect(an_inherited_table, forking_in_company),
    "a group runs on its leader's thread": Defect(the_leader_is_interrupted, running_on_the_leader),
    "an edge lands whose node's member was refused": Defect(
        an_edge_to_a_node_of_a_refused_member, keeping_who_leans_on_the_refused
    ),
    "a cut inside a group": Defect(the_tail_rolls_within_a_group, cutting_anywhere),
    "a fast-forward goes over the rows of a group": Defect(a_group_beside_a_compactor, counting_what_is_below_as_own),
    "one of several ids is looked for": Defect(a_record_of_one_member, looking_for_one_member),
}
