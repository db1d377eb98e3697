"""A batch through executors is the batch through the engine: the same rows, the same complaints, one commit."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import omnigraph as og
from omnigraph_pipelines.spark import Files, Frame, Records, load, publish, read, stage
from omnigraph_pipelines.spark.sources import filesystem

PEOPLE = [{"name": f"p{n:03}", "age": n % 99, "city": "oslo" if n % 2 else None} for n in range(200)]
KNOWS = [{"id": f"k{n:03}", "from": f"p{n:03}", "to": f"p{(n * 7) % 200:03}", "weight": n / 4} for n in range(200)]


def people(spark: Any, rows: Any = PEOPLE, partitions: int = 3) -> Any:
    return spark.createDataFrame(rows, "name string, age int, city string").repartition(partitions)


def knows(spark: Any, rows: Any = KNOWS) -> Any:
    return spark.createDataFrame(rows, "id string, `from` string, `to` string, weight double")


def test_frames_become_one_commit(spark: Any, graph: og.Graph, tmp_path: Path, files: Any) -> None:
    receipt = load(spark, graph, {"Knows": knows(spark), "Person": people(spark)}, mode="append", actor="spark")
    assert {key: change.inserted for key, change in receipt.tables.items()} == {"node:Person": 200, "edge:Knows": 200}
    assert graph.commits()[0].actor == "spark"
    assert graph.verify(deep=True).ok
    with og.init(tmp_path / "other", SCHEMA_TEXT) as other:
        other.load({"Person": pa.Table.from_pylist(PEOPLE), "Knows": pa.Table.from_pylist(KNOWS)}, mode="append")
        assert sorted(graph.snapshot().export().splitlines()) == sorted(other.snapshot().export().splitlines())
    assert list(Path(graph.uri, "__staging").glob("*")) == []
    before = files()
    again = load(spark, graph, {"Person": people(spark)}, mode="merge")
    assert again.commit_id is None and again.tables["node:Person"].unchanged == 200
    assert files() == before


def test_a_merge_replaces_inserts_and_leaves_alone(spark: Any, graph: og.Graph) -> None:
    load(spark, graph, {"Person": people(spark), "Knows": knows(spark)}, mode="append")
    changed = [{**row, "age": 100} for row in PEOPLE[:50]] + PEOPLE[50:60]
    changed += [{"name": f"q{n}", "age": n, "city": None} for n in range(20)]
    edges = spark.createDataFrame([*KNOWS[:5], {"id": "new", "from": "q1", "to": "p001", "weight": None}])
    receipt = load(spark, graph, {"Person": people(spark, changed), "Knows": edges}, mode="merge")
    person, edge = receipt.tables["node:Person"], receipt.tables["edge:Knows"]
    assert (person.inserted, person.updated, person.unchanged) == (20, 50, 10)
    assert (edge.inserted, edge.updated, edge.unchanged) == (1, 0, 5)
    snapshot = graph.snapshot()
    assert snapshot.count("Person") == 220
    assert snapshot.get("Person", "p003")["age"] == 100 and snapshot.get("Person", "p055")["age"] == 55
    assert graph.verify(deep=True).ok


def test_an_overwrite_replaces_and_is_refused_where_edges_would_dangle(spark: Any, graph: og.Graph, files: Any) -> None:
    load(spark, graph, {"Person": people(spark), "Knows": knows(spark)}, mode="append")
    before = files()
    with pytest.raises(og.errors.DataInvalid, match="would lose"):
        load(spark, graph, {"Person": people(spark, PEOPLE[:100])}, mode="overwrite")
    assert files() == before
    empty = knows(spark, [])
    receipt = load(spark, graph, {"Person": people(spark, PEOPLE[:100]), "Knows": empty}, mode="overwrite")
    assert receipt.tables["node:Person"].deleted == 200 and receipt.tables["edge:Knows"].deleted == 200
    assert graph.snapshot().count("Person") == 100 and graph.snapshot().count("Knows") == 0


BAD = [
    ({"name": None, "age": 1, "city": None}, "Person.name is required"),
    ({"name": "x", "age": 200, "city": None}, "out of range"),
    ({"name": "x", "age": 1, "city": "bonn"}, "bonn"),
    ({"name": "p001", "age": 1, "city": None}, "exists already"),
]


@pytest.mark.parametrize(("row", "said"), BAD)
def test_bad_rows_are_told_as_by_a_load_and_leave_nothing(
    spark: Any, graph: og.Graph, files: Any, row: dict[str, Any], said: str
) -> None:
    load(spark, graph, {"Person": people(spark, PEOPLE[:10])}, mode="append")
    before, head = files(), graph.snapshot().commit_id
    rows = [{"name": "new", "age": None, "city": None}, row]
    with pytest.raises(og.errors.OmnigraphError, match=said) as refused:
        load(spark, graph, {"Person": people(spark, rows, 1)}, mode="append")
    with pytest.raises(og.errors.OmnigraphError) as told:
        graph.load({"Person": people(spark, rows, 1).toArrow()}, mode="append")
    assert refused.value.to_dict() == told.value.to_dict()
    assert files() == before and graph.snapshot().commit_id == head
    assert list(Path(graph.uri, "__staging").glob("*")) == []


def test_bad_rows_are_set_aside_wherever_they_turn_up(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    load(spark, graph, {"Person": people(spark, PEOPLE[:10])}, mode="append")
    rows = [{"name": f"n{n}", "age": n, "city": None} for n in range(30)] + [row for row, _ in BAD]
    frames = {"Person": people(spark, rows, 1), "Knows": knows(spark, [{**KNOWS[0], "to": "nobody"}, KNOWS[1]])}
    aside = tmp_path / "aside.jsonl"
    receipt = load(spark, graph, frames, mode="append", on_bad_row="quarantine", quarantine_to=aside)
    assert receipt.tables["node:Person"].inserted == 30
    assert receipt.rejected.total == 5 == len(aside.read_text().splitlines())
    assert {json.loads(line)["reasons"][0]["code"] for line in aside.read_text().splitlines()} == {
        "required", "range", "enum", "key-conflict", "missing-endpoint",
    }  # fmt: skip
    with pytest.raises(og.errors.DataInvalid, match="bad_rows_max"):
        load(spark, graph, frames, mode="append", on_bad_row="quarantine", bad_rows_max=2)


COLUMNS = [
    ("wrong type", "name string, age string", [("x", "1")], "age"),
    ("missing", "age int", [(1,)], "name"),
    ("unmapped", "name string, shoe int", [("x", 1)], "shoe"),
    ("timestamp for an integer", "name string, age timestamp", [("x", None)], "age"),
]


@pytest.mark.parametrize(("what", "ddl", "rows", "said"), COLUMNS, ids=[column[0] for column in COLUMNS])
def test_columns_that_do_not_fit_are_refused_without_a_job(
    spark: Any, graph: og.Graph, what: str, ddl: str, rows: Any, said: str
) -> None:
    with pytest.raises(og.errors.DataInvalid, match=said):
        load(spark, graph, {"Person": spark.createDataFrame(rows, ddl)}, mode="append")
    assert graph.snapshot().count("Person") == 0
    assert list(Path(graph.uri, "__staging").glob("*")) == []


def test_hostile_frames_are_refused_or_harmless(spark: Any, graph: og.Graph) -> None:
    from pyspark.sql import functions as f

    doubled = spark.createDataFrame([("a", "b")], "name string, other string").toDF("name", "name")
    with pytest.raises(og.errors.DataInvalid, match="two columns"):
        load(spark, graph, {"Person": doubled}, mode="append")
    wide = spark.range(1).select("id", *[f.lit(1).alias(f"c{n}") for n in range(5000)])
    with pytest.raises(og.errors.DataInvalid):
        load(spark, graph, {"Person": wide}, mode="append")
    vectors = spark.createDataFrame([("a", [1.0, 2.0]), ("b", [1.0])], "id string, spot array<double>")
    with pytest.raises(og.errors.DataInvalid, match="2 numbers"):
        load(spark, graph, {"Note": vectors}, mode="append")
    with pytest.raises(og.errors.OmnigraphError):
        load(spark, graph, {"Nobody": vectors}, mode="append")
    nothing = load(spark, graph, {"Person": people(spark, [])}, mode="append")
    assert nothing.commit_id is None
    # What was judged is what is committed, even where the frame says something else each time.
    random = spark.range(50).select(f.expr("uuid()").alias("name"), f.expr("cast(rand() * 99 as int)").alias("age"))
    receipt = load(spark, graph, {"Person": random}, mode="append")
    assert receipt.tables["node:Person"].inserted == 50 == graph.snapshot().count("Person")
    assert graph.verify(deep=True).ok


def test_many_small_partitions_become_few_fragments(spark: Any, graph: og.Graph) -> None:
    batch = stage(spark, graph, {"Person": people(spark, PEOPLE, 8)}, mode="append", target_rows=1000)
    publish(graph, batch, spark=spark)
    assert len(graph.snapshot().fragments("Person")) == 1
    wide = stage(spark, graph, {"Knows": knows(spark).coalesce(1)}, mode="append", target_rows=60)
    publish(graph, wide)
    assert [fragment.rows for fragment in graph.snapshot().fragments("Knows")] == [60, 60, 60, 20]


def test_a_known_key_reads_nothing(spark: Any, graph: og.Graph, files: Any) -> None:
    first = load(spark, graph, {"Person": people(spark)}, mode="append", idempotency_key="crm/1")
    before = files()
    again = load(spark, graph, {"Person": "/nowhere/at/all.csv"}, mode="append", idempotency_key="crm/1")
    assert again.replayed and again.commit_id == first.commit_id
    assert files() == before


def test_a_graph_that_moves_while_a_batch_waits_is_looked_at_again(spark: Any, graph: og.Graph, files: Any) -> None:
    batch = stage(spark, graph, {"Person": people(spark, PEOPLE[:5])}, mode="append")
    graph.load([{"type": "Person", "data": {"name": "p001"}}], mode="append")
    before = set(files())
    with pytest.raises(og.errors.KeyConflict, match="p001"):
        publish(graph, batch)
    assert len(before - files()) == batch.fragments
    batch = stage(spark, graph, {"Person": people(spark, PEOPLE[:5])}, mode="merge")
    graph.load([{"type": "Person", "data": {"name": "p002", "age": 2}}], mode="append")
    receipt = publish(graph, batch, spark=spark, validate="spark")
    assert graph.snapshot().count("Person") == 5
    assert receipt.tables["node:Person"].inserted == 3


# --- files ----------------------------------------------------------------------------------------------------------------


def write(table: pa.Table, path: Path) -> str:
    kind = path.suffix
    if kind == ".parquet":
        pq.write_table(table, path, row_group_size=30)
    elif kind == ".orc":
        orc.write_table(table, str(path))
    elif kind == ".csv":
        pcsv.write_csv(table, str(path))
    else:
        lines = [json.dumps({k: v for k, v in row.items() if v is not None}, default=str) for row in table.to_pylist()]
        path.write_text(f"[{','.join(lines)}]" if kind == ".json" else "\n".join(lines))
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "json", "ndjson", "parquet", "orc"])
def test_files_of_every_format_say_the_same(spark: Any, graph: og.Graph, tmp_path: Path, kind: str) -> None:
    day = [{**row, "since": dt.date(2020, 1, 1 + n % 28)} for n, row in enumerate(KNOWS)]
    renamed = pa.Table.from_pylist(PEOPLE).rename_columns(["full_name", "age", "city"])
    write(renamed.slice(0, 120), tmp_path / f"people1.{kind}")
    write(renamed.slice(120), tmp_path / f"people2.{kind}")
    edges = write(pa.Table.from_pylist(day), tmp_path / f"knows.{kind}")
    given = Files(str(tmp_path / "people*"), columns={"name": "full_name"})
    receipt = load(spark, graph, {"Person": given, "Knows": edges}, mode="append")
    assert {key: change.inserted for key, change in receipt.tables.items()} == {"node:Person": 200, "edge:Knows": 200}
    row = graph.snapshot().get("Knows", "k003")
    assert (row["weight"], row["since"]) == (0.75, dt.date(2020, 1, 4))
    assert graph.snapshot().get("Person", "p150")["age"] == 51


def test_each_file_is_read_by_its_own_format(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "p1.csv").write_text("full_name,age\nada,36\ngrace,85\n")
    (tmp_path / "p2.ndjson").write_text('{"full_name": "alan", "age": 41}\n')
    (tmp_path / "p3.csv").write_text("full_name,age\nkurt,71\n")
    write(pa.table({"full_name": ["emmy"], "age": [53]}), tmp_path / "p4.parquet")
    receipt = load(spark, graph, {"Person": Files(str(tmp_path / "p*"), columns={"name": "full_name"})}, mode="append")
    assert receipt.tables["node:Person"].inserted == 5
    found = graph.snapshot().to_arrow("Person", ["id", "age"]).to_pylist()
    assert {row["id"]: row["age"] for row in found} == {"ada": 36, "grace": 85, "alan": 41, "kurt": 71, "emmy": 53}


def test_a_file_that_breaks_off_is_named(spark: Any, graph: og.Graph, tmp_path: Path, files: Any) -> None:
    """Found where a task reads it, with rows before it that are written already: its own error, not the writer's."""
    good = write(pa.table({"name": [f"a{n}" for n in range(99)]}), tmp_path / "good.parquet")
    whole = Path(write(pa.table({"name": [f"{n:064}" for n in range(999)]}), tmp_path / "cut.parquet")).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:50] + bytes(20_000) + whole[20_050:])
    packed = gzip.compress(b'{"name": "b"}\n' * 10_000)
    (tmp_path / "cut.ndjson.gz").write_bytes(packed[: len(packed) // 2])
    for name in ("cut.parquet", "cut.ndjson.gz"):
        with pytest.raises(og.errors.DataInvalid, match=re.escape(f"{name}: cannot be read")):
            load(spark, graph, {"Person": [good, str(tmp_path / name)]}, mode="append")
    with pytest.raises(og.errors.DataInvalid, match=r"cut.ndjson.gz: cannot be read"):
        load(spark, graph, Records(str(tmp_path / "cut.ndjson.gz")), mode="append")
    assert graph.snapshot().count("Person") == 0


def test_complaints_name_the_file_and_the_row(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,age\n" + "".join(f"a{n},1\n" for n in range(9)) + "a9,old\n")
    (tmp_path / "b.ndjson").write_text('{"name":"b0","age":1}\n{"name":"b1","age":"1"}\n{"name":"b2"\n')
    with pytest.raises(og.errors.DataInvalid, match=r"a.csv record 10 \(.*\): Person.age expects I32\?, got \"old\""):
        load(spark, graph, {"Person": str(tmp_path / "a.csv")}, mode="append")
    with pytest.raises(og.errors.DataInvalid, match=r"b.ndjson record 2") as refused:
        load(spark, graph, {"Person": str(tmp_path / "b.ndjson")}, mode="append")
    assert [one["record"] for one in refused.value.violations] == [2, 3]
    for name, text in (("c.csv", ""), ("d.csv", "name,name\n"), ("e.parquet", "no")):
        (tmp_path / name).write_text(text)
        with pytest.raises(og.errors.DataInvalid, match=re.escape(name)):
            load(spark, graph, {"Person": str(tmp_path / name)}, mode="append")
    with pytest.raises(og.errors.NotFound):
        load(spark, graph, {"Person": str(tmp_path / "none.csv")}, mode="append")


def test_large_texts_are_cut_where_lines_end(
    spark: Any, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph_pipelines.spark.sources._RANGE_BYTES", 400)
    rows = [(f"p{n:03}", 'two\nlines, "quoted"' if n % 3 == 0 else "one") for n in range(150)]
    quoted = "".join('{},"{}"\n'.format(name, text.replace('"', '""')) for name, text in rows)
    (tmp_path / "notes.csv").write_text("id,text\n" + quoted)
    (tmp_path / "people.ndjson").write_text("".join(json.dumps(row) + "\n" for row in PEOPLE))
    batch = stage(
        spark,
        graph,
        {"Note": str(tmp_path / "notes.csv"), "Person": str(tmp_path / "people.ndjson")},
        mode="append",
        target_rows=50,
    )
    assert batch.rows == {"node:Note": 150, "node:Person": 200}
    assert batch.records == 350
    publish(graph, batch)
    assert graph.snapshot().get("Note", "p003")["text"] == 'two\nlines, "quoted"'
    # The number of a record is that in its file, whichever task read it.
    bad = [*PEOPLE, {"name": "z", "age": "x"}, {"name": "p007"}]
    (tmp_path / "bad.ndjson").write_text("".join(json.dumps(row) + "\n" for row in bad))
    with pytest.raises(og.errors.DataInvalid) as refused:
        load(spark, graph, {"Person": str(tmp_path / "bad.ndjson")}, mode="merge")
    assert [one["record"] for one in refused.value.violations] == [201, 202]


def test_records_of_the_engines_own_format(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    lines = [{"type": "Person", "data": row} for row in PEOPLE]
    lines += [{"edge": "Knows", "from": r["from"], "to": r["to"], "data": {"id": r["id"]}} for r in KNOWS]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    receipt = load(spark, graph, Records(str(tmp_path / "all.jsonl")), mode="merge")
    assert {key: change.inserted for key, change in receipt.tables.items()} == {"node:Person": 200, "edge:Knows": 200}


def test_sources_and_graph_on_an_object_store(spark: Any, s3_root: str) -> None:
    """No jar of Hadoop's is there: tasks read and write it with what their environment says."""
    from pyarrow import fs

    store, path = filesystem(f"{s3_root}-landing")
    assert isinstance(store, fs.S3FileSystem)
    store.create_dir(path)
    pq.write_table(pa.Table.from_pylist(PEOPLE[:120]), f"{path}/p1.parquet", filesystem=store, row_group_size=50)
    with store.open_output_stream(f"{path}/p2.ndjson", compression=None) as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in PEOPLE[120:]).encode())
    with store.open_output_stream(f"{path}/knows.csv", compression=None) as stream:
        pcsv.write_csv(pa.Table.from_pylist(KNOWS), stream)
    with og.init(s3_root, SCHEMA_TEXT) as graph:
        given = {"Person": f"{s3_root}-landing/p*", "Knows": f"{s3_root}-landing/knows.csv"}
        receipt = load(spark, graph, given, mode="append")
        assert {key: one.inserted for key, one in receipt.tables.items()} == {"node:Person": 200, "edge:Knows": 200}
        again = load(spark, graph, {"Person": f"{s3_root}-landing/p2.ndjson"}, mode="merge")
        assert again.tables["node:Person"].unchanged == 80
        assert read(spark, graph.snapshot(), "Person", ["id", "age"]).where("age = 7").count() == 2
        with pytest.raises(og.errors.NotFound, match="nothing"):
            load(spark, graph, {"Person": f"{s3_root}-landing/nothing*.csv"}, mode="append")
        assert graph.verify(deep=True).ok


ODD = {
    "decimals": pa.array([Decimal("1.00"), None], pa.decimal128(5, 2)),
    "unsigned": pa.array([7, 8], pa.uint32()),
    "unsigned beyond": pa.array([7, 2**63], pa.uint64()),
    "floats": pa.array([1.0, 2.5], pa.float64()),
    "booleans": pa.array([True, None]),
    "nanoseconds": pa.array([1, 2], pa.timestamp("ns")),
    "dictionaries": pa.array(["1", "2"]).dictionary_encode(),
    "nothing": pa.nulls(2),
    "structs": pa.array([{"a": 1}, None]),
    "lists": pa.array([[1], None]),
}


@pytest.mark.parametrize("kind", ODD)
def test_columns_of_odd_kinds_are_taken_or_refused_as_by_a_load(
    spark: Any, graph: og.Graph, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "odd.parquet"
    for table, kept in (
        ("Person", {"name": ["a", "b"], "age": ODD[kind]}),
        ("Stay", {"id": ["a", "b"], "at": ODD[kind]}),
    ):
        with og.init(tmp_path / table, f"{SCHEMA_TEXT} node Stay {{ at: DateTime? }}") as one:
            rows = pa.table(kept)
            pq.write_table(rows, path)
            mine = said(lambda: load(spark, one, {table: str(path)}, mode="append"))  # noqa: B023
            here = one.snapshot().export()
        with og.init(tmp_path / f"{table}-other", f"{SCHEMA_TEXT} node Stay {{ at: DateTime? }}") as other:
            # What Parquet itself makes of the column is the file's doing.
            assert mine == said(lambda: other.load({table: pq.read_table(path)}, mode="append"))  # noqa: B023
            assert here == other.snapshot().export()


def said(call: Any) -> Any:
    """Counts, or the error without the name of the file."""
    try:
        return {key: change.inserted for key, change in call().tables.items()}
    except og.errors.OmnigraphError as error:
        return error.code, error.message.replace("odd.parquet: ", "").replace("odd.parquet ", "")


def test_columns_of_a_frame_are_mapped(spark: Any, graph: og.Graph) -> None:
    load(spark, graph, {"Person": people(spark)}, mode="append")
    pairs = spark.createDataFrame([("p001", "p002")], "a string, b string")
    receipt = load(spark, graph, {"Knows": Frame(pairs, {"from": "a", "to": "b"})}, mode="append")
    assert receipt.affected_edges == 1


SCHEMA_TEXT = """
node Person { name: String @key  age: I32?  city: enum(oslo, rome)?  mail: String? @unique  @range(age, 0..150) }
node Note { text: String?  spot: Vector(2)? }
edge Knows: Person -> Person @card(0..3) { weight: F64?  since: Date? }
edge Likes: Person -> Note { at: DateTime?  @unique(src, dst) }
"""


def test_a_csv_file_that_ends_inside_quotes_is_refused_as_by_a_load(tmp_path: Path) -> None:
    from omnigraph_pipelines.spark.reading import batches
    from omnigraph_pipelines.spark.sources import Part, find

    (tmp_path / "cut.csv").write_text('age,name\n3,"ada"\n4,"gra')
    with pytest.raises(og.errors.DataInvalid, match="cut.csv.*ends inside a quoted value"):
        list(batches(Part(find(tmp_path / "cut.csv")[0], 1)))
    (tmp_path / "odd.csv").write_text('age,name\n3,5" wide\n4,"say ""hi"""\n')
    [found] = batches(Part(find(tmp_path / "odd.csv")[0], 1))
    assert found["name"].to_pylist() == ['5" wide', 'say "hi"']


@pytest.mark.parametrize("validate", ["driver", "spark"])
def test_partial_rows_and_stubs_come_through_executors(spark: Any, tmp_path: Path, validate: str) -> None:
    schema = "node Person @stub(assumed) { name: String @key  age: I32?  assumed: Bool? }\nedge Knows: Person -> Person"
    with og.init(tmp_path / "stubs", schema) as graph:
        graph.load([{"type": "Person", "data": {"name": "ann", "age": 30}}], mode="append")
        edges = spark.createDataFrame([("ann", "bob"), ("cat", "bob")], "`from` string, `to` string")
        policy: dict[str, Any] = {"on_missing_endpoint": "stub", "validate": validate}
        with pytest.raises(og.errors.DataInvalid, match="2 of 2 records fail the check 'endpoints'"):
            load(spark, graph, {"Knows": edges}, mode="append", bounds={"endpoints": 0.5}, **policy)
        receipt = load(spark, graph, {"Knows": edges}, mode="append", **policy)
        assert receipt.stubs == {"Person": 2} and receipt.rejected.missing_ids == {"bob": 2, "cat": 1}
        named = tmp_path / "rows.json"
        named.write_text('{"name": "bob", "age": 7}\n{"name": "ann"}\n')
        patched = load(spark, graph, {"Person": Files([str(named)], "ndjson")}, mode="patch", validate=validate)
        change = patched.tables["node:Person"]
        assert (change.inserted, change.updated, change.unchanged) == (0, 1, 1)
        found = {row["name"]: (row["age"], row["assumed"]) for row in graph.snapshot().to_arrow("Person").to_pylist()}
        assert found == {"ann": (30, False), "bob": (7, False), "cat": (None, True)}
        assert graph.verify(deep=True).ok
