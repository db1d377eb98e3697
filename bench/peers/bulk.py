"""A bulk load into an empty graph, in turns; the files of a round are deleted before the next."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

from bench.peers.install import Peers
from bench.peers.small import settings
from bench.peers.turns import Worker, in_turns, quartiles, ratio
from bench.results import Table, table

NAMES = ("omnigraph", "plain Lance", "deltalake", "DuckDB", "Kuzu")
NODES, EDGES_PER_NODE = 1_000_000, 5


def run(peers: Peers, *, quick: bool) -> tuple[list[Table], dict[str, Any]]:
    names = [name for name in NAMES if peers.has(name.lower())]
    nodes, rounds = (20_000, 1) if quick else (NODES, 5)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        make_inputs(folder, nodes)
        seen = in_rounds(peers, names, folder, folder, rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows, lost = [], []
    ours = [one["wall_s"] for one in seen["omnigraph"]]
    for name, found in seen.items():
        walls = [one["wall_s"] for one in found]
        cores = statistics.median(one["cpu_s"] for one in found)
        against = None if name == "omnigraph" else ratio(walls, ours)
        rate = nodes * (1 + EDGES_PER_NODE) / statistics.median(walls)
        rows.append(
            [name, quartiles(walls), round(cores, 2), round(rate), None if against is None else f"{against:.2f}"]
        )
        if against is not None and against < 1:
            lost.append([f"bulk load: {name}", f"{against:.2f} of its rows/s", WHY.get(name, "")])
    title = f"A bulk load of {nodes:,} nodes and {nodes * EDGES_PER_NODE:,} edges from memory"
    columns = ["who", "seconds", "core seconds", "rows/s", "omnigraph against it"]
    return [table(title, columns, rows, ["Quartiles of rounds in turns, each into nothing, a local disk."])], {
        "rounds_bulk": rounds,
        "lost_bulk": lost,
    }


def in_rounds(
    peers: Peers, names: Sequence[str], folder: Path, inputs: Path, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in in_turns(names, number):
            root = folder / f"bulk-{name.replace(' ', '-')}"
            root.mkdir()
            worker = Worker(peers, f"bulk {name.removesuffix(' relaxed')}", root, settings(name))
            seen[name].append(worker.ask("load", inputs=str(inputs), number=number))
            worker.end()
            shutil.rmtree(root)
    return seen


WHY = {
    "plain Lance": "the same files without the check: ids made, five million ends looked up",
    "deltalake": "no check, no ids; compressed files of fewer columns",
    "DuckDB": "its own format, and no ids of edges",
    "Kuzu": "its own format, and no ids of edges",
}


def make_inputs(folder: Path, nodes: int) -> None:
    rng = np.random.default_rng(1)
    names = pa.array([f"person-{i:07d}" for i in range(nodes)])
    people = pa.table(
        {"name": names, "age": pa.array(rng.integers(0, 90, nodes), pa.int32()), "score": rng.random(nodes)}
    )
    ends = [names.take(pa.array(rng.integers(0, nodes, nodes * EDGES_PER_NODE))) for _ in range(2)]
    edges = pa.table({"from": ends[0], "to": ends[1], "weight": rng.random(nodes * EDGES_PER_NODE)})
    feather.write_feather(people, str(folder / "nodes.arrow"), compression="uncompressed")
    feather.write_feather(edges, str(folder / "edges.arrow"), compression="uncompressed")
