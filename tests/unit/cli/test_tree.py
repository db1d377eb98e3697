"""The tree of commands: cheap to show, complete, and naming nothing that is not there."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from omnigraph.cli import reference, tree
from omnigraph.cli.commands.explain import every_error
from omnigraph.core.errors import all_errors
from omnigraph.wire.program import ErrorCode

ROOT = Path(__file__).parents[3]
HEAVY = (
    "lance", "pyarrow", "duckdb", "pandas", "polars", "boto3", "botocore", "pydantic", "numpy", "rich",
    "omnigraph.graph", "omnigraph.commit", "omnigraph.cli.commands.load",
)  # fmt: skip
PROGRAM = """
import json, sys
from omnigraph.cli import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def loaded_by(*argv: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, check=True)
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["code"] == 0
    return set(told["modules"])


@pytest.fixture(scope="module")
def loaded_by_help() -> set[str]:
    return loaded_by("--help")


@pytest.mark.parametrize("module", [name for name in HEAVY if name != "rich"])
def test_help_loads_nothing_heavy(module: str, loaded_by_help: set[str]) -> None:
    assert module not in loaded_by_help


def test_help_of_one_command_loads_that_command_and_no_other() -> None:
    loaded = loaded_by("status", "--help")
    commands = {name for name in loaded if name.startswith("omnigraph.cli.commands.")}
    assert commands == {"omnigraph.cli.commands.status"}
    assert not loaded & {"lance", "pyarrow", "duckdb", "boto3"}


@pytest.mark.parametrize("command", tree.COMMANDS, ids=lambda command: command.path)
def test_every_command_of_the_tree_is_built(command: tree.Command) -> None:
    function = getattr(import_module(command.module), command.function)
    first_line = inspect.getdoc(function).splitlines()[0]
    assert first_line == command.help
    assert command.example.startswith(f"omnigraph {command.path}")


@pytest.mark.parametrize("command", [c for c in tree.COMMANDS if c.needs], ids=lambda command: command.path)
def test_every_command_has_its_part_of_the_facade(command: tree.Command) -> None:
    from omnigraph import graph

    assert hasattr(graph.Graph, command.needs) or hasattr(graph, command.needs)


def test_a_command_that_is_not_built_is_absent() -> None:
    from omnigraph.cli import main

    for name in ("frobnicate", "branch merge x"):
        if tree.find(name) is None:
            assert main(name.split()) == 2


def test_every_group_has_commands_and_a_line_of_help() -> None:
    grouped = {command.path.split()[0] for command in tree.COMMANDS if " " in command.path}
    assert grouped == set(tree.GROUPS)


def test_the_reference_pages_are_up_to_date() -> None:
    folder = ROOT / "docs" / "reference"
    stale = [name for name, text in reference.pages().items() if (folder / name).read_text(encoding="utf-8") != text]
    assert not stale, f"run `python -m omnigraph.cli.reference docs/reference`: {stale}"


def test_the_published_schema_is_small_enough_to_read() -> None:
    text = (ROOT / "docs" / "reference" / "cli-json.schema.json").read_text(encoding="utf-8")
    assert len(text.encode()) <= 70_000
    declared = json.loads(text)["$defs"]
    assert max(len(json.dumps(one)) for one in declared.values()) <= 1_600


def test_every_error_code_is_documented_with_its_exit_code() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    for code, kind in every_error().items():
        assert f"| `{code}` | `{kind.__name__}` | {kind.exit_code} |" in page


def test_every_error_has_a_meaning_and_a_hint() -> None:
    for kind in every_error().values():
        told = ErrorCode.of(kind).to_dict()
        assert told["meaning"] and told["hint"], kind


def test_every_exit_code_of_an_error_stands_in_the_table_of_exit_codes() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for kind in all_errors().values():
        assert f"\n| {kind.exit_code} | " in page


# Named in hints of what is being built; out of here with the command.
LATER: set[str] = set()


def commands_named_in_the_code() -> dict[str, str]:
    """Every `omnigraph NAME` between backticks in a text of the engine, with the file that has it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "engine" / "omnigraph").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for words in re.findall(r"`omnigraph ([a-z][a-z -]*)", node.value):
                    found.setdefault(words.strip(), path.name)
    return found


def test_a_hint_tells_to_run_only_commands_that_exist() -> None:
    named = commands_named_in_the_code()
    assert {"recover", "commit list"} <= named.keys()
    known = {command.path for command in tree.COMMANDS} | set(tree.GROUPS)
    for words, file in named.items():
        first = words.split()[0]
        assert first in known | {c.split()[0] for c in known} | LATER, f"{file}: omnigraph {words}"


def test_what_is_built_is_not_counted_as_later() -> None:
    assert not LATER & {command.path.split()[0] for command in tree.COMMANDS}


# --- completion ---------------------------------------------------------------------------------------------------------


def complete(words: str) -> list[str]:
    environment = {
        **os.environ,
        "_OMNIGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from omnigraph.cli import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("omnigraph comm", {"commit"}),
        ("omnigraph commit ", {"list", "show", "outcome"}),
        ("omnigraph load --mode a", {"append"}),
        ("omnigraph status --de", {"--deep"}),
        ("omnigraph explain key", {"key-conflict"}),
    ],
)
def test_the_shell_completes_commands_options_and_choices(typed: str, offered: set[str]) -> None:
    assert set(complete(typed)) == offered
