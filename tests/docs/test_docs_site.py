"""The manual builds to a site, complete and without a broken link."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages, site


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(root / "mkdocs.yml")]
    return subprocess.run(
        [*command, "--site-dir", str(out)], cwd=root, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    (root / "tests" / "docs").mkdir(parents=True)
    shutil.copytree(pages.DOCS, root / "docs")
    shutil.copy(pages.ROOT / "mkdocs.yml", root)
    shutil.copy(pages.ROOT / "tests" / "docs" / "site.py", root / "tests" / "docs")
    return root


def test_every_page_is_in_the_site_and_it_fetches_nothing(copy: Path, tmp_path: Path) -> None:
    done = build(copy, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page in pages.DOCS.rglob("*.md"):
        made = page.relative_to(pages.DOCS).with_suffix(".html")
        made = made.with_name("index.html") if page.name == "README.md" else made
        text = (tmp_path / "site" / made).read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?://[^\"]+", text), made
        assert "```" not in re.sub(r"<code.*?</code>", "", text, flags=re.S), made


def test_a_broken_link_or_heading_ends_the_build(copy: Path, tmp_path: Path) -> None:
    page = copy / "docs" / "howto" / "s3.md"
    page.write_text(page.read_text() + "\n[gone](load-data.md#no-such-heading) and [gone](nowhere.md)\n")
    done = build(copy, tmp_path / "site")
    assert done.returncode == 1
    assert "no-such-heading" in done.stderr and "nowhere.md" in done.stderr


def test_the_order_of_the_site_is_that_of_the_front_page() -> None:
    nav = site.navigation(pages.DOCS)
    sections = [next(iter(one)) for one in nav]
    assert sections[:4] == ["Home", "Tutorial", "How to", "Reference"]
    assert next(iter(nav[1]["Tutorial"][0].values())) == "tutorial/first-graph.md"
    assert "More" not in sections


def test_decisions_that_are_kept_for_history_are_pages_and_not_in_the_navigation() -> None:
    decided = next(one["Decisions"] for one in site.navigation(pages.DOCS) if "Decisions" in one)
    shown = {page if isinstance(page, str) else next(iter(page.values())) for page in decided}
    history = site.of_history(pages.DOCS)
    every = {f"decisions/{page.name}" for page in (pages.DOCS / "decisions").glob("*.md")}
    assert history and shown.isdisjoint(history)
    assert shown | history == every


def test_the_search_finds_how_tos_before_decisions(copy: Path, tmp_path: Path) -> None:
    assert build(copy, tmp_path / "site").returncode == 0
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))
    boosts = {entry["location"].partition("#")[0]: entry.get("boost", 1) for entry in index["docs"]}
    howtos = [boost for page, boost in boosts.items() if page.startswith("howto/")]
    decisions = [boost for page, boost in boosts.items() if page.startswith("decisions/")]
    assert howtos and decisions and min(howtos) > max(decisions)


@pytest.mark.system
@pytest.mark.timeout(300)
def test_pages_fit_a_phone_and_a_desktop_in_light_and_dark(copy: Path, tmp_path: Path) -> None:
    """Takes five pictures into build/site, for somebody to look at; measures that no page is wider than a phone."""
    out = pages.ROOT / "build" / "site"
    out.mkdir(parents=True, exist_ok=True)
    assert build(copy, tmp_path / "site").returncode == 0
    probe = "<script>addEventListener('load', () => {document.title = 'wide ' + document.documentElement.scrollWidth})</script>"
    shots = [("index", 1300, 1), ("index", 500, 1), ("howto/load-data", 1300, 0), ("explanation/architecture", 500, 0)]
    for number, (page, width, scheme) in enumerate([*shots, ("reference/python", 500, 1)]):
        file = tmp_path / "site" / f"{page}.html"
        if "document.title = 'wide" not in file.read_text(encoding="utf-8"):
            file.write_text(file.read_text(encoding="utf-8").replace("</body>", probe + "</body>"), encoding="utf-8")
        picture = out / f"{number}-{page.replace('/', '-')}-{width}-{'light' if scheme else 'dark'}.png"
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000"]
        command += [f"--user-data-dir={tmp_path / f'profile-{number}'}", f"--window-size={width},900"]
        command += [f"--blink-settings=preferredColorScheme={scheme}", f"file://{file}"]
        subprocess.run([*command, f"--screenshot={picture}"], check=True, capture_output=True, timeout=60)
        assert picture.stat().st_size > 10_000
        shown = subprocess.run([*command, "--dump-dom"], check=True, capture_output=True, text=True, timeout=60).stdout
        wide = re.search(r"<title>wide (\d+)</title>", shown)
        assert wide is not None and int(wide[1]) <= width, page
