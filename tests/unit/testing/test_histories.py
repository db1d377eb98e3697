"""The checkers of histories find what they are for: each is shown a good history, and bad ones of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.testing.histories import (
    FAIL,
    INVOKE,
    OK,
    UNKNOWN,
    Event,
    check_bank,
    check_bank_end,
    check_list_append,
    check_ring,
    check_set,
    operations_of,
)


class Story:
    """Writes a history down: ``op`` adds one operation with both ends."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._serial = 0

    def op(
        self, what: str, value: Any, began: float, ended: float | None, end: str = OK, answer: Any = None, by: str = "p"
    ) -> Story:
        self._serial += 1
        self.events.append(Event(by, self._serial, INVOKE, what, value, began))
        if ended is not None:
            self.events.append(Event(by, self._serial, end, what, answer, ended))
        return self


def bad(findings: list[str], part: str) -> None:
    assert any(part in finding for finding in findings), findings


def test_an_operation_of_a_killed_process_has_an_unknown_end() -> None:
    [op] = operations_of(Story().op("add", 1, 0, None).events)
    assert op.end == UNKNOWN and op.ended_s == float("inf")


def test_events_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="without a beginning"):
        operations_of([Event("p", 1, OK, "add", 1, 0)])
    twice = Story().op("add", 1, 0, 1).events
    with pytest.raises(ValueError, match="two events"):
        operations_of([*twice, *twice])


# --- set ----------------------------------------------------------------------------------------------------------------


def adds() -> Story:
    return (
        Story().op("add", "a", 0, 1).op("add", "b", 2, 3, FAIL).op("add", "c", 2, None).op("add", "d", 20, 21, UNKNOWN)
    )


@pytest.mark.parametrize("answer", [["a"], ["a", "c"]])
def test_a_set_that_holds_what_was_acknowledged_is_right(answer: list[str]) -> None:
    assert check_set(adds().op("read", None, 5, 6, answer=answer).events) == []


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        ([], "misses 'a'"),
        (["a", "a"], "twice"),
        (["a", "b"], "had failed"),
        (["a", "x"], "no writer added"),
        (["a", "d"], "before it was added"),
    ],
)
def test_a_set_that_lost_doubled_or_invented_something_is_found(answer: list[str], finding: str) -> None:
    bad(check_set(adds().op("read", None, 5, 6, answer=answer).events), finding)


# --- list-append --------------------------------------------------------------------------------------------------------

BOTH = ("x", "y")


def appends() -> Story:
    return (
        Story()
        .op("append", (1, BOTH), 0, 1)
        .op("append", (2, BOTH), 2, 3)
        .op("append", (3, ("x",)), 2, 9)
        .op("append", (4, BOTH), 4, 5, FAIL)
        .op("append", (5, BOTH), 4, None)
    )


@pytest.mark.parametrize(
    "answer",
    [
        {"x": [1, 2, 3], "y": [1, 2]},
        {"x": [1, 3, 2], "y": [1, 2]},
        {"x": [1, 2], "y": [1, 2]},
        {"x": [1, 2, 5], "y": [1, 2, 5]},
    ],
)
def test_lists_that_one_order_explains_are_right(answer: dict[str, list[int]]) -> None:
    assert check_list_append(appends().op("read", None, 6, 7, answer=answer).events) == []


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        ({"x": [1, 2, 5], "y": [1, 2]}, "in part"),
        ({"x": [1], "y": [1]}, "misses 2"),
        ({"x": [2, 1], "y": [2, 1]}, "had ended before"),
        ({"x": [1, 2, 4], "y": [1, 2, 4]}, "had failed"),
        ({"x": [1, 2, 2], "y": [1, 2]}, "twice"),
        ({"x": [1, 2, 7], "y": [1, 2]}, "no writer appended"),
        ({"x": [1, 5, 2], "y": [1, 2, 5]}, "no one order"),
    ],
)
def test_lists_that_no_order_explains_are_found(answer: dict[str, list[int]], finding: str) -> None:
    bad(check_list_append(appends().op("read", None, 6, 7, answer=answer).events), finding)


def test_two_reads_of_which_neither_is_a_prefix_of_the_other_are_found() -> None:
    story = appends().op("read", None, 6, 7, answer={"x": [1, 2, 3]}).op("read", None, 6, 7, answer={"x": [1, 3, 2]})
    bad(check_list_append(story.events), "no prefix")


def test_a_later_read_that_sees_less_is_found() -> None:
    story = Story().op("append", (1, ("x",)), 0, None)
    story.op("read", None, 2, 3, answer={"x": [1]}).op("read", None, 4, 5, answer={"x": []})
    bad(check_list_append(story.events), "saw less")


# --- bank ---------------------------------------------------------------------------------------------------------------


def test_a_bank_keeps_its_total_and_its_accounts() -> None:
    good = Story().op("read", None, 0, 1, answer={"a": 7, "b": 3})
    assert check_bank(good.events, total=10, accounts=2) == []
    torn = Story().op("read", None, 0, 1, answer={"a": 7, "b": 10})
    bad(check_bank(torn.events, total=10, accounts=2), "not 10")
    gone = Story().op("read", None, 0, 1, answer={"a": 10})
    bad(check_bank(gone.events, total=10, accounts=2), "1 accounts")


def test_a_bank_ends_with_every_acknowledged_transfer_once() -> None:
    story = Story().op("transfer", ("a", "b", 2), 0, 1).op("transfer", ("b", "a", 9), 0, 1, FAIL)
    start = {"a": 5, "b": 5}
    assert check_bank_end(story.events, start=start, end={"a": 3, "b": 7}) == []
    bad(check_bank_end(story.events, start=start, end={"a": 5, "b": 5}), "a: 5, not 3")
    bad(check_bank_end(story.events, start=start, end={"a": 1, "b": 9}), "a: 1, not 3")
    assert check_bank_end(story.op("transfer", ("a", "b", 1), 2, None).events, start=start, end={}) == []


# --- ring ---------------------------------------------------------------------------------------------------------------


def ring(answer: dict[str, str]) -> list[str]:
    story = Story().op("insert", "b", 0, 1).op("insert", "c", 0, None).op("insert", "d", 0, 1, FAIL)
    return check_ring(story.op("read", None, 5, 6, answer=answer).events)


def test_a_ring_is_one_ring() -> None:
    assert ring({"a": "b", "b": "a"}) == []
    assert ring({"a": "b", "b": "c", "c": "a"}) == []
    bad(ring({"a": "b", "b": "c"}), "no ring")
    bad(ring({"a": "b", "b": "a", "c": "c"}), "no ring")
    bad(ring({"a": "b", "b": "c", "c": "b"}), "no ring")
    bad(ring({"a": "a"}), "misses 'b'")
    bad(ring({"a": "b", "b": "d", "d": "a"}), "had failed")
    bad(ring({}), "no ring at all")
