"""Drivers as processes of their own: one program a scenario, so that a test can kill what it wants.

Run as ``python drivers.py SCENARIO GRAPH_URI FOLDER``; prints one line of JSON a fact.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import omnigraph as og
import omnigraph_pipelines.spark as ogs

ROWS = 400
WAIT_S = 300.0
CLUSTER = "local-cluster[2,1,1024]"


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def people(spark: Any, partitions: int = 4) -> Any:
    return spark.range(0, ROWS, 1, partitions).selectExpr(
        "concat('p', lpad(id, 4, '0')) as name", "cast(id % 90 as int) as age"
    )


def once(path: Path) -> bool:
    """True for the first who asks, in whichever process."""
    try:
        path.open("x").close()
    except FileExistsError:
        return False
    return True


def executor_of(pid: int) -> int:
    """The process of the executor that a Python worker belongs to."""
    while pid > 1:
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    raise LookupError("not below an executor")


def first_files(uri: str, type: str) -> list[str]:
    """Files of a type that tasks have written so far: waits for the first."""

    def found() -> list[str]:
        return sorted(path.name for path in Path(uri).glob(f"nodes/{type}-*/data/*.lance"))

    _until(found)
    return found()


def _until(is_so: Callable[[], Any]) -> None:
    """Waits for something that another process does."""
    pause = threading.Event()
    for _ in range(int(WAIT_S * 10)):
        if is_so():
            return
        pause.wait(0.1)
    raise RuntimeError("waited in vain")


NOTES = 12


def notes(spark: Any) -> Any:
    """So large that a row is no sooner made than it is sent on and written."""
    return spark.range(0, NOTES, 1, 1).selectExpr("concat('n', id) as id", "repeat('x', 300000) as text")


def interrupted(uri: str, folder: Path, interrupt: Callable[[], None]) -> Callable[[Any], Iterator[Any]]:
    """Something happens, once, to a task that has left a file already; which it was is noted in ``left``."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == 4 and once(folder / "interrupted"):
                (folder / "left").write_text(json.dumps(first_files(uri, "Note")))
                interrupt()
            yield batch

    return run


def kill_an_executor(uri: str, folder: Path) -> None:
    """One executor dies in the middle of a task that has written fragments already."""
    spark = ogs.spark_session(CLUSTER, small=True)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")

    def die() -> None:
        os.kill(executor_of(os.getpid()), signal.SIGKILL)

    frame = notes(spark).mapInArrow(interrupted(uri, folder, die), "id string, text string")
    with og.open(uri) as graph:
        receipt = ogs.load(spark, graph, {"Note": frame}, mode="append", target_rows=1)
        say(inserted=receipt.tables["node:Note"].inserted, left=json.loads((folder / "left").read_text()))
        again = ogs.load(spark, graph, {"Note": notes(spark)}, mode="merge")
        say(unchanged=again.tables["node:Note"].unchanged)
    spark.stop()


def merge_on_a_cluster(uri: str, _: Path) -> None:
    spark = ogs.spark_session(CLUSTER, small=True)
    with og.open(uri) as graph:
        ogs.load(spark, graph, {"Person": people(spark)}, mode="append")
        receipt = ogs.load(
            spark,
            graph,
            {"Person": people(spark).where("age < 30").selectExpr("name", "age + 100 as age")},
            mode="merge",
        )
        say(updated=receipt.tables["node:Person"].updated, rows=graph.snapshot().count("Person"))
        frame = ogs.read(spark, graph.snapshot(), "Person", ["id", "age"])
        say(read=frame.where("age >= 100").count())
        workers = ogs.SparkWorkers(spark)
        say(pids=len(set(workers.each(_pid, list(range(8))))) > 1)
    spark.stop()


def _pid(_: int) -> int:
    return os.getpid()


def kill_the_driver(uri: str, folder: Path) -> None:
    """Everything is staged, nothing is published; the batch is written down for whoever comes."""
    spark = ogs.spark_session("local[2]", small=True)
    with og.open(uri) as graph:
        batch = ogs.stage(spark, graph, {"Person": people(spark)}, mode="append")
        (folder / "batch.pickle").write_bytes(pickle.dumps(batch))
        other = ogs.stage(spark, graph, {"Person": people(spark)}, mode="append")
        forgotten = ogs.stage(spark, graph, {"Person": people(spark)}, mode="append")
        say(staged=batch.to_dict(), other=other.to_dict(), forgotten=forgotten.to_dict())
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers that are two hosts by name: Spark copies no task to the host that it runs on."""
    import pyspark

    java = ogs.find_java()
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_HOME": str(home)} | ({} if java.home is None else {"JAVA_HOME": str(java.home)})

    def start(name: str, kind: str, *args: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *args]
            return subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def url() -> str | None:
        found = re.search(r"Starting Spark master at (spark://\S+)", (folder / "master.log").read_text())
        return found[1] if found else None

    servers = [start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")]
    try:
        _until(url)
        for host in ("127.0.0.1", "127.0.0.2"):
            worker = ("-h", host, "-c", "1", "-m", "1G", "-d", str(folder / host), str(url()))
            servers.append(start(host, "worker.Worker", *worker))
        yield str(url())
    finally:
        for server in servers:
            server.kill()


def speculate(uri: str, folder: Path) -> None:
    """A slow task gets a rival; the copy that loses leaves files and no rows."""
    with standalone(folder) as url:
        _speculate(url, uri, folder)


def _speculate(url: str, uri: str, folder: Path) -> None:
    spark = ogs.spark_session(
        url,
        small=True,
        conf={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.speculation": True,
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.3",
            "spark.speculation.minTaskRuntime": "200ms",
            "spark.speculation.efficiency.enabled": False,
        },
    )

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.column(0)[0].as_py() == "p0000":
                if once(folder / "slow"):
                    _until((folder / "copied").exists)
                else:
                    (folder / "copied").touch()
            yield batch

    frame = people(spark, 8).mapInArrow(slow, "name string, age int")
    with og.open(uri) as graph:
        receipt = ogs.load(spark, graph, {"Person": frame}, mode="append")
        say(inserted=receipt.tables["node:Person"].inserted, copied=(folder / "copied").exists())
    spark.stop()


def connect(uri: str, _: Path) -> None:
    """Everything through a Connect server."""
    spark = ogs.spark_session(remote="local[2]")
    with og.open(uri) as graph:
        events: list[og.Progress] = []
        receipt = ogs.load(spark, graph, {"Person": people(spark)}, mode="append", progress=events.append)
        say(inserted=receipt.tables["node:Person"].inserted)
        staging = [one for one in events if one.phase == "staging"]
        say(unit=staging[-1].unit, state=staging[-1].state, tasks=staging[-1].done, in_order=_in_order(staging))
        again = ogs.load(spark, graph, {"Person": people(spark).where("age < 10")}, mode="merge")
        say(unchanged=again.tables["node:Person"].unchanged)
        frame = ogs.read(spark, graph.snapshot(), "Person")
        say(read=frame.where("age = 5").count(), columns=frame.columns)
        try:
            ogs.load(spark, graph, {"Person": people(spark)}, mode="append", validate="spark")
        except og.errors.KeyConflict as error:
            say(refused=error.code, total=error.total)
    spark.stop()


def _in_order(events: list[og.Progress]) -> bool:
    return [one.done for one in events] == sorted(one.done for one in events)


def publish_elsewhere(uri: str, folder: Path) -> None:
    """No Spark here at all."""
    batch = pickle.loads((folder / "batch.pickle").read_bytes())
    with og.open(uri) as graph:
        say(inserted=ogs.publish(graph, batch, idempotency_key="once").tables["node:Person"].inserted)
        say(pyspark="pyspark" in sys.modules)


SCENARIOS = {
    one.__name__: one
    for one in (
        connect,
        kill_an_executor,
        kill_the_driver,
        merge_on_a_cluster,
        publish_elsewhere,
        speculate,
    )
}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
