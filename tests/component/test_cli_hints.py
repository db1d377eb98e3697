"""A hint that names a command is one that can be typed: each is, on a graph."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli import main

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "node Person { name: String @key }\n"
USAGE, INTERNAL = 2, 1


def text_of(node: ast.expr) -> str:
    """A text of the code, with ``{…}`` where a value is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    if isinstance(node, ast.IfExp):
        return f"{text_of(node.body)} {text_of(node.orelse)}"
    return ""


def hints() -> set[str]:
    """Every command between backticks in a hint of the engine."""
    found: set[str] = set()
    for path in sorted((ROOT / "engine" / "omnigraph").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                found.update(re.findall(r"`(omnigraph [^`]+)`", text_of(node.value)))
            elif isinstance(node, ast.Assign | ast.AnnAssign) and "default_hint" in ast.unparse(node).split("=")[0]:
                found.update(re.findall(r"`(omnigraph [^`]+)`", text_of(node.value) if node.value else ""))
    return found


HINTS = sorted(hints())


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hints")
    (folder / "social.pg").write_text(SCHEMA)
    (folder / "q.gq").write_text('query q() { update Person set { name: "b" } where name = "a" }\n')
    with og.init(folder / "g.omni", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
    return folder


@pytest.fixture
def folder(seeded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "work"
    shutil.copytree(seeded, here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("OMNIGRAPH_URI", "g.omni")
    return here


def typed(hint: str, commit_id: str) -> list[str]:
    """The words of a hint, with what a reader would put in."""
    words = hint.removeprefix("omnigraph ").split()
    made = []
    for before, word in zip(["", *words], words, strict=False):
        if word == "FILE":
            word = "q.gq" if before == "--query" else "social.pg"
        elif word == "COMMIT_ID" or (word.startswith("{") and "commit" in words):
            word = commit_id
        elif word.startswith("{"):
            word = "new.omni" if words[0] == "init" else "g.omni"
        made.append(word)
    # A hint that names the command alone sends to its help: what to give it is not the hint's to know.
    return [*made, "--help"] if made == ["load"] else made


def test_hints_name_commands() -> None:
    assert len(HINTS) >= 12
    assert {"omnigraph recover", "omnigraph doctor", "omnigraph commit outcome COMMIT_ID"} <= set(HINTS)


@pytest.mark.parametrize("hint", HINTS)
def test_what_a_hint_says_to_run_can_be_run(hint: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with og.open("g.omni", read_only=True) as graph:
        commit_id = graph.snapshot().commit_id
    argv = typed(hint, commit_id)
    assert not [word for word in argv if "{" in word], argv
    code = main(argv)
    said = capsys.readouterr().err
    assert code not in (USAGE, INTERNAL), said
