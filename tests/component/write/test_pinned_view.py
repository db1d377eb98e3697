"""The validator gives one verdict over real tables and over the same rows in memory, whatever the history of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.txn import Txn, open_txn
from omnigraph.core.meter import Meter
from omnigraph.write.base import blocks
from omnigraph.write.base import committed_rows as committed
from omnigraph.write.rules.id_reuse import adopt_ids
from omnigraph.write.rules.validate import validate
from omnigraph.write.sources.input import read_source
from tests.unit.write.support import MemoryView, edge

SCHEMA = """
node A { k: String @key  u: I32? @unique  d: Date?  s: String?  @unique(d, s) }
node B { n: I64 @key }
edge E: A -> B @card(1..2) { x: String?  @unique(src, dst, x) }
edge F: A -> A { @unique(src, dst) }
"""


def node(key: str, **data: Any) -> dict[str, Any]:
    return {"type": "A", "data": {"k": key, **data}}


@pytest.fixture(scope="module")
def txn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Txn]:
    with og.init(tmp_path_factory.mktemp("view") / "graph", SCHEMA) as graph:
        graph.load([node("a", u=1), node("b", u=2, d="2024-01-01", s="x"), node("g'o\"n e`")], mode="append")
        graph.load([{"type": "B", "data": {"n": n}} for n in (-1, 0, 7)], mode="append")
        graph.load([node("c"), edge("E", "a", 7, x="x", id="1"), edge("F", "a", "b", id="1")], mode="append")
        graph.load([node("a", u=3), edge("E", "b", 7, id="2"), edge("E", "b", 0, id="3")], mode="merge")
        graph.load([node("c", u=1), edge("E", "c", 0, id="3")], mode="merge")
        yield open_txn(graph._engine, "main", deadline=Deadline(graph._engine.clock, 600), meter=Meter())


@pytest.fixture(scope="module")
def memory(txn: Txn) -> MemoryView:
    import pyarrow as pa

    catalog = txn.catalog
    tables = {}
    for declared in catalog.types():
        batches = list(txn.scan(declared.table_key, list(declared.columns)))
        if batches:
            tables[declared.table_key] = pa.Table.from_batches(batches)
    return MemoryView(catalog, tables)


KEYS = st.sampled_from(["a", "b", "c", "d", "g'o\"n e`"])
NUMBERS = st.sampled_from([-1, 0, 7, 8])
IDS = st.sampled_from([{}, {"id": "1"}, {"id": "2"}, {"id": "3"}, {"id": "4"}])
NODES = st.builds(
    lambda k, u, d, s: node(k, u=u, d=d, s=s),
    KEYS,
    st.none() | st.integers(1, 4),
    st.none() | st.sampled_from(["2024-01-01", "2024-01-02"]),
    st.none() | st.sampled_from("xy"),
)
E = st.builds(
    lambda a, n, i, x: edge("E", a, n, **i, **({"x": x} if x else {})), KEYS, NUMBERS, IDS, st.none() | st.just("x")
)
F = st.builds(lambda a, b, i: edge("F", a, b, **i), KEYS, KEYS, IDS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(NODES | E | F, min_size=1, max_size=8), st.sampled_from(["append", "merge", "overwrite"]), st.booleans()
)
def test_real_tables_and_tables_in_memory_give_one_verdict(
    txn: Txn, memory: MemoryView, records: list[Any], mode: str, in_bulk: bool
) -> None:
    catalog = txn.catalog
    with pytest.MonkeyPatch.context() as patch:
        if in_bulk:
            patch.setattr(blocks, "PIECE_ROWS", 2)
            patch.setattr(committed, "_VALUES_FEW", 0)
        given_input = read_source(records, catalog, mode=mode)
        verdicts = []
        for view in (txn, memory):
            changes = [adopt_ids(change, view) for change in given_input.changes(mode)]
            ids = [change.rows.filter(change.minted_rows() == 0)["id"].to_pylist() for change in changes]
            verdicts.append((validate(changes, catalog, view), ids))
    assert verdicts[0] == verdicts[1]
