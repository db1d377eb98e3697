"""The columns of a table: names, order, types, and what travels as metadata."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from omnigraph.schema import parse_schema, table_schema
from omnigraph.schema.arrow import BLOB_COLUMN, PRIMARY_KEY, PROP_ID, TYPE_ID, table_schemas

TYPES = {
    "String": pa.utf8(),
    "enum(a, b)": pa.utf8(),
    "Bool": pa.bool_(),
    "I32": pa.int32(),
    "I64": pa.int64(),
    "U32": pa.uint32(),
    "U64": pa.uint64(),
    "F32": pa.float32(),
    "F64": pa.float64(),
    "Date": pa.date32(),
    "DateTime": pa.timestamp("us", "UTC"),
    "Vector(3)": pa.list_(pa.field("item", pa.float32(), nullable=True), 3),
    "Blob": pa.large_binary(),
    "[I32]": pa.list_(pa.field("item", pa.int32(), nullable=True)),
    "[DateTime]": pa.list_(pa.field("item", pa.timestamp("us", "UTC"), nullable=True)),
}


@pytest.mark.parametrize("text", TYPES)
def test_every_type_has_its_arrow_type(text: str) -> None:
    node = parse_schema(f"node N {{ a: {text} b: {text}? }}").node("N")
    schema = table_schema(node)
    assert schema.names == ["id", "a", "b"]
    assert schema.field("a").type == schema.field("b").type == TYPES[text]
    assert (schema.field("a").nullable, schema.field("b").nullable) == (False, True)


def test_columns_stand_in_one_order_whatever_the_source() -> None:
    catalog = parse_schema("node N { z: I32 a: I32 m: I32 aB: I32 }")
    assert table_schema(catalog.node("N")).names == ["id", "a", "aB", "m", "z"]
    edges = parse_schema("node N {} edge E: N -> N { z: I32 a: I32 }")
    assert table_schema(edges.edge("E")).names == list(edges.edge("E").columns) == ["id", "src", "dst", "a", "z"]


def test_identity_columns_are_texts_without_nulls_and_id_is_the_declared_key() -> None:
    catalog = parse_schema("node N {} edge E: N -> N")
    for schema in table_schemas(catalog).values():
        assert schema.field("id").metadata == PRIMARY_KEY
        for name in ("id", "src", "dst"):
            if name in schema.names:
                assert schema.field(name).type == pa.utf8() and not schema.field(name).nullable
    assert list(table_schemas(catalog)) == ["edge:E", "node:N"]


def test_identities_and_blob_marks_travel_as_metadata() -> None:
    numbers = itertools.count(1)
    catalog = parse_schema("node N { a: I32 b: Blob? c: [Blob] }", mint=lambda: f"id-{next(numbers)}")
    schema = table_schema(catalog.node("N"))
    assert schema.metadata == {TYPE_ID: b"id-1"}
    assert schema.field("a").metadata == {PROP_ID: b"id-2"}
    assert schema.field("b").metadata == {PROP_ID: b"id-3"} | BLOB_COLUMN
    assert schema.field("c").metadata == {PROP_ID: b"id-4"}


def test_without_identities_there_is_no_metadata_about_them() -> None:
    schema = table_schema(parse_schema("node N { a: I32 }").node("N"))
    assert schema.metadata is None and schema.field("a").metadata is None
