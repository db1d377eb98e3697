"""The files in the root of the repository: history stays where Dagster is started, and a killed run's place comes free."""

from __future__ import annotations

import shutil
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
    assert production["run_coordinator"]["config"] == {"dequeue_interval_seconds": 1}


def test_the_workspace_names_a_module_that_loads() -> None:
    [target] = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert target["python_module"]["module_name"] == "omnigraph_pipelines.definitions"
    assert target["python_module"]["location_name"] == "omnigraph_pipelines"
