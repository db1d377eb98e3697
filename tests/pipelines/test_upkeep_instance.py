"""The files in the root of the repository: history stays where Dagster is started, and a killed run's place comes free."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.run_coordinator import QueuedRunCoordinator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to start Dagster in, with nothing exported beforehand."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    return tmp_path


@dg.job
def nothing() -> None:
    pass


def test_history_survives_a_restart_and_lies_beside_the_file(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        run = instance.create_run_for_job(nothing)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.get_run_by_id(run.run_id) is not None
    assert list((home / ".dagster" / "storage").rglob("*.db"))
    assert {entry.name for entry in home.iterdir()} <= {".dagster", "dagster.yaml", "logs"}


def test_a_pool_has_one_place_and_a_run_that_ended_gives_it_back(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.global_op_concurrency_default_limit == 1
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_settings["free_slots_after_run_end_seconds"] <= 60
        assert instance.run_retries_max_retries >= 1
        assert not instance.run_retries_retry_on_asset_or_op_failure


def test_a_run_that_is_asked_for_is_launched_within_a_second(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        coordinator = instance.run_coordinator
        assert isinstance(coordinator, QueuedRunCoordinator)
        assert coordinator.dequeue_interval_seconds == 1
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 4
    production = yaml.safe_load((ROOT / "deploy" / "dagster.yaml").read_text())
    assert production["run_coordinator"] == yaml.safe_load((ROOT / "dagster.yaml").read_text())["run_coordinator"]


def test_a_code_server_that_is_away_for_a_day_fails_no_queued_run(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None and queue.user_code_failure_retry_delay <= 10
        assert queue.max_user_code_failure_retries * queue.user_code_failure_retry_delay >= 86_400


WAITS = """
import os, sys, dagster as dg
with dg.DagsterInstance.from_config(sys.argv[1]) as instance:
    instance.run_coordinator
    print(os.environ["DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR"], os.environ["DAGSTER_MAX_BACKFILL_RETRIES"])
"""


def test_whoever_reads_the_instance_file_lets_backfills_wait_for_their_code(home: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WAITS, str(home)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "10000"], done.stderr


def test_the_workspace_names_a_module_that_loads() -> None:
    [target] = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert target["python_module"]["module_name"] == "omnigraph_pipelines.definitions"
    assert target["python_module"]["location_name"] == "omnigraph_pipelines"
