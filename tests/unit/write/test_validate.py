"""The validator against a committed side in memory: every rule, in every mode in which it differs."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from omnigraph.core.errors import DataInvalid, KeyConflict
from tests.unit.write.support import MemoryView, catalog_of, codes, committed, edge, item, judge, person

CATALOG = catalog_of()


def test_a_clean_load_into_an_empty_graph_has_no_violations_and_asks_nothing_it_need_not() -> None:
    view = MemoryView(CATALOG)
    verdict = judge(CATALOG, [person("a"), person("b"), edge("Knows", "a", "b")], view=view)
    assert verdict.ok
    assert view.asked == []
    verdict.raise_if_bad()


@pytest.mark.parametrize(
    ("data", "code", "property"),
    [
        ({"level": "middle"}, "enum", "level"),
        ({"age": -1}, "range", "age"),
        ({"age": 151}, "range", "age"),
        ({"zip": "123456"}, "check", "zip"),
    ],
)
def test_a_value_outside_its_rule_is_named_with_record_property_and_value(data: dict, code: str, property: str) -> None:
    verdict = judge(CATALOG, [person("ok"), person("bad", **data)])
    assert codes(verdict) == [(code, 2)]
    [violation] = verdict.violations
    assert (violation.type, violation.property, violation.table_key) == ("Person", property, "node:Person")
    assert violation.value is not None
    assert violation.id == "bad"


def test_bounds_are_inclusive_and_null_is_exempt() -> None:
    assert judge(CATALOG, [person("a", age=0), person("b", age=150), person("c", age=None, zip=None, level=None)]).ok


def test_a_check_is_an_unanchored_search() -> None:
    catalog = catalog_of('node T { k: String @key  s: String? @check(s, "b+") }')
    verdict = judge(
        catalog, [{"type": "T", "data": {"k": "1", "s": "abbc"}}, {"type": "T", "data": {"k": "2", "s": "ac"}}]
    )
    assert codes(verdict) == [("check", 2)]


def test_an_upper_only_range_is_an_upper_bound() -> None:
    catalog = catalog_of("node T { k: String @key  x: F64? @range(x, ..10) }")
    records = [{"type": "T", "data": {"k": str(x), "x": x}} for x in (-1e300, 10, 10.000001)]
    assert codes(judge(catalog, records)) == [("range", 3)]


# --- ids ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_one_id_twice_in_one_input_is_an_error_in_every_mode(mode: str) -> None:
    verdict = judge(CATALOG, [person("a"), person("b"), person("a"), person("a")], mode)
    assert codes(verdict) == [("duplicate-id", 3), ("duplicate-id", 4)]
    assert "record 1" in verdict.violations[0].message


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_one_given_id_twice_is_an_error_for_unkeyed_nodes_and_edges_too(mode: str) -> None:
    records = [
        {"type": "Note", "data": {"id": "n"}},
        {"type": "Note", "data": {}},
        {"type": "Note", "data": {"id": "n"}},
        person("a"),
        edge("Knows", "a", "a", id="e"),
        edge("Knows", "a", "a"),
        edge("Knows", "a", "a", id="e"),
    ]
    assert codes(judge(CATALOG, records, mode)) == [("duplicate-id", 3), ("duplicate-id", 7)]


def test_append_of_a_committed_id_is_a_key_conflict_that_names_it() -> None:
    view = committed(CATALOG, [person("a"), person("b")])
    verdict = judge(CATALOG, [person("c"), person("b"), person("a")], "append", view)
    assert codes(verdict) == [("key-conflict", 2), ("key-conflict", 3)]
    with pytest.raises(KeyConflict) as raised:
        verdict.raise_if_bad()
    assert raised.value.table_key == "node:Person"
    assert raised.value.ids == ["b", "a"]
    assert raised.value.total == 2
    assert pickle.loads(pickle.dumps(raised.value)).ids == ["b", "a"]


def test_merge_and_overwrite_of_a_committed_id_are_no_conflict() -> None:
    view = committed(CATALOG, [person("a")])
    assert judge(CATALOG, [person("a")], "merge", view).ok
    assert judge(CATALOG, [person("a")], "overwrite", view).ok


def test_wrong_data_beside_a_key_conflict_is_data_invalid() -> None:
    view = committed(CATALOG, [person("a")])
    verdict = judge(CATALOG, [person("a"), person("b", age=-1)], "append", view)
    assert codes(verdict) == [("key-conflict", 1), ("range", 2)]
    assert isinstance(verdict.error(), DataInvalid)


def test_minted_ids_are_neither_compared_nor_looked_up() -> None:
    view = committed(CATALOG, [{"type": "Note", "data": {"id": "x"}}])
    assert judge(CATALOG, [{"type": "Note"} for _ in range(10)], "append", view).ok
    assert view.asked == []


# --- unique -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_unique_value_twice_in_one_input_is_a_violation(mode: str) -> None:
    verdict = judge(CATALOG, [person("a", mail="m"), person("b"), person("c", mail="m")], mode)
    assert codes(verdict) == [("unique", 3)]
    assert "record 1" in verdict.violations[0].message


def test_a_unique_value_that_a_committed_row_has_is_a_violation_that_names_it() -> None:
    view = committed(CATALOG, [person("a", mail="m")])
    for mode in ("append", "merge"):
        verdict = judge(CATALOG, [person("b", mail="m")], mode, view)
        assert codes(verdict) == [("unique", 1)]
        assert verdict.violations[0].id == "a"
        assert verdict.reads == {"node:Person"}


def test_the_committed_side_of_an_overwritten_table_does_not_count() -> None:
    view = committed(CATALOG, [person("a", mail="m")])
    assert judge(CATALOG, [person("b", mail="m")], "overwrite", view).ok


def test_a_row_may_keep_its_own_unique_value_and_take_one_that_the_change_frees() -> None:
    view = committed(CATALOG, [person("a", mail="1"), person("b", mail="2"), person("c", mail="3")])
    assert judge(CATALOG, [person("a", mail="1", age=3)], "merge", view).ok
    assert judge(CATALOG, [person("a", mail="2"), person("b", mail="1")], "merge", view).ok
    assert judge(CATALOG, [person("d", mail="3")], "merge", view, deleted={"node:Person": ["c"]}).ok
    assert codes(judge(CATALOG, [person("a", mail="2")], "merge", view)) == [("unique", 1)]


def test_null_in_a_unique_tuple_exempts_the_row() -> None:
    view = committed(CATALOG, [person("z", mail=None)])
    assert judge(CATALOG, [person("a", mail=None), person("b")], "append", view).ok


def test_unique_values_are_compared_typed_and_not_as_text() -> None:
    catalog = catalog_of("node T { k: String @key  d: Date?  x: F64?  n: I64?  @unique(d, x) @unique(n) }")

    def row(key: str, **data: object) -> dict:
        return {"type": "T", "data": {"k": key, **data}}

    view = committed(catalog, [row("a", d="2020-01-01", x=0.0), row("b", n=7)])
    assert codes(judge(catalog, [row("c", d="2020-01-01", x=-0.0)], "append", view)) == [("unique", 1)]
    assert codes(judge(catalog, [row("c", d="2020-01-01T10:00:00Z", x=0)], "append", view)) == [("unique", 1)]
    assert codes(judge(catalog, [row("c", n=7), row("d", n=8)], "append", view)) == [("unique", 1)]
    assert judge(catalog, [row("c", d="2020-01-02", x=0.0), row("d", d="2020-01-01", x=None)], "append", view).ok


def test_members_of_a_tuple_do_not_run_together() -> None:
    catalog = catalog_of("node T { k: String @key  a: String?  b: String?  @unique(a, b) }")
    records = [
        {"type": "T", "data": {"k": "1", "a": "xy", "b": "z"}},
        {"type": "T", "data": {"k": "2", "a": "x", "b": "yz"}},
        {"type": "T", "data": {"k": "3", "a": "x\0", "b": "z"}},
        {"type": "T", "data": {"k": "4", "a": "x", "b": "\0z"}},
    ]
    assert judge(catalog, records).ok


def test_edges_are_unique_by_endpoints() -> None:
    view = committed(CATALOG, [person("a"), item(1), item(2), edge("Owns", "a", 1, id="e")])
    verdict = judge(CATALOG, [edge("Owns", "a", 2), edge("Owns", "a", 1)], "append", view)
    assert codes(verdict) == [("unique", 2)]
    assert "(from, to)" in verdict.violations[0].message or "(to, from)" in verdict.violations[0].message
    assert codes(judge(CATALOG, [edge("Owns", "a", 2), edge("Owns", "a", 2)], "append", view)) == [("unique", 2)]


def test_many_values_are_compared_by_reading_the_column_once() -> None:
    view = committed(CATALOG, [person(f"c{i}", mail=f"m{i}") for i in range(50)])
    verdict = judge(CATALOG, [person(f"n{i}", mail=f"m{i + 40}") for i in range(3000)], "append", view)
    assert verdict.total == 10
    assert [record for _, record in codes(verdict)] == list(range(1, 11))
    assert ("scan", "node:Person") in view.asked


# --- endpoints ----------------------------------------------------------------------------------------------------------


def test_an_edge_may_precede_its_nodes_and_both_sides_count() -> None:
    view = committed(CATALOG, [person("old")])
    verdict = judge(CATALOG, [edge("Knows", "old", "new"), person("new")], "append", view)
    assert verdict.ok
    assert verdict.reads == {"node:Person"}


def test_a_missing_endpoint_names_record_side_value_and_node_type() -> None:
    verdict = judge(CATALOG, [person("a"), edge("Owns", "a", 5), edge("Knows", "x", "y")])
    assert codes(verdict) == [("missing-endpoint", 2), ("missing-endpoint", 3), ("missing-endpoint", 3)]
    first = verdict.violations[0]
    assert (first.property, first.value, first.type) == ("to", '"5"', "Owns")
    assert "Item" in first.message


def test_what_is_staged_is_not_looked_up_and_so_not_read() -> None:
    view = committed(CATALOG, [person("old"), item(1)])
    verdict = judge(CATALOG, [person("a"), edge("Knows", "a", "a")], "merge", view)
    assert verdict.ok
    assert "node:Item" not in verdict.reads
    assert not any(what == "contains" for what, _ in view.asked)


def test_one_look_up_serves_both_ends_and_all_edge_types() -> None:
    view = committed(CATALOG, [person("a"), person("b"), item(1)])
    verdict = judge(CATALOG, [edge("Knows", "a", "b"), edge("Owns", "a", 1), edge("Likes", "b", 1)], "append", view)
    assert verdict.ok
    assert sorted(key for what, key in view.asked if what == "contains") == ["node:Item", "node:Person"]
    assert {"node:Item", "node:Person"} <= verdict.reads


def test_in_an_overwritten_node_table_only_the_new_rows_count() -> None:
    view = committed(CATALOG, [person("old")])
    verdict = judge(CATALOG, [person("new"), edge("Knows", "new", "old")], "overwrite", view)
    assert codes(verdict) == [("missing-endpoint", 2)]
    assert judge(CATALOG, [edge("Knows", "old", "old")], "overwrite", view).ok


def test_a_deleted_node_is_no_endpoint() -> None:
    view = committed(CATALOG, [person("a"), person("b")])
    verdict = judge(CATALOG, [edge("Knows", "a", "b")], "merge", view, deleted={"node:Person": ["b"]})
    assert codes(verdict) == [("missing-endpoint", 1)]


# --- orphans ------------------------------------------------------------------------------------------------------------


def test_an_overwrite_that_drops_a_node_with_edges_is_refused() -> None:
    view = committed(CATALOG, [person("a"), person("b"), edge("Knows", "a", "b", id="k")])
    verdict = judge(CATALOG, [person("a")], "overwrite", view)
    assert codes(verdict) == [("orphan", None)]
    assert (verdict.violations[0].id, verdict.violations[0].table_key) == ("k", "edge:Knows")
    assert "edge:Knows" in verdict.reads


def test_an_overwrite_of_the_edges_too_leaves_no_orphan() -> None:
    view = committed(CATALOG, [person("a"), person("b"), edge("Knows", "a", "b", id="k")])
    assert judge(CATALOG, [person("a"), edge("Knows", "a", "a")], "overwrite", view).ok


def test_that_there_are_no_edges_is_part_of_what_was_read() -> None:
    view = committed(CATALOG, [person("a"), person("b")])
    verdict = judge(CATALOG, [person("a")], "overwrite", view)
    assert verdict.ok
    assert {"edge:Knows", "edge:Owns", "edge:Likes", "edge:Wrote"} <= verdict.reads


def test_a_deleted_node_takes_its_edges_along_or_is_refused() -> None:
    view = committed(CATALOG, [person("a"), person("b"), edge("Knows", "a", "b", id="k")])
    assert codes(judge(CATALOG, [], "merge", view, deleted={"node:Person": ["b"]})) == [("orphan", None)]
    assert judge(CATALOG, [], "merge", view, deleted={"node:Person": ["b"], "edge:Knows": ["k"]}).ok


def test_a_self_loop_is_one_orphan_a_side() -> None:
    view = committed(CATALOG, [person("a"), edge("Knows", "a", "a", id="k")])
    assert judge(CATALOG, [person("z")], "overwrite", view).total == 2


# --- cardinality --------------------------------------------------------------------------------------------------------


def test_more_edges_than_allowed_count_committed_and_new_ones() -> None:
    view = committed(CATALOG, [person("a"), person("b"), item(1), edge("Likes", "a", 1, id="l")])
    assert judge(CATALOG, [edge("Likes", "a", 1), edge("Likes", "b", 1), edge("Likes", "b", 1)], "append", view).ok
    verdict = judge(CATALOG, [edge("Likes", "b", 1), edge("Likes", "a", 1), edge("Likes", "a", 1)], "append", view)
    assert codes(verdict) == [("card-max", 2)]
    assert '"a" would have 3' in verdict.violations[0].message
    assert "edge:Likes" in verdict.reads


def test_in_a_merge_an_edge_with_a_committed_id_counts_once() -> None:
    view = committed(CATALOG, [person("a"), item(1), edge("Likes", "a", 1, id="x"), edge("Likes", "a", 1, id="y")])
    assert judge(CATALOG, [edge("Likes", "a", 1, id="y")], "merge", view).ok
    assert codes(judge(CATALOG, [edge("Likes", "a", 1, id="z")], "merge", view)) == [("card-max", 1)]


def test_in_an_overwrite_only_the_new_edges_count() -> None:
    view = committed(CATALOG, [person("a"), item(1), edge("Likes", "a", 1), edge("Likes", "a", 1)])
    assert judge(CATALOG, [edge("Likes", "a", 1), edge("Likes", "a", 1)], "overwrite", view).ok


def test_a_minimum_is_tested_for_sources_that_occur() -> None:
    catalog = catalog_of("node P { k: String @key } edge E: P -> P @card(2..)")
    nodes = [{"type": "P", "data": {"k": k}} for k in "ab"]
    assert judge(catalog, nodes).ok
    assert codes(judge(catalog, [*nodes, edge("E", "a", "b")])) == [("card-min", 3)]
    assert judge(catalog, [*nodes, edge("E", "a", "b"), edge("E", "a", "a")]).ok


def test_a_source_that_loses_its_edges_is_tested_unless_it_goes_too() -> None:
    catalog = catalog_of("node P { k: String @key } edge E: P -> P @card(1..)")
    nodes = [{"type": "P", "data": {"k": k}} for k in "abc"]
    view = committed(
        catalog, [*nodes, edge("E", "a", "b", id="1"), edge("E", "b", "c", id="2"), edge("E", "b", "b", id="3")]
    )
    assert codes(judge(catalog, [], "merge", view, deleted={"edge:E": ["1"]})) == [("card-min", None)]
    assert judge(catalog, [], "merge", view, deleted={"edge:E": ["2"]}).ok
    assert judge(catalog, [], "merge", view, deleted={"edge:E": ["1"], "node:P": ["a"]}).ok
    moved = judge(catalog, [edge("E", "c", "b", id="1")], "merge", view)
    assert codes(moved) == [("card-min", None)]
    assert moved.violations[0].id == "a"
    replaced = judge(catalog, [edge("E", "b", "c", id="9")], "overwrite", view)
    assert codes(replaced) == [("card-min", None)]


# --- reporting ----------------------------------------------------------------------------------------------------------


def test_the_first_twenty_are_shown_by_record_number_with_a_total() -> None:
    records = [person(f"p{i}", age=-1) if i % 2 else edge("Knows", f"x{i}", "p1") for i in range(1, 101)]
    verdict = judge(CATALOG, records)
    assert verdict.total == 100
    assert [record for _, record in codes(verdict)] == list(range(1, 21))
    error = verdict.error()
    assert isinstance(error, DataInvalid)
    assert len(error.violations) == 20
    assert error.total == 100
    assert "and 99 more" in error.message


def test_refused_records_stop_the_questions_to_the_graph() -> None:
    view = committed(CATALOG, [person("a")])
    verdict = judge(CATALOG, ["x", person("a"), edge("Knows", "a", "missing"), person("b", age=-1)], "append", view)
    assert codes(verdict) == [("malformed-record", 1), ("range", 4)]
    assert view.asked == []


def test_verdicts_do_not_depend_on_threads_or_order_of_types() -> None:
    view = committed(CATALOG, [person("a", mail="m"), item(1), edge("Likes", "a", 1), edge("Likes", "a", 1)])
    records = [person("b", mail="m"), edge("Likes", "a", 1), edge("Owns", "z", 1), edge("Knows", "a", "q"), person("a")]
    verdicts = [judge(CATALOG, records, "append", view) for _ in range(20)]
    assert len({tuple(codes(verdict)) for verdict in verdicts}) == 1
    assert codes(verdicts[0]) == [
        ("unique", 1),
        ("card-max", 2),
        ("missing-endpoint", 3),
        ("missing-endpoint", 4),
        ("key-conflict", 5),
    ]


def test_a_change_of_many_blocks_keeps_its_row_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.write.base import blocks

    monkeypatch.setattr(blocks, "PIECE_ROWS", 3)
    records = [person(f"p{i}", mail=f"m{i % 9}") for i in range(10)] + [person("p0")]
    records += [edge("Likes", "p1", 1), item(1), edge("Likes", "p1", 1), edge("Likes", "p1", 2), edge("Likes", "p1", 1)]
    verdict = judge(CATALOG, records)
    assert codes(verdict) == [("unique", 10), ("duplicate-id", 11), ("card-max", 12), ("missing-endpoint", 15)]


def test_arrow_changes_without_a_reader_are_still_checked_for_nulls_and_nan() -> None:
    from omnigraph.schema import table_schema
    from omnigraph.write.base.changes import TypeChange
    from omnigraph.write.rules.validate import validate

    catalog = catalog_of("node T { k: String @key  x: F64?  v: Vector(2)?  l: [F32]? }")
    declared = catalog.node("T")
    rows = pa.Table.from_pylist(
        [
            {"id": "a", "k": "a", "x": 1.0, "v": [1.0, 2.0], "l": [1.0]},
            {"id": "b", "k": None, "x": float("nan"), "v": [float("inf"), 0.0], "l": [None, float("nan")]},
        ],
        schema=pa.schema([f.with_nullable(True) for f in table_schema(declared)]),
    )
    verdict = validate([TypeChange(declared, rows, "merge")], catalog, MemoryView(catalog))
    assert sorted(codes(verdict)) == [("not-finite", 2), ("not-finite", 2), ("not-finite", 2), ("required", 2)]


def test_appending_what_is_there_already_is_a_conflict_of_ids_and_not_of_its_own_unique_values() -> None:
    rows = [person("a", mail="m"), item(1), edge("Owns", "a", 1, id="e")]
    verdict = judge(CATALOG, rows, "append", committed(CATALOG, rows))
    assert codes(verdict) == [("key-conflict", 1), ("key-conflict", 2), ("key-conflict", 3)]
    assert [conflict.table_key for conflict in verdict.conflicts] == ["edge:Owns", "node:Item", "node:Person"]
    assert isinstance(verdict.error(), KeyConflict)
