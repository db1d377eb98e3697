"""``omnigraph mutate``: where the query and its parameters come from, what is printed, how it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli import main

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
QUERIES = """
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query drop($name: String) { delete Person where name = $name }
query read() { match { $p: Person } return { $p.name } }
"""


class Shell:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.uri = str(folder / "graph")
        self.folder = folder
        self._capsys = capsys
        og.init(self.uri, SCHEMA).close()

    def __call__(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        self._capsys.readouterr()
        ended = main(["mutate", self.uri, *arguments])
        out, err = self._capsys.readouterr()
        assert ended == code, err
        return out, err

    def document(self, *arguments: str, code: int = 0) -> Any:
        found = json.loads(self(*arguments, "--json", code=code)[0])
        return found["result"] if found["ok"] else found["error"]

    def names(self) -> list[str]:
        with og.open(self.uri, read_only=True) as graph:
            return sorted(graph.snapshot().to_arrow("Person")["name"].to_pylist())


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.delenv("OMNIGRAPH_URI", raising=False)
    monkeypatch.delenv("OMNIGRAPH_ACTOR", raising=False)
    return Shell(tmp_path, capsys)


def test_a_query_comes_from_a_file_by_name_with_parameters(shell: Shell, tmp_path: Path) -> None:
    queries = tmp_path / "q.gq"
    queries.write_text(QUERIES)
    result = shell.document("--query", str(queries), "--name", "add", "--params", '{"name": "ann", "age": 3}')
    assert result["query_name"] == "add" and (result["affected_nodes"], result["affected_edges"]) == (1, 0)
    given = tmp_path / "p.json"
    given.write_text('{"name": "bob"}')
    out, err = shell("--query", str(queries), "--name", "add", "--params-file", str(given))
    assert out.startswith("changed main via add: 1 node, 0 edges\n") and "commit " in out
    assert err.startswith("omnigraph mutate → ")
    assert shell.names() == ["ann", "bob"]


def test_a_query_comes_from_the_command_line_or_standard_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("-e", 'query q() { insert Person { name: "ann" } }')
    monkeypatch.setattr(sys, "stdin", io.StringIO('query q() { insert Person { name: "bob" } }'))
    shell("--query", "-")
    assert shell.names() == ["ann", "bob"]
    out, _ = shell("-e", 'query q() { delete Person where name = "nobody" }')
    assert "nothing changed: no commit" in out


def test_a_key_used_before_answers_with_its_receipt(shell: Shell) -> None:
    arguments = ("-e", 'query q() { insert Person { name: "ann" } }', "--key", "once")
    first, again = shell.document(*arguments), shell.document(*arguments)
    assert again["replayed"] and again["commit_id"] == first["commit_id"]


def test_a_head_that_has_moved_ends_with_4(shell: Shell) -> None:
    head = shell.document("-e", 'query q() { insert Person { name: "ann" } }')["commit_id"]
    shell("-e", 'query q() { insert Person { name: "bob" } }', "--expect-head", head)
    error = shell.document("-e", 'query q() { insert Person { name: "cid" } }', "--expect-head", head, code=4)
    assert error["code"] == "precondition-failed" and error["expected"] == head
    assert shell.names() == ["ann", "bob"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("-e", "query q() { }", "--query", "q.gq"), 2),
        (("-e", "query q() { delete Person where age = 1 }", "--params", "{}", "--params-file", "p"), 2),
        (("-e", "query q() { delete Person where age = 1 }", "--params", "{"), 3),
        (("-e", "query q() { delete Person where age = 1 }", "--params", "[1]"), 3),
        (("-e", "query q() { delete Person where wage = 1 }"), 3),
        (("-e", "query q() { match { $p: Person } return { $p } }"), 3),
        (("-e", "not a query"), 3),
        (("--query", "no-such-file.gq"), 3),
        (("-e", QUERIES), 3),
        (("-e", QUERIES, "--name", "nobody"), 3),
        (("-e", "query q() { delete Person where age = 1 }", "--branch", "side"), 3),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(shell: Shell, arguments: tuple[str, ...], code: int) -> None:
    out, err = shell(*arguments, code=code)
    assert out == "" and "error[" in err
    assert shell.names() == []


def test_a_text_that_is_wrong_by_itself_opens_nothing(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    mixed = 'query q() { insert Person { name: "a" } delete Person where age = 1 }'
    assert main(["mutate", str(shell.folder / "nowhere"), "-e", mixed]) == 3
    assert "Q4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ('update Persn set { age: 2 } where name = "ann"', "did you mean Person?"),
        ('update Person set { agee: 2 } where name = "ann"', "did you mean age?"),
        ('update Person set { age: "x" } where name = "ann"', "correct the query at the place named"),
        ('update Person set age = 2 where name = "ann"', "write it like: "),
    ],
)
def test_a_statement_alone_gets_the_hint_of_its_mistake(shell: Shell, statement: str, hint: str) -> None:
    assert f"hint: {hint}" in shell("-e", statement, code=3)[1]
    wrapped = shell.document("-e", f"query q() {{ {statement} }}", code=3)
    assert wrapped["hint"].startswith(hint)


@pytest.mark.parametrize(
    "params", ['{"n": "\\ud800"}', '{"\\ud800": 1}', '{"n": 1e999}', '{"n": ' + "[" * 500 + "]" * 500 + "}"]
)
def test_parameters_that_cannot_be_stored_are_refused_as_parameters(shell: Shell, params: str) -> None:
    _, err = shell("-e", "query q($n: String) { delete Person where name = $n }", "--params", params, code=3)
    assert "error[query-invalid]" in err and "parameter" in err
