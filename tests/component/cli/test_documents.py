"""What a command prints as JSON, well or wrong, is what is published; the examples of its help run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import omnigraph as og
from omnigraph.cli import tree
from omnigraph.wire.documents import published_schema
from tests.component.cli.material import Run, displace, head_of, interrupt

FILL = ["--fill", "Person.score=0.5", "--fill-from", "Person.years=age", "--fill-sql", "Person.label=upper(name)"]
# Arguments with which each command succeeds, and with which it fails.
GOOD: dict[str, list[list[str]]] = {
    "init": [["new.omni", "--schema", "social.pg"]],
    "load": [
        ["social.omni", "--data", "people.jsonl", "--mode", "merge"],
        ["social.omni", "--data", "people.jsonl", "--mode", "merge", "--check"],
        ["social.omni", "--data", "bad.jsonl", "--mode", "append", "--on-bad-row", "quarantine"],
    ],
    "mutate": [
        ["social.omni", "-e", 'query q() { insert Person { name: "Eve" } }'],
        ["social.omni", "-e", "query q($n: String) { delete Person where name = $n }", "--params", '{"n": "Nobody"}'],
    ],
    "revert": [["social.omni", "HEAD", "--dry-run"], ["social.omni", "HEAD"]],
    "restore": [["social.omni", "HEAD", "--dry-run"], ["social.omni", "HEAD"]],
    "history": [["social.omni", "Person", "Ann"], ["social.omni", "Person", "Ann", "--limit", "1"]],
    "diff": [
        ["social.omni", "HEAD"],
        ["social.omni", "HEAD", "review", "--type", "Person"],
        ["social.omni", "HEAD", "main", "--stat"],
    ],
    "branch create": [["social.omni", "review"], ["social.omni", "then", "--from", "main", "--at", "HEAD"]],
    "branch list": [["social.omni"], ["social.omni", "--heads"]],
    "branch delete": [["social.omni", "review"], ["social.omni", "review", "--confirm"]],
    "branch merge": [["social.omni", "review", "--dry-run"], ["social.omni", "review"]],
    "snapshot": [["social.omni"]],
    "query": [
        ["social.omni", "--sql", "select * from Person"],
        ["social.omni", "--sql", "select 1.5::decimal(3,1), now()"],
        ["social.omni", "--sql", "select name from Person", "--format", "parquet", "--output", "rows.parquet"],
    ],
    "get": [["social.omni", "Person", "Ann"]],
    "head": [["social.omni", "Person"], ["social.omni", "Follows", "--limit", "1"]],
    "export": [
        ["social.omni"],
        ["social.omni", "--output", "out.jsonl"],
        ["social.omni", "--type", "Person"],
        ["social.omni", "--format", "parquet", "--output", "out"],
    ],
    "changes": [["social.omni", "--since", "HEAD"], ["social.omni", "--since", "main", "--until", "main", "--before"]],
    "status": [["social.omni"], ["social.omni", "--deep"]],
    "commit list": [["social.omni"], ["social.omni", "--limit", "1"], ["social.omni", "--actor", "maker"]],
    "commit show": [["social.omni", "HEAD"]],
    "commit outcome": [["social.omni", "HEAD"], ["social.omni", "01JZX5W9GZ0000000000000000"]],
    "intent list": [["social.omni"], ["pending.omni"]],
    "intent show": [["pending.omni", "OPERATION"]],
    "recover": [["social.omni"], ["pending.omni", "--grace", "0"], ["pending.omni", "--history"]],
    "verify": [["social.omni"], ["pending.omni"], ["social.omni", "--deep"]],
    "repair": [["social.omni"], ["drifting.omni"], ["drifting.omni", "--confirm"]],
    "optimize": [
        ["social.omni"],
        ["social.omni", "--type", "Person", "--target-rows", "1000"],
        ["social.omni", "--branch", "main", "--settle"],
    ],
    "compact": [["social.omni"], ["social.omni", "--fragments-max", "64"]],
    "ensure-indices": [["social.omni"]],
    "cleanup": [
        ["social.omni", "--keep", "1"],
        ["social.omni", "--keep", "1", "--min-age", "0s"],
        ["social.omni", "--keep", "1", "--min-age", "0s", "--confirm"],
    ],
    "checkpoint create": [["social.omni", "now"], ["social.omni", "then", "--at", "HEAD"]],
    "checkpoint list": [["social.omni"], ["pinned.omni"]],
    "checkpoint delete": [["pinned.omni", "pinned"]],
    "schema show": [["social.omni"], ["social.omni", "--format", "mermaid"], ["social.omni", "--format", "json"]],
    "schema plan": [["social.omni", "--schema", "social.pg"], ["social.omni", "--schema", "next.pg", *FILL]],
    "schema apply": [["social.omni", "--schema", "social.pg"], ["social.omni", "--schema", "next.pg", *FILL]],
    "lint": [["--query", "queries.gq", "--schema", "social.pg"], ["social.omni", "--query", "queries.gq"]],
    "explain": [["key-conflict"], []],
    "doctor": [["social.omni"], []],
    "version": [[]],
}
WRONG: dict[str, list[str]] = {
    "init": ["social.omni", "--schema", "social.pg"],
    "load": ["social.omni", "--data", "bad.jsonl", "--mode", "append"],
    "mutate": ["social.omni", "-e", "query q() { insert Person { age: 3 } }"],
    "explain": ["no-such-code"],
    "lint": ["--query", "social.pg", "--schema", "social.pg"],
    "version": ["extra"],
    "doctor": ["http://example.invalid/x"],
    "commit show": ["social.omni", "01JZX5W9GZ0000000000000000"],
    "commit outcome": ["nowhere.omni", "01JZX5W9GZ0000000000000000"],
    "intent show": ["social.omni", "01JZX5W9GZ0000000000000000"],
    "repair": ["social.omni", "--force"],
    "cleanup": ["social.omni", "--keep", "0"],
    "branch create": ["social.omni", "../escape"],
    "branch delete": ["social.omni", "nothing"],
    "checkpoint create": ["social.omni", "../escape"],
    "checkpoint delete": ["social.omni", "nothing"],
    "query": ["social.omni", "--sql", "drop table Person"],
}


def make_branch(uri: str, name: str) -> None:
    with og.open(uri) as graph:
        graph.branches.create(name)


def validated(document: dict[str, Any], command: str) -> None:
    schema = {**published_schema(), "anyOf": [{"$ref": f"#/$defs/command.{command.replace(' ', '%20')}"}]}
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        pytest.param(c.path, arguments, id=f"{c.path} {i}")
        for c in tree.COMMANDS
        for i, arguments in enumerate(GOOD[c.path])
    ],
)
def test_what_a_command_prints_as_json_is_what_is_published(
    command: str, arguments: list[str], run: Run, folder: Path
) -> None:
    stand_ins = {"HEAD": head_of("social.omni"), "OPERATION": ""}
    if "pending.omni" in arguments:
        shutil.copytree("social.omni", "pending.omni")
        stand_ins["OPERATION"] = interrupt("pending.omni")
    if "drifting.omni" in arguments:
        shutil.copytree("social.omni", "drifting.omni")
        displace("drifting.omni")
    if "review" in arguments and command != "branch create":
        make_branch("social.omni", "review")
    if "pinned.omni" in arguments:
        shutil.copytree("social.omni", "pinned.omni")
        run("checkpoint", "create", "pinned.omni", "pinned")
    ended = run(*command.split(), *(stand_ins.get(argument, argument) for argument in arguments), "--json")
    validated(ended.document, command)


@pytest.mark.parametrize("command", [command.path for command in tree.COMMANDS])
def test_an_error_of_every_command_is_one_document_as_well(command: str, run: Run, folder: Path) -> None:
    arguments = WRONG.get(command, ["nowhere.omni"])
    ended = run(*command.split(), *arguments, "--json", code=None)
    assert ended.code in (2, 3)
    validated(ended.document, command)
    assert ended.err.startswith("error[") or "\nerror[" in ended.err
    assert "\nhint: " in ended.err


def test_the_published_schema_refuses_what_it_does_not_know() -> None:
    document = {"schema_version": 1, "ok": True, "result": {"version": "1", "storage_version": 4}}
    validated(document, "version")
    for broken in (
        {**document, "more": 1},
        {**document, "result": {"version": "1"}},
        {**document, "ok": False},
        {"schema_version": 1, "ok": False, "error": {"error": "x"}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validated(broken, "version")


@pytest.mark.parametrize("command", tree.COMMANDS, ids=lambda command: command.path)
def test_the_example_in_the_help_of_a_command_runs(command: tree.Command, run: Run, folder: Path) -> None:
    import shlex

    if command.path == "init":
        shutil.rmtree("social.omni")
    words = shlex.split(command.example)[1:]
    if "01JZX5W9GZ0000000000000000" in words:
        stand_in = interrupt("social.omni") if command.path.startswith("intent") else head_of("social.omni")
        words[words.index("01JZX5W9GZ0000000000000000")] = stand_in
    if "review" in words and command.path != "branch create":
        make_branch("social.omni", "review")
    if command.path == "checkpoint delete":
        run("checkpoint", "create", "social.omni", "season-start")
    assert command.example in run(*command.path.split(), "--help").out
    run(*words)
