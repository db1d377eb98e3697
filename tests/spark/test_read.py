"""Reading with Spark: a pinned commit, fragments as partitions, columns and filters handed down, SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.spark import read, register

SCHEMA = """
node Thing {
    name: String @key
    small: U32?  large: U64?  many: [I64]?  spot: Vector(2)?  at: DateTime?  day: Date?  bytes: Blob?  n: I64?  f: F64?
}
"""


@pytest.fixture
def things(tmp_path: Path) -> Any:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        for start in (0, 10, 20):
            graph.load(
                [
                    {
                        "type": "Thing",
                        "data": {
                            "name": f"t{n:02}", "small": n, "large": 2**63 + n, "many": [n, None], "spot": [n, 0.5],
                            "at": "2024-02-29T12:00:00.000001Z", "day": "2024-02-29", "bytes": "base64:AAE=", "n": n,
                            "f": n / 2,
                        },
                    }
                    for n in range(start, start + 10)
                ],
                mode="append",
            )  # fmt: skip
        yield graph


def test_every_kind_comes_through(spark: Any, things: og.Graph) -> None:
    rows = read(spark, things.snapshot(), "Thing").orderBy("name").collect()
    assert len(rows) == 30
    row = rows[3].asDict()
    assert (row["small"], row["large"], row["many"], row["spot"]) == (3, Decimal(2**63 + 3), [3, None], [3.0, 0.5])
    assert row["day"] == dt.date(2024, 2, 29) and bytes(row["bytes"]) == b"\x00\x01"
    shown = read(spark, things.snapshot(), "Thing", ["at"]).selectExpr("cast(at as string)").first()
    assert shown[0] == "2024-02-29 12:00:00.000001"


def test_a_commit_is_what_it_was(spark: Any, things: og.Graph) -> None:
    before = things.snapshot()
    things.mutate("query q() { delete Thing where n < 15 }")
    things.load([{"type": "Thing", "data": {"name": "new"}}], mode="append")
    assert read(spark, before, "Thing", ["id"]).count() == 30
    now = read(spark, things.snapshot(), "Thing", ["id", "n"])
    assert now.count() == 16
    assert {row["id"] for row in now.where("n is null").collect()} == {"new"}


FILTERS = [
    "n = 7", "n > 7 and n <= 12", "name in ('t01', 't02', 'x')", "n is null", "day = date'2024-02-29'", "f >= 7.5",
    "at < timestamp'2025-01-01 00:00:00'", "small = 4", "large > 5", "name like 't1%'", "n = 1 or n = 2", "not n = 3",
    "n % 2 = 0 and n < 9", "size(many) = 2", "name = 't05' and n = 6",
]  # fmt: skip


def test_filters_give_what_spark_itself_gives(spark: Any, things: og.Graph) -> None:
    frame = read(spark, things.snapshot(), "Thing")
    here = spark.createDataFrame(frame.collect(), frame.schema).coalesce(1).cache()
    for where in FILTERS:
        mine = {row["id"] for row in frame.where(where).collect()}
        assert mine == {row["id"] for row in here.where(where).collect()}, where


def test_filters_and_columns_reach_the_tables(spark: Any, things: og.Graph) -> None:
    """What is handed down is no longer Spark's to check."""
    plan = read(spark, things.snapshot(), "Thing", ["id", "n"]).where("n = 7")
    text = plan._jdf.queryExecution().toString()
    assert "PushedFilters" in text or "Filter (n" not in text.partition("== Physical Plan ==")[2]
    assert plan.columns == ["id", "n"]
    assert plan.count() == 1


def test_fragments_are_partitions(spark: Any, things: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph_pipelines.spark.source import _gathered

    fragments = things.snapshot().fragments("Thing")
    assert [list(one) for one in _gathered(fragments)] == [[0, 1, 2]]
    monkeypatch.setattr("omnigraph_pipelines.spark.source._PARTITION_ROWS", 15)
    assert [list(one) for one in _gathered(fragments)] == [[0], [1], [2]]
    snapshot = things.snapshot()
    assert snapshot.to_batches("Thing", ["id"], fragments=[1]).read_all().num_rows == 10
    with pytest.raises(og.errors.InvalidInput, match="no fragment 9"):
        snapshot.to_batches("Thing", ["id"], fragments=[9]).read_all()


def test_sql_and_empty_tables(spark: Any, tmp_path: Path) -> None:
    register(spark)
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        spark.sql(f"create or replace temporary view nothing using omnigraph options (uri '{graph.uri}', type 'Thing')")
        assert spark.sql("select count(*) from nothing").first()[0] == 0
        graph.load([{"type": "Thing", "data": {"name": "a", "n": 1}}], mode="append")
        commit = graph.snapshot().commit_id
        spark.sql(
            "create or replace temporary view things using omnigraph "
            f"options (uri '{graph.uri}', type 'Thing', commit '{commit}')"
        )
        assert [tuple(row) for row in spark.sql("select name, n from things where n = 1").collect()] == [("a", 1)]


def test_a_session_without_pushdown_reads_as_well(spark: Any, things: og.Graph) -> None:
    register(spark)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        frame = spark.read.format("omnigraph").option("uri", things.uri).option("type", "Thing")
        assert frame.option("pushdown", "false").load().where("n = 7").count() == 1
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_column_that_is_not_there_is_named(spark: Any, things: og.Graph) -> None:
    with pytest.raises(og.errors.InvalidInput, match="nope"):
        read(spark, things.snapshot(), "Thing", ["nope"])
