"""Many processes that write tables of their own, one table together, or either: alone, with shared swaps, and with offers beside them.

The sides of one row follow each other in every round, so that whatever else the machine does meets both. A commit is one row into one
table of a graph of sixteen. The processes of a run begin together, and none knows of the others yet: a column leaves out the first two calls
of each. Every run ends with the checks of the process suites. All sides sync: without it no plan is called applied.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.contention import LIMIT_S, SLOW_S, Race, Roots, judged
from bench.results import Table, table
from omnigraph.manifest.durable import Durability
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import FaultProxyProcess
from omnigraph.testing.operations import create, keys_of, recover
from omnigraph.testing.workloads import Job, run_together

TABLES = 16
OWN, ONE, MIXED = "tables of their own", "one table", "every other one a table of its own"


@dataclass(frozen=True)
class Side:
    """What the processes of a race may do for each other."""

    name: str
    combine: bool = False
    offers: bool = False


SIDES = (Side("alone"), Side("combine", combine=True), Side("combine and offers", combine=True, offers=True))
COLUMNS = [
    "what", "processes", "swaps", "commits", "commits/s", "of one process", "median ms", "worst ms", "worst ms after the start", "commits a swap",
    "most in a swap", "compensations per commit", "requests per commit",
]  # fmt: skip


def _keys(what: str, number: int) -> tuple[str, ...]:
    alone = what == OWN or (what == MIXED and number % 2 == 1)
    return (keys_of(TABLES)[number if alone else 0],)


def race(root: str, what: str, processes: int, rounds: int, side: Side) -> Race:
    create(root, TABLES)
    shared = {"combine": side.combine, "offers": side.offers}
    jobs = {
        f"p{number}": Job("rows", rounds, _keys(what, number), reads=0.0, deadline_s=300.0, **shared)
        for number in range(processes)
    }
    told = run_together(root, jobs, env={"OMNIGRAPH_DURABILITY": Durability.COMMIT.value}, limit_s=LIMIT_S)
    recover(root)
    return judged(root, told, processes, sorted({key for job in jobs.values() for key in job.keys}))


# --- the tables -----------------------------------------------------------------------------------------------------------


class _Store:
    """Where the graphs are: on a disk, or behind a proxy that takes its time and counts."""

    def __init__(self, roots: Roots, proxy: FaultProxyProcess | None = None) -> None:
        self._roots = roots
        self._proxy = proxy

    def measure(self, what: str, processes: int, rounds: int, side: Side) -> tuple[Race, int]:
        """One race, and the requests that it took from the making of its graph to its end."""
        if self._proxy is not None:
            self._proxy.reset()
        found = race(self._roots.fresh(), what, processes, rounds, side)
        return found, 0 if self._proxy is None else len(self._proxy.log)


def _rows(store: _Store, counts: Sequence[int], rounds: int, each: int) -> Iterator[list[Any]]:
    solo: dict[Side, float] = {}
    for what in (OWN, ONE, MIXED):
        for processes in counts if what == OWN else counts[-2:]:
            found: dict[Side, list[tuple[Race, int]]] = {side: [] for side in SIDES}
            for _ in range(rounds):
                for side in SIDES:
                    found[side].append(store.measure(what, processes, each, side))
            for side in SIDES:
                per_s = statistics.median(one.per_s for one, _ in found[side])
                if processes == 1:
                    solo[side] = per_s
                yield _row(what, processes, side, found[side], per_s / solo[side])


def _row(what: str, processes: int, side: Side, found: Sequence[tuple[Race, int]], ratio: float) -> list[Any]:
    races = [one for one, _ in found]
    commits = sum(one.commits for one in races)
    requests = sum(asked for _, asked in found)
    return [
        what,
        processes,
        side.name,
        commits,
        round(statistics.median(one.per_s for one in races), 1),
        round(ratio, 2),
        round(1000 * statistics.median(one for race in races for one in race.latencies)),
        round(1000 * max(one.worst_s for one in races)),
        round(1000 * max(one.worst_later_s for one in races)),
        round(commits / sum(one.swaps for one in races), 2),
        max(one.largest for one in races),
        round(sum(one.compensations for one in races) / commits, 3),
        round(requests / commits, 1) if requests else None,
    ]


def _on_disk(quick: bool) -> Table:
    roots = Roots()
    counts, rounds, each = ((1, 4, 8), 1, 10) if quick else ((1, 4, 8, 16), 3, 20)
    try:
        rows = list(_rows(_Store(roots), counts, rounds, each))
    finally:
        roots.close()
    return table(
        "Swaps of their own, shared ones, and offers, on a disk",
        COLUMNS,
        rows,
        [
            f"{rounds} rounds, the sides of a row in turns; {each} commits a process. Medians of the rounds; the worst of all."
        ],
    )


def _on_a_slow_store(quick: bool) -> Table:
    before = {name: os.environ.get(name) for name in environment("")}
    counts, rounds, each = ((1, 8), 1, 6) if quick else ((1, 4, 8, 16), 2, 10)
    with S3Emulator() as emulator, FaultProxyProcess(emulator.endpoint) as proxy:
        os.environ.update(environment(proxy.endpoint))
        roots = Roots(emulator)
        try:
            proxy.slow(SLOW_S)
            rows = list(_rows(_Store(roots, proxy), counts, rounds, each))
        finally:
            roots.close()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
    return table(
        "The same through a store where each request takes 20 ms",
        COLUMNS,
        rows,
        [
            "Bars with both: 16 processes with tables of their own 2.5 of one process, on one table 2, worst 2 s; the requests are those of "
            "the whole run, its graph included. The store is emulated on the same cores."
        ],
    )


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    return [_on_disk(quick), _on_a_slow_store(quick)], {"load_average_before": os.getloadavg()[0]}
