"""What becomes of edges that name a node which does not exist is the same wherever rows are compared."""

from __future__ import annotations

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
from tests.component.distributed import test_parts as parts
from tests.component.distributed.test_parts import content, outcome, stage
from tests.component.distributed.test_parts_shared import Wire, by_wire, few_rows_at_once
from tests.corpus.replay import print_example, replaying

EXAMPLES = max(settings().max_examples // 2, 1)
SCHEMA = """
node Person @stub(assumed) { name: String @key  age: I32?  assumed: Bool?  @range(age, 0..150)  @check(name, "^p") }
node City @stub(assumed) { code: I32 @key  label: String? @unique  assumed: Bool }
node Note { name: String @key }
edge Knows: Person -> Person @card(0..2) { weight: F64?  @unique(src, dst) }
edge LivesIn: Person -> City
edge Wrote: Person -> Note
"""
COLUMNS = {
    "Person": pa.schema([("name", pa.string()), ("age", pa.int64())]),
    "City": pa.schema([("code", pa.int64()), ("label", pa.string())]),
    "Knows": pa.schema([("id", pa.string()), ("from", pa.string()), ("to", pa.string()), ("weight", pa.float64())]),
    "LivesIn": pa.schema([("from", pa.string()), ("to", pa.string())]),
    "Wrote": pa.schema([("from", pa.string()), ("to", pa.string())]),
}
FIRST = {
    "Person": [{"name": "p0", "age": 1}, {"name": "p1", "age": None}],
    "City": [{"code": 0, "label": "a"}],
    "Knows": [{"id": "k1", "from": "p0", "to": "p1", "weight": 0.5}],
    "LivesIn": [{"from": "p0", "to": "0"}],
}


def tables(rows: Mapping[str, Any]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist([dict(row) for row in listed], COLUMNS[name]) for name, listed in rows.items()}


NAMES = st.sampled_from(["p0", "p1", "p2", "p3", "p4", "x"])
CODES = st.sampled_from(["0", "1", "2", "01", "rome"])
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "Person": st.lists(
            st.fixed_dictionaries({"name": NAMES | st.none(), "age": st.sampled_from([None, 3, 3, 3, -1])}),
            max_size=4,
        ),
        "City": st.lists(
            st.fixed_dictionaries({"code": st.integers(0, 3), "label": st.sampled_from([None, None, "a", "b"])}),
            max_size=3,
        ),
        "Knows": st.lists(
            st.fixed_dictionaries(
                {"id": st.sampled_from([None, None, "k1", "k2"]), "from": NAMES, "to": NAMES, "weight": st.just(0.5)}
            ),
            max_size=6,
        ),
        "LivesIn": st.lists(st.fixed_dictionaries({"from": NAMES, "to": CODES}), max_size=4),
        "Wrote": st.lists(st.fixed_dictionaries({"from": NAMES, "to": NAMES}), max_size=2),
    },
)
ACTIONS = st.sampled_from(["fail", "quarantine", "drop", "stub"])
POLICIES = (
    st.none()
    | st.sampled_from(["drop", "stub", "quarantine"])
    | st.dictionaries(st.sampled_from(["Knows", "LivesIn", "Wrote"]), ACTIONS, min_size=1)
)
BOUNDS = (
    st.none() | st.none() | st.sampled_from([{"endpoints": 0.4}, {"endpoints": 2, "values": 1}, {"cardinality": 0}])
)
LOADS = st.lists(
    st.tuples(
        ROWS,
        st.sampled_from(["append", "merge", "merge", "overwrite"]),
        st.fixed_dictionaries(
            {"on_bad_row": st.sampled_from(["fail", "quarantine"]), "on_missing_endpoint": POLICIES, "bounds": BOUNDS}
        ),
    ),
    min_size=1,
    max_size=3,
)


def same_wherever(loads: list[Any], cut: int) -> None:
    print_example(why="", cut=cut, loads=loads)
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(f"{folder}/a", SCHEMA) as one,
        og.init(f"{folder}/b", SCHEMA) as other,
    ):
        for graph in (one, other):
            graph.load(tables(FIRST), mode="append")
        for rows, mode, options in loads:
            mine = outcome(lambda rows=rows, mode=mode, options=options: stage(one, tables(rows), mode, cut, **options))
            theirs = outcome(
                lambda rows=rows, mode=mode, options=options: other.load(tables(rows), mode=mode, **options)
            )
            assert mine == theirs
            assert content(one) == content(other)
        assert one.verify(deep=True).ok and other.verify().ok


def shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"loads": entry["loads"], "cut": entry["cut"]}


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS, cut=st.integers(1, 4))
@replaying("missing_endpoints", shown)
def test_edges_without_a_node_come_out_the_same_where_keys_are_held(loads: list[Any], cut: int) -> None:
    same_wherever(loads, cut)


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS, cut=st.integers(1, 4))
@replaying("missing_endpoints", shown)
def test_edges_without_a_node_come_out_the_same_on_executors(loads: list[Any], cut: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        by_wire(patch, Wire())
        same_wherever(loads, cut)


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS)
@replaying("missing_endpoints", lambda entry: {"loads": entry["loads"]})
def test_edges_without_a_node_come_out_the_same_in_passes(loads: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_rows_at_once(patch, 3)
        patch.setattr(pass_rules, "PLAIN_ROWS", 0)
        same_wherever(loads, 2)


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_staged_batch_makes_stubs_in_tables_that_it_does_not_name(tmp_path: Path, mode: str, exchange: bool) -> None:
    with pytest.MonkeyPatch.context() as patch, og.init(tmp_path / "a", SCHEMA) as graph:
        if exchange:
            by_wire(patch, Wire())
        graph.load(tables(FIRST), mode="append")
        rows = {"LivesIn": [{"from": "p0", "to": "7"}, {"from": "p9", "to": "0"}]}
        receipt = stage(graph, tables(rows), mode, 1, on_missing_endpoint="stub")
        assert receipt.stubs == {"City": 1, "Person": 1} and receipt.rejected.missing_ids == {"7": 1, "p9": 1}
        assert receipt.tables["node:City"].inserted == 1
        assert graph.snapshot().get("City", "7") == {"id": "7", "code": 7, "label": None, "assumed": True}
        assert graph.snapshot().count("Person") == 3, "what an overwrite does not name stays"
        assert graph.verify(deep=True).ok
        real = stage(graph, {"City": pa.table({"code": [7], "label": ["g"]})}, "merge", 1)
        assert real.tables["node:City"].updated == 1
        assert graph.snapshot().get("City", "7") == {"id": "7", "code": 7, "label": "g", "assumed": False}


def test_nothing_of_a_refused_batch_with_stubs_is_left(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph:
        graph.load(tables(FIRST), mode="append")
        before = parts.files(graph)
        rows = {"LivesIn": [{"from": "p0", "to": "7"}], "Wrote": [{"from": "p0", "to": "n"}]}
        with pytest.raises(og.errors.DataInvalid, match="Note"):
            stage(graph, tables(rows), "append", 1, on_missing_endpoint={"LivesIn": "stub"})
        with pytest.raises(
            og.errors.DataInvalid, match=r"1 of 1 records fail the check 'endpoints' \(100.0 %\)"
        ) as caught:
            stage(
                graph,
                tables({"LivesIn": [{"from": "p0", "to": "7"}]}),
                "append",
                1,
                on_missing_endpoint="stub",
                bounds={"endpoints": 0.5},
            )
        assert caught.value.facts["missing_ids"] == {"7": 1} and "7 (1x)" in caught.value.message
        assert parts.files(graph) == before


def test_a_report_says_which_ids_are_missing_most_often(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph:
        txn = graph.begin()
        task = txn.task("append")
        split = distributed.Split(0, 0)
        edges = pa.table({"from": ["p1", "p1", "p2"], "to": ["1", "2", "1"]})
        staged = [task.stage_table("LivesIn", [distributed.TableRows(split, edges.to_batches())], 0)]
        txn.add_parts(staged)
        for exchange in (None, Wire()):
            given: dict[str, Any] = {"exchange": exchange, "exchange_always": exchange is not None}
            report = distributed.check_parts(txn, staged, ["LivesIn"], mode="append", **given)
            assert not report.ok and report.by_reason == {"missing-endpoint": 6}
            assert list(report.missing_ids.items()) == [("1", 2), ("p1", 2), ("2", 1), ("p2", 1)]
            assert distributed.PartsReport.from_json(report.to_json()) == report
        txn.abort()
