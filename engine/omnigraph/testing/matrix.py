"""The long forms of the crash, fault and pause matrices: ``python -m omnigraph.testing crash``, ``fault`` and ``pause``.

    python -m omnigraph.testing crash [--seconds N] [--seed S] [--store local|s3|calls] [--only OPERATION] [--json FILE]
    python -m omnigraph.testing crash CELL...                      repeat these cells

Draw cells from operations, widths and stores in random order until the time is up or none is left. Progress goes to standard error.
A ledger is printed, also after Ctrl-C; each finding is one line that repeats it. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.calls import unavailable
from omnigraph.testing.cells import CALLS, FAILURES, LOCAL, LOSSES, S3, STORES, Cell, Matrix, Verdict
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import CATALOGUE
from omnigraph.testing.pulse import Pulse
from omnigraph.testing.zombies import WOKE_UP, deaths, pause, sleepers, sleeping_recoverers

OTHERS_DRAWN = 3  # pools that are drawn from beside each new one


@dataclass
class CellCounts:
    """What the cells of one operation at one width on one store came to: one line of the ledger."""

    cells: int = 0
    reached: int = 0
    seconds: float = 0.0
    before: int = 0
    after: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.cells += 1
        self.reached += verdict.reached or verdict.ended in ("error", WOKE_UP)
        self.seconds += verdict.seconds
        self.before += verdict.now == "before"
        self.after += verdict.now in ("after", "same")
        self.findings.extend(verdict.findings)


Draw = Callable[[], Iterator[Verdict]]


def crash_draws(matrix: Matrix, cells: list[Cell], rng: random.Random) -> Iterator[Draw]:
    """Every cell once; and every fourth again with its recovery killed at each place."""
    rng.shuffle(cells)
    for number, cell in enumerate(cells):
        yield lambda cell=cell: iter([matrix.run(cell)])  # type: ignore[misc]
        if number % 4 == 0 and not OPERATIONS[cell.operation].creates_graph:
            yield lambda cell=cell: matrix.double(cell)  # type: ignore[misc]


def fault_draws(matrix: Matrix, cells: list[Cell], rng: random.Random) -> Iterator[Draw]:
    rng.shuffle(cells)
    for cell in cells:
        yield lambda cell=cell: iter([matrix.run(cell)])  # type: ignore[misc]


def pause_draws(matrix: Matrix, cells: list[Cell], rng: random.Random) -> Iterator[Draw]:
    """Every place of the operation asleep; then its recovery asleep, after a death that is taken back or published."""
    rng.shuffle(cells)
    first = cells[0]
    for cell in cells:
        yield lambda cell=cell: iter([pause(matrix, cell)])  # type: ignore[misc]
    for place in deaths(matrix, first.operation, first.width):
        yield lambda place=place: sleeping_recoverers(  # type: ignore[misc]
            matrix, first.operation, first.width, first.store, place
        )


def draws(matrix: Matrix, kind: str, name: str, width: int, store: str, rng: random.Random) -> Iterator[Draw]:
    if kind == "crash":
        return crash_draws(matrix, list(matrix.crash_cells(name, width, store)), rng)
    if kind == "fault":
        cells = {S3: matrix.fault_cells, LOCAL: matrix.raise_cells, CALLS: matrix.failing_calls}[store](name, width)
        return fault_draws(matrix, list(cells), rng)
    return pause_draws(matrix, list(sleepers(matrix, name, width, store)), rng)


def order(
    kind: str, stores: Sequence[str], only: Sequence[str] | None, rng: random.Random
) -> list[tuple[str, int, str]]:
    """What is drawn from, one after the other: every operation at each of its widths on each store. In no order, and no operation a
    second time before all others have come, so that a short run is a sample of all of them."""
    rounds: list[list[tuple[str, int, str]]] = []
    for name, operation in OPERATIONS.items():
        if (only and name not in only) or (kind == "pause" and operation.creates_graph):
            continue
        found = [(name, width, store) for width in operation.widths for store in stores]
        rng.shuffle(found)
        rounds += [[] for _ in range(len(found) - len(rounds))]
        for place, one in enumerate(found):
            rounds[place].append(one)
    for one_of_each in rounds:
        rng.shuffle(one_of_each)
    return [one for one_of_each in rounds for one in one_of_each]


def pools(
    matrix: Matrix, kind: str, rng: random.Random, chosen: argparse.Namespace
) -> Iterator[tuple[str, Iterator[Draw]]]:
    stores = [chosen.store] if chosen.store else [store for store in STORES if store != CALLS or not unavailable()]
    for name, width, store in order(kind, stores, chosen.only, rng):
        yield f"{name}/{width}/{store}", draws(matrix, kind, name, width, store, rng)


def run_all(matrix: Matrix, kind: str, chosen: argparse.Namespace, ledger: dict[str, CellCounts], pulse: Pulse) -> None:
    rng = random.Random(chosen.seed)
    end = time.monotonic() + chosen.seconds
    waiting = pools(matrix, kind, rng, chosen)
    open_pools: list[tuple[str, Iterator[Draw]]] = []
    while time.monotonic() < end:
        fresh = next(waiting, None)
        if fresh is not None:
            open_pools.append(fresh)
        if not open_pools:
            break
        # The newest and some others: every operation is drawn from before any of them is finished.
        for pool in {id(one): one for one in (open_pools[-1], *rng.choices(open_pools, k=OTHERS_DRAWN))}.values():
            draw = next(pool[1], None)
            if draw is None:
                open_pools.remove(pool)
                continue
            for verdict in draw():
                ledger[pool[0]].add(verdict)
                if verdict.findings:
                    pulse.clear()
                print_findings(kind, verdict)
                pulse.beat(pool[0], findings_of(ledger))
                if time.monotonic() >= end:
                    return


def findings_of(ledger: dict[str, CellCounts]) -> int:
    return sum(len(line.findings) for line in ledger.values())


def print_findings(kind: str, verdict: Verdict) -> None:
    if verdict.findings:
        print(
            f"FINDING {'; '.join(verdict.findings)}\n    repeat with: python -m omnigraph.testing {kind} {shlex.quote(str(verdict.cell))}",
            flush=True,
        )


def print_ledger(kind: str, ledger: dict[str, CellCounts], seed: int, seconds: float) -> None:
    print(
        f"{'operation/tables/store':32} {'cells':>6} {'reached':>8} {'before':>7} {'after':>6} {'s/cell':>7} findings"
    )
    for name, line in sorted(ledger.items()):
        each = line.seconds / line.cells
        print(
            f"{name:32} {line.cells:6} {line.reached:8} {line.before:7} {line.after:6} {each:7.2f} {len(line.findings)}"
        )
    cells = sum(line.cells for line in ledger.values())
    findings = findings_of(ledger)
    kinds = {"fault": len(CATALOGUE) + len(FAILURES)}.get(kind, len(LOSSES))
    if unavailable():
        print(f"{kind}: not run: cuts between calls of the operating system: {unavailable()}")
    print(f"{kind}: {cells} cells, {kinds} kinds, seed {seed}, {seconds:.0f} s, {findings} findings")


def main(kind: str, arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m omnigraph.testing {kind}", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cells", nargs="*", help="cells to repeat")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=STORES)
    parser.add_argument("--only", action="append", choices=sorted(OPERATIONS))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    with S3Emulator() as emulator, Matrix(emulator) as matrix:
        os.environ.update(environment(emulator.endpoint))
        if chosen.cells:
            repeat = partial(pause, matrix) if kind == "pause" else matrix.run
            verdicts = [repeat(Cell.parse(text)) for text in chosen.cells]
            for verdict in verdicts:
                print(f"{verdict.cell}: {verdict.ended}, {verdict.was} recovery, {verdict.now} after it")
                print_findings(kind, verdict)
            return int(any(verdict.findings for verdict in verdicts))
        pulse = Pulse(kind, "cells", chosen.seconds)
        ledger: dict[str, CellCounts] = defaultdict(CellCounts)
        with pulse.running():
            run_all(matrix, kind, chosen, ledger, pulse)
    seconds = time.monotonic() - started
    print_ledger(kind, ledger, chosen.seed, seconds)
    if chosen.json is not None:
        body = {"kind": kind, "seed": chosen.seed, "seconds": seconds, "lines": {k: vars(v) for k, v in ledger.items()}}
        chosen.json.write_text(json.dumps(body, indent=2, sort_keys=True) + "\n")
    return pulse.exit_code(findings_of(ledger))
