"""A hint that names no command is followed by hand: the call as the hint says to make it is the same call, and is not refused.

Every such hint of the engine has a pair here, or is quoted by another test, or is in ``MET_ELSEWHERE``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import omnigraph as og
from tests.component.cli.test_hint_words import WORDS
from tests.component.cli.test_hints import text_of
from tests.component.cli.test_hints_followed import ENGINE, pattern
from tests.component.hints.calls import CALLS, SCHEMA, Call
from tests.component.hints.elsewhere import MET_ELSEWHERE
from tests.component.hints.texts import SCHEMAS

TESTS = Path(__file__).parents[2]
IN_A_ROW = 3  # in a row: so much of a hint has to stand in a test for the test to quote it


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "graph", SCHEMA)
    made.load([{"type": "Person", "data": {"name": "a", "age": 1}}], mode="append")
    return made


@pytest.mark.parametrize(("place", "hint", "wrong", "right"), CALLS, ids=[f"{one[0]}: {one[1][:40]}" for one in CALLS])
def test_a_call_made_as_its_hint_says_is_not_refused(
    graph: og.Graph, place: str, hint: str, wrong: Call, right: Call
) -> None:
    with pytest.raises(og.errors.OmnigraphError) as caught:
        wrong(graph)
    assert pattern(hint).search(caught.value.hint), caught.value.hint
    right(graph)


@pytest.mark.parametrize(("place", "hint", "wrong", "right"), SCHEMAS, ids=[one[1][:40] for one in SCHEMAS])
def test_a_schema_written_as_its_hint_says_is_taken(
    tmp_path: Path, place: str, hint: str, wrong: str, right: str
) -> None:
    with pytest.raises(og.errors.SchemaInvalid) as caught:
        og.init(tmp_path / "wrong", wrong)
    assert pattern(hint).search(caught.value.hint), caught.value.hint
    og.init(tmp_path / "right", right)


# --- every hint is met --------------------------------------------------------------------------------------------------


@cache
def given() -> tuple[tuple[str, str], ...]:
    """Module and text of every hint of the engine that names no command."""
    return tuple(sorted(set(_given())))


def _given() -> Iterator[tuple[str, str]]:
    for path in sorted(ENGINE.rglob("*.py")):
        place = str(path.relative_to(ENGINE))
        if place.startswith("testing/"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for word in node.keywords if isinstance(node, ast.Call) else ():
                if word.arg != "hint":
                    continue
                values = [word.value.body, word.value.orelse] if isinstance(word.value, ast.IfExp) else [word.value]
                for text in map(text_of, values):
                    if text and "`omnigraph " not in text:
                        yield place, text


@cache
def quoted() -> str:
    """The texts of all tests but these, on one line: a text that is divided over lines is one again."""
    found = [path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py") if path.parent != Path(__file__).parent]
    return " ".join(re.sub(r"""["']\s*\n\s*f?["']""", "", "\n".join(found)).split())


def is_quoted(text: str) -> bool:
    for part in re.split(r"\{[^}]*\}", text):
        words = part.split()
        if any(" ".join(words[at : at + IN_A_ROW]) in quoted() for at in range(len(words) - IN_A_ROW + 1)):
            return True
    return False


@pytest.mark.parametrize(("place", "text"), given(), ids=lambda one: one[:60])
def test_every_hint_is_met_by_a_test(place: str, text: str) -> None:
    pairs = [part for where, part, *_ in (*CALLS, *SCHEMAS, *WORDS) if where == place]
    left = [part for where, part, _ in MET_ELSEWHERE if where == place]
    assert is_quoted(text) or any(part in text for part in (*pairs, *left)), (
        "add a call that meets it, and the same mended"
    )


def test_what_is_met_elsewhere_is_still_there() -> None:
    for where, part, test in MET_ELSEWHERE:
        assert any(where == place and part in text for place, text in given()), (where, part)
        assert (TESTS.parent / test).is_file(), test


def test_a_hint_that_no_test_knows_is_noticed() -> None:
    unknown = " ".join(("fetch", "the", "moon", "down"))
    assert not is_quoted(unknown) and unknown not in {text for _, text in given()}
