"""What a change feed costs: a thousand commits of one row each, and what a poll asks for that finds nothing new."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import omnigraph as og
from bench.results import Table, table

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
COMMITS = 1000
UPDATED = 1000
BAR = 300  # commits a second


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    commits, updated = (50, 20) if quick else (COMMITS, UPDATED)
    with tempfile.TemporaryDirectory() as folder:
        found = [
            _inserts(str(Path(folder) / "inserts.omni"), commits),
            _updates(str(Path(folder) / "updates.omni"), 200, updated),
        ]
    rows = [[one["name"], one["commits"], one["table_rows"], one["rate"], one["idle"], one["bar"]] for one in found]
    return [
        table(
            "The change feed",
            [
                "commits of one row",
                "number",
                "rows of the table",
                "commits a second",
                "requests of an idle poll",
                "bar",
            ],
            rows,
            [
                "Local disk, a handle that was just opened. Stretches of commits that insert and update are read at once."
            ],
        )
    ], {"feed": found}


def _inserts(root: str, commits: int) -> dict[str, Any]:
    with og.init(root, SCHEMA, durability="relaxed") as graph:
        start = graph.snapshot().commit_id
        for k in range(commits):
            graph.load([_person(k, 1)], mode="append")
    return _read(root, start, commits) | {"name": "insert", "table_rows": commits, "bar": f"≥ {BAR}"}


def _updates(root: str, rows: int, commits: int) -> dict[str, Any]:
    with og.init(root, SCHEMA, durability="relaxed") as graph:
        graph.load([_person(k, 1) for k in range(rows)], mode="append")
        start = graph.snapshot().commit_id
        for k in range(commits):
            graph.load([_person(k % rows, 2 + k // rows)], mode="merge")
    return _read(root, start, commits) | {"name": "update", "table_rows": rows, "bar": f"≥ {BAR}"}


def _person(number: int, age: int) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": f"p{number}", "age": age}}


def _read(root: str, start: str, commits: int) -> dict[str, Any]:
    with og.open(root, read_only=True) as graph:
        started = time.perf_counter()
        feed = graph.changes(start)
        told = sum(1 for _ in feed)
        took_s = time.perf_counter() - started
        if told != commits:
            raise AssertionError(f"{commits} changes were made and {told} reported")
        idle = _idle_requests(graph, feed.cursor)
    return {"commits": commits, "seconds": took_s, "rate": commits / took_s, "idle": idle}


def _idle_requests(graph: og.Graph, cursor: str) -> int:
    from omnigraph.core.meter import Meter
    from omnigraph.read.feed_way import find_way

    meter = Meter()
    find_way(graph._engine, cursor, None, "main", meter)
    return meter.snapshot().requests
