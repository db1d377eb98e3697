"""How commands end, what they say then, and that no credential is in it."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.cli import main
from tests.component.cli.material import Run, head_of, write_lines


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
            schema=pa.schema([("object_id", pa.string())], metadata={"omnigraph:internal_schema_version": "4"}),
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


def test_no_credential_is_printed_or_stored_by_any_command(run: Run, folder: Path, emulated_root: str) -> None:
    import os

    from omnigraph.store import open_store

    endpoint = os.environ["AWS_ENDPOINT_URL"]
    secrets = {
        "aws_access_key_id": "CANARYKEYID",
        "aws_secret_access_key": "CANARYSECRETKEY",
        "aws_region": "us-east-1",
    }
    given = [f"--storage-option={k}={v}" for k, v in {**secrets, "aws_endpoint": endpoint}.items()]
    told = run("init", emulated_root, "--schema", "social.pg", *given)
    said = [told]
    for command in (
        ["load", emulated_root, "--data", "people.jsonl", "--mode", "append"],
        ["load", emulated_root, "--data", "people.jsonl", "--mode", "append"],
        ["query", emulated_root, "--sql", "select * from duckdb_settings()", "--format", "csv"],
        ["status", emulated_root, "--deep"],
        ["doctor", emulated_root],
        ["recover", emulated_root],
        ["verify", emulated_root],
        ["status", emulated_root, "--storage-option", "aws_session_token"],
        ["status", emulated_root, "extra", "aws_secret_access_key=CANARYSECRETKEY"],
    ):
        said += [run(*command, *given, "--verbose", code=None), run(*command, *given, "--json", code=None)]
    assert not [ended for ended in said if "CANARY" in ended.out + ended.err]
    store = open_store(emulated_root)
    entries = store.list("")
    assert len(entries) > 5
    assert not [entry.key for entry in entries if b"CANARY" in (store.get(entry.key) or b"")]
