"""A process that slept in the middle of a write or of a recovery does no harm when it wakes, and is told the truth.

The short form: some places of a write, of an upkeep run and of a recovery. All of all are ``./run pause``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from omnigraph.testing.cells import CALLS, Cell, Matrix, Verdict
from omnigraph.testing.zombies import SLEEP, WOKE_UP, deaths, pause, sleepers

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
AllClean = Callable[[Iterable[Verdict]], list[Verdict]]


def test_a_writer_stopped_anywhere_does_no_harm_when_it_goes_on(matrix: Matrix, all_clean: AllClean) -> None:
    cells = list(sleepers(matrix, "append", 2, "local"))
    # Between the first request that others can see and the last; outside of these there is nothing to disturb.
    places = ("arm.after", "apply.", "publish.", "disarm.before")
    chosen = [cell for cell in cells if cell.cut.startswith(places)]
    verdicts = all_clean(pause(matrix, cell) for cell in chosen[::2])
    assert all(v.ended == WOKE_UP for v in verdicts) and len(verdicts) >= 4
    assert {v.now for v in verdicts} == {"after"}, "a sleeper that was rolled back writes again"


def test_an_upkeep_run_stopped_between_its_commits_does_no_harm(matrix: Matrix, all_clean: AllClean) -> None:
    cells = [c for c in sleepers(matrix, "optimize", 1, "local") if c.cut.startswith(("maintain.", "publish."))]
    assert cells
    all_clean(pause(matrix, cell) for cell in cells[:: len(cells) // 2 + 1])


@pytest.mark.parametrize("name", ["schema-filled", "schema-rule"])
def test_a_change_of_the_schema_stopped_anywhere_does_no_harm_when_it_goes_on(
    matrix: Matrix, all_clean: AllClean, name: str
) -> None:
    cells = [c for c in sleepers(matrix, name, 1, "local") if c.cut.startswith(("arm.after", "apply.", "publish."))]
    verdicts = all_clean(pause(matrix, cell) for cell in cells[:: len(cells) // 2 + 1])
    assert all(v.ended == WOKE_UP for v in verdicts) and verdicts


@pytest.mark.parametrize("name", ["branch-first-write", "merge-both", "branch-restore"])
def test_who_is_stopped_on_a_branch_does_no_harm_to_those_who_write_there(
    matrix: Matrix, all_clean: AllClean, name: str
) -> None:
    cells = [c for c in sleepers(matrix, name, 1, "local") if c.cut.startswith(("apply.", "publish."))]
    verdicts = all_clean(pause(matrix, cell) for cell in cells[:: len(cells) // 2 + 1])
    assert all(v.ended == WOKE_UP for v in verdicts) and verdicts


@pytest.mark.parametrize("name", ["combine-helps", "offer-carried", "offer-refused", "compensation"])
def test_who_meets_rivals_in_its_own_process_does_no_harm_when_it_goes_on(
    matrix: Matrix, all_clean: AllClean, name: str
) -> None:
    """What the rival alone leaves is no half of the sleeper's write."""
    places = ("apply.", "publish.", "combine.", "carry.")
    cells = [c for c in sleepers(matrix, name, 1, "local") if c.cut.startswith(places)]
    verdicts = all_clean(pause(matrix, cell) for cell in cells[:: len(cells) // 3 + 1])
    assert any(v.ended == WOKE_UP for v in verdicts)


@pytest.mark.parametrize("place", ["*:2", "*:4"])
def test_a_recovery_stopped_anywhere_does_no_harm_when_it_goes_on(
    matrix: Matrix, all_clean: AllClean, place: str
) -> None:
    back, _forward = deaths(matrix, "append", 2)
    [verdict] = all_clean([pause(matrix, Cell("append", 2, "local", place, SLEEP, back))])
    assert verdict.ended == WOKE_UP


def test_a_writer_stopped_between_two_calls_of_the_system_does_no_harm_when_it_goes_on(
    matrix: Matrix, all_clean: AllClean, watchable: None
) -> None:
    cells = list(sleepers(matrix, "append", 1, CALLS))
    verdicts = all_clean(pause(matrix, cell) for cell in cells[4::9])
    assert sum(v.ended == WOKE_UP for v in verdicts) >= 3


def test_a_request_held_on_the_wire_does_no_harm_when_it_arrives(matrix: Matrix, all_clean: AllClean) -> None:
    cells = list(sleepers(matrix, "append", 1, "s3"))
    verdicts = all_clean(pause(matrix, cell) for cell in cells[3::5])
    assert sum(v.ended == WOKE_UP for v in verdicts) >= 3
