"""The words of public classes are in the glossary, and one name is one class."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.house import names, shape, source
from bench.house.page import PAGE

HEADING = "One idea, one word"

# Public classes whose name another class has as well. A clash that is gone leaves this list; none is added.
CLASHES = {
    "Batch", "Check", "Conflict", "Exchange", "Finding", "Fragment", "Limits", "Outcome", "Piece", "Problem", "Range",
    "Refused", "TableChange", "Target",
}  # fmt: skip


@pytest.fixture(scope="module")
def ours() -> source.House:
    return source.read()


@pytest.fixture(scope="module")
def public(ours: source.House) -> set[str]:
    return {name for _, name in names.public(ours)}


def unknown(classes: set[str], glossary: set[str]) -> dict[str, list[str]]:
    """Return the words of each class that are not in the glossary, which has the singular."""
    missing = {
        name: [word for word in names.words(name) if word not in glossary and word.removesuffix("s") not in glossary]
        for name in classes
    }
    return {name: words for name, words in sorted(missing.items()) if words}


def clashes(ours: source.House, public: set[str]) -> set[str]:
    return set(shape.classes_twice(ours)) & public


def test_every_public_class_is_built_from_words_of_the_glossary(public: set[str]) -> None:
    assert len(public) > 100
    assert unknown(public, names.glossary(PAGE.read_text(encoding="utf-8"), HEADING)) == {}


def test_no_other_class_has_the_name_of_a_public_one_but_for_those_that_are_known(
    ours: source.House, public: set[str]
) -> None:
    assert sorted(clashes(ours, public) - CLASHES) == []


def test_every_clash_that_is_known_is_still_there(ours: source.House, public: set[str]) -> None:
    assert sorted(CLASHES - clashes(ours, public)) == []


# --- the instrument ------------------------------------------------------------------------------------------------------

PLANTED = {
    "omnigraph/__init__.py": '_PUBLIC = {"Shown": ("omnigraph.a", "Shown"), "act": ("omnigraph.a", "act")}\n',
    "omnigraph/core/__init__.py": "",
    "omnigraph/core/errors.py": "class BadThing(Exception): ...\n",
    "omnigraph/a.py": (
        "from omnigraph.b import Field, Other, Unseen\n\n\n"
        "class Shown:\n    one: 'list[Field]'\n    _two: Unseen\n\n    def _hidden(self) -> Unseen: ...\n\n"
        "    def get(self) -> Other: ...\n\n\ndef act(given: Argument) -> None: ...\n\n\nclass Argument: ...\n"
    ),
    "omnigraph/b.py": "class Field: ...\n\n\nclass Other: ...\n\n\nclass Unseen: ...\n",
    "omnigraph/c.py": "class Field: ...\n\n\nclass Unseen: ...\n",
}


@pytest.fixture
def planted(tmp_path: Path) -> source.House:
    for name, text in PLANTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return source.read((tmp_path / "omnigraph",))


def test_a_class_is_public_if_public_names_lead_to_it(planted: source.House) -> None:
    assert {name for _, name in names.public(planted)} == {"Shown", "Field", "Other", "Argument", "BadThing"}


def test_a_planted_clash_with_a_public_class_is_found_and_one_inside_is_not(planted: source.House) -> None:
    assert clashes(planted, {name for _, name in names.public(planted)}) == {"Field"}


def test_a_word_that_is_not_in_the_glossary_is_found() -> None:
    page = (
        "# x\n\n## Words\n\n| word | is |\n|---|---|\n| staged, bad | x |\n| part | y |\n\n## Others\n\n| thing | z |\n"
    )
    glossary = names.glossary(page, "Words")
    assert glossary == {"staged", "bad", "part"}
    assert unknown({"StagedParts", "BadThing"}, glossary) == {"BadThing": ["thing"]}


@pytest.mark.parametrize(
    ("name", "words"),
    [("StagedPart", ["staged", "part"]), ("OmniGraphURI", ["omni", "graph", "uri"]), ("S3Store", ["s3", "store"])],
)
def test_names_are_split_into_words(name: str, words: list[str]) -> None:
    assert names.words(name) == words
