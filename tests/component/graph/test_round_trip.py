"""What is exported can be loaded, and exports again to the same bytes."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

import omnigraph as og

SCHEMA = """
node Thing {
  key: String @key  flag: Bool?  small: I32?  big: I64?  usmall: U32?  ubig: U64?  half: F32?  full: F64?
  day: Date?  moment: DateTime?  mood: enum(glad, sad)?  vec: Vector(3)?  names: [String]?  counts: [I64]?  raw: Blob?
}
node Pair { a: I64  b: Date  @key(b, a) }
node Free { text: String? }
edge Link: Thing -> Thing { since: DateTime?  tags: [String]? }
"""

TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)
# hypothesis takes the bounds without a zone and puts the zone in.
_FIRST, _LAST = (dt.datetime.combine(day, dt.time()) for day in (dt.date(1, 1, 2), dt.date(9999, 12, 30)))
MOMENTS = st.datetimes(_FIRST, _LAST, timezones=st.just(dt.UTC))
DAYS = st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))
FINITE32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


THING = st.fixed_dictionaries(
    {
        "flag": maybe(st.booleans()),
        "small": maybe(st.integers(-(2**31), 2**31 - 1)),
        "big": maybe(st.integers(-(2**63), 2**63 - 1)),
        "usmall": maybe(st.integers(0, 2**32 - 1)),
        "ubig": maybe(st.integers(0, 2**64 - 1)),
        "half": maybe(FINITE32),
        "full": maybe(FINITE),
        "day": maybe(DAYS.map(dt.date.isoformat)),
        "moment": maybe(MOMENTS.map(dt.datetime.isoformat)),
        "mood": maybe(st.sampled_from(["glad", "sad"])),
        "vec": maybe(st.lists(FINITE32, min_size=3, max_size=3)),
        "names": maybe(st.lists(TEXT, max_size=3)),
        "counts": maybe(st.lists(st.integers(-5, 5), max_size=3)),
        "raw": maybe(st.just("base64:aGVsbG8=")),
    }
)


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    keys = draw(st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True))
    records: list[dict[str, Any]] = [{"type": "Thing", "data": {"key": key, **draw(THING)}} for key in keys]
    pairs = draw(st.lists(st.tuples(st.integers(-9, 9), DAYS), max_size=3, unique=True))
    records += [{"type": "Pair", "data": {"a": a, "b": b.isoformat()}} for a, b in pairs]
    records += [{"type": "Free", "data": {"text": text}} for text in draw(st.lists(maybe(TEXT), max_size=2))]
    ends = st.sampled_from(keys)
    for _ in range(draw(st.integers(0, 3))):
        data = {
            "since": draw(maybe(MOMENTS.map(dt.datetime.isoformat))),
            "tags": draw(maybe(st.lists(TEXT, max_size=2))),
        }
        records.append({"edge": "Link", "from": draw(ends), "to": draw(ends), "data": data})
    return draw(st.permutations(records))


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_load_export_load_export_is_byte_identical(records: list[dict[str, Any]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-trip-"))
    try:
        with og.init(folder / "first", SCHEMA) as first:
            first.load(records, mode="append")
            exported = first.snapshot().export()
        with og.init(folder / "second", SCHEMA) as second:
            receipt = second.load(exported, mode="append")
            assert sum(change.inserted for change in receipt.tables.values()) == len(records)
            assert second.snapshot().export() == exported
            assert second.load(exported, mode="merge").commit_id is None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
