"""A turn that is kept for the next write of the same process: who goes first, for how long, and what is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit.decide import Decision
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Ticket, encode_ticket
from omnigraph.commit.plan import BranchName, Counts, Owner
from omnigraph.commit.protocol.run import run
from omnigraph.commit.queue import timing
from omnigraph.commit.queue.timing import ContentionTiming
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.recover import recover_all, recover_one
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.steps import AppendRows
from omnigraph.commit.txn import Txn
from omnigraph.core import failpoints
from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import InvalidInput, StoreUnavailable
from omnigraph.core.ids import new_ulid, ulid_row
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.rows import AbortRow, CommitRow
from omnigraph.testing.content import faults_of, history_of
from omnigraph.testing.operations import append, keys_of, rows_for

ONE, TWO = keys_of(1), keys_of(2)
FOREVER_S = 30.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases wait until a test ends them: what it sees does not hang on the machine's speed."""
    for name in ("LEASE_GAP_MIN_S", "LEASE_GAP_MAX_S"):
        monkeypatch.setattr(timing, name, FOREVER_S)
    for name in ("LEASE_COMMITS", "LEASE_WAIT_S"):
        monkeypatch.setattr(timing, name, 1e9)


@pytest.fixture
def writer(patient: None, engines: Callable[..., Engine]) -> Iterator[Engine]:
    """Has met others, and has written a moment ago."""
    engine = engines()
    in_a_row(engine)
    yield engine
    engine.leases.release_idle()


def in_a_row(engine: Engine) -> None:
    """It has met others, and its next write comes directly behind its last."""
    engine.timing.note_contention()
    with engine.timing.writing():
        pass


def in_a_row_at(commit_s: float) -> ContentionTiming:
    """Of a process whose commits take so long, in the middle of a row of writes."""
    mine = ContentionTiming(ManualClock())
    for _ in range(50):
        mine.note_commit(commit_s)
    for _ in range(2):
        with mine.writing():
            pass
    return mine


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for another thread to come so far."""
    deadline = time.monotonic() + FOREVER_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {FOREVER_S:.0f} s for {what}"
        time.sleep(0.001)


def pending(engine: Engine) -> list[str]:
    return [op for op, _ in engine.intents.names()]


def actors(engine: Engine) -> list[str | None]:
    return [row.actor for row in history_of(engine) if isinstance(row, CommitRow)][1:]


def calls(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> list[tuple[str, str]]:
    """What is done to the files of intents from now on, in order."""
    found: list[tuple[str, str]] = []
    for name in ("arm", "rewrite", "disarm"):
        whole = getattr(engine.intents, name)

        def noted(op: str, *args: Any, name: str = name, whole: Any = whole) -> Any:
            found.append((name, op))
            return whole(op, *args)

        monkeypatch.setattr(engine.intents, name, noted)
    return found


# --- what is kept -------------------------------------------------------------------------------------------------------


def test_the_next_write_takes_its_place_directly_behind_the_last(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = calls(monkeypatch, writer)
    append(writer, TWO, ["a"])
    [first] = pending(writer)
    append(writer, TWO, ["b"])
    [second] = pending(writer)
    append(writer, ONE, ["c"])  # fewer tables than the turn is about
    writer.leases.release_idle()
    ticket, third = done[0][1], done[-1][1]
    assert pending(writer) == []
    assert done == [
        ("arm", ticket),
        ("arm", first),
        ("disarm", ticket),
        ("arm", second),
        ("disarm", first),
        ("arm", third),
        ("disarm", second),
        ("disarm", third),
    ], "one ticket; each file goes when the next is there"
    assert ticket < first < second < third < new_ulid()
    assert faults_of(writer) == []


def test_nothing_sorts_between_the_names_of_one_turn() -> None:
    row = ulid_row(8)
    assert len(set(row)) == 8 and row == sorted(row)
    assert {name[:20] for name in row} == {row[0][:20]}
    assert new_ulid() > row[-1]


def test_a_turn_that_nobody_takes_up_ends_by_itself(engines: Callable[..., Engine]) -> None:
    engine = engines()
    in_a_row(engine)
    gone = threading.Event()
    with failpoints.armed("lease.before_delete", lambda **_: gone.set()):
        append(engine, ONE, ["a"])
        assert gone.wait(10)
    engine.leases.release_idle()
    assert pending(engine) == []


def test_a_write_of_other_tables_queues_behind(writer: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    append(writer, ONE, ["a"])
    [kept] = pending(writer)
    done = calls(monkeypatch, writer)
    other = threading.Thread(target=lambda: append(writer, TWO, ["b"]))
    other.start()
    until(lambda: len(pending(writer)) == 2, "its ticket")
    assert done[0][0] == "arm" and done[0][1] > kept
    assert other.is_alive()
    writer.leases.release_idle()
    other.join(60)
    assert not other.is_alive()
    writer.leases.release_idle()
    assert pending(writer) == [] and faults_of(writer) == []


def test_who_judges_what_is_pending_in_the_same_process_does_not_meet_its_lease(writer: Engine) -> None:
    append(writer, ONE, ["a"])
    assert len(pending(writer)) == 1
    assert writer.pending() == [] and pending(writer) == []
    append(writer, ONE, ["b"])
    assert recover_all(writer, meter=Meter()) == [] and pending(writer) == []


def test_closing_a_graph_lets_go_and_does_not_wait_for_a_next_write(
    patient: None, engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEASE_GAP_MIN_S", "LEASE_GAP_MAX_S"):
        monkeypatch.setattr(timing, name, 1e6)  # a close that waited would not return before the time limit of a test
    engine, other = engines(), engines()
    in_a_row(engine)
    append(engine, ONE, ["a"])
    assert len(pending(other)) == 1
    engine.close()
    assert pending(other) == []


# --- when it is not kept ------------------------------------------------------------------------------------------------


def test_only_a_process_that_writes_in_a_row_keeps_its_turn() -> None:
    clock = ManualClock()
    mine = ContentionTiming(clock)

    def write() -> bool:
        with mine.writing():
            clock.sleep(0.01)
            return mine.keeps_lease(0.01, waiting=1)

    assert not write(), "the first of its life"
    assert write(), "directly behind"
    clock.sleep(0.9 * mine.keep_s)
    assert write()
    clock.sleep(1.1 * mine.keep_s)
    assert not write(), "after a pause"


def test_a_write_that_goes_on_in_another_way_does_not_follow_itself() -> None:
    clock = ManualClock()
    mine = ContentionTiming(clock)
    with mine.writing() as span:
        span.goes_on = True
    with mine.writing():
        assert not mine.keeps_lease(0.01, waiting=1)
    with mine.writing() as span:
        span.goes_on = True
    with mine.writing():
        assert mine.keeps_lease(0.01, waiting=1), "it follows the one before"


def test_those_who_wait_come_first_after_a_few_commits() -> None:
    mine = in_a_row_at(0.01)
    assert mine.keeps_lease(timing.LEASE_COMMITS * 0.0099, waiting=1)
    assert not mine.keeps_lease(timing.LEASE_COMMITS * 0.0101, waiting=1)


def test_the_more_there_are_who_wait_the_shorter_is_a_turn() -> None:
    mine = in_a_row_at(10.0)
    for waiting in (1, 2, 20):
        share = timing.LEASE_WAIT_S / waiting
        assert mine.keeps_lease(0.99 * share, waiting) and not mine.keeps_lease(1.01 * share, waiting)
    assert mine.keeps_lease(0.99 * timing.LEASE_WAIT_S, waiting=0)


def test_a_turn_ends_after_so_many_plans(writer: Engine) -> None:
    for number in range(timing.LEASE_PLANS_MAX - 1):
        append(writer, ONE, [str(number)])
        assert len(pending(writer)) == 1
    append(writer, ONE, ["last"])
    assert pending(writer) == []


def test_a_writer_behind_is_not_starved_by_one_that_never_pauses(engines: Callable[..., Engine]) -> None:
    busy, other = engines(), engines()
    for engine in (busy, other):
        engine.timing.note_contention()
    stop = threading.Event()

    def loop() -> None:
        number = 0
        while not stop.is_set():
            append(busy, ONE, [f"busy-{number}"], actor="busy")
            number += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for number in range(5):
            append(other, ONE, [f"other-{number}"], actor="other")
    finally:
        stop.set()
        thread.join(60)
    order = actors(other)
    between = "".join("o" if actor == "other" else "b" for actor in order).split("o")[1:-1]
    assert max(map(len, between)) <= 3 * timing.LEASE_PLANS_MAX, "a turn, and what slipped in where nobody queued yet"
    busy.leases.release_idle()
    other.leases.release_idle()
    assert faults_of(other) == []


def test_a_ticket_that_cannot_be_made_after_an_abort_costs_the_place_and_nothing_else(
    writer: Engine, engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    newcomer = engines()
    append(writer, ONE, ["before"], actor="writer")
    arm = writer.intents.arm
    armed: list[str] = []

    def refuse(op: str, *args: Any) -> None:
        armed.append(op)
        if len(armed) == 2:
            raise StoreUnavailable("not now")
        arm(op, *args)

    monkeypatch.setattr(writer.intents, "arm", refuse)
    spoiled: list[object] = []

    def disturb(**_: Any) -> None:
        if not spoiled:
            spoiled.append(True)
            append(newcomer, ONE, ["newcomer"], actor="newcomer")

    with failpoints.armed("apply.before_commit", disturb):
        append(writer, ONE, ["disturbed"], actor="writer")
    for engine in (writer, newcomer):
        engine.leases.release_idle()
    assert len(armed) == 4 and actors(writer).count("writer") == 2
    assert pending(writer) == [] and faults_of(writer) == []


# --- giving way ---------------------------------------------------------------------------------------------------------


def test_an_older_ticket_comes_before_a_lease(writer: Engine, engines: Callable[..., Engine]) -> None:
    other = engines(clock=ManualClock())  # its clock is behind: its names are old
    append(writer, ONE, ["a"], actor="writer")
    op = new_ulid(other.clock)
    ticket = Ticket(
        other.graph_id,
        op,
        "load",
        BranchName("main", other.graph_id),
        tuple((key, "") for key in ONE),
        replace(Owner("another-host", "another-boot", 7, 7)),
    )
    other.intents.arm(op, encode_ticket(ticket))
    thread = threading.Thread(target=lambda: append(writer, ONE, ["b"]))
    thread.start()
    until(lambda: len(pending(other)) == 2 and pending(other)[0] == op, "a ticket behind the older one")
    thread.join(0.05)
    assert thread.is_alive(), "it waits"
    other.intents.disarm(op)
    thread.join(60)
    assert not thread.is_alive()
    writer.leases.release_idle()
    assert pending(writer) == [] and faults_of(writer) == []


def test_a_write_that_prepares_too_long_has_lost_the_lease(
    writer: Engine, engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "FIRST_BEAT", 0.01)
    append(writer, ONE, ["a"])
    [kept] = pending(writer)
    other = engines()
    prepared = 0

    def prepare(txn: Txn) -> Prepared:
        nonlocal prepared
        prepared += 1
        if prepared == 1:
            until(lambda: kept not in pending(other), "the kept turn's end")
            append(other, ONE, ["in between"], actor="other")
        rows = rows_for(txn, ONE[0], ["slow"])
        return Prepared((AppendRows(ONE[0], (Counts(inserted=1),), rows),))

    run(writer, Request("load", "main", frozenset(ONE), "slow"), prepare, Meter())
    assert prepared == 2 and actors(writer) == ["writer", "other", "slow"]
    writer.leases.release_idle()
    other.leases.release_idle()
    assert not [row for row in history_of(writer) if isinstance(row, AbortRow)]
    assert pending(writer) == [] and faults_of(writer) == []


def test_a_long_staging_in_a_lease_holds_a_ticket(writer: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    append(writer, ONE, ["a"])
    [kept] = pending(writer)
    seen: list[tuple[bool, bool]] = []

    stage_append = writer.tables.stage_append

    def stage(*args: Any, **kwargs: Any) -> Any:
        intents = [writer.intents.read(op) for op in pending(writer) if op > kept]
        seen.append((kept in pending(writer), all(one is not None and one.ticket is not None for one in intents)))
        return stage_append(*args, **kwargs)

    monkeypatch.setattr(writer.tables, "stage_append", stage)

    def prepare(txn: Txn) -> Prepared:
        rows = rows_for(txn, ONE[0], ["b"])
        return Prepared((AppendRows(ONE[0], (Counts(inserted=1),), rows),), stage_first=True)

    done = calls(monkeypatch, writer)
    run(writer, Request("load", "main", frozenset(ONE), "slow"), prepare, Meter())
    assert seen[0][1], "a ticket, and no plan yet"
    assert [name for name, op in done if op > kept][:2] == ["arm", "arm"]
    writer.leases.release_idle()
    assert pending(writer) == [] and faults_of(writer) == []


# --- what goes wrong ----------------------------------------------------------------------------------------------------


def test_a_refused_write_and_one_without_changes_end_the_turn(writer: Engine) -> None:
    def refuse(txn: Txn) -> Prepared | None:
        raise InvalidInput("no")

    append(writer, ONE, ["a"])
    with pytest.raises(InvalidInput):
        run(writer, Request("load", "main", frozenset(ONE)), refuse, Meter())
    writer.leases.release_idle()
    assert pending(writer) == []
    append(writer, ONE, ["b"])
    assert run(writer, Request("load", "main", frozenset(ONE)), lambda txn: None, Meter()).row is None
    writer.leases.release_idle()
    assert pending(writer) == []


def test_a_file_that_could_not_be_deleted_is_a_warning_of_the_next_write(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(writer, ONE, ["a"])
    [kept] = pending(writer)
    delete = writer.store.delete

    def refuse(key: str, **kwargs: Any) -> None:
        if kept in key:
            raise StoreUnavailable("not now")
        delete(key, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(writer.store, "delete", refuse)
        outcome = append(writer, ONE, ["b"])
    assert outcome.row is not None and outcome.warnings == ("not now",)
    writer.leases.release_idle()
    assert pending(writer) == [kept]
    [recovered] = recover_all(writer, meter=Meter())
    assert recovered.decision is Decision.FINISH
    assert pending(writer) == [] and faults_of(writer) == []


def test_a_lease_of_a_living_writer_is_no_business_of_recovery(writer: Engine, engines: Callable[..., Engine]) -> None:
    other = engines()
    append(writer, ONE, ["a"], actor="writer")
    kept, before = pending(other), other.latest("main").version
    assert not other.timing.contended
    [left] = recover_all(other, meter=Meter())
    assert left.decision is Decision.WAIT and pending(other) == kept
    assert audit.read(other) == [] and other.latest("main").version == before
    assert other.timing.contended, "who has just come queues like those who are here"


def test_a_lease_whose_writer_is_gone_is_finished(writer: Engine, engines: Callable[..., Engine]) -> None:
    other = engines()
    append(writer, ONE, ["a"], actor="writer")
    [op] = pending(other)
    before = other.latest("main").version
    intent = other.intents.read(op)
    assert intent is not None
    assert recover_one(other, intent, gone=True, meter=Meter()).decision is Decision.FINISH
    assert pending(other) == [] and other.latest("main").version == before
    append(writer, ONE, ["b"], actor="writer")
    writer.leases.release_idle()
    assert actors(other) == ["writer", "writer"] and faults_of(other) == []


# --- after an abort -----------------------------------------------------------------------------------------------------


def test_a_plan_that_was_in_the_way_of_another_keeps_its_place(
    writer: Engine, engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who has met nobody writes into the middle of a turn. Those who queue behind go on waiting."""
    newcomer, behind = engines(), engines()
    append(writer, ONE, ["before"], actor="writer")
    armed: list[str] = []
    arm = writer.intents.arm

    def noted(op: str, *args: Any) -> None:
        armed.append(op)
        arm(op, *args)

    monkeypatch.setattr(writer.intents, "arm", noted)
    waiting: list[threading.Thread] = []

    def disturb(**_: Any) -> None:
        if not waiting:
            behind.timing.note_contention()
            assert max(pending(newcomer)) == armed[-1]
            waiting.append(threading.Thread(target=lambda: append(behind, ONE, ["behind"], actor="behind")))
            waiting[0].start()
            until(lambda: max(pending(newcomer)) != armed[-1], "a ticket behind the plan")
            append(newcomer, ONE, ["newcomer"], actor="newcomer")

    with failpoints.armed("apply.before_commit", disturb):
        append(writer, ONE, ["disturbed"], actor="writer")
    writer.leases.release_idle()
    waiting[0].join(60)
    assert not waiting[0].is_alive()
    assert actors(writer)[-2:] == ["writer", "behind"], "the place was kept"
    assert "newcomer" in actors(writer)
    assert len(armed) == 3 and armed == sorted(armed), "a ticket, and the plan that follows it"
    for engine in (behind, newcomer):
        engine.leases.release_idle()
    assert pending(writer) == [] and faults_of(writer) == []


# --- upkeep of the same process -------------------------------------------------------------------------------------------


def test_upkeep_directly_behind_a_write_has_a_position_of_its_own(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ticket and its plan are two files: a process that takes it for dead deletes the ticket that it has read, and no plan."""
    for number in range(6):
        append(writer, ONE, [str(number)])
    [kept] = pending(writer)
    found = calls(monkeypatch, writer)
    Graph(writer).optimize()
    armed = [op for name, op in found if name == "arm"]
    assert len(armed) == len(set(armed)) >= 2 and kept not in armed
    assert not [op for name, op in found if name == "rewrite"]
    assert pending(writer) == [] and faults_of(writer) == []
    assert writer.latest(MAIN).state.tables[ONE[0]].fragments == 1
