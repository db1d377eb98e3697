"""The columns that the schema layer describes are the columns that the table format keeps."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path

import lance
import pyarrow as pa

from omnigraph.schema import parse_schema, table_schema
from omnigraph.schema.arrow import PRIMARY_KEY, PROP_ID, TYPE_ID

TEXT = """node N {
    b: Bool  i: I32?  l: I64  u: U32  w: U64  f: F32  g: F64  d: Date  t: DateTime  s: String?  e: enum(x, y)
    v: Vector(3)?  li: [I32]?  ls: [String]  lt: [DateTime]?  blob: Blob?
}"""


def made(tmp_path: Path) -> tuple[lance.LanceDataset, pa.Schema]:
    numbers = itertools.count(1)
    schema = table_schema(parse_schema(TEXT, mint=lambda: f"id-{next(numbers)}").node("N"))
    path = str(tmp_path / "N.lance")
    lance.write_dataset(schema.empty_table(), path, data_storage_version="2.2", enable_stable_row_ids=True)
    return lance.dataset(path), schema


def row(name: str, blob: bytes | None) -> dict[str, object]:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    return {
        "id": name, "b": True, "i": None, "l": -1, "u": 1, "w": 2**64 - 1, "f": 0.5, "g": 0.1, "d": dt.date(2024, 1, 2),
        "t": moment, "s": None, "e": "x", "v": [1.0, 2.0, None], "li": [1, None], "ls": [], "lt": [moment, None],
        "blob": blob,
    }  # fmt: skip


def test_the_format_keeps_columns_types_and_identities(tmp_path: Path) -> None:
    dataset, schema = made(tmp_path)
    assert dataset.schema.names == schema.names
    assert dataset.schema.metadata == {TYPE_ID: b"id-1"}
    assert dataset.schema.field("id").metadata == PRIMARY_KEY
    for name in schema.names:
        kept, wanted = dataset.schema.field(name), schema.field(name)
        assert kept.nullable == wanted.nullable
        if name != "blob":
            assert kept.type == wanted.type
        if name != "id":
            assert (kept.metadata or {})[PROP_ID] == (wanted.metadata or {})[PROP_ID]


def test_plain_bytes_go_into_a_blob_column_and_come_back(tmp_path: Path) -> None:
    dataset, schema = made(tmp_path)
    rows = [row("small", b"x"), row("large", b"y" * 200_000), row("empty", b""), row("none", None)]
    fragments = lance.fragment.write_fragments(
        pa.Table.from_pylist(rows, schema), dataset, schema=schema, mode="append", data_storage_version="2.2"
    )
    dataset = lance.LanceDataset.commit(dataset, lance.LanceOperation.Append(fragments), read_version=dataset.version)
    found = dataset.scanner(blob_handling="all_binary").to_table()
    assert found.schema.field("blob").type == pa.large_binary()
    assert found.to_pylist() == rows
    # Read without asking for the bytes, the column holds descriptors: that is what makes it a blob column.
    assert pa.types.is_struct(dataset.to_table(columns=["blob"]).schema.field("blob").type)
