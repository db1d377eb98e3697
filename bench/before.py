"""What the engine of another working tree did, beside this one in the same run: ``./run bench before --baseline PATH``.

Threads on one handle, processes on one table, a bulk load, and commands that only start. All of it goes through public names
that both trees have, in processes of their own, sides in turns.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.contention import SLOW_S, Roots
from bench.peers.bulk import make_inputs
from bench.results import Table, compiled_once, table
from bench.solo import HERE, Side, Writer, quartiles
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import FaultProxyProcess

BULK = Path(__file__).with_name("bulk_writes.py")
THREADS = (1, 8, 64)
PROCESSES = (4, 12)
NODES = 1_000_000
RELAXED = {"OMNIGRAPH_DURABILITY": "relaxed"}
STARTS = {
    "import omnigraph": ("-c", "import omnigraph"),
    "omnigraph --help": ("-m", "omnigraph.cli", "--help"),
    "omnigraph status": ("-m", "omnigraph.cli", "status", "{graph}"),
}

Rounds = dict[str, list[dict[str, Any]]]


def run(*, quick: bool = False, baseline: Path | None = None) -> tuple[list[Table], dict[str, Any]]:
    if baseline is None:
        raise SystemExit("bench before compares two working trees: give the other one with --baseline PATH")
    tree = baseline.resolve()
    tables = [
        _on_disk(tree, quick, "relaxed on both sides", {}, RELAXED),
        _on_disk(tree, quick, "the same syncs on both sides", {"BENCH_SYNC": "1"}, {}),
        _on_a_slow_store(tree, quick),
        _bulk(tree, quick),
        _starts(tree, quick),
    ]
    return tables, {"load_average_before": os.getloadavg()[0]}


# --- small writes -----------------------------------------------------------------------------------------------------------


def _on_disk(tree: Path, quick: bool, how: str, theirs: Mapping[str, str], ours: Mapping[str, str]) -> Table:
    roots = Roots()
    try:
        threads, rounds = ((1, 8), 1) if quick else (THREADS, 5)
        rows = list(_small(_sides(tree, theirs, ours), roots, threads, 5 if quick else 20, rounds))
    finally:
        roots.close()
    return _shown(f"Small writes on a disk before and now, {how}", rows)


def _on_a_slow_store(tree: Path, quick: bool) -> Table:
    with S3Emulator() as emulator, FaultProxyProcess(emulator.endpoint) as proxy, _set(environment(proxy.endpoint)):
        roots = Roots(emulator)
        try:
            proxy.slow(SLOW_S)
            sides = _sides(tree, {}, {})
            rows = list(_small(sides, roots, (8,) if quick else THREADS, 2 if quick else 6, 1 if quick else 3))
        finally:
            roots.close()
    return _shown("Small writes before and now, through a store where each request takes 20 ms", rows)


def _sides(tree: Path, theirs: Mapping[str, str], ours: Mapping[str, str]) -> tuple[Side, Side]:
    return Side("before", tree, theirs), Side("now", HERE, ours)


def _small(sides: Sequence[Side], roots: Roots, threads: Sequence[int], each: int, rounds: int) -> Iterator[list[Any]]:
    """``each``: commits of one process."""
    for count in threads:
        commits = max(2 * each, 2 * count)
        yield from _compared(
            f"1 process, {count} thread{'s' * (count > 1)}", _in_turns(sides, roots, 1, count, commits, rounds)
        )
    for count in PROCESSES:
        found = _in_turns(sides, roots, count, 1, each, rounds)
        yield from _compared(f"{count} processes, one table", found)


def _in_turns(sides: Sequence[Side], roots: Roots, processes: int, threads: int, commits: int, rounds: int) -> Rounds:
    seen: Rounds = {side.name: [] for side in sides}
    with ExitStack() as stack:
        writers = {side.name: _writers(stack, side, roots.fresh(), processes, threads) for side in sides}
        for number in range(rounds):
            for name in list(writers)[:: 1 if number % 2 else -1]:
                for writer in writers[name]:
                    writer.start(commits)
                seen[name].append(_together([writer.answer() for writer in writers[name]]))
    return seen


def _writers(stack: ExitStack, side: Side, root: str, processes: int, threads: int) -> list[Writer]:
    first = stack.enter_context(Writer(side, root, "append", threads))
    joining = Side(side.name, side.tree, {**side.environment, "BENCH_SHARED": "1"})
    return [first, *(stack.enter_context(Writer(joining, root, "append", threads)) for _ in range(processes - 1))]


def _together(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All began at once; the round took as long as the slowest."""
    commits = sum(one["commits"] for one in found)
    return {
        "per_s": commits / max(one["wall_s"] for one in found),
        "cpu_ms": 1000 * sum(one["cpu_s"] for one in found) / max(commits, 1),
        "median_s": statistics.median(one["median_s"] for one in found),
        "worst_s": max(one["worst_s"] for one in found),
        "failed": sorted({code for one in found for code in one["failed"]}),
    }


def _compared(what: str, found: Rounds) -> Iterator[list[Any]]:
    ratio = statistics.median(
        now["per_s"] / before["per_s"] for now, before in zip(found["now"], found["before"], strict=True)
    )
    for name, rounds in found.items():
        yield [
            what,
            name,
            quartiles([one["per_s"] for one in rounds]),
            round(statistics.median(one["cpu_ms"] for one in rounds), 1),
            round(1000 * statistics.median(one["median_s"] for one in rounds)),
            round(1000 * max(one["worst_s"] for one in rounds)),
            ", ".join(sorted({code for one in rounds for code in one["failed"]})) or None,
            round(ratio, 2) if name == "now" else None,
        ]


def _shown(title: str, rows: list[list[Any]]) -> Table:
    columns = ["writers", "engine", "commits/s", "core ms a commit", "median ms", "worst ms", "failed", "of before"]
    notes = [
        "One edge a commit. Quartiles of rounds in turns; the ratio is the median of those of each round. Bars for 64 threads: 15 relaxed, "
        "8 with the same syncs, 20 at 20 ms, worst call at most 10 medians."
    ]
    # The three tables of a run follow each other: what holds for all of them stands below the last.
    return table(title, columns, rows, notes if "20 ms" in title else ())


# --- bulk, and starting -----------------------------------------------------------------------------------------------------


def _bulk(tree: Path, quick: bool) -> Table:
    nodes, rounds = (20_000, 1) if quick else (NODES, 3)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    rows: list[list[Any]] = []
    try:
        make_inputs(folder, nodes)
        for case in ("tables", "records", "merge"):
            seen: dict[str, list[dict[str, Any]]] = {"before": [], "now": []}
            for number in range(rounds):
                for side in _sides(tree, RELAXED, RELAXED)[:: 1 if number % 2 else -1]:
                    seen[side.name].append(_loaded(side, folder, case))
            ratio = statistics.median(
                a["wall_s"] / b["wall_s"] for a, b in zip(seen["before"], seen["now"], strict=True)
            )
            for name, found in seen.items():
                walls = quartiles([one["wall_s"] for one in found])
                cores = quartiles([one["cpu_s"] for one in found])
                rows.append([case, name, walls, cores, round(ratio, 2) if name == "now" else None])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return table(
        f"Bulk loads of {nodes:,} nodes before and now",
        ["what", "engine", "seconds", "core seconds", "rows/s of before"],
        rows,
        [
            "Tables: with five edges a node. Records: flat NDJSON. Merge: 10,000 into all. Relaxed on both sides. Bar: 0.95."
        ],
    )


def _loaded(side: Side, folder: Path, case: str) -> dict[str, Any]:
    root = folder / f"graph-{side.name}"
    done = subprocess.run(
        [sys.executable, str(BULK), str(root), str(folder), case],
        env={**compiled_once(), **side.environment, "PYTHONPATH": str(side.tree / "engine")},
        cwd=side.tree,
        stdout=subprocess.PIPE,
        check=True,
    )
    for written in folder.glob("graph-*"):
        shutil.rmtree(written)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _starts(tree: Path, quick: bool) -> Table:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    rows: list[list[Any]] = []
    try:
        sides = _sides(tree, {}, {})
        for side in sides:
            (folder / "s.pg").write_text("node Person { name: String @key }\n")
            _cores(side, ("-m", "omnigraph.cli", "init", str(folder / side.name), "--schema", str(folder / "s.pg")))
        for what, words in STARTS.items():
            seen: dict[str, list[float]] = {side.name: [] for side in sides}
            for number in range(3 if quick else 15):
                for side in sides[:: 1 if number % 2 else -1]:
                    seen[side.name].append(_cores(side, [one.format(graph=folder / side.name) for one in words]))
            ratio = statistics.median(b / a for a, b in zip(seen["before"], seen["now"], strict=True))
            for name, found in seen.items():
                rows.append([what, name, quartiles(found), round(ratio, 2) if name == "now" else None])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    columns = ["what", "engine", "core seconds", "of before"]
    return table("Starting before and now", columns, rows, ["Bytecode is kept on both sides. Bar: 1."])


def _cores(side: Side, words: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words],
        env={**compiled_once(), "PYTHONPATH": str(side.tree / "engine")},
        cwd=side.tree,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def _set(values: Mapping[str, str]) -> Iterator[None]:
    held: Callable[[str], str | None] = os.environ.get
    before = {name: held(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
