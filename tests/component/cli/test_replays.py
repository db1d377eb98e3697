"""A key that was used before: the text and the document both say that nothing was written, and which commit is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.component.cli.material import Run, head_of, write_lines

ZOE = [{"type": "Person", "data": {"name": "Zoe", "age": 1}}]


def _loaded(branch: str = "main") -> str:
    with og.open("social.omni") as graph:
        made = graph.load(ZOE, mode="merge", branch=branch, from_branch="main" if branch != "main" else None)
    return str(made.commit_id)


def _of(name: str) -> tuple[str, ...]:
    """The words of a write that can be done, and has not been."""
    match name:
        case "load":
            write_lines(Path("zoe.jsonl"), ZOE)
            return ("load", "social.omni", "--data", "zoe.jsonl", "--mode", "merge")
        case "mutate":
            return ("mutate", "social.omni", "-e", 'delete Person where name = "Ann"')
        case "schema apply":
            with open("next.pg", "w") as file:
                file.write("node City { name: String @key }\n" + open("social.pg").read())
            return ("schema", "apply", "social.omni", "--schema", "next.pg")
        case "revert":
            return ("revert", "social.omni", _loaded())
        case "restore":
            before = head_of("social.omni")
            _loaded()
            return ("restore", "social.omni", before)
        case _:
            _loaded("review")
            return ("branch", "merge", "social.omni", "review")


@pytest.mark.parametrize("name", ["load", "mutate", "schema apply", "revert", "restore", "branch merge"])
def test_a_replay_is_told_in_the_text_and_in_the_document(name: str, run: Run, folder: object) -> None:
    words = (*_of(name), "--key", "again")
    first = run(*words, "--json").result
    assert first["commit_id"] == head_of("social.omni") and not first["replayed"] and first["warnings"] == []
    document = run(*words, "--json").result
    assert document["replayed"] and document["commit_id"] == first["commit_id"]
    [warning] = document["warnings"]
    assert "nothing was written" in warning and first["commit_id"] in warning
    shown = run(*words)
    assert "replayed: this key was" in shown.out
    assert f"warning: {warning}" in " ".join((shown.out + shown.err).split())
