"""One limit for every way in: what is loaded can be exported and loaded again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.errors import LimitExceeded
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.schema import parse_schema, table_schema
from omnigraph.write.base.record_size import check_record_bytes

SCHEMA = "node Note { name: String @key  text: String?  data: Blob?  bits: [Bool]?  sizes: [F64]?  n: I64? }\n"
LIMITS = replace(DEFAULT_LIMITS, record_bytes=4_000)

LONG: dict[str, dict[str, Any]] = {
    "a text": {"text": "x" * 4_000},
    "a text that is escaped": {"text": "\x01" * 700},
    "quotes": {"text": '"' * 2_000},
    "bytes": {"data": b"x" * 3_100},
    "booleans": {"bits": [False] * 700},
    "numbers": {"sizes": [1e20] * 200},
    "all together": {"text": "x" * 1_500, "data": b"x" * 1_500, "bits": [True] * 200},
}


def batch_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    schema = table_schema(parse_schema(SCHEMA).node("Note"))
    named = [{"id": row.get("name", "a"), "name": "a", **row} for row in rows]
    plain = pa.schema([pa.field(f.name, pa.large_binary() if f.name == "data" else f.type) for f in schema])
    return pa.RecordBatch.from_pylist(named, plain)


@pytest.mark.parametrize("what", LONG)
def test_a_row_that_is_too_long_in_an_export_is_found_among_others(what: str) -> None:
    declared = parse_schema(SCHEMA).node("Note")
    batch = batch_of(*[{"text": "x" * 100}] * 50, {"name": "long", **LONG[what]}, *[{}] * 10)
    with pytest.raises(LimitExceeded, match="Note long") as caught:
        check_record_bytes(declared, batch, LIMITS)
    assert caught.value.facts["limit"] == "record_bytes"


def test_many_short_rows_are_no_long_one() -> None:
    check_record_bytes(parse_schema(SCHEMA).node("Note"), batch_of(*[{"text": "x" * 3_000}] * 40), LIMITS)


DOORS: dict[str, Callable[[og.Graph, str], object]] = {
    "records": lambda g, text: g.load([{"type": "Note", "data": {"name": "a", "text": text}}], mode="append"),
    "a table": lambda g, text: g.load({"Note": pa.table({"name": ["a"], "text": [text]})}, mode="merge"),
    "a stream": lambda g, text: g.load({"Note": pa.table({"name": ["a"], "text": [text]}).to_reader()}, mode="append"),
    "a mutation": lambda g, text: g.mutate(
        'query q($t: String) { insert Note { name: "a", text: $t } }', params={"t": text}
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_too_long_for_a_load_of_its_export_comes_in_by_no_door(door: str, tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node Note { name: String @key  text: String? }\n") as graph:
        with pytest.raises(LimitExceeded):
            DOORS[door](graph, "x" * DEFAULT_LIMITS.record_bytes)
        assert graph.snapshot().count("Note") == 0


def test_what_is_just_short_enough_comes_back_from_its_export(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node Note { name: String @key  text: String? }\n") as graph:
        DOORS["a table"](graph, "y" * (DEFAULT_LIMITS.record_bytes - 1_000))
        exported = graph.snapshot().export()
    assert len(exported.encode()) <= DEFAULT_LIMITS.record_bytes
    with og.init(tmp_path / "h", "node Note { name: String @key  text: String? }\n") as other:
        other.load(exported, mode="append")
        assert other.snapshot().export() == exported
    assert json.loads(exported)["data"]["name"] == "a"
