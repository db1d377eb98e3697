"""Rows a second and memory, against plain Lance in the same run; each case in a child of its own.

The parent makes the inputs and reads what the children print. A child measures one case: alone in its process, so that
its memory is its own.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.memory import peak_of
from bench.results import Table, table

EDGES_PER_NODE = 5
MERGED = 10_000
READS = {"SELECT * FROM Person LIMIT 5": "≤ 10 ms", "SELECT count(*) FROM Person": None}
SCHEMA = """\
node Person { name: String @key age: I32? score: F64? }
edge Knows: Person -> Person { weight: F64? }
edge Follows: Person -> Person { weight: F64? @unique(src, dst) }
"""
FLAT_SCHEMA = "node Person { name: String @key age: I32? score: F64? city: String? active: Bool? }\n"
GIB = 2**30


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    nodes = 50_000 if quick else 1_000_000
    rounds = 1 if quick else 3
    with _folder() as folder:
        make_inputs(folder, nodes)
        append = _child("append", folder, rounds)
        unique = _child("unique", folder)
        memory = _child("memory", folder)
        ndjson = _child("ndjson", folder, rounds)
        merge = _child("merge", folder, 3 if quick else 7)
        export = _child("export", folder)
        asked = _child("reads", folder, rounds)
    rows = nodes * (1 + EDGES_PER_NODE)
    tables = [_append_table(append, unique, rows), _other_table(ndjson, merge, export), _memory_table(memory)]
    tables.append(_read_table(asked))
    return tables, {"nodes": nodes, "edges": nodes * EDGES_PER_NODE, "rounds": rounds, "merge_s": merge["all_s"]}


def _append_table(append: dict[str, Any], unique: dict[str, Any], rows: int) -> Table:
    plain = append["plain"][0]

    def row(what: str, seen: list[float], against: float | None, bar: str | None) -> list[Any]:
        return [what, *seen, rows / seen[0], None if against is None else against / seen[0], bar]

    shown = [
        row("plain lance.write_dataset", append["plain"], None, None),
        row("graph.check: reading and every check, nothing written", append["check"], None, None),
        row("graph.load, append of tables", append["tables"], plain, "≥ 0.70"),
        row("graph.load, append of readers", append["readers"], plain, "≥ 0.40"),
        row("graph.load, edge ids given, @unique(src, dst)", unique["unique"], unique["plain"][0], "none"),
    ]
    return table(
        "Append as Arrow: 1 node for every 5 edges, endpoints in random order",
        ["what", "seconds", "core seconds", "rows/s", "of plain", "bar"],
        shown,
        [
            "Medians of rounds in turns; ids of plain edges are made beforehand. The load writes the same files as the plain one, and "
            "on top of that does what the line of graph.check says: it makes an id for every edge, proves that no id comes twice and "
            "looks two endpoints an edge up in a hash table of ids; the look-ups are the larger half, each a miss of the processor's "
            "caches. Tables in memory are written while they are checked: that takes two free cores, and on one the core seconds "
            "decide. The protocol's own share is some milliseconds."
        ],
    )


def _other_table(ndjson: dict[str, Any], merge: dict[str, Any], export: dict[str, Any]) -> Table:
    return table(
        "Other throughput",
        ["what", "figure", "bar"],
        [
            ["NDJSON, flat records of five properties: records/s", round(ndjson["records_per_s"]), "≥ 800,000"],
            ["the same, per second of one core", round(ndjson["records_per_core_s"]), None],
            [f"merge of {MERGED:,} nodes into {merge['rows']:,}: seconds", merge["load_s"], None],
            ["as plain merge_insert: seconds", merge["plain_s"], None],
            ["the same: core seconds", merge["load_core_s"], None],
            ["as plain merge_insert: core seconds", merge["plain_core_s"], None],
            ["merge against plain merge_insert, by core seconds", merge["load_core_s"] / merge["plain_core_s"], "≤ 2"],
            ["export to NDJSON: rows/s", round(export["rows_per_s"]), None],
        ],
        [
            "NDJSON: half of it is parsing, which Arrow does by columns, on one core; blocks that need more care are read value by value, at "
            "half the speed. Merge: half of it reads "
            "the rows that are to be replaced, so that those which stay as they are need not be written; the rest is finding them, "
            "the data file and the deletions."
        ],
    )


def _memory_table(memory: dict[str, Any]) -> Table:
    return table(
        "Peak memory of the append",
        ["input", "GiB above start-up", "bar"],
        [
            ["tables, held in memory by the caller", memory["tables_gib"], "≤ 1.50"],
            ["readers, which nobody holds", memory["readers_gib"], None],
        ],
        ["Resident set above that of the process before it opened its input; the input's own pages count."],
    )


def _read_table(asked: dict[str, Any]) -> Table:
    return table(
        f"First questions to a table of {asked['rows']:,} rows",
        ["statement", "ms", "bar"],
        [[f"`{text}`", round(asked["ms"][text], 1), bar] for text, bar in READS.items()],
        ["Medians, warm. Streams begin with small batches; a bare count is what the pin says."],
    )


# --- inputs ------------------------------------------------------------------------------------------------------------


def make_inputs(folder: Path, nodes: int) -> None:
    rng = np.random.default_rng(1)
    names = pa.array([f"person-{i:07d}" for i in range(nodes)])
    _keep(
        folder / "nodes.arrow",
        pa.table(
            {
                "name": names,
                "age": pa.array(rng.integers(0, 90, nodes), pa.int32()),
                "score": pa.array(rng.random(nodes)),
            }
        ),
    )
    edges = nodes * EDGES_PER_NODE
    # Every node five times as a source, in random order; no pair twice.
    source = np.tile(np.arange(nodes), EDGES_PER_NODE)
    target = (source * 31 + np.repeat(np.arange(EDGES_PER_NODE), nodes) * (nodes // 7) + 1) % nodes
    order = rng.permutation(edges)
    from_, to = (names.take(pa.array(ends[order], pa.int64())) for ends in (source, target))
    weight = pa.array(rng.random(edges))
    _keep(folder / "edges.arrow", pa.table({"from": from_, "to": to, "weight": weight}))
    flat = min(nodes, 1_000_000)
    with (folder / "flat.jsonl").open("w") as file:
        for i in range(flat):
            data = {
                "name": f"flat-{i:07d}",
                "age": i % 90,
                "score": i * 0.5,
                "city": f"city {i % 500}",
                "active": i % 3 == 0,
            }
            file.write(json.dumps({"type": "Person", "data": data}) + "\n")


def _keep(path: Path, rows: pa.Table) -> None:
    with pa.ipc.new_file(str(path), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=1 << 17)


def _input(folder: Path, name: str) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).read_all()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- the children ------------------------------------------------------------------------------------------------------


def _child(case: str, folder: Path, rounds: int = 1) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.throughput", case, str(folder), str(rounds)], stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


class _Stopwatch:
    """Seconds of the wall and of all cores together, by name; the medians of what was measured."""

    def __init__(self) -> None:
        self.seen: dict[str, list[tuple[float, float]]] = {}

    def run(self, name: str, act: Callable[[], Any]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        self.seen.setdefault(name, []).append((time.perf_counter() - wall, time.process_time() - cpu))

    def medians(self) -> dict[str, list[float]]:
        return {
            name: [statistics.median(wall for wall, _ in seen), statistics.median(cpu for _, cpu in seen)]
            for name, seen in self.seen.items()
        }


def _fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    return path


def _plain(folder: Path, tables: dict[str, pa.Table]) -> Callable[[], None]:
    """The same tables in one call each; ids of edges exist already."""
    import lance

    root = _fresh(folder / "plain")
    root.mkdir()

    def write() -> None:
        for name, rows in tables.items():
            lance.write_dataset(rows, str(root / f"{name}.lance"), enable_stable_row_ids=True)

    return write


def _physical(nodes: pa.Table, edges: pa.Table, ids: Any) -> dict[str, pa.Table]:
    columns: dict[str, Any] = {"id": ids, "src": edges["from"], "dst": edges["to"], "weight": edges["weight"]}
    return {
        "nodes": nodes.add_column(0, "id", nodes.column("name")),
        "edges": pa.table(columns),
    }


def append(folder: Path, rounds: int) -> dict[str, Any]:
    import omnigraph as og
    from omnigraph.core.ids import bulk_ulids

    nodes, edges = _input(folder, "nodes"), _input(folder, "edges")
    tables = _physical(nodes, edges, bulk_ulids(edges.num_rows))
    watch = _Stopwatch()

    def load(name: str, batch: og.Batch) -> None:
        with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
            watch.run(name, lambda: graph.load(batch, mode="append"))

    def held() -> og.Batch:
        return og.Batch(nodes={"Person": nodes}, edges={"Knows": edges})

    with og.init(folder / "empty", SCHEMA) as empty:
        empty.load([{"type": "Person", "data": {"name": "first"}}], mode="append")  # imports are not what is measured
        for _ in range(rounds):
            watch.run("plain", _plain(folder, tables))
            load("tables", held())
            watch.run("plain", _plain(folder, tables))
            load("readers", og.Batch(nodes={"Person": nodes.to_reader()}, edges={"Knows": edges.to_reader()}))
            watch.run("check", lambda: empty.check(held(), mode="append"))
    return watch.medians()


def unique(folder: Path, rounds: int) -> dict[str, Any]:
    import omnigraph as og

    nodes, edges = _input(folder, "nodes"), _input(folder, "edges")
    ids = pa.array([f"edge-{i:09d}" for i in range(edges.num_rows)])
    given = edges.add_column(0, "id", ids)
    tables = _physical(nodes, edges, ids)
    watch = _Stopwatch()
    for _ in range(rounds):
        watch.run("plain", _plain(folder, tables))
        with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
            batch = og.Batch(nodes={"Person": nodes}, edges={"Follows": given})
            watch.run("unique", lambda: graph.load(batch, mode="append"))  # noqa: B023
    return watch.medians()


def memory(folder: Path, _rounds: int) -> dict[str, Any]:
    """Both inputs, each in a child of this child: memory that is given back late would blur the second."""
    return {**_child("memory_tables", folder), **_child("memory_readers", folder)}


def memory_tables(folder: Path, _rounds: int) -> dict[str, Any]:
    return {"tables_gib": _peak(folder, lambda rows: rows)}


def memory_readers(folder: Path, _rounds: int) -> dict[str, Any]:
    return {"readers_gib": _peak(folder, lambda rows: rows.to_reader())}


def _peak(folder: Path, given: Callable[[pa.Table], Any]) -> float:
    import omnigraph as og

    with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
        graph.load(
            [{"type": "Person", "data": {"name": "first"}}], mode="append"
        )  # imports and caches of a first write

        def act() -> None:
            nodes, edges = _input(folder, "nodes"), _input(folder, "edges")
            graph.load(og.Batch(nodes={"Person": given(nodes)}, edges={"Knows": given(edges)}), mode="append")

        return peak_of(act) / GIB


def ndjson(folder: Path, rounds: int) -> dict[str, Any]:
    import omnigraph as og

    watch, records = _Stopwatch(), 0
    for _ in range(rounds):
        with og.init(_fresh(folder / "graph"), FLAT_SCHEMA) as graph:
            watch.run("load", lambda: graph.load(folder / "flat.jsonl", mode="append"))
            records = graph.snapshot().count("Person")
    wall, cores = watch.medians()["load"]
    return {"records_per_s": records / wall, "records_per_core_s": records / cores}


def merge(folder: Path, rounds: int) -> dict[str, Any]:
    import lance

    import omnigraph as og

    nodes = _input(folder, "nodes")
    rows = nodes.num_rows
    plain_uri = str(_fresh(folder / "plain"))
    with_ids = nodes.add_column(0, "id", nodes.column("name"))
    lance.write_dataset(with_ids, plain_uri, enable_stable_row_ids=True)
    rng = np.random.default_rng(2)
    watch = _Stopwatch()
    with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
        graph.load(og.Batch(nodes={"Person": nodes}), mode="append")
        for k in range(rounds):
            # Half of them new, the others with new values, scattered over the table.
            old = rng.choice(rows, MERGED // 2, replace=False)
            names = [f"person-{i:07d}" for i in old] + [f"new-{k}-{i:06d}" for i in range(MERGED - len(old))]
            given = pa.table(
                {
                    "name": names,
                    "age": pa.array(rng.integers(0, 90, MERGED), pa.int32()),
                    "score": pa.array(rng.random(MERGED)),
                }
            )
            physical = given.add_column(0, "id", given.column("name"))

            def plain(physical: pa.Table = physical) -> None:
                dataset = lance.dataset(plain_uri)
                dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(physical)

            watch.run("plain", plain)
            watch.run("load", lambda: graph.load(og.Batch(nodes={"Person": given}), mode="merge"))  # noqa: B023
    found = watch.medians()
    (plain_s, plain_core_s), (load_s, load_core_s) = found["plain"], found["load"]
    return {
        "rows": rows,
        "plain_s": plain_s,
        "load_s": load_s,
        "plain_core_s": plain_core_s,
        "load_core_s": load_core_s,
        "all_s": watch.seen,
    }


def export(folder: Path, _rounds: int) -> dict[str, Any]:
    import omnigraph as og

    nodes, edges = _input(folder, "nodes"), _input(folder, "edges").slice(0, 1_000_000)
    with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
        graph.load(og.Batch(nodes={"Person": nodes}, edges={"Knows": edges}), mode="append")
        snapshot = graph.snapshot()
        seconds = _timed(lambda: snapshot.export(folder / "out.jsonl"))
    return {"rows_per_s": (nodes.num_rows + edges.num_rows) / seconds}


def reads(folder: Path, rounds: int) -> dict[str, Any]:
    """What people ask first of a large table. Warm: the second question of a kind on."""
    import omnigraph as og

    watch = _Stopwatch()
    with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
        graph.load(og.Batch(nodes={"Person": _input(folder, "nodes")}), mode="append")
        for text in READS:
            graph.sql(text).fetchall()
        for _ in range(max(5, rounds)):
            for text in READS:
                watch.run(text, lambda: graph.sql(text).fetchall())  # noqa: B023 - called before the next turn of the loop
        rows = graph.snapshot().count("Person")
    return {"rows": rows, "ms": {text: 1000 * wall for text, (wall, _) in watch.medians().items()}}


CASES = {
    "append": append,
    "unique": unique,
    "memory": memory,
    "memory_tables": memory_tables,
    "memory_readers": memory_readers,
    "ndjson": ndjson,
    "merge": merge,
    "export": export,
    "reads": reads,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))))
