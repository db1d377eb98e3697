"""The first commands that somebody types: the release, nothing at all, one row, a statement, a table given as records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli import main
from tests.component.cli.material import Run

PROGRAM = [sys.executable, "-m", "omnigraph.cli"]


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_release_is_printed(option: str, run: Run) -> None:
    assert run(option).out == f"omnigraph {og.__version__}\n"


def test_nothing_typed_shows_commands_that_run(folder: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run().out
    commands = [line.strip() for line in shown.splitlines() if line.startswith("  omnigraph ")]
    assert len(commands) == 4 and all("social.omni" in command for command in commands)
    script = "\n".join(command.partition("  ")[0].replace("FILE", "people.jsonl") for command in commands)
    bin_ = folder / "omnigraph"
    bin_.write_text(f'#!/bin/sh\nexec {sys.executable} -m omnigraph.cli "$@"\n')
    bin_.chmod(0o755)
    env = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_nothing_typed_in_an_empty_folder_shows_how_to_make_a_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "omnigraph init social.omni --schema social.pg" in run().out


def test_one_row_is_shown_by_its_id_and_a_missing_one_is_not_found(folder: Path, run: Run) -> None:
    found = run("get", "social.omni", "Person", "Ann", "--json").result
    assert found["row"] == {"id": "Ann", "name": "Ann", "age": 30}
    assert "Ann" in run("get", "Person", "Ann", "--uri", "social.omni").out
    missing = run("get", "social.omni", "Person", "ann", code=3)
    assert "no Person has the id 'ann'" in missing.err
    assert "too few arguments" in run("get", "Person", code=2).err
    assert "too many arguments" in run("get", "social.omni", "Person", "Ann", "Bob", code=2).err


def test_the_first_rows_of_a_type_are_shown(folder: Path, run: Run) -> None:
    assert [row["name"] for row in run("head", "social.omni", "Person", "--json").result["rows"]] == ["Ann", "Bob"]
    assert len(run("head", "social.omni", "Person", "--limit", "1", "--json").result["rows"]) == 1
    run("mutate", "social.omni", "-e", "delete Follows where from = 'Ann'".replace("'", '"'))
    assert run("head", "social.omni", "Follows").out == "no rows\n"


@pytest.mark.parametrize(
    ("statement", "nodes"),
    [
        ('delete Person where name = "Ann"', 1),
        (' update Person set { age: 31 } where name = "Ann"', 1),
        ('\ninsert Person { name: "Cy" }\ninsert Person { name: "Dee" } // two', 2),
    ],
)
def test_a_statement_needs_no_query_around_it(statement: str, nodes: int, folder: Path, run: Run) -> None:
    assert run("mutate", "social.omni", "-e", statement, "--json").result["affected_nodes"] == nodes


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ('delete Person wher name = "Ann"', "line 1, column 15: expected `where`"),
        ('delete Persn where name = "Ann"', "line 1, column 1: "),
        ('insert Person { name: "Cy" }\ninsert Persn { name: "Dee" }', "line 2, column 1: "),
    ],
)
def test_a_mistake_in_a_statement_is_placed_as_typed(statement: str, place: str, folder: Path, run: Run) -> None:
    ended = run("mutate", "social.omni", "-e", statement, "--json", code=3)
    assert ended.error["error"].startswith(place)
    assert ended.error["line"] == int(place.split()[1].rstrip(","))
    assert all(one["line"] == ended.error["line"] for one in ended.error.get("diagnostics", ()))


def test_parameters_of_a_bare_statement_are_explained(folder: Path, run: Run) -> None:
    ended = run("mutate", "social.omni", "-e", "delete Person where name = $n", "--params", '{"n": "Ann"}', code=2)
    assert "take no parameters" in ended.err and "query q($name: String)" in ended.err


@pytest.mark.parametrize("name", ["people.csv", "people.parquet", "people.CSV.gz"])
def test_a_table_given_as_records_is_explained(name: str, folder: Path, run: Run) -> None:
    ended = run("load", "social.omni", "--data", name, "--mode", "merge", code=2)
    assert f"--node TYPE={name}" in ended.err


def test_the_program_does_not_load_pandas_and_a_caller_in_python_keeps_it(folder: Path) -> None:
    for words in (["status", "social.omni"], ["query", "social.omni", "--sql", "select count(*) from Person"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "omnigraph.cli", *words], capture_output=True, text=True
        )
        assert done.returncode == 0
        assert "pyarrow.lib" in done.stderr and "pandas.core" not in done.stderr
    assert main(["version"]) == 0
    import pandas

    assert pandas.__version__
