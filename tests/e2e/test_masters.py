"""The same batch through each way to Spark that a graph file can name: in this process, a standalone cluster, a Connect server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
import yaml

import omnigraph as og
from omnigraph_pipelines.spark import find_java
from tests.e2e.site import SparkServer, free_port

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]

LIMIT_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master with one worker, each a process of its own."""
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    address = f"spark://127.0.0.1:{port}"
    start = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    home = find_java().home
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if home is not None:
        environment["JAVA_HOME"] = str(home)
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [start, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
    worker = [start, "org.apache.spark.deploy.worker.Worker", *here, "--cores", "1", "--memory", "1g"]
    worker += ["--work-dir", str(folder / "work"), address]
    with ExitStack() as stack:
        for name, command, word in (("master", master, "I have been elected leader"), ("worker", worker, "registered")):
            log = folder / f"{name}.log"
            out = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            _wait_for(log, word, process)
        yield address


def _wait_for(log: Path, word: str, process: subprocess.Popen[bytes]) -> None:
    pause, deadline = threading.Event(), time.monotonic() + LIMIT_S
    while word not in log.read_text(errors="replace"):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        pause.wait(0.25)


def make_location(folder: Path, spark: dict[str, object], people: str) -> None:
    """A graph file with one source and one batch of people."""
    (folder / "people.pg").write_text("node Person { name: String @key  age: I32? }\n")
    landing = folder / "landing" / "b1"
    landing.mkdir(parents=True)
    (landing / "people.csv").write_text(people)
    (landing / "_SUCCESS").touch()
    source = {
        "name": "crm",
        "batches": "landing/*/",
        "ready": "_SUCCESS",
        "mode": "merge",
        "tables": [{"node": "Person", "files": "people.csv"}],
    }
    graph = {"name": "people", "uri": "people.omni", "schema": "people.pg"}
    (folder / "graph.yaml").write_text(yaml.safe_dump({"graph": graph, "sources": [source], "spark": spark}))


@pytest.mark.parametrize("kind", ["local", "cluster", "connect"])
def test_a_batch_is_ingested_through_every_kind_of_spark(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "cluster":
        conf = {"spark.executor.memory": "512m", "spark.cores.max": 1, "spark.driver.host": "127.0.0.1"}
        spark: dict[str, object] = {"master": request.getfixturevalue("cluster"), "conf": conf}
    elif kind == "connect":
        server: SparkServer = request.getfixturevalue("spark_server")
        spark = {"remote": server.remote}
    else:
        spark = {"master": "local[1]"}
    make_location(tmp_path, spark, "name,age\n" + "".join(f"p{n},{n}\n" for n in range(200)))
    command = [sys.executable, "-m", "omnigraph_pipelines.cli", "run", str(tmp_path / "graph.yaml")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "crm/b1" in done.stdout and "1 ingested" in done.stdout
    assert "FutureWarning" not in done.stderr and "Traceback" not in done.stderr
    with og.open(str(tmp_path / "people.omni"), read_only=True) as opened:
        assert opened.snapshot().count("Person") == 200


def test_a_refused_batch_is_all_that_the_command_says(tmp_path: Path) -> None:
    """Neither Java nor Lance nor Spark has a line above the error, and nothing of what they wrote is left."""
    make_location(tmp_path, {"master": "local[*]"}, "name,age\na,1\nb,x\n")
    command = [sys.executable, "-m", "omnigraph_pipelines.cli", "run", str(tmp_path / "graph.yaml")]
    kept = tmp_path / "tmp"
    kept.mkdir()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(kept)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    first, *rest = done.stderr.splitlines()
    assert done.returncode == 3 and done.stdout == "" and first.startswith("1 batch into people")
    assert [line.partition(":")[0] for line in rest] == ["error[data-invalid]", "hint"], done.stderr
    assert list(kept.glob("omnigraph-spark-*")) == []
