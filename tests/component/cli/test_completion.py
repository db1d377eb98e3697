"""A shell that asks for the end of a word gets names of the graph that is meant, and never an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli import tree
from omnigraph.cli.completion import NAMES, OPTIONS, SUBJECTS
from omnigraph.cli.reference import help_text

SCHEMA = "node Person { name: String @key }\nnode Place { name: String @key }\nedge Knows: Person -> Person\n"
# The protocol of the shell ends the process; what was loaded is told at its exit.
PROGRAM = """
import atexit, json, sys
from omnigraph.cli import main
atexit.register(lambda: sys.stderr.write(json.dumps([name for name in ("lance", "duckdb") if name in sys.modules])))
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    with og.init(folder / "g.omni", SCHEMA) as graph:
        first = graph.load([{"type": "Person", "data": {"name": "ann"}}], mode="append").commit_id
        graph.branches.create("review")
        graph.branches.create("gone")
        graph.branches.delete("gone")
        graph.checkpoints.create("monday")
        (folder / "first").write_text(str(first))
    return folder


def complete(folder: Path, words: str, **environment: str) -> tuple[list[str], list[str]]:
    """What is offered for the last word, and which heavy packages were loaded for it."""
    shell = {
        "_OMNIGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | shell | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.split(), json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("omnigraph query g.omni --branch ", {"main", "review"}),
        ("omnigraph query g.omni --branch re", {"review"}),
        ("omnigraph branch merge g.omni ", {"main", "review"}),
        ("omnigraph branch merge g.omni review --into ", {"main", "review"}),
        ("omnigraph checkpoint delete g.omni m", {"monday"}),
        ("omnigraph checkpoint create g.omni ", set()),
    ],
)
def test_branches_and_checkpoints_are_offered_without_loading_lance(
    folder: Path, typed: str, offered: set[str]
) -> None:
    found, loaded = complete(folder, typed)
    assert (set(found), loaded) == (offered, [])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("omnigraph head g.omni ", {"Person", "Place", "Knows"}),
        ("omnigraph get g.omni Pl", {"Place"}),
        ("omnigraph get g.omni Person ", set()),
        ("omnigraph export g.omni --type P", {"Person", "Place"}),
        ("omnigraph commit show g.omni FIRST", {"FIRST"}),
        ("omnigraph snapshot g.omni --at mon", {"monday"}),
        ("omnigraph snapshot g.omni --at FIRST", {"FIRST"}),
    ],
)
def test_types_and_commits_are_offered(folder: Path, typed: str, offered: set[str]) -> None:
    first = (folder / "first").read_text()
    found, _ = complete(folder, typed.replace("FIRST", first[:24]))
    assert set(found) == {first if name == "FIRST" else name for name in offered}


def test_the_graph_of_the_environment_and_of_the_option_are_asked(folder: Path) -> None:
    assert complete(folder, "omnigraph head Pe", OMNIGRAPH_URI="g.omni")[0] == ["Person"]
    assert complete(folder, "omnigraph query --uri g.omni --branch r")[0] == ["review"]


@pytest.mark.parametrize("uri", ["none.omni", "s3://bucket/g", "first", "ftp://x"])
def test_a_graph_that_cannot_be_asked_offers_nothing(folder: Path, uri: str) -> None:
    for typed in ("--branch ", "--type ", "--at "):
        assert complete(folder, f"omnigraph export {uri} {typed}")[0] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_there(folder: Path, shell: str) -> None:
    program = "from omnigraph.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"_OMNIGRAPH_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "omnigraph" in done.stdout and "_OMNIGRAPH_COMPLETE" in done.stdout, done.stderr


def test_every_option_and_subject_that_is_completed_exists() -> None:
    helps = {command.path: help_text(command) for command in tree.COMMANDS}
    for option in OPTIONS:
        assert any(option in text for text in helps.values()) or option == "--from"
    subjects = {word for command in tree.COMMANDS for word in (command.subject or "").split()}
    # What is left has no list to offer: ids of rows, new names, operations.
    assert subjects - set(SUBJECTS) <= {"ID", "NAME", "OPERATION_ID"}
    assert set(NAMES) - {command.path for command in tree.COMMANDS} <= {"branch delete"}
