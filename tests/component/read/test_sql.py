"""Questions to a snapshot in SQL, by type and as a network."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og
from omnigraph.core.errors import InvalidInput, LimitExceeded, NotFound, QueryInvalid
from omnigraph.read.tables import TableReader

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person { since: I32? }\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g.omni", SCHEMA)
    people = pa.table({"name": ["ada", "bob", "cy"], "age": pa.array([36, None, 7], pa.int32())})
    knows = pa.table({"from": ["ada", "ada"], "to": ["bob", "cy"], "since": pa.array([1, None], pa.int32())})
    graph.load(og.Batch(nodes={"Person": people}, edges={"Knows": knows}), mode="append")
    return graph


def test_rows_come_in_the_form_that_is_asked_for(graph: og.Graph) -> None:
    found = graph.sql("select name, age from Person order by name")
    assert found.columns == ["name", "age"]
    assert found.fetchall() == [("ada", 36), ("bob", None), ("cy", 7)]
    assert found.fetchmany(2) == [("ada", 36), ("bob", None)]
    assert list(found) == found.fetchall()
    assert found.to_arrow().to_pydict() == {"name": ["ada", "bob", "cy"], "age": [36, None, 7]}
    assert str(found.to_pandas()["age"].dtype) == "Int32"
    assert found.to_polars().shape == (3, 2)


def test_parameters_go_by_place_and_by_name(graph: og.Graph) -> None:
    snapshot = graph.snapshot()
    assert snapshot.sql("select name from Person where age > ?", [10]).fetchall() == [("ada",)]
    assert snapshot.sql("select name from Person where name = $n", {"n": "cy"}).fetchall() == [("cy",)]
    with pytest.raises(QueryInvalid):
        snapshot.sql("select name from Person where name = $n", {"m": "cy"}).fetchall()
    with pytest.raises(InvalidInput, match="params is a list or a mapping"):
        snapshot.sql("select 1", "x")


def test_a_result_goes_on_reading_its_commit(graph: og.Graph) -> None:
    before = graph.sql("select count(*) from Person")
    first = graph.snapshot().commit_id
    graph.load([{"type": "Person", "data": {"name": "dan"}}], mode="append")
    assert before.fetchall() == [(3,)]
    assert graph.sql("select count(*) from Person").fetchall() == [(4,)]
    assert graph.sql("select count(*) from Person", at=first).fetchall() == [(3,)]


@pytest.mark.parametrize(
    "text",
    [
        "create table t as select 1",
        "insert into Person values (1)",
        "select 1; select 2",
        "",
        "selec",
        "select nope from Person",
        "select * from read_csv('/etc/passwd')",
        "copy (select 1) to '/tmp/x.csv'",
        "set enable_external_access=true",
        "attach ':memory:' as other",
    ],
)
def test_only_one_statement_that_reads_the_views_is_run(graph: og.Graph, text: str) -> None:
    with pytest.raises(QueryInvalid):
        graph.sql(text).fetchall()


def test_columns_of_one_name_are_numbered(graph: og.Graph) -> None:
    found = graph.sql("select a.name, b.name from Person a join Person b on a.name = b.name where a.name = 'ada'")
    assert found.columns == ["name", "name_2"]
    assert found.to_arrow().column_names == ["name", "name_2"]


def test_what_a_notebook_shows_is_bounded(graph: og.Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": f"p{i}"}} for i in range(40)], mode="append")
    shown = graph.sql("select name from Person order by name")._repr_html_()
    assert "the first 20 rows" in shown
    assert "p9" not in shown
    assert "name" in repr(graph.sql("select name from Person"))
    assert "p39" not in graph.snapshot()["Person"]._repr_html_()
    whole = graph._repr_html_()
    assert "<svg" in whole
    assert "node:Person" in whole


# --- one type -----------------------------------------------------------------------------------------------------------


def test_a_type_is_narrowed_step_by_step(graph: og.Graph) -> None:
    people = graph.snapshot()["Person"]
    assert people.count() == 3
    grown = people.filter(pc.field("age") > 10).select(["name", "age"])
    assert grown.to_arrow().to_pylist() == [{"name": "ada", "age": 36}]
    assert grown.filter(pc.field("name") == "bob").count() == 0
    assert people.limit(2).to_arrow().num_rows == people.limit(2).count() == 2
    assert people.limit(0).to_arrow().num_rows == 0
    assert people.limit(2).limit(5).count() == 2
    assert len(people.select(["name"]).to_pandas()) == 3
    assert graph.snapshot()["knows"].count() == 2


def test_a_type_is_not_narrowed_by_what_makes_no_sense(graph: og.Graph) -> None:
    people = graph.snapshot()["Person"]
    for wrong in (
        lambda: people.filter("age > 10"),  # type: ignore[arg-type]  # a mistake on purpose
        lambda: people.limit(1).filter(pc.field("age") > 10),
        lambda: people.select("name"),
        lambda: people.limit(-1),
        lambda: people.select(["nope"]).to_arrow(),
    ):
        with pytest.raises(InvalidInput):
            wrong()
    with pytest.raises(NotFound):
        graph.snapshot()["Persons"]


# --- networks -----------------------------------------------------------------------------------------------------------


def test_a_network_has_every_node_and_edge_with_their_properties(graph: og.Graph) -> None:
    network = graph.snapshot().to_networkx()
    assert network.nodes["Person", "ada"] == {"name": "ada", "age": 36}
    assert network.number_of_nodes() == 3
    edges = {(source[1], target[1]): data for source, target, data in network.edges(data=True)}
    assert edges == {("ada", "bob"): {"since": 1}, ("ada", "cy"): {"since": None}}
    assert graph.snapshot().to_networkx(["Knows"]).number_of_nodes() == 3
    assert graph.snapshot().to_networkx(["Person"]).number_of_edges() == 0


def test_a_network_beyond_the_limit_is_refused_before_it_is_read(graph: og.Graph) -> None:
    with pytest.raises(LimitExceeded, match="5 nodes and edges, more than limit=4"):
        graph.snapshot().to_networkx(limit=4)
    assert graph.snapshot().to_networkx(limit=5).number_of_nodes() == 3


def test_a_graph_says_what_to_pickle_instead(graph: og.Graph) -> None:
    with pytest.raises(InvalidInput) as caught:
        pickle.dumps(graph)
    assert "omnigraph.open(" in caught.value.hint
    assert pickle.loads(pickle.dumps(graph.snapshot())).commit_id == graph.snapshot().commit_id


# --- how much is read -----------------------------------------------------------------------------------------------------


@pytest.fixture
def long(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "long.omni", SCHEMA)
    names = [f"p{n:06d}" for n in range(200_000)]
    graph.load(
        og.Batch(nodes={"Person": pa.table({"name": names, "age": pa.array(range(200_000), pa.int32())})}),
        mode="append",
    )
    graph.mutate("query gone() {\n  delete Person where age < 5\n}\n")
    return graph


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each batch that is read from a table."""
    seen: list[int] = []
    batches = TableReader._batches

    def counting(*arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(*arguments):
            seen.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(TableReader, "_batches", counting)
    return seen


def test_a_limit_begins_with_a_few_thousand_rows_of_many(long: og.Graph, pulled: list[int]) -> None:
    """How far DuckDB's reader runs ahead depends on its threads; what it has to wait for does not."""
    snapshot = long.snapshot()
    assert snapshot["Person"].limit(5).to_arrow().num_rows == 5
    assert 0 < sum(pulled) <= 4_096
    pulled.clear()
    assert len(snapshot.sql("select * from Person limit 5").fetchall()) == 5
    assert 0 < pulled[0] <= 2_048 and max(pulled[:10]) <= 2_048


def test_a_stream_that_begins_with_small_batches_holds_every_row_once_and_in_order(long: og.Graph) -> None:
    snapshot = long.snapshot()
    sizes = [batch.num_rows for batch in snapshot.to_batches("Person")]
    assert sizes[0] <= 2_048 and max(sizes) > 10_000
    assert snapshot.to_batches("Person").read_all()["age"].to_pylist() == list(range(5, 200_000))
    assert snapshot.sql("select count(age), sum(age) from Person").fetchall() == [(199_995, sum(range(5, 200_000)))]


@pytest.mark.parametrize(
    "text", ["select count(*) from Person", " SELECT COUNT( * )\nFROM person ; ", "select count(*) as n from Person"]
)
def test_the_number_of_rows_is_answered_without_reading_any(long: og.Graph, pulled: list[int], text: str) -> None:
    found = long.sql(text)
    assert found.fetchall() == [(199_995,)]
    assert pulled == []
    asked = long.snapshot().duckdb().sql(text)
    assert found.columns == asked.columns
    assert found.to_arrow().schema == asked.to_arrow_table().schema


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("select count(*) from Person where age < 10", [(5,)]),
        ("select count(*) from Person, Knows", [(0,)]),
        ("select count(*) from Person limit 0", []),
        ("select count(age) from Person", [(199_995,)]),
        ("select count(*) from (select 1)", [(1,)]),
    ],
)
def test_any_other_count_is_duckdbs(long: og.Graph, text: str, rows: list[tuple[int, ...]]) -> None:
    assert long.sql(text).fetchall() == rows


def test_statements_share_a_database_and_see_their_own_views_alone(graph: og.Graph, long: og.Graph) -> None:
    one, other = graph.sql("select min(name) from Person"), long.sql("select min(name) from Person")
    assert (one.fetchall(), other.fetchall(), one.fetchall()) == ([("ada",)], [("p000005",)], [("ada",)])
    with pytest.raises(QueryInvalid):
        graph.sql("select count(*) from Nowhere").fetchall()
    with pytest.raises(QueryInvalid):
        graph.sql("select * from read_csv('/etc/hostname')").fetchall()
    assert graph.sql("select current_setting('TimeZone')").fetchall() == [("UTC",)]
