"""Branches that are worked on, merged and taken back beside batches, upkeep and a reader of the feed, all of them killed at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.testing import team
from omnigraph.testing.team import Day

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_a_day_of_a_team_ends_with_a_copy_that_equals_main(tmp_path: Path) -> None:
    day = Day(str(tmp_path / "g"), rows=4_000, steps=8, kill_every_s=1.5)
    assert day.run() == []
    assert day.kills > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_day_of_a_team_on_two_hundred_thousand_rows(tmp_path: Path) -> None:
    day = Day(str(tmp_path / "g"), rows=200_000, steps=40, kill_every_s=3, limit_s=1500)
    assert day.run() == []
    assert day.kills > 10


def test_planted_a_bad_batch_that_stays_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge asks for what should be there, and compares the copy row by row."""
    day = Day(str(tmp_path / "g"), rows=4_000, steps=8)
    team.start(day.root, day.rows)
    team.begin_copy(day.root)
    said: list[object] = []
    for who in team.AGENTS:
        team.work(said.append, day.root, who, 0, day.steps)
    for who in team.RECEIVERS:
        team.receive(said.append, day.root, who, 0, day.steps)
    with team.graphs.open(day.root) as graph:
        for who in team.AGENTS:
            team._merge(graph, who)
    found = day._judge()
    assert len(found) == len(team.BAD_BILLS) and all("bad batch" in one for one in found)
    with team.graphs.open(team.copy_of(day.root)) as copy:
        copy.load([{"type": "Bill", "data": {"number": "b0", "total": 77}}], mode="merge")
    assert "Bill differs from what the feed told" in day._judge()
