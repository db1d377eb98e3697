"""Record streams: which shapes are taken, what is said about the others, and where rows come from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core.errors import DataInvalid, InvalidInput, LimitExceeded, NotFound
from omnigraph.core.limits import Limits
from omnigraph.write.sources import records as records_module
from tests.unit.write.support import catalog_of, edge, item, person, read

CATALOG = catalog_of(
    """
node Person { name: String @key  age: I32?  tags: [String]? }
node Item { sku: I64 @key }
node Day { on: Date @key }
node Slot { at: DateTime @key }
node Pair { a: String  b: I32  @key(b, a) }
node Free { text: String? }
edge Knows: Person -> Person { since: I32? }
edge Has: Person -> Item
edge OnDay: Person -> Day
edge AtSlot: Person -> Slot
edge OfPair: Person -> Pair
edge Refers: Free -> Free
"""
)


def refused(records: Any, **more: Any) -> list[tuple[str, int | None, str | None]]:
    shown = read(CATALOG, records, **more).malformed.shown
    return [(violation.code, violation.record, violation.property) for violation in shown]


def only(records: Any, table_key: str) -> list[dict[str, Any]]:
    given = read(CATALOG, records)
    assert not given.malformed, given.malformed.shown
    return given.tables[table_key].rows.to_pylist()


# --- where records come from --------------------------------------------------------------------------------------------

LINES = [person("a", age=1), edge("knows", "a", "b"), person("b")]
TEXT = "\n".join(json.dumps(line) for line in LINES) + "\n"


def check_lines(given: Any) -> None:
    assert given.records == 3
    assert [row["name"] for row in given.tables["node:Person"].rows.to_pylist()] == ["a", "b"]
    [knows] = given.tables["edge:Knows"].rows.to_pylist()
    assert (knows["src"], knows["dst"]) == ("a", "b")
    assert list(given.tables) == ["edge:Knows", "node:Person"]


def test_the_same_records_are_read_from_every_kind_of_source(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(TEXT)
    (tmp_path / "x.ndjson.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "x.json").write_text("\n".join(json.dumps(line, indent=2) for line in LINES))
    check_lines(read(CATALOG, tmp_path / "x.jsonl"))
    check_lines(read(CATALOG, str(tmp_path / "x.jsonl")))
    check_lines(read(CATALOG, (tmp_path / "x.jsonl").as_uri()))
    check_lines(read(CATALOG, tmp_path / "x.ndjson.gz"))
    check_lines(read(CATALOG, tmp_path / "x.json"))
    check_lines(read(CATALOG, "  \n" + TEXT))
    check_lines(read(CATALOG, LINES))
    check_lines(read(CATALOG, iter(LINES)))
    check_lines(read(CATALOG, (line for line in LINES)))


def test_a_source_that_is_none_is_named(tmp_path: Path) -> None:
    for source, error in [
        (tmp_path / "no.jsonl", NotFound),
        (str(tmp_path / "no.jsonl"), NotFound),
        ("", InvalidInput),
        ("a\0b", InvalidInput),
        (tmp_path, InvalidInput),
        (5, InvalidInput),
        (None, InvalidInput),
        (b"{}", InvalidInput),
        ("ftp://host/key.jsonl", InvalidInput),
    ]:
        with pytest.raises(error):
            read(CATALOG, source)


def test_a_compressed_file_that_ends_early_is_refused_whole(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(TEXT.encode() * 1000)[:-20])
    with pytest.raises(DataInvalid) as raised:
        read(CATALOG, tmp_path / "x.jsonl.gz")
    assert "x.jsonl.gz" in raised.value.message


def test_empty_inputs_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(" \n\n")
    for source in (tmp_path / "x.jsonl", []):
        given = read(CATALOG, source)
        assert (given.records, given.tables, given.rows) == (0, {}, 0)


def test_violations_of_a_file_name_it(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(TEXT + "junk\n")
    [violation] = read(CATALOG, tmp_path / "x.jsonl").malformed.shown
    assert violation.place == "x.jsonl record 4"


# --- shapes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "code", "property"),
    [
        ("just text", "malformed-record", None),
        (["a"], "malformed-record", None),
        ({}, "malformed-record", None),
        ({"data": {"name": "a"}}, "malformed-record", None),
        ({"type": "Nobody"}, "unknown-type", None),
        ({"type": "person", "data": {"name": "a"}}, "unknown-type", None),
        ({"type": "Knows", "data": {}}, "unknown-type", None),
        ({"type": ["Person"]}, "unknown-type", None),
        ({"type": None, "data": {}}, "unknown-type", None),
        ({"type": "../x"}, "unknown-type", None),
        ({"type": "P" * 300}, "unknown-type", None),
        ({"type": "Pеrson", "data": {"name": "a"}}, "unknown-type", None),  # a Cyrillic е
        ({"edge": "Nothing", "from": "a", "to": "b"}, "unknown-type", None),
        ({"edge": "Person", "from": "a", "to": "b"}, "unknown-type", None),
        ({"type": "Person", "edge": "Knows", "data": {"name": "a"}}, "unknown-member", "edge"),
        ({"type": "Person", "data": {"name": "a"}, "note": 1}, "unknown-member", "note"),
        ({"edge": "Knows", "from": "a", "to": "b", "weight": 1}, "unknown-member", "weight"),
        ({"type": "Person", "data": ["name"]}, "wrong-kind", "data"),
        ({"type": "Person", "data": None}, "wrong-kind", "data"),
        ({"edge": "Knows", "from": "a"}, "endpoint-required", "to"),
        ({"edge": "Knows", "from": None, "to": "b"}, "endpoint-required", "from"),
        ({"edge": "Knows", "from": 1, "to": "b"}, "wrong-kind", "from"),
        ({"edge": "Knows", "from": "a", "to": ["b"]}, "wrong-kind", "to"),
        ({"edge": "Knows", "from": "a", "to": "b", "data": {"src": "a"}}, "unknown-property", "src"),
        ({"type": "Person", "data": {"name": "a", "nmae": 1}}, "unknown-property", "nmae"),
        ({"type": "Person", "data": {"name": "a", "`x` = 1 OR '": 1}}, "unknown-property", "`x` = 1 OR '"),
        ({"type": "Person", "data": {"age": 1}}, "required", "name"),
        ({"type": "Person", "data": {"name": None}}, "required", "name"),
        ({"type": "Person"}, "required", "name"),
        ({"type": "Person", "data": {"name": 1}}, "wrong-kind", "name"),
        ({"type": "Person", "data": {"name": "a", "id": "b"}}, "id-mismatch", "id"),
        ({"type": "Person", "data": {"name": "a", "id": 1}}, "wrong-kind", "id"),
        ({"type": "Free", "data": {"id": 1}}, "wrong-kind", "id"),
        ({"edge": "Knows", "from": "a", "to": "b", "data": {"id": 1}}, "wrong-kind", "id"),
        ({"edge": "Has", "from": "a", "to": 1.5}, "wrong-kind", "to"),
        ({"edge": "Has", "from": "a", "to": 2**63}, "out-of-range-integer", "to"),
    ],
)
def test_a_record_of_another_shape_is_refused_by_name_among_good_ones(
    record: Any, code: str, property: str | None
) -> None:
    good = [person("ok"), item(1), edge("Knows", "ok", "ok")]
    given = read(CATALOG, [*good, record, person("ok2")])
    assert [(v.code, v.record, v.property) for v in given.malformed.shown] == [(code, 4, property)]
    assert given.malformed.shown[0].message.count("\n") == 0
    assert given.records == 5
    assert given.rows == 4


def test_a_record_says_all_that_is_wrong_with_it_once() -> None:
    record = {"type": "Person", "data": {"name": 5, "age": "x", "tags": "y", "what": 1}}
    assert sorted(refused([record])) == [
        ("unknown-property", 1, "what"),
        ("wrong-kind", 1, "age"),
        ("wrong-kind", 1, "name"),
        ("wrong-kind", 1, "tags"),
    ]


def test_a_value_is_shown_on_one_line_and_cut() -> None:
    [violation] = read(CATALOG, [person("a", age="x\n" * 1_000_000)]).malformed.shown
    assert violation.value is not None
    assert len(violation.value) == 80
    assert "\n" not in violation.line
    assert len(violation.line) < 300
    assert violation.expected == "I32?"


def test_members_that_are_no_texts_are_refused_from_python_callers() -> None:
    assert refused([{"type": "Person", "data": {"name": "a", 1: 2}}]) == [("unknown-property", 1, "1")]
    assert refused([{"type": "Person", 1: 2}]) == [("unknown-member", 1, "1")]


def test_edge_types_are_found_whatever_their_case_and_node_types_are_not() -> None:
    assert len(only([edge("kNOWS", "a", "b")], "edge:Knows")) == 1
    assert refused([{"type": "PERSON", "data": {"name": "a"}}])[0][0] == "unknown-type"


def test_records_are_numbered_in_stream_order_across_types_shapes_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "_TAKEN_AT_ONCE", 4)
    records = []
    for i in range(30):
        records += [person(f"p{i}"), {"type": "Free"}, edge("Knows", "p0", f"p{i}")]
    records[40] = "bad"
    given = read(CATALOG, records)
    for table_key, offset in (("node:Person", 1), ("node:Free", 2), ("edge:Knows", 3)):
        table = given.tables[table_key]
        numbers = [table.origin.place(row)[0] for row in range(table.rows.num_rows)]
        assert numbers == [n for n in range(offset, 91, 3) if n != 41]
    assert [row["name"] for row in given.tables["node:Person"].rows.to_pylist()] == [f"p{i}" for i in range(30)]


# --- ids ----------------------------------------------------------------------------------------------------------------


def test_the_id_of_a_keyed_node_is_the_text_of_its_key() -> None:
    assert [row["id"] for row in only([person("x y")], "node:Person")] == ["x y"]
    assert [row["id"] for row in only([item(-7)], "node:Item")] == ["-7"]
    assert [row["id"] for row in only([{"type": "Day", "data": {"on": "2024-02-29"}}], "node:Day")] == ["2024-02-29"]
    slots = only([{"type": "Slot", "data": {"at": "2024-02-29T12:00:00+02:00"}}], "node:Slot")
    assert [row["id"] for row in slots] == ["2024-02-29T10:00:00.000000Z"]
    pairs = only([{"type": "Pair", "data": {"a": 'q"', "b": 3}}], "node:Pair")
    assert [row["id"] for row in pairs] == ['["3","q\\""]']


def test_a_given_id_that_agrees_with_the_key_is_fine() -> None:
    assert len(only([person("a", id="a"), item(5, id="5"), person("b")], "node:Person")) == 2


def test_unkeyed_rows_keep_given_ids_and_get_made_ones() -> None:
    given = read(CATALOG, [{"type": "Free", "data": {"id": "mine"}}, {"type": "Free"}, {"type": "Free", "data": {}}])
    table = given.tables["node:Free"]
    ids = table.rows["id"].to_pylist()
    assert ids[0] == "mine"
    assert len(set(ids)) == 3
    assert all(len(text) == 26 for text in ids[1:])
    assert list(table.minted) == [False, True, True]


def test_endpoints_take_the_kind_of_the_key_and_come_out_canonical() -> None:
    assert only([edge("Has", "a", 7), edge("Has", "a", "7")], "edge:Has")[0]["dst"] == "7"
    days = only(
        [edge("OnDay", "a", "2024-02-29"), edge("OnDay", "a", "2024-02-29T10:00:00Z"), edge("OnDay", "a", 0)],
        "edge:OnDay",
    )
    assert [row["dst"] for row in days] == ["2024-02-29", "2024-02-29", "1970-01-01"]
    slots = only([edge("AtSlot", "a", "2024-02-29T12:00:00+02:00"), edge("AtSlot", "a", "nonsense")], "edge:AtSlot")
    assert [row["dst"] for row in slots] == ["2024-02-29T10:00:00.000000Z", "nonsense"]
    pairs = only([edge("OfPair", "a", [3, "q"]), edge("OfPair", "a", '["3","q"]')], "edge:OfPair")
    assert [row["dst"] for row in pairs] == ['["3","q"]', '["3","q"]']


def test_an_id_may_have_the_bytes_of_the_limit_and_not_one_more() -> None:
    assert len(only([person("é" * 512)], "node:Person")) == 1
    for record in (
        person("é" * 512 + "x"),
        {"type": "Free", "data": {"id": "x" * 1025}},
        edge("Knows", "a", "x" * 1025),
        edge("Knows", "a", "b", id="x" * 1025),
    ):
        with pytest.raises(LimitExceeded) as raised:
            read(CATALOG, [person("ok"), record])
        assert (raised.value.limit, raised.value.bound, raised.value.actual) == ("id_bytes", 1024, 1025)
        assert "record 2" in raised.value.message
        assert refused([person("ok"), record], keep_rejected=True)[0][:2] == ("id-too-long", 2)


def test_merge_and_overwrite_stop_at_their_bound_before_the_input_is_held() -> None:
    limits = Limits(merge_rows=10, overwrite_rows=11)
    records = [person(f"p{i}") for i in range(11)]
    for mode, fits in (("merge", 10), ("overwrite", 11), ("append", 11)):
        assert read(CATALOG, records[:fits], mode, limits=limits).rows == fits
    with pytest.raises(LimitExceeded):
        read(CATALOG, records, "merge", limits=limits)


def test_names_and_values_that_look_like_syntax_are_only_values() -> None:
    name = '\'; DROP TABLE "x" -- \n\t\\ ` ../.. \0 ' + "y" * 100
    assert [row["id"] for row in only([person(name)], "node:Person")] == [name]


# --- bad records set aside ----------------------------------------------------------------------------------------------


def test_refused_records_are_kept_as_they_were_when_asked_for() -> None:
    text = '{"type":"Person","data":{"name":"a","name":"b"}}\nnonsense {\n{"type":"Person","data":{"name":"c","age":"x"}}\n'
    given = read(CATALOG, text, keep_rejected=True)
    assert [one.record for one in given.rejected] == [
        '{"type":"Person","data":{"name":"a","name":"b"}}',
        "nonsense {",
        {"type": "Person", "data": {"name": "c", "age": "x"}},
    ]
    assert [one.number for one in given.rejected] == [1, 2, 3]
    assert [one.reasons[0].code for one in given.rejected] == ["duplicate-member", "malformed-record", "wrong-kind"]


def test_a_line_of_a_quarantine_file_is_read_as_the_record_in_it() -> None:
    lines = [
        {"record": person("a"), "reasons": [{"code": "enum"}]},
        {"record": json.dumps(person("b")), "reasons": []},
        {"record": "still broken {", "reasons": []},
        {"record": person("c")},
        person("d"),
    ]
    given = read(CATALOG, "\n".join(json.dumps(line) for line in lines))
    assert [row["id"] for row in given.tables["node:Person"].rows.to_pylist()] == ["a", "b", "d"]
    assert [(v.code, v.record) for v in given.malformed.shown] == [("malformed-record", 3), ("malformed-record", 4)]
