"""A step that takes long says how far it is: lines in the log of the run, now and then, never a flood."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.core.progress import Progress
from omnigraph_pipelines import progress
from omnigraph_pipelines.progress import LINES_MAX, Lines, line
from tests.component.upkeep.material import make
from tests.pipelines.upkeep_location import location


def event(**given: object) -> Progress:
    said: dict[str, object] = {
        "operation": "load", "phase": "publishing", "unit": "tables", "done": 3, "total": 4, "bytes": 0,
        "bytes_total": None, "subject": None, "elapsed_s": 12.0, "state": "running",
    }  # fmt: skip
    return Progress(**{**said, **given})  # type: ignore[arg-type]


def test_a_line_says_where_it_is_and_how_much_is_left() -> None:
    assert line(event()) == "load, publishing: 3 of 4 tables after 12 s about 4 s to go"
    told = line(event(total=None, bytes=2_500_000, bytes_total=10_000_000, subject="node:Person", done=1_000))
    assert told == "load, publishing: 1,000 tables (2.5 of 10.0 MB) at node:Person after 12 s about 36 s to go"
    assert line(event(state="done", done=4)).endswith("4 of 4 tables after 12 s done")


def test_an_estimate_that_was_passed_is_no_total_any_more() -> None:
    said = line(event(unit="rows", done=124, total=105, bytes=9, bytes_total=5, elapsed_s=52.0))
    assert said == "load, publishing: 124 rows (0.0 MB) after 52 s"
    assert "of 105" not in said and "to go" not in said


def test_lines_are_seconds_apart_and_in_the_end_minutes() -> None:
    now = 0.0
    said: list[str] = []
    listener = Lines(said.append, lambda: now)
    for _ in range(4 * 3600 * 10):
        now += 0.1
        listener(event())
    assert said[0] and LINES_MAX < len(said) <= LINES_MAX + 4 * 60


def test_upkeep_tells_its_progress_in_the_log_of_its_run(
    tmp_path: Path, local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    with make(local_root, commits=4), location(tmp_path / "location", local_root) as here:
        run = here.materialize("optimize")
        assert run.success
        said = [one.user_message for one in here.instance.all_logs(run.run_id) if one.dagster_event is None]
    assert any(one.startswith("optimize, ") for one in said), said
