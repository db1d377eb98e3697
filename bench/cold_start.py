"""What one command costs that starts from nothing: ``omnigraph load`` of one row, against another working tree, and what it loads.

``./run bench cold --baseline PATH``. Both sides take turns in processes of their own; the figures are processor seconds.
"""

from __future__ import annotations

import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from bench.results import Table, compiled_once, table
from bench.solo import HERE, quartiles

PROGRAM = "import sys; sys.argv[0] = 'omnigraph'; from omnigraph.cli import main; sys.exit(main())"
SCHEMA = "node Person { name: String @key  age: I32? }\n"
BAR = 0.65
_SHOWN = 12


class Command:
    """The program of one tree, with a graph of its own."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._tree = tree
        self._folder = folder
        self._serial = 0
        folder.mkdir()
        (folder / "schema.pg").write_text(SCHEMA)
        self._run(["init", str(folder / "graph"), "--schema", str(folder / "schema.pg")])

    def load(self, *interpreter: str) -> tuple[float, str]:
        """Processor seconds of one load, and what it wrote to its standard error."""
        self._serial += 1
        rows = self._folder / "rows.jsonl"
        rows.write_text(f'{{"type":"Person","data":{{"name":"p{self._serial}"}}}}\n')
        return self._run(["load", str(self._folder / "graph"), "--mode", "append", "--data", str(rows)], *interpreter)

    def _run(self, words: list[str], *interpreter: str) -> tuple[float, str]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *interpreter, "-c", PROGRAM, *words],
            env={**compiled_once(), "PYTHONPATH": str(self._tree / "engine")},
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def run(*, quick: bool = False, baseline: Path | None = None) -> tuple[list[Table], dict[str, Any]]:
    rounds = 3 if quick else 15
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        sides = {"this tree": Command(HERE, folder / "here")}
        if baseline is not None:
            sides["baseline"] = Command(baseline.resolve(), folder / "there")
        seen: dict[str, list[float]] = {name: [] for name in sides}
        for side in sides.values():
            side.load()  # bytecode is written once
        for number in range(rounds):
            names = list(sides)
            for name in names if number % 2 else names[::-1]:
                seen[name].append(sides[name].load()[0])
        rows: list[list[Any]] = [[name, quartiles(found)] for name, found in seen.items()]
        facts: dict[str, Any] = {}
        if baseline is not None:
            pairs = zip(seen["this tree"], seen["baseline"], strict=True)
            facts["of_baseline"] = round(statistics.median(new / old for new, old in pairs), 3)
            rows.append(["of the baseline", f"{facts['of_baseline']:.2f} (bar: at most {BAR})"])
        left = _left(sides["this tree"], 2 if quick else 5)
        return [
            table("`omnigraph load` of one row: processor seconds", ["engine", "quartiles"], rows),
            table("What is left of it, by what is imported", ["package", "modules", "share"], left, [_NOTE]),
        ], facts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_NOTE = "Shares of the time that importing takes, as Python counts it; the load itself is beside it."
_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


def _left(side: Command, rounds: int) -> list[list[Any]]:
    took: Counter[str] = Counter()
    modules: dict[str, set[str]] = {}
    for _ in range(rounds):
        for line in side.load("-X", "importtime")[1].splitlines():
            found = _LINE.match(line)
            if found is not None:
                package = found[2].partition(".")[0]
                took[package] += int(found[1])
                modules.setdefault(package, set()).add(found[2])
    everything = sum(took.values())
    return [[name, len(modules[name]), f"{100 * us / everything:.0f} %"] for name, us in took.most_common(_SHOWN)]
