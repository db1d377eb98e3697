"""A patch that tasks stage is the patch that one load reads: what a row does not name keeps its value, wherever rows are compared."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import distributed
from omnigraph.distributed import pass_rules
from omnigraph.distributed.stage_task import ObjectRows, RecordRows
from omnigraph.distributed.staged_part import Split, StagedPart
from tests.component.distributed.test_parts import JUDGED, as_foretold, content, outcome, stage
from tests.component.distributed.test_parts_shared import Wire, by_wire, few_rows_at_once
from tests.corpus.replay import print_example, replaying

EXAMPLES = max(settings().max_examples // 2, 1)
SCHEMA = """
node Person { name: String @key  age: I32  city: enum(oslo, rome)?  mail: String? @unique  tags: [String]?  spot: Vector(2)?  @range(age, 1..150) }
edge Knows: Person -> Person @card(0..2) { kind: String  weight: F64?  note: String? @unique(src, dst, note) }
edge Likes: Person -> Person { since: Date?  why: String?  @unique(src, dst) }
"""
FIRST: list[dict[str, Any]] = [
    {
        "type": "Person",
        "data": {"name": "p0", "age": 30, "mail": "a", "city": "oslo", "tags": ["x"], "spot": [1.0, 2.0]},
    },
    {"type": "Person", "data": {"name": "p1", "age": 40, "mail": "b"}},
    {"type": "Person", "data": {"name": "p2", "age": 50, "mail": None, "city": "rome"}},
    {"edge": "Knows", "from": "p0", "to": "p1", "data": {"id": "k1", "kind": "old", "weight": 0.5, "note": "n"}},
    {"edge": "Likes", "from": "p0", "to": "p1", "data": {"id": "l1", "since": "2026-01-01", "why": "w"}},
]


def staged_records(graph: og.Graph, records: list[dict[str, Any]], cut: int, **options: Any) -> og.Receipt:
    """Records in stretches of ``cut``, every answer pickled."""
    txn = graph.begin()
    task = pickle.loads(pickle.dumps(txn.task("patch", set_aside=options.get("on_bad_row") == "quarantine")))
    parts: list[StagedPart] = []
    for index, start in enumerate(range(0, len(records), cut)):
        rows = [RecordRows(Split(0, index), [records[start : start + cut]])]
        parts.append(pickle.loads(pickle.dumps(task.stage_records(rows, index))))
    txn.add_parts(parts)
    try:
        judged = {name: value for name, value in options.items() if name in JUDGED}
        types = sorted({one.get("type") or one["edge"] for one in records})
        foretold = distributed.check_parts(txn, parts, types, mode="patch", **judged)
        asked = og.LoadOptions(mode="patch", **options)
        return as_foretold(foretold, lambda: txn.load_parts(list(reversed(parts)), types, options=asked))
    except og.errors.OmnigraphError:
        if not txn.sent:
            txn.abort()
        raise


NAMES = st.sampled_from(["p0", "p1", "p2", "p3", "p4"])
# A row is wrong in one way at most: what a task sees and what the graph shows are said in rounds of their own.
PERSON = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "age": st.integers(1, 99),
        "city": st.sampled_from(["oslo", None]),
        "mail": st.sampled_from(["a", "b", "c", None]),
        "tags": st.sampled_from([None, [], ["y"]]),
        "spot": st.sampled_from([None, [0.5, 1.5]]),
    },
).map(lambda data: {"type": "Person", "data": data}) | st.just({"type": "Person", "data": {"name": "p9", "age": 500}})
KNOWS = st.builds(
    lambda src, dst, data: {"edge": "Knows", "from": src, "to": dst, "data": data},
    NAMES,
    NAMES,
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from(["k1", "k2"]),
            "kind": st.just("new"),
            "weight": st.sampled_from([None, 1.5]),
            "note": st.sampled_from([None, "n", "m"]),
        },
    ),
)
LIKES = st.builds(
    lambda src, dst, data: {"edge": "Likes", "from": src, "to": dst, "data": data},
    NAMES,
    NAMES,
    st.fixed_dictionaries({}, optional={"since": st.sampled_from([None, "2026-02-02"]), "why": st.just("z")}),
)
LOADS = st.lists(
    st.tuples(
        st.lists(PERSON | PERSON | KNOWS | LIKES, min_size=1, max_size=6), st.sampled_from(["fail", "quarantine"])
    ),
    min_size=1,
    max_size=3,
)


def same_patch(loads: list[Any], cut: int) -> None:
    print_example(why="", cut=cut, loads=loads)
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(f"{folder}/a", SCHEMA) as one,
        og.init(f"{folder}/b", SCHEMA) as other,
    ):
        for graph in (one, other):
            graph.load(FIRST, mode="append")
        for records, bad in loads:
            mine = outcome(lambda records=records, bad=bad: staged_records(one, records, cut, on_bad_row=bad))
            assert mine == outcome(lambda records=records, bad=bad: other.load(records, mode="patch", on_bad_row=bad))
            assert content(one) == content(other)
        assert one.verify(deep=True).ok


def shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"loads": entry["loads"], "cut": entry["cut"]}


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS, cut=st.integers(1, 4))
@replaying("staged_patches", shown)
def test_random_patches_come_out_the_same_through_both_doors(loads: list[Any], cut: int) -> None:
    same_patch(loads, cut)


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS, cut=st.integers(1, 4))
@replaying("staged_patches", shown)
def test_random_patches_come_out_the_same_on_executors(loads: list[Any], cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        by_wire(patch, Wire())
        same_patch(loads, cut)


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS)
@replaying("staged_patches", lambda entry: {"loads": entry["loads"]})
def test_random_patches_come_out_the_same_in_passes(loads: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_rows_at_once(patch, 3)
        patch.setattr(pass_rules, "PLAIN_ROWS", 0)
        same_patch(loads, 2)


@pytest.mark.parametrize("exchange", [False, True])
def test_a_table_patches_the_columns_that_it_has(tmp_path: Path, exchange: bool) -> None:
    with pytest.MonkeyPatch.context() as patch, og.init(tmp_path / "a", SCHEMA) as graph:
        if exchange:
            by_wire(patch, Wire())
        graph.load(FIRST, mode="append")
        before = graph.snapshot().get("Person", "p0")
        rows = pa.table({"name": ["p0", "p1"], "mail": pa.array(["z", None])})
        receipt = stage(graph, {"Person": rows}, "patch", 1)
        assert receipt.tables["node:Person"].updated == 2
        assert graph.snapshot().get("Person", "p0") == {**before, "mail": "z"}  # type: ignore[dict-item]
        bob = graph.snapshot().get("Person", "p1")
        assert bob is not None and (bob["age"], bob["mail"]) == (40, None)
        same = stage(graph, {"Person": rows}, "patch", 1)
        assert same.commit_id is None and same.tables["node:Person"].unchanged == 2
        edges = pa.table({"from": ["p0"], "to": ["p1"], "why": ["z"]})
        stage(graph, {"Likes": edges}, "patch", 1)
        [like] = graph.snapshot().to_arrow("Likes").to_pylist()
        assert (like["id"], str(like["since"]), like["why"]) == ("l1", "2026-01-01", "z")
        assert graph.verify(deep=True).ok


def test_a_member_that_an_object_lacks_keeps_its_value_and_null_is_null(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph:
        graph.load(FIRST, mode="append")
        txn = graph.begin()
        lines = b'{"name": "p0", "years": 31}\n{"name": "p2", "city": null}\n'
        part = txn.task("patch").stage_objects("Person", [ObjectRows(Split(0, 0), [lines], {"age": "years"})], 0)
        txn.add_parts([part])
        receipt = txn.load_parts([part], ["Person"], options=og.LoadOptions(mode="patch"))
        assert receipt.tables["node:Person"].updated == 2
        p0, p2 = graph.snapshot().get("Person", "p0"), graph.snapshot().get("Person", "p2")
        assert p0 is not None and p2 is not None
        assert (p0["age"], p0["mail"], p0["tags"]) == (31, "a", ["x"]) and (p2["age"], p2["city"]) == (50, None)


def test_a_patch_keeps_what_came_in_while_it_was_staged(tmp_path: Path) -> None:
    """Values are kept from the graph as it is when the patch is committed, not as it was when its rows were read."""
    with og.init(tmp_path / "a", SCHEMA) as graph:
        graph.load(FIRST, mode="append")
        txn = graph.begin()
        task = txn.task("patch")
        part = task.stage_records(
            [RecordRows(Split(0, 0), [[{"type": "Person", "data": {"name": "p0", "city": "rome"}}]])], 0
        )
        txn.add_parts([part])
        report = distributed.check_parts(txn, [part], ["Person"], mode="patch")
        graph.load([{"type": "Person", "data": {"name": "p0", "mail": "new"}}], mode="patch")
        txn.load_parts([part], ["Person"], options=og.LoadOptions(mode="patch"), checks=report)
        found = graph.snapshot().get("Person", "p0")
        assert found is not None and (found["mail"], found["city"], found["age"]) == ("new", "rome", 30)


def test_a_quarantined_row_of_a_patch_names_what_it_named(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph:
        graph.load(FIRST, mode="append")
        records = [
            {"type": "Person", "data": {"name": "p0", "mail": "b"}},
            {"type": "Person", "data": {"name": "p7", "city": None}},
        ]
        receipt = staged_records(graph, records, 1, on_bad_row="quarantine")
        assert [one["record"] for one in receipt.rejected.rows] == records
        assert [one["reasons"][0]["code"] for one in receipt.rejected.rows] == ["unique", "required"]
