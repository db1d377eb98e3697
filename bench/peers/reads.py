"""Questions to a graph of a million nodes and five million edges: a node by its key, hops from it, a sum, every edge."""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench.peers import bulk
from bench.peers.install import Peers
from bench.peers.read_sides import QUESTIONS
from bench.peers.turns import Worker, in_turns, quartiles
from bench.results import Table, table

NAMES = ("omnigraph", "plain Lance", "DuckDB", "Kuzu")
STARTS = 20


def run(peers: Peers, *, quick: bool) -> tuple[list[Table], dict[str, Any]]:
    names = [name for name in NAMES if peers.has(name.lower())]
    nodes, rounds = (20_000, 1) if quick else (bulk.NODES, 5)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    seen: dict[str, dict[str, list[float]]] = {name: {question: [] for question in QUESTIONS} for name in names}
    try:
        bulk.make_inputs(folder, nodes)
        workers = {}
        for name in names:
            root = folder / name.replace(" ", "-")
            root.mkdir()
            workers[name] = Worker(peers, f"reads {name}", root)
            workers[name].ask("prepare", inputs=str(folder))
            workers[name].ask("open")
        chance = random.Random(5)
        for number in range(rounds + 1):
            for question in QUESTIONS:
                count = 1 if question in ("sum", "scan") else STARTS
                starts = [f"person-{chance.randrange(nodes):07d}" for _ in range(count)]
                told = {}
                for name in in_turns(names, number):
                    found = workers[name].ask("ask", question=question, starts=starts)
                    told[name] = found["rows"]
                    if number:  # the first round warms up
                        seen[name][question].append(statistics.median(found["ms"]))
                if len(set(told.values())) > 1:
                    raise RuntimeError(f"{question}: the answers differ: {told}")
        for worker in workers.values():
            worker.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _tables(nodes, seen, names, rounds)


def _tables(
    nodes: int, seen: dict[str, dict[str, list[float]]], names: list[str], rounds: int
) -> tuple[list[Table], dict[str, Any]]:
    rows = [[question, *(quartiles(seen[name][question]) for name in names)] for question in QUESTIONS]
    lost = []
    for question in QUESTIONS:
        ours = statistics.median(seen["omnigraph"][question])
        for name in names[1:]:
            theirs = statistics.median(seen[name][question])
            if theirs < ours:
                lost.append([f"{question}: {name}", f"{ours / theirs:.1f} × its time", WHY.get(name, "")])
    title = f"Reads of {nodes:,} nodes and {nodes * bulk.EDGES_PER_NODE:,} edges: milliseconds"
    notes = [
        "Quartiles of the medians of rounds in turns, warm. Ends of hops are counted once, and all agree on how many."
    ]
    return [table(title, ["question", *names], rows, notes)], {"rounds_reads": rounds, "lost_reads": lost}


WHY = {
    "plain Lance": "the same index and files, without names, kinds, or what a damaged file means",
    "DuckDB": "rows lie in the form that its operators work on; here they come through Arrow from files that others read too",
    "Kuzu": "edges are stored as adjacency lists; here a hop is a look-up in an index",
}
