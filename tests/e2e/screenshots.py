"""The pictures of the manual: ``python -m tests.e2e.screenshots docs/images`` makes them from a site that has had a few days.

Look at them before they are committed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import omnigraph as og
from tests.e2e.browser import Browser, find_browser
from tests.e2e.site import LOCATION, SCHEMA, Site, SparkServer

PAGES = {
    "asset-graph": (f"/locations/{LOCATION}/asset-groups/social_crm/lineage", (1280, 720)),
    "materialization": ("/assets/social/crm/commit?view=partitions", (1280, 900)),
    "plots": ("/assets/social/crm/commit?view=events", (1280, 900)),
    "upkeep": (f"/locations/{LOCATION}/asset-groups/social_upkeep/lineage", (1280, 720)),
    "cleanup": ("/assets/social/upkeep/cleanup?view=overview", (1280, 900)),
    "automation": ("/automation", (1280, 720)),
}


def main(folder: Path, only: list[str]) -> None:
    program = find_browser()
    if program is None:
        raise SystemExit("needs Chromium (Debian: chromium)")
    folder.mkdir(parents=True, exist_ok=True)
    browser = Browser(program)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        spark = SparkServer(work)
        site = Site(work / "site", spark={"remote": spark.remote})
        try:
            live(site)
            for name, (path, size) in PAGES.items():
                if not only or name in only:
                    browser.shoot(f"http://127.0.0.1:{site.port}{path}", folder / f"{name}.png", size)
        finally:
            site.kill()
            spark.stop()


def live(site: Site) -> None:
    """Some batches of different sizes, and upkeep in between."""
    og.init(site.uri, SCHEMA).close()
    site.start()
    for day in range(1, 6):
        people = [(f"person-{day}-{number}", 20 + number % 50) for number in range(40 * day - 17 * (day % 2))]
        site.drop_crm(f"2026-11-{day + 10:02}", *people)
        last = people[-1][0]
        site.until(lambda last=last: last in site.names(), what=f"batch of day {day}")
        assert site.outcome(site.launch("nightly_upkeep")) == "SUCCESS"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
