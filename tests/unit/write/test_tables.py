"""Tables: columns by name, casts that lose nothing, files, and the rows or columns that are refused."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.core.errors import DataInvalid, InvalidInput, NotFound
from omnigraph.schema import table_schema
from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.write.sources.batch import Batch, TableFile
from omnigraph.write.sources.key_derivation import derive_keys
from omnigraph.write.values.conform import WrongKind, conform_column
from tests.unit.write.support import catalog_of, read

S = ScalarKind
CATALOG = catalog_of(
    """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  tags: [String]?  v: Vector(2)?  ok: Bool?
              score: F64?  pic: Blob? }
node Item { sku: I64 @key }
node Free { text: String? }
edge Knows: Person -> Person { since: I32? }
edge Has: Person -> Item
"""
)


def people(**columns: Any) -> Batch:
    return Batch(nodes={"Person": pa.table(columns)})


def rows(source: Any, table_key: str = "node:Person") -> list[dict[str, Any]]:
    given = read(CATALOG, source)
    assert not given.malformed, given.malformed.shown
    return given.tables[table_key].rows.to_pylist()


# --- casts --------------------------------------------------------------------------------------------------------------

MOMENT = 1_709_208_000_000_000


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        (PropType(S.STRING), pa.array(["a"], pa.large_utf8()), ["a"]),
        (PropType(S.STRING), pa.array(["a"], pa.string_view()), ["a"]),
        (PropType(S.STRING), pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (PropType(S.STRING), pa.nulls(2), [None, None]),
        (PropType(S.I64), pa.array([1, -1], pa.int32()), [1, -1]),
        (PropType(S.I32), pa.array([1, -(2**31)], pa.int64()), [1, -(2**31)]),
        (PropType(S.U64), pa.array([1], pa.int8()), [1]),
        (PropType(S.I32), pa.array([1, 1], pa.int32()).dictionary_encode(), [1, 1]),
        (PropType(S.F64), pa.array([0.5], pa.float32()), [0.5]),
        (PropType(S.F64), pa.array([2**53], pa.int64()), [float(2**53)]),
        (PropType(S.F32), pa.array([0.5, None], pa.float64()), [0.5, None]),
        (PropType(S.F64), pa.array(np.array([0.5], dtype="f2")), [0.5]),
        (PropType(S.DATE), pa.array([86_400_000], pa.date64()), [dt.date(1970, 1, 2)]),
        (PropType(S.DATETIME), pa.array([MOMENT * 1000], pa.timestamp("ns")), [MOMENT]),
        (PropType(S.DATETIME), pa.array([-1_000], pa.timestamp("ns", "UTC")), [-1]),
        (PropType(S.DATETIME), pa.array([MOMENT // 1000], pa.timestamp("ms", "Europe/Berlin")), [MOMENT]),
        (PropType(S.DATETIME), pa.array([MOMENT // 10**6], pa.timestamp("s")), [MOMENT]),
        (PropType(S.DATETIME), pa.array([1], pa.date32()), [86_400_000_000]),
        (PropType(S.BLOB), pa.array([b"x"], pa.binary()), [b"x"]),
        (PropType(S.BLOB), pa.array([b"xy"], pa.binary(2)), [b"xy"]),
        (PropType(S.VECTOR, dim=2), pa.array([[1.0, 2.0]], pa.list_(pa.float64())), [[1.0, 2.0]]),
        (
            PropType(S.VECTOR, dim=2),
            pa.array([[0.1, 2.0], None], pa.list_(pa.float64(), 2)),
            [[float(np.float32(0.1)), 2.0], None],
        ),
        (
            PropType(S.STRING, is_list=True),
            pa.array([["a", None], None, []], pa.large_list(pa.large_utf8())),
            [["a", None], None, []],
        ),
        (PropType(S.I64, is_list=True), pa.array([[1], [2, 3]], pa.list_(pa.int8())).slice(1), [[2, 3]]),
    ],
    ids=str,
)
def test_a_cast_that_loses_nothing_is_made(kind: PropType, column: pa.Array, expected: list[Any]) -> None:
    taken, bad = conform_column(kind, column)
    assert bad == []
    got = taken.view(pa.int64()).to_pylist() if kind.scalar is S.DATETIME else taken.to_pylist()
    assert got == expected


@pytest.mark.parametrize(
    ("kind", "column", "bad_rows", "code"),
    [
        (PropType(S.I32), pa.array([1, 2**31, None, -(2**31) - 1], pa.int64()), [1, 3], "out-of-range-integer"),
        (PropType(S.U32), pa.array([0, -1], pa.int32()), [1], "out-of-range-integer"),
        (PropType(S.I64), pa.array([0, 2**63], pa.uint64()), [1], "out-of-range-integer"),
        (PropType(S.F64), pa.array([0, 2**53 + 1, 2**63 - 1], pa.int64()), [1, 2], "out-of-range-integer"),
        (PropType(S.F32), pa.array([0.5, 0.1], pa.float64()), [1], "out-of-range-integer"),
        (PropType(S.F64), pa.array([0.5, float("nan"), float("inf")]), [1, 2], "not-finite"),
        (PropType(S.DATE), pa.array([0, 3 * 10**6], pa.date32()), [1], "bad-date"),
        (PropType(S.DATETIME), pa.array([0, 1], pa.timestamp("ns")), [1], "bad-date"),
        (PropType(S.DATETIME), pa.array([0, 2**62], pa.timestamp("us")), [1], "bad-date"),
        (PropType(S.DATETIME), pa.array([0, 2**62], pa.timestamp("s")), [1], "bad-date"),
        (PropType(S.VECTOR, dim=2), pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32())), [1], "wrong-length"),
        (PropType(S.VECTOR, dim=2), pa.array([[1.0, 2.0], [1.0, None]], pa.list_(pa.float32())), [1], "wrong-kind"),
        (
            PropType(S.VECTOR, dim=2),
            pa.array([[1.0, 2.0], [1.0, float("nan")]], pa.list_(pa.float32(), 2)),
            [1],
            "not-finite",
        ),
        (
            PropType(S.I32, is_list=True),
            pa.array([[], [1, 2**40], None, [2**40]], pa.list_(pa.int64())),
            [1, 3],
            "out-of-range-integer",
        ),
    ],
    ids=str,
)
def test_rows_that_would_lose_something_are_named(
    kind: PropType, column: pa.Array, bad_rows: list[int], code: str
) -> None:
    _, bad = conform_column(kind, column)
    assert [(each.rows.tolist(), each.code) for each in bad] == [(bad_rows, code)]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (PropType(S.STRING), pa.array([1])),
        (PropType(S.STRING), pa.array([b"x"])),
        (PropType(S.I32), pa.array(["1"])),
        (PropType(S.I32), pa.array([1.0])),
        (PropType(S.I32), pa.array([True])),
        (PropType(S.BOOL), pa.array([1])),
        (PropType(S.F64), pa.array(["1"])),
        (PropType(S.DATE), pa.array(["2024-01-01"])),
        (PropType(S.DATE), pa.array([0], pa.timestamp("us"))),
        (PropType(S.DATETIME), pa.array(["2024-01-01"])),
        (PropType(S.DATETIME), pa.array([0], pa.time64("us"))),
        (PropType(S.BLOB), pa.array(["x"])),
        (PropType(S.VECTOR, dim=1), pa.array([["x"]])),
        (PropType(S.VECTOR, dim=1), pa.array([1.0])),
        (PropType(S.STRING, is_list=True), pa.array(["x"])),
        (PropType(S.STRING, is_list=True), pa.array([[1]])),
        (PropType(S.STRING), pa.array([{"a": 1}])),
    ],
    ids=str,
)
def test_a_column_of_another_kind_is_refused_whole(kind: PropType, column: pa.Array) -> None:
    with pytest.raises(WrongKind):
        conform_column(kind, column)


def test_bytes_that_claim_to_be_text_are_found() -> None:
    lying = pa.array([b"ok", b"\xff\xfe", None]).view(pa.utf8())
    taken, bad = conform_column(PropType(S.STRING), lying)
    assert [(each.rows.tolist(), each.code) for each in bad] == [([1], "bad-text")]
    assert taken.to_pylist() == ["ok", None, None]


# --- columns ------------------------------------------------------------------------------------------------------------


def test_columns_go_by_name_and_missing_ones_are_null() -> None:
    [row] = rows(people(age=[3], name=["a"]))
    assert (row["id"], row["age"], row["born"]) == ("a", 3, None)


@pytest.mark.parametrize(
    ("columns", "code", "name"),
    [
        ({"name": ["a"], "agee": [1]}, "unknown-property", "agee"),
        ({"age": [1]}, "required", "name"),
        ({"name": ["a"], "from": ["x"]}, "unknown-property", "from"),
        ({"name": [1]}, "wrong-kind", "name"),
        ({"name": ["a"], "age": ["1"]}, "wrong-kind", "age"),
        ({"name": ["a"], "id": [1]}, "wrong-kind", "id"),
    ],
)
def test_a_column_at_fault_is_named(columns: dict[str, Any], code: str, name: str) -> None:
    with pytest.raises(DataInvalid) as raised:
        read(CATALOG, people(**columns))
    [violation] = raised.value.violations
    assert (violation["code"], violation["property"], violation["type"]) == (code, name, "Person")


def test_columns_are_checked_even_where_there_are_no_rows() -> None:
    with pytest.raises(DataInvalid):
        read(CATALOG, people(nothing=pa.array([], pa.int64())))
    given = read(CATALOG, people(name=pa.array([], pa.utf8())), "overwrite")
    assert given.tables["node:Person"].rows.num_rows == 0


def test_edges_need_their_two_columns_under_either_name() -> None:
    for columns in ({"from": ["a"], "to": ["b"]}, {"src": ["a"], "dst": ["b"]}):
        [row] = rows(Batch(edges={"knows": pa.table(columns)}), "edge:Knows")
        assert (row["src"], row["dst"]) == ("a", "b")
    with pytest.raises(DataInvalid) as raised:
        read(CATALOG, Batch(edges={"Knows": pa.table({"from": ["a"]})}))
    assert raised.value.violations[0]["code"] == "endpoint-required"
    with pytest.raises(DataInvalid):
        read(CATALOG, Batch(edges={"Knows": pa.table({"from": ["a"], "src": ["a"], "to": ["b"]})}))


def test_endpoints_may_be_columns_of_the_keys_kind() -> None:
    table = pa.table({"from": ["a", "b"], "to": pa.array([7, 8], pa.int32())})
    assert [row["dst"] for row in rows(Batch(edges={"Has": table}), "edge:Has")] == ["7", "8"]
    with pytest.raises(DataInvalid) as raised:
        read(CATALOG, Batch(edges={"Knows": table}))
    assert raised.value.violations[0]["property"] == "to"


def test_rows_at_fault_are_named_by_row_number_and_the_rest_is_read() -> None:
    given = read(CATALOG, people(name=["a", None, "c"], age=pa.array([1, 2, 2**40])), keep_rejected=True)
    assert [(v.code, v.record, v.property) for v in given.malformed.shown] == [
        ("required", 2, "name"),
        ("out-of-range-integer", 3, "age"),
    ]
    assert given.tables["node:Person"].rows["id"].to_pylist() == ["a"]
    assert [one.record for one in given.rejected] == [
        {"type": "Person", "data": {"age": 2}},
        {"type": "Person", "data": {"name": "c", "age": 2**40}},
    ]


def test_given_ids_of_edges_stay_and_the_others_are_made() -> None:
    table = pa.table({"id": ["x", None], "from": ["a", "a"], "to": ["b", "b"]})
    given = read(CATALOG, Batch(edges={"Knows": table}))
    ids = given.tables["edge:Knows"].rows["id"].to_pylist()
    assert ids[0] == "x"
    assert len(ids[1]) == 26
    assert list(given.tables["edge:Knows"].minted) == [False, True]


def test_whatever_hands_out_an_arrow_stream_is_a_table() -> None:
    import pandas as pd
    import polars as pl

    table = pa.table({"name": ["a", "b"], "age": [1, 2]})
    for given in (
        table,
        table.to_reader(),
        table.to_batches()[0],
        table.to_batches(),
        pd.DataFrame({"name": ["a", "b"], "age": [1, 2]}),
        pl.DataFrame({"name": ["a", "b"], "age": [1, 2]}),
        [{"name": "a", "age": 1}, {"name": "b", "age": 2}],
    ):
        assert [row["id"] for row in rows(Batch(nodes={"Person": given}))] == ["a", "b"], type(given)


def test_rows_of_mappings_take_what_records_take_and_none_of_their_members_is_lost() -> None:
    given = read(
        CATALOG, {"Person": [{"name": "a"}, {"name": "b", "born": "2024-01-01"}], "Has": [{"from": "a", "to": 7}]}
    )
    assert given.tables["node:Person"].rows["born"].to_pylist() == [None, dt.date(2024, 1, 1)]
    assert given.tables["edge:Has"].rows["dst"].to_pylist() == ["7"]
    bad = read(CATALOG, {"Person": [{"name": "a"}, {"name": "b", "nope": 1}], "Knows": [{"from": "a"}]})
    assert [(v.code, v.record, v.type) for v in bad.malformed.shown] == [
        ("endpoint-required", 1, "Knows"),
        ("unknown-property", 2, "Person"),
    ]
    nothing = read(CATALOG, {"Person": []}, "overwrite")
    assert nothing.tables["node:Person"].rows.num_rows == 0


def test_names_of_types_are_checked() -> None:
    table = pa.table({"name": ["a"]})
    for source in (Batch(nodes={"Nobody": table}), Batch(edges={"Person": table}), {"../x": table}):
        with pytest.raises(DataInvalid) as raised:
            read(CATALOG, source)
        assert raised.value.violations[0]["code"] == "unknown-type"
    for wrong in ({1: table}, {"Person": 5}, Batch(edges={"Knows": table, "knows": table}), TableFile("x.csv")):
        with pytest.raises(InvalidInput):
            read(CATALOG, wrong)


def test_what_a_snapshot_gives_can_be_loaded() -> None:
    declared = CATALOG.edge("Knows")
    table = pa.Table.from_pylist([{"id": "k", "src": "a", "dst": "b", "since": 1}], schema=table_schema(declared))
    assert rows({"Knows": table}, "edge:Knows") == table.to_pylist()


# --- files --------------------------------------------------------------------------------------------------------------


def test_parquet_is_read_in_row_groups(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": [f"p{i}" for i in range(10)]}), tmp_path / "p.parquet", row_group_size=3)
    assert [row["id"] for row in rows({"Person": tmp_path / "p.parquet"})] == [f"p{i}" for i in range(10)]


def test_csv_cells_are_read_as_the_property_says(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(
        "name,age,born,seen,tags,v,ok,score,pic\n"
        '"a, b",-3,2024-02-29,2024-02-29T12:00:00+02:00,"[""x"", null]","[1, 2.5]",TRUE,1e3,base64:aGk=\n'
        '"",,,,,,,,\n'
    )
    first, second = rows({"Person": tmp_path / "p.csv"})
    assert first == {
        "id": "a, b", "name": "a, b", "age": -3, "born": dt.date(2024, 2, 29), "tags": ["x", None], "v": [1.0, 2.5],
        "seen": dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC), "ok": True, "score": 1000.0, "pic": b"hi",
    }  # fmt: skip
    assert second["id"] == ""
    assert all(value is None for name, value in second.items() if name not in ("id", "name"))


def test_csv_cells_of_another_kind_are_named_with_file_and_row(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("name,age,ok,score\na,1.5,yes,x\nb,1,true,2\nc,99999999999,,nan\n")
    given = read(CATALOG, {"Person": str(tmp_path / "p.csv")})
    assert [(v.source, v.record, v.code, v.property) for v in given.malformed.shown] == [
        ("p.csv", 1, "wrong-kind", "age"),
        ("p.csv", 1, "wrong-kind", "ok"),
        ("p.csv", 1, "wrong-kind", "score"),
        ("p.csv", 3, "not-finite", "score"),
        ("p.csv", 3, "out-of-range-integer", "age"),
    ]
    assert given.tables["node:Person"].rows["id"].to_pylist() == ["b"]


def test_columns_can_be_mapped_and_files_packed_and_several(tmp_path: Path) -> None:
    (tmp_path / "1.csv.gz").write_bytes(gzip.compress(b"src,when,dst\na,5,b\n"))
    (tmp_path / "2.csv").write_bytes(b"\xef\xbb\xbfsrc,when,dst\nc,6,d\n")
    source = TableFile([tmp_path / "1.csv.gz", tmp_path / "2.csv"], {"from": "src", "to": "dst", "since": "when"})
    given = read(CATALOG, {"Knows": source})
    table = given.tables["edge:Knows"]
    assert [(r["src"], r["dst"], r["since"]) for r in table.rows.to_pylist()] == [("a", "b", 5), ("c", "d", 6)]
    assert [table.origin.place(row)[:2] for row in (0, 1)] == [(1, "1.csv.gz"), (1, "2.csv")]
    with pytest.raises(DataInvalid):
        read(CATALOG, {"Knows": TableFile(tmp_path / "2.csv", {"from": "src", "to": "nowhere", "since": "when"})})


def test_a_directory_stands_for_the_tables_in_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["b"]}), tmp_path / "part-1.parquet")
    pq.write_table(pa.table({"name": ["a"]}), tmp_path / "part-0.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-0.parquet.crc").write_text("x")
    assert [row["id"] for row in rows({"Person": tmp_path})] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.parquet", b"this is no parquet"),
        ("p.parquet", b""),
        ("p.csv", b""),
        ("p.csv", b"name,name\na,b\n"),
        ("p.csv", b"na\xff\xfeme\na\n"),
        ("p.csv.gz", gzip.compress(b"name\n" + b"a\n" * 100_000)[:-100]),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataInvalid) as raised:
        read(CATALOG, {"Person": tmp_path / name})
    assert name in raised.value.message
    assert "\n" not in raised.value.message


def test_files_of_no_known_kind_or_nowhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p.xlsx").write_bytes(b"")
    with pytest.raises(InvalidInput):
        read(CATALOG, {"Person": tmp_path / "p.xlsx"})
    with pytest.raises(NotFound):
        read(CATALOG, {"Person": tmp_path / "p.csv"})


# --- keys for others ----------------------------------------------------------------------------------------------------


def test_derived_keys_are_those_of_a_load() -> None:
    batch = pa.record_batch({"name": ["a", "b"], "age": pa.array([1, None], pa.int64())})
    derived = derive_keys(CATALOG, "Person", batch)
    assert isinstance(derived, pa.RecordBatch)
    assert derived.schema.equals(table_schema(CATALOG.node("Person")), check_metadata=True)
    assert derived.column("id").to_pylist() == ["a", "b"]
    edges = derive_keys(CATALOG, "Has", pa.table({"from": ["a"], "to": pa.array([7], pa.int16())}))
    assert isinstance(edges, pa.Table)
    [row] = edges.to_pylist()
    assert (row["src"], row["dst"], len(row["id"])) == ("a", "7", 26)
    with pytest.raises(DataInvalid) as raised:
        derive_keys(CATALOG, "Person", pa.table({"name": ["a", None]}))
    assert raised.value.violations[0]["record"] == 2
    assert derive_keys(CATALOG, "Person", pa.record_batch({"name": pa.array([], pa.utf8())})).num_rows == 0
