"""Writers of different tables that share a swap: who helps, who is helped, and what each of them is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import decode, encode_plan
from omnigraph.commit.intent_format import APPLIED, ARMED
from omnigraph.commit.queue.timing import WAITS_MAX
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core import failpoints
from omnigraph.core.clock import SystemClock
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.durable import Durability
from omnigraph.store import open_store
from omnigraph.testing.combining import before_swaps, bump, leave_applied, losing, row, when_applied
from omnigraph.testing.content import commits_of, faults_of
from omnigraph.testing.offering import adding, offering_engine, queued
from omnigraph.testing.operations import append, create, keys_of
from omnigraph.wire.receipt import Receipt
from tests.component.planted.scenes import cut, rows

T1, T2, T3, T4 = keys_of(4)


@pytest.fixture
def three(tmp_path: Path) -> list[Engine]:
    """Engines of one graph that combine; each stands for a process of its own."""
    create(str(tmp_path / "g"))
    engines = [Engine(open_store(str(tmp_path / "g")), combine=True, durability=Durability.COMMIT) for _ in range(3)]
    for engine in engines:
        engine.latest(MAIN)
    return engines


def swaps(engine: Engine) -> int:
    return engine.latest(MAIN).version


def test_a_lost_swap_makes_the_plan_known_and_a_rival_publishes_it_with_its_own(three: list[Engine]) -> None:
    owner, helper, other = three
    seen = []

    def help_it() -> None:
        [(op, _)] = owner.intents.names()
        found = owner.intents.read(op)
        assert found is not None and (found.state, found.durable) == (APPLIED, True)
        before = swaps(other)
        with losing(helper, other):
            seen.append(append(helper, [T2], ["helper"]))
        assert swaps(other) == before + 2  # the one that helper lost, and one for both

    with losing(owner, other), when_applied(owner, help_it):
        mine = append(owner, [T1], ["mine"], idempotency_key="k")
    [theirs] = seen
    assert mine.row is not None and theirs.row is not None
    assert mine.row.manifest_version == theirs.row.manifest_version
    assert mine.row.tables[T1].inserted == 1
    assert (mine.grouped_with, theirs.grouped_with) == ((theirs.row.commit_id,), (mine.row.commit_id,))
    assert [one.commit_id for one in commits_of(other)[1:]] == [theirs.row.commit_id, mine.row.commit_id]
    assert faults_of(other) == []


def test_an_applied_plan_of_a_dead_owner_is_published_by_whoever_swaps_next_after_a_lost_one(
    three: list[Engine],
) -> None:
    dead, mine, other = three
    leave_applied(dead, other, row(dead, T1, "left", actor="ada"))
    append(mine, [T2], ["uncontended"])
    assert mine.latest(MAIN).state.tables[T1].rows == 0  # who loses no swap looks at nobody
    with losing(mine, other):
        append(mine, [T2], ["helps"])
    rows = commits_of(other)
    assert [(one.actor, sorted(one.tables)) for one in rows[-2:]] == [("writer", [T2]), ("ada", [T1])]
    assert rows[-1].recovered_by is None and rows[-1].tables[T1].inserted == 1
    recover_all(other, meter=Meter(), beyond_grace=True)  # clears its file
    assert faults_of(other) == []


def test_a_plan_that_carries_out_offers_is_taken_along_like_any_other(three: list[Engine]) -> None:
    """It would lose its swaps to writers of other tables otherwise, which take each other along, and every writer that it carries would
    wait for that."""
    helper, third, _ = three
    front, behind = offering_engine(third.uri), offering_engine(third.uri)
    front.combine = True

    def help_it(**_: object) -> None:
        with losing(helper, third):
            append(helper, [T2], ["helper"])

    with losing(front, third), failpoints.armed("combine.after_applied", help_it), queued(front, [T1]) as queue:
        ended = [queue.start(adding(front, "front")), queue.start(adding(behind, "behind"))]
    assert [one.error for one in ended] == [None, None]
    made = commits_of(third)[-3:]
    assert len({row.version for row in made}) == 1 and len({row.plan for row in made}) == 2
    assert {row.commit_id for row in made} >= {one.value.commit_id for one in ended if one.value is not None}
    assert faults_of(third) == []
    assert (sorted(rows(third, T1)), rows(third, T2)) == (["behind", "front"], ["helper"])


def test_recovery_publishes_an_applied_plan_at_once_and_syncs_nothing_for_it(three: list[Engine]) -> None:
    dead, mine, other = three
    leave_applied(dead, other, row(dead, T1, "left"))
    synced: list[str] = []
    mine.durable.everything = lambda: synced.append("all")  # type: ignore[method-assign]
    mine.durable.before_rolling_forward(applied=True)
    assert synced == []
    recover_all(mine, meter=Meter())
    assert mine.latest(MAIN).state.tables[T1].rows == 1
    assert faults_of(other) == []


def test_without_the_switch_nothing_is_said_and_nothing_is_taken_along(three: list[Engine]) -> None:
    dead, mine, other = three
    leave_applied(dead, other, row(dead, T1, "left"))
    mine.combine = False
    states = []

    def look() -> None:
        found = [other.intents.read(op) for op, _ in other.intents.names()]
        states.append({one.state for one in found if one is not None})
        bump(other)

    with before_swaps(mine, look, look):
        append(mine, [T2], ["mine"])
    assert states == [{APPLIED, ARMED}, {APPLIED, ARMED}]
    assert mine.latest(MAIN).state.tables[T1].rows == 0


def test_a_write_that_asks_to_be_alone_in_its_swap_is_not_known_as_applied_and_takes_no_plan_along(
    three: list[Engine],
) -> None:
    """By the call; by the handle, unless the call says otherwise."""
    left, mine, other = three
    leave_applied(left, other, row(left, T1, "left"))
    for handle, call, alone in ((True, False, True), (False, None, True), (False, True, False)):
        mine.groups = handle
        told: list[str] = []
        with losing(mine, other), when_applied(mine, lambda told=told: told.append("applied")):  # type: ignore[misc]
            receipt = Graph(mine).load(people("T2", f"{handle}-{call}"), mode="append", group=call)
        assert (told == [], receipt.grouped_with == ()) == (alone, alone)
    recover_all(other, meter=Meter(), beyond_grace=True)
    assert faults_of(other) == []


def test_a_writer_that_syncs_nothing_does_not_say_applied_and_helps_nobody(tmp_path: Path) -> None:
    create(str(tmp_path / "g"))
    relaxed = Engine(open_store(str(tmp_path / "g")), combine=True, durability=Durability.RELAXED)
    other = Engine(open_store(str(tmp_path / "g")))
    told = []
    with losing(relaxed, other), when_applied(relaxed, lambda: told.append("applied")):
        append(relaxed, [T1], ["mine"])
    assert told == [] and faults_of(other) == []


def test_a_lost_swap_does_not_make_writers_of_other_tables_queue(three: list[Engine]) -> None:
    mine, other, _ = three
    with before_swaps(mine, *[lambda: bump(other)] * 6):
        append(mine, [T1], ["mine"])  # out of attempts once: given up, and made again
    assert not mine.timing.contended
    assert mine.latest(MAIN).state.tables[T1].rows == 1
    assert faults_of(other) == []


def test_an_intent_that_does_not_read_is_passed_over(three: list[Engine]) -> None:
    dead, mine, other = three
    leave_applied(dead, other, row(dead, T1, "left"))
    [(op, _)] = other.intents.names()
    data = other.intents.glance(op)
    assert data is not None
    other.intents.rewrite(op, data[: len(data) // 2])
    with losing(mine, other):
        append(mine, [T2], ["mine"])
    state = mine.latest(MAIN).state
    assert (state.tables[T1].rows, state.tables[T2].rows) == (0, 1)


def test_a_plan_whose_transaction_is_not_at_its_place_is_not_taken_along(three: list[Engine]) -> None:
    """What its intent says is held against the table once more: the counts are read from there anyway."""
    dead, mine, other = three
    leave_applied(dead, other, row(dead, T1, "left"))
    [(op, _)] = other.intents.names()
    data = other.intents.glance(op)
    assert data is not None
    intent = decode(op, data)
    assert intent.plan is not None and intent.applied is not None
    [effect] = intent.plan.effects
    assert effect.target is not None
    wrong = replace(effect, target=replace(effect.target, uuid="0000"))
    other.intents.rewrite(op, encode_plan(replace(intent.plan, effects=(wrong,)), applied=intent.applied))
    with losing(mine, other):
        append(mine, [T2], ["mine"])
    assert mine.latest(MAIN).state.tables[T1].rows == 0


def test_the_pause_after_a_lost_swap_is_a_quarter_of_an_uncontended_commit(three: list[Engine]) -> None:
    timing = three[0].timing
    for _ in range(60):
        timing.note_commit(0.4)
        timing.note_commit(30.0, lost=True)
    assert max(timing.rejoin_s(2) for _ in range(200)) <= 0.1
    assert 0.1 < max(timing.rejoin_s(6) for _ in range(200)) <= 0.5


# --- whose turn it is -----------------------------------------------------------------------------------------------------


class Counted:
    """An engine's calls that cost requests, as the publish of one write makes them."""

    def __init__(self, engine: Engine, patch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        self.slept: list[float] = []
        self.swaps = 0
        read, swap = engine.intents.read, engine.manifest.swap

        def counted_read(op: str, *args: Any) -> Any:
            self.read.append(op)
            return read(op, *args)

        def counted_swap(*args: Any, **facts: Any) -> Any:
            self.swaps += 1
            return swap(*args, **facts)

        patch.setattr(engine.intents, "read", counted_read)
        patch.setattr(engine.manifest, "swap", counted_swap)
        patch.setattr(engine, "clock", SleepsNot(self.slept))


class SleepsNot(SystemClock):
    """The system's clock, on which every pause is over at once. ``then``: called in the pause."""

    def __init__(self, slept: list[float]) -> None:
        self._slept = slept
        self.then: list[Callable[[], object]] = []

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._slept.append(seconds)
            if self.then:
                self.then.pop(0)()


def test_a_writer_behind_older_plans_pauses_and_reads_none_of_them_where_it_is_taken_along(
    three: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    older, mine, other = three
    leave_applied(older, other, row(older, T2, "older"))
    counted = Counted(mine, monkeypatch)

    def helped() -> None:
        with losing(other, older):
            append(other, [T3], ["helps"])

    other.combine = True
    assert isinstance(mine.clock, SleepsNot)
    mine.clock.then.append(helped)
    with losing(mine, older):
        outcome = append(mine, [T1], ["mine"])
    assert (len(counted.slept), counted.read, counted.swaps) == (1, [], 1)
    assert outcome.row is not None and len(outcome.swap) == 3
    recover_all(older, meter=Meter(), beyond_grace=True)
    assert faults_of(older) == []


def test_who_is_not_taken_along_goes_on_after_so_many_pauses_whoever_is_ahead(
    three: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, mine, other = three
    leave_applied(dead, other, row(dead, T2, "left"))
    counted = Counted(mine, monkeypatch)
    with losing(mine, other):
        append(mine, [T1], ["mine"])
    assert (len(counted.slept), counted.swaps) == (WAITS_MAX, 2)
    state = mine.latest(MAIN).state
    assert (state.tables[T1].rows, state.tables[T2].rows) == (1, 1)
    with losing(mine, other):
        append(mine, [T1], ["again"])  # a plan that was read and has ended is not waited for
    assert (len(counted.slept), len(counted.read)) == (WAITS_MAX, 1)


def test_the_oldest_goes_on_at_once(three: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    mine, younger, other = three
    counted = Counted(mine, monkeypatch)

    def arrives() -> None:
        leave_applied(younger, other, row(younger, T2, "younger"))

    with losing(mine, other), when_applied(mine, arrives):
        append(mine, [T1], ["mine"])
    assert counted.slept == [] and counted.swaps == 2
    recover_all(other, meter=Meter(), beyond_grace=True)
    assert faults_of(other) == []


def crowded(root: str, count: int) -> list[Engine]:
    create(root)
    engines = [Engine(open_store(root), combine=True) for _ in range(count)]
    for engine in engines:
        engine.latest(MAIN)
        append(engine, [T4], [str(id(engine))])
        engine.timing.note_crowd()
    return engines


def test_a_writer_that_expects_to_lose_says_that_it_is_applied_before_its_first_swap(
    s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, mine, other = crowded(s3_root, 3)
    leave_applied(dead, other, row(dead, T2, "left"))
    counted, told = Counted(mine, monkeypatch), []
    with when_applied(mine, lambda: told.append(counted.swaps)):
        outcome = append(mine, [T1], ["mine"])
    assert (told, counted.swaps) == ([0], 1)
    assert len(outcome.swap) == 2 and mine.timing.crowded
    recover_all(other, meter=Meter(), beyond_grace=True)
    assert faults_of(other) == []


def test_a_writer_that_meets_nobody_writes_as_before(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = crowded(s3_root, 2)
    said: list[str] = []
    append(mine, [T1], ["first"])
    assert not mine.timing.crowded
    with when_applied(mine, lambda: said.append("applied")):
        append(mine, [T1], ["second"])
    assert said == [] and faults_of(other) == []


def test_an_intent_that_stays_behind_keeps_nobody_crowded(s3_root: str) -> None:
    mine, dead, other = crowded(s3_root, 3)
    cut(dead, "armed")
    append(mine, [T1], ["first"])
    assert mine.timing.crowded  # it might have been of a living one
    mine.timing.note_crowd()
    append(mine, [T1], ["second"])
    assert not mine.timing.crowded
    recover_all(other, meter=Meter(), beyond_grace=True)
    assert faults_of(other) == []


def test_on_a_local_disk_nothing_is_said_before_a_swap_has_synced_it(three: list[Engine]) -> None:
    mine, _, other = three
    mine.timing.note_crowd()
    said: list[str] = []
    with when_applied(mine, lambda: said.append("applied")):
        append(mine, [T1], ["mine"])
    assert said == [] and faults_of(other) == []


def test_an_uncontended_write_makes_the_same_requests_with_the_switches(any_root: str) -> None:
    found = []
    og.init(any_root, "node T { name: String @key }", durability="commit").close()
    for shares in (False, True):
        with og.open(any_root, durability="commit", commit={"combine": shares, "offers": shares}) as graph:
            graph.load([{"type": "T", "data": {"name": f"first-{shares}"}}], mode="append")
            receipt = graph.load([{"type": "T", "data": {"name": f"second-{shares}"}}], mode="append")
            found.append((receipt.storage.hops, receipt.storage.by_class))
    assert found[0] == found[1]


def test_the_commits_of_a_shared_swap_are_told_and_taken_back_apart(three: list[Engine]) -> None:
    owner, helper, other = three
    helped: list[Receipt] = []

    def help_it() -> None:
        with losing(helper, other):
            helped.append(Graph(helper).load(people("T2", "hers"), mode="merge", actor="ada"))

    Graph(owner).load(people("T1", "old"), mode="merge")
    with losing(owner, other), when_applied(owner, help_it):
        his = Graph(owner).load(people("T1", "old", "his"), mode="merge", actor="bob", idempotency_key="k")
    [hers] = helped
    assert (his.tables[T1].inserted, his.tables[T1].unchanged) == (1, 1)
    assert (his.grouped_with, hers.grouped_with) == ((hers.commit_id,), (his.commit_id,))
    graph = Graph(other)
    assert [one.actor for one in graph.commits(limit=2)] == ["bob", "ada"]
    assert graph.load(people("T1", "old", "his"), mode="merge", actor="bob", idempotency_key="k").replayed
    graph.revert(str(his.commit_id))
    assert [graph.snapshot().count(name) for name in ("T1", "T2")] == [1, 1]
    assert faults_of(other) == []


def people(type_name: str, *names: str) -> list[dict[str, Any]]:
    return [{"type": type_name, "data": {"name": name}} for name in names]
