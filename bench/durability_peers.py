"""Commits that survive a power cut beside commits that do not: this engine, durable and relaxed, and its neighbours.

What each of them syncs is counted, not quoted: a few of its commits run under strace, and what they wrote is compared with what
was synced after it was written.
"""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.peers import bulk, small
from bench.peers.install import Peers
from bench.peers.install import found as installed
from bench.peers.turns import HERE, Worker, environment, in_turns, quartiles, ratio
from bench.results import Table, table
from omnigraph.testing.powercut.record import Event, record, unavailable

OURS, RELAXED = "omnigraph", "omnigraph relaxed"
NAMES = (OURS, RELAXED, "plain Lance", "deltalake", "SQLite FULL")
TRACED_COMMITS = 10


def run(folder: Path, *, quick: bool) -> tuple[list[Table], dict[str, Any]]:
    peers = installed()
    names = [name for name in NAMES if peers.has(name)]
    roots = {name: folder / name.replace(" ", "-") for name in names}
    for name, root in roots.items():
        root.mkdir()
        _ask(peers, name, root, ("make", {}))
    synced = {name: _synced(peers, name, roots[name], folder) for name in names}
    tables, facts = _small(peers, roots, synced, quick=quick)
    more, told = _bulk(peers, folder, quick=quick)
    return [tables, more], {**facts, **told, "peers": peers.versions}


def _ask(peers: Peers, name: str, root: Path, *orders: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    worker = Worker(peers, name, root, small.settings(name))
    answer: dict[str, Any] = {}
    for order, facts in orders:
        answer = worker.ask(order, **facts)
    worker.end()
    return answer


# --- what is synced -----------------------------------------------------------------------------------------------------


def _synced(peers: Peers, name: str, root: Path, folder: Path) -> dict[str, Any]:
    """Of some commits: how many files and folders were synced for each, and how many files with bytes never were."""
    reason = unavailable()
    if reason is not None:
        return {"syncs": f"not run: {reason}", "left": None}
    marks, orders = folder / "marks", folder / "orders"
    marks.touch()
    wanted = [
        {"order": "open"},
        {"order": "write_many", "count": 5},
        {"order": "mark", "path": str(marks)},
        {"order": "write_many", "count": TRACED_COMMITS},
        {"order": "mark", "path": str(marks)},
    ]
    orders.write_text("".join(f"{json.dumps(one)}\n" for one in wanted))
    child = shlex.join([sys.executable, "-m", "bench.peers.child", name, str(root)])
    command = ["sh", "-c", f"cd {shlex.quote(str(HERE))} && exec {child} < {shlex.quote(str(orders))}"]
    events = record(command, str(root), str(marks), env=environment(peers, small.settings(name)))
    return counted(events)


def counted(events: Sequence[Event]) -> dict[str, Any]:
    """What happened between the two marks, by commit."""
    at = [number for number, event in enumerate(events) if event.kind == "mark"]
    between = events[at[0] + 1 : at[1]]
    return {
        "syncs": round(sum(event.kind in ("sync", "sync-all") for event in between) / TRACED_COMMITS, 1),
        "left": round(len(unsynced(between)) / TRACED_COMMITS, 1),
    }


def unsynced(events: Iterable[Event]) -> set[str]:
    """Files that are there at the end and hold bytes which no sync has covered."""
    left: set[str] = set()
    for event in events:
        if event.kind in ("create", "write", "copy", "truncate"):
            left.add(event.to if event.kind == "copy" else event.path)
        elif event.kind in ("rename", "link"):
            if event.path in left:
                left.add(event.to)
            else:
                left.discard(event.to)
        elif event.kind == "sync":
            left.discard(event.path)
        elif event.kind == "sync-all":
            left.clear()
        if event.kind in ("rename", "unlink"):
            left.discard(event.path)
    return left


# --- commits ------------------------------------------------------------------------------------------------------------


def _small(
    peers: Peers, roots: dict[str, Path], synced: dict[str, dict[str, Any]], *, quick: bool
) -> tuple[Table, dict[str, Any]]:
    rounds, count = (1, 10) if quick else (7, 60)
    rows, ratios = [], {}
    for processes in (1, 2 if quick else 12):
        seen: dict[str, list[float]] = {name: [] for name in roots}
        for number in range(rounds):
            for name in in_turns(list(roots), number):
                seen[name].append(_speed(peers, name, roots[name], processes, max(5, count // processes)))
        for name, speeds in seen.items():
            of_relaxed = ratio(speeds, seen[RELAXED])
            against = None if name == OURS else f"{ratio(seen[OURS], speeds):.2f}"
            told = synced[name]
            rows.append([processes, name, quartiles(speeds), against, told["syncs"], told["left"]])
            if name == OURS:
                ratios[f"durable_of_relaxed_{processes}"] = round(of_relaxed, 3)
    columns = [
        "processes",
        "who",
        "commits/s",
        "omnigraph against it",
        "syncs a commit",
        "files left unsynced a commit",
    ]
    notes = [
        "Quartiles of rounds in turns, a local disk; each commit is one edge. Syncs are of files and folders, counted under strace over "
        f"{TRACED_COMMITS} commits of one process; a file is left unsynced if a power cut may take its bytes after the commit was answered. This engine leaves two, however "
        "many the commits are: the hint with which Lance finds its newest version, and the checksums of the manifest line's newest "
        "version; those of tables are synced. Bar: 0.6 of the speed of relaxed with one writer.",
    ]
    return table("Commits that survive a power cut, beside others", columns, rows, notes), ratios


def _speed(peers: Peers, name: str, root: Path, processes: int, count: int) -> float:
    workers = [Worker(peers, name, root, small.settings(name)) for _ in range(processes)]
    for worker in workers:
        worker.ask("open")
        worker.ask("write_many", count=2)
    for worker in workers:
        worker.start("write_many", count=count)
    told = [worker.answer() for worker in workers]
    for worker in workers:
        worker.end()
    return float(sum(one["commits"] for one in told) / max(one["wall_s"] for one in told))


def _bulk(peers: Peers, folder: Path, *, quick: bool) -> tuple[Table, dict[str, Any]]:
    names = [name for name in (OURS, RELAXED, "plain Lance", "deltalake") if peers.has(name)]
    nodes, rounds = (20_000, 1) if quick else (bulk.NODES, 5)
    inputs = folder / "inputs"
    inputs.mkdir()
    bulk.make_inputs(inputs, nodes)
    seen = bulk.in_rounds(peers, names, folder, inputs, rounds)
    walls = {name: [one["wall_s"] for one in found] for name, found in seen.items()}
    rows = [
        [name, quartiles(took), round(nodes * (1 + bulk.EDGES_PER_NODE) / statistics.median(took)), of_ours]
        for name, took in walls.items()
        for of_ours in [None if name == OURS else f"{ratio(took, walls[OURS]):.2f}"]
    ]
    title = f"A bulk load of {nodes:,} nodes and {nodes * bulk.EDGES_PER_NODE:,} edges in one commit, durable and not"
    notes = [
        "Quartiles of rounds in turns, each into nothing, a local disk. The neighbours sync what the table above says. Bar: 0.95 of the speed of relaxed."
    ]
    return table(title, ["who", "seconds", "rows/s", "omnigraph against it"], rows, notes), {
        "durable_of_relaxed_bulk": round(ratio(walls[RELAXED], walls[OURS]), 3)
    }
