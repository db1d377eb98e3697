"""Cost at the wire: every request of a write, by class, at several depths of history and numbers of tables.

Counts come from the proxy; hops from how the wall time follows the latency that the proxy adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import omnigraph as og
from bench import costs
from bench.cold import ColdProcess
from bench.costs import CONSTRAINED_OPS, EDGE, NODE_APPEND, NODE_MERGE, PLAIN_OPS, TWO_AND_TWO, Cost, Op, Writer
from bench.graphs import World
from bench.lab import Lab
from bench.results import Table, table

DEPTHS = (10, 100, 1000)
TABLES = (5, 50, 200)
LATENCIES_S = (0.01, 0.04, 0.08)
CHAIN_LATENCY_S = 0.02  # long beside the client's own time, so that what waits for what shows in the log
WARM_UP = 3
REPEATS = 3
SLOPE_REPEATS = 6  # the fastest counts: a busy machine must let at least one through undisturbed
SLOPED = (EDGE, TWO_AND_TWO)  # those with a bar on hops
COLD_OPS = (EDGE, NODE_MERGE, NODE_APPEND, TWO_AND_TWO)
CLASSES = ("data", "index", "versions", "manifest", "intent", "boundary", "schema", "other")


def run(lab: Lab, *, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    worlds = list(_worlds(lab, quick))
    repeats = 2 if quick else REPEATS
    # Opening leaves no trace and a cold write four commits; what is measured warm comes last.
    opening, cold = _open_table(lab, worlds), _cold_table(lab, worlds)
    warm = [_Warm(lab, world, repeats) for world in worlds]
    tables = [_edge_table(warm), _ops_table(warm), cold, opening, _constraints(lab, quick), _sizes(lab, quick)]
    facts = {
        "latencies_ms": [1000 * latency for latency in LATENCIES_S],
        "repeats": repeats,
        "receipts_equal_the_wire": all(one.receipts_agree for one in warm),
    }
    return tables, facts


def _worlds(lab: Lab, quick: bool) -> Iterator[World]:
    depths, widths = ((10, 140), (5, 50)) if quick else (DEPTHS, TABLES)
    yield from lab.worlds(widths[0], depths)
    for tables in widths[1:]:
        yield from lab.worlds(tables, depths[:1])


class _Warm:
    """What a warm handle sends on one world."""

    def __init__(self, lab: Lab, world: World, repeats: int) -> None:
        self.world = world
        self.costs: dict[str, list[Cost]] = {}
        self.slopes: dict[str, float] = {}
        proxy = lab.proxy
        with og.open(world.uri) as graph:
            writer = Writer(graph)
            for op in PLAIN_OPS:
                for _ in range(WARM_UP):
                    writer.run(op)
                proxy.slow(CHAIN_LATENCY_S)
                self.costs[op.name] = [costs.measured_write(proxy, writer, op) for _ in range(repeats)]
                proxy.slow(0.0)
                if op in SLOPED:
                    self.slopes[op.name] = costs.slope(proxy, partial(writer.run, op), LATENCIES_S, SLOPE_REPEATS)

    @property
    def receipts_agree(self) -> bool:
        return all(one.receipt is not None and one.receipt.requests == one.requests for one in self._all())

    def _all(self) -> Iterator[Cost]:
        for many in self.costs.values():
            yield from many


def _span(values: list[int]) -> Any:
    low, high = min(values), max(values)
    return low if low == high else f"{low}–{high}"


def _fixed(cost: Cost) -> int:
    """Requests besides look-ups: what the protocol itself sends."""
    return cost.requests - cost.lookups


def _figures(many: list[Cost]) -> list[Any]:
    return [_span([_fixed(one) for one in many]), _span([one.lookups for one in many])]


def _by_class(cost: Cost) -> dict[str, int]:
    return {name: cost.by_class[name] for name in CLASSES if cost.by_class[name]}


def _edge_table(warm: list[_Warm]) -> Table:
    rows = []
    for one in warm:
        many = one.costs[EDGE.name]
        least = min(many, key=lambda cost: cost.requests)
        rows.append(
            [
                one.world.depth,
                one.world.tables,
                *_figures(many),
                _by_class(least),
                round(one.slopes[EDGE.name], 1),
                _span([cost.hops for cost in many]),
            ]
        )
    return table(
        "One edge between existing nodes, warm handle",
        [
            "depth",
            "tables",
            "requests",
            "look-ups",
            "by class, at the fewest look-ups",
            "hops (slope)",
            "longest chain",
        ],
        rows,
        [
            "Bar: 11 requests and at most 3 look-ups, at most 9 hops, the same in every row. The slope is that of the wall time "
            "over the latency which the proxy adds; the chain is the longest one in its log of requests that each began after "
            "another had ended. Every 64th commit writes one file more (history goes to the archive) and is left out."
        ],
    )


def _ops_table(warm: list[_Warm]) -> Table:
    rows = []
    for one in warm:
        edge = _fixed(min(one.costs[EDGE.name], key=lambda cost: cost.requests))
        for op in PLAIN_OPS:
            if op is EDGE:
                continue
            many = one.costs[op.name]
            further = None
            if op is TWO_AND_TWO:
                further = (min(_fixed(cost) for cost in many) - edge) / 3
            rows.append(
                [
                    op.name,
                    one.world.depth,
                    one.world.tables,
                    *_figures(many),
                    round(one.slopes[op.name], 1) if op in SLOPED else None,
                    _span([cost.hops for cost in many]),
                    further,
                ]
            )
    return table(
        "Other writes, warm handle",
        ["write", "depth", "tables", "requests", "look-ups", "hops (slope)", "longest chain", "per further table"],
        rows,
        ["Bar: at most 4 requests and no hop for each further table of one commit."],
    )


def _cold_table(lab: Lab, worlds: list[World]) -> Table:
    rows = []
    lab.proxy.slow(CHAIN_LATENCY_S)
    for world in worlds:
        with ColdProcess() as child:
            for number, op in enumerate(COLD_OPS):
                child.ask("open", world.uri, False)
                cost = costs.measured(lab.proxy, lambda: child.ask("write", op.name, 50_000 + number))  # noqa: B023
                rows.append(
                    [op.name, world.depth, world.tables, _fixed(cost), cost.lookups, _by_class(cost), cost.hops]
                )
    lab.proxy.slow(0.0)
    return table(
        "The same writes, first write of a process",
        ["write", "depth", "tables", "requests", "look-ups", "by class", "longest chain"],
        rows,
        [
            "After opening, which is in the table below. Opening a table costs two requests; look-ups read the index's pages, "
            "and an id that is new is in no file that the pin knows; other columns, and ids that may be there, are looked for in every data file that no index covers, once. The first write of a "
            "process also asks the store to refuse a second create of one key (class other)."
        ],
    )


def _open_table(lab: Lab, worlds: list[World]) -> Table:
    rows = []
    lab.proxy.slow(CHAIN_LATENCY_S)
    for world in worlds:
        with ColdProcess() as child:
            for what, read_only, at in (
                ("branch head, for reading", True, None),
                ("branch head, for writing", False, None),
                ("oldest commit, for reading", True, world.commit_ids[0]),
            ):

                def act(read_only: bool = read_only, at: str | None = at) -> None:
                    child.ask("open", world.uri, read_only)  # noqa: B023
                    if read_only:
                        child.ask("snapshot", at)

                cost = costs.measured(lab.proxy, act)
                rows.append([what, world.depth, world.tables, cost.requests, _by_class(cost), cost.hops])
    lab.proxy.slow(0.0)
    return table(
        "Cold open",
        ["what", "depth", "tables", "requests", "by class", "longest chain"],
        rows,
        [
            "Opening and taking a snapshot. Bar: at most 7 requests for a branch head, whatever the depth; for a commit id "
            "that and the archive files that upkeep has not merged yet."
        ],
    )


# --- how look-ups of endpoints depend on the size of the node table ------------------------------------------------------


def _sizes(lab: Lab, quick: bool) -> Table:
    rows = []
    sizes = (100_000, 300_000) if quick else (100_000, 1_000_000)
    for people in sizes:
        with lab.history(tables=5, people=people) as history:
            world = lab.copy(history)
        with og.open(world.uri) as graph:
            writer = Writer(graph, 1)
            found = [costs.measured(lab.proxy, lambda: writer.run(EDGE)) for _ in range(12)]  # noqa: B023
        rows.append(
            [people, *([cost.lookups for cost in found[:1]]), _span([c.lookups for c in found[1:8]]), found[-1].lookups]
        )
    return table(
        "Look-ups of one edge by the size of an indexed node table",
        ["nodes", "first write of a handle", "2nd to 8th", "12th"],
        rows,
        [
            "Key columns of up to 200,000 rows are read whole by the first look-up. A larger one is asked through its index, two "
            "pages an endpoint that are not in memory yet, until it has been asked eight times; then it is read as well if it "
            "takes a quarter of the cache at most (64 MiB, some 1.5 million ids)."
        ],
    )


# --- constraints -------------------------------------------------------------------------------------------------------


def _constraints(lab: Lab, quick: bool) -> Table:
    rows: list[list[Any]] = []
    depth = 30 if quick else 120
    for state in ("fresh", "stale", "none"):
        with lab.history(tables=6, constrained=True, indexed=state == "stale") as history:
            history.grow_to(depth)
            if state == "fresh":
                history.index()
            world = lab.copy(history)
        rows += _constraint_rows(lab, world, state)
    return table(
        "Writes under a constraint",
        ["write", "handle", "indexes", "requests", "look-ups", "by class", "longest chain"],
        rows,
        [
            f"At depth {depth}. Indexes: fresh, they cover every row; stale, {depth} commits came since they were built; "
            "none, there never were any. Warm: the second such write of a handle, and later ones."
        ],
    )


def _constraint_rows(lab: Lab, world: World, state: str) -> Iterator[list[Any]]:
    lab.proxy.slow(CHAIN_LATENCY_S)
    for op in CONSTRAINED_OPS:
        with og.open(world.uri) as graph:
            writer = Writer(graph, _first(op))
            cold = costs.measured(lab.proxy, lambda: writer.run(op))  # noqa: B023
            warm = [costs.measured_write(lab.proxy, writer, op) for _ in range(3)]
        yield [op.name, "cold", state, _fixed(cold), cold.lookups, _by_class(cold), cold.hops]
        least = min(warm, key=lambda cost: cost.requests)
        yield [op.name, "warm", state, *_figures(warm), _by_class(least), _span([one.hops for one in warm])]
    lab.proxy.slow(0.0)


def _first(op: Op) -> int:
    return 60_000 + 100 * CONSTRAINED_OPS.index(op)
