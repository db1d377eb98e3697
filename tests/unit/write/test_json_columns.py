"""Lines read by columns come to exactly what the reader of records makes of them: values, ids, numbers, complaints, refusals."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.core.errors import OmnigraphError
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.schema import parse_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.write.sources import opening
from omnigraph.write.sources.input import Input, read_source
from omnigraph.write.sources.json_columns import ColumnReader

SCHEMA = """
node Person { name: String @key  age: I32?  big: I64?  small: U32?  huge: U64?  size: F32?  score: F64?  ok: Bool?  born: Date?
  seen: DateTime?  tags: [String]?  marks: [F32]?  counts: [I64]?  face: Vector(2)?  photo: Blob?  mood: enum(x, y)? }
node Item { sku: I64 @key  title: String  price: F64? }
node Day { day: Date @key  note: String?  age: String? }
node Spot { x: I32  y: I32  note: String?  @key(x, y) }
node Note { text: String? }
edge Knows: Person -> Person { since: I32?  note: String? }
edge Owns: Person -> Item { n: I32? }
edge Was: Day -> Spot { note: String? }
"""

GOOD = [
    '{"type":"Person","data":{"name":"ada"}}',
    '{"type": "Person", "data": {"name": "bob", "age": 7, "score": 1.5, "ok": true, "born": "2020-02-29"}}',
    '{"type":"Person","data":{"name":"cy","age":null,"tags":["a",null],"marks":[1,2.5],"face":[0.1,2]}}',
    '{"data":{"seen":"2020-01-01T10:00:00Z","name":"d","mood":"x","huge":18446744073709551615},"type":"Person"}',
]
OTHERS = [
    '{"type":"Item","data":{"sku":1,"title":"a"}}',
    '{"type":"Note","data":{"text":"t"}}',
    '{"edge":"Knows","from":"ada","to":"bob"}',
    '{"edge":"Knows","from":"ada","to":"bob","data":{"since":3,"id":"e1"}}',
    '{"edge":"Owns","from":"ada","to":7,"data":{"n":1}}',
    '{"edge":"Owns","from":"ada","to":"7","data":{}}',
    '{"edge":"Was","from":"2020-01-01","to":[1,2],"data":{}}',
    '{"type":"Day","data":{"day":"2020-01-01"}}',
    '{"type":"Spot","data":{"x":1,"y":2}}',
]
VALUES = [
    *(
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-1",
        "1.0",
        "-0.0",
        "1e2",
        "1E2",
        "1e400",
        "-1e400",
        "1e-400",
        "NaN",
        "Infinity",
    ),
    *("-Infinity", "01", "+1", ".5", "1.", "2147483647", "2147483648", "-2147483649", "4294967295", "4294967296"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
    ),
    *(
        "9007199254740993",
        "16777217",
        "123456789012345678901234567890",
        "0.1",
        "3.4e38",
        "3.5e38",
        "-1e-60",
        "5e-324",
        "1e308",
    ),
    *(
        '""',
        '"a"',
        '"\\u0000"',
        '"\\u00e4"',
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"\\udc00"',
        '"\\ud800x"',
        '"\\x"',
        '"\t"',
        '"ä"',
        '"\\/"',
    ),
    *(
        '"2020-01-01"',
        '"2020-02-30"',
        '"0000-01-01"',
        '"9999-12-31"',
        '"10000-01-01"',
        '"20200101"',
        '"2020-W01-1"',
        '" 2020-01-01"',
    ),
    *('"2020-01-01T10:00:00Z"', '"2020-01-01 10:00:00"', '"2020-01-01T10:00:00"', '"2020-01-01T10:00:00.123456789Z"'),
    *(
        '"2020-01-01T10:00:00.12Z"',
        '"2020-01-01T24:00:00Z"',
        '"2020-01-01T23:59:60Z"',
        '"2020-01-01T10:00:00+25:00"',
        '"2020-01-01T10:00Z"',
    ),
    *(
        '"2020-01-01T10:00:00+23:59"',
        '"2020-01-01T10:00:00+02:60"',
        '"0001-01-01T00:00:00+01:00"',
        '"9999-12-31T23:59:59.999999Z"',
    ),
    *(
        '"2020-01-01T10:00:00,5Z"',
        '"2020-01-01T10:00:00z"',
        '"2020-01-01t10:00:00Z"',
        '"1"',
        '"true"',
        '"null"',
        '"NaN"',
        '"base64:aGk="',
    ),
    *(
        '"base64:?"',
        '"x"',
        '"z"',
        "[]",
        "[null]",
        "[1]",
        "[1,2]",
        "[1.5,null]",
        "[0.1,1e39]",
        "[-0,1]",
        "[1,2,3]",
        '["a","\\ud800"]',
    ),
    *(
        '["a",1]',
        "[[1]]",
        "[1,",
        "{}",
        '{"a":1}',
        '"' + "x" * 5000 + '"',
        "[" * 60 + "]" * 60,
        "[" * 3000 + "]" * 3000,
        "1 2",
        "",
        "tru",
    ),
    *(
        "9" * 400,
        "9" * 5000,
        "0." + "0" * 5000 + "1",
        "1" + "0" * 22,
        "123456789.123456789123456789",
        "1e22",
        "1e23",
        "8.5e-45",
    ),
]
PROPERTIES = [
    *(
        "name",
        "id",
        "age",
        "big",
        "small",
        "huge",
        "size",
        "score",
        "ok",
        "born",
        "seen",
        "tags",
        "marks",
        "counts",
        "face",
        "photo",
    ),
    *("mood", "nope", "", "type", "n\\u0061me"),
]
ODD = [
    "",
    " ",
    "\r",
    "\ufeff",
    "null",
    "1",
    '"x"',
    "[]",
    "{}",
    "x",
    "}{",
    "{",
    "}",
    "\x00",
    "\x0c",
    "\x1e",
    "// no",
    "﻿{}",
    '{"type":"Person","type":"Person","data":{"name":"a"}}',
    '{"type":"Person","data":{"name":"a"},"data":{"name":"b"}}',
    '{"type":"Person","data":{"name":"a","name":"a"}}',
    '{"type":"Person","data":{"name":"a","age":null,"age":1}}',
    '{"type":"Person","data":{"name":"a","age":1,"age":null}}',
    '{"type":"Person","data":{"name":"a","n\\u0061me":"b"}}',
    '{"type":"Person","data":null}',
    '{"type":"Person"}',
    '{"type":"Person","data":[]}',
    '{"type":"Person","data":{}}',
    '{"type":null,"data":{"name":"a"}}',
    '{"type":"Nobody","data":{"name":"a"}}',
    '{"type":5,"data":{"name":"a"}}',
    '{"data":{"name":"a"}}',
    '{"type":"Person","edge":null,"data":{"name":"a"}}',
    '{"type":"Person","edge":"Knows","from":"a","to":"b"}',
    '{"type":"Person","from":null,"data":{"name":"a"}}',
    '{"type":"Person","from":"x","data":{"name":"a"}}',
    '{"type":"Knows","from":"a","to":"b"}',
    '{"edge":"Person","data":{"name":"a"}}',
    '{"type":"Person","data":{"name":"a"},"x":1}',
    '{"type":"Person","data":{"name":"a"},"x":null}',
    '{"type":"Item","data":{"sku":2,"title":"t","age":null}}',
    '{"type":"Item","data":{"sku":2}}',
    '{"type":"Item","data":{"sku":2,"title":null}}',
    '{"type":"Day","data":{"day":"2020-01-01","age":"old"}}',
    '{"type":"Item","data":{"sku":2,"title":"t","ok":true}}',
    '{"type":"Note","data":{"since":1}}',
    '{"edge":"Knows","from":"a","to":"b","data":{"text":"t"}}',
    '{"type":"Note","data":{"age":"old"}}',
    '{"type":"Note","data":{"age":5}}',
    '{"type":"Note","data":{"id":"n1"}}',
    '{"type":"Note","data":{"id":null}}',
    '{"type":"Note","data":{"id":""}}',
    '{"type":"Note","data":{"id":"' + "n" * 3000 + '"}}',
    '{"type":"Person","data":{"id":"bob","name":"ada"}}',
    '{"edge":"Knows","from":null,"to":"b"}',
    '{"edge":"Knows","from":"a"}',
    '{"edge":"Knows","from":1,"to":"b"}',
    '{"edge":"Knows","from":"","to":"b"}',
    '{"edge":"Knows","from":"\\ud800","to":"b"}',
    '{"edge":"Knows","from":["a"],"to":"b"}',
    '{"edge":"Knows","from":"a","to":"b","data":null}',
    '{"edge":"Owns","from":"a","to":1.0}',
    '{"edge":"Owns","from":"a","to":-0}',
    '{"edge":"Owns","from":"a","to":9223372036854775808}',
    '{"edge":"Owns","from":"a","to":true}',
    '{"edge":"Owns","from":"a","to":"07"}',
    '{"edge":"Was","from":"20200101","to":"[1,2]"}',
    '{"edge":"Was","from":18000,"to":"[1,2]"}',
    '{"edge":"Was","from":"never","to":"x"}',
    '{"record":{"type":"Person","data":{"name":"q"}},"reasons":[]}',
    '{"type":"Person","data":{"name":"a"}} {"type":"Person","data":{"name":"b"}}',
    '{"type":"Person","data":{"name":"a"}},{"type":"Person","data":{"name":"b"}}',
    '{"type":"Person","data":{"name":"a"}},',
    '{"type":"Person","data":{"name":"a"}}x',
    '{"type":"Person",\n"data":{"name":"a"}}',
    '{"type":"Person","data":{"name":"a\n{"}}',
    '{"type":"Person","data":{"name":"}\n{"}}',
    '{"type":"Person","data":{"name":"a",}}',
    "{'type':'Person','data':{'name':'a'}}",
    '{"type" : "Person" ,\t"data":{"name" :"a"}}  ',
    '{"type":"Person","data":{"name":"\\"type\\":\\"Item\\""}}',
    '{"type":"Person","data":{"name":"a\x00b"}}',
    '{"type":"Person"\x00,"data":{"name":"a"}}',
    '{"type":"Person","data":{"name":"a"}}\r',
    '\r{"type":"Person","data":{"name":"a"}}',
    '{"type":"Person",\r"data":{"name":"a"}}',
    '{"TYPE":"Person","data":{"name":"a"}}',
    '{"type":"Person","data":{"name":"a"',
    '{"type":"Person","data":{"name":"' + "é" * 40000 + '"}}',
    '{"type":"person","data":{"name":"a"}}',
]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    serial = itertools.count()
    return parse_schema(SCHEMA, mint=lambda: f"i{next(serial)}")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many records each block gave that was taken by columns."""
    found: list[int] = []
    take = ColumnReader.take

    def counted(self: ColumnReader, chunk: bytes) -> int | None:
        self._pause = 0  # every block is tried
        records = take(self, chunk)
        found.extend([] if records is None else [records])
        return records

    monkeypatch.setattr(ColumnReader, "take", counted)
    yield found


def outcome(source: Any, catalog: Catalog, limits: Limits, keep: bool, from_bytes: int) -> Any:
    before = opening.COLUMNS_FROM_BYTES
    opening.COLUMNS_FROM_BYTES = from_bytes  # type: ignore[misc]
    try:
        return told(read_source(source, catalog, limits, keep_rejected=keep))
    except OmnigraphError as error:
        return type(error), str(error), error.to_dict()
    finally:
        opening.COLUMNS_FROM_BYTES = before  # type: ignore[misc]


def told(given: Input) -> Any:
    tables = {}
    for key, table in given.tables.items():
        rows = table.rows.num_rows
        minted = np.full(rows, table.minted) if isinstance(table.minted, bool) else table.minted
        listed = table.rows.to_pylist()
        for row, made in zip(listed, minted.tolist(), strict=True):
            if made:
                assert len(row["id"]) == 26
                row["id"] = "made"
        where = table.origin.take(np.arange(rows, dtype=np.int64)) if rows else None
        numbers = None if where is None or where.numbers is None else where.numbers.tolist()
        names = [(part.name, part.order) for part in table.origin.parts]
        tables[key] = (table.rows.schema, repr(listed), minted.tolist(), numbers, sorted(set(names)))
        table.rows.validate(full=True)
    log = given.malformed
    complaints = [violation.to_dict() for violation in log.shown]
    return tables, given.records, log.total, dict(log.by_code), complaints, repr(given.rejected), given.warnings


def compare(text: bytes, catalog: Catalog, folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
    path = folder / "records.jsonl"
    path.write_bytes(text)
    keep = len(text) % 2 == 1  # whether refused records are kept: both come up often enough
    judge = outcome(path, catalog, limits, keep, 1 << 60)
    columns = outcome(path, catalog, limits, keep, 0)
    assert columns == judge, text[:2000]


def encoded(lines: list[str], end: str = "\n") -> bytes:
    return end.join(lines).encode("utf-8", "surrogatepass") + end.encode()


def test_good_blocks_are_taken(catalog: Catalog, tmp_path: Path, taken: list[int]) -> None:
    for lines in (
        GOOD * 50,
        OTHERS[:1] * 20,
        OTHERS[2:4] * 20,
        OTHERS[4:5] * 20,
        OTHERS[7:8] * 20,
        [*OTHERS[:4], *OTHERS[7:9]] * 20,
    ):
        taken.clear()
        compare(encoded(lines), catalog, tmp_path)
        assert taken == [len(lines)], lines[0]


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_value_of_any_property_is_the_same(name: str, catalog: Catalog, tmp_path: Path, taken: list[int]) -> None:
    for value in VALUES:
        line = f'{{"type":"Person","data":{{"name":"z","{name}":{value}}}}}'
        if name in ("name", "n\\u0061me"):
            line = f'{{"type":"Person","data":{{"{name}":{value}}}}}'
        compare(encoded([GOOD[0], line, *GOOD[1:3]]), catalog, tmp_path)
    assert bool(taken) == (name not in ("nope", "", "type"))


@pytest.mark.parametrize("at", [0, 2, 4])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_of_any_shape_is_the_same(at: int, end: str, catalog: Catalog, tmp_path: Path) -> None:
    for odd in [*ODD, *OTHERS]:
        lines = list(GOOD)
        lines.insert(at, odd)
        compare(encoded(lines, end), catalog, tmp_path)
        compare(encoded(lines, end).rstrip(b"\r\n"), catalog, tmp_path)


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_a_line_among_many_types_is_the_same(odd: str, catalog: Catalog, tmp_path: Path) -> None:
    compare(encoded([*OTHERS[:4], odd, GOOD[0]]), catalog, tmp_path)
    compare(encoded([odd]), catalog, tmp_path)


@pytest.mark.parametrize(
    "start", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf", b"\xff\xfe", b"\xef", b"\n\n", b"\x1f\x8b"]
)
def test_what_stands_before_the_first_record_is_the_same(start: bytes, catalog: Catalog, tmp_path: Path) -> None:
    compare(start + encoded(GOOD), catalog, tmp_path)
    compare(encoded(GOOD) + start + encoded(GOOD), catalog, tmp_path)


def test_a_block_whose_rows_end_early_is_not_taken(catalog: Catalog, tmp_path: Path) -> None:
    one = GOOD[0]
    for count in range(1, 5):
        for gap in ("", " ", "\x00", "\x00}", " \x00 }", "\x00{}"):
            compare(encoded([one * (count + 1) + gap, *[GOOD[1]] * count]), catalog, tmp_path)
            compare(encoded([one + gap + one * count, *[GOOD[1]] * count]), catalog, tmp_path)
            compare(encoded([GOOD[1], one * (count + 1) + gap, *[GOOD[1]] * count]), catalog, tmp_path)


def test_bytes_that_are_no_utf8_are_the_same(catalog: Catalog, tmp_path: Path) -> None:
    for raw in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"):
        for place in (
            b'{"type":"Person","data":{"name":"%s"}}\n',
            b'{"type":"%s","data":{"name":"a"}}\n',
            b'{"edge":"Knows","from":"%s","to":"b"}\n',
        ):
            compare(encoded(GOOD) + place % raw + encoded(GOOD), catalog, tmp_path)


def test_limits_are_the_same(catalog: Catalog, tmp_path: Path) -> None:
    limits = Limits(record_bytes=200, id_bytes=20)
    for size in (10, 19, 20, 21, 150, 160, 170, 200, 5000):
        line = json.dumps({"type": "Person", "data": {"name": "n" * size}})
        compare(encoded([*GOOD[:1], line, *GOOD[:1]]), catalog, tmp_path, limits=limits)


@pytest.mark.parametrize("seed", range(12))
def test_records_that_were_damaged_at_random_are_the_same(seed: int, catalog: Catalog, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        lines = [rng.choice(GOOD + OTHERS if seed % 2 else GOOD) for _ in range(rng.randint(1, 8))]
        text = bytearray(encoded(lines))
        for _ in range(rng.choice([0, 1, 1, 2])):
            at = rng.randrange(len(text))
            match rng.randrange(4):
                case 0:
                    del text[at : at + rng.randint(1, 3)]
                case 1:
                    text[at:at] = rng.choice(
                        [
                            b'"',
                            b"\\",
                            b"{",
                            b"}",
                            b",",
                            b":",
                            b"0",
                            b"-",
                            b" ",
                            b"\n",
                            b"\r",
                            b"\0",
                            b"null",
                            b"e",
                            b"\xff",
                        ]
                    )
                case 2:
                    text[at] = rng.randrange(256)
                case 3:
                    other = rng.randrange(len(text))
                    text[at], text[other] = text[other], text[at]
        compare(bytes(text), catalog, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_at_random_are_the_same(seed: int, catalog: Catalog, tmp_path: Path, taken: list[int]) -> None:
    rng = random.Random(seed)

    def number() -> str:
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 25))).lstrip("0") or "0"
        fraction = "." + "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 25)))
        exponent = f"e{rng.randint(-330, 310)}" if rng.random() < 0.3 else ""
        return rng.choice(["", "-"]) + digits + (fraction if rng.random() < 0.8 else "") + exponent

    lines = []
    for n in range(400):
        data = f'"name":"{n}","score":{number()},"size":{number() if n % 7 == 0 else rng.random()},"marks":[{rng.random()}],"face":[1,{rng.random()}]'
        lines.append(f'{{"type":"Person","data":{{{data}}}}}')
    for start in range(0, len(lines), 4):
        compare(encoded(lines[start : start + 4]), catalog, tmp_path)
    assert len(taken) > 20


def test_an_input_of_many_blocks_is_numbered_through(catalog: Catalog, tmp_path: Path, taken: list[int]) -> None:
    bad = '{"type":"Person","data":{"name":"b","age":"old"}}'
    lines = [*GOOD * 4000, bad, *[OTHERS[0], OTHERS[2]] * 6000, *GOOD * 6000, bad, *OTHERS[4:5] * 9000]
    compare(encoded(lines), catalog, tmp_path)
    assert sum(taken) > len(lines) / 2


def test_blocks_that_are_never_taken_are_seldom_tried(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    read = ColumnReader._read

    def counted(self: ColumnReader, body: bytes, lines: int) -> Any:
        tried.append(lines)
        return read(self, body, lines)

    monkeypatch.setattr(ColumnReader, "_read", counted)
    path = tmp_path / "records.jsonl"
    path.write_bytes(encoded(['{"type":"Person","data":{"name":"a","score":-0}}'] * 400_000))
    assert read_source(path, catalog).records == 400_000
    assert 4 <= len(tried) <= 8
