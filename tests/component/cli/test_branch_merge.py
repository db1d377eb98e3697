"""The commands that merge branches, take commits back and go back to older states."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import omnigraph as og
from tests.component.cli.material import Run, head_of

ANN_OLDER = [{"type": "Person", "data": {"name": "Ann", "age": 99}}]


def age_of_ann(branch: str = "main") -> int | None:
    with og.open("social.omni", read_only=True) as graph:
        row = graph.snapshot(branch).get("Person", "Ann")
        return None if row is None else row["age"]


def changed(branch: str = "main", age: int = 99) -> str:
    with og.open("social.omni") as graph:
        rows = [{"type": "Person", "data": {"name": "Ann", "age": age}}]
        commit_id = graph.load(rows, mode="patch", branch=branch).commit_id
    assert commit_id is not None
    return commit_id


def branched() -> None:
    with og.open("social.omni") as graph:
        graph.branches.create("review")


def test_a_commit_is_taken_back(run: Run, folder: Path) -> None:
    before = age_of_ann()
    bad = changed()
    plan = run("revert", "social.omni", bad, "--dry-run")
    assert f"takes back {bad}" in plan.out and "node:Person" in plan.out and age_of_ann() == 99
    done = run("revert", "social.omni", bad, "--json").result
    assert done["kind"] == "revert" and done["commit_id"] == head_of("social.omni") and age_of_ann() == before
    shown = run("commit", "show", "social.omni", done["commit_id"])
    assert f"reverts           {bad}\n" in shown.out and "merge" not in shown.out and "recovered_by" not in shown.out
    good = changed(age=50)
    changed(age=51)
    assert run("restore", "social.omni", good, "--dry-run", "--json").result["tables"].keys() == {"node:Person"}
    assert f"commit {head_of('social.omni')}" not in run("restore", "social.omni", good).out
    assert age_of_ann() == 50


def test_a_branch_is_merged(run: Run, folder: Path) -> None:
    branched()
    assert "has everything of review" in run("branch", "merge", "social.omni", "review").out
    taken = changed("review")
    plan = run("branch", "merge", "social.omni", "review", "--dry-run")
    assert "fast_forward, 1 commit would come along" in plan.out and age_of_ann() != 99
    done = run("branch", "merge", "social.omni", "review", "--delete-source", "--json").result
    assert (done["outcome"], done["source"], done["branch"], done["warnings"]) == ("fast_forward", "review", "main", [])
    assert age_of_ann() == 99
    shown = run("commit", "show", "social.omni", done["commit_id"])
    assert f"merge             {taken}\n" in shown.out and "reverts" not in shown.out


def test_conflicts_are_listed_and_written_for_a_load(run: Run, folder: Path) -> None:
    branched()
    changed("review", 98)
    changed(age=97)
    ended = run("branch", "merge", "social.omni", "review", "--conflicts-to", "left.jsonl", code=4)
    shown = [line for line in ended.err.splitlines() if "divergent_update Person.age Ann" in line]
    assert shown == ["  divergent_update Person.age Ann: base 30, source 98, target 97"] and age_of_ann() == 97
    told = run("branch", "merge", "social.omni", "review", "--json", code=4).error
    assert told["code"] == "merge-conflict" and told["total"] == 1
    assert "--conflicts-to FILE" in told["hint"]
    [command] = re.findall("`omnigraph (load .*?)`", ended.err)
    run(*shlex.split(command))
    assert run("branch", "merge", "social.omni", "review", "--json").result["outcome"] == "merged"
    assert age_of_ann() == 98
