"""Rows that a load sets aside are on disk before its commit is visible, and in their file after it, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.commit.protocol import run as protocol_run
from omnigraph.core.errors import InvalidInput, StoreUnavailable

SCHEMA = "node Person { name: String @key  age: I32? }"
GOOD = {"type": "Person", "data": {"name": "Ada", "age": 36}}
BAD = {"type": "Person", "data": {"name": "Bob", "age": "old"}}
LOADS = """
import sys
import omnigraph as og
with og.open(sys.argv[1]) as graph:
    graph.load({records}, mode="append", on_bad_row="quarantine", bad_rows_max=5, quarantine_to=sys.argv[2], idempotency_key="k")
""".replace("{records}", repr([GOOD, BAD]))


@pytest.fixture
def root(tmp_path: Path) -> str:
    place = str(tmp_path / "graph")
    og.init(place, SCHEMA).close()
    return place


def killed(root: str, file: Path, at: str) -> None:
    """A load that is killed at a failpoint."""
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": f"{at}=kill"}
    done = subprocess.run([sys.executable, "-c", LOADS, root, str(file)], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def load(root: str, file: Path) -> og.Receipt:
    with og.open(root) as graph:
        return graph.load(
            [GOOD, BAD],
            mode="append",
            on_bad_row="quarantine",
            bad_rows_max=5,
            quarantine_to=file,
            idempotency_key="k",
        )


def kept(file: Path) -> list[object]:
    return [json.loads(line)["record"] for line in file.read_text().splitlines()]


@pytest.mark.parametrize("at", ["apply.after_commit", "publish.before_swap", "publish.after_swap", "disarm.before"])
def test_a_load_that_died_before_it_named_its_file_keeps_the_rows(root: str, tmp_path: Path, at: str) -> None:
    file = tmp_path / "bad.jsonl"
    killed(root, file, at)
    assert not file.exists()
    again = load(root, file)
    assert again.replayed
    assert kept(file) == [BAD]
    assert not list(tmp_path.glob("*.pending"))


def test_a_load_that_came_to_nothing_sets_the_rows_aside_again(root: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    killed(root, file, "arm.after")
    again = load(root, file)
    assert not again.replayed
    assert kept(file) == [BAD]


def test_a_refused_load_leaves_no_file(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(protocol_run, "_stage_and_arm", refused)
    with pytest.raises(StoreUnavailable):
        load(root, tmp_path / "bad.jsonl")
    assert list(tmp_path.glob("bad.jsonl*")) == []


def test_a_file_that_somebody_makes_meanwhile_stays_and_the_rows_do_too(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, stage_and_arm = tmp_path / "bad.jsonl", protocol_run._stage_and_arm

    def beside(*given: object) -> object:
        file.write_text("somebody's")
        return stage_and_arm(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(protocol_run, "_stage_and_arm", beside)
    receipt = load(root, file)
    [warning] = receipt.warnings
    assert "is there already" in warning and str(receipt.commit_id) in warning
    assert file.read_text() == "somebody's"
    assert kept(tmp_path / f"bad.jsonl.{receipt.commit_id}.pending") == [BAD]


def test_a_load_of_bad_rows_alone_writes_them_without_a_commit(root: str, tmp_path: Path) -> None:
    with og.open(root) as graph, pytest.raises(InvalidInput):
        graph.load([BAD], mode="append", on_bad_row="quarantine", bad_rows_max=0, quarantine_to=tmp_path / "no.jsonl")
    assert not (tmp_path / "no.jsonl").exists()
    with og.open(root) as graph:
        receipt = graph.load(
            [BAD], mode="append", on_bad_row="quarantine", bad_rows_max=5, quarantine_to=tmp_path / "bad.jsonl"
        )
    assert receipt.commit_id is None
    assert kept(tmp_path / "bad.jsonl") == [BAD]
