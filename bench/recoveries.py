"""What it costs to open a graph in which many writes were left behind: a thousand have to cost a thousand times one."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import omnigraph as og
from bench.results import Table, table
from omnigraph.testing.dead import leave_dead
from omnigraph.testing.operations import create, opened

NUMBERS = (1, 10, 100, 400, 1000)
BAR_S = 10.0  # for the largest


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    numbers = NUMBERS[:3] if quick else NUMBERS
    found = [_one(number) for number in numbers]
    rows = [
        [
            one["intents"],
            one["open_s"],
            1000 * one["open_s"] / max(1, one["intents"] - one["left"]),
            1000 * one["cpu_s"] / max(1, one["intents"] - one["left"]),
            one["left"],
            one["list_s"],
            one["fold_s"],
            f"≤ {BAR_S:.0f} s" if one["intents"] == NUMBERS[-1] else None,
        ]
        for one in found
    ]
    return [
        table(
            "Opening a graph with dead writes",
            ["writes", "open s", "ms a write", "processor ms a write", "left", "recoveries() s", "optimize s", "bar"],
            rows,
            [
                "Local disk. Every write is rolled back by an abort of its own and leaves one record, which takes nine syncs of files and "
                "folders and one of the disk. Most of the time is that of the processor, calls of the system included; on a busy disk it "
                "is that of the syncs."
            ],
        )
    ], {"recoveries": found}


def _one(number: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = str(Path(folder) / "graph.omni")
        create(root)
        with opened(root) as engine:
            leave_dead(engine, number)
        started, began = time.perf_counter(), time.process_time()
        with og.open(root) as graph:
            open_s, cpu_s = time.perf_counter() - started, time.process_time() - began
            left = len(graph.intents())
            started = time.perf_counter()
            listed = len(graph.recoveries())
            list_s = time.perf_counter() - started
            started = time.perf_counter()
            graph.optimize()
            fold_s = time.perf_counter() - started
            if listed + left != number or len(graph.recoveries()) != listed:
                raise AssertionError(f"{number} writes were left, {left} still are, {listed} are on record")
    return {"intents": number, "open_s": open_s, "cpu_s": cpu_s, "left": left, "list_s": list_s, "fold_s": fold_s}
