"""What the manual shows is what happens: every block of every page is run, parsed or looked up."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from omnigraph.core.errors import OmnigraphError
from omnigraph.gq import parse_queries
from omnigraph.schema import parse_schema
from omnigraph.testing.emulator import S3Emulator
from tests.docs import pages, terminal

PAGES = pages.all_pages()
RUNNABLE = [page for page in PAGES if pages.steps(page)]
LANGUAGES = {"sh", "python", "output", "pg", "gq", "json", "ndjson", "csv", "yaml", "text"}


def _name(page: Path) -> str:
    return str(page.relative_to(pages.ROOT))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", RUNNABLE, ids=_name)
def test_a_page_runs_from_an_empty_folder_and_prints_what_it_shows(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = None
    if pages.wants_store(page):
        store: S3Emulator = request.getfixturevalue("s3_emulator")
        store.create_bucket("my-bucket")
        environment = pages.environment_of(page, store.endpoint)
    ran = pages.run(page, tmp_path / "page", environment)
    assert ran.failure is None, ran.failure
    assert not (wrong := list(pages.differences(page, ran))), "\n".join(wrong)


def _blocks(*languages: str) -> list[pages.Block]:
    return [block for page in PAGES for block in pages.blocks(page) if block.language in languages]


def test_every_block_says_what_it_is() -> None:
    strange = [block.place for page in PAGES for block in pages.blocks(page) if block.language not in LANGUAGES]
    assert not strange


@pytest.mark.parametrize("block", _blocks("pg", "gq"), ids=lambda block: block.place)
def test_every_schema_and_query_parses_or_is_refused_as_it_says(block: pages.Block) -> None:
    def parse() -> object:
        return parse_schema(block.text) if block.language == "pg" else parse_queries(block.text)

    if block.option("refused") is None:
        parse()
    else:
        with pytest.raises(OmnigraphError):
            parse()


@pytest.mark.parametrize("block", _blocks("json", "ndjson"), ids=lambda block: block.place)
def test_every_json_parses(block: pages.Block) -> None:
    if block.option("shape") is not None:
        return
    for text in block.text.splitlines() if block.language == "ndjson" else [block.text]:
        json.loads(text)


def test_every_verb_of_run_that_is_named_exists() -> None:
    script = (pages.ROOT / "run").read_text()
    verbs = {word for line in re.findall(r"^    ([a-z |-]+)\)", script, re.M) for word in re.split(r"[ |]+", line)}
    lines = [line for b in _blocks("sh") if b.option("verbs") is not None for line in b.text.splitlines()]
    assert lines
    for line in lines:
        command = line.split("#")[0].split()
        if not command or command[0] == ".":
            continue
        assert command[0] == "./run" and command[1] in verbs, line
        for path in (word for word in command[2:] if "/" in word):
            assert (pages.ROOT / path.split("::")[0]).exists(), line


def test_every_extra_that_is_named_exists() -> None:
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())["project"]
    for block in _blocks("sh"):
        if block.option("install") is not None:
            for extras in re.findall(r"omnigraph-pipelines\[([a-z,]+)\]", block.text):
                assert set(extras.split(",")) <= project["optional-dependencies"].keys(), block.place


# --- links --------------------------------------------------------------------------------------------------------------

_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")


def _prose(page: Path) -> str:
    """The page without its code."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.S | re.M))


def _anchors(page: Path) -> set[str]:
    seen: set[str] = set()
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for title in re.findall(r"^#+ +(.+?) *$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        base = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        name, n = base, 0
        while name in seen:
            n += 1
            name = f"{base}-{n}"
        seen.add(name)
    return seen


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_inside_the_manual_leads_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_can_be_reached_from_the_front_page() -> None:
    seen: set[Path] = set()
    todo = [pages.ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = (link.partition("#")[0] for link in _LINK.findall(_prose(page)) if not re.match(r"[a-z]+:", link))
        todo += [(page.parent / link).resolve() for link in links if link]
    assert not {_name(page) for page in PAGES} - {_name(page) for page in seen}


@pytest.mark.timeout(300)
def test_the_picture_of_the_terminal_shows_what_the_commands_print() -> None:
    assert pages.agrees(terminal.texts(terminal.PICTURE.read_text()), terminal.texts(terminal.picture()))


# --- the instrument -----------------------------------------------------------------------------------------------------


def test_an_output_that_differs_is_noticed_and_what_always_differs_is_not() -> None:
    assert pages.agrees("commit 01M7QBHYHB1X1RYCFEVCAWB616", "commit  01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert pages.agrees("a\n…\nd", "a\nb\nc\nd")
    assert not pages.agrees("2 rows", "3 rows")
    assert not pages.agrees("a", "a\nb")


def test_a_block_that_fails_ends_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\ntrue\n```\n```python\nassert 1 == 2\n```\n```sh\ntouch reached\n```\n")
    ran = pages.run(page, tmp_path / "work")
    assert ran.failure is not None and "AssertionError" in ran.failure
    assert not (tmp_path / "work" / "here" / "reached").exists()
