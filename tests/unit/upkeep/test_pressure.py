"""Back-pressure as a pure function: which figure counts, and what each bound does."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit.pressure import FULL_FRAGMENT_ROWS, PAUSE_S_MAX, Bounds, Level, make_bounds, unmerged, weigh
from omnigraph.core.errors import InvalidInput, Overloaded
from omnigraph.manifest.rows import BaseVersion, Head, Pin, SchemaRow
from omnigraph.manifest.state import State


def state(fragments: dict[str, int], *, version: int = 1, boundary: int = 0, rows: int = 0) -> State:
    tables = {
        key: Pin(key, key, 1, key, f"nodes/{key}", None, 1, rows=rows, fragments=count, owner="b")
        for key, count in fragments.items()
    }
    return State(version, None, Head("b", "c", boundary=boundary), SchemaRow("", "", "", ""), tables)


def test_each_level_begins_at_its_bound() -> None:
    bounds = Bounds(10, 20, 30)
    for count in range(1, 40):
        level = weigh(state({"A": count}), ["A"], 0, bounds).level
        expected = (Level.NONE, Level.WARN, Level.SLOW, Level.FAIL)[(count >= 10) + (count >= 20) + (count >= 30)]
        assert level is expected


def test_a_level_that_is_not_configured_never_comes() -> None:
    for warn, slow, fail in itertools.product((None, 1), repeat=3):
        level = weigh(state({"A": 1000}), ["A"], 0, Bounds(warn, slow, fail)).level
        expected = Level.FAIL if fail else Level.SLOW if slow else Level.WARN if warn else Level.NONE
        assert level is expected


def test_the_worst_figure_counts_and_names_its_command() -> None:
    bounds = Bounds(10, None, 100)
    fragments = weigh(state({"A": 50, "B": 60}, version=20), ["A", "B"], 5, bounds)
    assert (fragments.metric, fragments.actual, fragments.where, fragments.command) == (
        "fragments",
        60,
        "B",
        "optimize",
    )
    versions = weigh(state({"A": 1}, version=90, boundary=20), ["A"], 5, bounds)
    assert (versions.metric, versions.actual, versions.command) == ("versions", 70, "cleanup")
    intents = weigh(state({"A": 1}), ["A"], 40, bounds)
    assert (intents.metric, intents.actual, intents.command) == ("intents", 40, "recover")


def test_only_tables_that_are_written_count() -> None:
    assert weigh(state({"A": 1, "B": 10_000}), ["A", "gone"], 0, Bounds(10)).level is Level.NONE


def test_large_fragments_are_not_many() -> None:
    [pin] = state({"A": 1000}, rows=1000 * FULL_FRAGMENT_ROWS).tables.values()
    assert unmerged(pin) == 0
    assert weigh(state({"A": 1000}, rows=1000 * FULL_FRAGMENT_ROWS), ["A"], 0, Bounds(10)).level is Level.NONE


def test_writes_wait_longer_the_closer_the_end_is() -> None:
    pauses = [weigh(state({"A": n}), ["A"], 0, Bounds(None, 10, 30)).pause_s for n in range(10, 30)]
    assert pauses == sorted(pauses) and 0 < pauses[0] < pauses[-1] <= PAUSE_S_MAX
    assert weigh(state({"A": 999}), ["A"], 0, Bounds(None, 10)).pause_s == PAUSE_S_MAX


def test_a_refusal_carries_metric_bound_and_command() -> None:
    error = weigh(state({"A": 99}), ["A"], 0, Bounds(1, 2, 3)).refusal()
    assert isinstance(error, Overloaded)
    assert (error.metric, error.bound, error.actual, error.command) == ("fragments", 3, 99, "optimize")
    assert "omnigraph optimize" in error.hint


def test_without_configuration_writes_only_warn() -> None:
    assert make_bounds(None) == Bounds(500, None, None)
    assert make_bounds({"fail": 10_000}) == Bounds(500, None, 10_000)
    assert make_bounds({"warn": None}) == Bounds(None, None, None)


@pytest.mark.parametrize(
    "bad", [{"warn": 0}, {"slow": -1}, {"fail": "10"}, {"warn": True}, {"stop": 3}, {"warn": 10, "slow": 5}]
)
def test_bounds_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make_bounds(bad)


def test_what_lies_on_other_lines_does_not_count() -> None:
    """Another branch merges them, or nobody; and only a table that is near a bound is opened to tell."""
    here = state({"A": 60, "B": 60, "C": 5})
    tables = {
        "A": replace(here.tables["A"], owner="main"),
        "B": replace(here.tables["B"], bases=(BaseVersion(None, 1, True),)),
        "C": replace(here.tables["C"], bases=(BaseVersion(None, 1, True),)),
    }
    asked = []

    def own(pin: Pin) -> int:
        asked.append(pin.key)
        return 20

    found = weigh(replace(here, tables=tables), ["A", "B", "C"], 0, Bounds(10), own)
    assert (found.metric, found.actual, found.where) == ("fragments", 20, "B") and asked == ["B"]
    assert weigh(replace(here, tables=tables), ["A"], 0, Bounds(2)).level is Level.NONE


def test_a_bound_below_the_usual_warning_is_taken_alone() -> None:
    """A user who gives one bound has not contradicted the default of another."""
    assert make_bounds({"fail": 300}) == Bounds(300, None, 300)
    assert make_bounds({"slow": 100, "fail": 10_000}) == Bounds(100, 100, 10_000)
    assert make_bounds({"fail": 10_000}).warn == Bounds().warn
    assert make_bounds({"warn": None, "fail": 3}) == Bounds(None, None, 3)
