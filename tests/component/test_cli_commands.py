"""The commands over a real graph: what they print, how they end, and that both agree with what is published."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli import main, shapes, tree
from omnigraph.commit.intent import _seal
from omnigraph.commit.plan import Owner
from omnigraph.core import failpoints

SCHEMA = """
node Person {
  name: String @key
  age: I32?
}
edge Follows: Person -> Person {
  since: Date?
}
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "Ann", "age": 30}},
    {"type": "Person", "data": {"name": "Bob", "age": None}},
    {"edge": "Follows", "from": "Ann", "to": "Bob", "data": {"since": "2024-01-01"}},
]
BAD = [
    {"type": "Person", "data": {"name": "Cid", "age": "old"}},
    {"type": "Person", "data": {"name": "Dan", "age": 4}},
]
QUERIES = "query people() { match { $p: Person } return { $p.name } }\n"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one document of standard output; it says how the command ended, as the exit code does."""
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == 1
        assert document["ok"] == (self.code == 0)
        assert set(document) == {"schema_version", "ok", "result" if document["ok"] else "error"}
        return document

    @property
    def result(self) -> Any:
        return self.document["result"]

    @property
    def error(self) -> Any:
        return self.document["error"]


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("OMNIGRAPH_URI", raising=False)
    monkeypatch.delenv("OMNIGRAPH_ACTOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run_one(*argv: str, code: int | None = 0) -> Ended:
        capsys.readouterr()
        ended = main([str(argument) for argument in argv])
        captured = capsys.readouterr()
        assert code is None or ended == code, captured.err
        assert "Traceback" not in captured.err
        return Ended(ended, captured.out, captured.err)

    return run_one


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a schema, inputs and a graph of one load."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "social.pg").write_text(SCHEMA)
    (folder / "queries.gq").write_text(QUERIES)
    people = write_lines(folder / "people.jsonl", PEOPLE)
    write_lines(folder / "bad.jsonl", BAD)
    with og.init(folder / "social.omni", folder / "social.pg", actor="maker") as graph:
        graph.load(people, mode="append")
    return folder


@pytest.fixture
def folder(seeded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as the working folder."""
    here = tmp_path / "work"
    shutil.copytree(seeded, here)
    monkeypatch.chdir(here)
    return here


ELSEWHERE = Owner("elsewhere", "another-boot", 1, 1)


def interrupt(uri: str | Path) -> str:
    """A write by somebody on another host that stops before it is published. Returns its operation id."""
    with og.open(uri) as graph:
        graph._engine.owner = ELSEWHERE
        with failpoints.armed("publish.before_swap", "raise"), pytest.raises(og.errors.OutcomeUnknown):
            graph.load([{"type": "Person", "data": {"name": "Late"}}], mode="append")
        [pending] = graph.intents()
        return pending.operation_id


def displace(uri: str | Path) -> None:
    """A version of a table that no commit published."""
    with og.open(uri, read_only=True) as graph:
        people = graph.snapshot().tables["node:Person"].uri
    lance.dataset(people).delete("name = 'Ann'")


def head_of(uri: str | Path) -> str:
    with og.open(uri, read_only=True) as graph:
        return graph.snapshot().commit_id


# --- documents ----------------------------------------------------------------------------------------------------------

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
    "snapshot": [["social.omni"]],
    "query": [
        ["social.omni", "--sql", "select * from Person"],
        ["social.omni", "--sql", "select 1.5::decimal(3,1), now()"],
    ],
    "export": [["social.omni"], ["social.omni", "--output", "out.jsonl"], ["social.omni", "--type", "Person"]],
    "status": [["social.omni"], ["social.omni", "--deep"]],
    "commit list": [["social.omni"], ["social.omni", "--limit", "1"], ["social.omni", "--actor", "maker"]],
    "commit show": [["social.omni", "HEAD"]],
    "commit outcome": [["social.omni", "HEAD"], ["social.omni", "01JZX5W9GZ0000000000000000"]],
    "intent list": [["social.omni"], ["pending.omni"]],
    "intent show": [["pending.omni", "OPERATION"]],
    "recover": [["social.omni"], ["pending.omni", "--grace", "0"]],
    "verify": [["social.omni"], ["pending.omni"], ["social.omni", "--deep"]],
    "repair": [["social.omni"], ["drifting.omni"], ["drifting.omni", "--confirm"]],
    "optimize": [["social.omni"], ["social.omni", "--type", "Person", "--target-rows", "1000"]],
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
    "schema show": [["social.omni"]],
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
    "checkpoint create": ["social.omni", "../escape"],
    "checkpoint delete": ["social.omni", "nothing"],
    "query": ["social.omni", "--sql", "drop table Person"],
}


def validated(document: dict[str, Any], command: str) -> None:
    schema = {**shapes.published_schema(), "anyOf": [{"$ref": f"#/$defs/command.{command.replace(' ', '%20')}"}]}
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
    if command.path == "checkpoint delete":
        run("checkpoint", "create", "social.omni", "season-start")
    assert command.example in run(*command.path.split(), "--help").out
    run(*words)


# --- exit codes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        ["no-such-command"],
        ["status", "social.omni", "--no-such-option"],
        ["load", "social.omni", "--data", "people.jsonl"],
        ["load", "social.omni", "--data", "people.jsonl", "--mode", "upsert"],
        ["load", "social.omni", "--mode", "append"],
        ["load", "social.omni", "--mode", "append", "--data", "x", "--node", "Person=y.csv"],
        ["load", "social.omni", "--mode", "append", "--data", "people.jsonl", "--deadline", "0"],
        ["load", "social.omni", "--mode", "append", "--data", "people.jsonl", "--bad-rows-max", "many"],
        ["status"],
        ["status", "a.omni", "--uri", "b.omni"],
        ["status", "social.omni", "--storage-option", "nothing"],
        ["commit", "show"],
        ["commit", "show", "a", "b", "c"],
        ["commit"],
        ["query", "social.omni", "--sql", " "],
        ["lint", "--query", "queries.gq"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_2_and_says_what_to_run(argv: list[str], run: Run, folder: Path) -> None:
    ended = run(*argv, code=2)
    assert ended.out == ""
    assert ended.err.startswith(("error[usage]", "Usage: omnigraph commit"))
    if argv != ["commit"]:
        assert run(*argv, "--json", code=2).error["code"] == "usage"


def test_bad_input_ends_with_3_and_names_file_record_and_property(run: Run, folder: Path) -> None:
    before = head_of("social.omni")
    ended = run("load", "social.omni", "--data", "bad.jsonl", "--mode", "append", "--json", code=3)
    assert ended.error["code"] == "data-invalid"
    [violation] = ended.error["violations"]
    assert (violation["source"], violation["record"], violation["property"]) == ("bad.jsonl", 1, "age")
    assert "--on-bad-row quarantine" in ended.error["hint"]
    assert head_of("social.omni") == before


def test_every_violation_stands_on_a_line_of_its_own(run: Run, folder: Path) -> None:
    write_lines(folder / "worse.jsonl", [{"type": "Person", "data": {"name": f"P{i}", "age": "x"}} for i in range(30)])
    ended = run("load", "social.omni", "--data", "worse.jsonl", "--mode", "append", code=3)
    assert sum(line.startswith("  worse.jsonl record ") for line in ended.err.splitlines()) == 20
    assert "  … and 10 more" in ended.err


def test_a_graph_that_is_not_there_ends_with_3_and_tells_how_to_make_one(run: Run, folder: Path) -> None:
    ended = run("status", "nowhere.omni", "--json", code=3)
    assert ended.error["code"] == "not-found"
    assert "omnigraph init" in ended.error["hint"]
    assert not (folder / "nowhere.omni").exists()


def test_conflicts_end_with_4(run: Run, folder: Path) -> None:
    load = ("load", "social.omni", "--data", "people.jsonl", "--json", "--mode")
    assert run(*load, "append", code=4).error["code"] == "key-conflict"
    ended = run(*load, "merge", "--expect-head", "01JZX5W9GZ0000000000000000", code=4)
    assert ended.error["code"] == "precondition-failed"


def test_an_unreachable_store_ends_with_7_and_shows_no_credential(run: Run) -> None:
    options = [
        f"--storage-option={item}"
        for item in (
            "aws_endpoint=http://127.0.0.1:9",
            "aws_region=us-east-1",
            "aws_access_key_id=CANARYKEYID",
            "aws_secret_access_key=CANARYSECRET",
            "client_max_retries=0",
            "client_retry_timeout=1",
        )
    ]
    for command in (["status", "--json"], ["commit", "list", "--verbose"], ["doctor"]):
        ended = run(*command, "s3://bucket/graph", *options, code=7)
        assert "CANARY" not in ended.out + ended.err
    assert "fail  store" in ended.out


def test_a_graph_of_another_storage_version_ends_with_9(run: Run, folder: Path) -> None:
    lance.write_dataset(
        pa.table(
            {"object_id": ["x"]},
            schema=pa.schema([("object_id", pa.string())], metadata={"omnigraph:internal_schema_version": "3"}),
        ),
        str(folder / "old.omni" / "__manifest"),
    )
    assert run("status", "old.omni", "--json", code=9).error["code"] == "unsupported-storage"


def test_a_fault_of_the_program_ends_with_1_and_no_traceback(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from omnigraph.cli import app

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "CANARYSECRET")

    def broken(*_: object, **__: object) -> None:
        raise KeyError("CANARYSECRET")

    monkeypatch.setattr(app, "_call", broken)
    ended = run("version", "--json", code=1)
    assert ended.error["code"] == "internal"
    assert "CANARY" not in ended.out + ended.err
    assert main(["version", "--verbose"]) == 1
    told = capsys.readouterr().err
    assert "Traceback" in told and "CANARY" not in told


def test_no_credential_is_printed_or_stored_by_any_command(run: Run, folder: Path, s3_root: str) -> None:
    import os

    from omnigraph.store import open_store

    endpoint = os.environ["AWS_ENDPOINT_URL"]
    secrets = {
        "aws_access_key_id": "CANARYKEYID",
        "aws_secret_access_key": "CANARYSECRETKEY",
        "aws_region": "us-east-1",
    }
    given = [f"--storage-option={k}={v}" for k, v in {**secrets, "aws_endpoint": endpoint}.items()]
    told = run("init", s3_root, "--schema", "social.pg", *given)
    said = [told]
    for command in (
        ["load", s3_root, "--data", "people.jsonl", "--mode", "append"],
        ["load", s3_root, "--data", "people.jsonl", "--mode", "append"],
        ["query", s3_root, "--sql", "select * from duckdb_settings()", "--format", "csv"],
        ["status", s3_root, "--deep"],
        ["doctor", s3_root],
        ["recover", s3_root],
        ["verify", s3_root],
        ["status", s3_root, "--storage-option", "aws_session_token"],
        ["status", s3_root, "extra", "aws_secret_access_key=CANARYSECRETKEY"],
    ):
        said += [run(*command, *given, "--verbose", code=None), run(*command, *given, "--json", code=None)]
    assert not [ended for ended in said if "CANARY" in ended.out + ended.err]
    store = open_store(s3_root)
    entries = store.list("")
    assert len(entries) > 5
    assert not [entry.key for entry in entries if b"CANARY" in (store.get(entry.key) or b"")]


# --- streams and looks --------------------------------------------------------------------------------------------------


def test_a_write_says_where_it_goes_unless_asked_to_be_quiet(run: Run, folder: Path) -> None:
    load = ("load", "social.omni", "--data", "people.jsonl", "--mode", "merge")
    assert run(*load).err == f"omnigraph load → {folder / 'social.omni'} (local)\n"
    assert run(*load, "--quiet").err == ""
    assert run("snapshot", "social.omni").err == ""


def test_the_uri_comes_from_position_option_or_environment(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = head_of("social.omni")
    shown = [
        run("commit", "show", *arguments, "--json").result["id"]
        for arguments in (
            ["social.omni", head],
            [head, "social.omni"],
            [head, "--uri", "social.omni"],
            [head, "--uri", (folder / "social.omni").as_uri()],
        )
    ]
    monkeypatch.setenv("OMNIGRAPH_URI", "social.omni")
    shown.append(run("commit", "show", head, "--json").result["id"])
    assert shown == [head] * 5
    monkeypatch.setenv("OMNIGRAPH_URI", "nowhere.omni")
    assert run("status", "social.omni", "--json").result["head"]["commit_id"] == head


def test_a_name_and_a_graph_are_told_apart_in_either_order(run: Run, folder: Path) -> None:
    run("checkpoint", "create", "social.omni", "one")
    run("checkpoint", "create", "two", "social.omni")
    named = [one["name"] for one in run("checkpoint", "list", "social.omni", "--json").result["checkpoints"]]
    assert named == ["one", "two"]
    missing = run("checkpoint", "delete", "three", "social.omni", "--json", code=3).error
    assert "three" in missing["error"] and missing["code"] == "not-found"


def test_actors_come_from_the_option_or_the_environment(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("load", "social.omni", "--data", "people.jsonl", "--mode", "merge", "--as", "ann")
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "bob")
    run("load", "social.omni", "--data", "people.jsonl", "--mode", "merge")
    listed = run("commit", "list", "social.omni", "--json").result["commits"]
    assert [commit["actor"] for commit in listed] == ["bob", "ann", "maker", "maker"]
    assert [c["actor"] for c in run("commit", "list", "social.omni", "--actor", "ann", "--json").result["commits"]] == [
        "ann"
    ]


def test_nothing_is_coloured_where_nobody_looks(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run("status", "social.omni").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("status", "social.omni").out
    assert json.loads(run("status", "social.omni", "--json").out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in run("status", "social.omni").out


def test_values_cannot_drive_a_terminal(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(folder / "evil.jsonl", [{"type": "Person", "data": {"name": "E\x1b[2J\nvil [red]x[/red]", "age": 1}}])
    run("load", "social.omni", "--data", "evil.jsonl", "--mode", "append")
    ask = ("query", "social.omni", "--sql", "select name from Person where age = 1")
    for pretty in (False, True):
        if pretty:
            monkeypatch.setenv("FORCE_COLOR", "1")
        for format_ in ("table", "kv"):
            shown = run(*ask, "--format", format_).out
            assert "\x1b[2J" not in shown
            assert "E\\x1b[2J\\nvil [red]x[/red]" in shown
    assert run(*ask, "--json").result["rows"] == [{"name": "E\x1b[2J\nvil [red]x[/red]"}]


# --- load ---------------------------------------------------------------------------------------------------------------


def test_a_narrow_terminal_cuts_no_id(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with og.open("social.omni", read_only=True) as graph:
        ids = [commit.id for commit in graph.commits()]
    for columns in (40, 60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = run("commit", "list", "social.omni").out
        assert all(shown.count(one) == 1 for one in ids), shown
        assert ("─" in shown) == (columns >= 80), shown
        status = run("status", "social.omni").out
        assert "node:Person" in status and "unindexed" in status
    # What is said in sentences is broken between words, beside columns that stay whole.
    monkeypatch.setenv("COLUMNS", "70")
    listed = run("explain").out
    assert (
        "─" in listed and "expected-version-mismatch" in listed and all(len(line) < 130 for line in listed.splitlines())
    )


def test_a_load_tells_what_it_did(run: Run, folder: Path) -> None:
    shutil.rmtree("social.omni")
    run("init", "social.omni", "--schema", "social.pg")
    ended = run("load", "social.omni", "--data", "people.jsonl", "--mode", "append")
    assert ended.out.startswith("loaded 2 nodes of 1 type, 1 edge of 1 type\n")
    assert f"commit {head_of('social.omni')}\n" in ended.out
    again = run("load", "social.omni", "--data", "people.jsonl", "--mode", "merge", "--json").result
    assert (again["nodes_loaded"], again["affected_nodes"]) == (2, 0)


def test_tables_are_loaded_with_their_columns_named(run: Run, folder: Path) -> None:
    pq.write_table(pa.table({"full": ["Eve", "Fay"], "age": pa.array([1, 2], pa.int32())}), "people.parquet")
    Path("follows.csv").write_text("src,to,since\nEve,Fay,2024-05-01\n")
    ended = run(
        "load", "social.omni", "--mode", "append", "--json",
        "--node", "Person=people.parquet:name=full", "--edge", "Follows=follows.csv:from=src",
    )  # fmt: skip
    assert (ended.result["nodes_loaded"], ended.result["edges_loaded"]) == (2, 1)
    rows = run("query", "social.omni", "--json", "--sql", "select src, dst from Follows where src = 'Eve'").result[
        "rows"
    ]
    assert rows == [{"src": "Eve", "dst": "Fay"}]


def test_an_edge_type_is_not_loaded_as_nodes(run: Run, folder: Path) -> None:
    Path("follows.csv").write_text("from,to\nAnn,Bob\n")
    assert run("load", "social.omni", "--mode", "append", "--node", "Follows=follows.csv", code=3)


@pytest.mark.parametrize("packed", [False, True])
def test_records_come_from_standard_input_packed_or_not(
    packed: bool, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b'{"type": "Person", "data": {"name": "Gus", "age": 7}}\n'
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(data) if packed else data))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("load", "social.omni", "--data", "-", "--mode", "append", "--json").result["nodes_loaded"] == 1


def test_a_key_used_again_returns_the_first_receipt(run: Run, folder: Path) -> None:
    write_lines(folder / "gus.jsonl", [{"type": "Person", "data": {"name": "Gus", "age": 7}}])
    load = ("load", "social.omni", "--data", "gus.jsonl", "--mode", "append", "--key", "batch-1", "--json")
    first, second = run(*load).result, run(*load).result
    assert (first["replayed"], second["replayed"]) == (False, True)
    assert first["commit_id"] == second["commit_id"]


def test_checking_writes_nothing(run: Run, folder: Path) -> None:
    before = sorted(str(path) for path in (folder / "social.omni").rglob("*"))
    ended = run("load", "social.omni", "--data", "bad.jsonl", "--mode", "append", "--check", "--json", code=3)
    assert ended.error["total"] == 1
    assert "omnigraph load" not in ended.err
    run("load", "social.omni", "--data", "people.jsonl", "--mode", "merge", "--check")
    assert sorted(str(path) for path in (folder / "social.omni").rglob("*")) == before


def test_bad_rows_are_set_aside_with_reasons_and_the_rest_is_loaded(run: Run, folder: Path) -> None:
    ended = run(
        "load", "social.omni", "--data", "bad.jsonl", "--mode", "append", "--json",
        "--on-bad-row", "quarantine", "--quarantine-to", "aside.jsonl", "--bad-rows-max", "0.9",
    )  # fmt: skip
    assert (ended.result["nodes_loaded"], ended.result["rejected"]["total"]) == (1, 1)
    [aside] = [json.loads(line) for line in Path("aside.jsonl").read_text().splitlines()]
    assert aside["record"]["data"]["name"] == "Cid"
    assert aside["reasons"]


def test_overwriting_on_a_remote_store_wants_consent(run: Run, folder: Path, s3_root: str) -> None:
    run("init", s3_root, "--schema", "social.pg")
    load = ("load", s3_root, "--data", "people.jsonl", "--mode", "overwrite")
    refused = run(*load, "--json", code=4)
    assert refused.error["code"] == "refused"
    assert "--yes" in refused.error["hint"]
    ended = run(*load, "--yes", "--json")
    assert ended.result["nodes_loaded"] == 2
    assert f"omnigraph load → {s3_root} (remote)" in ended.err


def test_overwriting_a_local_graph_needs_no_consent(run: Run, folder: Path) -> None:
    run("load", "social.omni", "--data", "people.jsonl", "--mode", "overwrite")


# --- recovery -----------------------------------------------------------------------------------------------------------


def test_a_pending_write_is_listed_explained_recovered_and_then_gone(run: Run, folder: Path) -> None:
    operation = interrupt("social.omni")
    [pending] = run("intent", "list", "social.omni", "--json").result["intents"]
    assert pending["operation_id"] == operation
    shown = run("intent", "show", "social.omni", operation).out
    assert "node:Person" in shown and "publish it" in shown
    assert run("commit", "outcome", "social.omni", pending["commit_id"], "--json").result["state"] == "pending"
    assert run("status", "social.omni", "--json").result["pending"]["total"] == 1
    [ended] = run("recover", "social.omni", "--grace", "0", "--json").result["recovered"]
    assert (ended["operation_id"], ended["decision"]) == (operation, "roll-forward")
    assert run("intent", "list", "social.omni").out == "nothing is pending\n"
    assert head_of("social.omni") == pending["commit_id"]
    assert run("commit", "outcome", "social.omni", pending["commit_id"], "--json").result["state"] == "landed"
    assert run("intent", "show", "social.omni", operation, "--json", code=3).error["code"] == "not-found"
    assert run("recover", "social.omni").out == "nothing is pending\n"


def test_the_verdict_of_an_old_pending_write_is_a_command_that_resolves_it(run: Run, folder: Path) -> None:
    operation = interrupt("social.omni")
    waiting = Path("social.omni", "__recovery", f"{operation}.json")
    old = waiting.with_name("01ARZ3NDEKTSV4RRFFQ69G5FAV.json")
    body = json.loads(waiting.read_text().replace(operation, old.stem))
    del body["checksum"]
    old.write_bytes(_seal(body))
    waiting.unlink()
    status = run("status", "social.omni", "--json").result
    assert status["verdict"] == "attention"
    command = status["verdict_line"].partition("`")[2].partition("`")[0]
    assert command == f"omnigraph recover {folder / 'social.omni'}"
    run(*command.split()[1:], "--grace", "0")
    assert run("status", "social.omni", "--json").result["verdict"] == "healthy"


def test_drift_is_listed_and_put_back_only_on_request(run: Run, folder: Path) -> None:
    displace("social.omni")
    [listed] = run("repair", "social.omni", "--json").result["tables"]
    assert (listed["table_key"], listed["action"]) == ("node:Person", "preview")
    shown = run("repair", "social.omni")
    assert "nothing was changed" in shown.err
    assert run("status", "social.omni", "--deep", "--json").result["findings"][0]["command"] == "repair"
    assert run("repair", "social.omni", "--confirm", "--json").result["tables"][0]["action"] == "healed"
    assert run("repair", "social.omni", "--json").result["tables"] == []
    assert run("query", "social.omni", "--json", "--sql", "select count(*) n from Person").result["rows"] == [{"n": 2}]


def test_an_intent_that_does_not_read_blocks_writes_loudly_until_it_is_moved_aside(run: Run, folder: Path) -> None:
    operation = interrupt("social.omni")
    Path("social.omni", "__recovery", f"{operation}.json").write_bytes(b"{")
    load = ("load", "social.omni", "--data", "people.jsonl", "--mode", "merge")
    assert operation in run(*load, "--json", code=9).error["error"]
    assert run("intent", "list", "social.omni", "--json").result["intents"][0]["state"] == "unreadable"
    assert run("repair", "social.omni", "--confirm", "--json", code=4).error["code"] == "refused"
    moved = run("repair", "social.omni", "--confirm", "--force", "--json").result["quarantined"]
    assert moved == [f"__recovery/quarantine/{operation}.json"]
    run(*load)


def test_damage_ends_with_9_and_names_what_is_damaged(run: Run, folder: Path) -> None:
    with og.open("social.omni", read_only=True) as graph:
        people = graph.snapshot().tables["node:Person"].uri
    for file in (Path(people) / "data").iterdir():
        file.unlink()
    ended = run("verify", "social.omni", "--json", code=9)
    assert ended.error["code"] == "corruption"
    assert "Person" in next(p["message"] for p in ended.error["problems"] if p["severity"] == "damage")
    assert "damage" in run("verify", "social.omni", code=9).out


# --- upkeep ---------------------------------------------------------------------------------------------------------------


def test_upkeep_changes_files_and_no_content(run: Run, folder: Path) -> None:
    for i in range(4):
        write_lines(folder / "one.jsonl", [{"type": "Person", "data": {"name": f"P{i}", "age": i}}])
        run("load", "social.omni", "--data", "one.jsonl", "--mode", "append", "--quiet")
    before = run("export", "social.omni").out
    ended = run("optimize", "social.omni", "--json")
    people = next(table for table in ended.result["tables"] if table["table_key"] == "node:Person")
    assert people["fragments"] < people["fragments_before"]
    assert run("export", "social.omni").out == before
    assert "nothing to do" in run("optimize", "social.omni").out
    assert ended.err.startswith("omnigraph optimize → ")


def test_a_cleanup_shows_its_plan_and_deletes_on_request(run: Run, folder: Path) -> None:
    for i in range(3):
        write_lines(folder / "one.jsonl", [{"type": "Person", "data": {"name": f"P{i}", "age": i}}])
        run("load", "social.omni", "--data", "one.jsonl", "--mode", "append", "--quiet")
    old, before = run("commit", "list", "social.omni", "--json").result["commits"][-1], run("export", "social.omni").out
    run("checkpoint", "create", "social.omni", "start", "--at", old["id"])
    planned = run("cleanup", "social.omni", "--keep", "1", "--min-age", "0s")
    assert "__manifest" in planned.out and "repeat with --confirm" in planned.err
    again = run("cleanup", "social.omni", "--keep", "1", "--min-age", "0s", "--json").result
    assert not again["confirmed"] and again["plan"]["versions"] > 0 and again["report"] is None
    done = run("cleanup", "social.omni", "--keep", "1", "--min-age", "0s", "--confirm", "--json").result
    assert done["report"]["versions"] == again["plan"]["versions"]
    assert run("export", "social.omni").out == before
    assert run("snapshot", "social.omni", "--at", old["id"]).code == 0
    run("cleanup", "social.omni", code=2)


# --- reading ------------------------------------------------------------------------------------------------------------


def test_a_query_sees_the_snapshot_that_was_asked_for(run: Run, folder: Path) -> None:
    old = head_of("social.omni")
    write_lines(folder / "gus.jsonl", [{"type": "Person", "data": {"name": "Gus", "age": 7}}])
    run("load", "social.omni", "--data", "gus.jsonl", "--mode", "append")
    ask = ("query", "social.omni", "--json", "--sql", "select count(*) as n from Person")
    assert run(*ask).result["rows"] == [{"n": 3}]
    then = run(*ask, "--at", old).result
    assert then["rows"] == [{"n": 2}]
    assert then["target"] == {"branch": "main", "snapshot": old}


@pytest.mark.parametrize(
    ("format_", "printed"),
    [
        ("table", "id   age\nAnn   30\nBob    –\n"),
        ("kv", "id   Ann\nage  30\n\nid   Bob\nage  –\n"),
        ("csv", "id,age\nAnn,30\nBob,\n"),
    ],
)
def test_a_query_is_printed_in_the_format_asked_for(format_: str, printed: str, run: Run, folder: Path) -> None:
    sql = "select id, age from Person order by id"
    assert run("query", "social.omni", "--sql", sql, "--format", format_).out == printed


def test_jsonl_is_a_line_about_the_rows_and_then_the_rows(run: Run, folder: Path) -> None:
    lines = run(
        "query", "social.omni", "--sql", "select id from Person order by id", "--format", "jsonl"
    ).out.splitlines()
    head, *rows = map(json.loads, lines)
    assert (head["columns"], head["row_count"]) == (["id"], 2)
    assert rows == [{"id": "Ann"}, {"id": "Bob"}]


def test_a_bound_on_rows_is_kept_and_told(run: Run, folder: Path) -> None:
    ended = run("query", "social.omni", "--sql", "select * from range(5000)", "--limit-rows", "10", "--json")
    assert (ended.result["row_count"], ended.result["truncated"]) == (10, True)
    shown = run("query", "social.omni", "--sql", "select * from range(5000)")
    assert len(shown.out.splitlines()) == 1_001
    assert "only the first 1,000 rows" in shown.err
    assert (
        len(run("query", "social.omni", "--sql", "select * from range(5000)", "--format", "csv").out.splitlines())
        == 5_001
    )


def test_columns_of_one_name_are_told_apart(run: Run, folder: Path) -> None:
    ended = run("query", "social.omni", "--sql", "select 1 as a, 2 as a", "--json")
    assert ended.result["rows"] == [{"a": 1, "a_2": 2}]


@pytest.mark.parametrize(
    "sql",
    [
        "drop table Person",
        "create table x as select 1",
        "select 1; select 2",
        "copy Person to 'stolen.csv'",
        "attach 'other.db'",
        "set enable_external_access=true",
        "select * from read_csv('social.pg')",
        "select * from 'people.jsonl'",
        "select nothing from Person",
        "selec",
    ],
)
def test_a_query_reads_the_graph_and_nothing_else(sql: str, run: Run, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    assert run("query", "social.omni", "--sql", sql, "--json", code=3).error["code"] == "query-invalid"
    assert sorted(folder.rglob("*")) == before


def test_damage_met_by_a_query_is_told_as_damage(run: Run, folder: Path) -> None:
    with og.open("social.omni", read_only=True) as graph:
        people = graph.snapshot().tables["node:Person"].uri
    for file in (Path(people) / "data").iterdir():
        file.unlink()
    ended = run("query", "social.omni", "--sql", "select * from Person", "--json", code=9)
    assert ended.error["code"] == "corruption"
    assert ".rs:" not in ended.err


def test_an_export_is_valid_input_and_comes_back_the_same(run: Run, folder: Path) -> None:
    exported = run("export", "social.omni").out
    assert run("export", "social.omni", "--output", "out.jsonl").out == ""
    assert Path("out.jsonl").read_text() == exported
    run("init", "copy.omni", "--schema", "social.pg")
    run("load", "copy.omni", "--data", "out.jsonl", "--mode", "append")
    assert run("export", "copy.omni").out == exported
    document = run("export", "copy.omni", "--json").result
    assert document["records"] == [json.loads(line) for line in exported.splitlines()]


def test_an_export_does_not_replace_a_file_unasked(run: Run, folder: Path) -> None:
    Path("out.jsonl").write_text("mine")
    assert run("export", "social.omni", "--output", "out.jsonl", "--json", code=3).error["code"] == "already-exists"
    assert Path("out.jsonl").read_text() == "mine"
    run("export", "social.omni", "--output", "out.jsonl", "--force")
    assert Path("out.jsonl").read_text() != "mine"


def test_the_schema_comes_back_as_it_was_written(run: Run, folder: Path) -> None:
    assert run("schema", "show", "social.omni").out == SCHEMA


# --- lint, explain, doctor ----------------------------------------------------------------------------------------------


def test_lint_names_file_line_and_column(run: Run, folder: Path) -> None:
    Path("wrong.gq").write_text("query people() { match { $p: Person } return { $p.nme } }\n")
    ended = run("lint", "--query", "wrong.gq", "--schema", "social.pg", code=3)
    assert ended.out.startswith("ERROR wrong.gq:1:")
    found = run("lint", "social.omni", "--query", "wrong.gq", "--json", code=3).error
    assert (found["error_count"], found["findings"][0]["code"]) == (1, "T2")
    assert run("lint", "--query", "queries.gq", "--schema", "social.pg").out == "OK queries.gq\n"


def test_explain_knows_codes_and_class_names(run: Run) -> None:
    by_code = run("explain", "key-conflict", "--json").result
    assert (
        by_code
        == run("explain", "KeyConflict", "--json").result
        == run("explain", "error[key-conflict]", "--json").result
    )
    assert by_code["exit_code"] == 4
    assert "did you mean key-conflict" in run("explain", "key-conflit", "--json", code=3).error["hint"]


def test_doctor_checks_a_remote_store(run: Run, folder: Path, s3_root: str) -> None:
    names = {check["name"]: check for check in run("doctor", s3_root, "--json").result["checks"]}
    assert names["conditional create"]["status"] == names["clock"]["status"] == "ok"
    assert names["credentials"]["message"].startswith("from ")
    assert (names["graph"]["status"], "omnigraph init" in names["graph"]["hint"]) == ("warn", True)
    run("init", s3_root, "--schema", "social.pg")
    assert run("doctor", s3_root, "--json").result["checks"][-1]["status"] == "ok"


def test_doctor_leaves_nothing_behind_at_a_path_that_does_not_exist(run: Run, folder: Path) -> None:
    run("doctor", "typo.omni")
    assert not (folder / "typo.omni").exists()


def test_doctor_writes_nothing_if_told_so(run: Run, folder: Path, s3_root: str) -> None:
    run("doctor", s3_root, "--no-write")
    from omnigraph.store import open_store

    assert open_store(s3_root).list("") == []
