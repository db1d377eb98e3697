"""Batches through Spark, against Spark writing the same frames as Parquet with no checks; in one session of one child.

Sources are files on the local disk; tasks read them with pyarrow while they stage. A second child loads four times the
edges and tells the peak memory of its Python process, which does not hold Java's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from bench.results import Table, table
from bench.throughput import EDGES_PER_NODE, _folder, _fresh, _input, make_inputs

SCHEMA = """\
node Person { name: String @key age: I32? score: F64? }
edge Knows: Person -> Person { weight: F64? }
"""
DDL = {"nodes": "name string, age int, score double", "edges": "`from` string, `to` string, weight double"}
KINDS = ("ndjson", "csv", "parquet")
BARS = {"ndjson": (0.9, 0.6), "csv": (0.9, 0.6), "parquet": (0.6, 0.3)}
FILES = 4
GIB = 2**30


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    nodes = 50_000 if quick else 1_000_000
    rounds = 1 if quick else 3
    with _folder() as folder:
        make_inputs(folder, nodes)
        make_files(folder)
        found = _child("speed", folder, rounds)
        memory = _child("memory", folder, 1 if quick else 4)
    facts = {"nodes": nodes, "edges": nodes * EDGES_PER_NODE, "rounds": rounds, "requests": found["requests"]}
    return [_load_table(found, nodes), _read_table(found), _memory_table(memory)], facts


def _load_table(found: dict[str, Any], nodes: int) -> Table:
    rows = nodes * (1 + EDGES_PER_NODE)
    shown: list[list[Any]] = []
    for kind in (*KINDS, "frame"):
        plain, stage, load = (found[f"{kind}.{what}"] for what in ("plain", "stage", "load"))
        bars = BARS.get(kind)
        name = {"frame": "any DataFrame (here from Parquet)"}.get(kind, kind)
        shown.append([f"{name}: Spark to Parquet, no checks", *plain, rows / plain[0], None, None, None])
        for what, took, at in (("staged", stage, 0), ("end to end", load, 1)):
            bar = f"≥ {bars[at]}" if bars else "none"
            shown.append([f"{name}: {what}", *took, rows / took[0], plain[0] / took[0], plain[1] / took[1], bar])
    return table(
        "Append through Spark: 1 node for every 5 edges, all checks on",
        ["what", "seconds", "core seconds", "rows/s", "of plain", "of plain, by core seconds", "bar"],
        shown,
        [
            "Medians of rounds in turns, one local session on all cores, both types in one job. Core seconds are those of Java and "
            "Python together: where the machine had other work to do, they compare and seconds do not."
        ],
    )


def _read_table(found: dict[str, Any]) -> Table:
    shown = []
    for what, name, bar in (
        ("few", "a thousandth of the nodes by an indexed filter", "> 1"),
        ("full", "sum over all edges", "≥ 0.60"),
    ):
        ours, plain = found[f"read.{what}"], found[f"parquet.{what}"]
        shown.append([name, *ours, *plain, plain[0] / ours[0], plain[1] / ours[1], bar])
    return table(
        "Reading with Spark",
        [
            "what", "seconds", "core seconds", "from Parquet: seconds", "core seconds", "ratio", "by core seconds", "bar",
        ],
        shown,
        ["A query over a graph starts with some Python processes that plan it; Parquet is planned inside Java."],
    )  # fmt: skip


def _memory_table(memory: dict[str, Any]) -> Table:
    return table(
        "Peak memory of the driver's Python process",
        ["edges", "GiB", "bar"],
        [[memory["edges"], memory["gib"], "≤ 1.50"]],
    )


def make_files(folder: Path) -> None:
    """The inputs as files of every kind, a few of each."""
    for name in ("nodes", "edges"):
        rows = _input(folder, name)
        size = -(-rows.num_rows // FILES)
        for number in range(FILES):
            part = rows.slice(number * size, size).combine_chunks()
            for kind in KINDS:
                (folder / kind / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(part, folder / "parquet" / name / f"{number}.parquet", row_group_size=1 << 18)
            pcsv.write_csv(part, str(folder / "csv" / name / f"{number}.csv"))
            _write_ndjson(part, folder / "ndjson" / name / f"{number}.ndjson")


def _write_ndjson(rows: pa.Table, path: Path) -> None:
    with path.open("w") as file:
        for batch in rows.to_batches(max_chunksize=1 << 16):
            file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())


# --- the children -------------------------------------------------------------------------------------------------------


def _child(case: str, folder: Path, rounds: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.spark", case, str(folder), str(rounds)], stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Medians:
    """Seconds of the wall, and of all cores together for this process and everything below it."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, float]]] = {}

    def run(self, name: str, act: Callable[[], Any]) -> Any:
        started, cores = time.perf_counter(), _core_seconds()
        answer = act()
        self._seen.setdefault(name, []).append((time.perf_counter() - started, _core_seconds() - cores))
        return answer

    def all(self) -> dict[str, tuple[float, float]]:
        return {
            name: (statistics.median(wall for wall, _ in seen), statistics.median(cores for _, cores in seen))
            for name, seen in self._seen.items()
        }


def _core_seconds() -> float:
    """Java and its Python workers live as long as the session, so that what they used is all there to be seen."""
    ticks: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        below.setdefault(int(fields[1]), []).append(int(entry.name))
        ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    todo, found = [os.getpid()], 0
    while todo:
        one = todo.pop()
        found += ticks.get(one, 0)
        todo += below.get(one, [])
    return found / os.sysconf("SC_CLK_TCK")


def _reader(spark: Any, kind: str) -> Any:
    return {
        "ndjson": lambda path, ddl: spark.read.schema(ddl).json(path),
        "csv": lambda path, ddl: spark.read.schema(ddl).option("header", True).csv(path),
        "parquet": lambda path, _: spark.read.parquet(path),
        "frame": lambda path, _: spark.read.parquet(path),
    }[kind]


def speed(folder: Path, rounds: int) -> dict[str, Any]:
    import omnigraph as og
    from omnigraph_pipelines.spark import load, publish, read, spark_session, stage

    spark = spark_session("local[*]", small=True, conf={"spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("OFF")
    watch = _Medians()
    spark.range(100_000).mapInArrow(
        lambda batches: batches, "id long"
    ).count()  # starting workers is not what is measured
    requests: dict[str, int] = {}
    for _ in range(rounds):
        for kind in (*KINDS, "frame"):
            at = folder / ("parquet" if kind == "frame" else kind)
            paths = {"Person": str(at / "nodes"), "Knows": str(at / "edges")}
            reader = _reader(spark, kind)

            def plain(reader: Any = reader, at: Path = at) -> None:
                for name, ddl in DDL.items():
                    frame = reader(str(at / name), ddl)
                    frame.write.mode("overwrite").parquet(str(folder / "plain" / name))

            def given(kind: str = kind, reader: Any = reader, paths: dict[str, str] = paths) -> dict[str, Any]:
                if kind != "frame":
                    return dict(paths)
                return {name: reader(path, "") for name, path in paths.items()}

            watch.run(f"{kind}.plain", plain)
            with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
                batch = watch.run(
                    f"{kind}.stage", lambda graph=graph, given=given: stage(spark, graph, given(), mode="append")
                )
                publish(graph, batch, spark=spark)
            with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
                receipt = watch.run(
                    f"{kind}.load", lambda graph=graph, given=given: load(spark, graph, given(), mode="append")
                )
                requests[kind] = receipt.storage.requests
    with og.open(folder / "graph") as graph:
        graph.ensure_indices()
        people = graph.snapshot().count("Person")
        low, high = f"person-{people // 2:07d}", f"person-{people // 2 + people // 1000:07d}"
        for _ in range(max(3, rounds)):
            nodes = read(spark, graph.snapshot(), "Person", ["id", "age"], [("id", ">=", low), ("id", "<", high)])
            watch.run("read.few", nodes.collect)
            edges = read(spark, graph.snapshot(), "Knows", ["weight"])
            watch.run("read.full", edges.selectExpr("sum(weight)").collect)
            plain_nodes = spark.read.parquet(str(folder / "plain" / "nodes"))
            watch.run("parquet.few", plain_nodes.where(f"name >= '{low}' and name < '{high}'").collect)
            plain_edges = spark.read.parquet(str(folder / "plain" / "edges"))
            watch.run("parquet.full", plain_edges.selectExpr("sum(weight)").collect)
    spark.stop()
    return {**watch.all(), "requests": requests}


def memory(folder: Path, times: int) -> dict[str, Any]:
    """The nodes once, the edges ``times`` times, in one batch."""
    import omnigraph as og
    from omnigraph_pipelines.spark import load, spark_session

    spark = spark_session("local[*]", small=True, conf={"spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("OFF")
    edges = [str(path) for path in sorted((folder / "parquet" / "edges").iterdir())] * times
    with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
        receipt = load(spark, graph, {"Person": str(folder / "parquet" / "nodes"), "Knows": edges}, mode="append")
        count = receipt.tables["edge:Knows"].inserted
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    spark.stop()
    return {"edges": count, "gib": int(peak.split()[1]) * 1024 / GIB}


if __name__ == "__main__":
    print(json.dumps({"speed": speed, "memory": memory}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))))
