"""Many processes that write the same tables: what one gains, what twelve lose to each other, and what a killer costs.

One process and many take turns in every round, so that whatever else the machine does meets both alike. A commit is one row
into each table. Every run ends with the checks of the process suites: all acknowledged commits in one line, each row once,
nothing left to do; a figure of a run that fails them is not a figure.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.results import Table, table
from bench.solo import HERE, Side, alternate, quartiles
from omnigraph.manifest.rows import AbortRow
from omnigraph.testing.content import commits_of, faults_of, history_of
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import FaultProxyProcess
from omnigraph.testing.histories import FAIL, OK, UNKNOWN
from omnigraph.testing.operations import create, opened, recover
from omnigraph.testing.workloads import LIST_KEYS, Job, Told, run_together

BOTH, ONE = LIST_KEYS, LIST_KEYS[:1]
SLOW_S = 0.02
KILL_EVERY_S = 2.0
LIMIT_S = 900.0
FIRST_CALLS = 2  # of a process: it has met no other, and its connections are not open yet


@dataclass(frozen=True)
class Race:
    """How one run went."""

    processes: int
    commits: int
    finished: int
    seconds: float
    latencies: tuple[float, ...]
    compensations: int
    extra_versions: int
    kills: int
    swaps: int  # that carry commits
    largest: int  # commits of one swap
    later: tuple[float, ...] = ()  # latencies of all calls but each process's first two

    @property
    def per_s(self) -> float:
        return self.commits / self.seconds

    @property
    def worst_s(self) -> float:
        return max(self.latencies)

    @property
    def worst_later_s(self) -> float:
        return max(self.later, default=self.worst_s)

    @property
    def p99_s(self) -> float:
        return sorted(self.latencies)[int(0.99 * (len(self.latencies) - 1))]


def race(
    root: str, processes: int, rounds: int, keys: Sequence[str], *, kill: float = 0.0, shortcut: bool = True
) -> Race:
    create(root)
    job = Job("rows", rounds, tuple(keys), reads=0.0, deadline_s=300.0, shortcut=shortcut)
    jobs = {f"p{number}": job for number in range(processes)}
    told = run_together(root, jobs, kill_every_s=kill, limit_s=LIMIT_S)
    recover(root)
    return judged(root, told, processes, keys)


def judged(root: str, told: Told, processes: int, keys: Sequence[str]) -> Race:
    """How the run went. Raises ``AssertionError`` where the graph is not what the writers were promised."""
    acknowledged = {event.value for event in told.of(OK, "append")}
    with opened(root) as engine:
        wrong = faults_of(engine)
        rows = history_of(engine)
        commits = commits_of(engine)
        state = engine.latest("main").state
        extra = sum(state.tables[key].version - 1 - sum(key in row.tables for row in commits[1:]) for key in keys)
    missing = acknowledged - {row.commit_id for row in commits}
    if wrong or missing:
        raise AssertionError(f"the run is wrong, its figures mean nothing: {wrong[:3]} missing: {sorted(missing)[:3]}")
    if told.kills == 0 and (told.of(FAIL, "append") or told.of(UNKNOWN, "append")):
        raise AssertionError(f"a writer failed: {told.of(FAIL, 'append')[:2]} {told.of(UNKNOWN, 'append')[:2]}")
    began = {(e.process, e.serial): e.at_s for e in told.events if e.kind == "invoke"}
    ended = [e for e in told.events if e.kind == OK and e.what == "append"]
    return Race(
        processes=processes,
        commits=len(commits) - 1,
        finished=processes - len(told.unfinished),
        seconds=max(e.at_s for e in ended) - min(began.values()),
        latencies=tuple(e.at_s - began[(e.process, e.serial)] for e in ended),
        compensations=sum(isinstance(row, AbortRow) for row in rows),
        extra_versions=extra,
        kills=told.kills,
        swaps=len({row.version for row in commits[1:]}),
        largest=max(Counter(row.version for row in commits).values()),
        later=tuple(e.at_s - began[(e.process, e.serial)] for e in ended if e.serial > FIRST_CALLS),
    )


# --- on a disk ----------------------------------------------------------------------------------------------------------


class Roots:
    """Fresh places below one folder, or in buckets of one store."""

    def __init__(self, emulator: S3Emulator | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="omnigraph-contention-"))
        self._emulator = emulator
        self._serial = 0

    def fresh(self) -> str:
        self._serial += 1
        if self._emulator is None:
            return str(self._folder / f"g{self._serial}")
        bucket = f"contention-{self._serial}"
        self._emulator.create_bucket(bucket)
        return f"s3://{bucket}/graph"

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


COLUMNS = [
    "what", "processes", "finished", "commits", "commits/s", "of one process", "p99 ms", "worst ms",
    "compensations per commit", "versions nobody published, per commit", "kills",
]  # fmt: skip


def _row(what: str, races: Sequence[Race], ratios: Sequence[float] = ()) -> list[Any]:
    def middle(of: Sequence[float]) -> float:
        return statistics.median(of)

    return [
        what,
        races[0].processes,
        min(one.finished for one in races),
        sum(one.commits for one in races),
        round(middle([one.per_s for one in races]), 1),
        round(middle(ratios), 2) if ratios else None,
        round(1000 * max(one.p99_s for one in races)),
        round(1000 * max(one.worst_s for one in races)),
        round(sum(one.compensations for one in races) / sum(one.commits for one in races), 3),
        round(sum(one.extra_versions for one in races) / sum(one.commits for one in races), 3),
        sum(one.kills for one in races),
    ]


def _beside(roots: Roots, many: int, rounds: int, each: int, alone: int, keys: Sequence[str]) -> list[list[Any]]:
    """One process and many, in turns."""
    ones, crowds = [], []
    for _ in range(rounds):
        ones.append(race(roots.fresh(), 1, alone, keys))
        crowds.append(race(roots.fresh(), many, each, keys))
    ratios = [crowd.per_s / one.per_s for one, crowd in zip(ones, crowds, strict=True)]
    what = "one table" if len(keys) == 1 else "two tables"
    return [_row(f"{what}, alone", ones), _row(what, crowds, ratios)]


def _on_disk(quick: bool) -> Table:
    roots = Roots()
    many, each, rounds = (4, 8, 1) if quick else (12, 50, 3)
    try:
        rows = _beside(roots, many, rounds, 2 * each, 4 * each, ONE)
        rows += _beside(roots, many, rounds, 2 * each, 4 * each, BOTH)
        for what, shortcut in (("two tables, a SIGKILL every 2 s", True), ("the same, dead owners not known", False)):
            found = race(roots.fresh(), many, each, BOTH, kill=0.5 if quick else KILL_EVERY_S, shortcut=shortcut)
            rows.append(_row(what, [found]))
    finally:
        roots.close()
    return table(
        "Processes that write the same tables of one graph on a disk",
        COLUMNS,
        rows,
        [
            f"{rounds} rounds of one process and {many}, in turns; ratios are of neighbours, medians of the rounds. Latency "
            "is what one call took, waiting for others included; it is the worst of all rounds. Bars: 0.5 of one process, "
            "worst 1 s, 0.05 compensations; with kills worst 2 s, and 8 s where no process can tell that another is dead. "
            "A killed process is started again for what it had left."
        ],
    )


# --- on a slow store ----------------------------------------------------------------------------------------------------


def _on_a_slow_store(quick: bool) -> Table:
    before = {name: os.environ.get(name) for name in environment("")}
    many, each, rounds = (3, 2, 1) if quick else (8, 12, 2)
    with S3Emulator() as emulator, FaultProxyProcess(emulator.endpoint) as proxy:
        os.environ.update(environment(proxy.endpoint))
        roots = Roots(emulator)
        try:
            proxy.slow(SLOW_S)
            rows = _beside(roots, many, rounds, each, 2 * each, BOTH)
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
        [f"{rounds} rounds of one process and {many}, in turns. Bar: 0.4 of one process."],
    )


# --- threads of one process -----------------------------------------------------------------------------------------------


def _threads(quick: bool) -> Table:
    """Threads on one handle, whose requests share swaps, beside the same with one request a swap."""
    sides = [Side(name, HERE, {"OMNIGRAPH_GROUP": switch}) for name, switch in (("grouped", "1"), ("one by one", "0"))]
    rounds = 1 if quick else 5
    rows: list[list[Any]] = []
    for threads in (1, 8, 64):
        commits = 2 * threads if quick else max(40, 4 * threads)
        seen = alternate(sides, "append", threads, commits, rounds)
        for name, found in seen.items():
            failed = sorted({code for one in found for code in one["failed"]})
            if failed:
                raise AssertionError(f"a writer failed: {failed}")
            rows.append(
                [
                    threads,
                    name,
                    quartiles([one["commits"] / one["wall_s"] for one in found]),
                    quartiles([1000 * one["cpu_s"] / one["commits"] for one in found]),
                    round(1000 * statistics.median(one["median_s"] for one in found), 1),
                    round(1000 * max(one["worst_s"] for one in found)),
                ]
            )
    return table(
        "Threads that write through one handle, on a disk",
        ["threads", "requests", "commits/s", "processor ms a commit", "median ms", "worst ms"],
        rows,
        [
            f"One edge a commit, {rounds} rounds, sides in turns: quartiles of the rounds. Bar: worst at most 10 medians."
        ],
    )


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    before = os.getloadavg()[0]
    return [_on_disk(quick), _on_a_slow_store(quick), _threads(quick)], {"load_average_before": before}
