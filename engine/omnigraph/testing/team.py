"""A day of a team, with real processes: ``python -m omnigraph.testing team``.

    python -m omnigraph.testing team [--rows N] [--steps N] [--kill-every S] [--rounds N] [--seed S]

Three agents work on three branches of one graph, one of them changes the schema there; batches arrive on main, one of them is bad;
a compactor and a cleaner run; a reader does to a copy what the feed of main tells. Then the branches are merged, with one conflict
that is resolved, and the bad batch is taken back. Any process is killed at any moment and begun again where what it said ends.
In the end the copy must equal main, and nothing may be lost. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from omnigraph import graph as graphs
from omnigraph.core.errors import AlreadyExists, MergeConflict, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.testing.content import faults_of
from omnigraph.testing.crew import Crew
from omnigraph.testing.replica import follow
from omnigraph.testing.sharing import Sharing, sharing_of
from omnigraph.write.sources.batch import Batch

Say = Callable[[Any], None]

SCHEMA: Final = """
node Person { name: String @key  age: I32?  city: String? }
node Bill { number: String @key  total: I64 }
edge Knows: Person -> Person { n: String  since: I32? }
"""
SCORED: Final = SCHEMA.replace("city: String?", "city: String?  score: F64?")
AGENTS: Final = ("ada", "bob", "eve")
RECEIVERS: Final = (
    "night",
    "noon",
    "dusk",
)  # the first one's batches are those that are looked at, and one of them is bad
DISPUTED: Final = "p7"  # whose city two agents set
BAD: Final = 3  # the batch that is taken back
BAD_BILLS: Final = range(100, 130)
STEPS_MIN: Final = 8  # so that each kind of step is there, and those of one agent rest on each other
_POLL_S: Final = 0.02
_DEADLINE_S: Final = 120.0


def start(root: str, rows: int) -> None:
    """A graph with so many rows, in three tables."""
    people, bills = rows * 6 // 10, rows * 2 // 10
    names = [f"p{n}" for n in range(people)]
    with graphs.init(root, SCHEMA, actor="founder") as graph:
        edges: dict[str, Any] = {
            "from": names[:bills],
            "to": names[-bills:],
            "n": [f"k{n}" for n in range(bills)],
            "since": pa.nulls(bills, pa.int32()),
        }
        nodes = {
            "Person": pa.table({"name": names, "age": pa.array([n % 90 for n in range(people)], pa.int32())}),
            "Bill": pa.table({"number": [f"b{n}" for n in range(bills)], "total": pa.array(range(bills), pa.int64())}),
        }
        graph.load(Batch(nodes=nodes, edges={"Knows": pa.table(edges)}), mode="append", idempotency_key="start")


# --- processes ----------------------------------------------------------------------------------------------------------


def work(say: Say, root: str, who: str, first: int, count: int) -> None:
    """An agent on a branch of its own."""
    with graphs.open(root, actor=who) as graph:
        with suppress(AlreadyExists):
            graph.branches.create(who)
        for number in range(first, count):
            _step(graph, who, number)
            say(("did", who, number))
    say(("done", who, count))


def _step(graph: Graph, who: str, number: int) -> None:
    """One step, under a key: done again it is a replay."""
    given: dict[str, Any] = {"branch": who, "idempotency_key": f"{who}/{number}", "deadline_s": _DEADLINE_S}
    own = 1000 + AGENTS.index(who) * 100 + number
    if who == "eve" and number == 1:
        graph.schema.apply(SCORED, **given)
    elif number == 2 and who != "eve":
        graph.load([{"type": "Person", "data": {"name": DISPUTED, "city": who}}], mode="patch", **given)
    elif number % 4 == 0:
        graph.load([_newcomer(who, number, n) for n in range(10)], mode="merge", **given)
    elif number % 4 == 1:
        graph.mutate(f'query q() {{ update Person set {{ age: {number} }} where name = "p{own}" }}', **given)
    elif number % 4 == 2:
        edge = {"edge": "Knows", "from": f"p{own}", "to": f"{who}-{number - 2}-0", "data": {"n": f"{who}-{number}"}}
        graph.load([edge], mode="merge", **given)
    else:
        graph.mutate(f'query q() {{ delete Person where name = "{who}-{number - 3}-9" }}', **given)


def _newcomer(who: str, number: int, n: int) -> dict[str, Any]:
    data: dict[str, Any] = {"name": f"{who}-{number}-{n}", "age": n}
    if who == "eve" and number:
        data["score"] = n / 4
    return {"type": "Person", "data": data}


def receive(say: Say, root: str, who: str, first: int, count: int) -> None:
    """Batches that arrive on main. Several processes receive them, which wait for each other: with offers one carries out what others have."""
    with graphs.open(root, actor=who) as graph:
        for number in range(first, count):
            # What is to be taken back alone asks not to share a plan: commits that do have one state before and one after.
            alone = False if who == RECEIVERS[0] else None
            given: dict[str, Any] = {"idempotency_key": f"{who}/{number}", "deadline_s": _DEADLINE_S, "group": alone}
            graph.load(_bills(who, number), mode="merge", **given)
            say(("did", who, number))
    say(("done", who, count))


def _bills(who: str, number: int) -> list[dict[str, Any]]:
    if who != RECEIVERS[0]:
        return [{"type": "Bill", "data": {"number": f"{who}{number}", "total": number}}]
    if number == BAD:
        return [{"type": "Bill", "data": {"number": f"b{n}", "total": -1}} for n in BAD_BILLS]
    renewed = [(f"b{number}", number * 1000)]
    return [{"type": "Bill", "data": {"number": n, "total": t}} for n, t in (*renewed, (f"n{number}", number))]


def compact(say: Say, root: str, who: str, first: int, count: int) -> None:
    with graphs.open(root, actor=who) as graph:
        graph.optimize()
    say(("done", who, count))


def clean(say: Say, root: str, who: str, first: int, count: int) -> None:
    """Keeps more commits than the reader is ever behind."""
    with graphs.open(root, actor=who) as graph:
        graph.cleanup(keep=200, min_age="1s", confirm=True)
    say(("done", who, count))


def merge_all(say: Say, root: str, who: str, first: int, count: int) -> None:
    """Merge the branches one after the other, then take the bad batch back."""
    with graphs.open(root, actor=who) as graph:
        for name in AGENTS:
            _merge(graph, name)
            say(("merged", who, name))
        bad = next(commit.id for commit in graph.commits() if commit.idempotency_key == f"night/{BAD}")
        graph.revert(bad, idempotency_key="revert/bad", deadline_s=_DEADLINE_S)
    say(("did", who, 0))
    say(("done", who, count))


def _merge(graph: Graph, name: str) -> None:
    given: dict[str, Any] = {"idempotency_key": f"merge/{name}", "deadline_s": _DEADLINE_S}
    try:
        graph.branches.merge(name, **given)
    except MergeConflict as conflict:
        # What main has stays: its side of the rows is loaded into the branch, which then agrees.
        graph.load(conflict.to_ndjson("target"), mode="patch", branch=name)
        graph.branches.merge(name, **given)


def read(say: Say, root: str, who: str, first: int, count: int) -> None:
    """Follow the feed for a while."""
    with (
        graphs.open(root, read_only=True) as graph,
        graphs.open(copy_of(root), actor=who, durability="relaxed") as copy,
    ):
        for _ in range(5):
            catch_up(graph, copy)
            time.sleep(_POLL_S)
    say(("done", who, count))


# --- the copy -----------------------------------------------------------------------------------------------------------


def copy_of(root: str) -> str:
    return f"{root}.copy"


def begin_copy(root: str) -> None:
    with graphs.open(root, read_only=True) as graph:
        first = graph.commits()[-1].id
    with graphs.init(copy_of(root), SCHEMA, durability="relaxed") as copy:
        copy.notes.put("cursor", first.encode())


def catch_up(graph: Graph, copy: Graph) -> None:
    cursor = copy.notes.get("cursor")
    assert cursor is not None, "begin_copy comes first"
    feed = graph.changes(cursor.decode(), before=True)
    follow(copy, feed, keep=lambda commit: copy.notes.put("cursor", commit.encode()))


# --- a round ------------------------------------------------------------------------------------------------------------

_ENDLESS: Final[dict[str, Any]] = {"compactor": compact, "cleaner": clean, "reader": read}


@dataclass
class Day:
    """``steps``: of each agent."""

    root: str
    rows: int = 200_000
    steps: int = 16
    seed: int = 0
    kill_every_s: float = 2.0
    limit_s: float = 240.0
    did: dict[str, int] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)

    def __post_init__(self) -> None:
        self._crew = Crew(self._note, self.kill_every_s, random.Random(self.seed))

    @property
    def kills(self) -> int:
        return self._crew.kills

    def run(self) -> list[str]:
        """What is wrong in the end; empty if nothing is."""
        if self.steps < STEPS_MIN:
            raise ValueError(f"a day has at least {STEPS_MIN} steps")
        start(self.root, self.rows)
        begin_copy(self.root)
        if not self._crew.work(self._manned, self.limit_s):
            return [f"not done within {self.limit_s} s: {self.did}"]
        return self._judge()

    def _manned(self) -> bool:
        """Whether all is done. Who is missing begins, and goes on behind what it has said."""
        if self.did.get("merger"):
            return True
        wanted = dict(_ENDLESS)
        at_work = [who for who in (*AGENTS, *RECEIVERS) if self.did.get(who, 0) < self.steps]
        wanted |= {who: receive if who in RECEIVERS else work for who in at_work}
        if not at_work:
            wanted["merger"] = merge_all
        for who, call in wanted.items():
            self._crew.begin(who, call, self.root, who, self.did.get(who, 0), self.steps)
        return False

    def _note(self, said: Any) -> None:
        if said[0] == "did":
            self.did[said[1]] = max(self.did.get(said[1], 0), said[2] + 1)

    # --- judgement --------------------------------------------------------------------------------------------------

    def _judge(self) -> list[str]:
        with graphs.open(self.root, actor="judge") as graph, graphs.open(copy_of(self.root)) as copy:
            for each in (graph, copy):
                each.recover(grace_s=0)
            catch_up(graph, copy)
            self.sharing = sharing_of(graph._engine)
            found = [f"fault: {one}" for one in faults_of(graph._engine)]
            if not graph.verify(deep=True).clean:
                found.append("verify finds something")
            ours, theirs = rows_of(graph), rows_of(copy)
            found += [f"{name} differs from what the feed told" for name in ours if ours[name] != theirs.get(name)]
            return [*found, *self._lost(ours)]

    def _lost(self, rows: dict[str, dict[Any, Any]]) -> Iterator[str]:
        """What should be there and is not, or the other way round."""
        people, bills = rows["Person"], rows["Bill"]
        if people[DISPUTED]["city"] != AGENTS[0]:
            yield f"the city that two set is {people[DISPUTED]['city']}"
        for number in BAD_BILLS:
            if bills[f"b{number}"]["total"] != number:
                yield f"the bad batch is still in b{number}"
        for who in AGENTS:
            for number in range(0, self.steps, 4):
                last = 9 if number + 3 < self.steps else 10
                names = [f"{who}-{number}-{n}" for n in range(10)]
                if [name in people for name in names] != [n < last for n in range(10)]:
                    yield f"the newcomers of {who}/{number} are not those that were left"
        for number in (n for n in range(self.steps) if n != BAD):
            if bills[f"b{number}"]["total"] != number * 1000 or f"n{number}" not in bills:
                yield f"batch {number} is not there"
        for who in RECEIVERS[1:]:
            for number in range(self.steps):
                if bills.get(f"{who}{number}", {}).get("total") != number:
                    yield f"batch {number} of {who} is not there"


def rows_of(graph: Graph) -> dict[str, dict[Any, Any]]:
    """The rows of each type by key. Edges by their own property: ids are made anew in a copy."""
    found = {}
    snapshot = graph.snapshot()
    for entry in snapshot.tables:
        kind, _, name = entry.partition(":")
        rows = snapshot.to_arrow(name).to_pylist()
        found[name] = {
            row["n"]: {key: value for key, value in row.items() if key != "id"} for row in rows
        } if kind == "edge" else {row["id"]: row for row in rows}  # fmt: skip
    return found


# --- the command --------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m omnigraph.testing team", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--kill-every", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    wrong = 0
    for number in range(given.rounds):
        folder = tempfile.mkdtemp()
        day = Day(f"{folder}/g", given.rows, given.steps, given.seed + number, given.kill_every, limit_s=3600)
        started = time.monotonic()
        try:
            found = day.run()
        except OmnigraphError as error:
            found = [f"{error.code}: {error.message}"]
        told = f"{sum(day.did.values())} steps, {day.kills} kills, {day.sharing}, {time.monotonic() - started:.0f} s"
        sys.stdout.write(f"seed {day.seed}: {told}: {'; '.join(found) or 'clean'}\n")
        if found:
            sys.stderr.write(f"  kept: {folder}\n")
            wrong += 1
        else:
            shutil.rmtree(folder)
    return int(wrong > 0)
