"""Processes of several threads that write through the façade, so that their requests share plans and swaps, beside a compactor, a cleaner
and a killer: what each does and says, and what must be true of it in the end.

Every other process has one thread, so that it offers what it waits with. A few calls are wrong and have to be refused, a few have a deadline
that they may not keep, and a few have one key in all processes.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph import graph as graphs
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown, Refused
from omnigraph.graph import Graph
from omnigraph.manifest.rows import CommitRow
from omnigraph.store import layout
from omnigraph.testing.content import commits_of, faults_of, leftovers_of
from omnigraph.testing.crew import Crew
from omnigraph.testing.sharing import Sharing
from omnigraph.wire.receipt import Receipt

Say = Callable[[Any], None]

OWN_TABLES: Final = 12  # beyond that many processes, two share one
HUB: Final = "hub"
_SCHEMA: Final = """
node Person { name: String @key  age: I32? @range(age, 0..120) }
edge Knows: Person -> Person { n: String }
"""
SCHEMA: Final = _SCHEMA + "".join(f"node Own{number} {{ name: String @key }}\n" for number in range(OWN_TABLES))
_DEADLINE_S: Final = 120.0
_SHORT_S: Final = (0.02, 0.5)  # a deadline that some calls do not keep
_SHORT_SHARE: Final = 0.1
_UPKEEP_ROUNDS: Final = 3
_STRIDE: Final = 4

PERSON, EDGE, OWN = "node:Person", "edge:Knows", "node:Own"
REFUSED: Final = "refused"
WRITES: Final[Mapping[str, tuple[str, ...]]] = {
    "person": (PERSON,),
    "own": (OWN,),
    "edge": (EDGE,),
    "shared": (PERSON,),  # by every thread of a process, under one key
    "both": (PERSON, EDGE),
    "own again": (OWN,),
    "insert": (PERSON,),
    "common": (PERSON,),  # by every process, under one key
    "refused-twice": (),  # a key of a row that is there
    "refused-end": (),  # an end of an edge that does not exist
    "refused-value": (),
}
"""The kinds of calls, one after the other, and the tables that each adds a row to."""
KINDS: Final = tuple(WRITES)


def kind_of(who: str, number: int, kinds: Sequence[str] = KINDS) -> str:
    """The kind of a call. Processes begin at different ones, so that most calls meet calls of other kinds. Every third process writes its
    own table where it can: who shares no table loses swaps, and does not wait."""
    kind = kinds[(number + _STRIDE * _number_of(who)) % len(kinds)]
    alone = _number_of(who) % 3 == 2 and kind in ("person", "edge", "both", "insert")
    return "own" if alone else kind


def _number_of(who: str) -> int:
    return int(who.removeprefix("w"))


def start(root: str) -> None:
    with graphs.init(root, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": HUB}}], mode="append")


# --- processes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Life:
    """One process from its start to its end. ``name``: in all rows that no other one writes; a life begun again writes others.
    ``plant``: a defect that it has."""

    who: str
    name: str
    threads: int
    first: int
    count: int
    seed: int
    kinds: Sequence[str] = KINDS
    plant: Callable[[], object] | None = None


def write(say: Say, root: str, life: Life) -> None:
    """Each thread makes the calls from ``first`` on."""
    guard = threading.Lock()
    if life.plant is not None:
        life.plant()

    def tell(*said: Any) -> None:
        with guard:
            say(said)

    def work(graph: Graph, thread: int) -> None:
        rng = random.Random(f"{life.name}/{thread}/{life.seed}")
        for number in range(life.first, life.count):
            kind = kind_of(life.who, number, life.kinds)
            name = _name(life, thread, number, kind)
            short = rng.random() < _SHORT_SHARE and kind not in ("shared", "common")
            tell("began", life.who, name, kind, number, short)
            try:
                receipt = _call(graph, life, name, kind, rng.uniform(*_SHORT_S) if short else _DEADLINE_S)
            except OutcomeUnknown as error:
                tell("unknown", life.who, name, error.facts.get("commit_id"))
            except OmnigraphError as error:
                tell("failed", life.who, name, error.code, error.message)
            else:
                tell("wrote", life.who, name, receipt.commit_id, len(receipt.grouped_with))

    failpoints.arm("carry.refused", lambda **facts: tell("refused", life.who, facts["code"]), at=None)
    failpoints.arm("combine.after_applied", lambda **_: tell("applied", life.who), at=None)
    with graphs.open(root, actor=life.name, group=True) as graph:
        workers = [threading.Thread(target=work, args=(graph, thread)) for thread in range(life.threads)]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
    tell("done", life.who)


def _name(life: Life, thread: int, number: int, kind: str) -> str:
    if kind == "common":
        return f"all-{number // len(KINDS)}"
    return f"{life.name}-{number}" if kind == "shared" else f"{life.name}-{thread}-{number}"


def _call(graph: Graph, life: Life, name: str, kind: str, deadline_s: float) -> Receipt:
    person = {"type": "Person", "data": {"name": name}}
    given: dict[str, Any] = {"mode": "append", "deadline_s": deadline_s}
    match kind:
        case "own" | "own again":
            return _load(graph, [{"type": f"Own{_number_of(life.who) % OWN_TABLES}", "data": {"name": name}}], **given)
        case "edge":
            return _load(graph, [_edge(HUB, HUB, name)], **given)
        case "both":
            return _load(graph, [person, _edge(name, HUB, name)], **given | {"mode": "merge"})
        case "shared" | "common":
            return _load(graph, [person], **given | {"mode": "merge", "idempotency_key": name})
        case "insert":
            return graph.mutate(f'query add() {{ insert Person {{ name: "{name}" }} }}', deadline_s=deadline_s)
        case "refused-twice":
            return _load(graph, [person, {"type": "Person", "data": {"name": HUB}}], **given)
        case "refused-end":
            return _load(graph, [person, _edge(name, f"{name}-missing", name)], **given)
        case "refused-value":
            return _load(graph, [person, {"type": "Person", "data": {"name": f"{name}-old", "age": 900}}], **given)
        case _:
            return _load(graph, [person], **given)


def _load(graph: Graph, records: list[dict[str, Any]], **given: Any) -> Receipt:
    receipt: Receipt = graph.load(records, **given)
    return receipt


def _edge(source: str, target: str, name: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": source, "to": target, "data": {"n": name}}


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
    except Refused as error:
        # A writer that is slow may be taken for dead and go on: until it sees that, no intent claims what it has landed, and a cleanup
        # deletes nothing. What were still so in the end would be a finding of its own.
        transient = error.facts.get("reason") == "drift"
        say(("put off" if transient else "broken", who, f"{error.code}: {error.message}"))
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
    sharing: Sharing = field(default_factory=Sharing)

    def of(self, what: str) -> list[tuple[Any, ...]]:
        return [line for line in self.said if line[0] == what]


def run_grouped(
    root: str,
    processes: int,
    threads: int,
    calls: int,
    *,
    kill_every_s: float,
    limit_s: float,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    plant: Callable[[], object] | None = None,
) -> Heard:
    """So many processes while some are killed, every other one of so many threads; each thread makes so many calls."""
    told = Heard()
    crew = Crew(told.said.append, kill_every_s, random.Random(seed))
    writers = [f"w{number}" for number in range(processes)]
    lives: Counter[str] = Counter()

    def begin(number: int, who: str) -> None:
        if who in crew.at_work:
            return
        # How far each thread of a killed process was is not known: all of them do the rest.
        begun = 1 + max((line[4] for line in told.of("began") if line[1] == who), default=-1)
        mine = 1 if number % 2 else threads
        crew.begin(
            who, write, root, Life(who, f"{who}.{lives[who]}", mine, min(begun, calls), calls, seed, kinds, plant)
        )
        lives[who] += 1

    def manned() -> bool:
        done = {line[1] for line in told.of("done")}
        for number, who in enumerate(writers):
            if who not in done:
                begin(number, who)
        crew.begin("compactor", compact, root, "compactor")
        crew.begin("cleaner", clean, root, "cleaner")
        return done.issuperset(writers)

    told.ended = crew.work(manned, limit_s)
    told.kills = crew.kills
    return told


# --- judging ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Left:
    """What a run has left: the commits, and how often each name stands in each table. Tables of processes count as one."""

    commits: Sequence[CommitRow]
    tables: Mapping[str, Counter[Any]]


def findings(root: str, told: Heard) -> list[str]:
    """What is wrong with the graph after a run. Recovers it first, and notes what was shared."""
    found = [] if told.ended else ["not all writers came to their end"]
    found += [f"{line[1]}: {line[2]}" for line in told.of("broken")]
    with graphs.open(root) as graph:
        graph.recover(grace_s=0)
        left = _left_of(graph)
        told.sharing = Sharing.of(left.commits)
        found += _compared(told, left)
        landed = {row.commit_id for row in left.commits}
        for _, _, name, commit_id in told.of("unknown"):
            if graph.outcome(commit_id).landed is not (commit_id in landed):
                found.append(f"{name}: its outcome is {graph.outcome(commit_id)}, and the history says otherwise")
        found += [str(one) for one in faults_of(graph._engine)]
        found += [f"left over: {key}" for key in leftovers_of(graph._engine) if key.startswith(layout.INTENTS)]
        report = graph.verify(deep=True)
        found += [] if report.clean else [f"verify: {report}"]
    return found


def _left_of(graph: Graph) -> Left:
    snapshot = graph.snapshot()
    tables = {PERSON: _names(snapshot, "Person", "name"), EDGE: _names(snapshot, "Knows", "n"), OWN: Counter[Any]()}
    for number in range(OWN_TABLES):
        tables[OWN] += _names(snapshot, f"Own{number}", "name")
    return Left(commits_of(graph._engine), tables)


def _names(snapshot: Any, type_name: str, column: str) -> Counter[Any]:
    return Counter(snapshot.to_arrow(type_name)[column].to_pylist())


def _compared(told: Heard, left: Left) -> list[str]:
    """Every acknowledged call once, under its own commit; one of unknown outcome as its commit says; a refused one not at all; all others
    at most once; nothing that no call asked for."""
    times = Counter(row.commit_id for row in left.commits)
    found = [f"commit {one} stands {count} times" for one, count in times.items() if count != 1]
    found += _answers(told, left)
    kinds = {line[2]: line[3] for line in told.of("began")}
    unknown = {line[2]: line[3] in times for line in told.of("unknown") if kinds[line[2]] not in ("shared", "common")}
    acknowledged = {line[2] for line in told.of("wrote")}
    alone = {name for name, kind in kinds.items() if kind not in ("shared", "common")}
    failed = {line[2] for line in told.of("failed")} & alone
    for name, kind in kinds.items():
        written = {key: left.tables[key][name] for key in left.tables if left.tables[key][name]}
        once = dict.fromkeys(WRITES[kind], 1)
        if name in acknowledged or unknown.get(name):
            right = written == once
        elif name in failed or name in unknown:
            right = not written
        else:
            right = written in ({}, once)
        if not right:
            how = "acknowledged" if name in acknowledged else "refused" if name in failed else "not answered"
            found.append(f"{name} ({kind}) has the rows {written}, and was {how}")
    strange = set[Any]().union(*left.tables.values()) - kinds.keys() - {HUB}
    found += [f"no call wrote {name}" for name in sorted(strange)]
    return [*found, *_refusals(told, kinds), *_counts(left)]


def _answers(told: Heard, left: Left) -> Iterator[str]:
    """Each call was answered by one commit, which is in the history and says what the call has written."""
    rows = {row.commit_id: row for row in left.commits}
    kinds = {line[2]: line[3] for line in told.of("began")}
    answers: dict[str, set[str]] = {}
    for _, _, name, commit_id, _ in told.of("wrote"):
        answers.setdefault(name, set()).add(commit_id)
    for name, ids in answers.items():
        if len(ids) > 1:
            yield f"{name} was answered by the commits {sorted(ids)}"
        if not ids & rows.keys():
            yield f"{name} was acknowledged and is not in the history"
    for one, times in Counter(one for ids in answers.values() for one in ids).items():
        if times > 1:
            yield f"commit {one} is the answer to {times} requests"
    for name, ids in answers.items():
        for row in (rows[one] for one in ids if one in rows):
            said = {_table_of(key): change.inserted for key, change in row.tables.items() if change.inserted}
            if said != dict.fromkeys(WRITES[kinds[name]], 1):
                yield f"{name} ({kinds[name]}) was answered by commit {row.commit_id}, which says {said}"


def _refusals(told: Heard, kinds: Mapping[str, str]) -> Iterator[str]:
    """A wrong call is never acknowledged; any other one fails only where its deadline was short."""
    for line in told.of("wrote"):
        if kinds[line[2]].startswith(REFUSED):
            yield f"{line[2]} ({kinds[line[2]]}) was acknowledged"
    short = {line[2] for line in told.of("began") if line[5]}
    for _, _, name, code, message in told.of("failed"):
        if name not in short and not kinds[name].startswith(REFUSED):
            yield f"{name} ({kinds[name]}) failed with {code}: {message}"
        elif name not in short and code not in ("data-invalid", "key-conflict"):
            yield f"{name} ({kinds[name]}) was refused with {code}: {message}"


def _counts(left: Left) -> Iterator[str]:
    """What the commits say that they inserted is what is there."""
    said: Counter[str] = Counter()
    for row in left.commits:
        for key, change in row.tables.items():
            said[_table_of(key)] += change.inserted or 0
    for key, names in left.tables.items():
        if said[key] != names.total():
            yield f"the commits say that they inserted {said[key]} rows in {key}, and it has {names.total()}"


def _table_of(key: str) -> str:
    return OWN if key.startswith(OWN) else key
