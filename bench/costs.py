"""The operations whose cost is measured, and one measurement: what went over the wire while it ran.

Owns the list and the counting; knows neither worlds nor tables of results.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import omnigraph as og
from bench.graphs import Row, edge, node, person
from omnigraph.core.meter import StorageCost
from omnigraph.testing.faults import Control, Exchange, counts, hops, operations, serial_service_s

Rows = Callable[[int], Sequence[Row]]


@dataclass(frozen=True)
class Op:
    """One write. ``rows`` gives new records for every number that it is given."""

    name: str
    mode: str
    rows: Rows


def _between(type_name: str, step: int, **values: Any) -> Rows:
    # Endpoints that no history uses, far apart, and no pair twice.
    return lambda n: [edge(type_name, person(5_000 + n), person(9_000 + step * n), **values)]


def _two_and_two(n: int) -> Sequence[Row]:
    return [
        node("Person", f"new-person-{n}"),
        node("Org", f"new-org-{n}"),
        edge("Knows", f"new-person-{n}", person(n)),
        edge("Works", f"new-person-{n}", f"new-org-{n}"),
    ]


EDGE = Op("one edge between nodes", "append", _between("Knows", 3, weight=1.0))
EDGE_MERGE = Op("one edge between nodes, merge", "merge", _between("Knows", 11, weight=1.0))
NODE_MERGE = Op("one keyed node, merge", "merge", lambda n: [node("Person", f"new-{n}")])
NODE_UPDATE = Op("one keyed node, merge of a changed one", "merge", lambda n: [node("Person", person(n), age=100 + n)])
NODE_APPEND = Op("one keyed node, append", "append", lambda n: [node("Person", f"new-{n}")])
TWO_AND_TWO = Op("two node types and two edge types", "append", _two_and_two)
UNIQUE_EDGE = Op("one edge with @unique(src, dst)", "append", _between("Follows", 5))
CARD_EDGE = Op("one edge with @card(0..20)", "append", _between("Reports", 7))

PLAIN_OPS = (EDGE, EDGE_MERGE, NODE_MERGE, NODE_APPEND, NODE_UPDATE, TWO_AND_TWO)
CONSTRAINED_OPS = (UNIQUE_EDGE, CARD_EDGE, NODE_APPEND)


class Writer:
    """Runs operations on one graph handle, each time with records that it has not used yet."""

    def __init__(self, graph: og.Graph, first: int = 1) -> None:
        self.graph = graph
        self._serial = itertools.count(first)

    def run(self, op: Op) -> StorageCost:
        receipt = self.graph.load(op.rows(next(self._serial)), mode=op.mode)
        assert receipt.commit_id is not None, f"{op.name} changed nothing"
        cost: StorageCost = receipt.storage
        return cost


@dataclass(frozen=True)
class Cost:
    """What one operation sent, by class and in all; ``detail`` names the verbs as well. ``receipt`` is its own account."""

    by_class: dict[str, int]
    detail: dict[str, int]
    hops: int
    wall_s: float
    service_s: float
    receipt: StorageCost | None = None

    @property
    def requests(self) -> int:
        return self.by_class["total"]

    @property
    def lookups(self) -> int:
        """Reads of rows and of indexes."""
        return sum(n for what, n in self.detail.items() if what in _LOOKUPS)

    @property
    def rolled(self) -> bool:
        """History went to the archive with this commit: one file more."""
        return self.detail.get("manifest put", 0) > 3

    def to_dict(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "lookups": self.lookups,
            "by_class": {name: n for name, n in self.by_class.items() if n and name != "total"},
            "detail": self.detail,
            "chain": self.hops,
        }


_LOOKUPS = frozenset({"data get", "data head", "data list", "index get", "index head", "index list"})


def measured(proxy: Control, act: Callable[[], Any]) -> Cost:
    """Run it alone and count. The log of the proxy is emptied first."""
    proxy.drain()
    proxy.reset()
    started = time.perf_counter()
    result = act()
    wall = time.perf_counter() - started
    proxy.drain()
    log: list[Exchange] = proxy.log
    receipt = result if isinstance(result, StorageCost) else None
    return Cost(counts(log), operations(log), hops(log), wall, serial_service_s(log), receipt)


def measured_write(proxy: Control, writer: Writer, op: Op) -> Cost:
    """The cost of the operation on a commit that archives nothing: every 64th writes one file more."""
    cost = measured(proxy, lambda: writer.run(op))
    return measured(proxy, lambda: writer.run(op)) if cost.rolled else cost


def slope(proxy: Control, act: Callable[[], Any], latencies_s: Sequence[float], repeats: int) -> float:
    """Serial hops: how much longer it takes for each second that a request takes longer.

    The fastest of some repeats at each latency, then least squares: whatever else the machine does only ever adds.
    """
    points = []
    for latency in latencies_s:
        proxy.slow(latency)
        points.append((latency, min(measured(proxy, act).wall_s for _ in range(repeats))))
    proxy.slow(0.0)
    return statistics.linear_regression(*zip(*points, strict=True)).slope
