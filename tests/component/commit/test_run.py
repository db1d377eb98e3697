"""One write from capture to disarm on a real disk: where effects land, what ends a plan, what the caller is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.commit import exclusive
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.compensate import Aborted, end_by_abort
from omnigraph.commit.protocol.run import run
from omnigraph.commit.recovery.outcome import ABORTED, ABSENT, LANDED, PENDING, find_outcome
from omnigraph.commit.recovery.recover import recover_all, recover_one
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.steps import AppendRows
from omnigraph.core import failpoints
from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import (
    InvalidInput,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    ReadSetChanged,
    StoreUnavailable,
    WriterFenced,
)
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow
from omnigraph.store import layout
from omnigraph.testing.content import commits_of, content_of, faults_of, history_of
from omnigraph.testing.operations import append, displace, keys_of, overwrite, rows_for

ONE, TWO = keys_of(1), keys_of(2)


@pytest.fixture
def engine(engines: Callable[..., Engine]) -> Engine:
    return engines()


def names(engine: Engine, key: str) -> list[str]:
    content = content_of(engine)
    assert content is not None
    return [str(dict(row)["name"]) for row in content.tables[key]]


def clean(engine: Engine) -> None:
    assert faults_of(engine) == []


# --- the plain way ------------------------------------------------------------------------------------------------------


def test_a_write_to_two_tables_is_one_commit_with_one_version_each(engine: Engine) -> None:
    before = engine.latest(MAIN).state
    row = append(engine, TWO, ["a", "b"]).row
    after = engine.latest(MAIN).state
    assert row is not None and after.version == before.version + 1
    for key in TWO:
        assert row.tables[key].version == after.tables[key].version == before.tables[key].version + 1
        assert row.tables[key].inserted == 2
        assert names(engine, key) == ["a", "b"]
    clean(engine)


def test_the_intent_is_durable_before_any_table_commit_and_gone_after_the_write(engine: Engine) -> None:
    seen: list[int] = []
    with failpoints.armed("apply.before_commit", lambda **_: seen.append(len(engine.intents.names())), at=None):
        append(engine, TWO, ["a"])
    assert seen == [1, 1] and engine.intents.names() == []


def test_the_state_kept_after_many_swaps_is_the_state_that_a_cold_open_reads(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    for number in range(5):
        append(engine, TWO if number % 2 else ONE, [f"r{number}"])
        overwrite(engine, keys_of(3)[2:], [f"o{number}"])
        known = engine.known(MAIN)
        assert known is not None and known.state == engines().latest(MAIN).state


def test_a_write_of_nothing_makes_no_commit_and_no_intent(engine: Engine) -> None:
    version = engine.latest(MAIN).version
    with failpoints.recording() as passed:
        outcome = run(engine, Request("load", MAIN, frozenset(ONE)), lambda txn: None, Meter())
    assert outcome.row is None and engine.latest(MAIN).version == version
    assert not [name for name, _ in passed if name.startswith(("store.", "apply.", "arm."))]


def test_a_read_only_handle_refuses_to_write(engines: Callable[..., Engine]) -> None:
    with pytest.raises(InvalidInput):
        append(engines(read_only=True), ONE, ["a"])


def test_an_unknown_branch_is_not_found(engine: Engine) -> None:
    with pytest.raises(NotFound):
        run(engine, Request("load", "elsewhere", frozenset(ONE)), lambda txn: None, Meter())


@pytest.mark.parametrize("name", ["actor", "idempotency_key"])
def test_actor_and_key_are_bounded_at_256_bytes(engine: Engine, name: str) -> None:
    append(engine, ONE, ["a"], **{name: "ü" * 128})
    with pytest.raises(LimitExceeded):
        append(engine, ONE, ["b"], **{name: "ü" * 128 + "x"})
    assert names(engine, ONE[0]) == ["a"]


# --- idempotency keys, preconditions ------------------------------------------------------------------------------------


def test_a_known_key_is_answered_with_its_receipt_and_writes_nothing(engine: Engine) -> None:
    first = append(engine, ONE, ["a"], idempotency_key="k")
    again = append(engine, ONE, ["b"], idempotency_key="k")
    assert again.replayed and again.row is not None and first.row is not None
    assert again.row.commit_id == first.row.commit_id
    assert names(engine, ONE[0]) == ["a"]


def test_two_writes_with_one_key_that_race_on_different_tables_commit_once(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    rival = engines()

    def overtake(**_: object) -> None:
        append(rival, [TWO[1]], ["rival"], idempotency_key="k")

    with failpoints.armed("publish.before_swap", overtake):
        late = append(engine, [TWO[0]], ["late"], idempotency_key="k")
    assert late.replayed
    assert names(engine, TWO[0]) == [] and names(engine, TWO[1]) == ["rival"]
    assert sum(row.idempotency_key == "k" for row in commits_of(engine)) == 1
    clean(engine)


def test_a_moved_head_refuses_a_write_that_expected_it_and_is_not_prepared_again(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    rival = engines()
    head = engine.latest(MAIN).state.head.commit_id
    prepared = []
    with failpoints.armed("publish.before_swap", lambda **_: append(rival, [TWO[1]], ["rival"])):
        with failpoints.armed("arm.before", lambda **_: prepared.append(1), at=None):
            with pytest.raises(PreconditionFailed) as caught:
                append(engine, [TWO[0]], ["late"], expect_head=head)
    assert caught.value.facts["expected"] == head
    assert len(prepared) <= 2, "once by each writer"
    with pytest.raises(PreconditionFailed):
        append(engine, ONE, ["again"], expect_head=head)
    clean(engine)


# --- where an effect lands ----------------------------------------------------------------------------------------------


def test_an_effect_that_lands_off_its_place_is_taken_back_and_the_write_done_again(engine: Engine) -> None:
    with failpoints.armed("arm.before", lambda **_: displace(engine, ONE[0])):
        append(engine, TWO, ["a"])
    assert [names(engine, key) for key in TWO] == [["a"], ["a"]]
    clean(engine)


def test_landing_off_its_place_does_not_count_though_all_between_was_published(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    """Two staged inserts of one key would otherwise both stand."""
    rival = engines()
    with failpoints.armed("arm.after", lambda **_: append(rival, ONE, ["rival"])):
        append(engine, ONE, ["late"])
    rows = history_of(engine)
    assert [isinstance(row, AbortRow) for row in rows[-2:]].count(True) + len(commits_of(engine)) >= 3
    assert names(engine, ONE[0]) == ["late", "rival"]
    clean(engine)


def test_a_table_that_was_only_read_and_has_moved_makes_the_write_plan_again(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    rival = engines()
    with failpoints.armed("publish.before_swap", lambda **_: append(rival, [TWO[1]], ["rival"])):
        row = append(engine, [TWO[0]], ["late"], reads=[TWO[1]]).row
    ends = history_of(engine)[-2:]
    assert isinstance(ends[0], AbortRow) and row is not None and ends[1].commit_id == row.commit_id
    clean(engine)


def test_a_validator_that_still_holds_lets_the_plan_go_on(engine: Engine, engines: Callable[..., Engine]) -> None:
    rival = engines()
    asked = []

    def prepare(txn: Any) -> Prepared:
        rows = rows_for(txn, TWO[0], ["late"])
        return Prepared(
            (AppendRows(TWO[0], (Counts(inserted=1),), rows),),
            reads=frozenset([TWO[1]]),
            revalidate=lambda txn: asked.append(txn.rows(TWO[1])) is None,
        )

    with failpoints.armed("publish.before_swap", lambda **_: append(rival, [TWO[1]], ["rival"])):
        run(engine, Request("load", MAIN, frozenset(TWO)), prepare, Meter())
    assert asked and asked[-1] == 1, "asked on the state that the swap is based on"
    assert not [row for row in history_of(engine) if isinstance(row, AbortRow)]
    clean(engine)


# --- a plan ends once ---------------------------------------------------------------------------------------------------


def only_intent(engine: Engine) -> Any:
    [(op, _)] = engine.intents.names()
    return engine.intents.read(op)


def test_an_owner_whose_plan_a_stranger_published_reports_that_commit_and_no_second(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    stranger = engines()

    def help_along(**_: object) -> None:
        recover_one(stranger, only_intent(stranger), gone=False, meter=Meter())

    with failpoints.armed("publish.before_swap", help_along):
        row = append(engine, TWO, ["a"]).row
    assert row is not None and [c.commit_id for c in commits_of(engine)].count(row.commit_id) == 1
    assert names(engine, ONE[0]) == ["a"]
    clean(engine)


def test_an_owner_whose_plan_a_stranger_rolled_back_plans_again_and_lands_once(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    stranger = engines()
    ends: list[Any] = []

    def undo(**_: object) -> None:
        intent = only_intent(stranger)
        ends.append(intent.plan.head)
        touched = dict.fromkeys(intent.plan.keys, False)
        deadline = Deadline(stranger.clock, 60)
        end_by_abort(
            stranger, intent.plan, touched, actor="x", deadline=deadline, give_way=lambda o, r: False, meter=Meter(),
            record=True,
        )  # fmt: skip

    with failpoints.armed("publish.before_swap", undo):
        row = append(engine, TWO, ["a"]).row
    assert row is not None and row.commit_id not in ends
    assert names(engine, ONE[0]) == ["a"]
    assert find_outcome(engine, ends[0], Meter()).state == ABORTED
    clean(engine)


def forget_newest(engine: Engine) -> int:
    """The newest version of the manifest vanishes as if cleanup had freed its number, and the boundary says so."""
    held = engine.latest(MAIN)
    version = held.version
    name = f"{(1 << 64) - 1 - version:020d}.manifest"
    (Path(engine.store.uri) / layout.MANIFEST / "_versions" / name).unlink()
    engine.boundary.raise_to(held.state.identity, version)
    engine.tables.forget(engine.manifest.ref(None))
    engine.drop(MAIN)
    return version


def test_a_published_version_at_or_below_the_boundary_that_is_found_is_a_success(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    """The writer slept while its version was published and reclaimed: asking the newest manifest tells it so."""
    rival = engines()

    def reclaim(**_: object) -> None:
        append(rival, [TWO[1]], ["later"])
        rival.boundary.raise_to(rival.latest(MAIN).state.identity, rival.latest(MAIN).version)

    with failpoints.armed("publish.after_swap", reclaim):
        row = append(engine, [TWO[0]], ["a"]).row
    assert row is not None and names(engine, TWO[0]) == ["a"]
    assert len(commits_of(engine)) == 3


def test_a_published_version_that_nobody_will_ever_see_is_written_again_once(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    rival = engines()
    with failpoints.armed("publish.after_swap", lambda **_: forget_newest(rival)):
        row = append(engine, TWO, ["a"]).row
    assert row is not None and names(engines(), ONE[0]) == ["a"]
    assert find_outcome(engines(), row.commit_id, Meter()).state == LANDED
    clean(engines())


def test_a_ghost_whose_plan_was_aborted_meanwhile_is_not_acknowledged_by_that_record(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    stranger = engines()
    ghost: list[str] = []

    def resurrect_and_abort(**_: object) -> None:
        intent = only_intent(stranger)
        version = forget_newest(stranger)
        touched = dict.fromkeys(intent.plan.keys, False)
        ended = end_by_abort(
            stranger, intent.plan, touched, actor="x", deadline=Deadline(stranger.clock, 60),
            give_way=lambda o, r: False, meter=Meter(), record=True,
        )  # fmt: skip
        assert isinstance(ended, Aborted) or version
        ghost.append(intent.plan.head)

    with failpoints.armed("publish.after_swap", resurrect_and_abort):
        row = append(engine, TWO, ["a"]).row
    assert row is not None and row.commit_id not in ghost
    assert names(engines(), ONE[0]) == ["a"]
    clean(engines())


def test_a_version_that_is_published_meanwhile_is_not_restored_over(
    engine: Engine, engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer swaps and ends between our look at the newest state and our look at its intent."""
    rival = engines()
    landed, may_swap = threading.Event(), threading.Event()
    first = iter([True])

    def hold(**_: Any) -> None:
        if next(first, False):
            landed.set()
            assert may_swap.wait(60)

    failpoints.arm("publish.before_swap", hold, at=None)
    other = threading.Thread(target=append, args=(rival, ONE, ["rival"]))
    other.start()
    assert landed.wait(60)
    read = engine.intents.read

    def read_late(op: str, meter: Meter | None = None) -> Any:
        may_swap.set()
        other.join()
        return read(op, meter)

    monkeypatch.setattr(engine.intents, "read", read_late)
    append(engine, ONE, ["mine"])
    state = engine.latest(MAIN).state
    assert sorted(names(engine, ONE[0])) == ["mine", "rival"]
    # The rival at 2, mine behind it at 3, which is taken back to 2 by 4.
    assert state.tables[ONE[0]].version == 5, "nothing was taken back to a version that was not the pin any more"
    clean(engines())


# --- what the caller is told --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queued", [False, True], ids=["uncontended", "with a ticket"])
@pytest.mark.parametrize("place", ["apply.after_commit", "publish.before_swap", "publish.after_swap", "disarm.before"])
def test_from_the_first_table_commit_on_an_interrupted_write_keeps_its_intent(
    engine: Engine, engines: Callable[..., Engine], queued: bool, place: str
) -> None:
    if queued:
        engine.timing.note_contention()
    with failpoints.armed(place, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            append(engine, TWO, ["a"])
    fresh = engines()
    assert len(fresh.intents.names()) == 1
    recover_all(fresh, meter=Meter(), beyond_grace=True)
    assert {tuple(names(fresh, key)) for key in TWO} in ({("a",)}, {()})
    clean(fresh)


@pytest.mark.parametrize("place", ["arm.before", "store.create", "store.created", "arm.after"])
def test_before_the_first_table_commit_an_interrupted_write_leaves_nothing(engine: Engine, place: str) -> None:
    with failpoints.armed(place, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            append(engine, TWO, ["a"])
    assert engine.intents.names() == []
    clean(engine)


def test_an_unexpected_failure_after_a_table_commit_is_an_unknown_outcome_that_can_be_asked_for(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    with failpoints.armed("publish.before_swap", RuntimeError("a defect")):
        with pytest.raises(OutcomeUnknown) as caught:
            append(engine, TWO, ["a"])
    commit_id = caught.value.facts["commit_id"]
    fresh = engines()
    assert find_outcome(fresh, commit_id, Meter()).state == PENDING
    recover_all(fresh, meter=Meter(), beyond_grace=True)
    assert find_outcome(fresh, commit_id, Meter()).state == LANDED
    assert names(fresh, ONE[0]) == ["a"]


def test_an_id_that_nobody_wrote_is_absent(engine: Engine) -> None:
    assert find_outcome(engine, "01ARZ3NDEKTSV4RRFFQ69G5FAV", Meter()).state == ABSENT


def test_an_intent_that_cannot_be_created_means_that_nothing_was_written(engine: Engine) -> None:
    with failpoints.armed("store.create", StoreUnavailable("the store does not answer")):
        with pytest.raises(StoreUnavailable):
            append(engine, TWO, ["a"])
    clean(engine)
    append(engine, TWO, ["b"])
    assert names(engine, ONE[0]) == ["b"]


def test_an_intent_that_cannot_be_deleted_is_a_warning_and_the_next_recovery_finishes_it(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    with failpoints.armed("store.delete", StoreUnavailable("the store does not answer")):
        outcome = append(engine, TWO, ["a"])
    assert outcome.warnings and len(engine.intents.names()) == 1
    fresh = engines()
    [done] = recover_all(fresh, meter=Meter(), beyond_grace=True)
    assert done.decision.value == "finish" and outcome.row is not None and done.commit_id == outcome.row.commit_id
    clean(fresh)


def test_a_manifest_file_that_could_not_be_written_ahead_is_written_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = engine.manifest.write, []

    def once(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise StoreUnavailable("the store does not answer")
        return write(*args, **kwargs)

    monkeypatch.setattr(engine.manifest, "write", once)
    assert append(engine, TWO, ["a"]).row is not None
    assert len(calls) == 2
    clean(engine)


def test_a_conflict_names_both_commits_and_both_actors(engines: Callable[..., Engine]) -> None:
    clock = ManualClock()
    late, rival = engines(clock=clock), engines()
    landed: list[Any] = []

    def overtake(**_: object) -> None:
        landed.append(append(rival, ONE, ["rival"], actor="eve").row)
        clock.advance(100)  # no time left for another attempt

    with failpoints.armed("arm.after", overtake):
        with pytest.raises(ReadSetChanged) as caught:
            append(late, ONE, ["late"], actor="ada")
    facts = caught.value.facts
    assert (facts["actor"], facts["other_actor"]) == ("ada", "eve")
    assert facts["other_commit_id"] == landed[0].commit_id != facts["commit_id"]
    assert (facts["table_key"], facts["expected"]) == (ONE[0], 1) and facts["actual"] > 1
    assert names(rival, ONE[0]) == ["rival"]
    clean(engines())


# --- exclusive use ------------------------------------------------------------------------------------------------------


def test_a_writer_is_fenced_while_somebody_else_owns_the_graph_and_not_after(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    owner = engines()
    owner.owner = replace(owner.owner, pid=1)  # another process
    exclusive.claim(owner, Meter())
    with pytest.raises(WriterFenced):
        append(engine, ONE, ["a"])
    append(owner, ONE, ["b"])
    exclusive.release(owner, Meter())
    append(engine, ONE, ["c"])
    assert names(engine, ONE[0]) == ["b", "c"]
    clean(engine)


def test_a_writer_between_its_table_commits_and_its_publish_is_fenced_and_takes_back(
    engine: Engine, engines: Callable[..., Engine]
) -> None:
    owner = engines()
    owner.owner = replace(owner.owner, pid=1)
    with failpoints.armed("publish.before_swap", lambda **_: exclusive.claim(owner, Meter())):
        with pytest.raises(WriterFenced):
            append(engine, TWO, ["a"])
    assert names(owner, ONE[0]) == []
    clean(owner)
