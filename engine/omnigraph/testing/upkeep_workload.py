"""Writers, readers, a compactor and a cleaner as drivers of real processes: what each does, and what it says about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from omnigraph import graph as graphs
from omnigraph.core.errors import OmnigraphError, Reclaimed

SCHEMA = """\
node Person { name: String @key age: I32? @index }
edge Knows: Person -> Person { since: I32? }
"""
Say = Callable[[Any], None]


def start(root: str) -> None:
    with graphs.init(root, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "hub", "age": 0}}], mode="append")


def write(say: Say, root: str, name: str, count: int) -> None:
    """New people who know the hub, and one person who is written again and again."""
    with graphs.open(root, actor=name) as graph:
        for number in range(count):
            mine = f"{name}-{number}"
            try:
                graph.load(
                    [
                        {"type": "Person", "data": {"name": mine, "age": number}},
                        {"type": "Person", "data": {"name": name, "age": number}},
                        {"edge": "Knows", "from": mine, "to": "hub", "data": {"since": number}},
                    ],
                    mode="merge",
                )
            except OmnigraphError as error:
                say(("failed", mine, error.code, error.message))
            else:
                say(("wrote", mine))
    say(("done", name))


def read(say: Say, root: str, count: int, min_age_s: float) -> None:
    """Take a snapshot and read it twice. Within the minimum age nothing of it may go away."""
    with graphs.open(root, read_only=True) as graph:
        for _ in range(count):
            taken = time.monotonic()
            try:
                snapshot = graph.snapshot()
                once = [snapshot.to_arrow(name).sort_by("id") for name in ("Person", "Knows")]
                twice = [snapshot.to_arrow(name).sort_by("id") for name in ("Person", "Knows")]
            except Reclaimed as error:
                if time.monotonic() - taken < min_age_s:
                    say(("broken", error.message))
                continue
            except OmnigraphError as error:
                say(("broken", error.code, error.message))
                continue
            whole = once == twice and [table.num_rows for table in once] == [
                snapshot.count("Person"),
                snapshot.count("Knows"),
            ]
            say(("read", once[0].num_rows) if whole else ("broken", "a snapshot changed"))
    say(("done", "reader"))


def optimize(say: Say, root: str, count: int) -> None:
    with graphs.open(root, actor="compactor") as graph:
        for _ in range(count):
            try:
                report = graph.optimize()
                say(("optimized", len(report.commits), [table.skipped for table in report.skipped]))
            except OmnigraphError as error:
                say(("broken", error.code, error.message))
    say(("done", "compactor"))


def clean(say: Say, root: str, count: int, min_age_s: int) -> None:
    with graphs.open(root, actor="cleaner") as graph:
        for _ in range(count):
            try:
                report = graph.cleanup(keep=1, min_age=min_age_s, confirm=True)
                say(("cleaned", report.versions))
            except OmnigraphError as error:
                say(("broken", error.code, error.message))
    say(("done", "cleaner"))
