"""Opens what a power cut has left, recovers, and compares it with what was acknowledged. Runs in a process of its own,
because what is left may be read for ever, or take all memory."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from omnigraph import graph as graphs
from omnigraph.commit.recovery.outcome import LANDED, find_outcome
from omnigraph.core.errors import Corruption, NotFound, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.cells import READABLE, promised_by
from omnigraph.testing.children import Child
from omnigraph.testing.content import Content, content_of
from omnigraph.testing.operations import create, opened, recover
from omnigraph.testing.powercut.beside import name_of
from omnigraph.testing.powercut.workload import ROWS
from omnigraph.testing.rest import findings_at_rest

JUDGE_S = 120.0
MEMORY_BYTES = 32 << 30  # of addresses; Lance reserves many that it never touches

Said = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Sides:
    """What a graph may hold: before the operation, after it, and between them with the write of its rival alone, where it has one."""

    before: Content | None
    after: Content | None
    between: Content | None = None

    def name_of(self, content: Content | None) -> str:
        if self.before == self.after == content:
            return "same"
        if content == self.before or (self.between is not None and content == self.between):
            return "before"
        return "after" if content == self.after else f"neither: {str(content)[:300]}"

    def lost(self, first: Content | None, last: Content | None) -> Iterator[str]:
        """What recovery has taken back that was there before it."""
        if self.name_of(first) == "after" and self.name_of(last) != "after":
            yield "recovery took a published write back"
        if self.between is not None and first == self.between and last == self.before:
            yield "recovery took the rival's write back"


def judge(name: str, width: int, root: str, sides: Sides, said: Said) -> list[str]:
    """What is wrong with the graph at ``root``; nothing if it is what was promised. Changes it."""
    with Child(_judge, name, width, root, sides, said) as child:
        try:
            heard = child.hear_all(JUDGE_S)
        except TimeoutError:
            child.kill()
            return [f"what is left was not read within {JUDGE_S:.0f} s"]
    return list(heard[0]) if heard else ["the process that read what is left has died"]


def _judge(say: Callable[[Any], None], name: str, width: int, root: str, sides: Sides, said: Said) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _follow_hint(root)
        found = _commits(width, root, said) if name in ROWS else _operation(name, width, root, sides, said)
    except OmnigraphError as error:
        found = [f"{error.code}: {error.message[:300]}"]
    except Exception as error:  # noqa: BLE001 - a graph that cannot be read is a finding, whatever says so
        found = [f"{type(error).__name__}: {str(error)[:300]}"]
    say(found)


def _follow_hint(root: str) -> None:
    """A graph that does not read after a power cut says which command puts it right; carry it out."""
    try:
        with graphs.open(root) as graph:
            for branch in graph.branches.list():
                snapshot = graph.snapshot(branch.name)
                for declared in snapshot.catalog.types():
                    snapshot.to_arrow(declared.name)
    except NotFound:
        return
    except Corruption as error:
        if "omnigraph repair" not in error.hint:
            raise
        with graphs.open_for_repair(root) as graph:
            graph.repair(confirm=True)


def _operation(name: str, width: int, root: str, sides: Sides, said: Said) -> list[str]:
    """An operation is there whole or not at all, and as its caller was answered."""
    operation = OPERATIONS[name]
    found: list[str] = []
    with opened(root) as engine:
        first = operation.content_of(engine)
        was = sides.name_of(first)
        promised = promised_by(engine, said[-1] if said else (), found) if was in ("before", "after") else None
    if not operation.creates_graph or was == "after":
        recover(root)
    with opened(root) as engine:
        last = operation.content_of(engine)
        now = sides.name_of(last)
    if was not in READABLE or now not in READABLE:
        return [*found, f"half a write is visible: {was} recovery, {now} after it"]
    found += sides.lost(first, last)
    if promised is not None and now != promised:
        found.append(f"the caller got {said[-1]}, and the graph reads as {now}")
    if operation.creates_graph and now == "before":
        create(root, width)
    return [*found, *findings_at_rest(root, (*operation.leaves, layout.QUARANTINED_VERSIONS), width)]


def _commits(width: int, root: str, said: Said) -> list[str]:
    """The first commits are there, all up to the last that was acknowledged among them, and at most those that had begun."""
    recover(root)
    found: list[str] = []
    acknowledged = {number: ids[0] for what, number, *ids in said if what == "acknowledged"}
    begun = {number for what, number, *_ in said if what == "begun"}
    with opened(root) as engine:
        content = content_of(engine)
        tables = [] if content is None else list(content.tables.values())
        numbers = [sorted(dict(row)["name"] for row in rows) for rows in tables]
        for number, commit in acknowledged.items():
            if find_outcome(engine, commit, Meter()).state != LANDED:
                found.append(f"acknowledged commit {number} has not landed")
    least = max(acknowledged, default=-1) + 1
    # What a program says it begins may be on its way to us while the power goes: the next one may be there as well.
    possible = [sorted(map(name_of, range(count))) for count in range(least, len(begun) + 2)]
    if len(numbers) != width or any(one != numbers[0] for one in numbers) or numbers[0] not in possible:
        found.append(f"{sorted(acknowledged)} were acknowledged, and the tables hold {numbers}")
    return [*found, *findings_at_rest(root, (layout.QUARANTINED_VERSIONS,), width)]
