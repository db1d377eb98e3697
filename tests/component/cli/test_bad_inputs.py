"""What people get wrong is answered with the place, a remedy and the right exit code; see ``bad_inputs`` for the rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.cli.bad_input_cases import CASES
from tests.component.cli.bad_inputs import GRAPH, Case, Scored, folder_with_graph, score

POINTS_MEAN_MIN = 2.8


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with folder_with_graph(tmp_path):
        yield tmp_path


@pytest.mark.timeout(300)
def test_wrong_inputs_are_answered_with_place_remedy_and_exit_code(folder: Path) -> None:
    found = [score(case) for case in CASES]
    points = [one.points for one in found]
    weak = [f"{one.points} {one.case.name}: exit {one.code}\n{one.said}" for one in found if one.points < 3]
    assert len(points) >= 135
    assert sum(points) / len(points) >= POINTS_MEAN_MIN, "\n".join(weak)
    assert 0 not in points, "\n".join(weak)
    assert not [one.case.name for one in found if not one.right]


@pytest.mark.parametrize(
    ("case", "lost"),
    [
        (Case("other place", ("status", "none.omni"), 3, ("nowhere",), ("omnigraph init",)), "place"),
        (Case("other remedy", ("status", "none.omni"), 3, ("none.omni",), ("pray",)), "remedy"),
        (Case("other code", ("status", "none.omni"), 4, ("none.omni",), ("omnigraph init",)), "right"),
        (Case("written", ("checkpoint", "create", GRAPH, "x"), 3), "right"),
    ],
)
def test_an_answer_that_lacks_something_loses_the_point(folder: Path, case: Case, lost: str) -> None:
    found: Scored = score(case)
    assert found.points == 2 and getattr(found, lost) is False
