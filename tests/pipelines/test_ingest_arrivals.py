"""What is asked for when: settled batches, oldest first, once each, again where a run died."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from omnigraph_pipelines.batches import Batch, BatchFile
from omnigraph_pipelines.defs.ingest.arrivals import (
    ATTEMPTS_MAX,
    REQUESTS_MAX,
    Decision,
    LastRun,
    Memory,
    Offer,
    Tick,
    decide,
    from_cursor,
    pause,
    run_key,
    to_cursor,
)


def batch(key: str, contents: str = "v1", mark: str = "", *, is_ready: bool = True) -> Batch:
    return Batch(key, key, (BatchFile(contents, key, len(contents), mark),), is_ready)


def fingerprint(one: Batch) -> str:
    return f"{one.files[0].name}-fingerprint"


def look(tick: Tick, after: Decision | None = None) -> Decision:
    """One tick with the memory of an earlier one, through the cursor."""
    seen = {} if after is None else from_cursor(to_cursor(Memory(after.seen))).seen
    return decide(replace(tick, seen=seen), fingerprint)


def at(now_s: float, batches: Sequence[Batch], **given: Any) -> Tick:
    return Tick(batches, {}, now_s, **given)


def offered(decision: Decision) -> list[str]:
    return [one.batch for one in decision.offers]


def test_a_batch_is_offered_once_it_has_looked_the_same_for_a_while() -> None:
    first = look(at(0, [batch("a")]))
    assert offered(first) == [] and "may still be being written (a)" in first.said
    early = look(at(9.9, [batch("a")]), first)
    assert offered(early) == []
    second = look(at(10, [batch("a")]), early)
    assert second.offers == (Offer("a", "v1-fingerprint"),)
    third = look(at(20, [batch("a")]), second)
    assert offered(third) == [] and third.said.startswith("1 batch, 0 done; 1 offered before")


def test_a_listing_that_changes_is_waited_for_anew() -> None:
    first = look(at(0, [batch("a", mark="1")]))
    second = look(at(10, [batch("a", mark="2")]), first)
    assert offered(second) == []
    assert offered(look(at(19, [batch("a", mark="2")]), second)) == []
    assert offered(look(at(20, [batch("a", mark="2")]), second)) == ["a"]


def test_a_marker_is_believed_at_once_and_its_absence_for_ever() -> None:
    assert offered(look(at(0, [batch("a")], has_marker=True))) == ["a"]
    first = look(at(0, [batch("a", is_ready=False)], has_marker=True))
    later = look(at(9999, [batch("a", is_ready=False)], has_marker=True), first)
    assert offered(later) == [] and "have no marker yet" in later.said


def test_a_changed_batch_is_offered_again_and_a_touched_one_is_not() -> None:
    done = look(at(0, [batch("a")], has_marker=True))
    touched = look(at(10, [batch("a", mark="touched")], has_marker=True), done)
    assert offered(touched) == []
    changed = look(at(20, [batch("a", "v2")], has_marker=True), touched)
    assert changed.offers == (Offer("a", "v2-fingerprint"),)
    back = look(at(30, [batch("a", "v1")], has_marker=True), changed)
    assert offered(back) == ["a"]


def test_serial_runs_go_one_at_a_time_oldest_first() -> None:
    three = [batch("a"), batch("b"), batch("c")]
    first = look(at(0, three, has_marker=True))
    assert offered(first) == ["a"]
    busy = look(at(1, three, has_marker=True, under_way=["a"]), first)
    assert offered(busy) == [] and "1 under way (a)" in busy.said and "2 waiting (b, c)" in busy.said
    assert offered(look(at(2, three, has_marker=True), busy)) == ["b"]


def test_runs_in_any_order_are_asked_for_at_once_and_in_bounds() -> None:
    many = [batch(f"{n:03}") for n in range(REQUESTS_MAX + 5)]
    first = look(at(0, many, has_marker=True, is_serial=False, under_way=["000"]))
    assert len(first.offers) == REQUESTS_MAX and "000" not in offered(first)
    rest = look(at(1, many, has_marker=True, is_serial=False), first)
    assert offered(rest) == ["000", "051", "052", "053", "054"]


def failed(attempts: int = 1, *, permanent: bool = False, ended_s: float = 0) -> dict[str, LastRun]:
    return {"a": LastRun("v1-fingerprint", True, permanent, attempts, ended_s)}


def test_a_run_that_died_is_tried_again_with_a_key_of_its_own_and_the_later_ones_wait() -> None:
    two = [batch("a"), batch("b")]
    first = look(at(0, two, has_marker=True))
    early = look(at(pause(1) - 1, two, has_marker=True, last=failed()), first)
    assert offered(early) == [] and "failed and will be tried again (a)" in early.said
    again = look(at(pause(1), two, has_marker=True, last=failed()), early)
    assert [one.run_key for one in again.offers] == ["a/v1-fingerprint:a2"]
    assert look(at(pause(1), two, has_marker=True, last=failed()), first).offers[0].attempt == 2


def test_a_batch_at_fault_is_not_tried_again_and_holds_nobody_up() -> None:
    two = [batch("a"), batch("b")]
    first = look(at(0, two, has_marker=True))
    assert offered(look(at(9999, two, has_marker=True, last=failed(permanent=True)), first)) == ["b"]
    exhausted = look(at(1e9, two, has_marker=True, last=failed(ATTEMPTS_MAX)), first)
    assert offered(exhausted) == ["b"] and "are left to you (a)" in exhausted.said


def test_a_failure_of_earlier_contents_says_nothing_about_the_present_ones() -> None:
    first = look(at(0, [batch("a", "v2")], has_marker=True))
    assert first.offers == (Offer("a", "v2-fingerprint"),)
    assert offered(look(at(1, [batch("a", "v2")], has_marker=True, last=failed()), first)) == []


@pytest.mark.parametrize("cursor", [None, "", "{", "[]", '{"a": 1}', '{"a": ["x", "y", null, 0]}', "null"])
def test_a_lost_or_broken_cursor_costs_a_second_look_and_nothing_else(cursor: str | None) -> None:
    assert from_cursor(cursor) == Memory()


def test_a_cursor_forgets_batches_that_are_gone() -> None:
    first = look(at(0, [batch("a"), batch("b")], has_marker=True))
    assert set(look(at(1, [batch("b")], has_marker=True), first).seen) == {"b"}


def test_a_name_that_cannot_be_a_partition_is_said() -> None:
    assert "1 have a name that cannot be a partition" in look(at(0, [batch("a...b")], has_marker=True)).said


# --- batches that share a run ---------------------------------------------------------------------------------------------


def runs(decision: Decision) -> list[list[str]]:
    return [[offer.batch for offer in run] for run in decision.runs]


def due(keys: str, **given: Any) -> Tick:
    return at(0, [batch(key, contents=f"of {key}") for key in keys], has_marker=True, **given)


def test_batches_that_follow_each_other_share_a_run_up_to_the_bound() -> None:
    assert runs(look(due("abcde", per_run=3))) == [["a", "b", "c"]]
    assert runs(look(due("abcde", per_run=3, is_serial=False))) == [["a", "b", "c"], ["d", "e"]]
    assert runs(look(due("abcde"))) == [["a"]]
    assert runs(look(due("abc", per_run=3, under_way=["a"]))) == []
    assert runs(look(due("abc", per_run=3, held_up="waits for index"))) == []


@pytest.mark.parametrize(
    ("partitions", "serial", "any_order"),
    [
        ([], [["a", "b", "c", "d"]], [["a", "b", "c", "d"]]),
        (["a", "b", "c", "d"], [["a", "b", "c", "d"]], [["a", "b", "c", "d"]]),
        (
            ["c", "a", "b"],
            [["a", "b"]],
            [["a", "b"], ["c"], ["d"]],
        ),  # c came before them: a range to it would go backwards
        (["a", "x", "b"], [["a"]], [["a"], ["b", "c", "d"]]),  # a range has all that lies between its ends
    ],
)
def test_a_run_is_a_range_of_partitions_and_overtakes_none(partitions: list[str], serial: Any, any_order: Any) -> None:
    assert runs(look(due("abcd", per_run=9, partitions=partitions))) == serial
    assert runs(look(due("abcd", per_run=9, partitions=partitions, is_serial=False))) == any_order


def test_no_run_goes_past_a_batch_that_waits() -> None:
    refused = LastRun("of a-fingerprint"[:16], True, True, 1, 0.0, judged_at="h1", reason="1 missing-endpoint")
    first = look(due("a", per_run=3))
    assert runs(look(due("abc", per_run=3, last={"a": refused}, done={}), first)) == []
    assert runs(look(due("abc", per_run=3, last={"a": refused}, done={}, waits_in_line=False), first)) == [["b", "c"]]


def test_the_key_of_a_run_tells_its_batches_and_attempts() -> None:
    one, two, again = Offer("a", "f1"), Offer("b", "f2"), Offer("b", "f2", 2)
    assert run_key([one]) == one.run_key
    keys = {run_key([one]), run_key([one, two]), run_key([one, again]), run_key([two, one])}
    assert len(keys) == 4 and run_key([one, two]).startswith("a/f1+1:")
