"""Commits of one edge: one process with 1, 8 and 64 threads, and several processes; on a new graph and after thousands of commits."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.peers.install import Peers
from bench.peers.turns import Ended, Worker, in_turns, quartiles, ratio
from bench.results import Table, table

NAMES = ("omnigraph", "omnigraph relaxed", "plain Lance", "deltalake", "SQLite NORMAL", "SQLite FULL")
COMMITS = {1: 40, 8: 120, 64: 192}
PROCESSES = (4, 12)
HISTORY = 5_000
LIMIT_S = 10.0  # of one round: a side that makes a few commits a second is known by then


def run(peers: Peers, *, quick: bool) -> tuple[list[Table], dict[str, Any]]:
    names = [name for name in NAMES if peers.has(name)]
    rounds, threads, processes = (1, (1, 8), (2,)) if quick else (5, (1, 8, 64), PROCESSES)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    tables, lost = [], []
    try:
        roots = {name: folder / name.replace(" ", "-") for name in names}
        for name in names:
            roots[name].mkdir()
            _alone(peers, name, roots[name], "make")
        for title, history in (("a new graph", 0), ("after many commits", 40 if quick else HISTORY)):
            if history:
                _grow(peers, names, roots, history)
            seen = {(1, count): _by_threads(peers, names, roots, count, rounds, quick) for count in threads}
            seen |= {(count, 1): _by_processes(peers, names, roots, count, rounds, quick) for count in processes}
            where = f"{title} ({history:,})" if history else title
            tables.append(_table(where, seen, names))
            lost += _lost(where, seen, names)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tables, {"rounds_small": rounds, "lost_small": lost}


Seen = dict[str, list[dict[str, Any]]]
# A round in which the process of a side ended before all was written.
ENDED = {"per_s": 0.0, "cpu_ms": 0.0, "worst_s": 0.0, "failed": 1}


def settings(name: str) -> dict[str, str]:
    return {"OMNIGRAPH_DURABILITY": "relaxed" if name == "omnigraph relaxed" else "commit"}


def _alone(peers: Peers, name: str, root: Path, *orders: str) -> None:
    worker = Worker(peers, name, root, settings(name))
    for order in orders:
        worker.ask(order)
    worker.end()


def _opened(peers: Peers, name: str, root: Path) -> Worker:
    worker = Worker(peers, name, root, settings(name))
    worker.ask("open")
    worker.ask("write_many", count=5)
    return worker


def _grow(peers: Peers, names: list[str], roots: dict[str, Path], commits: int) -> None:
    for name in names:
        worker = _opened(peers, name, roots[name])
        worker.ask("write_many", count=commits, threads=64 if name.startswith("omnigraph") else 1)
        worker.end()


def _by_threads(peers: Peers, names: list[str], roots: dict[str, Path], threads: int, rounds: int, quick: bool) -> Seen:
    seen: Seen = {name: [] for name in names}
    workers = {name: _opened(peers, name, roots[name]) for name in names}
    for number in range(rounds):
        for name in in_turns(names, number):
            count = 16 if quick else COMMITS[threads]
            try:
                found = workers[name].ask("write_many", count=count, threads=threads, limit_s=LIMIT_S)
            except Ended as ended:
                print(ended, file=sys.stderr, flush=True)
                workers[name].end()
                workers[name] = _opened(peers, name, roots[name])
                seen[name].append(dict(ENDED))
            else:
                seen[name].append(_figures([found], found["wall_s"]))
    for worker in workers.values():
        worker.end()
    return seen


def _by_processes(
    peers: Peers, names: list[str], roots: dict[str, Path], processes: int, rounds: int, quick: bool
) -> Seen:
    seen: Seen = {name: [] for name in names}
    for number in range(rounds):
        for name in in_turns(names, number):
            workers = [_opened(peers, name, roots[name]) for _ in range(processes)]
            for worker in workers:
                worker.start("write_many", count=5 if quick else 20, limit_s=LIMIT_S)
            found = [worker.answer() for worker in workers]
            for worker in workers:
                worker.end()
            # The slowest of them: all began at once.
            seen[name].append(_figures(found, max(one["wall_s"] for one in found)))
    return seen


def _figures(found: list[dict[str, Any]], wall_s: float) -> dict[str, Any]:
    commits = sum(one["commits"] for one in found)
    return {
        "per_s": commits / wall_s,
        "cpu_ms": 1000 * sum(one["cpu_s"] for one in found) / max(commits, 1),
        "worst_s": max(one["worst_s"] for one in found),
        "failed": sum(sum(one["failed"].values()) for one in found),
    }


def _table(where: str, seen: dict[tuple[int, int], Seen], names: list[str]) -> Table:
    rows = []
    for (processes, threads), found in seen.items():
        for name in names:
            rounds = found[name]
            speeds = [one["per_s"] for one in rounds]
            ours = [one["per_s"] for one in found["omnigraph"]]
            rows.append(
                [
                    f"{processes} process{'es' if processes > 1 else ''}, {threads} thread{'s' if threads > 1 else ''}",
                    name,
                    quartiles(speeds),
                    round(statistics.median(one["cpu_ms"] for one in rounds), 2),
                    round(1000 * max(one["worst_s"] for one in rounds)),
                    sum(one["failed"] for one in rounds),
                    None if name == "omnigraph" or not all(speeds) else f"{ratio(ours, speeds):.2f}",
                ]
            )
    columns = ["writers", "who", "commits/s", "core ms a commit", "worst ms", "failed", "omnigraph against it"]
    notes = [
        "Quartiles of rounds in turns, a local disk. Each commit is one edge between two nodes that are there. A process that holds more than 8 GiB is ended: its round is 0. No write begins after the 10th second of a round."
    ]
    return table(f"Small writes, {where}", columns, rows, notes)


def _lost(where: str, seen: dict[tuple[int, int], Seen], names: list[str]) -> list[list[str]]:
    lost = []
    for (processes, threads), found in seen.items():
        for name in names[2:]:
            ours, theirs = ([one["per_s"] for one in found[who]] for who in ("omnigraph", name))
            if not all(theirs):
                continue
            against = ratio(ours, theirs)
            if against < 1:
                place = f"small writes, {where}, {processes} × {threads}: {name}"
                lost.append([place, f"{against:.2f} of its commits/s", WHY[name]])
    return lost


WHY = {
    "plain Lance": "one table and no check: a commit here is two of Lance's, an intent and what survives a power cut",
    "deltalake": "one table and no check",
    "SQLite NORMAL": "one file and one machine: no object store, no files that other tools read, no sync at a commit",
    "SQLite FULL": "one file and one machine: one sync a commit, where here are three files and their folders",
}
