"""Streams of JSON values: any layout, any chunk, and reading that goes on after a broken value."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.errors import LimitExceeded
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.write.sources import json_stream as jsonstream
from omnigraph.write.sources.json_stream import Broken, Repeated, read_values


def read(text: bytes | str, chunk: int = 1 << 20, limits: Limits = DEFAULT_LIMITS) -> list[Any]:
    data = text.encode() if isinstance(text, str) else text
    return [value for values in read_values(io.BytesIO(data), limits, chunk) for value in values]


def shape(values: list[Any]) -> list[Any]:
    return [f"broken: {value.raw}" if isinstance(value, Broken) else value for value in values]


CASES: list[tuple[str, list[Any]]] = [
    ("", []),
    (" \n\t\r\n ", []),
    ('{"a":1}\n{"a":2}', [{"a": 1}, {"a": 2}]),
    ('{"a":1}\n{"a":2}\n', [{"a": 1}, {"a": 2}]),
    ('{"a":1}\r\n\r\n\n{"a":2}\r\n', [{"a": 1}, {"a": 2}]),
    ('{"a":1} {"a":2}{"a":3}', [{"a": 1}, {"a": 2}, {"a": 3}]),
    ('{\n  "a": 1,\n  "b": {\n    "c": [\n      1\n    ]\n  }\n}\n{"a":2}\n', [{"a": 1, "b": {"c": [1]}}, {"a": 2}]),
    ('{"a": "x\\n}\\n{"}\n{"a":"},{"}', [{"a": "x\n}\n{"}, {"a": "},{"}]),
    ('{"a" : 1}\n{"a": "b :"}', [{"a": 1}, {"a": "b :"}]),
    ("[1,2]\n3\nnull", [[1, 2], 3, None]),
    ('{"a":1e2,"b":-0.0,"c":123456789012345678901}', [{"a": 100.0, "b": -0.0, "c": 123456789012345678901}]),
    # Broken ones.
    ('{"a":1\n{"b":2}\n{"c":3}\n', ['broken: {"a":1', {"b": 2}, {"c": 3}]),
    ("junk\nmore junk\n{}\n", ["broken: junk", "broken: more junk", {}]),
    ('{"a":1} trailing\n{"b":2}', [{"a": 1}, "broken: trailing", {"b": 2}]),
    ('{"a":1},\n{"b":2}', [{"a": 1}, "broken: ,", {"b": 2}]),
    ('{"a":"x\n{"b":1}', ['broken: {"a":"x', {"b": 1}]),
    ('{"a":1}\n{"b":', [{"a": 1}, 'broken: {"b":']),
    ('{\n "a": 1,,\n "b": 2\n}\n{"c":3}\n', ['broken: {\n "a": 1,,\n "b": 2\n}', {"c": 3}]),
    ("{'a':1}\n{\"b\":2}", ["broken: {'a':1}", {"b": 2}]),
    ('{"a":01}\n{"b":2}', ['broken: {"a":01}', {"b": 2}]),
    # Two objects on one line and one on two do not make up for each other.
    ('{"a":1},{"b":2}\n{"x":[{}\n{}]}', [{"a": 1}, 'broken: ,{"b":2}', 'broken: {"x":[{}', {}, "broken: ]}"]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[repr(text)[:40] for text, _ in CASES])
@pytest.mark.parametrize("chunk", [1, 3, 7, 1 << 20])
def test_values_come_in_order_whatever_the_layout_and_the_chunk(text: str, expected: list[Any], chunk: int) -> None:
    assert shape(read(text, chunk)) == expected


def test_a_byte_order_mark_is_no_value() -> None:
    for chunk in (1, 2, 3, 100):
        assert read(b'\xef\xbb\xbf{"a":1}', chunk) == [{"a": 1}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4), max_size=6),
    st.sampled_from(["\n", " ", "\r\n", "\n\n"]),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.integers(1, 60),
)
def test_every_way_of_writing_values_reads_back(
    values: list[Any], between: str, indent: int | None, ascii_only: bool, chunk: int
) -> None:
    text = between.join(json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values)
    data = text.encode("utf-8", "surrogatepass")
    got = read(data, chunk)
    if ascii_only or not any("\ud800" <= char <= "\udfff" for char in text):
        assert got == values
    assert got == read(data)


def test_a_member_written_twice_is_noticed_in_every_way_of_reading() -> None:
    for text in (
        '{"a":1,"a":2}',
        '{"a" :1,"a":2}',
        '{"data":{"a":1,"a":1}}\n{"b":1}',
        '{"a":1,"a":2}\njunk',
        '{\n"a":1,"a":2}',
        '{"a":1,"b":"\\":","a":2}',
        '{"a":1,"\\u0061":2}',
    ):
        first = read(text)[0]
        found = first if isinstance(first, Repeated) else first["data"]
        assert isinstance(found, Repeated), text
        assert found.member == "a"


def test_not_a_number_is_read_so_that_its_property_can_be_named() -> None:
    [value] = read('{"a": NaN}')
    assert value["a"] != value["a"]


def test_bytes_that_are_no_text_become_lone_surrogates_of_their_value() -> None:
    assert read(b'{"a":"\xff"}\n{"a":"\xc3\xa9"}') == [{"a": "\udcff"}, {"a": "é"}]


def test_deep_nesting_and_endless_digits_are_broken_values_not_crashes() -> None:
    deep = read('{"a":' + "[" * 100_000 + '}\n{"b":1}')
    assert isinstance(deep[0], Broken)
    assert deep[-1] == {"b": 1}
    assert "nested" in deep[0].reason
    digits = read('{"a":' + "1" * 5000 + '}\n{"b":1}')
    assert isinstance(digits[0], Broken)
    assert digits[1:] == [{"b": 1}]


@pytest.mark.parametrize("chunk", [3, 50, 1 << 20])
def test_a_record_may_have_the_bytes_of_the_limit_and_not_one_more(chunk: int) -> None:
    limits = Limits(record_bytes=100)
    fits, too_long = '{"a":"%s"}' % ("x" * 92), '{"a":"%s"}' % ("é" * 47)
    assert len(fits) == 100
    assert len(read(f'{{"b":1}}\n{fits}\n{{"c":1}}', chunk, limits)) == 3
    assert len(too_long.encode()) == 102
    with pytest.raises(LimitExceeded) as raised:
        read(f'{{"b":1}}\n{too_long}\n{{"c":1}}', chunk, limits)
    assert raised.value.limit == "record_bytes"
    assert "record 2" in raised.value.message


def test_many_short_values_on_one_endless_line_are_no_long_record() -> None:
    limits = Limits(record_bytes=1000)
    assert len(read('{"a":1} ' * 5000, 64, limits)) == 5000


def test_a_value_that_never_ends_stops_at_the_limit() -> None:
    with pytest.raises(LimitExceeded):
        read('{"a":"' + "x" * 10_000, 64, Limits(record_bytes=1000))


def test_plain_lines_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the patient way")

    monkeypatch.setattr(jsonstream, "_one_by_one", never)
    monkeypatch.setattr(jsonstream, "_decode_joined", never)
    lines = [
        json.dumps({"type": "P", "data": {"name": f"n {i}", "x": i / 3, "t": "2024-01-01T00:00:00Z"}})
        for i in range(50)
    ]
    for text in ("\n".join(lines), "\n".join(line.replace(" ", "") for line in lines) + "\n", "\r\n".join(lines)):
        assert len(read(text)) == 50
