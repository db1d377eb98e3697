"""What it costs that files last and are compared: syncs of a commit, by which call, and checksums of small and large writes.

Sides alternate within one run. To compare ways of syncing, a graph that is opened relaxed is synced here after each commit, twice
(as before and after a swap), with the files that the commit has made. What the engine itself does stands beside its neighbours.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import omnigraph as og
from bench import durability_peers
from bench.results import Table, table
from omnigraph.store.durability import sync_everything, sync_paths
from omnigraph.table import checksums

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
POOL = 16


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-durability-"))
    try:
        syncs = _syncs(folder, 20 if quick else 200)
        small = _small_commits(folder, 20 if quick else 200)
        bulk = _bulk(folder, 20_000 if quick else 1_000_000, 3 if quick else 5)
        beside = durability_peers.run(folder, quick=quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    parts = (beside, syncs, small, bulk)
    return [one for tables, _ in parts for one in tables], {
        name: fact for _, facts in parts for name, fact in facts.items()
    }


# --- syncs --------------------------------------------------------------------------------------------------------------


def _syncs(folder: Path, commits: int) -> tuple[list[Table], dict[str, Any]]:
    root = str(folder / "syncs")
    took: dict[str, list[float]] = {"none": [], "fsync in turn": [], "fsync side by side": [], "syncfs": []}
    files: list[int] = []
    with og.init(root, SCHEMA, durability="relaxed") as graph, ThreadPoolExecutor(POOL) as pool:
        ways: dict[str, Callable[[list[str]], None]] = {
            "none": lambda _: None,
            "fsync in turn": lambda new: sync_paths(new, root),
            "fsync side by side": lambda new: sync_paths(new, root, pool=pool),
            "syncfs": lambda _: sync_everything(root),
        }
        known = _files_of(root)
        for number in range(commits * len(ways)):
            name = list(ways)[number % len(ways)]
            started = time.perf_counter()
            graph.load(_records(number), mode="append")
            committed = time.perf_counter() - started
            now = _files_of(root)
            new, known = sorted(now - known), now
            half = len(new) // 2
            started = time.perf_counter()
            ways[name](new[:half])
            ways[name](new[half:])
            took[name].append(committed + time.perf_counter() - started)
            files.append(len(new))
    medians = {name: statistics.median(found) for name, found in took.items()}
    rows = [
        [name, round(1 / each, 1), round(medians["none"] / each, 2), round(1000 * each, 2)]
        for name, each in medians.items()
    ]
    note = f"A commit of two tables makes {statistics.median(files):.0f} files. One writer, {commits} commits a way, in turns; medians."
    columns = ["by which call", "commits/s", "of without", "ms"]
    return [table("Commits with their files synced", columns, rows, [note])], {
        "sync_ratio": {name: round(medians["none"] / each, 3) for name, each in medians.items()}
    }


def _files_of(root: str) -> set[str]:
    return {os.path.join(path, name) for path, _, names in os.walk(root) for name in names}


def _records(number: int) -> list[dict[str, Any]]:
    return [
        {"type": "Person", "data": {"name": f"p{number}", "age": number % 100}},
        {"edge": "Knows", "from": f"p{number}", "to": f"p{number}"},
    ]


# --- checksums ----------------------------------------------------------------------------------------------------------


def _both_sides(act: Callable[[int], None], rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds without checksums and with them, in turns, and those that taking them took, summed over the threads."""
    without, with_lines, taking = [], [], []
    take = checksums.append_lines
    for number in range(2 * rounds):
        spent: list[float] = []

        def timed(*arguments: Any, spent: list[float] = spent) -> tuple[str, ...]:
            started = time.perf_counter()
            try:
                return take(*arguments)
            finally:
                spent.append(time.perf_counter() - started)

        with mock.patch.object(checksums, "append_lines", timed if number % 2 else lambda *_: ()):
            started = time.perf_counter()
            act(number)
            took = time.perf_counter() - started
        if number % 2:
            with_lines.append(took)
            taking.append(sum(spent))
        else:
            without.append(took)
    return without, with_lines, taking


def _small_commits(folder: Path, commits: int) -> tuple[list[Table], dict[str, Any]]:
    with og.init(folder / "small", SCHEMA) as graph:
        for number in range(10):
            graph.load(_records(10_000_000 + number), mode="append")
        sides = _both_sides(lambda number: _load_one(graph, number), commits)
    note = "A row and an edge a commit. Taking them costs a small commit what it costs any: its few files are read back, and one is made."
    return _compared("Small commits with checksums", sides, "small", note, bar=0.95)


def _load_one(graph: og.Graph, number: int) -> None:
    graph.load(_records(number), mode="append")


def _bulk(folder: Path, rows: int, rounds: int) -> tuple[list[Table], dict[str, Any]]:
    numbers = np.arange(rows)
    nodes = pa.table(
        {"name": pa.array([f"p{n:09d}" for n in numbers.tolist()]), "age": pa.array(numbers % 100, pa.int32())}
    )
    sources = np.tile(nodes["name"].to_numpy(zero_copy_only=False), 5)
    edges = pa.table({"from": pa.array(sources), "to": pa.array(np.roll(sources, 7))})

    def act(number: int) -> None:
        root = folder / f"bulk{number}"
        with og.init(root, SCHEMA) as graph:
            graph.load({"Person": nodes, "Knows": edges}, mode="append")
        shutil.rmtree(root)

    act(-1)
    sides = _both_sides(act, rounds)
    note = f"{rows:,} nodes and {5 * rows:,} edges into a new graph, in one commit."
    return _compared("A bulk load with checksums", sides, "bulk", note, bar=0.93)


def _compared(
    title: str, sides: tuple[list[float], list[float], list[float]], name: str, note: str, *, bar: float
) -> tuple[list[Table], dict[str, Any]]:
    without, with_lines, taking = sides
    ratio = statistics.median(without) / statistics.median(with_lines)
    share = 1 - statistics.median(taking) / statistics.median(with_lines)
    rows = [
        [side, *(round(1000 * of(found), 2) for of in (statistics.median, min))]
        for side, found in (("without", without), ("with", with_lines), ("taking them alone", taking))
    ]
    notes = [
        f"{note} {len(without)} a side, in turns. With them at {ratio:.2f} of the speed without by the medians, "
        f"{share:.2f} by the time that taking them took, which the load of the machine does not blur. Bar: {bar} "
        f"({_judged(ratio, bar)} by the medians, {_judged(share, bar)} by the share).",
    ]
    return [table(title, ["checksums", "median ms", "best ms"], rows, notes)], {
        f"checksums_{name}_ratio": round(ratio, 3),
        f"checksums_{name}_ratio_by_share": round(share, 3),
    }


def _judged(figure: float, bar: float) -> str:
    return "met" if figure >= bar else "missed"
