"""What mutations cost: single rows at the wire, an update of many rows against Lance's own, and reading query texts.

The figures at the wire are taken on the worlds of the bench ``wire``: 100,000 people, indexed once, at several depths.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from bench import costs
from bench.costs import Cost
from bench.graphs import World, person
from bench.lab import Lab
from bench.results import Table, table
from omnigraph.core.meter import StorageCost
from omnigraph.gq import parse_queries

DEPTHS = (10, 100, 1000)
WARM_UP = 3
REPEATS = 5
# So that what waits for what shows in the log.
CHAIN_LATENCY_S = 0.02
PROTOCOL = 11

QUERIES: dict[str, str] = {
    "insert a node by key": "insert Person { name: $new, age: $n }",
    "insert an edge": "insert Knows { from: $one, to: $other, weight: 1.0 }",
    "update by key": "update Person set { age: $n } where name = $one",
    "replace by key (insert of a known one)": "insert Person { name: $one, age: $n }",
    "delete a node by key": "delete Person where name = $gone",
}


class _Writer:
    """Runs one query on a handle, each time about rows that no other run was about."""

    def __init__(self, graph: og.Graph, first: int) -> None:
        self._graph = graph
        self._serial = itertools.count(first)

    def run(self, body: str) -> StorageCost:
        n = next(self._serial)
        names = {"one": person(20_000 + n), "other": person(30_000 + n), "gone": person(40_000 + n), "new": f"new-{n}"}
        text = f"query q($one: String, $other: String, $gone: String, $new: String, $n: I32) {{ {body} }}"
        receipt = self._graph.mutate(text, params={**names, "n": n})
        assert receipt.commit_id is not None, body
        return receipt.storage


def run(lab: Lab, *, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    worlds = lab.worlds(5, (10, 140) if quick else DEPTHS)
    repeats = 2 if quick else REPEATS
    rows = [row for world in worlds for row in _warm_rows(lab, world, repeats)]
    cold = [row for world in worlds for row in _cold_rows(lab, world, "built at the start")]
    with lab.history(tables=5, indexed=False) as history:
        bare = lab.copy(history.grow_to(30 if quick else 120))
    cold += _cold_rows(lab, bare, "never built")
    shown = [
        table(
            "Mutations of one row, warm handle",
            [
                "write",
                "depth",
                "requests",
                "of these over 11",
                "reads of rows and indexes",
                "hops told",
                "longest chain",
            ],
            rows,
            [
                f"Bar: {PROTOCOL} requests and at most 4 for finding the row, at most 9 hops, the same at every depth. A row "
                "that is replaced or deleted in place writes one deletion file more than a new one."
            ],
        ),
        table(
            "The same, first write of a handle",
            ["write", "depth", "indexes", "requests", "reads of rows and indexes", "longest chain"],
            cold,
            ["Opening the graph is not counted. Without upkeep every data file that no index covers is read once."],
        ),
        _bulk(quick),
        _parsing(),
    ]
    return shown, {"repeats": repeats}


# --- one row at the wire ------------------------------------------------------------------------------------------------


def _warm_rows(lab: Lab, world: World, repeats: int) -> list[list[Any]]:
    rows = []
    with og.open(world.uri) as graph:
        writer = _Writer(graph, 1)
        for name, body in QUERIES.items():
            for _ in range(WARM_UP):
                writer.run(body)
            lab.proxy.slow(CHAIN_LATENCY_S)
            many = [_unarchived(lab, writer, body) for _ in range(repeats)]
            lab.proxy.slow(0.0)
            requests = [one.requests for one in many]
            told = [one.receipt.hops for one in many if one.receipt is not None]
            over = max(requests) - PROTOCOL
            rows.append(
                [
                    name,
                    world.depth,
                    _span(requests),
                    over,
                    _span([one.lookups for one in many]),
                    max(told),
                    max(one.hops for one in many),
                ]
            )
    return rows


def _unarchived(lab: Lab, writer: _Writer, body: str) -> Cost:
    """Every 64th commit writes one file more; that is the business of the bench ``wire``."""
    cost = costs.measured(lab.proxy, lambda: writer.run(body))
    return costs.measured(lab.proxy, lambda: writer.run(body)) if cost.rolled else cost


def _cold_rows(lab: Lab, world: World, indexes: str) -> list[list[Any]]:
    rows = []
    for number, (name, body) in enumerate(QUERIES.items()):
        with og.open(world.uri) as graph:
            writer = _Writer(graph, 1_000 + 10 * number)
            lab.proxy.slow(CHAIN_LATENCY_S)
            cost = costs.measured(lab.proxy, lambda: writer.run(body))  # noqa: B023
            lab.proxy.slow(0.0)
        rows.append([name, world.depth, indexes, cost.requests, cost.lookups, cost.hops])
    return rows


def _span(values: list[int]) -> Any:
    low, high = min(values), max(values)
    return low if low == high else f"{low}–{high}"


# --- many rows ----------------------------------------------------------------------------------------------------------

BULK_SCHEMA = "node Person { name: String @key  mail: String? @unique  age: I32?  score: F64?  note: String? }"
ROUNDS = 5
UPDATED_SHARE = 100  # one row in so many


def _bulk(quick: bool) -> Table:
    rows = 100_000 if quick else 1_000_000
    with (
        tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder,
        og.init(f"{folder}/graph", BULK_SCHEMA) as graph,
    ):
        graph.load(og.Batch(nodes={"Person": _people(rows)}), mode="append")
        copy = Path(folder) / "copy.lance"
        source = graph.snapshot().tables["node:Person"].uri.removeprefix("file://")
        lance_s, ours_s = [], []
        for number in range(ROUNDS):  # in turns, so that whatever else the machine does meets both alike
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(source, copy)
            lance_s.append(_timed(lambda: _lance_update(copy, number, rows)))  # noqa: B023
            ours_s.append(_timed(lambda: _our_update(graph, number, rows)))  # noqa: B023
    theirs, ours = statistics.median(lance_s), statistics.median(ours_s)
    return table(
        f"Update of {rows // UPDATED_SHARE:,} of {rows:,} rows by predicate, local disk",
        ["who", "median ms", "slowest ms"],
        [
            ["Lance's own update", round(1000 * theirs), round(1000 * max(lance_s))],
            ["mutate, checks and commit included", round(1000 * ours), round(1000 * max(ours_s))],
        ],
        [
            f"{ours / theirs:.2f} × Lance's own (bar: at most 3). The type has a unique property, which the update leaves alone."
        ],
    )


def _people(rows: int) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "name": [f"person-{n:07d}" for n in numbers],
            "mail": [f"{n}@example.org" for n in numbers],
            "age": pa.array([n % UPDATED_SHARE for n in numbers], pa.int32()),
            "score": [n * 0.5 for n in numbers],
            "note": [f"nothing in particular about {n}" for n in numbers],
        }
    )


def _lance_update(path: Path, number: int, rows: int) -> None:
    import lance

    done = lance.dataset(str(path)).update({"score": f"{number}.25"}, where="age = 7")
    assert done["num_rows_updated"] == rows // UPDATED_SHARE


def _our_update(graph: og.Graph, number: int, rows: int) -> None:
    receipt = graph.mutate(f"query q() {{ update Person set {{ score: {number}.25 }} where age = 7 }}")
    assert receipt.tables["node:Person"].updated == rows // UPDATED_SHARE


def _timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


# --- texts --------------------------------------------------------------------------------------------------------------


def _parsing() -> Table:
    text = "\n".join(
        f"query q{n}($name: String, $age: I32?) {{ insert Person {{ name: $name, age: $age }} "
        f'update Person set {{ age: {n}, note: "text {n}" }} where name = $name }}'
        for n in range(1_000)
    )
    seconds = statistics.median(_timed(lambda: parse_queries(text)) for _ in range(ROUNDS))
    return table(
        "Reading queries",
        ["queries", "characters", "ms"],
        [[1_000, len(text), round(1000 * seconds)]],
        ["Bar: 2,000 ms."],
    )
