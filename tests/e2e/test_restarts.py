"""Code server, daemon and a run's worker are killed beneath two queued backfills and a run that a sensor asked for: nothing fails
for good, nothing is twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import SparkServer
from tests.e2e.split_site import SplitSite

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]

BATCHES = [f"p{number:02}.jsonl" for number in range(10)]
FEED = (("social", "feed", "Person"), ("social", "feed", "Follows"), ("social", "feed", "commit"))
OPEN = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED")


@pytest.fixture
def site(tmp_path: Path, spark_server: SparkServer) -> Iterator[SplitSite]:
    found = SplitSite(tmp_path, spark={"remote": spark_server.remote})
    found.start()
    yield found
    found.kill()


def of_backfills(site: SplitSite, *statuses: str) -> list[dict[str, Any]]:
    return [
        run for run in site.runs() if "dagster/backfill" in run["tags"] and (not statuses or run["status"] in statuses)
    ]


def of_sensor(site: SplitSite) -> list[dict[str, Any]]:
    return [run for run in site.runs(source="crm") if run["tags"].get("dagster/sensor_name") == "new_batches_crm"]


def test_ten_queued_partitions_outlive_code_server_worker_and_daemon(site: SplitSite) -> None:
    site.stop_sensor("new_batches_feed")
    for number, batch in enumerate(BATCHES):
        site.drop_feed(batch.removesuffix(".jsonl"), {"type": "Person", "data": {"name": f"n{number}"}})
        site.add_partition("social/feed", batch)
    backfills = [site.backfill(BATCHES[:6], *FEED), site.backfill(BATCHES[6:], *FEED)]
    site.until(lambda: len(of_backfills(site, *OPEN)) == len(BATCHES), what="ten runs are queued or under way")
    site.drop_crm("c1", ("sensed", 30))
    site.until(lambda: of_sensor(site), what="a run that a sensor asked for stands behind them")

    # The code server dies, and comes back only when the queue has tried to reach it.
    site.kill_part("code")
    site.until(
        lambda: (
            "re-submitting the run into the queue"
            in "".join(site.failure_text(run["runId"]) for run in of_backfills(site))
        ),
        what="the queue has met the dead code server",
    )
    assert of_backfills(site, "FAILURE", "CANCELED") == []
    site.start_part("code")

    # A run's worker dies while others are queued.
    def started() -> int | None:
        [*running] = of_backfills(site, "STARTED")
        return site.worker_of(running[0]["runId"]) if running else None

    os.kill(site.until(started, what="a run is under way"), signal.SIGKILL)

    # The daemon dies, with runs in the queue.
    assert of_backfills(site, "QUEUED")
    site.kill_part("daemon")
    site.start_part("daemon")

    commit = ("social", "feed", "commit")
    site.until(
        lambda: {one["partition"] for one in site.materializations(*commit)} == set(BATCHES),
        limit_s=1200,
        what="all partitions are materialized",
    )
    site.until(lambda: not of_backfills(site, *OPEN), what="nothing is under way")
    site.until(lambda: "sensed" in site.names(), what="what the sensor asked for is in the graph")
    assert site.names() == {"sensed", *(f"n{number}" for number in range(10))}
    keys = [one.idempotency_key.split("/")[1] for one in site.commits()]
    assert sorted(keys) == ["c1", *BATCHES], "each batch is one commit"
    assert of_backfills(site, "CANCELED") == []
    for run in [*of_backfills(site, "FAILURE"), *(one for one in of_sensor(site) if one["status"] == "FAILURE")]:
        assert "dagster/auto_retry_run_id" in run["tags"], run
    for backfill in backfills:
        status = site.until(
            lambda which=backfill: (found := site.backfill_status(which)).startswith("COMPLETED") and found,
            what="the backfill has ended",
        )
        assert status == "COMPLETED_SUCCESS"
    with site.open() as graph:
        assert graph.verify(deep=True).clean
