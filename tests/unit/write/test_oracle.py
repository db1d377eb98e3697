"""The validator against a plain re-telling of its rules, on random graphs and random changes.

The oracle applies the change to a dictionary of rows and looks at the result; it knows nothing of Arrow, sets of keys or
reading in bulk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from omnigraph.schema import table_schema
from omnigraph.write.base import blocks
from omnigraph.write.base import committed_rows as committed
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.rules.quarantine import sift
from omnigraph.write.rules.validate import validate
from omnigraph.write.sources.input import read_source
from tests.unit.write.support import MemoryView, catalog_of

CATALOG = catalog_of(
    """
node A { k: String @key  u: I32? @unique  @range(u, 0..8) }
node B { t: String? }
edge E: A -> B @card(1..2) { x: String?  @unique(src, x) }
edge F: A -> A { n: I32? @unique }
"""
)
ENDS = {"E": ("A", "B"), "F": ("A", "A")}
CARDS = {"E": (1, 2)}
UNIQUES = {"A": [("u",)], "B": [], "E": [("src", "x")], "F": [("n",)]}

A_IDS, B_IDS = st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["p", "q", "r"])
NODE_A = st.fixed_dictionaries({"type": st.just("A"), "id": A_IDS, "u": st.none() | st.integers(0, 9)})
NODE_B = st.fixed_dictionaries({"type": st.just("B"), "id": B_IDS, "t": st.none()})
EDGE_IDS = st.none() | st.sampled_from(["1", "2", "3", "4"])
EDGE_E = st.fixed_dictionaries(
    {"type": st.just("E"), "id": EDGE_IDS, "src": A_IDS, "dst": B_IDS, "x": st.none() | st.sampled_from("xy")}
)
EDGE_F = st.fixed_dictionaries(
    {"type": st.just("F"), "id": EDGE_IDS, "src": A_IDS, "dst": A_IDS, "n": st.none() | st.integers(0, 3)}
)
ROWS = st.lists(st.one_of(NODE_A, NODE_B, EDGE_E, EDGE_F), max_size=9)

Row = dict[str, Any]
Graph = dict[str, dict[str, Row]]


def as_record(row: Row) -> Row:
    data = {k: v for k, v in row.items() if k not in ("type", "src", "dst", "id") and v is not None}
    if row["type"] == "A":
        return {"type": "A", "data": {"k": row["id"], **data}}
    if row["id"] is not None:
        data["id"] = row["id"]
    if row["type"] == "B":
        return {"type": "B", "data": data}
    return {"edge": row["type"], "from": row["src"], "to": row["dst"], "data": data}


def table_key(name: str) -> str:
    return f"{'edge' if name in ENDS else 'node'}:{name}"


def sound_part(rows: list[Row]) -> Graph:
    """A graph that keeps all rules, of as many of the rows as possible. Minima are kept by leaving them to the change."""
    graph: Graph = {name: {} for name in UNIQUES}
    for i, row in enumerate(sorted(rows, key=lambda row: row["type"])):
        name = row["type"]
        row = row | {"id": row["id"] or f"made-{i}"}
        if row["id"] in graph[name] or row.get("u") == 9:
            continue
        if name in ENDS:
            source, target = ENDS[name]
            if row["src"] not in graph[source] or row["dst"] not in graph[target]:
                continue
            if name in CARDS and sum(r["src"] == row["src"] for r in graph[name].values()) >= CARDS[name][1]:
                continue
        if any(clashes(row, other, group) for group in UNIQUES[name] for other in graph[name].values()):
            continue
        graph[name][row["id"]] = row
    return graph


def clashes(row: Row, other: Row, group: tuple[str, ...]) -> bool:
    return all(row[c] is not None and row[c] == other[c] for c in group)


def view_of(graph: Graph) -> MemoryView:
    tables = {}
    for name, rows in graph.items():
        declared = CATALOG.type(name)
        schema = table_schema(declared)
        listed = [{**row, "k": row["id"]} if name == "A" else row for row in rows.values()]
        tables[declared.table_key] = pa.Table.from_pylist(
            [{c: r.get(c) for c in schema.names} for r in listed], schema=schema
        )
    return MemoryView(CATALOG, tables)


def expected(graph: Graph, rows: list[Row], mode: str, deleted: dict[str, set[str]]) -> set[str]:
    """The codes of everything that is wrong."""
    found: set[str] = set()
    rows = [row | {"id": row["id"] or f"new-{i}"} for i, row in enumerate(rows)]
    new: dict[str, list[Row]] = {name: [row for row in rows if row["type"] == name] for name in UNIQUES}
    named = {name for name in UNIQUES if new[name]}
    after: dict[str, list[Row]] = {}
    for name in UNIQUES:
        mine = new[name]
        if any(count > 1 for count in Counter(row["id"] for row in mine).values()):
            found.add("duplicate-id")
        if mode == "append" and any(row["id"] in graph[name] for row in mine):
            found.add("key-conflict")
        if any(row.get("u") == 9 for row in mine):
            found.add("range")
        gone = deleted.get(name, set())
        if mode == "overwrite" and name in named:
            stay = []
        else:
            replaced = {row["id"] for row in mine} if mode == "merge" else set()
            stay = [row for row in graph[name].values() if row["id"] not in gone | replaced]
        after[name] = stay + mine
        for group in UNIQUES[name]:
            for i, row in enumerate(mine):
                others = [other for other in stay if other["id"] != row["id"]]
                if any(clashes(row, other, group) for other in [*mine[:i], *others]):
                    found.add("unique")
    for name, (source, target) in ENDS.items():
        ids = {kind: {row["id"] for row in after[kind]} for kind in (source, target)}
        for row in after[name]:
            if row["src"] not in ids[source] or row["dst"] not in ids[target]:
                found.add("missing-endpoint" if any(row is mine for mine in new[name]) else "orphan")
        if name in CARDS:
            low, high = CARDS[name]
            before = {row["src"] for row in graph[name].values()}
            counts = Counter(row["src"] for row in after[name])
            touched = {row["src"] for row in new[name]}
            changed = {r["id"] for r in new[name]} if mode == "merge" else set()
            lost = {graph[name][i]["src"] for i in (changed | deleted.get(name, set())) if i in graph[name]}
            if mode == "overwrite" and name in named:
                lost = before
            for one in touched:
                if counts[one] > high:
                    found.add("card-max")
            for one in touched | (lost & ids[source]):
                if counts[one] < low:
                    found.add("card-min")
    return found


@given(ROWS, ROWS, st.sampled_from(["append", "merge", "overwrite"]), st.data(), st.booleans())
def test_the_validator_finds_what_the_rules_say(
    base: list[Row], rows: list[Row], mode: str, data: st.DataObject, in_bulk: bool
) -> None:
    graph = sound_part(base)
    deleted: dict[str, set[str]] = {}
    if mode == "merge":
        for name in UNIQUES:
            given_ids = {row["id"] for row in rows if row["type"] == name}
            free = sorted(set(graph[name]) - given_ids)
            if free:
                picked = data.draw(st.sets(st.sampled_from(free), max_size=2))
                if picked:
                    deleted[name] = picked
    given_input = read_source([as_record(row) for row in rows], CATALOG, mode=mode)
    assert not given_input.malformed
    changes = {change.table_key: change for change in given_input.changes(mode)}
    for name, ids in deleted.items():
        declared = CATALOG.type(name)
        change = changes.get(table_key(name)) or TypeChange(declared, table_schema(declared).empty_table(), mode)
        changes[table_key(name)] = replace(change, deleted_ids=pa.array(sorted(ids), pa.utf8()))
    with pytest.MonkeyPatch.context() as patch:
        if in_bulk:
            patch.setattr(blocks, "PIECE_ROWS", 2)
            patch.setattr(committed, "_VALUES_FEW", 0)
        view = view_of(graph)
        verdict = validate(changes.values(), CATALOG, view)
        want = expected(graph, rows, mode, deleted)
        assert {violation.code for violation in verdict.violations} == want
        assert verdict.ok == (verdict.total == 0) == (not want)
        asked = {key for _, key in view.asked}
        assert asked <= verdict.reads
        event(f"{mode}: {sorted(want)}")


@given(ROWS, ROWS, st.sampled_from(["append", "merge", "overwrite"]))
def test_what_quarantine_leaves_stands_and_what_leaves_had_a_reason(
    base: list[Row], rows: list[Row], mode: str
) -> None:
    graph = sound_part(base)
    given_input = read_source([as_record(row) for row in rows], CATALOG, mode=mode, keep_rejected=True)
    view = view_of(graph)
    result = sift(given_input.changes(mode), CATALOG, view, rejected=given_input.rejected)
    verdict = validate(result.changes, CATALOG, view)
    assert {violation.code for violation in verdict.violations} <= {"card-min", "orphan"}
    assert verdict.violations == result.verdict.violations
    assert sum(change.rows.num_rows for change in result.changes) + len(result.rejected) == len(rows)
    assert all(one.reasons for one in result.rejected)
    whole = validate(given_input.changes(mode), CATALOG, view)
    if whole.ok:
        assert result.rejected == ()
    # The same again, whatever the order in which threads answered.
    again = sift(given_input.changes(mode), CATALOG, view_of(graph), rejected=given_input.rejected)
    assert [(one.number, [r.code for r in one.reasons]) for one in again.rejected] == [
        (one.number, [r.code for r in one.reasons]) for one in result.rejected
    ]
