"""omnigraph-pipelines: validate and plan change nothing; what is wrong is an exit code, a line and a hint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.cli import main
from omnigraph_pipelines.graph_file import load_graph_file
from omnigraph_pipelines.planning import plan_ingest

FILE = """\
graph: {name: people, uri: people.omni, schema: people.pg}
sources:
  - name: crm
    batches: landing/*/
    ready: _SUCCESS
    mode: merge
    tables: [{node: Person, files: people.csv}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMNIGRAPH_GRAPH_FILE", raising=False)
    Path("people.pg").write_text("node Person { name: String @key }\n")
    Path("graph.yaml").write_text(FILE)
    return tmp_path


def land(key: str, *, ready: bool = True) -> None:
    batch = Path("landing", key)
    batch.mkdir(parents=True, exist_ok=True)
    (batch / "people.csv").write_text("name\nAda\n")
    if ready:
        (batch / "_SUCCESS").touch()


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code, out, _ = call(capsys, *arguments, "--json")
    document = json.loads(out)
    assert document["schema_version"] == 1 and document["ok"] == (code == 0)
    return code, document.get("result", document.get("error"))


def test_validate_says_what_a_file_holds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "validate")
    assert code == 0 and "graph.yaml: good; graph people, 1 type" in out and "source crm: Person" in out
    code, result = as_json(capsys, "validate", "graph.yaml")
    assert code == 0 and result["sources"][0]["types"] == ["Person"]


def test_validate_says_every_problem_with_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("graph.yaml").write_text(FILE.replace("mode: merge", "mode: x").replace("ready:", "redy:"))
    code, out, err = call(capsys, "validate")
    assert code == 3 and out == ""
    assert "graph.yaml:5:5: sources[0].redy: unknown key 'redy'; did you mean 'ready'?" in err
    assert "graph.yaml:6:5" in err and "hint:" in err
    code, error = as_json(capsys, "validate")
    assert (code, error["code"], [one["line"] for one in error["problems"]]) == (3, "invalid-input", [5, 6])


def test_plan_tells_new_changed_committed_and_incomplete_apart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in ("1", "2", "3"):
        land(key)
    land("4", ready=False)
    file = load_graph_file()
    planned = {one.batch: one for one in plan_ingest(file, file.settings.sources)}
    assert not Path("people.omni").exists()
    keys = {"1": planned["1"].fingerprint, "2": "0" * 64}
    with og.init("people.omni", Path("people.pg")) as graph:
        for key, fingerprint in keys.items():
            record = {"type": "Person", "data": {"name": key}}
            graph.load([record], mode="append", idempotency_key=f"crm/{key}/{fingerprint}")
    code, result = as_json(capsys, "plan", "--all")
    states = {one["batch"]: one["state"] for one in result["batches"]}
    assert code == 0 and states == {"1": "committed", "2": "changed", "3": "new", "4": "incomplete"}
    assert (result["due"], result["committed"], result["incomplete"]) == (2, 1, 1)
    _, out, _ = call(capsys, "plan")
    assert "crm/1" not in out and "it has no _SUCCESS" in out and "2 to ingest, 1 committed, 1 incomplete" in out


def test_a_run_with_nothing_to_do_starts_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "run")
    assert code == 0 and "0 ingested" in out and "0 batches into people" in err


WRONG = [
    (("run", "--batch", "1"), 3, "no batch '1'"),
    (("run", "--source", "nobody"), 3, "no source 'nobody'"),
    (("plan", "--bogus"), 2, "No such option"),
    (("bogus",), 2, "No such command"),
    (("validate", "nowhere.yaml"), 3, "cannot be read"),
]


@pytest.mark.parametrize(("arguments", "exits", "said"), WRONG, ids=[" ".join(one[0]) for one in WRONG])
def test_what_is_wrong_is_an_exit_code_and_a_hint(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], exits: int, said: str
) -> None:
    code, _, err = call(capsys, *arguments)
    assert code == exits and said in err and "hint:" in err


def test_sources_are_planned_in_their_order_and_one_alone_waits_for_those_before_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land("b1")
    late = "  - {name: late, batches: landing/*/, ready: _SUCCESS, mode: merge, after: [crm], tables: [{node: Person, files: people.csv}]}\n"
    head, sources = FILE.split("sources:\n")
    Path("graph.yaml").write_text(f"{head}sources:\n{late}{sources}")
    code, out, _ = call(capsys, "plan")
    lines = out.splitlines()
    assert code == 0 and "crm/b1" in lines[0] and "late/b1" in lines[1] and lines[1].endswith("after crm")
    code, out, err = call(capsys, "run", "-s", "late")
    assert code == 0 and "late comes after crm, which has batches to ingest: add -s crm" in err and "0 ingested" in out
    code, out, _ = call(capsys, "status")
    assert code == 0 and "late: 1 due; waits for crm" in out and "crm: 1 due" in out
    _, result = as_json(capsys, "status")
    assert [one["counts"] for one in result["sources"]] == [{"due": 1}, {"due": 1}]


def test_where_spark_does_not_start_the_command_shows_what_java_said(folder: Path) -> None:
    land("b1")
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\n[ "$1" = "-version" ] && exec echo \'openjdk version "21.0.1"\'\necho "no memory is left" >&2\nexit 1\n'
    )
    java.chmod(0o755)
    environment = {**os.environ, "JAVA_HOME": str(java.parents[1]), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "omnigraph_pipelines.cli", "run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    shown, error = done.stderr.index("no memory is left"), done.stderr.index("error[internal]: Spark did not start: ")
    [kept] = folder.glob("omnigraph-spark-*.log")
    assert shown < error < done.stderr.index(str(kept)) and "no memory is left" in kept.read_text()
