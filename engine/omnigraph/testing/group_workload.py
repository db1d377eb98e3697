"""Processes of several threads that write through the façade, so that their requests share plans, beside a compactor, a cleaner and
a killer: what each does and says, and what must be true of it in the end.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph import graph as graphs
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown
from omnigraph.graph import Graph
from omnigraph.testing.content import faults_of
from omnigraph.testing.crew import Crew
from omnigraph.wire.receipt import Receipt

Say = Callable[[Any], None]

SCHEMA: Final = """
node Person { name: String @key }
edge Knows: Person -> Person { n: String }
"""
HUB: Final = "hub"
KINDS: Final = 4
SHARED: Final = 3  # the kind of call that every thread of a process makes under one key
_DEADLINE_S: Final = 120.0
_UPKEEP_ROUNDS: Final = 3


def start(root: str) -> None:
    with graphs.init(root, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": HUB}}], mode="append")


# --- processes ----------------------------------------------------------------------------------------------------------


def write(say: Say, root: str, who: str, life: str, threads: int, first: int, count: int) -> None:
    """Each thread makes the calls from ``first`` on. ``life`` is in the names of all rows: a life begun again writes others."""
    guard = threading.Lock()

    def tell(*said: Any) -> None:
        with guard:
            say(said)

    def work(graph: Graph, thread: int) -> None:
        for number in range(first, count):
            name = f"{life}-{number}" if number % KINDS == SHARED else f"{life}-{thread}-{number}"
            tell("began", who, name, number)
            try:
                receipt = _call(graph, name, number)
            except OutcomeUnknown as error:
                tell("unknown", who, name, error.facts.get("commit_id"))
            except OmnigraphError as error:
                tell("failed", who, name, f"{error.code}: {error.message}")
            else:
                tell("wrote", who, name, receipt.commit_id, len(receipt.grouped_with))

    with graphs.open(root, actor=life, group=True) as graph:
        workers = [threading.Thread(target=work, args=(graph, thread)) for thread in range(threads)]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
    tell("done", who)


def _call(graph: Graph, name: str, number: int) -> Receipt:
    person = {"type": "Person", "data": {"name": name}}
    kind = number % KINDS
    if kind == 0:
        return graph.load([person], mode="append", deadline_s=_DEADLINE_S)
    if kind == 1:
        edge = {"edge": "Knows", "from": name, "to": HUB, "data": {"n": name}}
        return graph.load([person, edge], mode="merge", deadline_s=_DEADLINE_S)
    if kind == 2:
        edge = {"edge": "Knows", "from": HUB, "to": HUB, "data": {"n": name}}
        return graph.load([edge], mode="append", deadline_s=_DEADLINE_S)
    return graph.load([person], mode="merge", idempotency_key=name, deadline_s=_DEADLINE_S)


def compact(say: Say, root: str, who: str) -> None:
    with graphs.open(root, actor=who) as graph:
        for _ in range(_UPKEEP_ROUNDS):
            _upkeep(say, who, graph.optimize)
            _upkeep(say, who, graph.compact_manifest)


def clean(say: Say, root: str, who: str) -> None:
    with graphs.open(root, actor=who) as graph:
        for _ in range(_UPKEEP_ROUNDS):
            _upkeep(say, who, lambda: graph.cleanup(keep=3, min_age="1s", confirm=True))


def _upkeep(say: Say, who: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except OmnigraphError as error:
        say(("broken", who, f"{error.code}: {error.message}"))
    else:
        say(("kept up", who))


# --- the parent ---------------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What everybody said, and what was done to them."""

    said: list[tuple[Any, ...]] = field(default_factory=list)
    kills: int = 0
    ended: bool = False

    def of(self, what: str) -> list[tuple[Any, ...]]:
        return [line for line in self.said if line[0] == what]


def run_grouped(
    root: str, processes: int, threads: int, calls: int, *, kill_every_s: float, limit_s: float, seed: int = 0
) -> Heard:
    """So many processes, each of so many threads that make so many calls, while some are killed."""
    told = Heard()
    crew = Crew(told.said.append, kill_every_s, random.Random(seed))
    writers = [f"w{number}" for number in range(processes)]
    lives: Counter[str] = Counter()

    def begin(who: str) -> None:
        if who in crew.at_work:
            return
        # How far each thread of a killed process was is not known: all of them do the rest.
        begun = 1 + max((line[3] for line in told.of("began") if line[1] == who), default=-1)
        crew.begin(who, write, root, who, f"{who}.{lives[who]}", threads, min(begun, calls), calls)
        lives[who] += 1

    def manned() -> bool:
        done = {line[1] for line in told.of("done")}
        for who in writers:
            if who not in done:
                begin(who)
        crew.begin("compactor", compact, root, "compactor")
        crew.begin("cleaner", clean, root, "cleaner")
        return done.issuperset(writers)

    told.ended = crew.work(manned, limit_s)
    told.kills = crew.kills
    return told


def findings(root: str, told: Heard) -> list[str]:
    """What is wrong with the graph after a run. Recovers it first."""
    found = [] if told.ended else ["not all writers came to their end"]
    found += [f"{line[1]}: {line[2]}" for line in told.of("broken")]
    found += [f"{line[2]} was refused: {line[3]}" for line in told.of("failed")]
    with graphs.open(root) as graph:
        graph.recover(grace_s=0)
        commits = Counter[str](commit.id for commit in graph.commits())
        snapshot = graph.snapshot()
        columns = (snapshot.to_arrow("Person")["name"], snapshot.to_arrow("Knows")["n"])
        found += _compared(told, commits, [Counter[Any](column.to_pylist()) for column in columns])
        for _, _, name, commit_id in told.of("unknown"):
            landed = graph.outcome(commit_id).landed
            if landed is not (commits[commit_id] == 1):
                found.append(f"{name}: its outcome says landed={landed}, the history has it {commits[commit_id]} times")
        found += [str(one) for one in faults_of(graph._engine)]
        report = graph.verify(deep=True)
        found += [] if report.clean else [f"verify: {report}"]
    return found


def _compared(told: Heard, commits: Counter[str], tables: Sequence[Counter[Any]]) -> list[str]:
    """Every acknowledged call once, under one commit; of all others at most once; nothing that no call asked for."""
    people, edges = tables
    began = {line[2]: line[3] for line in told.of("began")}
    found = [f"commit {one} stands {times} times" for one, times in commits.items() if times != 1]
    answers: dict[str, set[str]] = {}
    for _, _, name, commit_id, _ in told.of("wrote"):
        answers.setdefault(name, set()).add(commit_id)
    names = [name for name, ids in answers.items() for _ in ids]
    found += [f"{name} was answered by several commits" for name, times in Counter(names).items() if times > 1]
    found += [
        f"{name} was acknowledged and is not in the history"
        for name, ids in answers.items()
        if not ids & commits.keys()
    ]
    owners = Counter(one for ids in answers.values() for one in ids)
    found += [f"commit {one} is the answer to {times} requests" for one, times in owners.items() if times > 1]
    for name, number in began.items():
        written = [table[name] for table in (people, edges) if _writes(number, table is people)]
        if any(times > 1 for times in written) or len(set(written)) > 1 or (name in answers and written[0] != 1):
            found.append(f"{name} has {written} rows, and was {'acknowledged' if name in answers else 'not answered'}")
    strange = (people.keys() | edges.keys()) - began.keys() - {HUB}
    return found + [f"no call wrote {name}" for name in sorted(strange)]


def _writes(number: int, people: bool) -> bool:
    """Whether this kind of call writes that table."""
    return number % KINDS != 2 if people else number % KINDS in (1, 2)
