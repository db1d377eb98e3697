"""One request that fails, is lost or loses its answer, or a disk that fails, and the writer lives on.

Afterwards the graph reads as before or as after, the caller was told which (or was given an id to ask with), and the next
write works. The short form; every request × every kind of fault is ``./run fault``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.cells import FULL, Matrix, Verdict

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]
AllClean = Callable[[Iterable[Verdict]], list[Verdict]]
# Every failpoint of these, and some of each of the others: all of all are the long form.
WHOLE = ("append", "mutate-delete")
SOME = 5
ONCE = ("503 before", "request lost", "answer lost")


@pytest.mark.parametrize("kind", ONCE)
@pytest.mark.parametrize(("name", "width"), [("append", 2), ("init", 1)])
def test_every_request_may_fail_once_in_every_way(
    matrix: Matrix, all_clean: AllClean, name: str, width: int, kind: str
) -> None:
    verdicts = all_clean(matrix.run(cell) for cell in matrix.fault_cells(name, width, (kind,)))
    assert all(v.ended for v in verdicts)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "init"])
def test_every_failpoint_on_a_disk_may_raise_once(matrix: Matrix, all_clean: AllClean, name: str) -> None:
    cells = list(matrix.raise_cells(name, 2))
    some = cells if name in WHOLE else cells[:: len(cells) // SOME + 1]
    verdicts = all_clean(matrix.run(cell) for cell in some)
    assert {v.ended for v in verdicts} <= {"done", "error"}


@pytest.mark.parametrize("name", ["append", "branch-staged-write", "init"])
def test_every_sync_of_a_write_may_fail_once(syncing_matrix: Matrix, all_clean: AllClean, name: str) -> None:
    cells = [cell for cell in syncing_matrix.raise_cells(name, 1) if cell.cut.startswith("store.sync")]
    verdicts = all_clean(syncing_matrix.run(cell) for cell in cells)
    assert "error" in {v.ended for v in verdicts}, "a failed sync was said"


@pytest.mark.parametrize(("name", "width"), [("append", 1), ("mutate-delete", 1), ("optimize", 1)])
def test_every_call_of_the_system_may_fail_once(
    matrix: Matrix, all_clean: AllClean, watchable: None, name: str, width: int
) -> None:
    cells = list(matrix.failing_calls(name, width, ("ENOSPC",)))
    # Every write to a file, whose failure Lance may keep to itself, and some of the other calls.
    called = matrix.called[(name, width)]
    writes = [cell for cell in cells if called[int(cell.cut) - 1].name == "write"]
    verdicts = all_clean(matrix.run(cell) for cell in {*writes[:12], *cells[:: len(cells) // SOME + 1]})
    assert {v.ended for v in verdicts} == {"done", "error"}


def test_a_disk_that_becomes_full_before_anything_is_committed_changes_nothing(
    matrix: Matrix, all_clean: AllClean, watchable: None
) -> None:
    cells = list(matrix.failing_calls("append", 2, (FULL,)))
    verdicts = all_clean(matrix.run(cell) for cell in cells[2:12:4])
    assert {(v.ended, v.now) for v in verdicts} == {("error", "before")}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_disk_that_becomes_full_at_any_time_loses_nothing(
    matrix: Matrix, all_clean: AllClean, watchable: None
) -> None:
    cells = list(matrix.failing_calls("append", 2, (FULL,)))
    verdicts = all_clean(matrix.run(cell) for cell in cells[::4])
    assert {v.now for v in verdicts} == {"before", "after"}
