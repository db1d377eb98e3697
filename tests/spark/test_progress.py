"""How far executors have come is told while they stage, and ends at what there is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og
from omnigraph_pipelines.spark import load

WAIT_S = 300.0


def staging(events: list[og.Progress]) -> list[og.Progress]:
    found = [one for one in events if one.phase == "staging"]
    assert [one.operation for one in found] == ["load"] * len(found)
    assert [one.done for one in found] == sorted(one.done for one in found)
    assert [one.bytes for one in found] == sorted(one.bytes for one in found)
    return found


def test_rows_are_told_while_other_tasks_are_still_at_work(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    """The last task waits for word of the others: it comes from the driver, while the job runs."""
    told = tmp_path / "told"
    events: list[og.Progress] = []

    def listener(event: og.Progress) -> None:
        events.append(event)
        if event.phase == "staging" and event.state == "running" and event.done:
            told.touch()

    def waiting(batches: Iterator[Any]) -> Iterator[Any]:
        clock = threading.Event()
        for batch in batches:
            if batch.column(0)[-1].as_py() == "p0099":
                for _ in range(int(WAIT_S * 10)):
                    if told.exists():
                        break
                    clock.wait(0.1)
                else:
                    raise RuntimeError("nobody said a word")
            yield batch

    frame = spark.range(0, 100, 1, 4).selectExpr("concat('p', lpad(id, 4, '0')) as name")
    with og.listen(listener, interval_s=0):
        load(spark, graph, {"Person": frame.mapInArrow(waiting, "name string")}, mode="append", target_rows=25)
    found = staging(events)
    assert any(0 < one.done < 100 for one in found)
    assert (found[-1].state, found[-1].done, found[-1].total) == ("done", 100, None)
    assert found[-1].bytes == sum(path.stat().st_size for path in Path(graph.uri).glob("nodes/*/data/*"))
    assert {"checking", "publishing"} <= {one.phase for one in events}


def test_files_say_how_much_is_to_come(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": [f"p{n}" for n in range(500)]}), tmp_path / "people.parquet", row_group_size=100)
    events: list[og.Progress] = []
    load(spark, graph, {"Person": str(tmp_path / "people.parquet")}, mode="append", progress=events.append)
    found = staging(events)
    assert (found[-1].state, found[-1].done, found[-1].total) == ("done", 500, 500)


def test_executors_that_compare_and_rewrite_are_counted(spark: Any, graph: og.Graph) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("concat('p', id) as name", "cast(id as int) as age")
    load(spark, graph, {"Person": frame}, mode="append", target_rows=25)
    events: list[og.Progress] = []
    options: dict[str, Any] = {"mode": "merge", "target_rows": 25, "validate": "spark", "progress": events.append}
    load(spark, graph, {"Person": frame.withColumn("age", frame.age + 1)}, **options)
    ended = {one.phase: (one.done, one.total, one.unit) for one in events if one.state == "done"}
    assert ended["rewriting"] == ended["removing"] == (4, 4, "fragments")
    done, total, unit = ended["comparing"]
    assert done == total and unit == "partitions"


def test_a_load_that_fails_ends_as_failed(spark: Any, graph: og.Graph) -> None:
    events: list[og.Progress] = []

    def broken(batches: Iterator[Any]) -> Iterator[Any]:
        raise RuntimeError("no")
        yield from batches

    frame = spark.range(3).selectExpr("concat('p', id) as name").mapInArrow(broken, "name string")
    try:
        load(spark, graph, {"Person": frame}, mode="append", progress=events.append)
    except Exception as error:
        assert "no" in str(error)
    assert staging(events)[-1].state == "failed"
