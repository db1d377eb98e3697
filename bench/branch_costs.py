"""What branches cost: making one, the first write of a table, merges, undo, and a write beside a thousand others.

Requests are counted on a local disk, where they are the same calls as on an object store.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import omnigraph as og
from bench.results import Table, table
from omnigraph.graph import Graph

MANY = 1000
WIDE = 20  # tables of a merge that touches one or two of them


def tables(rows: int, people: Callable[[int, int, int], Any], *, quick: bool) -> list[Table]:
    """``people``: rows of the large type, from a first number on."""
    return [
        table(
            "Making a branch",
            ["tables", "requests", "seconds", "bar"],
            list(_creates((5, 50) if quick else (5, 50, 500))),
            [
                "From a warm handle; the name was not used before. The first creation of a root probes the store besides."
            ],
        ),
        table(
            f"Writes, merges and undo: 100 rows of {rows:,}",
            ["step", "requests", "seconds", "bar"],
            list(_steps(rows, people)),
        ),
        table(
            f"Merges of 100 changed rows a table into {WIDE} tables",
            ["rows a table", "changed tables", "requests", "seconds, best of 3", "bar"],
            list(_merges((rows // 10, rows), people)),
            ["Time is that of the merge alone, of branches of one graph that changed different rows."],
        ),
        table(
            f"{MANY // 10 if quick else MANY} branches",
            ["step", "requests", "seconds", "bar"],
            list(_many(MANY // 10 if quick else MANY)),
        ),
    ]


def _creates(counts: tuple[int, ...]) -> Iterator[list[Any]]:
    for count in counts:
        schema = "\n".join(f"node T{number} {{ name: String @key }}" for number in range(count))
        with (
            tempfile.TemporaryDirectory() as folder,
            og.init(Path(folder) / "g", schema, durability="relaxed") as graph,
        ):
            graph.branches.create("first")
            started = time.perf_counter()
            made = graph.branches.create("second")
            yield [count, made.storage.requests, _since(started), "≤ 11 requests"]


def _steps(rows: int, people: Callable[[int, int, int], Any]) -> Iterator[list[Any]]:
    schema = "node Person { name: String @key  age: I32?  city: String? }\nnode Town { name: String @key }"
    changed = [{"type": "Person", "data": {"name": str(at * (rows // 100)), "age": 5}} for at in range(100)]
    with tempfile.TemporaryDirectory() as folder, og.init(Path(folder) / "g", schema, durability="relaxed") as graph:
        graph.load(og.Batch(nodes={"Person": people(0, rows, 1)}), mode="append")
        graph.optimize()
        graph.branches.create("b")

        def town(name: str, branch: str) -> Any:
            return graph.load([{"type": "Town", "data": {"name": name}}], mode="append", branch=branch)

        yield _step("one row of a small table on main", lambda: town("a", "main"), "11 to 13")
        yield _step("the same, first write of a branch", lambda: town("b", "b"), "main + 7")
        yield _step("the same, second write", lambda: town("c", "b"), "main")
        yield _step("100 rows of a large table, first write", lambda: _patch(graph, changed, "b"), "")
        yield _step("main into the branch", lambda: graph.branches.merge("main", into="b"), "by rows: both wrote Town")
        graph.branches.create("fresh", at=graph.commits(limit=2)[1].id)
        yield _step("main into a branch that wrote nothing", lambda: graph.branches.merge("main", into="fresh"), "O(1)")
        yield _step("the branch into main", lambda: graph.branches.merge("b"), "≤ 25 for each of 2 tables")
        bad = graph.load(og.Batch(nodes={"Person": people(rows, rows, 2)}), mode="append")
        yield _step(f"undo of a load of {rows:,} rows", lambda: graph.revert(str(bad.commit_id)), "≤ 10 a table")


def _merges(sizes: tuple[int, ...], people: Callable[[int, int, int], Any]) -> Iterator[list[Any]]:
    """The same merge into tables of different sizes: what a table costs must not depend on how much lies in it."""
    schema = "\n".join(f"node T{number} {{ name: String @key  age: I32?  city: String? }}" for number in range(WIDE))
    for rows in sizes:
        with (
            tempfile.TemporaryDirectory() as folder,
            og.init(Path(folder) / "g", schema, durability="relaxed") as graph,
        ):
            for number in range(WIDE):
                graph.load(og.Batch(nodes={f"T{number}": people(0, rows, 1)}), mode="append")
            graph.optimize()
            for touched in (1, 2):
                found = [_merge(graph, rows, touched, turn) for turn in range(3)]
                yield [rows, touched, found[0][0], min(took for _, took in found), "≤ 25 a touched table; within 25 %"]


def _merge(graph: Graph, rows: int, touched: int, turn: int) -> tuple[int, float]:
    branch = f"b{touched}-{turn}"
    graph.branches.create(branch)
    for number in range(touched):
        keys = [at * (rows // 100) + 2 * turn + touched for at in range(100)]
        changed = [{"type": f"T{number}", "data": {"name": str(key), "age": 5 + touched}} for key in keys]
        _patch(graph, changed, branch)
    started = time.perf_counter()
    done = graph.branches.merge(branch)
    return done.storage.requests, _since(started)


def _patch(graph: Graph, records: list[dict[str, Any]], branch: str) -> Any:
    return graph.load(records, mode="patch", branch=branch)


def _many(count: int) -> Iterator[list[Any]]:
    schema = "node Town { name: String @key }"
    with tempfile.TemporaryDirectory() as folder, og.init(Path(folder) / "g", schema, durability="relaxed") as graph:
        graph.load([{"type": "Town", "data": {"name": "a"}}], mode="append")

        def write(name: str, branch: str) -> Any:
            return graph.load([{"type": "Town", "data": {"name": name}}], mode="append", branch=branch)

        graph.branches.create("b0")
        write("first", "b0")
        yield _step("a write beside one branch", lambda: write("one", "b0"), "")
        for number in range(1, count):
            graph.branches.create(f"b{number}")
        yield _step("a write beside all of them", lambda: write("many", "b0"), "as beside one")
        with og.open(graph.uri, read_only=True) as reader:
            started = time.perf_counter()
            assert len(reader.branches.list()) == count + 1
            yield ["list, fresh handle", "", _since(started), "≤ 2 s"]
        started = time.perf_counter()
        graph.plan_cleanup(keep=1, min_age="0s")
        yield ["plan of a cleanup", "", _since(started), ""]


def _step(name: str, call: Callable[[], Any], bar: str) -> list[Any]:
    started = time.perf_counter()
    done = call()
    return [name, done.storage.requests, _since(started), bar]


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)
