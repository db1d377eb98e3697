"""One request that fails, is lost or loses its answer, and the writer lives on.

Afterwards the graph reads as before or as after, the caller was told which (or was given an id to ask with), and the next
write works. The short form; every request × every kind of fault is ``./run fault``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from omnigraph.testing.cells import Matrix, Verdict
from omnigraph.testing.operations import OPERATIONS

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
