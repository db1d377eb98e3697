"""The page of invariants: each is there once, in order, and names a module and a test that exist, or says what is not built."""

from __future__ import annotations

import re

import pytest

from tests.docs import pages

PAGE = pages.DOCS / "explanation" / "protocol.md"
ENGINE = pages.ROOT / "engine" / "omnigraph"
COUNT = 17

_HEADING = re.compile(r"^### (\d+)\. .+$", re.M)
_MODULE = re.compile(r"`(\w+(?:/\w+)+\.py)`")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def sections(text: str) -> dict[int, str]:
    """Return the text of each invariant by its number."""
    parts = _HEADING.split(text)
    return {
        int(number): re.split(r"^## ", body, flags=re.M)[0]
        for number, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def faults_of(body: str) -> list[str]:
    """Return what an invariant lacks."""
    found = []
    for line in body.splitlines():
        if line.startswith("- Held by:"):
            modules = _MODULE.findall(line)
            found += [] if modules else ["no module is named"]
            found += [f"there is no {name}" for name in modules if not (ENGINE / name).is_file()]
    held, shown, open_ = (f"\n- {label}" in body for label in ("Held by: ", "Shown by: ", "Not built yet"))
    if held != shown:
        found.append("a module without a test, or a test without a module")
    if shown and not _TEST.search(body.partition("\n- Shown by: ")[2]):
        found.append("no test is named")
    if not held and not open_:
        found.append("it names neither a module nor what is not built")
    return found


def test_every_invariant_is_there_once_and_in_order() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [int(number) for number in _HEADING.findall(text)] == list(range(1, COUNT + 1))


@pytest.mark.parametrize("number", range(1, COUNT + 1))
def test_every_invariant_names_its_module_and_its_test_or_says_what_is_not_built(number: int) -> None:
    assert faults_of(sections(PAGE.read_text(encoding="utf-8"))[number]) == []


@pytest.mark.parametrize(
    "body",
    [
        "\nText.\n",
        "\n- Held by: `manifest/state.py`\n",
        "\n- Held by: `manifest/no_such_module.py`\n- Shown by: `tests/unit/test_x.py::test_y`\n",
        "\n- Held by: the manifest\n- Shown by: `tests/unit/test_x.py::test_y`\n",
        "\n- Held by: `manifest/state.py`\n- Shown by: reading\n",
    ],
)
def test_an_invariant_that_lacks_something_is_found(body: str) -> None:
    assert faults_of(body)
