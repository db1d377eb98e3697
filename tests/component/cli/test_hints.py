"""What a message tells to run can be run: each command that the product says anywhere is typed, on a graph."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli import main, tree
from omnigraph.cli.reference import help_text

ROOT = Path(__file__).resolve().parents[3]
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


# These make the pages of the manual, whose commands are run there.
PAGES = {"reference.py"}


@cache
def texts() -> tuple[str, ...]:
    """Every text of the code that is no docstring: whatever may be said to somebody, hint or not."""
    return tuple(_texts())


def _texts() -> Iterator[str]:
    for package in (ROOT / "engine" / "omnigraph", ROOT / "omnigraph_pipelines"):
        for path in sorted(package.rglob("*.py")):
            if path.name in PAGES:
                continue
            code = ast.parse(path.read_text(encoding="utf-8"))
            bodies = (
                node.body for node in ast.walk(code) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            )
            about = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
            for node in ast.walk(code):
                if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and id(node) not in about:
                    yield text_of(node)


def hints(program: str) -> list[str]:
    """Every command of a program between backticks. One whose command itself is a value is left to who makes it: a
    verdict, which ``test_upkeep_screens`` types."""
    found = {command for text in texts() for command in re.findall(rf"`({program} [^`]+)`", text)}
    return sorted(command for command in found if not command.split()[1].startswith(("{", "…")))


HINTS = hints("omnigraph")


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hints")
    (folder / "social.pg").write_text(SCHEMA)
    (folder / "q.gq").write_text('query q() { update Person set { name: "b" } where name = "a" }\n')
    with og.init(folder / "g.omni", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
    return folder


@pytest.fixture
def folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That of all, with this file's ``seeded`` in it."""
    monkeypatch.setenv("OMNIGRAPH_URI", "g.omni")
    return folder


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
    assert hints("omnigraph-pipelines") == [
        f"omnigraph-pipelines {word}"
        for word in ("--help", "doctor", "plan", "quarantine list", "quarantine replay", "validate")
    ]
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


@pytest.mark.parametrize("hint", hints("omnigraph-pipelines"))
def test_what_a_hint_of_the_pipelines_says_to_run_can_be_run(
    hint: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from omnigraph_pipelines.cli.app import run

    (folder / "graph.yaml").write_text(
        "graph: {name: social, uri: g.omni, schema: social.pg}\n"
        "sources: [{name: crm, batches: in/*/, mode: merge, tables: [{node: Person, files: '*.csv'}]}]\n"
    )
    assert run(hint.split()[1:]) == 0, capsys.readouterr().err


def test_every_extra_that_a_message_tells_to_install_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [extras for text in texts() for extras in re.findall(r"omnigraph-pipelines\[([a-z,]+)\]", text)]
    named = {extra for extras in found for extra in extras.split(",")}
    assert {"cli", "pipelines"} <= named <= set(project["optional-dependencies"])


def test_every_option_that_a_message_names_is_one_of_a_command() -> None:
    """Beside those of commands: of the program itself, of ``omnigraph-pipelines``, and of the Java machine."""
    named = {option for text in texts() for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)}
    offered = {option for command in tree.COMMANDS for option in re.findall(r"--[a-z][a-z-]+", help_text(command))}
    assert len(named) > 20
    assert named - offered == {
        *("--version", "--source", "--batch", "--add-modules"),
        "--limit-rows",  # the former name of --limit, in no help
        *("--seconds", "--seed", "--only", "--store", "--every", "--how", "--image", "--flips"),  # of omnigraph.testing
        *("--graph", "--loads", "--kill-every", "--rounds"),  # of its commands evolve and team
        *("--steps", "--rows"),
        *("--processes", "--threads", "--calls"),  # of its command share
        "--seccomp-bpf",  # of strace
    }, "one of no program"
