"""What a change of the schema costs: many tables without data, and one large table whose rows are read or get a column.

Bars are printed beside the figures; nothing fails by them. Everything is on a local disk.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import write_fragments

import omnigraph as og
from bench.results import Table, table
from omnigraph.graph import Graph

TABLES = 200
ROWS = 1_000_000
CHANGES = 100
ROUNDS = 15
COMMITS = 160  # so that the commit that made the types leaves the tail on the way
OPENS = 7

Row = list[Any]


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    tables, rows = (20, 100_000) if quick else (TABLES, ROWS)
    columns = ["what", "ms", "bar"]
    found = [
        table(f"{tables} tables, no data written", ["what", "seconds", "requests", "bar"], list(_many(tables))),
        table(f"One table of {rows:,} rows", columns, list(_large(rows))),
        table(
            f"Reads of {rows:,} rows after {CHANGES} changes in a row and an optimize",
            ["what", "ms, freshly made", "ms, changed", "speed of a fresh one", "bar"],
            list(_after_many(rows)),
        ),
    ]
    few, many = (5, 100) if quick else (5, 2_000)
    found.append(_by_types(few, many, 3 if quick else COMMITS))
    return found, {"tables": tables, "rows": rows, "types": many}


@contextlib.contextmanager
def _graph(schema: str) -> Iterator[Graph]:
    with tempfile.TemporaryDirectory() as folder, og.init(Path(folder) / "g", schema) as graph:
        yield graph


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _rows(rows: int) -> pa.Table:
    """Numbers in no order: what is in order already is neither packed nor sorted like data."""
    name = pc.cast(pa.array(np.arange(rows)), pa.utf8())
    return pa.table({"name": name, "n": np.random.default_rng(1).permutation(rows)})


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


def _by_types(few: int, many: int, commits: int) -> Table:
    """The same commits into graphs of few and of many types, in turns."""
    with contextlib.ExitStack() as stack:
        text = {types: "".join(f"node T{i} {{ k: String @key }}\n" for i in range(types)) for types in (few, many)}
        graphs = {types: stack.enter_context(_graph(schema)) for types, schema in text.items()}
        written: dict[int, list[int]] = {types: [] for types in graphs}
        cores: dict[int, list[float]] = {types: [] for types in graphs}
        for number in range(commits):
            for types, graph in graphs.items():
                began = time.process_time()
                receipt = graph.load([{"type": "T0", "data": {"k": f"k{number}"}}], mode="append")
                cores[types].append(time.process_time() - began)
                written[types].append(receipt.storage.bytes_written)
        opens = {types: _cold_open(graph.uri) for types, graph in graphs.items()}
    rows = []
    for what, bar, first, end in (("2nd", "", 1, 2), ("last", "≤ 1.5", commits - 1, commits)):
        small, large = (sum(written[types][first:end]) for types in (few, many))
        rows.append([f"KB written by the {what} commit", small / 1000, large / 1000, large / small, bar])
    small_s, large_s = (statistics.median(cores[types]) for types in (few, many))
    rows.append(["processor ms a commit, median", _ms(small_s), _ms(large_s), large_s / small_s, ""])
    for at, what in enumerate(("open", "open and take a snapshot")):
        one, other = opens[few][at], opens[many][at]
        rows.append(
            [
                f"{what} in a process that has not seen the graph, ms",
                one,
                other,
                other / one,
                "≤ 40 ms" if not at else "",
            ]
        )
    return table(
        f"{few} types and {many:,}, one row a commit",
        ["what", f"{few} types", f"{many:,} types", "ratio", "bar"],
        rows,
        [
            "The commit that makes the types names all of them, and is in every file of the newest state until 64 commits after it. It is "
            f"compressed there. Medians of {OPENS} opens, processor time."
        ],
    )


def _cold_open(uri: str) -> tuple[float, float]:
    """Processor ms of an open, and of an open and a snapshot, each in a process of its own that has imported everything."""
    script = (
        "import sys, tempfile, time, omnigraph as og\n"
        "with tempfile.TemporaryDirectory() as warm, og.init(warm + '/g', 'node A { k: String @key }') as graph: graph.snapshot()\n"
        "began = time.process_time()\n"
        "with og.open(sys.argv[1]) as graph:\n"
        "    opened = time.process_time() - began\n"
        "    graph.snapshot()\n"
        "    print(opened, time.process_time() - began)\n"
    )
    seen = []
    for _ in range(OPENS):
        answer = subprocess.run([sys.executable, "-c", script, uri], capture_output=True, text=True, check=True).stdout
        seen.append([float(one) for one in answer.split()])
    opened, taken = (_ms(statistics.median(column)) for column in zip(*seen, strict=True))
    return opened, taken


def _large(rows: int) -> Iterator[Row]:
    base = "node P { name: String @key n: I64 m: I64? }\n"
    with _graph(base) as graph:
        given = _rows(rows)
        graph.load({"P": given.append_column("m", given.column("n"))}, mode="append")
        uri = graph.snapshot().tables["node:P"].uri
        column = pa.table({"score": pa.array([0.5] * rows, pa.float64())})
        plain, _ = _timed(lambda: write_fragments(column, f"{uri}.plain", mode="create"))
        yield ["write the column with Lance alone, and name it nowhere", _ms(plain), ""]
        copy = lance.write_dataset(graph.snapshot().to_arrow("P"), f"{uri}.copy")
        added, _ = _timed(lambda: copy.add_columns({"score": "0.5"}))
        yield ["add it to a copy with Lance alone", _ms(added), ""]
        nothing, _ = _timed(lambda: graph.schema.apply(base.replace("m: I64?", "m: I64? more: F64?")))
        yield ["add a nullable column, no data written", _ms(nothing), ""]
        base = base.replace("m: I64?", "m: I64? more: F64?")
        filled = base.replace("m: I64?", "m: I64? score: F64")
        seconds, _ = _timed(lambda: graph.schema.apply(filled, fill={"P.score": 0.5}))
        yield ["add it with a constant fill", _ms(seconds), f"≤ {_ms(added / 0.8)}"]

        def scan_and_sort() -> None:
            pc.sort_indices(graph.snapshot().to_arrow("P", ["n"]).column("n"))

        scanned, _ = _timed(scan_and_sort)
        yield ["scan a column and sort it", _ms(scanned), ""]
        seconds, _ = _timed(lambda: graph.schema.apply(filled.replace("n: I64 ", "n: I64 @unique ")))
        yield ["add @unique to it", _ms(seconds), f"≤ {_ms(2 * scanned)}"]
        wider = filled.replace("n: I64 ", "n: I64 @unique ").replace("score: F64", "score: F64 label: String")
        seconds, _ = _timed(lambda: graph.schema.apply(wider, fill={"P.label": {"sql": "'#' || name"}}))
        yield ["add a column from SQL", _ms(seconds), ""]


def _revisions() -> Iterator[tuple[str, dict[str, object] | None]]:
    """The schemas that a table goes through: columns come with and without values, are renamed, widened and dropped."""
    columns: dict[str, str] = {}
    for number in range(CHANGES):
        kind, fill, renamed = number % 5, None, ""
        if kind == 0:
            columns[f"c{number}"] = "I32?"
        elif kind == 1:
            columns[f"c{number}"], fill = "F64", {f"P.c{number}": 0.5}
        elif kind == 2:
            renamed = f"c{number - 2}"
            columns = {f"c{number}" if name == renamed else name: type_ for name, type_ in columns.items()}
        elif kind == 3:
            columns[f"c{number - 1}"] = "I64?"
        elif len(columns) > 4:
            columns.pop(next(iter(columns)))
        else:
            columns[f"c{number}"] = "String?"
        marks = {f"c{number}": f' @rename_from("{renamed}")'} if renamed else {}
        listed = " ".join(f"{name}: {type_}{marks.get(name, '')}" for name, type_ in columns.items())
        yield f"node P {{ name: String @key n: I64 {listed} }}\n", fill


def _after_many(rows: int) -> Iterator[Row]:
    """A graph that was changed again and again, beside one that is made with the last schema and the same rows."""
    with _graph("node P { name: String @key n: I64 }\n") as changed:
        changed.load({"P": _rows(rows)}, mode="append")
        for text, fill in _revisions():
            changed.schema.apply(text, fill=fill)
        changed.optimize()
        last = changed.schema.show().catalog.source
        with _graph(last) as fresh:
            now = changed.snapshot().to_arrow("P")
            fresh.load({"P": now.drop_columns(["id"])}, mode="append")
            fresh.optimize()
            reads: dict[str, Callable[[Graph], Any]] = {
                "all columns": lambda graph: graph.snapshot().to_arrow("P"),
                "one column": lambda graph: graph.snapshot().to_arrow("P", ["n"]),
                "one row by its key": lambda graph: graph.snapshot().get("P", str(rows // 2)),
            }
            for name, read in reads.items():
                sides: tuple[list[float], list[float]] = ([], [])
                for _ in range(ROUNDS):
                    for side, graph in zip(sides, (fresh, changed), strict=True):
                        side.append(_timed(partial(read, graph))[0])
                one, other = (statistics.median(side) for side in sides)
                yield [name, _ms(one), _ms(other), round(one / other, 2), "≥ 0.9"]
