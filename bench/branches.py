"""What a comparison of two states costs: 100 changed rows of a large table, as written and after a compaction, on one line and
between branches; and what branches cost themselves.

Bars are printed beside the figures; nothing fails by them. Everything is on a local disk.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og
from bench import branch_costs
from bench.results import Table, table
from omnigraph.graph import Graph
from omnigraph.read import row_changes
from omnigraph.table.delta import Looked

ROWS = 1_000_000
LOADS = 4
CHANGED = (80, 10, 10)  # updated, inserted, deleted
ROUNDS = 3
SCHEMA = "node Person { name: String @key  age: I32?  city: String? }\nnode Town { name: String @key }"


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    rows = 100_000 if quick else ROWS
    found = table(
        f"What changed: {sum(CHANGED)} of {rows:,} rows",
        [
            "compared",
            "seconds, fresh handle",
            "seconds, open handle",
            "rows read",
            "stamps compared",
            "requests",
            "bar",
        ],
        list(_diffs(rows)),
        ["Rows read: of both states. Stamps are compared in memory and come with the manifests of the tables."],
    )
    return [found, *branch_costs.tables(rows, _people, quick=quick)], {"rows": rows}


def _diffs(rows: int) -> list[list[Any]]:
    with tempfile.TemporaryDirectory() as folder, og.init(Path(folder) / "g", SCHEMA, durability="relaxed") as graph:
        for part in range(LOADS):
            graph.load(og.Batch(nodes={"Person": _people(part * rows // LOADS, rows // LOADS, 1)}), mode="append")
        before = graph.snapshot().commit_id
        graph.branches.create("aside")
        after = _change(graph, rows, "main", 2)
        _change(graph, rows, "aside", 3)
        found = [
            ["as written", *_measured(graph, before, after)],
            ["a branch and the commit it was made from", *_measured(graph, before, "aside")],
            ["two branches", *_measured(graph, "main", "aside")],
        ]
        graph.optimize(target_rows=rows)
        found.append(["after a compaction", *_measured(graph, before, "main")])
        return found


def _people(first: int, count: int, age: int) -> pa.Table:
    name = pc.cast(pa.array(np.arange(first, first + count)), pa.utf8())
    return pa.table({"name": name, "age": pa.array(np.full(count, age, np.int32)), "city": ["x"] * count})


def _change(graph: Graph, rows: int, branch: str, age: int) -> str:
    updated, inserted, deleted = CHANGED
    step = rows // updated
    keys = [*range(0, updated * step, step), *range(rows, rows + inserted)]
    graph.load(
        [{"type": "Person", "data": {"name": str(key), "age": age}} for key in keys], mode="patch", branch=branch
    )
    # Rows that were not updated, in every part of the table.
    gone = " ".join(f'delete Person where name = "{at * (rows // deleted) + 7}"' for at in range(deleted))
    graph.mutate(f"query q() {{ {gone} }}", branch=branch)
    return graph.snapshot(branch).commit_id


def _measured(graph: Graph, a: str, b: str) -> list[Any]:
    fresh, opened = [], []
    for _ in range(ROUNDS):
        with og.open(graph.uri, read_only=True) as reader:
            fresh.append(_timed(reader, a, b))
            opened.append(_timed(reader, a, b))
    looked = _looked(graph, a, b)
    with og.open(graph.uri, read_only=True) as reader:
        requests = _requests(reader, a, b)
    bar = f"≤ 1 s, ≤ {3 * sum(CHANGED)} rows"
    return [round(min(fresh), 3), round(min(opened), 3), looked.rows, looked.stamps, requests, bar]


def _timed(graph: Graph, a: str, b: str) -> float:
    started = time.perf_counter()
    for _ in graph.diff(a, b):
        pass
    return time.perf_counter() - started


def _looked(graph: Graph, a: str, b: str) -> Looked:
    """What the comparison looked at, told by the part that compares versions."""
    found = Looked()
    compare = row_changes.delta
    row_changes.delta = lambda *sides, **options: compare(*sides, **{**options, "looked": found})
    try:
        for _ in graph.diff(a, b):
            pass
    finally:
        row_changes.delta = compare
    return found


def _requests(graph: Graph, a: str, b: str) -> int:
    from omnigraph.core import operation

    with operation.operating("bench", graph.uri) as doing:
        for _ in graph.diff(a, b):
            pass
        cost = doing.cost()
    return 0 if cost is None else cost.requests
