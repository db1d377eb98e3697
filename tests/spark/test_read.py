"""Reading with Spark: a pinned commit, fragments as partitions, columns and filters handed down, SQL."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
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


WHERE = [
    "n < 9", "size(many) = 2", "n > 20", "name in ('t01', 't02', 'x')", "n is null", "name like 't1%'", "n % 2 = 0 and n < 9",
]  # fmt: skip


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_a_frame_can_be_used_again_and_again(spark: Any, things: og.Graph, pushdown: str) -> None:
    """Spark keeps what a source took of a query's filters with the frame: a source that takes some answers the next query
    with the rows of the last."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    try:
        frame = read(spark, things.snapshot(), "Thing", ["id", "n", "name", "many"])
        here = spark.createDataFrame(frame.collect(), frame.schema).coalesce(1).cache()
        for where in WHERE:
            mine = {row["id"] for row in frame.where(where).collect()}
            assert mine == {row["id"] for row in here.where(where).collect()}, where
            assert frame.count() == 30
        assert frame.where("n < 9").union(frame.where("n >= 9")).count() == 30
        assert frame.where("n < 9").join(frame.where("size(many) = 2").select("name"), "name").count() == 9
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=dt.UTC)
FILTERS: list[tuple[list[tuple[Any, ...]], int]] = [
    ([("n", "=", 7)], 1),
    ([("n", ">", 7), ("n", "<=", 12)], 5),
    ([("name", "in", ["t01", "t02", "x"])], 2),
    ([("n", "is null")], 0),
    ([("n", "is not null"), ("n", "!=", 3)], 29),
    ([("day", "=", dt.date(2024, 2, 29))], 30),
    ([("day", ">", "2024-02-29")], 0),
    ([("f", ">=", 7.5)], 15),
    ([("at", "=", NOON)], 30),
    ([("at", "<", NOON.replace(tzinfo=None))], 0),
    ([("at", ">=", "2024-02-29T13:00:00.000001+01:00")], 30),
    ([("small", "==", 4)], 1),
    ([("large", ">=", 2**63 + 28)], 2),
    ([("many", "is null")], 0),
]


def test_filters_reach_the_tables(spark: Any, things: og.Graph) -> None:
    snapshot = things.snapshot()
    for filters, count in FILTERS:
        rows = read(spark, snapshot, "Thing", ["id"], filters).collect()
        assert len(rows) == count, filters
    both = (
        read(spark, snapshot, "Thing", ["n"], [("n", "<", 9)]),
        read(spark, snapshot, "Thing", ["n"], [("n", ">=", 9)]),
    )
    assert both[0].union(both[1]).count() == 30


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ([("nope", "=", 1)], "no column 'nope' to filter by"),
        ([("n", "~", 1)], "not a filter"),
        ([("n", "=")], "not a filter"),
        (["n = 1"], "not a filter"),
        ([("n", "=", "x")], "filter on 'n' \\(int64\\)"),
        ([("n", "=", None)], "filter on 'n'"),
        ([("n", "=", True)], "filter on 'n'"),
        ([("small", "=", -1)], "filter on 'small'"),
        ([("day", "=", "soon")], "filter on 'day'"),
        ([("many", "=", [1])], "can be tested for null only"),
        ([("n", "=", object())], "filter on 'n'"),
    ],
)
def test_a_filter_that_cannot_be_answered_is_refused_at_once(
    spark: Any, things: og.Graph, filters: list[Any], said: str
) -> None:
    with pytest.raises(og.errors.InvalidInput, match=said):
        read(spark, things.snapshot(), "Thing", None, filters)


def test_fragments_are_partitions(spark: Any, things: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph_pipelines.spark.scan import gathered

    fragments = things.snapshot().fragments("Thing")
    assert [list(one) for one in gathered(fragments)] == [[0, 1, 2]]
    monkeypatch.setattr("omnigraph_pipelines.spark.scan._PARTITION_ROWS", 15)
    assert [list(one) for one in gathered(fragments)] == [[0], [1], [2]]
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
        spark.sql(
            "create or replace temporary view few using omnigraph "
            f"options (uri '{graph.uri}', type 'Thing', filters '[[\"n\", \">\", 1]]')"
        )
        assert spark.sql("select * from few").count() == 0


def test_a_column_that_is_not_there_is_named(spark: Any, things: og.Graph) -> None:
    with pytest.raises(og.errors.InvalidInput, match="nope"):
        read(spark, things.snapshot(), "Thing", ["nope"])


def test_a_snapshot_gives_itself_to_spark(spark: Any, things: og.Graph) -> None:
    snapshot = things.snapshot()
    things.mutate("query q() { delete Thing where n < 15 }")
    frame = snapshot.to_spark(spark, "Thing")
    assert frame.columns == snapshot.schema("Thing").names and frame.count() == 30
    few = snapshot.to_spark(spark, "Thing", ["name"], (pc.field("n") > 3) & (pc.field("small") < 7))
    assert sorted(row["name"] for row in few.collect()) == ["t04", "t05", "t06"]
    refused: list[dict[str, Any]] = [
        {"columns": ["nope"]},
        {"columns": []},
        {"filter": pc.field("nope") > 1},
        {"filter": "n > 3"},
    ]
    for wrong in refused:
        with pytest.raises(og.errors.InvalidInput):
            snapshot.to_spark(spark, "Thing", **wrong)
    with pytest.raises(og.errors.InvalidInput, match="not a Spark session"):
        snapshot.to_spark("Thing", "Thing")
    with pytest.raises(og.errors.NotFound, match="no type 'Thong'"):
        snapshot.to_spark(spark, "Thong")


def test_moments_are_the_same_in_every_zone(spark: Any, things: og.Graph) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frame = things.snapshot().to_spark(spark, "Thing", ["at"])
        shown = frame.selectExpr("cast(at as string)", "unix_micros(at)").first()
        assert tuple(shown) == ("2024-02-29 21:00:00.000001", 1709208000000001)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_spark_takes_a_frame_to_be_as_large_as_its_table(spark: Any, things: og.Graph) -> None:
    """A table that seems small is sent whole to every executor for a join."""
    for columns, width in ((["n"], 8), (None, 100)):
        frame = things.snapshot().to_spark(spark, "Thing", columns)
        assert int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()) >= 30 * width
        assert frame.rdd.getNumPartitions() == 1


def test_an_empty_type_is_an_empty_frame(spark: Any, tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        frame = graph.snapshot().to_spark(spark, "Thing")
        assert frame.count() == 0 and "spot" in frame.columns


def test_a_commit_has_the_columns_of_then_whatever_the_schema_has_become(spark: Any, things: og.Graph) -> None:
    before = things.snapshot()
    changed = SCHEMA.replace("n: I64?", 'number: I64? @rename_from("n")').replace("f: F64?", "label: String")
    things.schema.apply(changed, fill={"Thing.label": {"sql": "upper(name)"}})
    then, now = read(spark, before, "Thing"), read(spark, things.snapshot(), "Thing")
    assert {"n", "f"} <= set(then.columns) and not {"number", "label"} & set(then.columns)
    assert {"number", "label"} <= set(now.columns) and not {"n", "f"} & set(now.columns)
    assert then.where("n = 7").select("name", "f").collect()[0].asDict() == {"name": "t07", "f": 3.5}
    assert now.where("number = 7").select("name", "label").collect()[0].asDict() == {"name": "t07", "label": "T07"}


def test_changes_are_rows_of_a_data_source(spark: Any, things: og.Graph) -> None:
    register(spark)
    start = things.snapshot().commit_id
    things.load([{"type": "Thing", "data": {"name": "new", "n": 7}}], mode="append")
    middle = things.snapshot().commit_id
    things.mutate('query q() { delete Thing where name = "t00" }')

    def changes(**options: str) -> list[Any]:
        reader = spark.read.format("omnigraph").option("uri", things.uri)
        return list(reader.options(changes_since=start, **options).load().collect())

    told = [change.to_dict() for change in things.changes(start, before=True)]
    rows = [row.asDict() for row in changes(before="true", type="Thing")]
    for row in rows:
        row |= {name: None if row[name] is None else json.loads(row[name]) for name in ("row", "before")}
    assert rows == told and [row["kind"] for row in rows] == ["insert", "delete"]
    assert [(row.kind, row.key, row.before) for row in changes(changes_until=middle)] == [("insert", "new", None)]
    with pytest.raises(Exception, match="power cut took it back"):
        spark.read.format("omnigraph").options(
            uri=things.uri, changes_since="01ARZ3NDEKTSV4RRFFQ69G5FAV"
        ).load().collect()
