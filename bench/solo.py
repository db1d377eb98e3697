"""One small commit after the other from one thread, against the engine of another working tree: ``--baseline PATH``.

Both run in processes of their own, in alternating rounds, so that whatever else the machine does meets both alike.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.results import Table, table

CHILD = Path(__file__).with_name("small_writes.py")
HERE = Path(__file__).parents[1]
# ``append`` and ``merge`` are of one edge; ``large`` is an append of one edge into a million nodes.
BARS = {"append": 0.8, "merge": 0.8, "node": None, "mutate": None, "large": 0.6}
QUICK_PEOPLE = 100_000


@dataclass(frozen=True)
class Side:
    """One engine under one setting."""

    name: str
    tree: Path
    environment: Mapping[str, str]


class Writer:
    """A process of ``small_writes``."""

    def __init__(self, side: Side, root: Path | str, kind: str, threads: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(side.tree / "engine"), **side.environment}
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), str(root), kind, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=side.tree,
        )
        self._line("ready")

    def round(self, commits: int) -> dict[str, Any]:
        self.start(commits)
        return self.answer()

    def start(self, commits: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{commits}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._line(None))
        return found

    def _line(self, wanted: str | None) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line or (wanted is not None and line != wanted):
            raise RuntimeError(f"a writer of the bench ended early: {line or 'no output'}")
        return line

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def alternate(
    sides: Sequence[Side], kind: str, threads: int, commits: int, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """What each side did in each round; their order changes from round to round."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    seen: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    try:
        with ExitStack() as stack:
            writers = {
                side.name: stack.enter_context(Writer(side, folder / str(number), kind, threads))
                for number, side in enumerate(sides)
            }
            for number in range(rounds):
                names = list(writers)
                for name in names if number % 2 else names[::-1]:
                    seen[name].append(writers[name].round(commits))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return seen


def quartiles(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3g}"
    return " / ".join(f"{one:.3g}" for one in statistics.quantiles(values, n=4, method="inclusive"))


def _bars(cpu: float | None) -> str:
    return "commits/s ≥ 0.95" + (f", processor time ≤ {cpu}" if cpu is not None else "")


def run(*, quick: bool = False, baseline: Path | None = None) -> tuple[list[Table], dict[str, Any]]:
    commits, rounds = (10, 3) if quick else (40, 15)
    relaxed = {"OMNIGRAPH_DURABILITY": "relaxed"} | ({"BENCH_PEOPLE": str(QUICK_PEOPLE)} if quick else {})
    sides = [Side("this tree", HERE, relaxed)]
    if baseline is not None:
        sides.insert(0, Side("baseline", baseline.resolve(), relaxed))
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for kind, bar in BARS.items():
        seen = alternate(sides, kind, 1, commits, rounds)
        for name, found in seen.items():
            speed = [one["commits"] / one["wall_s"] for one in found]
            cores = [1000 * one["cpu_s"] / one["commits"] for one in found]
            rows.append([kind, name, quartiles(speed), quartiles(cores), ""])
        if baseline is not None:
            pairs = list(zip(seen["this tree"], seen["baseline"], strict=True))
            facts[kind] = {
                "speed": round(statistics.median(old["wall_s"] / new["wall_s"] for new, old in pairs), 3),
                "cpu": round(statistics.median(new["cpu_s"] / old["cpu_s"] for new, old in pairs), 3),
            }
            rows.append(
                [kind, "of the baseline", f"{facts[kind]['speed']:.2f}", f"{facts[kind]['cpu']:.2f}", _bars(bar)]
            )
    note = (
        f"Medians and quartiles of {rounds} rounds of {commits} commits, sides in turns, a local disk, durability relaxed. "
        "The ratios are medians of those of each round. The bars are for 7f6823d as the baseline."
    )
    return [
        table(
            "One small commit after the other", ["write", "engine", "commits/s", "ms of a core", "bars"], rows, [note]
        )
    ], {"of_baseline": facts}
