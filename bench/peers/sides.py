"""What each neighbour does for one piece of work, as its own manual says that it is done."""

from __future__ import annotations

import abc
import math
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

PEOPLE = 100
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { weight: F64? }\n"


def make(name: str, root: Path) -> Any:
    from bench.peers import bulk_sides, read_sides

    kinds = {
        "omnigraph": Omnigraph,
        "omnigraph relaxed": Omnigraph,
        "plain Lance": PlainLance,
        "deltalake": DeltaLake,
        "SQLite NORMAL": lambda root: Sqlite(root, "NORMAL"),
        "SQLite FULL": lambda root: Sqlite(root, "FULL"),
        **bulk_sides.KINDS,
        **read_sides.KINDS,
    }
    return kinds[name](root)


class Small(abc.ABC):
    """Commits of one edge each."""

    @abc.abstractmethod
    def make(self) -> None: ...

    @abc.abstractmethod
    def open(self) -> None: ...

    @abc.abstractmethod
    def write(self, a: str, b: str) -> None: ...

    def mark(self, path: str) -> None:
        """Tell a recorder where we are."""
        with open(path, "a") as marks:
            marks.write("here\n")

    def write_many(self, count: int, threads: int = 1, limit_s: float = math.inf) -> dict[str, Any]:
        """``limit_s``: no write begins after so many seconds."""
        took: list[float] = []
        failed: dict[str, int] = {}
        ahead = iter(range(count))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    number = next(ahead, None)
                started, error = time.perf_counter(), None
                if number is None or started - wall > limit_s:
                    return
                try:
                    self.write(f"p{number % PEOPLE}", f"p{number * 7 % PEOPLE}")
                except Exception as found:  # noqa: BLE001 - what a neighbour raises is counted
                    error = type(found).__name__
                with lock:
                    took.append(time.perf_counter() - started)
                    if error is not None:
                        failed[error] = failed.get(error, 0) + 1

        wall, cores = time.perf_counter(), time.process_time()
        running = [threading.Thread(target=work) for _ in range(threads)]
        for one in running:
            one.start()
        for one in running:
            one.join()
        return {
            "commits": len(took) - sum(failed.values()),
            "failed": failed,
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cores,
            "median_s": statistics.median(took),
            "worst_s": max(took),
        }


class Omnigraph(Small):
    def __init__(self, root: Path) -> None:
        self._root = str(root / "graph")
        self._graph: Any = None

    def make(self) -> None:
        import omnigraph as og

        with og.init(self._root, SCHEMA) as graph:
            people = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(PEOPLE)]
            graph.load(people, mode="append")

    def open(self) -> None:
        import omnigraph as og

        self._graph = og.open(self._root)

    def write(self, a: str, b: str) -> None:
        self._graph.load([{"edge": "Knows", "from": a, "to": b, "data": {"weight": 0.5}}], mode="append")


def one_edge(a: str, b: str) -> pa.Table:
    return pa.table({"src": [a], "dst": [b], "weight": [0.5]})


class PlainLance(Small):
    """Lance retries an append by itself. The threads share a session: with one each, 64 of them hold more than 9 GB at 2,000 fragments."""

    def __init__(self, root: Path) -> None:
        self._uri = str(root / "knows.lance")
        self._of_thread = threading.local()
        self._session: Any = None

    def make(self) -> None:
        import lance

        lance.write_dataset(one_edge("a", "b"), self._uri)

    def open(self) -> None:
        import lance

        self._session = lance.Session(index_cache_size_bytes=64 << 20, metadata_cache_size_bytes=256 << 20)
        lance.dataset(self._uri, session=self._session)

    def write(self, a: str, b: str) -> None:
        import lance

        base = getattr(self._of_thread, "dataset", None) or lance.dataset(self._uri, session=self._session)
        self._of_thread.dataset = lance.write_dataset(one_edge(a, b), base, mode="append")


class DeltaLake(Small):
    def __init__(self, root: Path) -> None:
        self._uri = str(root / "knows.delta")

    def make(self) -> None:
        from deltalake import write_deltalake

        write_deltalake(self._uri, one_edge("a", "b"))

    def open(self) -> None:
        from deltalake import DeltaTable

        DeltaTable(self._uri)

    def write(self, a: str, b: str) -> None:
        from deltalake import write_deltalake

        write_deltalake(self._uri, one_edge(a, b), mode="append")


class Sqlite(Small):
    def __init__(self, root: Path, synchronous: str) -> None:
        self._path = str(root / "graph.sqlite")
        self._synchronous = synchronous
        self._of_thread = threading.local()

    def make(self) -> None:
        with self._connected() as connection:
            connection.execute("CREATE TABLE person (name TEXT PRIMARY KEY, age INTEGER) WITHOUT ROWID")
            connection.execute(
                "CREATE TABLE knows (id INTEGER PRIMARY KEY, src TEXT NOT NULL REFERENCES person(name), "
                "dst TEXT NOT NULL REFERENCES person(name), weight REAL)"
            )
            connection.executemany("INSERT INTO person VALUES (?, NULL)", [(f"p{n}",) for n in range(PEOPLE)])

    def open(self) -> None:
        self._connected()

    def write(self, a: str, b: str) -> None:
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO knows (src, dst, weight) VALUES (?, ?, 0.5)", (a, b))
        connection.execute("COMMIT")

    def _connected(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if found is None:
            found = sqlite3.connect(self._path, timeout=60, isolation_level=None)
            found.execute("PRAGMA journal_mode = WAL")
            found.execute(f"PRAGMA synchronous = {self._synchronous}")
            found.execute("PRAGMA foreign_keys = ON")
            self._of_thread.connection = found
        return found


def timed(act: Callable[[], Any]) -> dict[str, Any]:
    wall, cores = time.perf_counter(), time.process_time()
    result = act()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cores, "result": result}
