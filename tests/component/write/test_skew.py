"""Two writers whose inputs do not overlap, and a graph that only stays whole if each knows what it leaned on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core import failpoints

SCHEMA = "node P { k: String @key  n: I32? } edge E: P -> P { n: I32? } edge U: P -> P { @unique(src, dst) }"
A, B = {"type": "P", "data": {"k": "a"}}, {"type": "P", "data": {"k": "b"}}
EDGE = {"edge": "E", "from": "a", "to": "b"}


def dangling(graph: og.Graph) -> list[str]:
    snapshot = graph.snapshot()
    nodes = set(snapshot.to_arrow("P")["id"].to_pylist())
    edges = [*snapshot.to_arrow("E").to_pylist(), *snapshot.to_arrow("U").to_pylist()]
    return [row["id"] for row in edges if not {row["src"], row["dst"]} <= nodes]


def while_it_publishes(rival: Callable[[], Any], write: Callable[[], Any]) -> Any:
    """Run ``rival`` in the last moment before the swap of ``write``; returns what ``write`` came to."""
    waiting = [rival]

    def strike(**_: Any) -> None:
        if waiting:
            waiting.pop()()

    with failpoints.armed("publish.before_swap", strike):
        try:
            return write()
        except og.errors.OmnigraphError as error:
            return error


@pytest.fixture
def two(tmp_path: Path) -> Any:
    with og.init(tmp_path / "graph", SCHEMA) as one, og.open(tmp_path / "graph") as other:
        one.load([A, B], mode="append")
        yield one, other


def drop_b(graph: og.Graph) -> Any:
    return graph.load([A], mode="overwrite")


@pytest.mark.parametrize(
    "records",
    [[EDGE], [A, B, EDGE], [B, EDGE], [A, {"edge": "U", "from": "a", "to": "b"}]],
    ids=["edge alone", "with its nodes as they are", "with one of them", "with the other"],
)
@pytest.mark.parametrize("mode", ["merge"])
def test_a_node_that_goes_meanwhile_leaves_no_dangling_edge(two: Any, records: list[Any], mode: str) -> None:
    one, other = two
    while_it_publishes(lambda: drop_b(other), lambda: one.load(records, mode=mode))
    for graph in (one, other):
        assert dangling(graph) == []


def test_a_stream_of_edges_is_no_exception(two: Any) -> None:
    one, other = two
    table = pa.table({"from": ["a"], "to": ["b"]})
    while_it_publishes(lambda: drop_b(other), lambda: one.load(og.Batch(edges={"E": table.to_reader()}), mode="append"))
    assert dangling(one) == []


def test_edges_that_come_meanwhile_are_not_orphaned_by_an_overwrite_of_nodes(two: Any) -> None:
    one, other = two
    while_it_publishes(lambda: other.load([EDGE], mode="append"), lambda: drop_b(one))
    assert dangling(one) == []


def test_what_moves_beside_is_no_reason_to_fail(two: Any) -> None:
    one, other = two
    done = while_it_publishes(
        lambda: other.load([{"type": "P", "data": {"k": "c"}}], mode="append"),
        lambda: one.load([A, B, EDGE], mode="merge"),
    )
    assert not isinstance(done, Exception), done
    assert sorted(one.snapshot().to_arrow("P")["id"].to_pylist()) == ["a", "b", "c"]
    assert dangling(one) == []
    assert one.snapshot().count("E") == 1


def test_a_mutation_that_finds_its_nodes_as_they_are_leans_on_them_too(two: Any) -> None:
    one, other = two
    query = 'query q() { insert P { k: "a" } insert P { k: "b" } insert E { from: "a", to: "b" } }'
    while_it_publishes(lambda: drop_b(other), lambda: one.mutate(query))
    assert dangling(one) == []
