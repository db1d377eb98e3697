"""What goes to which stream, where names come from, and how it looks on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.component.cli.material import Run, head_of, write_lines


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
