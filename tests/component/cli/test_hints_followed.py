"""A hint is followed in the very situation that printed it, and the situation must change.

``SITUATIONS`` makes things go wrong and types what the hint says. Every hint of the engine that names a command is in it, or in
``ELSEWHERE`` with the test that makes its situation.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from tests.component.cli.hint_damage import DAMAGE
from tests.component.cli.hint_elsewhere import ELSEWHERE
from tests.component.cli.hint_names import GRAPH, NAMES, Situation
from tests.component.cli.material import Ended, Run
from tests.component.cli.test_hints import text_of

ENGINE = Path(__file__).parents[3] / "engine" / "omnigraph"
SITUATIONS = (*NAMES, *DAMAGE)
COMMAND = re.compile(r"`omnigraph ([^`]+)`")
USAGE, INTERNAL = 2, 1
# These hold texts that others raise with.
SAID_FOR_OTHERS = ("core/errors.py", "cli/call.py", "cli/commands/mutate.py", "read/place_names.py")


class Given:
    """Hints of errors that were made, with the modules of the engine that took part."""

    def __init__(self) -> None:
        self.modules: dict[str, set[str]] = {}

    def note(self, error: OmnigraphError) -> None:
        frame: Any = sys._getframe(2)
        modules = self.modules.setdefault(error.hint, set())
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(str(ENGINE)):
                modules.add(str(Path(path).relative_to(ENGINE)))
            frame = frame.f_back


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    noted, old = Given(), OmnigraphError.__init__

    def init(self: OmnigraphError, message: str, *, hint: str | None = None, **facts: Any) -> None:
        old(self, message, hint=hint, **facts)
        noted.note(self)

    monkeypatch.setattr(OmnigraphError, "__init__", init)
    yield noted
    failpoints.disarm()


def hint_of(ended: Ended) -> str:
    """What a command that went wrong says to do; where none did, all that it printed."""
    if ended.code == 0 or "hint: " not in ended.err:
        return " ".join((ended.out + ended.err).split())
    return " ".join(ended.err[ended.err.rindex("hint: ") :].split()).removeprefix("hint: ")


def words_of(command: str, fills: dict[str, str]) -> list[str]:
    for name, value in fills.items():
        command = re.sub(rf"(?<![\w/.-]){name}(?![\w-])", value, command)
    words = command.split()
    # The name of a command alone sends to its help: what to give it is not the hint's to know.
    return [*words, "--help"] if words == ["load"] else words


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: f"{one.place}: {one.hint[:50]}")
def test_a_hint_that_is_followed_changes_what_printed_it(
    situation: Situation, run: Run, folder: Path, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = situation.make()
    ended = run(*words, code=situation.code)
    failpoints.disarm()
    hint = hint_of(ended)
    assert pattern(situation.hint).search(hint), hint
    if ended.code and situation.place not in SAID_FOR_OTHERS:
        [modules] = [modules for text, modules in given.modules.items() if " ".join(text.split()) == hint]
        assert situation.place in modules, modules
    monkeypatch.setenv("OMNIGRAPH_URI", GRAPH)
    shown = ""
    for command in COMMAND.findall(hint):
        typed = words_of(command, dict(situation.fills))
        told = run(*typed, code=None)
        if situation.confirms:
            assert "repeat with --confirm" in told.out + told.err
            told = run(*typed, "--confirm")
        assert told.code not in (USAGE, INTERNAL), told.err
        shown += told.out + told.err
    monkeypatch.delenv("OMNIGRAPH_URI")
    for text in situation.shows:
        assert text in shown
    situation.by_hand()
    again = run(*(words if situation.then is None else situation.then(shown)), code=situation.ends)
    assert situation.ends or hint not in again.out + again.err


# --- every hint has a situation -----------------------------------------------------------------------------------------


def pattern(part: str) -> re.Pattern[str]:
    """A part of a hint, with any value where the code puts one in."""
    return re.compile(".+?".join(re.escape(one) for one in re.split(r"\{[^}]*\}", part)))


@cache
def told() -> tuple[tuple[str, str], ...]:
    """Module and text of everything in the engine that names a command and is not a docstring."""
    return tuple(_told())


def _told() -> Iterator[tuple[str, str]]:
    for path in sorted(ENGINE.rglob("*.py")):
        place = str(path.relative_to(ENGINE))
        if place.startswith("testing/") or place == "cli/reference.py":
            continue
        code = ast.parse(path.read_text(encoding="utf-8"))
        about = {
            id(node.body[0].value)
            for node in ast.walk(code)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        parts = {id(part) for node in ast.walk(code) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(code):
            if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in about | parts:
                text = text_of(node)
                if re.search(r"(?<!`)`omnigraph \S", text):
                    yield place, text


@pytest.mark.parametrize(("place", "text"), told(), ids=lambda one: one[:60])
def test_every_hint_that_names_a_command_has_a_situation(place: str, text: str) -> None:
    covered = [one for one in SITUATIONS if one.place == place and one.hint in text]
    covered += [one for one in ELSEWHERE if one.place == place and one.hint in text]
    assert covered, "add a situation that meets it: what the hint says is typed there and has to help"


def test_no_situation_is_of_a_hint_that_is_gone() -> None:
    for one in (*SITUATIONS, *ELSEWHERE):
        assert any(one.place == place and one.hint in text for place, text in told()), (one.place, one.hint)


@pytest.mark.parametrize("one", ELSEWHERE, ids=lambda one: f"{one.place}: {one.hint[:40]}")
def test_what_is_met_elsewhere_names_its_tests_or_says_why_there_are_none(one: Any) -> None:
    assert bool(one.tests) != bool(one.why)
    for name in one.tests:
        path, _, function = name.partition("::")
        text = (ENGINE.parents[1] / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(", text, re.M), name
