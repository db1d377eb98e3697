"""What a change of the schema costs: many tables without data, and one large table whose rows are read or get a column.

Bars are printed beside the figures; nothing fails by them. Everything is on a local disk.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments

import omnigraph as og
from bench.results import Table, table
from omnigraph.graph import Graph

TABLES = 200
ROWS = 1_000_000

Row = list[Any]


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    tables, rows = (20, 100_000) if quick else (TABLES, ROWS)
    columns = ["what", "seconds", "bar"]
    found = [
        table(f"{tables} tables, no data written", ["what", "seconds", "requests", "bar"], list(_many(tables))),
        table(f"One table of {rows:,} rows", columns, list(_large(rows))),
    ]
    return found, {"tables": tables, "rows": rows}


@contextlib.contextmanager
def _graph(schema: str) -> Iterator[Graph]:
    with tempfile.TemporaryDirectory() as folder, og.init(Path(folder) / "g", schema) as graph:
        yield graph


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def _many(tables: int) -> Iterator[Row]:
    def text(columns: str, more: str = "") -> str:
        return "".join(f"node T{i} {{ name: String @key {columns} }}\n" for i in range(tables)) + more

    steps = (
        ("add a nullable property to all", text("n: I32? more: String?")),
        ("rename a property of all", text('n: I32? other: String? @rename_from("more")')),
        ("drop a property of all", text("n: I32?")),
        ("add a type", text("n: I32?", "node More { name: String @key }\n")),
    )
    with _graph(text("n: I32?")) as graph:
        records = ({"type": f"T{i}", "data": {"name": f"k{n}", "n": n}} for i in range(tables) for n in range(10))
        graph.load(records, mode="append")
        for name, new in steps:
            seconds, receipt = _timed(partial(graph.schema.apply, new))
            yield [name, round(seconds, 2), receipt.storage.requests, "≤ 1 s, 3 requests a table and one swap"]


def _large(rows: int) -> Iterator[Row]:
    base = "node P { name: String @key n: I64 m: I64? }\n"
    with _graph(base) as graph:
        numbers = pa.array(range(rows), pa.int64())
        graph.load({"P": pa.table({"name": pc.cast(numbers, pa.utf8()), "n": numbers, "m": numbers})}, mode="append")
        uri = graph.snapshot().tables["node:P"].uri
        column = pa.table({"score": pa.array([0.5] * rows, pa.float64())})
        plain, _ = _timed(lambda: write_fragments(column, f"{uri}.plain", mode="create"))
        yield ["write the column with Lance alone", round(plain, 3), ""]
        filled = base.replace("m: I64?", "m: I64? score: F64")
        seconds, _ = _timed(lambda: graph.schema.apply(filled, fill={"P.score": 0.5}))
        yield ["add it with a constant fill", round(seconds, 3), f"≤ {plain / 0.8:.3f}"]

        def scan_and_sort() -> None:
            pc.sort_indices(graph.snapshot().to_arrow("P", ["n"]).column("n"))

        scanned, _ = _timed(scan_and_sort)
        yield ["scan a column and sort it", round(scanned, 3), ""]
        seconds, _ = _timed(lambda: graph.schema.apply(filled.replace("n: I64 ", "n: I64 @unique ")))
        yield ["add @unique to it", round(seconds, 3), f"≤ {2 * scanned:.3f}"]
        wider = filled.replace("n: I64 ", "n: I64 @unique ").replace("score: F64", "score: F64 label: String")
        seconds, _ = _timed(lambda: graph.schema.apply(wider, fill={"P.label": {"sql": "'#' || name"}}))
        yield ["add a column from SQL", round(seconds, 3), ""]
