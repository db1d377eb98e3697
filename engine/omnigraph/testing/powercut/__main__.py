"""Cut the power at every place of every operation, and judge what is left: ``./run powercut``.

    ./run powercut [--seconds N] [--only OPERATION] [--how default|relaxed|synced-around] [--image IMAGE] [--every N]
    ./run powercut CELL...                    repeat these cells, such as append/2/default/torn

Prints a ledger. Exit code 1 if there is a finding; with ``--how relaxed``, where commits may be lost, if there is none.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.powercut.cells import NAMES, Cell, PowerCuts, Result
from omnigraph.testing.powercut.disk import IMAGES
from omnigraph.testing.powercut.record import unavailable
from omnigraph.testing.powercut.workload import AS_IT_IS, HOWS, RELAXED, ROWS

NOT_RUN = 2


def cells(only: list[str] | None, how: str, images: list[str]) -> Iterator[Cell]:
    for name in only or NAMES:
        for width in (1, 2) if name in ROWS else OPERATIONS[name].widths[:2]:
            for image in images:
                yield Cell(name, width, how, image)


def show(result: Result) -> None:
    unsynced = f"{result.never_synced}/{result.files}"
    line = f"{result.cell!s:44} {result.cuts:6} {result.judged:7} {unsynced:>9} {result.bad_cuts:8}"
    print(line, flush=True)
    for finding, times in result.findings.most_common(3):
        print(f"    {times} cuts: {finding}", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./run powercut", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cells", nargs="*", type=Cell.parse)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--only", action="append", choices=sorted(NAMES))
    parser.add_argument("--how", choices=HOWS, default=AS_IT_IS)
    parser.add_argument("--image", action="append", choices=IMAGES)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    if unavailable() is not None:
        print(f"powercut: not run: {unavailable()}")
        return NOT_RUN
    print(f"{'operation/tables/how/image':44} {'cuts':>6} {'judged':>7} {'unsynced':>9} {'findings':>8}", flush=True)
    results: list[Result] = []
    started = time.monotonic()
    with PowerCuts() as cuts:
        for cell in chosen.cells or cells(chosen.only, chosen.how, chosen.image or list(IMAGES)):
            if time.monotonic() - started > chosen.seconds:
                break
            results.append(cuts.run(cell, every=chosen.every, seed=chosen.seed))
            show(results[-1])
    bad = sum(result.bad_cuts for result in results)
    total = sum(result.cuts for result in results)
    judged = sum(result.judged for result in results)
    seconds = time.monotonic() - started
    print(f"powercut: {len(results)} cells, {total} cuts, {judged} images, {bad} cuts with findings, {seconds:.0f} s")
    return int(bad == 0) if all(result.cell.how == RELAXED for result in results) else int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
