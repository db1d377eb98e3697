"""Code, messages and manual say who does what, in the words that engineers use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Words that leave out who acts, or that need decoding: garbage is garbage, timing is timing.
LEFT_OUT = re.compile(r"\b(?:nobody|somebody|whoever|rubbish|manners|(?:is|are|was|were) told)\b", re.IGNORECASE)
# A program, a process or a user is no man and no woman; what an input breaks is a violation.
PERSONS = re.compile(r"\b(?:he|him|his|himself|she|her|herself)\b", re.IGNORECASE)
OTHER_WORDS = re.compile(r"\bcomplaints?\b", re.IGNORECASE)
CODE_IN_TEXT = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
# Printed from recorded results, in the words with which they were recorded.
RECORDED = {"docs/reference/performance.md"}


def prose(folders: Iterable[str]) -> Iterable[tuple[str, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.md") if (ROOT / folder).is_dir() else [ROOT / folder]):
            name = str(path.relative_to(ROOT))
            if name not in RECORDED:
                text = path.read_text(encoding="utf-8")
                yield name, CODE_IN_TEXT.sub(lambda found: "\n" * found[0].count("\n"), text)


def code(*packages: str) -> Iterable[tuple[str, str]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def found_in(texts: Iterable[tuple[str, str]], *words: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {found[0]}"
        for name, text in texts
        for number, line in enumerate(text.splitlines(), 1)
        for one in words
        for found in one.finditer(line)
    ]


def left_out_words(texts: Iterable[tuple[str, str]]) -> list[str]:
    return found_in(texts, LEFT_OUT)


def test_nothing_is_spoken_of_as_a_person() -> None:
    assert found_in(code("engine/omnigraph", "omnigraph_pipelines", "bench"), PERSONS) == []
    assert found_in(prose(["docs", "README.md", "CONTRIBUTING.md"]), PERSONS) == []


def test_what_an_input_breaks_has_one_word() -> None:
    assert found_in(code("engine/omnigraph"), OTHER_WORDS) == []
    assert found_in(((n, t) for n, t in prose(["docs"]) if n != "docs/changelog.md"), OTHER_WORDS) == []


def test_a_person_or_another_word_would_be_found() -> None:
    planted = [("mine.py", "# the version that he knows\nA complaint about the theory\n")]
    assert found_in(planted, PERSONS, OTHER_WORDS) == ["mine.py:1: he", "mine.py:2: complaint"]


def test_code_and_messages_say_who_does_what() -> None:
    assert left_out_words(code("engine/omnigraph", "omnigraph_pipelines")) == []


def test_the_manual_says_who_does_what() -> None:
    assert left_out_words(prose(["docs", "README.md", "CONTRIBUTING.md"])) == []


def test_a_word_that_is_left_out_would_be_found() -> None:
    planted = "# Whoever comes\n`nobody` and nobody's\nit is told\ntold\n"
    assert left_out_words([("mine.md", CODE_IN_TEXT.sub("", planted))]) == [
        "mine.md:1: Whoever",
        "mine.md:2: nobody",
        "mine.md:3: is told",
    ]
