"""Edges that a merge gives without an id keep the id that they have in the graph, where a tuple says which they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.write.rules.id_reuse import adopt_ids, adopting_group
from omnigraph.write.rules.validate import validate
from tests.unit.write.support import MemoryView, catalog_of, codes, committed, edge, read

CATALOG = catalog_of(
    """
node P { k: String @key }
edge Pair: P -> P { n: I32?  @unique(src, dst) }
edge Dated: P -> P { on: Date?  @unique(dst, on, src) }
edge Loose: P -> P { n: I32? @unique }
"""
)
NODES = [{"type": "P", "data": {"k": k}} for k in "abc"]


def merged(records: list[Any], view: MemoryView, mode: str = "merge") -> list[Any]:
    given = read(CATALOG, records, mode)
    changes = [adopt_ids(change, view) for change in given.changes(mode)]
    verdict = validate(changes, CATALOG, view)
    assert verdict.ok, verdict.violations
    return changes


def test_loading_the_same_edges_twice_gives_the_same_ids() -> None:
    view = committed(CATALOG, [*NODES, edge("Pair", "a", "b", n=1), edge("Pair", "b", "c")])
    ids = view.tables["edge:Pair"]["id"].to_pylist()
    [change] = merged([edge("Pair", "b", "c"), edge("Pair", "c", "a"), edge("Pair", "a", "b", n=2)], view)
    got = change.rows["id"].to_pylist()
    assert [got[0], got[2]] == [ids[1], ids[0]]
    assert got[1] not in ids
    assert list(change.minted) == [False, True, False]
    assert change.rows["n"].to_pylist() == [None, None, 2]


def test_only_a_merge_adopts_and_only_where_both_endpoints_are_in_the_tuple() -> None:
    view = committed(CATALOG, [*NODES, edge("Pair", "a", "b"), edge("Loose", "a", "b", n=1)])
    given = read(CATALOG, [edge("Pair", "a", "b")], "append")
    [change] = [adopt_ids(change, view) for change in given.changes("append")]
    assert change.minted is True
    [change] = merged([edge("Loose", "a", "b")], view)
    assert change.minted is True


def test_which_rows_may_take_an_id_over_is_asked_in_one_place() -> None:
    pair, node = CATALOG.by_table_key("edge:Pair"), CATALOG.by_table_key("node:P")
    assert adopting_group(pair, "merge", True) == ("dst", "src")
    assert adopting_group(pair, "merge", False) is None, "each row has an id of its own"
    assert adopting_group(pair, "append", True) is None
    assert adopting_group(CATALOG.by_table_key("edge:Loose"), "merge", True) is None
    assert adopting_group(node, "merge", True) is None


def test_given_ids_are_left_alone() -> None:
    view = committed(CATALOG, [*NODES, edge("Pair", "a", "b", id="1")])
    [change] = merged([edge("Pair", "b", "a", id="x"), edge("Pair", "a", "b")], view)
    assert change.rows["id"].to_pylist() == ["x", "1"]
    assert change.minted is False


def test_a_tuple_with_a_null_says_nothing() -> None:
    view = committed(
        CATALOG, [*NODES, edge("Dated", "a", "b", id="1"), edge("Dated", "a", "b", on="2024-01-01", id="2")]
    )
    [change] = merged([edge("Dated", "a", "b"), edge("Dated", "a", "b", on="2024-01-01")], view)
    assert change.rows["id"].to_pylist()[1] == "2"
    assert change.rows["id"].to_pylist()[0] != "1"


def test_twins_in_the_input_are_still_twins_of_the_tuple() -> None:
    view = committed(CATALOG, [*NODES, edge("Pair", "a", "b", id="1")])
    given = read(CATALOG, [edge("Pair", "a", "b"), edge("Pair", "a", "b")], "merge")
    [change] = [adopt_ids(change, view) for change in given.changes("merge")]
    assert codes(validate([change], CATALOG, view)) == [("unique", 2)]


def test_an_empty_table_costs_no_look_up() -> None:
    view = committed(CATALOG, NODES)
    merged([edge("Pair", "a", "b")], view)
    assert [what for what, key in view.asked if key == "edge:Pair"] == []


def test_many_edges_are_matched_by_reading_the_column_once() -> None:
    view = committed(CATALOG, [*NODES, *(edge("Pair", a, b) for a in "abc" for b in "abc")])
    nodes = [{"type": "P", "data": {"k": f"n{i}"}} for i in range(2000)]
    records = [*nodes, *(edge("Pair", f"n{i}", "a") for i in range(2000)), edge("Pair", "c", "b")]
    changes = merged(records, view)
    found = view.tables["edge:Pair"].filter(pa.compute.field("src") == "c").filter(pa.compute.field("dst") == "b")
    assert changes[0].rows["id"].to_pylist()[-1] == found["id"].to_pylist()[0]
    assert ("scan", "edge:Pair") in view.asked
