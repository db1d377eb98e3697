"""A real process killed at its k-th store request or failpoint; then recovery; then what a reader sees.

The short form. The long one (every operation, every width, both stores, recovery killed as well) is ``./run crash``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.cells import CALLS, Cell, Matrix, Verdict

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]
# Every cut of these, and some of each of the others: all of all are the long form.
WHOLE = ("append", "mutate-delete")
SOME = 5
AllClean = Callable[[Iterable[Verdict]], list[Verdict]]


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "init"])
def test_a_write_killed_at_any_failpoint_on_a_disk_is_whole_or_absent(
    matrix: Matrix, all_clean: AllClean, name: str
) -> None:
    cells = list(matrix.crash_cells(name, 2, "local"))
    whole = name in WHOLE
    verdicts = all_clean(matrix.run(cell) for cell in (cells if whole else cells[:: len(cells) // SOME + 1]))
    if not whole:
        return
    assert {v.now for v in verdicts} == {"before", "after"}, "cuts on both sides of the decision were met"
    assert any(v.was == "before" and v.now == "after" for v in verdicts), "a complete plan is rolled forward"


@pytest.mark.parametrize("name", ["append", "chain", "fork", "load-merge"])
def test_a_write_that_syncs_is_whole_or_absent_as_well(syncing_matrix: Matrix, all_clean: AllClean, name: str) -> None:
    cells = list(syncing_matrix.crash_cells(name, 1, "local"))
    all_clean(syncing_matrix.run(cell) for cell in cells[:: len(cells) // SOME + 1])
    passed = syncing_matrix.passed[(name, 1)]
    assert any(place.startswith("store.sync") for place in passed), "the writer has synced"


def test_a_write_killed_between_two_calls_of_the_system_is_whole_or_absent(
    matrix: Matrix, all_clean: AllClean, watchable: None
) -> None:
    cells = list(matrix.crash_cells("append", 1, CALLS))
    verdicts = all_clean(matrix.run(cell) for cell in cells[::3])
    assert sum(v.reached for v in verdicts) >= 10, "the calls of Lance are among them"
    assert {v.now for v in verdicts} == {"before", "after"}


def test_a_recovery_killed_between_two_calls_of_the_system_is_finished_by_the_next(
    matrix: Matrix, all_clean: AllClean, watchable: None
) -> None:
    cells = list(matrix.crash_cells("append", 2, CALLS))
    all_clean(v for v, _ in zip(matrix.double(cells[len(cells) // 2]), range(4), strict=False))


def test_a_graph_whose_creation_is_killed_anywhere_exists_or_can_be_created(
    matrix: Matrix, all_clean: AllClean
) -> None:
    verdicts = all_clean(matrix.run(cell) for cell in matrix.crash_cells("init", 2, "local"))
    assert {v.now for v in verdicts} == {"before", "after"}


def test_a_write_killed_at_every_request_to_a_store_is_whole_or_absent(matrix: Matrix, all_clean: AllClean) -> None:
    cells = list(matrix.crash_cells("append", 2, "s3"))
    verdicts = all_clean(matrix.run(cell) for cell in cells)
    assert len(cells) >= 2 * 11 and sum(v.reached for v in verdicts) >= 2 * 10
    assert {v.now for v in verdicts} == {"before", "after"}


def test_a_recovery_that_is_killed_anywhere_is_finished_by_the_next(matrix: Matrix, all_clean: AllClean) -> None:
    for cut in ("apply.before_commit:2", "publish.before_swap:1", "disarm.before:1"):
        verdicts = all_clean(matrix.double(Cell("append", 2, "local", cut, "kill")))
        assert len(verdicts) > 2, "recovery has more than one place"


def test_a_recovery_on_a_store_that_is_killed_at_a_request_is_finished_by_the_next(
    matrix: Matrix, all_clean: AllClean
) -> None:
    learned = [c for c in matrix.crash_cells("append", 1, "s3") if c.what == "answer"]
    landed = learned[len(learned) // 2]
    all_clean(v for v, _ in zip(matrix.double(landed), range(6), strict=False))
