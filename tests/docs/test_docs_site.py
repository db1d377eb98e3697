"""The manual builds to a site, complete and without a broken link."""

from __future__ import annotations

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
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


def test_a_version_is_published_beside_the_others(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "manual"
    out.mkdir()
    for version in ("0.1.0", "0.2.0", "0.2.0"):
        site.publish(version, out, copy)
    listed = json.loads((out / "versions.json").read_text(encoding="utf-8"))
    assert [(one["version"], one["aliases"]) for one in listed] == [("0.2.0", ["latest"]), ("0.1.0", [])]
    assert all((out / one["version"] / "howto" / "s3.html").exists() for one in listed)
    assert "url=0.2.0/index.html" in (out / "index.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        site.publish("../escape", out, copy)


@pytest.mark.parametrize("name", ["overview", "data-flow", "pins"])
def test_diagrams_can_be_read_on_a_phone(name: str) -> None:
    """They are narrower than a phone, so that their letters keep their size, and no picture is drawn with letters."""
    text = (pages.DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    width = re.search(r'width="(\d+)"[^>]*viewBox="0 0 (\d+) ', text)
    assert width is not None and int(width[1]) == int(width[2]) <= 390
    assert min(int(size) for size in re.findall(r"font-size[=:]\"?(\d+)", text)) >= 12


def test_no_page_draws_arrows_with_letters() -> None:
    drawn = [block.place for page in pages.all_pages() for block in pages.blocks(page) if "──▶" in block.text]
    assert drawn == []


# Shows a page in a frame of a given width, as a window of a browser is never narrower than 500, and says what is in it.
_FRAME = """<!doctype html><body style="margin:0"><iframe src="{page}" width="{width}" height="844" style="border:0"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => setTimeout(() => {{
  const found = frame.contentDocument, seen = (one) => {{
    const box = one?.getBoundingClientRect();
    return !!box && box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= {width}
      && frame.contentWindow.getComputedStyle(one).visibility === "visible";
  }};
  document.title = JSON.stringify({{
    wide: found.documentElement.scrollWidth,
    search: [...found.querySelectorAll(".md-search__input, .md-header [for=__search]")].some(seen),
    versions: [...found.querySelectorAll(".md-version__link")].map((one) => one.textContent.trim()),
    dark: found.body.getAttribute("data-md-color-scheme") === "slate",
  }});
}}, 1500);
</script>"""
SHOWN = ("index", "howto/load-data", "explanation/architecture", "explanation/one-commit", "reference/python")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The manual in two versions, behind a server."""
    folder = tmp_path_factory.mktemp("manual")
    site.publish("0.0.9", folder)
    site.publish("0.1.0", folder)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", SHOWN)
def test_pages_fit_a_phone_and_a_desktop_in_light_and_dark(
    published: tuple[Path, str], tmp_path: Path, page: str
) -> None:
    """Takes four pictures into build/site, for somebody to look at. Measures that the page is not wider than its window, that the
    search can be seen, and that the versions can be chosen."""
    folder, address = published
    out = pages.ROOT / "build" / "site"
    out.mkdir(parents=True, exist_ok=True)
    for width in (390, 1300):
        for scheme in ("dark", "light"):
            name = f"{page.replace('/', '-')}-{width}-{scheme}"
            (folder / f"{name}.html").write_text(
                _FRAME.format(page=f"0.1.0/{page}.html", width=width), encoding="utf-8"
            )
            command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"]
            command += [f"--user-data-dir={tmp_path / name}", f"--window-size={max(width, 500)},900"]
            command += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}", f"{address}/{name}.html"]
            picture = out / f"{name}.png"
            subprocess.run([*command, f"--screenshot={picture}"], check=True, capture_output=True, timeout=60)
            dom = subprocess.run(
                [*command, "--dump-dom"], check=True, capture_output=True, text=True, timeout=60
            ).stdout
            title = re.search(r"<title>(.*?)</title>", dom)
            assert title is not None, name
            shown = json.loads(html.unescape(title[1]))
            assert shown["wide"] <= width, (name, shown)
            assert shown["search"], name
            assert shown["versions"] == ["0.1.0", "0.0.9"], name
            assert shown["dark"] == (scheme == "dark"), name
