"""The numbers that decide whether upkeep is worth a run, where something is wrong."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

import omnigraph as og

SCHEMA = "node Person { name: String @key }\n"


def add(graph: og.Graph, name: str) -> None:
    graph.load([{"type": "Person", "data": {"name": name}}], mode="append")


def test_the_backlog_is_not_told_where_a_boundary_mark_is_missing(local_root: str) -> None:
    with og.init(local_root, SCHEMA) as graph:
        for number in range(4):
            add(graph, f"p{number}")
        graph.cleanup(keep=1, min_age="0s", confirm=True)
    shutil.rmtree(Path(local_root) / "__boundary")
    with og.open(local_root, read_only=True) as graph, pytest.raises(og.errors.Corruption, match="boundary mark"):
        graph.probe("version_backlog")


def test_the_oldest_intent_is_told_by_when_it_was_written(local_root: str) -> None:
    with og.init(local_root, SCHEMA) as graph:
        assert graph.probe("oldest_intent_s") == 0
        folder = Path(local_root) / "__recovery"
        folder.mkdir(exist_ok=True)
        for ulid, age_s in (("01JZZZZZZZZZZZZZZZZZZZZZZA", 5), ("01JZZZZZZZZZZZZZZZZZZZZZZB", 90)):
            file = folder / f"{ulid}.json"
            file.write_text("{}")
            then = time.time() - age_s
            os.utime(file, (then, then))
        assert 90 <= graph.probe("oldest_intent_s") <= 150
        assert graph.probe("pending_intents") == 2
        (folder / "01JZZZZZZZZZZZZZZZZZZZZZZB.json").unlink()
        assert 5 <= graph.probe("oldest_intent_s") <= 65


def test_an_intent_from_the_future_counts_as_just_written(local_root: str) -> None:
    with og.init(local_root, SCHEMA) as graph:
        folder = Path(local_root) / "__recovery"
        folder.mkdir(exist_ok=True)
        file = folder / "01JZZZZZZZZZZZZZZZZZZZZZZA.json"
        file.write_text("{}")
        then = time.time() + 1000
        os.utime(file, (then, then))
        assert graph.probe("oldest_intent_s") == 1
