"""The real web server and daemon over one graph, from the first batch to a crash: what people see when nobody intervenes.

The tests of this file share one site and go in order: each begins with what the one before has left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.manifest import state
from tests.e2e.browser import browser, find_browser
from tests.e2e.site import CRM, LOCATION, SCHEMA, Site, SparkServer

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]

COMMIT = CRM[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, spark_server: SparkServer) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("site"), spark={"remote": spark_server.remote})
    _age(found)
    found.start()
    yield found
    found.kill()


def _age(site: Site) -> None:
    """A graph with a past: a history in more archive fragments than the mark allows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "TAIL_ROLL", 2)
        patch.setattr(state, "TAIL_KEEP", 1)
        with og.init(site.uri, SCHEMA) as graph:
            for number in range(10):
                graph.load([{"type": "Person", "data": {"name": f"old{number}"}}], mode="append")


def test_batches_that_arrive_are_committed_and_upkeep_runs_by_itself(site: Site) -> None:
    site.drop_crm("b01", ("ann", 30), ("bob", 31))
    site.drop_feed(
        "f01",
        {"type": "Person", "data": {"name": "cec"}},
        {"edge": "Follows", "from": "cec", "to": "old1", "data": {"since": 1}},
    )
    site.until(lambda: {"ann", "bob", "cec"} <= site.names(), what="both batches are in the graph")
    site.until(lambda: site.ended("SUCCESS", upkeep="compaction"), what="the history was merged")
    site.until(lambda: site.ended("SUCCESS", upkeep="cleanup"), what="the backlog was cleaned up")
    [merged] = site.materializations("social", "upkeep", "compaction")
    assert merged["fragments_before"] >= 4
    assert merged["fragments"] == 1
    assert sum(one["versions_deleted"] for one in site.materializations("social", "upkeep", "cleanup")) > 0
    for sensor in ("manifest_fragments", "version_backlog", "pending_intents"):
        reasons = [tick["skipReason"] for tick in site.ticks(sensor) if tick["status"] == "SKIPPED"]
        assert reasons, sensor
        assert all("mark" in reason for reason in reasons), reasons
    with site.open() as graph:
        assert graph.verify(deep=True).clean


def test_a_backfill_of_five_batches_is_five_commits_in_order(site: Site) -> None:
    site.stop_sensor("new_batches_crm")
    before = len(site.commits())
    batches = [f"fill{number}" for number in range(5)]
    for number, batch in enumerate(batches):
        site.drop_crm(batch, ("shared", number), (batch, number))
        site.add_partition("social/crm", batch)
    backfill = site.backfill(batches, *CRM)
    site.until(lambda: site.backfill_status(backfill).startswith("COMPLETED"), what="the backfill is complete")
    fresh = [one.idempotency_key.split("/")[1] for one in site.commits()[before:]]
    assert fresh == batches
    with site.open() as graph:
        assert graph.snapshot().get("Person", "shared")["age"] == 4
    assert {one["partition"] for one in site.materializations(*COMMIT)} >= set(batches)
    # The sensor comes upon them as well, and every batch is in the graph already.
    site.start_sensor("new_batches_crm")


def test_a_bad_batch_fails_before_it_is_published_and_somebody_is_told(site: Site) -> None:
    before = site.names()
    site.drop_crm("bad", ("dora", 31), ("eve", 999))
    alert = site.until(
        lambda: next((one for one in site.alerts() if one["partition"] == "bad"), None), what="the alert"
    )
    assert alert["code"] == "data-invalid"
    assert alert["checks"]
    assert "bad" not in {one["partition"] for one in site.materializations(*COMMIT)}
    assert "dora" not in site.names() | before
    assert "eve" in site.failure_text(alert["run_id"])


def test_bad_rows_that_are_quarantined_are_seen_beside_the_commit(site: Site) -> None:
    records = [{"type": "Person", "data": {"name": f"q{number}", "age": number}} for number in range(4)]
    site.drop_feed("f02", *records, {"type": "Person", "data": {"name": "methuselah", "age": 969}})
    site.until(lambda: "q3" in site.names(), what="the good rows are in the graph")
    committed = site.until(
        lambda: next((one for one in site.materializations("social", "feed", "commit") if "f02" in one["partition"]), 0)
    )
    assert "methuselah" not in site.names()
    assert "methuselah" in str(committed["rejected_rows"])
    assert "methuselah" in Path(committed["quarantine"]).read_text()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (f"/locations/{LOCATION}/asset-groups/social_crm/lineage", ("Person", "Follows", "commit")),
        ("/assets/social/crm/commit?view=overview", ("summary", "what_changed", "commit_id", "idempotency_key")),
        ("/automation", ("new_batches_crm", "version_backlog", "nightly_optimize", "run_failures")),
    ],
    ids=["asset graph", "a commit", "automation"],
)
def test_a_browser_shows_what_people_look_for(site: Site, page: str, words: tuple[str, ...]) -> None:
    program = find_browser()
    if program is None:
        pytest.skip("not run: needs Chromium (Debian: chromium)")
    with browser(program) as window:
        window.open(f"http://127.0.0.1:{site.port}{page}", *words)


def test_with_the_newest_boundary_mark_gone_cleanup_refuses(site: Site) -> None:
    marks = sorted((Path(site.uri) / "__boundary").rglob("*"))
    newest = [mark for mark in marks if mark.is_file()][-1]
    kept = site.folder / "mark"
    shutil.move(newest, kept)
    versions = _versions(site)
    run_id = site.launch("cleanup")
    assert site.outcome(run_id) == "FAILURE"
    assert versions <= _versions(site)
    text = site.failure_text(run_id)
    assert "boundary mark is missing" in text
    assert '"corruption"' in text
    site.until(
        lambda: any("boundary mark" in (tick["skipReason"] or "") for tick in site.ticks("version_backlog")),
        what="the sensor says why it asks for nothing",
    )
    shutil.move(kept, newest)
    assert site.outcome(site.launch("cleanup")) == "SUCCESS"


def _versions(site: Site) -> set[Path]:
    return set(Path(site.uri).rglob("*.manifest"))


def test_killed_while_it_publishes_every_batch_is_there_once(site: Site) -> None:
    site.stop()
    # The worker is killed when every table is written and nothing is visible; then all the rest is, daemon included.
    site.start(OMNIGRAPH_FAILPOINTS="publish.before_swap=kill")
    site.drop_crm("crash", ("finn", 1), ("gus", 2))
    site.until(lambda: list((Path(site.uri) / "__recovery").glob("*.json")), what="a write was left behind")
    site.until(
        lambda: [run for run in site.runs(source="crm") if run["tags"].get("dagster/partition") == "crash"],
        what="the run is seen",
    )
    site.kill()
    assert "finn" not in site.names()

    site.start()
    site.until(lambda: {"finn", "gus"} <= site.names(), what="the batch is in the graph")
    site.until(lambda: not list((Path(site.uri) / "__recovery").glob("*.json")), what="the interrupted write has ended")
    site.until(
        lambda: [one for one in site.ended("SUCCESS", source="crm") if one["tags"]["dagster/partition"] == "crash"],
        what="a run of the batch has ended well",
    )
    site.until(lambda: site.slots_taken() == 0, what="the places in the pools are free")
    keys = [one.idempotency_key.split("/")[1] for one in site.commits()]
    assert keys.count("crash") == 1
    site.drop_crm("after", ("hal", 3))
    site.until(lambda: "hal" in site.names(), what="life goes on")
    with site.open() as graph:
        assert graph.verify(deep=True).clean


def test_an_interrupt_stops_everything(site: Site) -> None:
    assert site.stop() in (0, 1, 130)
