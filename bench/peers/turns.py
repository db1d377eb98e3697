"""Processes that take turns: each is one side of a comparison, and does what a line of JSON asks it to."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.install import Peers

HERE = Path(__file__).parents[2]


def environment(peers: Peers, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a process of ``bench.peers.child`` needs beside our own environment."""
    path = [str(HERE / "engine"), str(HERE), *([str(peers.path)] if peers.path else [])]
    return {"PYTHONPATH": os.pathsep.join(path), **(settings or {})}


class Ended(RuntimeError):
    """A process of a side that ended before it answered: its memory, or an error that it printed."""


class Worker:
    """A process of ``bench.peers.child``. ``start`` and ``answer`` apart, so that several may work at the same time."""

    def __init__(self, peers: Peers, side: str, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self._side = side
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peers.child", side, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment(peers, settings)},
            cwd=HERE,
        )

    def start(self, order: str, **facts: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"order": order, **facts}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Ended(f"the process of {self._side!r} ended with {self._process.wait(60)} before it answered")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, order: str, **facts: Any) -> dict[str, Any]:
        self.start(order, **facts)
        return self.answer()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def in_turns(names: Sequence[str], number: int) -> list[str]:
    """Each round begins with another side."""
    at = number % len(names) if names else 0
    return [*names[at:], *names[:at]]


def quartiles(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3g}" if values else "–"
    return " / ".join(f"{one:.3g}" for one in statistics.quantiles(values, n=4, method="inclusive"))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of neighbouring rounds."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
