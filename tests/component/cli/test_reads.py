"""The commands that read a graph, and those that need none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli import checks
from tests.component.cli.material import SCHEMA, Run, head_of, write_lines

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


def test_an_export_in_parquet_is_a_folder_that_a_load_takes(run: Run, folder: Path) -> None:
    assert "out" in run("export", "social.omni", "--format", "parquet", "--output", "out").err
    run("init", "copy.omni", "--schema", "social.pg")
    run(
        "load",
        "copy.omni",
        "--node",
        "Person=out/Person.parquet",
        "--edge",
        "Follows=out/Follows.parquet",
        "--mode",
        "append",
    )
    assert run("export", "copy.omni").out == run("export", "social.omni").out
    assert (
        run("export", "social.omni", "--format", "parquet", "--json", code=2).error["hint"].startswith("add --output")
    )
    again = run("export", "social.omni", "--format", "parquet", "--output", "out", "--json", code=3)
    assert again.error["code"] == "already-exists"
    assert run("export", "social.omni", "--format", "parquet", "-o", "new", "--force", "--json", code=2)
    assert not Path("new").exists()


def test_rows_of_a_query_are_written_as_one_parquet_file(run: Run, folder: Path) -> None:
    words = ["query", "social.omni", "--sql", "select name, age from Person order by name", "--format", "parquet"]
    assert "2 rows" in run(*words, "--output", "rows.parquet").err
    assert pq.read_table("rows.parquet").to_pylist() == [{"name": "Ann", "age": 30}, {"name": "Bob", "age": None}]
    assert run(*words, "--output", "rows.parquet", "--json", code=3).error["code"] == "already-exists"
    assert "--output" in run(*words, "--json", code=2).error["hint"]
    assert "--format parquet" in run(*words[:4], "--output", "new.parquet", "--json", code=2).error["hint"]
    broken = run("query", "social.omni", "--sql", "select nme from Person", *words[4:], "-o", "new.parquet", code=3)
    assert "nme" in broken.err and not Path("new.parquet").exists()


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


def test_doctor_shows_each_setting_with_where_it_comes_from(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_VERIFY_READS", "1")
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "nightly")
    monkeypatch.delenv("OMNIGRAPH_GROUP", raising=False)
    [check] = [
        one
        for one in run("doctor", "social.omni", "--as", "ada", "--durability", "commit", "--json").result["checks"]
        if one["name"] == "settings"
    ]
    for said in (
        "uri social.omni (the command line)",
        "actor ada (the command line)",
        "durability commit (the command line)",
        "verify-reads 1 (OMNIGRAPH_VERIFY_READS)",
        "group 1 (default)",
    ):
        assert said in check["message"]


def test_every_variable_of_the_engine_that_sets_something_is_shown_by_doctor() -> None:
    """What a log looks like, and where tests make it die, set nothing about a graph."""
    shown = {variable for _, variable, _ in checks._SETTINGS}
    code = "".join(path.read_text() for path in Path(og.__file__).parent.rglob("*.py") if "testing" not in path.parts)
    known = set(re.findall(r'"(OMNIGRAPH_[A-Z_]+)"', code))
    assert known - shown == {"OMNIGRAPH_FAILPOINTS", "OMNIGRAPH_LOG_FORMAT"}


def test_doctor_leaves_nothing_behind_at_a_path_that_does_not_exist(run: Run, folder: Path) -> None:
    run("doctor", "typo.omni")
    assert not (folder / "typo.omni").exists()


def test_doctor_writes_nothing_if_told_so(run: Run, folder: Path, s3_root: str) -> None:
    run("doctor", s3_root, "--no-write")
    from omnigraph.store import open_store

    assert open_store(s3_root).list("") == []


def test_a_key_of_several_properties_is_given_as_the_text_of_its_id(run: Run, folder: Path) -> None:
    with og.init(str(folder / "seats.omni"), "node Seat { room: String row: I32 @key(room, row) }") as graph:
        graph.load([{"type": "Seat", "data": {"room": "x", "row": 1}}], mode="append")
    assert run("get", "seats.omni", "Seat", '["x","1"]', "--json").result["row"]["row"] == 1
    assert [one["kind"] for one in run("history", "seats.omni", "Seat", '["x","1"]', "--json").result["changes"]] == [
        "insert"
    ]


def test_a_row_that_nothing_changed_has_a_history_that_says_so(run: Run, folder: Path) -> None:
    ended = run("history", "social.omni", "Person", "Nobody")
    assert ended.out == "" and "no commit that can be read changed Person 'Nobody'" in ended.err
    assert run("history", "social.omni", "Person", "Nobody", "--json").result["changes"] == []


def test_the_version_and_a_snapshot_name_the_internal_schema(run: Run, folder: Path) -> None:
    assert f"internal-schema {og.STORAGE_VERSION}\n" in run("version").out
    shown = run("snapshot", "social.omni").out
    assert re.search(rf"^internal_schema_version +{og.STORAGE_VERSION}$", shown, re.MULTILINE)


def test_upkeep_says_what_it_removed_of_each_table(run: Run, folder: Path) -> None:
    for name in ("u", "v", "w"):
        with og.open("social.omni") as graph:
            graph.load([{"type": "Person", "data": {"name": name}}], mode="append")
    optimized = run("optimize", "social.omni", "--json").result
    person = next(table for table in optimized["tables"] if table["table_key"] == "node:Person")
    assert person["fragments_removed"] - person["fragments_added"] == person["fragments_before"] - person["fragments"]
    assert person["fragments_removed"] >= 3 and person["fragments_added"] == 1
    policy = ["cleanup", "social.omni", "--keep", "1", "--older-than", "0s", "--min-age", "0s", "--json"]
    planned = run(*policy).result
    assert (planned["keep_versions"], planned["older_than_secs"], planned["tables"]) == (1, 0, [])
    done = {table["table_key"]: table for table in run(*policy, "--confirm").result["tables"]}
    person = done["node:Person"]
    assert person["old_versions_removed"] == person["deleted"]["versions"] > 0
    assert person["bytes_removed"] == person["deleted"]["bytes"] > 0 and person["error"] is None
