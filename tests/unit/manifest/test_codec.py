"""A plain pin is read without being parsed, and means what parsing says it means."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any
from unittest import mock

import pytest

from omnigraph.manifest import codec
from omnigraph.manifest import rows as r
from omnigraph.manifest.recent import extended
from tests.unit.manifest.material import BRANCH, MAIN, pin, ulid

PLAIN = pin(1, rows=7, fragments=2, bytes=4_096, deleted_rows=1, unindexed_fragments=3, ref=f"g-{BRANCH}")
PINS = {
    "plain": PLAIN,
    "on main": replace(PLAIN, ref=None),
    "with bases": replace(PLAIN, bases=(r.BaseVersion(None, 1, True),)),
    "with recent": replace(PLAIN, recent=extended(None, {3: ["a", "b"]})),
    "a large number": replace(PLAIN, bytes=10**20),
    "a name that is escaped": replace(PLAIN, type_id='a"\\\n'),
    "a name in another script": replace(PLAIN, type_id="é\x7f\U0001f600"),
}
CELLS: dict[str, list[Any]] = {
    "object_id": ["node:X"], "object_type": ["other"], "table_key": ["node:X", ""], "location": [None, "x"],
    "table_version": [None, 1], "table_branch": [None, "main", "g-x"], "row_count": [None, 0], "seq": [1], "idempotency_key": ["k"],
}  # fmt: skip
TEXTS = [
    lambda text: text.replace(":1", ":01", 1),
    lambda text: text.replace(":1", ":1.0", 1),
    lambda text: text.replace(":1", ":-1", 1),
    lambda text: text.replace(":1", ": 1", 1),
    lambda text: text.replace(":1", ":\u0661", 1),
    lambda text: text.replace('"identity":"', '"identity":"\\u0030', 1),
    lambda text: text.replace('"identity":"', '"identity":"\n', 1),
    lambda text: text.replace('{"', '{"a":1,"', 1),
    lambda text: text[:-1] + ',"z":null}',
    lambda text: text[:-1],
    lambda text: text + " ",
    lambda text: "",
    lambda text: "[]",
    lambda text: text.replace(MAIN, ulid(77)),
    lambda text: text.replace(pin(1).identity, ulid(77)),
]


def long_way(registration: r.RawRow, version: r.RawRow) -> r.Pin:
    with mock.patch.object(codec, "_plain_pin", lambda *_: None):
        return codec.parse_pin.__wrapped__(replace(registration), replace(version))


def outcome(read: Any, registration: r.RawRow, version: r.RawRow) -> Any:
    try:
        return read(registration, version)
    except (ValueError, TypeError, LookupError, AttributeError):
        return "refused"


def damaged(row: r.RawRow) -> list[r.RawRow]:
    found = [replace(row, metadata=None)]
    found += [replace(row, metadata=change(row.metadata or "")) for change in TEXTS]
    found += [replace(row, **{name: value}) for name, values in CELLS.items() for value in values]
    return found


@pytest.mark.parametrize("made", PINS.values(), ids=PINS)
def test_a_pin_is_read_as_parsing_it_would(made: r.Pin) -> None:
    rows = codec.table_row(made), replace(codec.pin_row(made))
    assert codec.parse_pin.__wrapped__(*rows) == long_way(*rows) == made
    assert [codec.identity_of(row) for row in rows] == [made.identity] * 2


@pytest.mark.parametrize("made", PINS.values(), ids=PINS)
def test_a_damaged_pin_is_refused_or_read_as_parsing_it_would(made: r.Pin) -> None:
    registration, version = codec.table_row(made), replace(codec.pin_row(made))
    pairs = [(one, version) for one in damaged(registration)] + [(registration, one) for one in damaged(version)]
    assert {field.name for field in fields(r.RawRow)} == {"metadata", *CELLS}
    for pair in pairs:
        assert outcome(codec.parse_pin.__wrapped__, *pair) == outcome(long_way, *pair), pair


def test_plain_pins_are_the_ones_that_are_not_parsed() -> None:
    plain = [name for name, made in PINS.items() if codec._plain_pin(codec.table_row(made), codec.pin_row(made))]
    assert plain == ["plain", "on main", "a name in another script"]


@pytest.mark.parametrize("kind", [codec.table_row, codec.pin_row])
def test_texts_that_are_taken_apart_together_say_what_each_says_alone(kind: Any) -> None:
    def alone(row: r.RawRow, _: r.RawRow) -> str:
        return codec.identity_of(replace(row))

    first = kind(PLAIN)
    rows = [replace(row) for made in PINS.values() for row in [kind(made), *damaged(kind(made))]]
    rows = [row for row in rows if row.object_type == first.object_type]
    readable = [row for row in rows if outcome(alone, row, row) != "refused"]
    lines = [row for row in readable if "\n" not in (row.metadata or "")]
    for some in (readable, lines):
        assert codec.identities([replace(row) for row in some]) == [codec.identity_of(replace(row)) for row in some]
    for row in rows:
        if row not in readable:
            assert outcome(lambda *pair: codec.identities(pair), replace(first), replace(row)) == "refused"


@pytest.mark.parametrize("made", PINS.values(), ids=PINS)
def test_a_pin_that_was_read_before_is_the_same_one_and_only_under_its_registration(made: r.Pin) -> None:
    registration, version = codec.table_row(made), replace(codec.pin_row(made))
    first = codec.pin_of(registration, version)
    assert first == made and vars(first).keys() >= {field.name for field in fields(r.Pin)}
    assert codec.pin_of(registration, version) is first
    other = replace(registration, location="nodes/Else")
    assert outcome(codec.pin_of, other, version) == replace(made, location="nodes/Else")
