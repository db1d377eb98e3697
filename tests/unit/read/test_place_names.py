"""What a place can mean, without any graph."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from omnigraph.core.errors import InvalidInput
from omnigraph.read.place_names import hint_for, meaning, place_text, read_commit_name, read_place, the_one

NOON = 1_795_003_200_000_000  # 2026-11-18T12:00Z
ID = "01M7T31HFJF331WGQBKWWV8BRK"


def test_a_full_commit_id_is_a_commit_whatever_else_has_its_name() -> None:
    name = read_place(ID, 0)
    assert name.is_commit_id and meaning(name, checkpoint=True, branch=True) == "commit"


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2026-11-18T12:00Z", NOON),
        ("2026-11-18T12:00", NOON),
        ("2026-11-18 14:00+02:00", NOON),
        ("2026-11-18T12:00:00.000001Z", NOON + 1),
        ("2026-11-18", NOON - 12 * 3_600_000_000),
        ("time:2026-11-18T12:00Z", NOON),
        ("2h ago", NOON - 7_200_000_000),
        ("90s ago", NOON - 90_000_000),
        ("3 w  ago", NOON - 3 * 604_800_000_000),
        (dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC).replace(tzinfo=None), NOON),
        (dt.datetime(2026, 11, 18, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))), NOON),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: Any, us: int) -> None:
    name = read_place(text, NOON)
    assert name.time_us == us
    assert meaning(name, checkpoint=False, branch=False) == "time"


def test_names_come_before_times_and_beginnings_of_ids() -> None:
    for text in ("2026-11-18", ID[:10]):
        name = read_place(text, 0)
        assert meaning(name, checkpoint=True, branch=False) == "checkpoint"
        assert meaning(name, checkpoint=False, branch=True) == "branch"
    assert meaning(read_place(ID[:10], 0), checkpoint=False, branch=False) == "commit"
    assert meaning(read_place(ID[:9], 0), checkpoint=False, branch=False) is None


def test_a_name_that_is_two_things_is_refused_and_both_are_named() -> None:
    with pytest.raises(InvalidInput, match="'x' is a checkpoint and a branch") as caught:
        meaning(read_place("x", 0), checkpoint=True, branch=True)
    assert "checkpoint:x" in caught.value.hint and "branch:x" in caught.value.hint


@pytest.mark.parametrize("kind", ["checkpoint", "branch"])
def test_a_kind_that_is_written_down_holds(kind: str) -> None:
    name = read_place(f"{kind}:x", 0)
    assert (name.value, meaning(name, checkpoint=True, branch=True)) == ("x", kind)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "  ",
        7,
        None,
        b"x",
        ["x"],
        "commit:x",
        f"commit:{ID[:9]}",
        "commit:",
        "time:",
        "time:noon",
        "time:2026-13-01",
    ],
)
def test_what_names_nothing_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        read_place(bad, 0)
    with pytest.raises(InvalidInput):
        place_text(bad)


def test_not_a_time_of_pandas_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInput, match="not a time"):
        read_place(pandas.NaT, 0)
    assert read_place(pandas.Timestamp("2026-11-18T12:00Z"), 0).time_us == NOON


def test_a_place_as_text_means_the_same() -> None:
    time = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)
    assert read_place(place_text(time), 0).time_us == NOON
    assert place_text("2h ago") == "2h ago"


@pytest.mark.parametrize("given", [ID, ID[:10], f"commit:{ID}", f"commit:{ID[:12]}"])
def test_a_commit_is_named_by_its_id_or_the_beginning_of_it(given: str) -> None:
    assert ID.startswith(read_commit_name(given).value)


@pytest.mark.parametrize("given", ["main", "branch:main", "2h ago", "time:2026-11-18", "", 7, ID[:9], ID.lower()])
def test_nothing_else_names_a_commit(given: Any) -> None:
    with pytest.raises(InvalidInput):
        read_commit_name(given)


def test_the_beginning_of_an_id_fits_one_commit_or_is_refused() -> None:
    name = read_place(ID[:10], 0)
    assert the_one(name, [ID], "main") == ID
    assert the_one(name, [], "main") is None
    with pytest.raises(InvalidInput, match="2 commits of main begin with") as caught:
        the_one(name, [ID, ID[:-1] + "0"], "main")
    assert ID in caught.value.hint


def test_a_hint_says_what_exists() -> None:
    assert hint_for(read_place("Release", 0), ["release-1", "x"], ["main"]) == "did you mean checkpoint 'release-1'?"
    assert hint_for(read_place("MAIN", 0), [], ["main", "dev"]) == "did you mean branch 'main'?"
    assert "upper case" in hint_for(read_place(ID.lower(), 0), [], ["main"])
    assert "branch 'main', checkpoint 'a'" in hint_for(read_place("zzz", 0), ["a"], ["main"])
