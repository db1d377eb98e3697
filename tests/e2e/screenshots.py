"""The pictures of the manual: ``python -m tests.e2e.screenshots docs/images`` makes them from a site that has had a few days.

Look at them before they are committed.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

import omnigraph as og
from tests.e2e.browser import browser, find_browser
from tests.e2e.site import LOCATION, SCHEMA, Site, SparkServer

# Name of the picture: page, words to wait for, what to click, size.
PAGES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[int, int]]] = {
    "dagster-assets": (
        f"/locations/{LOCATION}/asset-groups/social_crm/lineage",
        ("Person", "Follows", "commit", "100% filled"),
        (),
        (1280, 760),
    ),
    "dagster-plots": (
        "/assets/social/crm/commit?view=overview",
        ("Latest materialization", "idempotency_key"),
        ("Plots",),
        (1280, 900),
    ),
    "dagster-automation": ("/automation", ("version_backlog", "ago"), (), (1280, 680)),
}


def take(port: int, folder: Path, only: list[str]) -> None:
    program = find_browser()
    if program is None:
        raise SystemExit("needs Chromium (Debian: chromium)")
    folder.mkdir(parents=True, exist_ok=True)
    with browser(program) as window:
        for name, (path, words, clicks, size) in PAGES.items():
            if only and name not in only:
                continue
            window.open(f"http://127.0.0.1:{port}{path}", *words, size=size)
            for text in clicks:
                window.click(text)
            # Lines and fonts are drawn after the words are there.
            threading.Event().wait(5)
            window.shoot(folder / f"{name}.png")


def main(folder: Path, only: list[str]) -> None:
    assert find_browser() is not None, "needs Chromium (Debian: chromium)"
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        spark = SparkServer(work)
        site = Site(work / "site", spark={"remote": spark.remote})
        try:
            live(site)
            take(site.port, folder, only)
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
