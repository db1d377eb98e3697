"""``omnigraph diff`` and ``omnigraph history`` on a screen, as lines of JSON, and what it takes for its arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.component.cli.material import Run, head_of

NEXT: list[dict[str, Any]] = [
    {"type": "Person", "data": {"name": "Ann", "age": 99}},
    {"type": "Person", "data": {"name": "Dora\x1b[31m"}},
]


@pytest.fixture
def before(folder: Path) -> str:
    found = head_of("social.omni")
    with og.open("social.omni") as graph:
        graph.load(NEXT, mode="patch")
        graph.mutate('query q() { delete Person where name = "Bob" }')
    return found


def test_a_screen_shows_what_changed_and_counts_it(run: Run, before: str) -> None:
    lines = run("diff", "social.omni", before).out.splitlines()
    assert lines[0].startswith(f"main at {before} → main at ")
    assert any(line.startswith("~ Person Ann  age: ") and line.endswith(" → 99") for line in lines)
    assert "- Person Bob" in lines
    # A value cannot control a terminal.
    assert any(line.startswith("+ Person Dora\\x1b[31m") for line in lines)
    assert "Person " in lines[-1] and all(sign in lines[-1] for sign in ("+1", "~1", "-1"))
    counted = run("diff", "social.omni", before, "main", "--stat").out
    assert counted.splitlines()[1].split() == ["type", "inserted", "updated", "deleted", "reason"]
    assert run("diff", "social.omni", "main").out.splitlines()[-1] == "no row differs"


def test_colours_say_what_happened_on_a_terminal(run: Run, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run("diff", "social.omni", before).out
    assert "\x1b[32m+ Person" in shown and "\x1b[33m~ Person" in shown and "\x1b[31m- Person" in shown


def test_every_row_is_a_line_of_json(run: Run, before: str) -> None:
    rows = [
        json.loads(line) for line in run("diff", "social.omni", before, "--jsonl", "--type", "Person").out.splitlines()
    ]
    assert {(row["kind"], row["type"]) for row in rows} == {
        ("update", "Person"),
        ("insert", "Person"),
        ("delete", "Person"),
    }
    [ann] = [row for row in rows if row["key"] == "Ann"]
    assert ann["changed"] == ["age"] and ann["row"]["age"] == 99 and ann["before"]["age"] != 99


def test_a_document_and_a_screen_say_where_they_stop(run: Run, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.cli.commands.diff._SHOWN_ROWS", 2)
    document = run("diff", "social.omni", before, "--type", "Person", "--json").document
    assert (len(document["result"]["rows"]), document["result"]["truncated"]) == (2, True)
    ended = run("diff", "social.omni", before, "--type", "Person")
    assert "only the first 2 of 3 rows are shown" in ended.err


def test_the_graph_may_be_named_elsewhere(run: Run, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run("diff", "social.omni", before, "main", "--stat").out
    assert run("diff", before, "--uri", "social.omni", "--stat").out == wanted
    monkeypatch.setenv("OMNIGRAPH_URI", "social.omni")
    assert run("diff", before, "--stat").out == wanted
    assert run("diff", before, "main", "--stat").out == wanted
    assert run("diff", "social.omni", before, "--stat").out == wanted
    assert run("diff", "social.omni", before, "main", "more", code=2).err
    for wrong in (["--jsonl", "--json"], ["--jsonl", "--stat"]):
        assert "exclude each other" in run("diff", before, *wrong, code=2).err


def test_a_row_says_who_changed_it(run: Run, before: str) -> None:
    lines = run("history", "social.omni", "Person", "Ann").out.splitlines()
    assert lines[0].split() == ["commit", "created", "actor", "kind", "changed"]
    assert "age: " in lines[1] and lines[1].endswith(" → 99") and "update" in lines[1]
    assert "insert" in lines[2] and len(lines) == 3
    document = run("history", "social.omni", "Person", "Bob", "--limit", "1", "--json").document["result"]
    [change] = document["changes"]
    assert (change["kind"], change["after"], document["reclaimed"]) == ("delete", None, None)
    assert run("history", "social.omni", "Ghost", "Ann", code=3).err


def test_a_history_that_a_cleanup_has_cut_says_so(run: Run, before: str) -> None:
    for age in (1, 2):
        with og.open("social.omni") as graph:
            graph.load([{"type": "Person", "data": {"name": "Ann", "age": age}}], mode="patch")
    run("cleanup", "social.omni", "--keep", "2", "--min-age", "0s", "--confirm")
    assert "was cleaned up" in run("history", "social.omni", "Person", "Ann").err
