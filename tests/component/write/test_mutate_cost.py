"""What a mutation sends, counted at the wire: the protocol's own requests, a few to find the row, and no more later."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import omnigraph as og
from omnigraph.testing.faults import FaultProxy
from omnigraph.wire.receipt import Receipt

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
"""
PEOPLE = 400

# The protocol's own, and what finding the row may cost on top.
PROTOCOL = 11
FINDING = 4
HOPS = 9

Act = Callable[[og.Graph, int], Receipt]


def _one(body: str) -> Act:
    def run(graph: og.Graph, number: int) -> Receipt:
        params = {"name": f"p{number}", "other": f"p{(number + 1) % PEOPLE}", "new": f"new {number}", "age": number}
        return graph.mutate(
            f"query q($name: String, $other: String, $new: String, $age: I32) {{ {body} }}", params=params
        )

    return run


INSERT_NODE = _one("insert Person { name: $new, age: $age }")
INSERT_EDGE = _one("insert Knows { from: $name, to: $other }")
INSERT_NOTE = _one("insert Note { text: $new }")
UPDATE = _one("update Person set { age: $age } where name = $name")
REPLACE = _one("insert Person { name: $name, age: $age }")
DELETE_NOTHING_ELSE = _one("delete Person where name = $name")
DELETE_EDGE = _one("delete Knows where from = $name")
NOTHING = _one("update Person set { age: $age } where name = $new")


@pytest.fixture
def graph(proxied_root: str) -> Iterator[og.Graph]:
    with og.init(proxied_root, SCHEMA) as made:
        people = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(PEOPLE)]
        edges = [{"edge": "Knows", "from": f"p{n}", "to": f"p{n + 1}"} for n in range(100, 200)]
        made.load(
            [*people, *edges, {"type": "Note", "data": {"text": "x"}}, {"edge": "Knows", "from": "p0", "to": "p0"}],
            mode="append",
        )
        # Warm: each table was looked at once.
        for number, act in enumerate((INSERT_NODE, INSERT_EDGE, UPDATE, INSERT_NOTE)):
            act(made, 300 + number)
        yield made


def cost(proxy: FaultProxy, act: Act, graph: og.Graph, number: int) -> int:
    """Requests at the wire, which are those that the receipt tells. Every 64th commit writes one file more."""
    proxy.drain()
    proxy.reset()
    receipt = act(graph, number)
    proxy.drain()
    sent = len(proxy.log)
    storage = receipt.storage
    assert storage.requests == sent, storage
    assert storage.hops <= HOPS, storage
    return sent


@pytest.mark.parametrize(
    ("act", "finding"),
    [
        (INSERT_NODE, 0),
        (INSERT_EDGE, 0),
        (INSERT_NOTE, 0),
        (UPDATE, FINDING),
        (REPLACE, FINDING),
        (DELETE_NOTHING_ELSE, FINDING),
        (DELETE_EDGE, FINDING),
    ],
    ids=["insert node", "insert edge", "insert unkeyed", "update by key", "upsert", "delete by key", "delete edge"],
)
def test_a_single_row_costs_the_protocol_and_a_look_whatever_has_been_before(
    graph: og.Graph, fault_proxy: FaultProxy, act: Act, finding: int
) -> None:
    first = 100 if act is DELETE_EDGE else 210  # from 100 to 199 they have edges
    sent = [cost(fault_proxy, act, graph, first + number) for number in range(31)]
    usual = [n for n in sent if n <= PROTOCOL + finding]
    assert len(usual) >= len(sent) - 1, sent  # but for the one that writes to the archive
    assert max(sent) <= PROTOCOL + finding + 1
    assert sent[-1] <= sent[0] + 1, f"the same after {len(sent)} commits: {sent}"


def test_a_node_with_edges_costs_one_more_table_and_no_more_steps(graph: og.Graph, fault_proxy: FaultProxy) -> None:
    for number in (110, 120, 130):
        sent = cost(fault_proxy, DELETE_NOTHING_ELSE, graph, number)
        assert sent <= PROTOCOL + FINDING + 4


def test_a_query_that_finds_nothing_sends_next_to_nothing(graph: og.Graph, fault_proxy: FaultProxy) -> None:
    assert cost(fault_proxy, NOTHING, graph, 3) <= 3
