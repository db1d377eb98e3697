"""The walks: what one load, one mutation, one batch, one optimize, one recovery and one read enter.

Each walk does the same call several times on a graph of its own and counts the last times, when everything is imported and
warm. The smallest count is kept: a background thread that woke up meanwhile only adds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

import omnigraph as og
from bench.house.source import PACKAGES, ROOT
from bench.house.trace import Tracer

# Where rows are judged by the rules of the schema: one call is one judgement of one whole input.
EVALUATORS: Final = frozenset(
    {"omnigraph.write.rules.validate:validate", "omnigraph.distributed.key_checks:check_keys"}
)

WARM, COUNTED = 2, 3
SCHEMA: Final = """\
node Person { name: String @key age: I32? }
node Org { name: String @key }
edge Knows: Person -> Person { weight: F64? }
edge Works: Person -> Org { since: I32? }
"""
UPDATE: Final = "query birthday($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
KILLED: Final = "publish.before_swap=kill"

Walk = Callable[[Tracer, Path], dict[str, Any]]


def layers() -> list[tuple[str, ...]]:
    """Return the layers of the engine, the uppermost first, as the import rules name them; siblings share a place."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    ordered = next(rule["layers"] for rule in rules if rule["id"] == "layers")
    return [tuple(name.strip("() ") for name in re.split(r"[|:]", line)) for line in ordered]


def run(only: frozenset[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the figures of each walk, or why it was not run."""
    found: dict[str, dict[str, Any]] = {}
    for name, walk in WALKS.items():
        if only is not None and name not in only:
            continue
        missing = needs_spark() if name in NEED_SPARK else None
        if missing is not None:
            found[name] = {"not_run": missing}
            continue
        tracer = Tracer(PACKAGES, EVALUATORS, layers())
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-house-"))
        try:
            with tracer.installed():
                found[name] = walk(tracer, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return found


def _least(
    tracer: Tracer, act: Callable[[int], object], prepare: Callable[[int], object] | None = None
) -> dict[str, Any]:
    """Do ``act`` with a number of its own each time, after ``prepare``, which is not counted."""
    seen: list[dict[str, Any]] = []
    for number in range(WARM + COUNTED):
        if prepare is not None:
            prepare(number)
        if number < WARM:
            act(number)
            continue
        with tracer.counting():
            act(number)
        seen.append(tracer.found())
    return min(seen, key=lambda one: (one["files"], one["calls"]))


# --- the engine alone --------------------------------------------------------------------------------------------------


def rows(number: int) -> list[dict[str, Any]]:
    """Return records of all four types: some are new, some change, some are there already."""
    return [
        {"type": "Person", "data": {"name": "ada", "age": number}},
        {"type": "Person", "data": {"name": f"person-{number}", "age": 30}},
        {"type": "Org", "data": {"name": f"org-{number}"}},
        {"edge": "Knows", "from": "ada", "to": f"person-{number}", "data": {"weight": 0.5}},
        {"edge": "Works", "from": f"person-{number}", "to": f"org-{number}", "data": {"since": 2000}},
    ]


def _file(folder: Path, number: int) -> Path:
    path = folder / f"{number}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(number)), encoding="utf-8")
    return path


@contextmanager
def graph_of(folder: Path) -> Iterator[og.Graph]:
    with og.init(folder / "graph", SCHEMA) as graph:
        graph.load(_file(folder, 1_000), mode="append")
        yield graph


def load(tracer: Tracer, folder: Path) -> dict[str, Any]:
    with graph_of(folder) as graph:
        return _least(tracer, lambda number: graph.load(_file(folder, number), mode="merge"))


def mutate(tracer: Tracer, folder: Path) -> dict[str, Any]:
    with graph_of(folder) as graph:
        return _least(tracer, lambda number: graph.mutate(UPDATE, params={"name": "ada", "age": 40 + number}))


def optimize(tracer: Tracer, folder: Path) -> dict[str, Any]:
    def grow(number: int) -> None:
        for more in range(8):
            graph.load(_file(folder, 100 * (number + 1) + more), mode="merge")

    with graph_of(folder) as graph:
        return _least(tracer, lambda _: graph.optimize(), grow)


def recover(tracer: Tracer, folder: Path) -> dict[str, Any]:
    """Recover a writer that was killed when all its tables had landed and nothing was published."""

    def die(number: int) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "bench.house.dying", graph.uri, str(_file(folder, number))],
            env={**os.environ, "OMNIGRAPH_FAILPOINTS": KILLED},
        )
        if done.returncode >= 0:
            raise RuntimeError(f"the writer that was to be killed ended with {done.returncode}")

    def act(_: int) -> None:
        report = graph.recover(grace_s=0)
        if len(report.recovered) != 1:
            raise RuntimeError(f"{len(report.recovered)} writes were recovered, not 1")

    with graph_of(folder) as graph:
        return _least(tracer, act, die)


def read(tracer: Tracer, folder: Path) -> dict[str, Any]:
    with graph_of(folder) as graph:
        return _least(tracer, lambda _: graph.snapshot().to_arrow("Person", filter=pc.field("age") > 30))


# --- with Spark ----------------------------------------------------------------------------------------------------------


def needs_spark() -> str | None:
    """Return what is missing for the walks with Spark, or None."""
    try:
        import pyspark  # noqa: F401

        from omnigraph_pipelines.spark.java import find_java
    except ImportError as error:
        return f"needs {error.name}"
    try:
        find_java()
    except og.errors.OmnigraphError:
        return "needs java"
    return None


def batch(tracer: Tracer, folder: Path) -> dict[str, Any]:
    """A batch through Spark, on the driver: staged by executors, judged and committed by this process."""
    from omnigraph_pipelines.spark import Files, load, spark_session

    spark = spark_session("local[2]", small=True)
    spark.sparkContext.setLogLevel("OFF")

    def act(number: int) -> None:
        files = _csv(folder / "landing" / str(number), number)
        load(spark, graph, {name: Files([str(path)]) for name, path in files.items()}, mode="merge")

    with graph_of(folder) as graph:
        return _least(tracer, act)


def dagster_batch(tracer: Tracer, folder: Path) -> dict[str, Any]:
    """The same batch as a run of Dagster, both steps in this process: staged and checked, then committed."""
    import logging

    import dagster as dg

    from omnigraph_pipelines import build_definitions, load_graph_file
    from omnigraph_pipelines.spark import spark_session

    logging.getLogger("dagster").setLevel(logging.ERROR)
    spark_session("local[2]", small=True).sparkContext.setLogLevel("OFF")
    (folder / "house.pg").write_text(SCHEMA)
    (folder / "graph.yaml").write_text(GRAPH_FILE)
    config = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    with ExitStack() as stack:
        (folder / "instance").mkdir()
        quiet = {"telemetry": {"enabled": False}}
        instance = stack.enter_context(dg.DagsterInstance.local_temp(str(folder / "instance"), overrides=quiet))
        job = build_definitions(load_graph_file(folder / "graph.yaml")).resolve_job_def("ingest_crm")

        def land(number: int) -> None:
            _csv(folder / "landing" / f"b{number}", number)
            instance.add_dynamic_partitions("house/crm", [f"b{number}"])

        def act(number: int) -> None:
            done = job.execute_in_process(instance=instance, partition_key=f"b{number}", run_config=config)
            if not done.success:
                raise RuntimeError("the run of the batch failed")

        return _least(tracer, act, land)


GRAPH_FILE: Final = """\
graph: {name: house, uri: house.omni, schema: house.pg}
sources:
  - name: crm
    batches: landing/*/
    mode: merge
    tables:
      - {node: Person, files: Person.csv}
      - {node: Org, files: Org.csv}
      - {edge: Knows, files: Knows.csv}
      - {edge: Works, files: Works.csv}
"""


def _csv(folder: Path, number: int) -> dict[str, Path]:
    """Write the records of ``rows`` as a file for each type."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {}
    for row in rows(number):
        name = row.get("type") or row["edge"]
        ends = {side: row[side] for side in ("from", "to") if side in row}
        values = {**ends, **row["data"]}
        lines.setdefault(name, [",".join(values)]).append(",".join(str(one) for one in values.values()))
    found = {}
    for name, text in lines.items():
        found[name] = folder / f"{name}.csv"
        found[name].write_text("\n".join(text) + "\n", encoding="utf-8")
    return found


WALKS: Final[dict[str, Walk]] = {
    "load": load,
    "mutate": mutate,
    "batch": batch,
    "dagster batch": dagster_batch,
    "optimize": optimize,
    "recover": recover,
    "read": read,
}
NEED_SPARK: Final = frozenset({"batch", "dagster batch"})
