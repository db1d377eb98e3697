"""One process that makes small commits on request, under the engine of any tree: it uses nothing but the public names.

``python small_writes.py ROOT KIND THREADS`` prints ``ready``, then reads lines: how many commits to make, each answered with
one line of JSON. What to import comes from ``PYTHONPATH``. ``BENCH_SYNC=1`` syncs around every swap of an engine that does
not do so itself; ``BENCH_SHARED=1`` opens the graph that another process has made.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { weight: F64? }\n"
INSERT = "query add($a: String, $b: String) {\n  insert Knows { from: $a, to: $b, weight: 0.5 }\n}\n"
PEOPLE = 100
MANY_PEOPLE = 1_000_000  # of the kind "large"
WARM = 30


def main() -> None:
    root, kind, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if os.environ.get("BENCH_SYNC"):
        _sync_swaps(root)
    with og.open(root) if os.environ.get("BENCH_SHARED") else og.init(root, SCHEMA) as graph:
        if not os.environ.get("BENCH_SHARED"):
            graph.load({"Person": _people(_count(kind))}, mode="append")
        made = 0
        _round(graph, kind, threads, made, max(WARM, threads))
        made += max(WARM, threads)
        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(_round(graph, kind, threads, made, int(line))), flush=True)
            made += int(line)


def _count(kind: str) -> int:
    return int(os.environ.get("BENCH_PEOPLE", MANY_PEOPLE)) if kind == "large" else PEOPLE


def _people(count: int) -> pa.Table:
    numbers = pa.array(range(count), pa.int32())
    names = pc.binary_join_element_wise("p", pc.cast(numbers, pa.string()), "")
    return pa.table({"name": names, "age": pc.min_element_wise(numbers, pa.scalar(90, pa.int32()))})


def _write(graph: og.Graph, kind: str, number: int) -> None:
    count = _count(kind)
    a, b = f"p{number * 7919 % count}", f"p{number * 7 % count}"
    if kind == "mutate":
        graph.mutate(INSERT, params={"a": a, "b": b})
    elif kind == "node":
        graph.load([{"type": "Person", "data": {"name": f"q{number}", "age": number % 90}}], mode="merge")
    else:
        graph.load(
            [{"edge": "Knows", "from": a, "to": b, "data": {"weight": 0.5}}], mode="append" if kind == "large" else kind
        )


def _round(graph: og.Graph, kind: str, threads: int, first: int, count: int) -> dict[str, Any]:
    took: list[float] = []
    failed: list[str] = []
    ahead = iter(range(first, first + count))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(ahead, None)
            if number is None:
                return
            started = time.perf_counter()
            try:
                _write(graph, kind, number)
            except og.errors.OmnigraphError as error:
                with lock:
                    failed.append(error.code)
            with lock:
                took.append(time.perf_counter() - started)

    wall, cores = time.perf_counter(), time.process_time()
    if threads == 1:
        work()
    else:
        running = [threading.Thread(target=work) for _ in range(threads)]
        for one in running:
            one.start()
        for one in running:
            one.join()
    return {
        "commits": count - len(failed),
        "failed": sorted(set(failed)),
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cores,
        "median_s": statistics.median(took),
        "worst_s": max(took),
    }


def _sync_swaps(root: str) -> None:
    """Two syncs of the file system for each swap: before it, and after it."""
    from omnigraph.manifest.swap import Manifest

    libc = ctypes.CDLL(None, use_errno=True)
    swap: Callable[..., Any] = Manifest.swap

    def sync() -> None:
        folder = os.open(root, os.O_RDONLY)
        try:
            if libc.syncfs(folder):
                raise OSError(ctypes.get_errno(), "syncfs")
        finally:
            os.close(folder)

    def synced(*arguments: Any, **named: Any) -> Any:
        sync()
        after = swap(*arguments, **named)
        sync()
        return after

    Manifest.swap = synced  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
