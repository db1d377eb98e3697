"""Rows in every format and up to a bound, and the options that say how much of a screen is filled."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli import screenful
from tests.component.cli.material import Run, head_of, write_lines

PEOPLE = "select name, age from Person order by name"


@pytest.mark.parametrize("option", ["--limit", "--limit-rows"])
@pytest.mark.parametrize("format_", ["table", "csv", "jsonl", "json", "kv"])
def test_a_query_prints_so_many_rows_and_says_that_there_are_more(
    run: Run, folder: Path, option: str, format_: str
) -> None:
    ended = run("query", "social.omni", "--sql", PEOPLE, "--format", format_, option, "1")
    assert "Ann" in ended.out and "Bob" not in ended.out
    assert ("--limit N shows more" in ended.err) == (format_ != "") and "--limit-rows" not in ended.err
    assert "Bob" in run("query", "social.omni", "--sql", PEOPLE, "--format", format_, option, "2").out


def test_only_one_name_of_the_bound_is_in_the_help(run: Run, folder: Path) -> None:
    text = run("query", "--help").out
    assert "--limit N" in text and "--limit-rows" not in text
    assert (
        "--limit alone"
        in run("query", "social.omni", "--type", "Person", "--limit", "1", "--limit-rows", "1", code=2).err
    )


def test_all_rows_of_a_type_are_a_query_without_a_statement(run: Run, folder: Path) -> None:
    found = run("query", "social.omni", "--type", "Person", "--json").result
    assert sorted(row["name"] for row in found["rows"]) == ["Ann", "Bob"]
    assert run("query", "social.omni", "--type", "Persn", "--json", code=3).error["code"] == "not-found"
    for words in ((), ("--sql", PEOPLE, "--type", "Person")):
        assert "--sql or --type" in run("query", "social.omni", *words, code=2).err


def test_a_file_of_rows_has_no_more_than_asked_for(run: Run, folder: Path) -> None:
    words = ("query", "social.omni", "--sql", PEOPLE, "--format", "parquet", "--output")
    assert run(*words, "one.parquet", "--limit", "1", "--json").result["truncated"] is True
    assert pq.read_table("one.parquet").to_pylist() == [{"name": "Ann", "age": 30}]
    assert run(*words, "two.parquet", "--limit", "2", "--json").result["truncated"] is False
    assert pq.read_table("two.parquet").num_rows == 2


@pytest.mark.parametrize(
    ("format_", "printed"),
    [
        ("kv", "id    Ann\nage   30\nname  Ann\n"),
        ("table", "id   age  name\nAnn   30  Ann\n"),
        ("csv", "id,age,name\nAnn,30,Ann\n"),
    ],
)
def test_a_row_and_the_first_rows_are_printed_in_the_format_asked_for(
    run: Run, folder: Path, format_: str, printed: str
) -> None:
    assert run("get", "social.omni", "Person", "Ann", "--format", format_).out == printed
    assert run("head", "social.omni", "Person", "--limit", "1", "--format", format_).out == printed


def test_a_row_and_the_first_rows_are_documents_lines_and_files(run: Run, folder: Path) -> None:
    row = {"id": "Ann", "name": "Ann", "age": 30}
    assert json.loads(run("get", "social.omni", "Person", "Ann", "--format", "json").out)["row"] == row
    assert json.loads(run("head", "social.omni", "Person", "--format", "json").out)["rows"][0] == row
    for words in (("get", "social.omni", "Person", "Ann"), ("head", "social.omni", "Person", "--limit", "1")):
        head, *rows = map(json.loads, run(*words, "--format", "jsonl").out.splitlines())
        assert (head["columns"], head["row_count"], rows) == (["id", "age", "name"], 1, [row])
        name = f"{words[0]}.parquet"
        assert f"1 row → {name}" in run(*words, "--format", "parquet", "--output", name).err
        assert pq.read_table(name).to_pylist() == [row]
        assert "--output" in run(*words, "--format", "parquet", "--json", code=2).error["hint"]
        assert run(*words, "--format", "parquet", "-o", name, "--json", code=3).error["code"] == "already-exists"


def test_a_snapshot_can_be_of_some_types(run: Run, folder: Path) -> None:
    tables = run("snapshot", "social.omni", "--type", "Person", "--json").result["tables"]
    assert [table["table_key"] for table in tables] == ["node:Person"]
    assert "edge:Follows" not in run("snapshot", "social.omni", "--type", "Person").out
    assert run("snapshot", "social.omni", "--type", "Persn", "--json", code=3).error["code"] == "not-found"


def test_an_export_stops_where_it_is_told_to(run: Run, folder: Path) -> None:
    whole = run("export", "social.omni").out.splitlines()
    assert len(whole) == 3
    for bound in (1, 2, 3, 4):
        assert run("export", "social.omni", "--limit", str(bound)).out.splitlines() == whole[:bound]
    assert run("export", "social.omni", "--format", "jsonl").out.splitlines() == whole
    assert run("export", "social.omni", "--limit", "1", "--output", "one.jsonl", "--json").result["total"] == 1
    report = run("export", "social.omni", "--limit", "2", "--format", "parquet", "--output", "out", "--json").result
    assert report["rows"] == {"edge:Follows": 1, "node:Person": 1}
    assert pq.read_table("out/Person.parquet").num_rows == 1
    with og.open("social.omni") as graph:
        assert graph.snapshot().export(limit=0) == "" and graph.snapshot().export(limit=1) == whole[0] + "\n"
        with pytest.raises(og.errors.InvalidInput):
            graph.snapshot().export(limit=-1)


# --- as much as fits on a screen ------------------------------------------------------------------------------------------


def test_a_report_of_more_than_a_screen_is_whole_with_all(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screenful.worth_showing, "__kwdefaults__", {"all_": False, "shown_max": 1})
    with og.open("social.omni") as graph:
        graph.branches.create("review")
    part, whole = run("status", "social.omni").out, run("status", "social.omni", "--all").out
    assert "1 table more; --all" in part and "1 branch more; --all" in part and "--all" not in whole
    assert "edge:Follows" in whole and "node:Person" in whole and "review" in whole
    write_lines(folder / "bad.gq", [])
    (folder / "bad.gq").write_text(
        "query a() { match { $p: Nobody } return { $p.name } }\nquery b() { match { $p: Nothing } return { $p.name } }\n"
    )
    words = ("lint", "--query", "bad.gq", "--schema", "social.pg")
    part, whole = run(*words, code=3).out, run(*words, "--all", code=3).out
    assert "5 findings more; --all" in part and "--all" not in whole
    assert "Nobody" in whole and "Nothing" in whole


def test_problems_of_more_than_a_screen_are_whole_with_all(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screenful.worth_showing, "__kwdefaults__", {"all_": False, "shown_max": 1})
    for path in Path("social.omni").glob("*/*/data/*.lance"):
        path.unlink()
    part, whole = run("verify", "social.omni", code=9).out, run("verify", "social.omni", "--all", code=9).out
    assert "more; --all shows them" in part and "--all" not in whole
    assert part.count("damage ") < whole.count("damage ")


def test_all_codes_are_explained(run: Run, folder: Path) -> None:
    assert run("explain", "--all").out == run("explain").out
    assert "give one of them" in run("explain", "key-conflict", "--all", code=2).err


# --- places and heads -------------------------------------------------------------------------------------------------------


def test_queries_are_checked_against_the_schema_of_a_place(run: Run, folder: Path) -> None:
    then = head_of("social.omni")
    run("schema", "apply", "social.omni", "--schema", "next.pg", "--fill", "Person.score=0", "--fill", "Person.label=x")
    (folder / "new.gq").write_text("query a() { match { $p: Person } return { $p.score } }\n")
    words = ("lint", "social.omni", "--query", "new.gq")
    assert run(*words).out == "OK new.gq\n"
    assert "score" in run(*words, "--at", then, code=3).err + run(*words, "--at", then, code=3).out
    wrong = ("lint", "--query", "new.gq", "--schema", "next.pg", "--at", then)
    assert "leave --branch and --at out" in run(*wrong, code=2).err


def test_a_checkpoint_is_of_the_head_that_is_expected(run: Run, folder: Path) -> None:
    head = head_of("social.omni")
    run("branch", "create", "social.omni", "review")
    made = run("checkpoint", "create", "social.omni", "one", "--expect-head", head, "--branch", "main", "--json").result
    assert made["commit_id"] == head
    assert (
        run("checkpoint", "create", "social.omni", "two", "--branch", "review", "--json").result["branch"] == "review"
    )
    run("load", "social.omni", "--data", "people.jsonl", "--mode", "overwrite")
    refused = run("checkpoint", "create", "social.omni", "three", "--expect-head", head, "--json", code=4).error
    assert refused["code"] == "precondition-failed"
    assert "three" not in run("checkpoint", "list", "social.omni").out


def test_the_history_of_a_row_can_be_of_one_actor(run: Run, folder: Path) -> None:
    for age, actor in ((31, "ann"), (32, "bob"), (33, "ann")):
        write_lines(folder / "ann.jsonl", [{"type": "Person", "data": {"name": "Ann", "age": age}}])
        run("load", "social.omni", "--data", "ann.jsonl", "--mode", "patch", "--as", actor)
    words = ("history", "social.omni", "Person", "Ann", "--actor", "ann", "--json")
    assert [one["after"]["age"] for one in run(*words).result["changes"]] == [33, 31]
    assert [one["after"]["age"] for one in run(*words, "--limit", "1").result["changes"]] == [33]


@pytest.mark.parametrize("words", [("--version", "--json"), ("--json", "--version"), ("-V", "--json")])
def test_the_release_is_a_document_too(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words).result == run("version", "--json").result
    assert run(words[0 if words[0] != "--json" else 1]).out == f"omnigraph {og.__version__}\n"
