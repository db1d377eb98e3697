"""Bytes staged by others, on a branch: every table of a staging stands on a line that the branch owns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.core.errors import InvalidInput, NotFound
from omnigraph.schema import table_schema
from tests.component.upkeep.material import engine_of, make, people

PERSON = "node:Person"


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    graph = make(any_root, 2)
    graph.branches.create("feature")
    return graph


def staged(graph: og.Graph, txn: Any, *names: str) -> Any:
    table = txn.table("Person")
    declared = table_schema(graph.catalog.node("Person"))
    held: dict[str, list[Any]] = {
        "id": list(names),
        "name": list(names),
        "age": [1] * len(names),
        "bio": ["x"] * len(names),
    }
    rows = pa.table({name: held[name] for name in declared.names}, schema=declared)
    options = engine_of(graph).store.lance_options()
    return table.describe(write_fragments(rows, table.uri, storage_options=options))


def test_an_inherited_table_gets_a_line_before_anything_is_staged_for_it(graph: og.Graph) -> None:
    before = engine_of(graph).latest("feature")
    txn = graph.begin("feature", ["Person"])
    state = engine_of(graph).latest("feature").state
    pin = state.tables[PERSON]
    assert pin.owner == state.identity and pin.version == before.state.tables[PERSON].version
    assert state.head.commit_id == before.state.head.commit_id and state.version == before.version + 1
    assert f"/tree/{pin.ref}" in txn.table("Person").uri and txn.table(PERSON).ref == pin.ref
    assert engine_of(graph).store.list("__recovery/") == []
    txn.load_staged({"Person": staged(graph, txn, "ann", "bob")})
    assert og.open(graph.uri).snapshot("feature").count("Person") == 4 and graph.snapshot().count("Person") == 2
    again = graph.begin("feature", ["Person"])
    assert engine_of(graph).latest("feature").version == state.version + 1, "its line is there"
    again.abort()
    assert graph.verify(deep=True).ok


def test_without_names_a_staging_has_the_tables_that_the_branch_owns(graph: og.Graph) -> None:
    txn = graph.begin("feature")
    with pytest.raises(InvalidInput) as caught:
        txn.table("Person")
    assert "tables=['Person'" in caught.value.hint
    graph.load(people("ann"), mode="append", branch="feature")
    mine = graph.begin("feature")
    assert mine.table("Person").version == engine_of(graph).latest("feature").state.tables[PERSON].version
    with pytest.raises(NotFound):
        mine.table("Nothing")
    assert graph.begin().table("Place"), "on main: all"


@pytest.mark.parametrize("tables", ["Person", [], [7], ["Nothing"]])
def test_tables_are_names_of_types_that_are_there(graph: og.Graph, tables: Any) -> None:
    with pytest.raises((InvalidInput, NotFound)):
        graph.begin("feature", tables)
    with pytest.raises(InvalidInput):
        graph.begin(tables=["Person"], resume="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_first_writer_that_wins_meanwhile_has_made_the_line_that_is_used(graph: og.Graph) -> None:
    other = og.open(graph.uri)

    def rival(**_: Any) -> None:
        failpoints.disarm()
        other.load(people("bob"), mode="append", branch="feature")

    with failpoints.armed("own_lines.before_swap", rival):
        txn = graph.begin("feature", ["Person", "Knows"])
    state = engine_of(graph).latest("feature").state
    assert txn.table("Person").ref == state.tables[PERSON].ref
    txn.load_staged({"Person": staged(graph, txn, "ann")})
    read = og.open(graph.uri).snapshot("feature")
    assert read.get("Person", "ann") and read.get("Person", "bob")


def test_a_first_writer_beside_a_staged_batch_writes_on_the_same_line(graph: og.Graph) -> None:
    txn = graph.begin("feature", ["Person"])
    batch = staged(graph, txn, "ann")
    og.open(graph.uri).load(people("bob"), mode="append", branch="feature")
    txn.load_staged({"Person": batch})
    assert graph.snapshot("feature").count("Person") == 4


def test_a_staging_of_a_branch_that_was_made_again_is_refused(graph: og.Graph) -> None:
    txn = graph.begin("feature", ["Person"])
    batch = staged(graph, txn, "ann")
    other = og.open(graph.uri)
    other.branches.delete("feature")
    other.branches.create("feature")
    for handle in (other, graph):
        with pytest.raises(NotFound):
            handle.begin(resume=txn.id).load_staged({"Person": batch})
    assert graph.snapshot("feature").count("Person") == 2
