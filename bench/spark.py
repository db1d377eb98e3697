"""Batches through Spark, against Spark writing the same frames as Parquet with no checks; in one session of one child.

Sources are files on the local disk; tasks read them with pyarrow while they stage. Reading is compared with Parquet files of
the very rows, which Spark wrote. A second child loads four times the edges and tells the peak memory of its Python process,
which does not hold Java's. Some eight minutes on two cores with nothing else to do.
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
READS = 9
GIB = 2**30


CONF = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    nodes = 50_000 if quick else 1_000_000
    rounds = 1 if quick else 3
    with _folder() as folder:
        _say(f"inputs: {nodes:,} nodes, {nodes * EDGES_PER_NODE:,} edges")
        make_inputs(folder, nodes)
        make_files(folder)
        found = _child("speed", folder, rounds)
        memory = _child("memory", folder, 1 if quick else 4)
    facts = {"nodes": nodes, "edges": nodes * EDGES_PER_NODE, "rounds": rounds, "spark": found["spark"]}
    return [
        _load_table(found, nodes),
        _read_table(found),
        _commit_table(found["commits"]),
        _memory_table(memory),
    ], facts


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
            "Medians of rounds in turns, one local session on all cores with Java's own settings, after a round with a quarter of "
            "the files. Core seconds are those of Java and Python together: where the machine had other work to do, they compare "
            "and seconds do not."
        ],
    )


def _read_table(found: dict[str, Any]) -> Table:
    shown = []
    for what, name, bar in (
        ("few", "a thousandth of the nodes by an indexed filter", "> 1"),
        ("all", "all edges, every column", "≥ 0.60"),
        ("sum", "all edges, the sum of one column", "≥ 0.60"),
    ):
        ours, plain = found[f"read.{what}"], found[f"parquet.{what}"]
        shown.append([name, *ours, *plain, plain[0] / ours[0], plain[1] / ours[1], bar])
    return table(
        "Reading with Spark, snapshot.to_spark against Parquet files of the same rows",
        [
            "what", "seconds", "core seconds", "from Parquet: seconds", "core seconds", "ratio", "by core seconds", "bar",
        ],
        shown,
        [
            "Medians of nine. Rows come from Python processes, over a socket, and Spark makes rows of them before it goes on; columns of "
            "Parquet are added up as they lie in Java's memory. So what a query does with few bytes a row shows the way, and what it "
            "does with whole rows does not."
        ],
    )  # fmt: skip


def _commit_table(commits: list[list[Any]]) -> Table:
    return table(
        "The commit of a staged batch of one fragment",
        ["nodes", "requests", "bytes written"],
        commits,
        ["Judging a batch reads its keys; what is asked of the store to commit it depends on fragments alone."],
    )


def _memory_table(memory: dict[str, Any]) -> Table:
    return table(
        "Peak memory of the driver's Python process",
        ["edges", "GiB", "seconds", "bar"],
        [[memory["edges"], memory["gib"], memory["seconds"], "≤ 1.50"]],
        ["Append of Parquet files, all checks on, the nodes in the same batch; Java has memory of its own."],
    )


def _say(text: str) -> None:
    print(f"spark: {text}", file=sys.stderr, flush=True)


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

    def add(self, name: str, *parts: str) -> None:
        """The last of some, taken together."""
        last = [self._seen[part][-1] for part in parts]
        self._seen.setdefault(name, []).append((sum(one[0] for one in last), sum(one[1] for one in last)))

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


def _session() -> Any:
    from omnigraph_pipelines.spark import spark_session

    spark = spark_session("local[*]", conf=CONF)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def speed(folder: Path, rounds: int) -> dict[str, Any]:
    spark = _session()
    watch = _Medians()
    _say("a round to warm up")
    for kind in (*KINDS, "frame"):
        _one(spark, folder, kind, _Medians(), first=True)
    for number in range(rounds):
        for kind in (*KINDS, "frame"):
            _say(f"round {number + 1} of {rounds}, {kind}")
            _one(spark, folder, kind, watch)
    _say("reading")
    _reads(spark, folder, watch)
    found = {**watch.all(), "commits": _commits(spark, folder), "spark": spark.version}
    spark.stop()
    return found


def _one(spark: Any, folder: Path, kind: str, watch: _Medians, *, first: bool = False) -> None:
    """One kind of files: written as Parquet, then staged and published."""
    import omnigraph as og
    from omnigraph_pipelines.spark import publish, stage

    at = folder / ("parquet" if kind == "frame" else kind)
    suffix = "ndjson" if kind == "ndjson" else at.name
    places = {name: str(at / name / f"0.{suffix}" if first else at / name) for name in DDL}
    reader = _reader(spark, kind)

    def plain() -> None:
        for name, ddl in DDL.items():
            reader(places[name], ddl).write.mode("overwrite").parquet(str(folder / "plain" / name))

    with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
        given: dict[str, Any] = {"Person": places["nodes"], "Knows": places["edges"]}
        if kind == "frame":
            given = {name: reader(path, "") for name, path in given.items()}
        watch.run(f"{kind}.plain", plain)
        if first:  # edges have ends among all nodes
            given.pop("Knows")
        batch = watch.run(f"{kind}.stage", lambda: stage(spark, graph, given, mode="append"))
        watch.run(f"{kind}.publish", lambda: publish(graph, batch, spark=spark))
        watch.add(f"{kind}.load", f"{kind}.stage", f"{kind}.publish")


def _reads(spark: Any, folder: Path, watch: _Medians) -> None:
    import pyarrow.compute as pc

    import omnigraph as og

    def written(name: str) -> str:
        return str(folder / "same" / name)

    def to_nothing(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    with og.open(folder / "graph") as graph:
        graph.ensure_indices()
        snapshot = graph.snapshot()
        for name in ("Person", "Knows"):
            snapshot.to_spark(spark, name).write.parquet(written(name))
        people = snapshot.count("Person")
        low, high = f"person-{people // 2:07d}", f"person-{people // 2 + people // 1000:07d}"
        wanted = (pc.field("id") >= low) & (pc.field("id") < high)
        acts: dict[str, Callable[[], Any]] = {
            "read.few": lambda: snapshot.to_spark(spark, "Person", ["id", "age"], wanted).collect(),
            "parquet.few": lambda: (
                spark.read.parquet(written("Person"))
                .where(f"id >= '{low}' and id < '{high}'")
                .select("id", "age")
                .collect()
            ),
            "read.all": lambda: to_nothing(snapshot.to_spark(spark, "Knows")),
            "parquet.all": lambda: to_nothing(spark.read.parquet(written("Knows"))),
            "read.sum": lambda: snapshot.to_spark(spark, "Knows", ["weight"]).selectExpr("sum(weight)").collect(),
            "parquet.sum": lambda: spark.read.parquet(written("Knows")).selectExpr("sum(weight)").collect(),
        }
        for number in range(READS + 2):
            for name, act in acts.items():
                if number < 2:  # the first times are Java's to compile
                    act()
                else:
                    watch.run(name, act)


def _commits(spark: Any, folder: Path) -> list[list[Any]]:
    """What committing costs the store, for few and for many rows in one fragment."""
    import omnigraph as og
    from omnigraph_pipelines.spark import load

    found = []
    for rows in (1_000, 1_000_000):
        frame = spark.range(0, rows, 1, 1).selectExpr("concat('p', id) as name")
        with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
            cost = load(spark, graph, {"Person": frame}, mode="append").storage
            found.append([rows, cost.requests, cost.bytes_written])
    return found


def memory(folder: Path, times: int) -> dict[str, Any]:
    """The nodes once, the edges ``times`` times, in one batch."""
    import omnigraph as og
    from omnigraph_pipelines.spark import load

    _say(f"memory: the edges {times} times")
    spark = _session()
    started = time.perf_counter()
    edges = [str(path) for path in sorted((folder / "parquet" / "edges").iterdir())] * times
    with og.init(_fresh(folder / "graph"), SCHEMA) as graph:
        receipt = load(spark, graph, {"Person": str(folder / "parquet" / "nodes"), "Knows": edges}, mode="append")
        count = receipt.tables["edge:Knows"].inserted
    took = time.perf_counter() - started
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    spark.stop()
    return {"edges": count, "gib": int(peak.split()[1]) * 1024 / GIB, "seconds": took}


if __name__ == "__main__":
    print(json.dumps({"speed": speed, "memory": memory}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))))
