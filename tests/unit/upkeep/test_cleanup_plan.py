"""The plan of a cleanup: over every small history, what is needed is never doomed, and what is not needed is."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.errors import InvalidInput
from omnigraph.core.shown import span_text
from omnigraph.manifest.rows import Head, Pin, SchemaRow
from omnigraph.manifest.state import State
from omnigraph.table.version_list import VersionFile
from omnigraph.upkeep.cleanup_plan import (
    Line,
    LinePlan,
    Range,
    SeenCommit,
    doom,
    make_policy,
    oldest_retained,
    ranges_text,
    seconds,
    spare,
)
from omnigraph.upkeep.cleanup_roots import branch_ranges
from omnigraph.wire.cleanup import Policy

NOW = 1_000_000 * 1_000_000
S = 1_000_000


# --- the policy ---------------------------------------------------------------------------------------------------------


def test_a_cleanup_that_is_told_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="what to keep"):
        make_policy(None, None, "1h")


@pytest.mark.parametrize("keep", [0, -1, True, 1.5, "3"])
def test_a_number_of_commits_is_one_or_more(keep: object) -> None:
    with pytest.raises(InvalidInput):
        make_policy(keep, None, "1h")


@pytest.mark.parametrize(
    "bad", [-1, "-1h", "1y", "", "h", "1.5h", True, None, timedelta(seconds=-1), "9" * 20 + "w", 1e400, "1h2m"]
)
def test_a_duration_that_is_none_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput):
        seconds("older_than", bad)


def test_durations_are_seconds_with_a_unit() -> None:
    said: dict[Any, int] = {
        "90": 90,
        "90s": 90,
        "15m": 900,
        " 1h ": 3600,
        "7d": 604_800,
        "2w": 1_209_600,
        0: 0,
        5: 5,
        timedelta(days=1): 86_400,
    }
    for value, total in said.items():
        assert seconds("older_than", value) == total
        assert seconds("older_than", span_text(total)) == total


def test_with_one_bound_given_the_other_is_one_commit_or_the_minimum_age() -> None:
    assert make_policy(10, None, "1h") == Policy(10, 3600, 3600)
    assert make_policy(None, "7d", "1h") == Policy(1, 604_800, 3600)
    assert make_policy(3, "0s", "2h") == Policy(3, 0, 7200)


# --- which commits ------------------------------------------------------------------------------------------------------


def commits(*ages_s: int | None) -> list[SeenCommit]:
    """Newest first, by age; None is a commit whose version is gone."""
    return [
        SeenCommit(f"c{index}", 100 - index, None if age is None else NOW - age * S) for index, age in enumerate(ages_s)
    ]


@pytest.mark.parametrize(
    ("ages", "policy", "oldest"),
    [
        ((0, 10, 20, 30), Policy(2, 0, 0), "c1"),
        ((0, 10, 20, 30), Policy(1, 25, 0), "c2"),
        ((0, 10, 20, 30), Policy(3, 5, 0), "c2"),  # the union of both
        ((0, 10, 20, 30), Policy(1, 0, 15), "c2"),  # c2 was the head until 10 s ago
        ((0, 10, 20, 30), Policy(99, 0, 0), "c3"),
        ((500, 510, 520), Policy(1, 0, 60), "c0"),
        ((500,), Policy(1, 0, 0), "c0"),
        ((0, 10, None, None), Policy(9, 0, 0), "c1"),
        ((None,), Policy(1, 0, 0), None),
        ((), Policy(1, 0, 0), None),
    ],
)
def test_the_oldest_commit_that_is_retained(ages: tuple[int | None, ...], policy: Policy, oldest: str | None) -> None:
    found = oldest_retained(commits(*ages), policy, NOW)
    assert (found.commit_id if found else None) == oldest


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(1, 6), st.integers(0, 60), st.integers(0, 60))
def test_every_commit_that_a_bound_asks_for_is_retained(steps: list[int], keep: int, older: int, least: int) -> None:
    ages = list(itertools.accumulate(steps))
    seen = commits(*ages)
    found = oldest_retained(seen, Policy(keep, older, least), NOW)
    assert found is not None
    kept = seen.index(found) + 1
    wanted = [
        index
        for index, age in enumerate(ages)
        if index < keep or age < older or (ages[index - 1] if index else 0) < least
    ]
    assert kept == max(wanted) + 1


# --- which versions -----------------------------------------------------------------------------------------------------


def files(*ages_s: int) -> tuple[VersionFile, ...]:
    return tuple(VersionFile(number + 1, 10, NOW - age * S) for number, age in enumerate(ages_s))


def line(ages: tuple[int, ...], kept: tuple[Range, ...], exempt: str | None = None) -> Line:
    return Line("node:T", "nodes/T", None, files(*ages), kept, exempt)


def test_a_version_is_doomed_exactly_if_nothing_keeps_it_and_it_is_old_enough() -> None:
    """Every set of three ranges over five versions, every age cut."""
    ends: list[tuple[int, int | None]] = [*itertools.combinations_with_replacement(range(1, 6), 2)]
    ends += [(low, None) for low in range(1, 6)]
    ages = (50, 40, 30, 20, 10)
    for chosen in itertools.combinations(ends, 2):
        for least in (0, 15, 35, 100):
            kept = tuple(Range(low, high, "why") for low, high in chosen)
            plan = doom(line(ages, kept), Policy(1, 0, least), NOW)
            for version, age in enumerate(ages, start=1):
                needed = any(low <= version and (high is None or version <= high) for low, high in chosen)
                expected = not needed and age >= least and version != 5
                assert (version in plan.doomed) == expected
            assert plan.kept + plan.young + len(plan.doomed) == 5
            assert plan.doomed_bytes == 10 * len(plan.doomed)


def test_the_newest_version_is_never_doomed() -> None:
    assert doom(line((9, 9, 9), ()), Policy(1, 0, 0), NOW).doomed == (1, 2)
    assert doom(line((), ()), Policy(1, 0, 0), NOW).doomed == ()


def test_a_table_that_is_being_written_is_left_whole() -> None:
    plan = doom(line((9, 9, 9), (), exempt="pending load X"), Policy(1, 0, 0), NOW)
    assert (plan.doomed, plan.kept, plan.exempt) == ((), 3, "pending load X")


def test_a_second_look_only_spares() -> None:
    def plan(*doomed: int) -> LinePlan:
        return LinePlan("node:T", "nodes/T", None, doomed, 0, 0, 0)

    for before, after in itertools.product(
        itertools.chain.from_iterable(itertools.combinations((1, 2, 3), n) for n in range(4)), repeat=2
    ):
        spared = spare({("nodes/T", None): plan(*before)}, [plan(*after)])
        assert set(spared["nodes/T", None].doomed) == set(before) & set(after)
    assert spare({}, [plan(1)]) == {}
    assert spare({("nodes/T", None): plan(1)}, []) == {}


@given(st.sets(st.integers(1, 30)))
def test_ranges_say_exactly_the_versions(versions: set[int]) -> None:
    text = ranges_text(sorted(versions))
    found: set[int] = set()
    for part in filter(None, text.split(", ")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    assert found == versions


# --- what a branch keeps ------------------------------------------------------------------------------------------------


def state(**pins: int) -> State:
    tables = {
        name: Pin(name, name, 1, name, f"nodes/{name}", None, version, owner="b") for name, version in pins.items()
    }
    return State(1, None, Head("b", "c"), SchemaRow("", "", "", ""), tables)


@given(
    st.lists(st.dictionaries(st.sampled_from("ABC"), st.integers(1, 3), min_size=1), min_size=1, max_size=8),
    st.integers(0, 7),
)
def test_whatever_a_retained_state_names_is_kept(steps: list[dict[str, int]], from_: int) -> None:
    """Pins only rise; tables come and stay. The ranges of the oldest and the newest state hold everything in between."""
    history: list[dict[str, int]] = []
    now: dict[str, int] = {}
    for step in steps:
        now = {**now, **{name: now.get(name, 0) + rise for name, rise in step.items()}}
        history.append(now)
    first = min(from_, len(history) - 1)
    kept: dict[str, list[Range]] = {}
    for (place, _ref), span in branch_ranges(state(**history[first]), state(**history[-1]), "main"):
        kept.setdefault(place.removeprefix("nodes/"), []).append(span)
    for retained in history[first:]:
        for name, version in retained.items():
            assert any(span.holds(version) for span in kept[name])
    for name, version in history[first].items():
        assert not any(span.holds(version - 1) for span in kept[name])
