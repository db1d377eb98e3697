"""The production form of the instance, as it is in the repository, on a real PostgreSQL and a store that speaks S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from omnigraph.testing.emulator import S3Emulator, environment
from tests.e2e.postgres import Postgres, find_binaries
from tests.e2e.site import ROOT, Site
from tests.pipelines.upkeep_location import Location

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]

BUCKET = "dagster-logs"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("not run: needs PostgreSQL (Debian: postgresql)")
    server = Postgres(binaries)
    yield server
    server.stop()


@pytest.fixture
def production(postgres: Postgres, s3_emulator: S3Emulator, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the environment of every process says, and a bucket for the logs."""
    s3_emulator.create_bucket(BUCKET)
    found = {
        **environment(s3_emulator.endpoint),
        "DAGSTER_PG_URL": postgres.url,
        "DAGSTER_LOGS_BUCKET": BUCKET,
    }
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def home(folder: Path) -> Path:
    folder.mkdir()
    (folder / "dagster.yaml").write_text((ROOT / "deploy" / "dagster.yaml").read_text())
    return folder


def test_history_is_in_postgres_and_logs_are_in_s3(tmp_path: Path, local_root: str, production: dict[str, str]) -> None:
    import boto3

    for machine in ("one", "two"):  # what one machine did, another one sees
        with dg.DagsterInstance.from_config(str(home(tmp_path / machine))) as instance:
            assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
            place = tmp_path / f"location-{machine}"
            place.mkdir()
            here = Location(place, local_root, {}, instance)
            result = here.materialize("optimize")
            assert result.success
            runs = instance.get_runs(dg.RunsFilter(job_name="__ASSET_JOB"))
            assert result.run_id in {run.run_id for run in runs}
            events = instance.get_records_for_run(result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
            assert len(events.records) == 1
            assert here.tick("version_backlog").run_requests == []
    with dg.DagsterInstance.from_config(str(tmp_path / "one")) as instance:
        assert len(instance.get_runs(dg.RunsFilter(job_name="__ASSET_JOB"))) == 2
    kept = boto3.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
    assert [entry["Key"] for entry in kept if entry["Key"].startswith("dagster/storage/")]


def test_server_and_daemon_run_upkeep_on_postgres(tmp_path: Path, production: dict[str, str]) -> None:
    site = Site(tmp_path / "site", spark={})
    (site.home / "dagster.yaml").write_text((ROOT / "deploy" / "dagster.yaml").read_text())
    site.start(**production)
    try:
        assert site.outcome(site.launch("reconcile")) == "SUCCESS"
        [told] = site.materializations("social", "upkeep", "reconcile")
        assert told["pending_before"] == 0
        assert site.until(lambda: site.ticks("pending_intents"), what="the daemon evaluates sensors")
        assert site.slots_taken() == 0
        assert not list(tmp_path.rglob("*.db")), "history on this machine"
    finally:
        site.kill()


def test_the_two_instance_files_say_the_same_but_for_where_things_are() -> None:
    here, there = (yaml.safe_load((ROOT / name).read_text()) for name in ("dagster.yaml", "deploy/dagster.yaml"))
    for name in ("telemetry", "nux", "run_retries", "freshness", "retention"):
        assert here[name] == there[name]
    assert there["concurrency"]["pools"] == here["concurrency"]["pools"]
