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
IN_LINE = ("index", "relations", "notes")  # each after the one before
SHARED, SHARED_ROWS = 100, 100
PG = "node Person { name: String @key  age: I32? }\n"


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    rounds = 1 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        loads = [_child("load", at) for _ in range(rounds)]
        ticks = _child("tick", at)
        waits = _child("wait", at)
        overhead = _child("overhead", at, 2 if quick else 9)
        shared = _child("share", at, 10 if quick else SHARED)
    middle = {name: statistics.median(one[name] for one in loads) for name in loads[0]}
    rows: list[list[Any]] = [
        ["import of the code location", middle["import"], middle["import_cpu"], "< 1.5"],
        [f"definitions: {SOURCES} sources, {TYPES} types, {middle['assets']:.0f} assets, {middle['checks']:.0f} checks",
         middle["load"], middle["load_cpu"], "≤ 2"],
        [f"a tick over {BATCHES} batches, nothing new", ticks["seconds"], ticks["cpu"], "< 1"],
        [f"a tick of {waits['slowest']}: {BATCHES} batches wait in {len(IN_LINE)} sources, each `after` the one before",
         waits["seconds"], waits["cpu"], "≤ 0.2"],
        [f"one of {shared['batches']} batches of {SHARED_ROWS} rows that share a run, over the engine called directly",
         shared["over"], shared["over_cpu"], "≤ 0.6"],
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
        f"A batch that shares its run takes {shared['run']:.2f} s, {shared['direct']:.2f} s of them the engine's, and leaves "
        f"{shared['events']:.1f} events. Loaded at import, of pyspark, lance, duckdb, pandas and pyarrow: {', '.join(loads[0]['loaded']) or 'none'}."
    ]
    facts = {"sources": SOURCES, "types": TYPES, "rounds": rounds, "wait": waits, "share": shared, **overhead}
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


def _land(folder: Path, key: str, below: str = "landing", rows: int = 2) -> Path:
    batch = folder / below / key
    batch.mkdir(parents=True, exist_ok=True)
    (batch / "p.csv").write_text("name,age\n" + "".join(f"{key}-{row},{row % 90}\n" for row in range(rows)))
    (batch / "_SUCCESS").touch()
    return batch / "p.csv"


def tick(folder: Path, _: int) -> dict[str, Any]:
    for number in range(BATCHES):
        _land(folder, f"{number:04}")
    return _ticks(folder, _one(folder), "crm")


def wait(folder: Path, _: int) -> dict[str, Any]:
    """Batches that wait, first of all for those of other sources. The slowest of the sensors counts."""
    from omnigraph_pipelines import load_graph_file

    lines = ["graph: {name: people, uri: waiting.omni, schema: people.pg}", "sources:"]
    (folder / "people.pg").write_text(PG)
    for before, name in zip((None, *IN_LINE), IN_LINE, strict=False):
        after = f"after: [{before}], " if before else ""
        lines.append(
            f"  - {{name: {name}, batches: waiting/{name}/*/, ready: _SUCCESS, {after}mode: merge, "
            "tables: [{node: Person, files: p.csv}]}"
        )
    (folder / "waiting.yaml").write_text("\n".join(lines))
    for number in range(BATCHES):
        _land(folder, f"{number:04}", f"waiting/{IN_LINE[number % len(IN_LINE)]}")
    file = load_graph_file(folder / "waiting.yaml")
    found = {name: _ticks(folder, file, name) for name in IN_LINE}
    slowest = max(found, key=lambda name: found[name]["seconds"])
    return {**found[slowest], "slowest": slowest}


def _ticks(folder: Path, file: Any, source: str) -> dict[str, Any]:
    """The best of a few ticks of a source after its first."""
    import dagster as dg

    from omnigraph_pipelines import build_definitions

    repository = build_definitions(file).get_repository_def()
    sensor, cursor, best = repository.get_sensor_def(f"new_batches_{source}"), None, (9e9, 9e9)
    (folder / f"instance-{source}").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / f"instance-{source}")) as instance:
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


def share(folder: Path, batches: int) -> dict[str, Any]:
    """Batches one by one through the engine and Spark, and the same number as one run."""
    import logging

    import dagster as dg

    import omnigraph as og
    from omnigraph_pipelines import build_definitions, load_graph_file
    from omnigraph_pipelines.spark import Files, publish, spark_session, stage

    logging.getLogger("dagster").setLevel(logging.ERROR)
    spark = spark_session("local[2]", small=True)
    spark.sparkContext.setLogLevel("OFF")
    (folder / "people.pg").write_text(PG)
    (folder / "shared.yaml").write_text(
        "graph: {name: people, uri: shared.omni, schema: people.pg}\nsources:\n"
        f"  - {{name: crm, batches: shared/*/, ready: _SUCCESS, batches_per_run: {batches}, mode: merge, "
        "tables: [{node: Person, files: p.csv}]}\n"
    )
    job = build_definitions(load_graph_file(folder / "shared.yaml")).resolve_job_def("ingest_crm")
    with og.init(folder / "alone.omni", PG) as graph:

        def direct(path: Path) -> None:
            key = path.parent.name
            staged = stage(spark, graph, {"Person": Files([str(path)])}, mode="merge", idempotency_key=key)
            publish(graph, staged, idempotency_key=key)

        direct(_land(folder, "warm", "alone", SHARED_ROWS))
        paths = [_land(folder, f"{number:04}", "alone", SHARED_ROWS) for number in range(batches)]
        started, cpu = time.perf_counter(), time.process_time()
        for path in paths:
            direct(path)
        alone = ((time.perf_counter() - started) / batches, (time.process_time() - cpu) / batches)
    keys = [_land(folder, f"{number:04}", "shared", SHARED_ROWS).parent.name for number in range(batches)]
    (folder / "instance-shared").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / "instance-shared")) as instance:
        instance.add_dynamic_partitions("people/crm", keys)
        tags = {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
        config = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        started, cpu = time.perf_counter(), time.process_time()
        run = job.execute_in_process(instance=instance, tags=tags, run_config=config)
        whole = ((time.perf_counter() - started) / batches, (time.process_time() - cpu) / batches)
        events = len(instance.all_logs(run.run_id)) / batches
    spark.stop()
    over = {"over": whole[0] - alone[0], "over_cpu": whole[1] - alone[1]}
    return {"batches": batches, "direct": alone[0], "run": whole[0], "events": events, **over}


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
    def commit():  # type: ignore[no-untyped-def]  # Dagster takes the annotation for that of its outputs
        yield dg.MaterializeResult(check_results=[checks.passed(done, {})])

    job = dg.define_asset_job("empty", selection="*", executor_def=dg.in_process_executor)
    return dg.Definitions(assets=[stage, commit], jobs=[job]).resolve_job_def("empty")


if __name__ == "__main__":
    case = {"load": load, "tick": tick, "wait": wait, "overhead": overhead, "share": share}[sys.argv[1]]
    print(json.dumps(case(Path(sys.argv[2]), int(sys.argv[3]))))
