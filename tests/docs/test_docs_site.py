"""The manual builds to a site, complete and without a broken link."""

from __future__ import annotations

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
