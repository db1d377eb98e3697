"""How writers that have met others queue: who waits for whom, for how long, and who is passed by. Speed and fairness only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Ticket, encode_ticket
from omnigraph.commit.plan import BranchName, Counts, Owner
from omnigraph.commit.protocol.run import run
from omnigraph.commit.queue import timing
from omnigraph.commit.queue.line import QueueLine
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.steps import AppendRows
from omnigraph.commit.txn import Txn
from omnigraph.core import failpoints
from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import OutcomeUnknown
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import commits_of, faults_of, history_of
from omnigraph.testing.operations import append, keys_of, rows_for

ONE, TWO = keys_of(1), keys_of(2)
ELSEWHERE = Owner("another-host", "another-boot", 7, 7)


def put_ticket(engine: Engine, owner: Owner, keys: list[str]) -> str:
    op = new_ulid(engine.clock)
    ticket = Ticket(
        engine.graph_id, op, "load", BranchName(MAIN, engine.graph_id), tuple((key, "") for key in keys), owner
    )
    engine.intents.arm(op, encode_ticket(ticket))
    return op


def pending(engine: Engine) -> list[str]:
    return [op for op, _ in engine.intents.names()]


def test_a_dead_owner_of_this_host_is_not_waited_for(engines: Callable[..., Engine]) -> None:
    clock = ManualClock()
    engine = engines(clock=clock)
    put_ticket(engine, replace(engine.owner, started=engine.owner.started + 1), ONE)
    engine.timing.note_contention()
    before = clock.monotonic()
    append(engine, ONE, ["a"])
    assert clock.monotonic() - before < 1.0
    assert pending(engine) == [] and faults_of(engine) == []


def test_a_row_of_owners_that_nobody_knows_to_be_dead_costs_one_grace_and_not_one_each(
    engines: Callable[..., Engine],
) -> None:
    clock = ManualClock()
    engine = engines(clock=clock)
    for _ in range(6):
        put_ticket(engine, ELSEWHERE, ONE)
    engine.timing.note_contention()
    before = clock.monotonic()
    append(engine, ONE, ["a"], deadline_s=600)
    waited = clock.monotonic() - before
    grace = timing.GRACE_MIN_S
    assert grace <= waited < 2 * grace, "not six graces"
    assert pending(engine) == [] and faults_of(engine) == []


def test_tickets_of_other_tables_are_not_waited_for(engines: Callable[..., Engine]) -> None:
    clock = ManualClock()
    engine = engines(clock=clock)
    other = put_ticket(engine, ELSEWHERE, TWO[1:])
    engine.timing.note_contention()
    before = clock.monotonic()
    append(engine, ONE, ["a"])
    assert clock.monotonic() - before < 1.0
    assert pending(engine) == [other]


def test_a_row_that_somebody_else_ended_after_a_silence_makes_the_next_grace_short() -> None:
    clock = ManualClock()
    mine = timing.ContentionTiming(clock)
    watch = timing.FrontWatch(mine, clock)
    assert not watch.beyond_grace("first", "1")
    clock.sleep(0.6 * mine.grace_s)
    assert not watch.beyond_grace("first", "1")
    watch.front_moved()
    assert mine.aware
    later = timing.FrontWatch(mine, clock)  # of the next write of this process
    assert not later.beyond_grace("second", "1")
    clock.sleep(1.01 * timing.AWARE_GRACE * mine.grace_s)
    assert later.beyond_grace("second", "1"), "who kills one process often kills more"
    clock.sleep(timing.AWARE_GRACES * mine.grace_s)
    assert not mine.aware, "and forgets it"


def test_a_front_that_moves_by_itself_teaches_nothing() -> None:
    clock = ManualClock()
    mine = timing.ContentionTiming(clock)
    watch = timing.FrontWatch(mine, clock)
    watch.beyond_grace("first", "1")
    clock.sleep(0.4 * mine.grace_s)
    watch.beyond_grace("first", "2")  # it has shown that it lives
    clock.sleep(0.4 * mine.grace_s)
    watch.front_moved()
    assert not mine.aware


def test_a_waiter_reads_the_nearest_ticket_that_is_in_its_way_and_no_other(
    engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    engine = engines(clock=clock)
    front = put_ticket(engine, ELSEWHERE, ONE)
    row = [put_ticket(engine, ELSEWHERE, ONE) for _ in range(5)]
    apart = put_ticket(engine, ELSEWHERE, TWO[1:])
    read: list[str] = []
    fetch = engine.intents.read
    monkeypatch.setattr(engine.intents, "read", lambda op, meter=None: read.append(op) or fetch(op, meter))
    looks = 0

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            for op in (front, *row):
                engine.intents.disarm(op)

    monkeypatch.setattr(clock, "sleep", sleep)
    engine.timing.note_contention()
    append(engine, ONE, ["a"])
    assert read == [apart, row[-1]]
    assert pending(engine) == [apart]


def test_what_the_plan_before_leaves_behind_is_open_before_the_state_says_so(
    engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = engines(), engines()
    for engine in (first, second):
        engine.timing.note_contention()
    behind, there = threading.Event(), threading.Event()
    glance = second.intents.glance

    def looked(op: str, meter: Meter | None = None) -> bytes | None:
        found = glance(op, meter)
        if found is not None and b'"armed"' in found:
            there.set()
        return found

    monkeypatch.setattr(second.intents, "glance", looked)
    opened_at: list[tuple[str, int]] = []
    quietly = QueueLine._open_quietly

    def noted(self: QueueLine, ref: TableRef, version: int) -> None:
        opened_at.append((ref.location, version))
        quietly(self, ref, version)

    monkeypatch.setattr(QueueLine, "_open_quietly", noted)

    def prepare(txn: Txn) -> Prepared:
        behind.set()
        rows = rows_for(txn, ONE[0], ["first"])
        return Prepared((AppendRows(ONE[0], (Counts(inserted=1),), rows),))

    swap = first.manifest.swap

    def swapped(*args: object, **kwargs: object) -> object:
        assert there.wait(60), "the one behind never saw the plan"
        return swap(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(first.manifest, "swap", swapped)
    one = threading.Thread(target=lambda: run(first, Request("load", MAIN, frozenset(ONE), "first"), prepare, Meter()))
    two = threading.Thread(target=lambda: append(second, ONE, ["second"], actor="second"))
    one.start()
    assert behind.wait(60)
    two.start()
    for thread in (one, two):
        thread.join(60)
        assert not thread.is_alive()
    pin = first.latest(MAIN).state.tables[ONE[0]]
    assert opened_at == [(pin.location, pin.version - 1)]
    assert faults_of(first) == []


def test_a_writer_that_met_nobody_never_lists(engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines()
    listed: list[object] = []
    names = engine.intents.names
    monkeypatch.setattr(engine.intents, "names", lambda meter=None: listed.append(1) or names(meter))
    append(engine, TWO, ["a"])
    assert listed == []
    engine.timing.note_contention()
    append(engine, TWO, ["b"])
    assert listed != []


def test_a_complete_plan_in_the_way_is_published_first_and_nobody_waits_for_its_owner(
    engines: Callable[..., Engine],
) -> None:
    clock = ManualClock()
    dead, engine = engines(), engines(clock=clock)
    dead.owner = ELSEWHERE
    with failpoints.armed("publish.before_swap", "raise"), pytest.raises(OutcomeUnknown):
        append(dead, TWO, ["theirs"], actor="dead")
    before = clock.monotonic()
    row = append(engine, TWO, ["ours"], actor="ours").row
    assert row is not None and clock.monotonic() - before < timing.GRACE_MIN_S
    commits = [one for one in history_of(engine) if isinstance(one, CommitRow)]
    assert [one.actor for one in commits[-2:]] == ["dead", "ours"]
    assert faults_of(engine) == []


def test_a_writer_that_prepares_longer_than_the_grace_keeps_its_queue_position(
    engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "GRACE_MIN_S", 0.4)
    monkeypatch.setattr(timing, "GRACE_COMMITS", 0.0)
    slow, quick = engines(), engines()
    for engine in (slow, quick):
        engine.timing.note_contention()
    at_front, waited = threading.Event(), threading.Event()
    asked: list[float] = []
    beyond = timing.FrontWatch.beyond_grace

    def watched(self: timing.FrontWatch, op: str, stamp: str, rank: int = 1) -> bool:
        asked.append(quick.clock.monotonic())
        if asked[-1] - asked[0] > 3 * 0.4:
            waited.set()
        return beyond(self, op, stamp, rank)

    monkeypatch.setattr(timing.FrontWatch, "beyond_grace", watched)

    def prepare(txn: Txn) -> Prepared:
        at_front.set()
        assert waited.wait(60), "nobody stood behind for three graces"
        rows = rows_for(txn, ONE[0], ["slow"])
        return Prepared((AppendRows(ONE[0], (Counts(inserted=1),), rows),))

    first = threading.Thread(target=lambda: run(slow, Request("load", MAIN, frozenset(ONE), "slow"), prepare, Meter()))
    second = threading.Thread(target=lambda: append(quick, ONE, ["quick"], actor="quick"))
    first.start()
    assert at_front.wait(60)
    second.start()
    for one in (first, second):
        one.join(60)
        assert not one.is_alive()
    rows = history_of(quick)[1:]
    assert [row.actor for row in rows] == ["slow", "quick"], "the queue position was not taken away"
    assert not [row for row in rows if isinstance(row, AbortRow)]
    assert len(commits_of(quick)) == 3 and faults_of(quick) == []
