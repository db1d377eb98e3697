"""What runs upkeep unasked: real graphs, one instance, ticks and runs as a daemon would make them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph.manifest import state
from omnigraph.testing.faults import FaultProxy
from omnigraph_pipelines.defs.upkeep.names import CLEANUP, Names
from omnigraph_pipelines.defs.upkeep.runs import reports_of
from tests.component.upkeep.material import displace, leave_ticket, make, people
from tests.pipelines.upkeep_location import Location, location

MARKS: dict[str, Any] = {
    "compaction": {"fragments_max": 3, "fragments_low": 1},
    "cleanup": {"keep": 1, "older_than": None, "min_age": "0s", "versions_max": 8, "versions_low": 4},
    "reconcile": {"grace_s": 30},
}


@pytest.fixture
def here(tmp_path: Path, local_root: str) -> Iterator[Location]:
    with location(tmp_path / "location", local_root, upkeep=MARKS) as found:
        yield found


@pytest.fixture
def short_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fragment of archive at every commit, instead of every 64th."""
    monkeypatch.setattr(state, "TAIL_ROLL", 2)
    monkeypatch.setattr(state, "TAIL_KEEP", 1)


def age(folder: str, seconds: float) -> None:
    """Pending writes were written so long ago."""
    then = time.time() - seconds
    for file in (Path(folder) / "__recovery").iterdir():
        os.utime(file, (then, then))


def do(here: Location, job: str, tick: Any) -> Any:
    """The run that a tick asked for, to its end."""
    [request] = tick.run_requests
    return here.run(job, tags={**request.tags, "dagster/run_key": request.run_key})


# --- each loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sensor", ["manifest_fragments", "version_backlog", "pending_intents"])
def test_before_there_is_a_graph_a_tick_is_quiet(here: Location, local_root: str, sensor: str) -> None:
    assert here.tick(sensor).skip_message == "there is no graph yet: the first batch makes it"
    assert not Path(local_root).exists()


@pytest.mark.parametrize("sensor", ["manifest_fragments", "version_backlog", "pending_intents"])
def test_a_quiet_tick_says_its_numbers(here: Location, local_root: str, sensor: str) -> None:
    make(local_root, commits=2).close()
    tick = here.tick(sensor)
    assert tick.run_requests == []
    expected = {
        "manifest_fragments": "0 archive fragments (high mark 3, low mark 1)",
        "version_backlog": "3 versions to clean up (high mark 8, low mark 4)",
        "pending_intents": "oldest pending write: 0 s (high mark 30, low mark 29); "
        "0 archive fragments (high mark 6, low mark 3)",
    }
    assert tick.skip_message == expected[sensor]


def test_a_long_archive_is_merged_and_the_sensor_is_quiet_again(
    here: Location, local_root: str, short_archive: None
) -> None:
    make(local_root, commits=6).close()
    tick = here.tick("manifest_fragments")
    assert do(here, "compaction", tick).success
    after = here.tick("manifest_fragments")
    assert after.run_requests == []
    assert after.skip_message.startswith("1 archive fragments")


def test_a_backlog_is_cleaned_up_and_the_sensor_is_quiet_again(here: Location, local_root: str) -> None:
    with make(local_root, commits=9) as graph:
        tick = here.tick("version_backlog")
        assert do(here, "cleanup", tick).success
        assert graph.probe("version_backlog") <= 4
    assert here.tick("version_backlog").run_requests == []


def test_what_cleanup_must_keep_is_not_tried_again_at_every_tick(tmp_path: Path, local_root: str) -> None:
    keeping = {**MARKS, "cleanup": {**MARKS["cleanup"], "keep": 100}}
    with location(tmp_path / "location", local_root, upkeep=keeping) as here, make(local_root, commits=9) as graph:
        assert do(here, "cleanup", here.tick("version_backlog")).success
        for _ in range(3):
            tick = here.tick("version_backlog")
            assert tick.run_requests == []
            assert "left 10, the next one at 14" in tick.skip_message
        for number in range(4):
            graph.load(people(f"more{number}"), mode="append")
        assert len(here.tick("version_backlog").run_requests) == 1


def test_what_was_written_after_a_cleanup_is_not_what_it_left(here: Location, local_root: str) -> None:
    with make(local_root, commits=9) as graph:
        assert do(here, "cleanup", here.tick("version_backlog")).success
        [left] = [one.numbers["backlog"] for one in reports_of(here.instance, Names(here.file.settings.graph), CLEANUP)]
        assert left == graph.probe("version_backlog") <= 4
        for number in range(6):  # before the next tick, and then no more
            graph.load(people(f"more{number}"), mode="append")
        assert do(here, "cleanup", here.tick("version_backlog")).success
        assert here.tick("version_backlog").run_requests == [] and graph.probe("version_backlog") <= 4


def test_a_night_by_hand_counts_and_a_dry_run_does_not(tmp_path: Path, local_root: str) -> None:
    keeping = {**MARKS, "cleanup": {**MARKS["cleanup"], "keep": 100}}
    with location(tmp_path / "location", local_root, upkeep=keeping) as here, make(local_root, commits=9) as graph:
        dry = here.run("cleanup", {"dry_run": True}, tags=Names(here.file.settings.graph).tags(CLEANUP))
        assert dry.success
        assert len(here.tick("version_backlog").run_requests) == 1
        assert here.run("nightly_upkeep").success
        left = graph.probe("version_backlog")
        tick = here.tick("version_backlog")
        assert tick.run_requests == [] and f"left {left}" in tick.skip_message


def test_a_write_that_was_left_behind_is_ended_once_it_is_older_than_the_grace(here: Location, local_root: str) -> None:
    with make(local_root, commits=2) as graph:
        leave_ticket(graph, "node:Person")
        age(local_root, 10)
        assert here.tick("pending_intents").run_requests == []
        age(local_root, 40)
        tick = here.tick("pending_intents")
        [request] = tick.run_requests
        assert request.tags["dagster/priority"] == "10"
        config = {"grace_s": 0}  # the ticket's owner is on another machine: it would be watched for the whole grace
        assert here.run("reconcile", config, tags={**request.tags, "dagster/run_key": request.run_key}).success
        assert graph.intents() == ()
    assert here.tick("pending_intents").run_requests == []


def test_an_archive_that_compaction_does_not_merge_calls_the_reconciler(
    here: Location, local_root: str, short_archive: None
) -> None:
    with make(local_root, commits=9) as graph:
        displace(graph, "node:Person")
        assert graph.probe("manifest_fragments") >= 6
        assert do(here, "reconcile", here.tick("pending_intents")).success
        assert graph.verify(deep=True).clean
    # The archive is as long as before: that is compaction's, and no reason to come again.
    assert here.tick("pending_intents").run_requests == []


# --- never two runs for one state ---------------------------------------------------------------------------------------


def test_two_ticks_that_see_the_same_ask_for_the_same_run(here: Location, local_root: str) -> None:
    make(local_root, commits=9).close()
    first = here.tick("version_backlog")
    here.cursors.clear()
    second = here.tick("version_backlog")
    assert first.run_requests[0].run_key == second.run_requests[0].run_key


def test_beside_a_queued_run_nothing_is_asked_for(here: Location, local_root: str) -> None:
    make(local_root, commits=9).close()
    run = here.queue("cleanup", here.tick("version_backlog").run_requests[0])
    tick = here.tick("version_backlog")
    assert tick.run_requests == []
    assert f"run {run.run_id[:8]} is queued or under way" in tick.skip_message


@pytest.mark.parametrize("lost", [False, True], ids=["cursor kept", "cursor lost"])
def test_a_run_that_somebody_started_by_hand_counts(here: Location, local_root: str, lost: bool) -> None:
    make(local_root, commits=9).close()
    key = dg.AssetKey(["people", "upkeep", "cleanup"])
    here.instance.create_run_for_job(
        here.repository.get_implicit_global_asset_job_def(), asset_selection=frozenset([key])
    )
    if lost:
        here.cursors.clear()
    assert here.tick("version_backlog").run_requests == []


def test_a_failed_run_is_repeated_after_a_pause_under_another_key(here: Location, local_root: str) -> None:
    make(local_root, commits=9).close()
    asked = here.tick("version_backlog")
    boundary = Path(local_root) / "__boundary"
    boundary.write_text("a file where a folder belongs")
    assert not do(here, "cleanup", asked).success
    boundary.unlink()
    waiting = here.tick("version_backlog")
    assert waiting.run_requests == []
    assert "attempt 2 in" in waiting.skip_message
    here.now_s = datetime.now(UTC).timestamp() + 31
    again = here.tick("version_backlog")
    assert again.run_requests[0].run_key != asked.run_requests[0].run_key
    assert again.run_requests[0].run_key.endswith(":a2")
    assert do(here, "cleanup", again).success


def test_runs_of_another_graph_do_not_count(here: Location, local_root: str) -> None:
    make(local_root, commits=9).close()
    request = here.tick("version_backlog").run_requests[0]
    here.instance.create_run_for_job(
        here.repository.get_job("cleanup"), tags={**request.tags, "omnigraph/graph": "another"}
    )
    assert len(here.tick("version_backlog").run_requests) == 1


# --- pausing ------------------------------------------------------------------------------------------------------------


def test_paused_upkeep_asks_for_nothing(tmp_path: Path, local_root: str) -> None:
    make(local_root, commits=9).close()
    with location(tmp_path / "location", local_root, lasting=True, upkeep={**MARKS, "paused": True}) as here:
        for sensor in ("manifest_fragments", "version_backlog", "pending_intents"):
            assert here.tick(sensor).skip_message == "upkeep is paused in the graph file"
        for schedule in ("nightly_optimize", "nightly_cleanup"):
            assert night(here, schedule).skip_message == "upkeep is paused in the graph file"


def test_a_loop_that_is_not_enabled_is_there_and_stopped(tmp_path: Path, local_root: str) -> None:
    off = {"compaction": {"enabled": False}, "optimize": {"enabled": False}}
    with location(tmp_path / "location", local_root, upkeep=off) as here:
        repository = here.repository
        assert repository.get_sensor_def("manifest_fragments").default_status is dg.DefaultSensorStatus.STOPPED
        assert repository.get_sensor_def("version_backlog").default_status is dg.DefaultSensorStatus.RUNNING
        assert repository.get_schedule_def("nightly_optimize").default_status is dg.DefaultScheduleStatus.STOPPED


# --- nights -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def by_night(tmp_path: Path, local_root: str) -> Iterator[Location]:
    with location(tmp_path / "location", local_root, lasting=True, upkeep=MARKS) as found:
        yield found


def night(here: Location, schedule: str) -> Any:
    with dg.build_schedule_context(
        instance=here.instance,
        scheduled_execution_time=datetime(2026, 1, 2, 2, 30, tzinfo=UTC),
        repository_def=here.repository,
    ) as context:
        return here.repository.get_schedule_def(schedule).evaluate_tick(context)


@pytest.mark.parametrize(
    ("schedule", "job", "kinds"),
    [
        ("nightly_optimize", "nightly_upkeep", ("reconcile", "optimize", "compaction")),
        ("nightly_cleanup", "cleanup", ("cleanup",)),
    ],
)
def test_a_night_runs_its_upkeep_once(by_night: Location, local_root: str, schedule: str, job: str, kinds: Any) -> None:
    make(local_root, commits=2).close()
    [request] = night(by_night, schedule).run_requests
    assert request.run_key == night(by_night, schedule).run_requests[0].run_key
    result = by_night.run(job, asset_selection=request.asset_selection, tags=dict(request.tags))
    assert result.success
    done = {event.asset_key.path[-1] for event in result.get_asset_materialization_events()}
    assert done == set(kinds)


def test_a_night_puts_tables_back_that_have_versions_of_nobody(by_night: Location, local_root: str) -> None:
    with make(local_root, commits=2) as graph:
        displace(graph, "node:Person")
        [request] = night(by_night, "nightly_optimize").run_requests
        result = by_night.run("nightly_upkeep", asset_selection=request.asset_selection, tags=dict(request.tags))
        assert result.success
        report = graph.recover(grace_s=0)
        assert not report.healed and not report.drifting


def test_a_reconciler_under_way_does_not_keep_a_night_from_its_other_work(by_night: Location) -> None:
    by_night.instance.create_run_for_job(
        by_night.repository.get_job("reconcile"), tags={"omnigraph/graph": "people", "omnigraph/upkeep": "reconcile"}
    )
    [request] = night(by_night, "nightly_optimize").run_requests
    assert {key.path[-1] for key in request.asset_selection} == {"optimize", "compaction"}


def test_a_night_waits_for_a_run_that_is_under_way(by_night: Location) -> None:
    by_night.instance.create_run_for_job(by_night.repository.get_job("nightly_upkeep"))
    assert "is queued or under way" in night(by_night, "nightly_cleanup").skip_message
    assert "is queued or under way" in night(by_night, "nightly_optimize").skip_message


# --- what a tick costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sensor", ["manifest_fragments", "version_backlog", "pending_intents"])
def test_a_tick_makes_at_most_seven_requests(
    tmp_path: Path, proxied_root: str, fault_proxy: FaultProxy, sensor: str
) -> None:
    with location(tmp_path / "location", proxied_root, upkeep=MARKS) as here:
        with make(proxied_root, commits=4) as graph:
            graph.cleanup(keep=1, min_age="0s", confirm=True)
            leave_ticket(graph, "node:Person")
            for number in range(2):
                graph.load(people(f"more{number}"), mode="append")
                fault_proxy.reset()
                here.tick(sensor)
                # Five open the line of main (its version and three fragments), and two ask whether that is the newest.
                assert 0 < len(fault_proxy.log) <= 7


def test_a_tick_on_a_store_that_does_not_answer_fails_with_the_reason(
    tmp_path: Path, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with location(tmp_path / "location", s3_root, upkeep=MARKS) as here:
        with pytest.raises(og.errors.StoreUnavailable):
            here.tick("version_backlog")
