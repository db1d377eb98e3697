"""What a batch costs over the engine with everything real: web server, daemon, launcher, a worker process for each run.

A Connect server of its own does Spark's work, so that no run starts Java. The engine's seconds are those that the staging and
the commit step measure around it; the rest is Dagster, the start of the worker and what is done here beside the engine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.results import Table, table

COMMIT = ("social", "crm", "commit")
ASSETS = (COMMIT, ("social", "crm", "Person"), ("social", "crm", "Follows"))
PARTS = ("queued", "began", "ran", "engine", "over")


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.e2e.site import Site, SparkServer

    batches = 2 if quick else 8
    with tempfile.TemporaryDirectory() as folder:
        spark = SparkServer(Path(folder))
        site = Site(Path(folder) / "site", spark={"remote": spark.remote})
        try:
            site.start()
            arrived = _arrivals(site, batches)
            filled, took = _backfill(site, 2 if quick else 5)
        finally:
            site.kill()
            spark.stop()
    rows = [_row("a batch that arrives", arrived, "≤ 5"), _row("a batch of a backfill, once it is queued", filled, "")]
    heads = ["what", "queued", "worker starts", "steps", "of it the engine", "over the engine", "bar"]
    notes = [
        f"Medians in seconds, {batches} and {len(filled)} batches of two rows. Queued: from the request of a run until the daemon "
        "launches it. Over the engine: all of it, less the engine's own seconds. A backfill of "
        f"{len(filled)} batches took {took:.0f} s from its request, the daemon's look at backfills every half a minute included."
    ]
    return [table("A batch with Dagster's web server and daemon", heads, rows, notes)], {"batches": batches}


def _row(name: str, runs: list[dict[str, float]], bar: str) -> list[Any]:
    return [name, *(statistics.median(one[part] for one in runs) for part in PARTS), bar]


def _arrivals(site: Any, count: int) -> list[dict[str, float]]:
    """One at a time: nothing waits for another run. The first warms the site up."""
    found = []
    for number in range(count + 1):
        batch = f"b{number:02}"
        site.drop_crm(batch, (f"{batch}a", 1), (f"{batch}b", 2))
        site.until(lambda name=batch: site.ended("SUCCESS", source="crm", batch=name), what=f"{batch} is committed")
        found.append(_of_run(site, batch))
    return found[1:]


def _backfill(site: Any, count: int) -> tuple[list[dict[str, float]], float]:
    site.stop_sensor("new_batches_crm")
    batches = [f"fill{number}" for number in range(count)]
    for batch in batches:
        site.drop_crm(batch, (f"{batch}a", 1), (f"{batch}b", 2))
        site.add_partition("social/crm", batch)
    backfill = site.backfill(batches, *ASSETS)
    ended = site.until(lambda: _ended(site.backfill_status(backfill)), what="the backfill has ended")
    if ended != "COMPLETED_SUCCESS":
        raise RuntimeError(f"the backfill ended as {ended}\n{site.told()}")
    told = site.ask(
        "query($b: String!) { partitionBackfillOrError(backfillId: $b) { ... on PartitionBackfill { timestamp endTimestamp } } }",
        b=backfill,
    )["partitionBackfillOrError"]
    return [_of_run(site, batch) for batch in batches], told["endTimestamp"] - told["timestamp"]


def _ended(status: str) -> str | None:
    return None if status in ("REQUESTED", "CANCELING") else status


def _of_run(site: Any, batch: str) -> dict[str, float]:
    told = next(one for one in site.materializations(*COMMIT) if one["partition"] == batch)
    at = site.ask(
        "query($r: ID!) { runOrError(runId: $r) { ... on Run { stats {"
        " ... on RunStatsSnapshot { enqueuedTime launchTime startTime endTime } } } } }",
        r=told["run_id"],
    )["runOrError"]["stats"]
    engine = told["seconds"] + told["staging_seconds"]
    return {
        "queued": at["launchTime"] - at["enqueuedTime"],
        "began": at["startTime"] - at["launchTime"],
        "ran": at["endTime"] - at["startTime"],
        "engine": engine,
        "over": at["endTime"] - at["enqueuedTime"] - engine,
    }
