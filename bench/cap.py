"""Wall time of a single edge when the store admits eight requests at a time and each takes 20 ms more.

Counts that do not grow could still hide work that does: this shows the time a caller waits at both ends of a history.
"""

from __future__ import annotations

import statistics
from typing import Any

import omnigraph as og
from bench import costs
from bench.costs import EDGE, Cost, Writer
from bench.lab import Lab
from bench.results import Table, table

LATENCY_S = 0.02
IN_FLIGHT_MAX = 8
DEPTHS = (10, 1000)


def run(lab: Lab, *, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    depths = (10, 140) if quick else DEPTHS
    worlds = lab.worlds(5, depths)
    rounds = 5 if quick else 15
    found: dict[int, list[Cost]] = {depth: [] for depth in depths}
    graphs = [og.open(world.uri) for world in worlds]
    try:
        writers = [Writer(graph, 20_000) for graph in graphs]
        for writer in writers:
            for _ in range(5):
                writer.run(EDGE)
        lab.proxy.slow(LATENCY_S, IN_FLIGHT_MAX)
        for _ in range(rounds):
            # In turns, so that whatever else the machine does meets both alike.
            for depth, writer in zip(depths, writers, strict=True):
                found[depth].append(costs.measured_write(lab.proxy, writer, EDGE))
    finally:
        lab.proxy.slow(0.0)
        for graph in graphs:
            graph.close()
    rows = []
    net: dict[int, float] = {}
    for depth, many in found.items():
        raw = statistics.median(1000 * one.wall_s for one in many)
        net[depth] = statistics.median(1000 * (one.wall_s - one.service_s) for one in many)
        service = statistics.median(1000 * one.service_s for one in many)
        rows.append(
            [depth, round(raw, 1), round(service, 1), round(net[depth], 1), statistics.median(o.hops for o in many)]
        )
    shallow, deep = depths
    ratio = net[deep] / net[shallow]
    shown = table(
        "One edge under a cap: eight requests in flight, 20 ms each",
        ["depth", "wall ms", "store's own ms", "without the store's own ms", "longest chain"],
        rows,
        [
            f"Depth {deep} takes {ratio:.2f} × depth {shallow} once the emulator's own time is subtracted (bar: at most 1.10). "
            f"Medians of {rounds} writes at each depth, in turns."
        ],
    )
    return [shown], {"ratio": round(ratio, 3), "rounds": rounds}
