"""The commands that change a graph or look after it."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.core.documents import seal
from tests.component.cli.material import Run, displace, head_of, interrupt, write_lines

# --- load ---------------------------------------------------------------------------------------------------------------


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


def test_tables_are_loaded_as_they_were_written(run: Run, folder: Path) -> None:
    Path("people.csv").write_bytes("Zoë;44;x\nYan;NA;y\n".encode("latin-1"))
    Path("follows.csv").write_text("Zoë;Yan;01.05.2024\n", encoding="latin-1")
    ended = run(
        "load", "social.omni", "--mode", "append", "--json", "--no-header", "--delimiter", ";", "--encoding", "latin-1",
        "--null", "NA", "--node", "Person=people.csv:name=1,age=2,-3",
    )  # fmt: skip
    assert ended.result["nodes_loaded"] == 2
    ended = run(
        "load", "social.omni", "--mode", "append", "--json", "--no-header", "--delimiter", ";", "--encoding", "latin-1",
        "--format-of", "3=%d.%m.%Y", "--edge", "Follows=follows.csv:from=1,to=2,since=3",
    )  # fmt: skip
    rows = run("query", "social.omni", "--json", "--sql", "select src, since from Follows where dst = 'Yan'").result
    assert [list(row.values()) for row in rows["rows"]] == [["Zoë", "2024-05-01"]]


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        (("--delimiter", ";;", "--node", "Person=p.csv"), "delimiter", 3),
        (("--encoding", "klingon", "--node", "Person=p.csv"), "klingon", 3),
        (("--format-of", "born", "--node", "Person=p.csv"), "COLUMN=FORMAT", 2),
        (("--decimals", "some", "--node", "Person=p.csv"), "round", 2),
        (("--delimiter", ";", "--data", "people.jsonl"), "NDJSON", 2),
    ],
)
def test_options_of_files_that_make_no_sense_are_refused(
    run: Run, folder: Path, given: tuple[str, ...], said: str, code: int
) -> None:
    head = head_of("social.omni")
    assert said in run("load", "social.omni", "--mode", "append", *given, code=code).err
    assert head_of("social.omni") == head


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
    [record] = run("recover", "social.omni", "--history", "--limit", "5", "--json").result["recoveries"]
    assert (record["op"], record["how"]) == (ended["operation_id"], "RolledForward")
    assert ended["operation_id"] in run("recover", "social.omni", "--history").out
    run("recover", "social.omni", "--history", "--grace", "0", code=2)
    run("recover", "social.omni", "--limit", "5", code=2)


def test_the_verdict_of_an_old_pending_write_is_a_command_that_resolves_it(run: Run, folder: Path) -> None:
    operation = interrupt("social.omni")
    waiting = Path("social.omni", "__recovery", f"{operation}.json")
    old = waiting.with_name("01ARZ3NDEKTSV4RRFFQ69G5FAV.json")
    body = json.loads(waiting.read_text().replace(operation, old.stem))
    del body["checksum"]
    old.write_bytes(seal(body))
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
