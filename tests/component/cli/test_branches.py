"""The commands that make, list and delete branches, and those that take a branch."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og
from tests.component.cli.material import NEXT, Run, head_of, write_lines

EVE = [{"type": "Person", "data": {"name": "Eve", "age": 5}}]


def names(run: Run) -> list[str]:
    return [one["name"] for one in run("branch", "list", "social.omni", "--json").result["branches"]]


def test_a_branch_is_made_listed_and_deleted(run: Run, folder: Path) -> None:
    head = head_of("social.omni")
    made = run("branch", "create", "social.omni", "review")
    assert made.out == f"review is made from main, at commit {head}\n"
    assert names(run) == ["main", "review"]
    shown = run("branch", "list", "social.omni", "--heads").out
    assert f"main {head}" in shown and shown.count(head) == 3
    plan = run("branch", "delete", "social.omni", "review")
    assert head in plan.out and "nothing was deleted" in plan.err and names(run) == ["main", "review"]
    done = run("branch", "delete", "social.omni", "review", "--confirm", "--json").result
    assert (done["name"], done["head"], done["deleted"]) == ("review", head, True) and names(run) == ["main"]


def test_a_branch_is_made_from_an_older_commit_of_another(run: Run, folder: Path) -> None:
    old = head_of("social.omni")
    write_lines(folder / "eve.jsonl", EVE)
    run("branch", "create", "social.omni", "a")
    run("load", "social.omni", "--data", "eve.jsonl", "--mode", "append", "--branch", "a")
    run("branch", "create", "social.omni", "b", "--from", "a")
    run("branch", "create", "social.omni", "c", "--from", "a", "--at", old)
    assert run("get", "social.omni", "Person", "Eve", "--branch", "b", "--json").result["row"]["age"] == 5
    assert run("get", "social.omni", "Person", "Eve", "--branch", "c", code=3).code == 3


def test_what_cannot_be_made_or_deleted_says_why(run: Run, folder: Path) -> None:
    head = head_of("social.omni")
    run("branch", "create", "social.omni", "review")
    assert run("branch", "create", "social.omni", "Review", "--json", code=3).error["code"] == "already-exists"
    assert run("branch", "create", "social.omni", "other", "--expect-head", "0" * 26, "--json", code=4).code == 4
    for arguments in (["review", "--expect-head", "0" * 26], ["review", "--expect-head", "0" * 26, "--confirm"]):
        failed = run("branch", "delete", "social.omni", *arguments, "--json", code=4).error
        assert failed["code"] == "precondition-failed" and failed["actual"] == head
    for arguments in (["nothing"], ["nothing", "--confirm"]):
        assert run("branch", "delete", "social.omni", *arguments, "--json", code=3).error["code"] == "not-found"
    for arguments in (["main"], ["main", "--confirm"]):
        assert run("branch", "delete", "social.omni", *arguments, "--json", code=3).error["code"] == "invalid-input"
    assert names(run) == ["main", "review"]


def test_a_load_makes_the_branch_that_it_goes_to(run: Run, folder: Path) -> None:
    write_lines(folder / "eve.jsonl", EVE)
    to = ["load", "social.omni", "--data", "eve.jsonl", "--branch", "new", "--from", "main", "--mode"]
    for flag in ("--check", "--explain"):
        run(*to, "append", flag)
        assert names(run) == ["main"]
    assert "made the branch new" in run(*to, "append").out
    assert names(run) == ["main", "new"]
    assert run(*to, "merge", "--json").result["branch_created"] is False
    assert head_of("social.omni") != run("snapshot", "social.omni", "--branch", "new", "--json").result["commit_id"]
    assert run("get", "social.omni", "Person", "Eve", code=3).code == 3


def test_every_command_that_reads_or_writes_takes_a_branch(run: Run, folder: Path) -> None:
    run("branch", "create", "social.omni", "side")
    (folder / "next.pg").write_text(
        NEXT.replace("F64", "F64?").replace("label: String", "label: String?"), encoding="utf-8"
    )
    on = ["--branch", "side"]
    run("mutate", "social.omni", "-e", 'update Person set { age: 31 } where name = "Ann"', *on)
    counted = run("query", "social.omni", "--sql", "select age from Person where name = 'Ann'", *on, "--json").result
    assert counted["rows"] == [{"age": 31}]
    assert len(run("commit", "list", "social.omni", *on).out.splitlines()) == 1 + len(
        run("commit", "list", "social.omni").out.splitlines()
    )
    assert "Ann" in run("head", "social.omni", "Person", *on).out
    assert '"age":31' in run("export", "social.omni", *on).out.replace(" ", "")
    run("schema", "apply", "social.omni", "--schema", "next.pg", *on)
    assert "score" in run("schema", "show", "social.omni", *on).out
    assert "score" not in run("schema", "show", "social.omni").out
    run("ensure-indices", "social.omni", *on)
    with og.open("social.omni", read_only=True) as graph:
        assert graph.snapshot().get("Person", "Ann")["age"] == 30  # type: ignore[index]
