"""What a snapshot is in other libraries: the same rows, no value changed on the way."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.core.errors import InvalidInput, MissingExtra
from omnigraph.read.snapshot import Snapshot, snapshot_of_branch
from omnigraph.read.tables import TableReader
from tests.component.read.material import EVERY_KIND, knows, new_graph, people, put

NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 5, tzinfo=dt.UTC)
SOCIAL = (
    EVERY_KIND + "node Person { name: String @key age: I32? }\nnode Order { n: I64 }\nedge Knows: Person -> Person\n"
)


@pytest.fixture
def snap(local_root: str) -> Snapshot:
    engine = new_graph(local_root, SOCIAL)
    put(engine, "Person", [*people("ada", "bob"), {"id": "cy", "name": "cy"}])
    put(engine, "Knows", [knows("e1", "ada", "bob"), knows("e2", "ada", "cy"), knows("e3", "bob", "cy")])
    full = {"id": "t1", "name": "t1", "at": NOON, "b": b"\x00\xff", "l": 2**63 - 1, "ul": 2**64 - 1, "s": True}
    full |= {"on": dt.date(2020, 2, 29), "v": [1.0, 2.0, 3.0], "tags": ["x", None], "f": 0.5, "d": 0.1, "u": 7, "i": -7}
    put(engine, "Thing", [full, {"id": "t2", "name": "t2"}])
    return snapshot_of_branch(engine)


def test_sql_sees_one_view_per_type(snap: Snapshot) -> None:
    connection = snap.duckdb()
    assert isinstance(connection, duckdb.DuckDBPyConnection)
    views = connection.execute("select view_name from duckdb_views() where not internal order by 1").fetchall()
    assert [name for (name,) in views] == ["Knows", "Order", "Person", "Thing"]
    rows = connection.execute(
        "select p.name, count(*), max(q.age) from Knows k join Person p on p.id = k.src join Person q on q.id = k.dst"
        " group by 1 order by 1"
    ).fetchall()
    assert rows == [("ada", 2, 21), ("bob", 1, None)]
    assert connection.execute('select count(*) from "Order"').fetchall() == [(0,)]
    assert connection.execute("select count(*) from knows a, Knows b where a.dst = b.src").fetchall() == [(1,)]


def test_sql_reads_every_kind(snap: Snapshot) -> None:
    [row] = snap.duckdb().sql("select * from Thing where id = 't1'").to_arrow_table().to_pylist()
    wanted = snap.get("Thing", "t1")
    assert wanted is not None
    assert row == wanted
    assert snap.duckdb().execute("select * from Thing where id = 't2'").fetchone()[1:3] == (None, None)


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("ul = 18446744073709551615", ["t1"]),
        ("u > 6 and u < 8", ["t1"]),
        ("b = '\\x00\\xFF'::BLOB", ["t1"]),
        ("\"at\" = TIMESTAMPTZ '2024-05-06 12:00:00.000005Z'", ["t1"]),
        ("\"at\" < TIMESTAMPTZ '2024-05-06 12:00:00.000005Z'", []),
        ("\"on\" = DATE '2020-02-29'", ["t1"]),
        ("i is null", ["t2"]),
        ("s", ["t1"]),
        ("f = 0.5 and d > 0.05", ["t1"]),
        ("id in ('t1', 't2') and name like 't%'", ["t1", "t2"]),
        ("list_contains(tags, 'x')", ["t1"]),
        ("v[2] = 2.0", ["t1"]),
        ("l = 9223372036854775807 or i is null", ["t1", "t2"]),
        ("id > 't1'", ["t2"]),
        ("kind is not distinct from null", ["t1", "t2"]),
    ],
)
def test_a_condition_in_sql_selects_by_value(snap: Snapshot, condition: str, ids: list[str]) -> None:
    rows = snap.duckdb().execute(f"select id from Thing where {condition} order by id").fetchall()
    assert [one for (one,) in rows] == ids


def test_a_query_reads_only_the_columns_that_it_names(snap: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = TableReader.reader

    def noted(self: TableReader, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        asked.append((columns, filter is not None))
        return real(self, columns, filter, **options)

    monkeypatch.setattr(TableReader, "reader", noted)
    snap.duckdb().execute("select name from Person where age > 20").fetchall()
    assert asked == [(["name"], True)]


def test_sql_cannot_change_the_graph(snap: Snapshot) -> None:
    connection = snap.duckdb()
    for statement in ("delete from Person", "insert into Person values ('x', 1, 'x')", "update Person set age = 1"):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)
    assert connection.execute("select count(*) from Person").fetchall() == [(3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "select * from '{0}/secret.csv'",
        "select * from read_text('{0}/secret.csv')",
        "copy (select 1) to '{0}/out.csv'",
        "attach '{0}/other.db'",
        "set enable_external_access = true",
        "select * from read_csv('http://localhost:1/x.csv')",
    ],
)
def test_a_statement_reaches_no_file_unless_it_is_allowed_to(snap: Snapshot, tmp_path: Path, statement: str) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(duckdb.Error):
        snap.duckdb().execute(statement.format(tmp_path))
    assert [path.name for path in tmp_path.glob("*.csv")] == ["secret.csv"]
    with snap.duckdb(allow_files=True) as connection:
        assert connection.execute(f"select * from '{tmp_path}/secret.csv'").fetchall() == [(1,)]


def test_tables_of_the_caller_can_be_registered_beside_the_views(snap: Snapshot) -> None:
    connection = snap.duckdb()
    connection.register("mine", pa.table({"name": ["ann"]}))
    connection.execute("create table kept as select name from mine")
    assert connection.execute("select count(*) from kept").fetchall() == [(1,)]


def test_sql_speaks_utc(snap: Snapshot) -> None:
    [(text,)] = snap.duckdb().execute('select "at"::varchar from Thing where "at" is not null').fetchall()
    assert text == "2024-05-06 12:00:00.000005+00"


def test_pandas_keeps_integers_beside_nulls(snap: Snapshot) -> None:
    import pandas as pd

    frame = snap.to_pandas("Thing", ["id", "l", "ul", "s", "at", "d"])
    assert {name: str(kind) for name, kind in frame.dtypes.items() if name not in ("id", "at")} == {
        "l": "Int64",
        "ul": "UInt64",
        "s": "boolean",
        "d": "float64",
    }
    assert (frame["l"][0], frame["ul"][0]) == (2**63 - 1, 2**64 - 1)
    assert frame["l"][1] is pd.NA
    assert frame["at"][0].to_pydatetime() == NOON
    assert list(snap.to_pandas("Person", filter=pc.field("age") > 20)["id"]) == ["bob"]


def test_polars_keeps_every_kind(snap: Snapshot) -> None:
    import polars as pl

    frame = snap.to_polars("Thing")
    assert frame.schema["ul"] == pl.UInt64
    assert frame.schema["v"] == pl.Array(pl.Float32, 3)
    assert frame.schema["at"] == pl.Datetime("us", "UTC")
    assert frame.row(0, named=True)["ul"] == 2**64 - 1
    assert frame.row(0, named=True)["at"] == NOON
    assert snap.to_polars("Person", ["id"], pc.field("age").is_null()).to_dicts() == [{"id": "cy"}]


@pytest.mark.parametrize(("library", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_missing_library_is_named_with_its_extra(
    snap: Snapshot, monkeypatch: pytest.MonkeyPatch, library: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=library) as caught:
        getattr(snap, method)("Person")
    assert caught.value.extra == "frames"
    assert caught.value.hint == "pip install 'omnigraph-pipelines[frames]'"


@pytest.mark.parametrize("library", ["pyspark", "omnigraph_pipelines.spark"])
def test_spark_without_its_extra_is_refused_with_its_name(
    snap: Snapshot, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=library) as caught:
        snap.to_spark(None, "Person")
    assert caught.value.extra == "pipelines"
    assert caught.value.hint == "pip install 'omnigraph-pipelines[pipelines]'"


def test_frames_refuse_what_a_snapshot_refuses(snap: Snapshot) -> None:
    for method in ("to_pandas", "to_polars"):
        with pytest.raises(InvalidInput):
            getattr(snap, method)("Person", ["nope"])
        with pytest.raises(InvalidInput):
            getattr(snap, method)("Person", filter="age > 3")


def test_batches_go_into_another_library_as_a_stream(snap: Snapshot) -> None:
    stream = snap.to_batches("Knows", ["src", "dst"])
    connection = duckdb.connect()
    connection.register("stream", stream)
    assert connection.execute("select count(distinct src) from stream").fetchall() == [(2,)]
    assert isinstance(snap.to_arrow("Knows"), pa.Table)
