"""Micro-batches with keys: a stream that is cut anywhere and started again loads every batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.spark import compact, load


class Cut(Exception):
    """The driver goes away."""


def feed(folder: Path, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        (folder / f"{number:03}.csv").write_text("".join(f"s{number:03}-{row},{row}\n" for row in range(20)))


def drain(spark: Any, graph: og.Graph, folder: Path, cut: tuple[int, str] | None = None) -> list[bool]:
    """One ``availableNow`` run; ``cut``: fail at a batch, before or after its commit. Returns what was replayed."""
    replayed: list[bool] = []

    def publish(frame: Any, number: int) -> None:
        if cut == (number, "before"):
            raise Cut
        receipt = load(spark, graph, {"Person": frame}, mode="append", idempotency_key=f"people:{number}")
        replayed.append(receipt.replayed)
        if cut == (number, "after"):
            raise Cut

    stream = spark.readStream.schema("name string, age int").option("maxFilesPerTrigger", 1).csv(str(folder))
    query = stream.writeStream.foreachBatch(publish).option("checkpointLocation", f"{folder}.checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    return replayed


def test_a_stream_that_is_cut_and_started_again_loads_every_batch_once(
    spark: Any, graph: og.Graph, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    feed(folder, range(4))
    for cut in ((1, "after"), (3, "before")):
        with pytest.raises(Exception, match="Cut"):
            drain(spark, graph, folder, cut)
    assert drain(spark, graph, folder) == [False]
    assert graph.snapshot().count("Person") == 80
    keyed = [commit for commit in graph.commits() if commit.kind == "load"]
    assert len(keyed) == 4
    assert drain(spark, graph, folder) == []
    assert graph.verify(deep=True).ok


def test_executors_compact_what_a_stream_left(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    feed(tmp_path / "in", range(3))
    drain(spark, graph, tmp_path / "in")
    assert len(graph.snapshot().fragments("Person")) == 3
    before = sorted(graph.snapshot().export().splitlines())
    compact(spark, graph)
    assert len(graph.snapshot().fragments("Person")) == 1
    assert sorted(graph.snapshot().export().splitlines()) == before
    assert graph.verify(deep=True).ok
