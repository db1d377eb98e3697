"""The code location: how long it takes to import and to load, what a tick costs, what a run adds to the engine's own work.

Each case runs in a child, as a code server would. Core seconds are those of that process, which others on the machine
disturb less than those of the wall. Spark is started before anything is timed, and its work is in both sides of the overhead.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.results import Table, table

SOURCES, TYPES, TABLES = 200, 500, 4
BATCHES = 500
PG = "node Person { name: String @key  age: I32? }\n"


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    rounds = 1 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        loads = [_child("load", at) for _ in range(rounds)]
        ticks = _child("tick", at)
        overhead = _child("overhead", at, 2 if quick else 9)
    middle = {name: statistics.median(one[name] for one in loads) for name in loads[0]}
    rows: list[list[Any]] = [
        ["import of the code location", middle["import"], middle["import_cpu"], "< 1.5"],
        [f"definitions: {SOURCES} sources, {TYPES} types, {middle['assets']:.0f} assets, {middle['checks']:.0f} checks",
         middle["load"], middle["load_cpu"], "< 3"],
        [f"a tick over {BATCHES} batches, nothing new", ticks["seconds"], ticks["cpu"], "< 1"],
        ["a batch in process, over the engine called directly", overhead["over"], overhead["over_cpu"], "≤ 0.3"],
        ["— of it Dagster's own: an empty job of the same shape", overhead["empty"], overhead["empty_cpu"], ""],
        ["— and what is done here beside it", overhead["over_ours"], overhead["over_ours_cpu"], ""],
        ["the same with the instance in memory", overhead["over_in_memory"], overhead["over_in_memory_cpu"], "≤ 0.3"],
        ["— of it Dagster's own", overhead["empty_in_memory"], overhead["empty_in_memory_cpu"], ""],
    ]  # fmt: skip
    parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in overhead["parts"].items())
    notes = [
        f"Medians. A batch of two rows takes the engine {overhead['direct']:.2f} s with Spark, {overhead['job']:.2f} s as a run "
        f"on an instance on disk: {parts}. "
        f"Loaded at import, of pyspark, lance, duckdb, pandas and pyarrow: {', '.join(loads[0]['loaded']) or 'none'}."
    ]
    facts = {"sources": SOURCES, "types": TYPES, "rounds": rounds, **overhead}
    return [table("The code location in Dagster", ["what", "seconds", "core seconds", "bar"], rows, notes)], facts


def _child(case: str, folder: Path, rounds: int = 1) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bench.dagster", case, str(folder), str(rounds)],
        stdout=subprocess.PIPE,
        env={**os.environ, "DAGSTER_DISABLE_TELEMETRY": "1", "OMNIGRAPH_GRAPH_FILE": str(folder / "graph.yaml")},
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- the children -------------------------------------------------------------------------------------------------------


def load(folder: Path, _: int) -> dict[str, Any]:
    _many(folder)
    started, cpu = time.perf_counter(), time.process_time()
    import omnigraph_pipelines.definitions as location

    imported, imported_cpu = time.perf_counter() - started, time.process_time() - cpu
    heavy = [one for one in ("pyspark", "lance", "duckdb", "pandas", "pyarrow") if one in sys.modules]
    started, cpu = time.perf_counter(), time.process_time()
    repository = location.defs().get_repository_def()
    repository.load_all_definitions()
    return {
        "import": imported,
        "import_cpu": imported_cpu,
        "loaded": heavy,
        "load": time.perf_counter() - started,
        "load_cpu": time.process_time() - cpu,
        "assets": len(list(repository.asset_graph.get_all_asset_keys())),
        "checks": len(repository.asset_graph.asset_check_keys),
    }


def _many(folder: Path) -> None:
    half = TYPES // 2
    types = [
        f"node N{n} {{ name: String @key  age: I32? }}\nedge E{n}: N{n} -> N{n} {{ since: Date? }}" for n in range(half)
    ]
    (folder / "big.pg").write_text("\n".join(types))
    lines = ["graph: {name: big, uri: big.omni, schema: big.pg}", "sources:"]
    for source in range(SOURCES):
        lines.append(f"  - {{name: s{source}, batches: 'landing/s{source}/*/', mode: merge, tables: [")
        for number in range(TABLES // 2):
            kind = (source * 2 + number) % half
            lines.append(f"      {{node: N{kind}, files: n{number}*.csv}}, {{edge: E{kind}, files: e{number}*.csv}},")
        lines.append("    ]}")
    (folder / "graph.yaml").write_text("\n".join(lines))


def _one(folder: Path) -> Any:
    from omnigraph_pipelines import load_graph_file

    (folder / "people.pg").write_text(PG)
    (folder / "one.yaml").write_text(
        "graph: {name: people, uri: people.omni, schema: people.pg}\n"
        "sources:\n"
        "  - {name: crm, batches: landing/*/, ready: _SUCCESS, mode: merge, tables: [{node: Person, files: p.csv}]}\n"
    )
    return load_graph_file(folder / "one.yaml")


def _land(folder: Path, key: str) -> Path:
    batch = folder / "landing" / key
    batch.mkdir(parents=True, exist_ok=True)
    (batch / "p.csv").write_text(f"name,age\n{key}a,1\n{key}b,2\n")
    (batch / "_SUCCESS").touch()
    return batch / "p.csv"


def tick(folder: Path, _: int) -> dict[str, Any]:
    import dagster as dg

    from omnigraph_pipelines import build_definitions

    definitions = build_definitions(_one(folder))
    for number in range(BATCHES):
        _land(folder, f"{number:04}")
    repository = definitions.get_repository_def()
    sensor, cursor, best = repository.get_sensor_def("new_batches_crm"), None, (9e9, 9e9)
    with dg.DagsterInstance.local_temp(str(folder)) as instance:
        for _ in range(3):
            with dg.SensorEvaluationContext(
                instance_ref=instance.get_ref(),
                instance=instance,
                cursor=cursor,
                last_tick_completion_time=None,
                last_run_key=None,
                repository_name=None,
                repository_def=repository,
            ) as context:
                started, cpu = time.perf_counter(), time.process_time()
                cursor = sensor.evaluate_tick(context).cursor
                best = min(best, (time.perf_counter() - started, time.process_time() - cpu))
    return {"seconds": best[0], "cpu": best[1]}


def overhead(folder: Path, rounds: int) -> dict[str, Any]:
    """A batch by the engine, by the job on an instance on disk and on one in memory; and what Dagster takes for itself: a
    job of the same steps, outputs, checks and partitions that does nothing."""
    import logging

    import dagster as dg

    import omnigraph as og
    from omnigraph_pipelines import build_definitions
    from omnigraph_pipelines.spark import Files, publish, spark_session, stage

    logging.getLogger("dagster").setLevel(logging.ERROR)
    spark = spark_session("local[2]", small=True)
    spark.sparkContext.setLogLevel("OFF")
    file = _one(folder)
    jobs = {"job": build_definitions(file).resolve_job_def("ingest_crm"), "empty": _empty()}
    config = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    times: dict[str, list[tuple[float, float]]] = {}
    steps: dict[str, list[float]] = {}
    with (
        dg.DagsterInstance.local_temp(str(folder)) as disk,
        dg.DagsterInstance.ephemeral() as memory,
        og.init(folder / "direct.omni", PG) as graph,
    ):

        def direct(path: Path) -> None:
            key = path.parent.name
            staged = stage(spark, graph, {"Person": Files([str(path)])}, mode="merge", idempotency_key=key)
            publish(graph, staged, idempotency_key=key)

        def as_a_run(name: str, instance: Any, path: Path) -> None:
            instance.add_dynamic_partitions("people/crm", [path.parent.name])
            run = jobs[name].execute_in_process(instance=instance, partition_key=path.parent.name, run_config=config)
            if name == "job" and instance is disk:
                for part, seconds in _parts(instance, run).items():
                    steps.setdefault(part, []).append(seconds)

        cases: dict[str, Any] = {
            "direct": direct,
            "job": lambda path: as_a_run("job", disk, path),
            "empty": lambda path: as_a_run("empty", disk, path),
            "job_in_memory": lambda path: as_a_run("job", memory, path),
            "empty_in_memory": lambda path: as_a_run("empty", memory, path),
        }
        for number in range(rounds + 1):
            for name, case in cases.items():
                path = _land(folder, f"{name}{number}")
                started, cpu = time.perf_counter(), time.process_time()
                case(path)
                if number:  # the first warms all up
                    seen = (time.perf_counter() - started, time.process_time() - cpu)
                    times.setdefault(name, []).append(seen)
    spark.stop()
    middle = {name: [statistics.median(column) for column in zip(*seen, strict=True)] for name, seen in times.items()}
    found: dict[str, Any] = {name: seconds for name, (seconds, _) in middle.items()}
    found |= {f"{name}_cpu": cpu for name, (_, cpu) in middle.items()}
    for name, own, bare in (("over", "job", "empty"), ("over_in_memory", "job_in_memory", "empty_in_memory")):
        for unit in ("", "_cpu"):
            found[f"{name}{unit}"] = found[f"{own}{unit}"] - found[f"direct{unit}"]
            found[f"{name}_ours{unit}"] = found[f"{name}{unit}"] - found[f"{bare}{unit}"]
    return {**found, "parts": {name: statistics.median(seconds[1:]) for name, seconds in steps.items()}}


def _parts(instance: Any, run: Any) -> dict[str, float]:
    """Where the time of a run went, by the moments of its events."""
    entries = instance.all_logs(run.run_id)
    at = {}
    for entry in entries:
        event = entry.dagster_event
        if event is not None:
            at.setdefault((event.event_type_value, (event.step_key or "").rpartition("__")[2]), entry.timestamp)
    first, last = entries[0].timestamp, entries[-1].timestamp
    stage, commit = at["STEP_START", "stage"], at["STEP_START", "commit"]
    return {
        "before the first step": stage - first,
        "staging step": at["STEP_SUCCESS", "stage"] - stage,
        "between the steps": commit - at["STEP_SUCCESS", "stage"],
        "commit step": at["STEP_SUCCESS", "commit"] - commit,
        "after the last step": last - at["STEP_SUCCESS", "commit"],
    }


def _empty() -> Any:
    """The job of one node type, with bodies that do nothing."""
    import dagster as dg

    from omnigraph_pipelines.defs.ingest import checks

    partitions = dg.DynamicPartitionsDefinition(name="people/crm")
    table, done = dg.AssetKey(["people", "crm", "Person"]), dg.AssetKey(["people", "crm", "commit"])

    @dg.multi_asset(name="stage", specs=[dg.AssetSpec(table)], partitions_def=partitions)
    def stage() -> Any:
        yield dg.MaterializeResult(asset_key=table)

    @dg.asset(key=done, deps=[table], check_specs=[checks.spec(done)], partitions_def=partitions)
    def commit() -> Any:
        return dg.MaterializeResult(check_results=[checks.passed(done, {})])

    job = dg.define_asset_job("empty", selection="*", executor_def=dg.in_process_executor)
    return dg.Definitions(assets=[stage, commit], jobs=[job]).resolve_job_def("empty")


if __name__ == "__main__":
    case = {"load": load, "tick": tick, "overhead": overhead}[sys.argv[1]]
    print(json.dumps(case(Path(sys.argv[2]), int(sys.argv[3]))))
