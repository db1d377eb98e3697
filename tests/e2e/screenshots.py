"""The pictures of the manual: ``python -m tests.e2e.screenshots docs/images`` makes them from a site that has had a few days.

Look at them before they are committed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from pathlib import Path

import yaml

import omnigraph as og
from tests.e2e.browser import browser, find_browser
from tests.e2e.site import CRM, LOCATION, SCHEMA, Site, SparkServer

TICK = "0 runs requested"  # opens the text of a tick

# Name of the picture: page, words to wait for, what to click, size. ``{refused}`` is the id of a run that was refused, ``{good}``
# that of one that was not, ``{backfill}`` that of a backfill.
PAGES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[int, int]]] = {
    "dagster-assets": (
        f"/locations/{LOCATION}/asset-groups/social_crm/lineage",
        ("Person", "Follows", "commit"),
        (),
        (1280, 760),
    ),
    "dagster-partitions": ("/assets/social/crm/commit?view=partitions", ("2026-11-15", "Missing"), (), (1280, 620)),
    "dagster-commit": (
        "/assets/social/crm/commit?view=partitions&partition=2026-11-15",
        ("what_changed", "summary"),
        (),
        (1280, 1000),
    ),
    "dagster-plots": (
        "/assets/social/crm/commit?view=overview",
        ("Latest materialization", "idempotency_key"),
        ("Plots",),
        (1280, 900),
    ),
    "dagster-staged": ("/assets/social/crm/Person?view=overview", ("Columns", "non-nullable"), (), (1280, 900)),
    "dagster-runs": ("/runs", ("ingest_crm", "nightly_upkeep"), (), (1280, 720)),
    "dagster-refused": ("/runs/{refused}", ("RUN_FAILURE", "refused"), (), (1280, 900)),
    "dagster-check": ("/assets/social/crm/commit?view=checks", ("accepted",), (), (1280, 900)),
    "dagster-scrub": (
        "/assets/social/upkeep/scrub?view=overview",
        ("compared with their checksums", "bytes"),
        (),
        (1280, 760),
    ),
    "dagster-sensor": (
        f"/locations/{LOCATION}/sensors/new_batches_crm",
        ("runs requested", "All ticks"),
        (),
        (1280, 760),
    ),
    "dagster-run": ("/runs/{good}", ("RUN_SUCCESS", "Materialized"), (), (1280, 900)),
    "dagster-backfill": ("/runs/b/{backfill}", ("Succeeded", "commit"), (), (1280, 620)),
    "dagster-set-aside": (
        "/assets/social/feed/commit?view=overview",
        ("rejected_rows", "quarantine"),
        (),
        (1280, 1000),
    ),
    "dagster-quarantine": (
        "/assets/social/feed/quarantine?view=overview",
        ("Latest materialization",),
        (),
        (1280, 900),
    ),
    "dagster-waiting": (
        f"/locations/{LOCATION}/sensors/new_batches_crm",
        ("runs requested", "All ticks"),
        (TICK,),
        (1280, 760),
    ),
    "dagster-shared": ("/runs/{shared}", ("RUN_SUCCESS", "Materialized"), (), (1280, 900)),
    "dagster-cleanup": (
        "/assets/social/upkeep/cleanup?view=overview",
        ("Latest materialization", "summary"),
        (),
        (1280, 760),
    ),
    "dagster-automation": ("/automation", ("version_backlog", "ago"), (), (1280, 680)),
}


# Pages show where the graph is.
SHOWN_PLACE = Path("/srv/social")

# Below, pages are cut off in the middle of something.
CLIPS: dict[str, tuple[int, int]] = {
    "dagster-backfill": (1280, 430),
    "dagster-commit": (1280, 745),
    "dagster-quarantine": (1280, 860),
    "dagster-refused": (1280, 668),
    "dagster-sensor": (1280, 700),
    "dagster-set-aside": (1280, 872),
    "dagster-waiting": (1280, 230),
}


def take(port: int, folder: Path, only: list[str], ids: dict[str, str]) -> None:
    program = find_browser()
    if program is None:
        raise SystemExit("needs Chromium (Debian: chromium)")
    folder.mkdir(parents=True, exist_ok=True)
    with browser(program) as window:
        for name, (path, words, clicks, size) in PAGES.items():
            if only and name not in only:
                continue
            try:
                window.open(f"http://127.0.0.1:{port}{path.format(**ids)}", *words, size=size)
                for text in clicks:
                    window.click(text, newest=text == TICK)
            except AssertionError as error:
                print(f"{name}: {error}", file=sys.stderr)  # the picture shows what the page has in place of it
            # Lines and fonts are drawn after the words are there.
            threading.Event().wait(5)
            window.shoot(folder / f"{name}.png", CLIPS.get(name))


def main(folder: Path, only: list[str]) -> None:
    assert find_browser() is not None, "needs Chromium (Debian: chromium)"
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        spark = SparkServer(work)
        SHOWN_PLACE.mkdir(parents=True)
        site = Site(SHOWN_PLACE, spark={"remote": spark.remote})
        settings = yaml.safe_load((SHOWN_PLACE / "graph.yaml").read_text())
        settings["sources"][1]["batches_per_run"] = 10
        (SHOWN_PLACE / "graph.yaml").write_text(yaml.safe_dump(settings))
        try:
            ids = live(site)
            take(site.port, folder, only, ids)
        finally:
            site.kill()
            spark.stop()
            shutil.rmtree(SHOWN_PLACE)


def live(site: Site) -> dict[str, str]:
    """Some batches of different sizes, upkeep in between, a backfill, rows that were set aside and loaded again, batches that share a
    run, one that is refused and one that waits for a node. Returns the ids that pages need."""
    og.init(site.uri, SCHEMA).close()
    site.start()
    for day in range(1, 6):
        people = [(f"person-{day}-{number}", 20 + number % 50) for number in range(40 * day - 17 * (day % 2))]
        site.drop_crm(f"2026-11-{day + 10:02}", *people)
        last = people[-1][0]
        site.until(lambda last=last: last in site.names(), what=f"batch of day {day}")
        if day % 2:
            assert site.outcome(site.launch("nightly_upkeep")) == "SUCCESS"
    assert site.outcome(site.launch("scrub")) == "SUCCESS"
    good = site.ended("SUCCESS", source="crm")[0]["runId"]
    backfill = site.backfill(["2026-11-11", "2026-11-12"], *CRM)
    site.until(lambda: site.backfill_status(backfill).startswith("COMPLETED"), what="the backfill is complete")
    people = [{"type": "Person", "data": {"name": f"guest-{number}", "age": 20 + number}} for number in range(9)]
    late = {"edge": "Follows", "from": "guest-0", "to": "latecomer", "data": {"since": 2026}}
    site.drop_feed("2026-11-15", *people, {"type": "Person", "data": {"name": "methuselah", "age": 969}}, late)
    site.until(lambda: "guest-8" in site.names(), what="the rows that were not set aside")
    site.drop_crm("2026-11-16", ("latecomer", 30))
    site.until(lambda: "latecomer" in site.names(), what="the node that was missing")
    assert site.outcome(site.launch("replay_quarantine_feed")) == "SUCCESS"
    site.drop_crm("2026-11-17", ("old", 900), ("older", 1200), ("person-new", 30))
    (run,) = site.until(lambda: site.ended("FAILURE", source="crm"), what="the refused batch")
    site.stop_sensor("new_batches_feed")
    for day in range(18, 22):
        visitors = [{"type": "Person", "data": {"name": f"visitor-{day}-{number}"}} for number in range(3 * day)]
        site.drop_feed(f"2026-11-{day}", *visitors)
    site.start_sensor("new_batches_feed")
    site.until(lambda: "visitor-21-0" in site.names(), what="the batches that share a run")
    shared = site.until(lambda: site.ended("SUCCESS", source="feed"), what="the shared run")[0]
    site.drop_crm("2026-11-18", ("person-late", 30), follows=[("person-late", "nobody-yet")])
    site.until(lambda: len(site.ended("FAILURE", source="crm")) > 1, what="the batch that waits")
    site.until(lambda: _waits(site), what="a tick that says so")
    assert site.outcome(site.launch("cleanup")) == "SUCCESS"
    return {"refused": str(run["runId"]), "good": str(good), "backfill": backfill, "shared": str(shared["runId"])}


def _waits(site: Site) -> bool:
    newest = site.ticks("new_batches_crm")[0]
    return "waiting for what they refer to" in str(newest["skipReason"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
