"""Schemas that change beside loaders and a compactor, all killed at random: ``python -m omnigraph.testing evolve``.

    python -m omnigraph.testing evolve [--graph NAME] [--loads N] [--kill-every S] [--rounds N] [--seed S]

A round takes one example graph through its ten revisions. Two loaders write records under the names of the schema that they find,
a compactor optimizes, each revision is applied by a process of its own, and a killer ends any of them at any moment; they begin
again where what they acknowledged ends. In the end the graph is compared with one that is made with the last schema and the same
records. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omnigraph import graph as graphs
from omnigraph.core.errors import DataInvalid, IdempotencyMismatch, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.testing.content import faults_of, leftovers_of
from omnigraph.testing.crew import Crew
from omnigraph.testing.evolving_graphs import EXAMPLES, EXTRA, Example
from omnigraph.testing.sharing import Sharing, sharing_of

Say = Callable[[Any], None]
LOADERS: Final = ("ann", "bob")
_DEADLINE_S: Final = 120.0
_TRIES_MAX: Final = 50  # of one batch that meets one schema after the other


def start(root: str, name: str) -> None:
    graphs.init(root, EXAMPLES[name].revisions[0][0]).close()


# --- processes ----------------------------------------------------------------------------------------------------------


def load(say: Say, root: str, name: str, who: str, first: int, count: int) -> None:
    """Batches from one number on, each under a key of its own. Says the tables of each that is in the graph."""
    example = EXAMPLES[name]
    with graphs.open(root, actor=who) as graph:
        for number in range(first, count):
            say(("loaded", who, number, _loaded(graph, example, who, number)))
    say(("done", who))


def _loaded(graph: Graph, example: Example, who: str, number: int) -> frozenset[str]:
    key = f"{who}/{number}"
    for _ in range(_TRIES_MAX):
        catalog = graph.snapshot().catalog
        records = example.expressed(catalog, example.records(who, number))
        try:
            return frozenset(graph.load(records, mode="append", idempotency_key=key, deadline_s=_DEADLINE_S).tables)
        except IdempotencyMismatch as error:
            # It landed before, in the words of an earlier schema.
            return frozenset(graph.commit(error.facts["commit_id"]).tables)
        except DataInvalid:
            if graph.snapshot().catalog.hash == catalog.hash:
                raise
    raise AssertionError(f"{key} met another schema {_TRIES_MAX} times")


def compact(say: Say, root: str, rounds: int) -> None:
    with graphs.open(root, actor="compactor") as graph:
        for _ in range(rounds):
            graph.optimize()
    say(("done", "compactor"))


def revise(say: Say, root: str, name: str, number: int) -> None:
    text, fill = EXAMPLES[name].revisions[number]
    with graphs.open(root, actor="reviser") as graph:
        graph.schema.apply(text, fill=fill, deadline_s=_DEADLINE_S)
    say(("revised", number))


# --- a round ------------------------------------------------------------------------------------------------------------


@dataclass
class Round:
    """One example graph from its first schema to its last. ``loads``: batches that each loader writes at each schema, at least."""

    root: str
    name: str
    seed: int = 0
    loads: int = 1
    kill_every_s: float = 1.0
    limit_s: float = 240.0
    loaded: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)

    def __post_init__(self) -> None:
        self._crew = Crew(self._note, self.kill_every_s, random.Random(f"{self.name}/{self.seed}"))
        self._last = len(EXAMPLES[self.name].revisions) - 1
        self._revised = 0

    @property
    def kills(self) -> int:
        return self._crew.kills

    def run(self) -> list[str]:
        """What is wrong in the end; empty if nothing is."""
        start(self.root, self.name)
        if not self._crew.work(self._manned, self.limit_s):
            return [f"not done within {self.limit_s} s: revision {self._revised}, {len(self.loaded)} batches"]
        return self._judge()

    def _count(self, who: str) -> int:
        return sum(one == who for one, _ in self.loaded)

    def _caught_up(self, schemas: int) -> bool:
        return all(self._count(who) >= schemas * self.loads for who in LOADERS)

    def _manned(self) -> bool:
        """Whether all is done. Who is missing begins, and goes on behind what it has said."""
        if self._revised == self._last and self._caught_up(self._last + 1):
            return True
        for who in LOADERS:
            until = (self._revised + 2) * self.loads
            if self._count(who) < until:
                self._crew.begin(who, load, self.root, self.name, who, self._count(who), until)
        self._crew.begin("compactor", compact, self.root, 2)
        if self._revised < self._last and self._caught_up(self._revised + 1):
            self._crew.begin("reviser", revise, self.root, self.name, self._revised + 1)
        return False

    def _note(self, said: Any) -> None:
        if said[0] == "loaded":
            self.loaded[said[1], said[2]] = said[3]
        elif said[0] == "revised":
            self._revised = max(self._revised, said[1])

    # --- judgement --------------------------------------------------------------------------------------------------

    def _judge(self) -> list[str]:
        example = EXAMPLES[self.name]
        text = example.revisions[-1][0]
        with graphs.open(self.root, actor="judge") as graph, tempfile.TemporaryDirectory() as folder:
            graph.recover(grace_s=0)
            self._finish(graph, example)
            self.sharing = sharing_of(graph._engine)
            found = [f"fault: {one}" for one in faults_of(graph._engine)]
            found += [
                f"left over: {one}" for one in leftovers_of(graph._engine) if not one.startswith(("nodes/", "edges/"))
            ]
            if not graph.verify(deep=True).ok:
                found.append("verify finds something")
            with graphs.init(Path(folder) / "fresh", text) as fresh:
                for (who, number), tables in sorted(self.loaded.items()):
                    records = example.expressed(fresh.catalog, example.records(who, number))
                    left = [one for one in records if one.get("type") != EXTRA or f"node:{EXTRA}" in tables]
                    fresh.load(left, mode="append")
                if graph.catalog.hash != fresh.catalog.hash:
                    found.append("the schema is not the last one")
                for declared in fresh.catalog.types():
                    if _rows(graph, declared) != _rows(fresh, declared):
                        found.append(f"{declared.name} differs from a graph of the last schema and the same records")
        return found

    def _finish(self, graph: Graph, example: Example) -> None:
        """A batch that was under way when its loader was killed is in the graph or not: write it once more under its key."""
        for who in LOADERS:
            number = self._count(who)
            self.loaded[who, number] = _loaded(graph, example, who, number)


def _rows(graph: Graph, declared: Any) -> list[str]:
    """The rows of a type. Edges without ids: those are made anew."""
    names = [name for name in declared.columns if name != "id" or declared.table_key.startswith("node:")]
    return sorted(repr(sorted(row.items())) for row in graph.snapshot().to_arrow(declared.name, names).to_pylist())


# --- the command --------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m omnigraph.testing evolve", description=__doc__)
    parser.add_argument("--graph", choices=sorted(EXAMPLES), action="append")
    parser.add_argument("--loads", type=int, default=3)
    parser.add_argument("--kill-every", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    wrong = 0
    for number in range(given.rounds):
        for name in given.graph or sorted(EXAMPLES):
            folder = tempfile.mkdtemp()
            one = Round(f"{folder}/g", name, given.seed + number, given.loads, given.kill_every, limit_s=3600)
            try:
                found = one.run()
            except OmnigraphError as error:
                found = [f"{error.code}: {error.message}"]
            print(
                f"{name} seed {one.seed}: {len(one.loaded)} batches, {one.kills} kills, {one.sharing}, {'; '.join(found) or 'clean'}"
            )
            if found:
                print(f"  kept: {folder}", file=sys.stderr)
                wrong += 1
            else:
                shutil.rmtree(folder)
    return int(wrong > 0)
