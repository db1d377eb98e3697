"""A secret that is planted shows up nowhere: not in what any command prints, logs, raises, pickles or stores."""

from __future__ import annotations

import json
import logging
import os
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli import main, tree
from omnigraph.store import open_store

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { }\n"
KEY_ID, SECRET, TOKEN = "CANARYKEYID0001", "CANARYsecretKEY/+0002", "CANARYtoken==0003"
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

# Every command: one way that works, and ways that fail.
CALLS: dict[str, list[list[str]]] = {
    "init": [["init", "{g}2", "--schema", "s.pg"], ["init", "{g}", "--schema", "s.pg"]],
    "load": [
        ["load", "{g}", "--data", "in.jsonl", "--mode", "merge"],
        ["load", "{g}", "--data", "bad.jsonl", "--mode", "append"],
        ["load", "{g}", "--data", "in.jsonl", "--mode", "overwrite"],
        ["load", "{g}", "--data", "s3://no-such-bucket/x.jsonl", "--mode", "append"],
    ],
    "mutate": [
        ["mutate", "{g}", "-e", 'query q() { update Person set { age: 3 } where name = "a" }'],
        ["mutate", "{g}", "-e", "query"],
    ],
    "snapshot": [["snapshot", "{g}"], ["snapshot", "{g}", "--at", ULID]],
    "query": [
        ["query", "{g}", "--sql", "select * from duckdb_settings()", "--format", "csv"],
        ["query", "{g}", "--sql", "select getenv('AWS_SECRET_ACCESS_KEY')"],
    ],
    "export": [["export", "{g}"], ["export", "{g}", "--output", "/no/such/folder/x.jsonl"]],
    "status": [["status", "{g}", "--deep"], ["status", "s3://no-such-bucket/g"]],
    "commit list": [["commit", "list", "{g}"]],
    "commit show": [["commit", "show", "{g}", ULID]],
    "commit outcome": [["commit", "outcome", "{g}", ULID]],
    "intent list": [["intent", "list", "{g}"]],
    "intent show": [["intent", "show", "{g}", ULID]],
    "recover": [["recover", "{g}", "--grace", "0"], ["recover", "s3://no-such-bucket/g"]],
    "verify": [["verify", "{g}", "--deep"]],
    "repair": [["repair", "{g}"], ["repair", "{g}", "--confirm", "--force"]],
    "optimize": [["optimize", "{g}"], ["optimize", "{g}", "--type", "Nobody"]],
    "compact": [["compact", "{g}"]],
    "ensure-indices": [["ensure-indices", "{g}"]],
    "cleanup": [["cleanup", "{g}", "--keep", "1"], ["cleanup", "{g}", "--keep", "1", "--min-age", "0s", "--confirm"]],
    "checkpoint create": [["checkpoint", "create", "{g}", "one"], ["checkpoint", "create", "{g}", "../x"]],
    "checkpoint list": [["checkpoint", "list", "{g}"]],
    "checkpoint delete": [["checkpoint", "delete", "{g}", "one"]],
    "schema show": [["schema", "show", "{g}"]],
    "schema plan": [
        ["schema", "plan", "{g}", "--schema", "s.pg"],
        ["schema", "plan", "{g}", "--schema", "/no/such.pg"],
    ],
    "schema apply": [["schema", "apply", "{g}", "--schema", "s.pg"]],
    "branch create": [["branch", "create", "{g}", "one"], ["branch", "create", "s3://no-such-bucket/g", "b"]],
    "branch list": [["branch", "list", "{g}", "--heads"], ["branch", "list", "s3://no-such-bucket/g"]],
    "branch delete": [["branch", "delete", "{g}", "nobody"], ["branch", "delete", "{g}", "one", "--confirm", "--yes"]],
    "branch merge": [["branch", "merge", "{g}", "nobody"], ["branch", "merge", "s3://no-such-bucket/g", "b"]],
    "changes": [["changes", "{g}", "--since", ULID], ["changes", "s3://no-such-bucket/g", "--since", "a"]],
    "diff": [["diff", "{g}", ULID], ["diff", "s3://no-such-bucket/g", "a", "b"]],
    "history": [["history", "{g}", "Person", "a"], ["history", "s3://no-such-bucket/g", "Person", "a"]],
    "revert": [["revert", "{g}", ULID]],
    "restore": [["restore", "{g}", ULID]],
    "get": [["get", "{g}", "Person", "a"], ["get", "{g}", "Nobody", "a"]],
    "head": [["head", "{g}", "Person"], ["head", "s3://no-such-bucket/g", "Person"]],
    "lint": [["lint", "{g}", "--query", "q.gq"], ["lint", "{g}", "--query", "/no/such.gq"]],
    "doctor": [["doctor", "{g}"], ["doctor", "s3://no-such-bucket/g"]],
}
WITHOUT_A_GRAPH = {"explain", "version"}


@pytest.fixture
def planted(
    emulated_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, dict[str, str]]]:
    """A store that takes any credentials, reached with the canary; it is nowhere in the environment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "in.jsonl").write_text('{"type":"Person","data":{"name":"a"}}\n')
    (tmp_path / "bad.jsonl").write_text('{"type":"Person","data":{"name":1}}\n')
    (tmp_path / "q.gq").write_text("query people() { match { $p: Person } return { $p.name } }\n")
    options = {
        "aws_access_key_id": KEY_ID,
        "aws_secret_access_key": SECRET,
        "aws_session_token": TOKEN,
        "aws_endpoint": os.environ["AWS_ENDPOINT_URL"],
        "aws_region": "us-east-1",
    }
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    og.init(emulated_root, SCHEMA, storage_options=options).close()
    yield emulated_root, options


def leaks(text: str) -> list[str]:
    return [one for one in (KEY_ID, SECRET, TOKEN, "CANARY") if one in text]


def test_the_list_of_calls_has_every_command() -> None:
    assert CALLS.keys() | WITHOUT_A_GRAPH == {command.path for command in tree.COMMANDS}


@pytest.mark.parametrize("extra", [["--verbose"], ["--json"]], ids=lambda one: one[0])
def test_no_command_prints_or_logs_it_at_any_level(
    extra: list[str],
    planted: tuple[str, dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    root, options = planted
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    monkeypatch.setenv("OMNIGRAPH_LOG", "debug")
    codes = set()
    logged = 0
    for calls in CALLS.values():
        for call in calls:
            codes.add(main([*(word.replace("{g}", root) for word in call), *given, *extra]))
            said = capsys.readouterr()
            assert not leaks(said.out + said.err), call
            logged += '"logger": "omnigraph.operation"' in said.err
    assert {0, 3, 4} <= codes and logged > 20
    store = open_store(root, options)
    assert not [entry.key for entry in store.list("") if leaks((store.get(entry.key) or b"").decode("latin-1"))]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or not leaks(path.read_bytes().decode("latin-1")), path


def test_nothing_that_is_shown_raised_or_pickled_holds_it(
    planted: tuple[str, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    root, options = planted
    caplog.set_level(logging.DEBUG)
    with og.open(root, storage_options=options) as graph:
        graph.load([{"type": "Person", "data": {"name": "a"}}], mode="merge")
        snapshot, staging = graph.snapshot(), graph.begin()
        shown: list[Any] = [
            graph, snapshot, staging, graph.status(deep=True), graph.plan_cleanup(keep=1), graph.plan_compaction(),
            graph.verify(), graph.intents(), graph.commits(), graph.recover(grace_s=0), staging.task("append"),
        ]  # fmt: skip
        for one in shown:
            assert not leaks(repr(one) + str(one)), type(one)
            if hasattr(one, "_repr_html_"):
                assert not leaks(one._repr_html_())
            if hasattr(one, "to_dict"):
                assert not leaks(json.dumps(one.to_dict(), default=str))
        for one in (snapshot, staging.task("append"), graph.plan_compaction()):
            assert not leaks(pickle.dumps(one).decode("latin-1")), type(one)
        staging.abort()
    for failing in (
        lambda: og.open("s3://no-such-bucket-at-all/g", storage_options=options),
        lambda: og.open(root, storage_options={**options, "aws_endpoint": "http://127.0.0.1:1"}),
        lambda: og.open(root, storage_options={**options, "aws_secret_acces_key": SECRET}),
        lambda: og.init(root, SCHEMA, storage_options=options),
    ):
        with pytest.raises(og.errors.OmnigraphError) as caught:
            failing()
        error = caught.value
        assert not leaks(str(error) + repr(error) + json.dumps(error.to_dict(), default=str) + error.hint)
        assert not leaks(pickle.dumps(error).decode("latin-1"))
        assert not leaks("".join(traceback.format_exception(error)))
    ours = [record for record in caplog.records if record.name.startswith("omnigraph")]
    assert ours and not leaks("".join(record.getMessage() + repr(record.__dict__) for record in ours))
