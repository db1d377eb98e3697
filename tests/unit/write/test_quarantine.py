"""Bad rows set aside: which leave, in which rounds, what stays, and a file that can be loaded again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.core.errors import AlreadyExists, DataInvalid, InvalidInput, StoreRefused
from omnigraph.write.rules.left_out import BadRowsMax, rejected_rows, too_many
from omnigraph.write.rules.quarantine import Sifted, sift
from omnigraph.write.rules.quarantine_file import check_quarantine_place, write_quarantine
from omnigraph.write.rules.validate import validate
from omnigraph.write.sources.batch import Batch
from tests.unit.write.support import MemoryView, catalog_of, committed, edge, item, person, read

CATALOG = catalog_of()


def sifted(records: Any, mode: str = "append", view: MemoryView | None = None) -> Sifted:
    view = view or MemoryView(CATALOG)
    given = read(CATALOG, records, mode, keep_rejected=True)
    result = sift(given.changes(mode), CATALOG, view, rejected=given.rejected)
    if result.verdict.ok:
        again = validate(result.changes, CATALOG, view)
        assert again.ok, again.violations
    assert sum(change.rows.num_rows for change in result.changes) + len(result.rejected) == given.records
    return result


def out(result: Sifted) -> list[tuple[int, list[str]]]:
    return [(one.number, [reason.code for reason in one.reasons]) for one in result.rejected]


def test_a_clean_input_loses_nothing() -> None:
    assert out(sifted([person("a"), person("b"), edge("Knows", "a", "b")])) == []


def test_malformed_records_and_bad_values_leave() -> None:
    result = sifted(["junk", person("a", age=-1, level="x"), person("b"), {"type": "Nope"}])
    assert out(result) == [(1, ["malformed-record"]), (2, ["enum", "range"]), (4, ["unknown-type"])]


def test_of_duplicates_all_leave() -> None:
    assert out(sifted([person("a"), person("b"), person("a"), person("a")])) == [
        (1, ["duplicate-id"]),
        (3, ["duplicate-id"]),
        (4, ["duplicate-id"]),
    ]
    assert [number for number, _ in out(sifted([person("a", mail="m"), person("b", mail="m"), person("c")]))] == [1, 2]


def test_a_malformed_twin_is_no_duplicate() -> None:
    assert out(sifted([person("a"), person("a", age="x")])) == [(2, ["wrong-kind"])]
    assert out(sifted([person("a"), person("a", age=-1)])) == [(2, ["range"])]


def test_against_the_graph_the_new_row_leaves() -> None:
    view = committed(CATALOG, [person("a", mail="m")])
    assert out(sifted([person("a"), person("b", mail="m"), person("c")], "append", view)) == [
        (1, ["key-conflict"]),
        (2, ["unique"]),
    ]


def test_an_edge_leaves_with_its_node() -> None:
    records = [
        person("a"),
        person("b", age=-1),
        edge("Knows", "a", "b"),
        edge("Knows", "a", "a"),
        edge("Knows", "x", "a"),
    ]
    assert out(sifted(records)) == [(2, ["range"]), (3, ["missing-endpoint"]), (5, ["missing-endpoint"])]


def test_rounds_go_on_until_nothing_more_falls() -> None:
    """A row that leaves no longer frees what it would have freed."""
    view = committed(CATALOG, [person("a", mail="1"), person("b", mail="2"), person("c", mail="3")])
    records = [person("a", mail="2"), person("b", mail="3"), person("c", mail="4", age=-1), edge("Knows", "z", "a")]
    assert out(sifted(records, "merge", view)) == [
        (1, ["unique"]),
        (2, ["unique"]),
        (3, ["range"]),
        (4, ["missing-endpoint"]),
    ]


def test_all_edges_of_a_source_with_too_many_leave() -> None:
    view = committed(CATALOG, [person("a"), person("b"), item(1), edge("Likes", "a", 1)])
    records = [edge("Likes", "b", 1), edge("Likes", "a", 1), edge("Likes", "b", 1), edge("Likes", "a", 1)]
    assert out(sifted(records, "append", view)) == [(2, ["card-max"]), (4, ["card-max"])]


def test_edges_that_leave_for_another_reason_are_not_counted() -> None:
    view = committed(CATALOG, [person("a"), item(1)])
    records = [edge("Likes", "a", 1), edge("Likes", "a", 2), edge("Likes", "a", 1)]
    assert out(sifted(records, "append", view)) == [(2, ["missing-endpoint"])]


def test_a_minimum_and_an_orphan_are_nobodys_row_and_fail() -> None:
    catalog = catalog_of("node P { k: String @key  n: I32? } edge E: P -> P @card(1..)")
    nodes = [{"type": "P", "data": {"k": k}} for k in "ab"]
    view = committed(catalog, [*nodes, edge("E", "a", "b", id="1"), edge("E", "b", "a", id="2")])
    given = read(catalog, [edge("E", "b", "b", id="1")], "merge", keep_rejected=True)
    result = sift(given.changes("merge"), catalog, view)
    assert [violation.code for violation in result.verdict.violations] == ["card-min"]
    given = read(catalog, [{"type": "P", "data": {"k": "a"}}], "overwrite", keep_rejected=True)
    result = sift(given.changes("overwrite"), catalog, view)
    assert {violation.code for violation in result.verdict.violations} == {"orphan"}
    assert result.rejected == ()


def test_a_node_set_aside_in_an_overwrite_leaves_an_orphan_and_fails() -> None:
    view = committed(CATALOG, [person("a"), person("b"), edge("Knows", "a", "b")])
    result = sifted([person("a"), person("b", age=-1)], "overwrite", view)
    assert [violation.code for violation in result.verdict.violations] == ["orphan"]


def test_the_read_set_is_that_of_all_rounds() -> None:
    view = committed(CATALOG, [person("a"), item(1)])
    result = sifted([edge("Owns", "a", 1), edge("Owns", "a", 2)], "append", view)
    assert {"node:Person", "node:Item"} <= result.verdict.reads


# --- how many ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "bad", "records", "fits"),
    [
        (None, 10**9, 1, True),
        (0, 0, 10, True),
        (0, 1, 10, False),
        (3, 3, 10, True),
        (3, 4, 10, False),
        (0.1, 1, 10, True),
        (0.1, 2, 10, False),
        (0.0, 0, 0, True),
        (0.5, 1, 1, False),
    ],
)
def test_a_bound_is_a_number_or_a_share(bound: Any, bad: int, records: int, fits: bool) -> None:
    assert BadRowsMax(bound).allows(bad, records) is fits


@pytest.mark.parametrize("bound", [-1, -0.1, 1.0, 2.5, math.nan, True, "5"])
def test_another_bound_is_refused(bound: Any) -> None:
    with pytest.raises(InvalidInput):
        BadRowsMax(bound)


def test_too_many_bad_rows_are_an_error_that_says_how_many_and_why() -> None:
    result = sifted([person("a", age=-1), person("b", age=-1), person("c")])
    assert too_many(result.left, 3, BadRowsMax(2)) is None
    error = too_many(result.left, 3, BadRowsMax(0.5))
    assert isinstance(error, DataInvalid)
    assert (error.bad_rows, error.records, error.total) == (2, 3, 2)
    assert "2 of 3" in str(error)
    assert "Person.age" in str(error)


def test_a_thousand_are_shown_and_all_are_counted() -> None:
    result = sifted([person(f"p{i}", age=-1) for i in range(1500)])
    shown = rejected_rows(result.left)
    assert shown.total == len(shown) == 1500
    assert len(shown.rows) == 1000 and list(shown) == [one.to_dict() for one in result.rejected[:1000]]
    assert shown.by_reason == {"range": 1500} and shown.missing_ids == {}
    assert json.loads(json.dumps(shown.to_dict())) == shown.to_dict()


# --- the file -----------------------------------------------------------------------------------------------------------


def test_a_quarantine_file_can_be_corrected_and_loaded(tmp_path: Path) -> None:
    records: list[Any] = [
        person("a", age=7, level="medium"),
        person("dup", mail="ä\n"),
        person("dup"),
        {"type": "Note", "data": {"text": "t", "id": 5}},
        edge("Knows", "a", "nobody", since=3),
        {"edge": "Owns", "from": "a", "to": 9},
    ]
    text = "\n".join(json.dumps(record) for record in records) + '\n{"type": "Person", "data": {"name": "x",}}\n'
    given = read(CATALOG, text, keep_rejected=True)
    result = sift(given.changes("append"), CATALOG, MemoryView(CATALOG), rejected=given.rejected)
    path = tmp_path / "bad.jsonl"
    assert write_quarantine(path, result.rejected) == 7
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(set(line) == {"record", "reasons"} and line["reasons"] for line in lines)
    assert all({"code", "message", "record"} <= set(reason) for line in lines for reason in line["reasons"])
    by_code = {line["reasons"][0]["code"]: line["record"] for line in lines}
    assert by_code["enum"] == records[0]
    assert by_code["wrong-kind"] == records[3]
    assert by_code["malformed-record"] == '{"type": "Person", "data": {"name": "x",}}'
    # As it stands the file is refused for the same reasons; corrected in place it loads.
    again = read(CATALOG, path, keep_rejected=True)
    assert len(sift(again.changes("append"), CATALOG, MemoryView(CATALOG), rejected=again.rejected).rejected) == 7
    lines[0]["record"]["data"]["level"] = "high"
    lines[2]["record"]["data"]["name"] = "single"
    lines[3]["record"]["data"]["id"] = "5"
    lines[4]["record"]["to"] = "dup"
    lines[5]["record"] = item(9)
    lines[6]["record"] = lines[6]["record"].replace(",}", "}")
    path.write_text("\n".join(json.dumps(line) for line in lines))
    fixed = read(CATALOG, path)
    assert fixed.malformed.total == 0
    assert validate(fixed.changes("append"), CATALOG, MemoryView(CATALOG)).ok
    assert fixed.rows == 7


def test_rows_of_tables_are_written_as_records_that_load_again(tmp_path: Path) -> None:
    catalog = catalog_of(
        "node T { k: I64 @key  d: Date?  t: DateTime?  v: Vector(2)?  l: [F32]?  b: Blob?  s: enum(a, b)? } edge E: T -> T"
    )
    table = pa.table(
        {
            "k": [1],
            "d": pa.array([1], pa.date32()),
            "t": pa.array([1], pa.timestamp("us")),
            "v": [[0.1, 2.0]],
            "l": pa.array([[0.1, None]], pa.list_(pa.float32())),
            "b": [b"\x00\xff"],
            "s": ["c"],
        }
    )
    given = read(
        catalog, Batch(nodes={"T": table}, edges={"E": pa.table({"from": [1], "to": [2]})}), keep_rejected=True
    )
    result = sift(given.changes("append"), catalog, MemoryView(catalog))
    write_quarantine(tmp_path / "bad.jsonl", result.rejected)
    text = (tmp_path / "bad.jsonl").read_text()
    assert '"id"' not in json.dumps([json.loads(line)["record"] for line in text.splitlines()])
    again = read(catalog, text.replace('"s":"c"', '"s":"a"'))
    assert again.malformed.total == 0
    first = given.tables["node:T"].rows.drop_columns(["s"])
    assert again.tables["node:T"].rows.drop_columns(["s"]).equals(first)
    assert again.tables["edge:E"].rows.select(["src", "dst"]).to_pylist() == [{"src": "1", "dst": "2"}]


def test_what_a_python_caller_put_into_a_record_is_written_somehow(tmp_path: Path) -> None:
    record = {
        "type": "Person",
        "data": {"name": b"\xff", "age": math.nan, "x": {1: (1, 2)}, "y": object(), "z": "\ud800"},
    }
    given = read(CATALOG, [record], keep_rejected=True)
    assert write_quarantine(tmp_path / "bad.jsonl", given.rejected) == 1
    assert json.loads((tmp_path / "bad.jsonl").read_text())["record"]["data"]["age"] == "nan"


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused):
        write_quarantine(tmp_path / "no" / "bad.jsonl", [])


def test_the_file_is_created_and_never_replaced_or_followed(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("kept")
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "target.jsonl")
    for place in (there, link):
        for call in (
            lambda place=place: check_quarantine_place(place),
            lambda place=place: write_quarantine(place, []),
        ):
            with pytest.raises(AlreadyExists):
                call()
    assert there.read_text() == "kept"
    assert not (tmp_path / "target.jsonl").exists()


def test_no_file_is_put_inside_a_graph(tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    (graph / "__manifest" / "data").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.symlink_to(graph)
    for place in (graph / "bad.jsonl", graph / "__manifest" / "data" / "bad.jsonl", outside / "bad.jsonl"):
        with pytest.raises(InvalidInput, match="inside a graph"):
            check_quarantine_place(place)
    check_quarantine_place(tmp_path / "bad.jsonl")
