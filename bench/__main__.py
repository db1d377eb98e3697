"""``python -m bench NAME...``: run benches, print their tables, keep them as JSON; ``report`` writes the page of them."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from bench import (
    before,
    branches,
    cap,
    cold_start,
    combining,
    contention,
    dagster,
    dagster_live,
    debian,
    durability,
    feed,
    mutate,
    peers,
    recoveries,
    report,
    results,
    schema,
    solo,
    spark,
    startup,
    throughput,
    upkeep,
    wire,
)
from bench.lab import Lab

AT_THE_WIRE = {"wire": wire.run, "cap": cap.run, "mutate": mutate.run}
ALONE = {"startup": startup.run, "throughput": throughput.run, "upkeep": upkeep.run}
# Only when named: they have their own pages, or need Java.
APART = {
    "branches": branches.run,
    "combining": combining.run,
    "contention": contention.run,
    "durability": durability.run,
    "feed": feed.run,
    "peers": peers.run,
    "recoveries": recoveries.run,
    "schema": schema.run,
    "spark": spark.run,
    "dagster": dagster.run,
    "dagster-live": dagster_live.run,
    "debian": debian.run,
}
# Only when named: they compare this tree with another one.
COMPARED = {"before": before.run, "solo": solo.run, "cold": cold_start.run}
NAMES = (*AT_THE_WIRE, *ALONE)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench", description="What the engine costs; tables, and JSON beside them.")
    parser.add_argument("names", nargs="+", choices=[*NAMES, *APART, *COMPARED, "all", "report"])
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not what it costs")
    parser.add_argument("--into", type=Path, default=results.FOLDER, help="folder of the JSON files")
    parser.add_argument("--baseline", type=Path, help="another working tree of this project, to compare with")
    given = parser.parse_args(arguments)
    wanted = list(NAMES) if "all" in given.names else [name for name in NAMES if name in given.names]
    wanted += [name for name in APART if name in given.names]
    started = time.perf_counter()
    if any(name in AT_THE_WIRE for name in wanted):
        with Lab() as lab:
            for name in wanted:
                if name in AT_THE_WIRE:
                    _keep(name, AT_THE_WIRE[name](lab, quick=given.quick), given)
    for name in wanted:
        if name in ALONE or name in APART:
            _keep(name, {**ALONE, **APART}[name](quick=given.quick), given)
    for name in (name for name in COMPARED if name in given.names):
        _keep(name, COMPARED[name](quick=given.quick, baseline=given.baseline), given)
        wanted.append(name)
    if wanted:
        print(f"\n{', '.join(wanted)}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    if "report" in given.names:
        print(report.write(given.into))
    return 0


def _keep(name: str, found: tuple[list[results.Table], dict[str, Any]], given: argparse.Namespace) -> None:
    tables, facts = found
    facts = {**facts, "load_average": results.load_average()}
    for one in tables:
        print(f"\n{results.as_markdown(one)}")
    path = results.write(name, tables, facts, quick=given.quick, folder=given.into)
    print(f"\n{path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
