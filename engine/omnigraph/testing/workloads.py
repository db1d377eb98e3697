"""What real processes do beside each other: workers that write and read one graph and tell their history, and a parent
that starts, kills, stops and starts them again.

A worker says one event before and one after each operation, so that an operation of a killed one is known to have begun.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.run import run
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.steps import OverwriteRows
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.swap import Held
from omnigraph.options import LoadOptions
from omnigraph.schema.arrow import table_schema
from omnigraph.table.dataset import TableRef
from omnigraph.testing.children import Child
from omnigraph.testing.histories import FAIL, INVOKE, OK, UNKNOWN, Event
from omnigraph.testing.operations import opened
from omnigraph.write.load import load

ACCOUNTS = ("a", "b", "c", "d")
ACCOUNT_START = 100
LIST_KEYS = ("node:T1", "node:T2")
RECOVER_EVERY_S = 0.05
YOUNG_KILLS = 0.25  # share of kills that may meet a process which is still opening the graph


@dataclass(frozen=True)
class Job:
    """What one worker does. ``kind``: rows, set, list-append, apart, bank, ring or recover. ``keys``: the tables it may write."""

    kind: str
    count: int
    keys: tuple[str, ...] = LIST_KEYS
    reads: float = 0.2
    seed: int = 0
    deadline_s: float = 60.0
    shortcut: bool = True  # whether it may know that a process of its own host is dead
    combine: bool | None = None  # whether its swaps may take along the plans of others; None: as a program's
    offers: bool | None = None  # whether other processes may carry its writes out; None: as a program's


class _Worker:
    def __init__(self, say: Callable[[Any], None], name: str, engine: Engine, job: Job) -> None:
        self._say = say
        self._name = name
        self._engine = engine
        self._job = job
        self._rng = random.Random(f"{name}/{job.seed}")
        self._serial = 0

    def work(self) -> None:
        act = getattr(self, f"_{self._job.kind.replace('-', '_')}")
        for number in range(self._job.count):
            act(number)
            if self._rng.random() < self._job.reads:
                self._read()

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, kind: str, what: str, value: Any) -> None:
        self._say(Event(self._name, self._serial, kind, what, value, time.monotonic()))

    def _do(self, what: str, value: Any, call: Callable[[], Any]) -> None:
        self._serial += 1
        self._tell(INVOKE, what, value)
        try:
            answer = call()
        except OutcomeUnknown as error:
            self._tell(UNKNOWN, what, error.facts.get("commit_id"))
        except OmnigraphError as error:
            self._tell(FAIL, what, f"{error.code}: {error}")
        else:
            self._tell(OK, what, answer)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _append(self, keys: tuple[str, ...], name: str) -> str:
        records = [{"type": key.removeprefix("node:"), "data": {"name": name}} for key in keys]
        options = LoadOptions(mode="append", actor=self._name, deadline_s=self._job.deadline_s)
        made = load(self._engine, records, options).commit_id
        if made is None:
            raise AssertionError("an append makes a commit")
        return made

    def _recover(self, number: int) -> None:
        """Recovery beside writers: what owners that are alive have under way is left to them."""

        def call() -> None:
            recover_all(self._engine, meter=Meter())

        self._do("recover", None, call)
        time.sleep(RECOVER_EVERY_S)

    def _rows(self, number: int) -> None:
        name = f"{self._name}-{number}"
        self._do("append", (name, self._job.keys), lambda: self._append(self._job.keys, name))

    def _set(self, number: int) -> None:
        name = f"{self._name}-{number}"
        self._do("add", name, lambda: self._append(self._job.keys[:1], name))

    def _list_append(self, number: int) -> None:
        keys = self._job.keys if self._rng.random() < 0.7 else (self._rng.choice(self._job.keys),)
        name = f"{self._name}-{number}"
        self._do("append", (name, keys), lambda: self._append(keys, name))

    _apart = _list_append

    def _bank(self, number: int) -> None:
        source, target = self._rng.sample(ACCOUNTS, 2)
        amount = self._rng.randint(1, 20)

        def move(balances: dict[str, int]) -> dict[str, int]:
            return {**balances, source: balances[source] - amount, target: balances[target] + amount}

        self._do("transfer", (source, target, amount), lambda: rewrite(self._engine, move, self._job.deadline_s))

    def _ring(self, number: int) -> None:
        name = f"{self._name}-{number}"

        def insert(following: dict[str, str]) -> dict[str, str]:
            before = self._rng.choice(sorted(following))
            return {**following, before: name, name: following[before]}

        self._do("insert", name, lambda: rewrite_ring(self._engine, insert, self._job.deadline_s))

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        def call() -> Any:
            held = read_current(self._engine, MAIN, meter=Meter())
            return read_as(self._job.kind, self._engine, held, self._job.keys)

        self._do("read", None, call)


def read_as(kind: str, engine: Engine, held: Held, keys: tuple[str, ...]) -> Any:
    """One state in the shape that the checker of ``kind`` wants."""
    if kind == "bank":
        return balances_of(engine, held)
    if kind == "ring":
        return dict(_pairs(engine, held, "node:T3", "id", "name"))
    lists = {key: [name for name, _ in _pairs(engine, held, key, "id", "n")] for key in keys}
    return lists[keys[0]] if kind == "set" else lists


def _pairs(engine: Engine, held: Held, key: str, first: str, second: str) -> list[tuple[Any, Any]]:
    pin = held.state.tables[key]
    if pin.rows == 0:
        return []
    table = engine.tables.open(TableRef(pin.location, pin.ref), pin.version).to_table([first, second])
    return list(zip(table[first].to_pylist(), table[second].to_pylist(), strict=True))


# --- accounts in two tables, a ring in a third ------------------------------------------------------------------------------


def home_of(account: str) -> str:
    """Half of the accounts live in either table, so that most transfers write both."""
    return LIST_KEYS[ACCOUNTS.index(account) % 2]


def balances_of(engine: Engine, held: Held) -> dict[str, int]:
    return dict(pair for key in LIST_KEYS for pair in _pairs(engine, held, key, "id", "n"))


def _table(txn: Txn, key: str, ids: list[str], numbers: list[int | None], names: list[str]) -> pa.Table:
    schema = table_schema(txn.catalog.by_table_key(key))
    values: dict[str, list[Any]] = {"id": ids, "n": numbers, "name": names}
    return pa.table({name: values[name] for name in schema.names}, schema=schema)


def _overwrite_step(txn: Txn, key: str, rows: pa.Table) -> OverwriteRows:
    return OverwriteRows(key, (Counts(inserted=rows.num_rows, deleted=txn.rows(key)),), rows)


def rewrite(engine: Engine, move: Callable[[dict[str, int]], dict[str, int]], deadline_s: float = 60.0) -> str | None:
    """Change balances: what is read is in the read set, what changed is written."""

    def prepare(txn: Txn) -> Prepared:
        before = balances_of(engine, txn.held)
        after = move(before)
        dirty = {home_of(account) for account in ACCOUNTS if before.get(account) != after[account]}
        steps = []
        for key in sorted(dirty):
            ids = [account for account in ACCOUNTS if home_of(account) == key]
            steps.append(_overwrite_step(txn, key, _table(txn, key, ids, [after[a] for a in ids], ids)))
        return Prepared(tuple(steps), reads=frozenset(LIST_KEYS))

    outcome = run(engine, Request("mutate", MAIN, frozenset(LIST_KEYS), deadline_s=deadline_s), prepare, Meter())
    return None if outcome.row is None else outcome.row.commit_id


def open_accounts(engine: Engine) -> None:
    rewrite(engine, lambda _: dict.fromkeys(ACCOUNTS, ACCOUNT_START))


def rewrite_ring(
    engine: Engine, change: Callable[[dict[str, str]], dict[str, str]], deadline_s: float = 60.0
) -> str | None:
    key = "node:T3"

    def prepare(txn: Txn) -> Prepared:
        after = change(dict(_pairs(engine, txn.held, key, "id", "name")))
        ids = sorted(after)
        rows = _table(txn, key, ids, [None] * len(ids), [after[one] for one in ids])
        return Prepared((_overwrite_step(txn, key, rows),))

    outcome = run(engine, Request("mutate", MAIN, frozenset([key]), deadline_s=deadline_s), prepare, Meter())
    return None if outcome.row is None else outcome.row.commit_id


def open_ring(engine: Engine) -> None:
    rewrite_ring(engine, lambda _: {"start": "start"})


# --- the parent ---------------------------------------------------------------------------------------------------------


def work(say: Any, name: str, root: str, job: Job) -> None:
    """The worker process."""
    if not job.shortcut:
        from omnigraph.commit.recovery import evidence

        # Through a setattr: this is the one place where a worker is made to behave as if it ran on another host.
        setattr(evidence, "known_dead", lambda owner: False)  # noqa: B010
    with opened(root, combine=job.combine, offers=job.offers) as engine:
        engine.latest(MAIN)
        recover_all(engine, meter=Meter())  # as every open for writing does
        _Worker(say, name, engine, job).work()


@dataclass
class Told:
    """What all workers of a run said, and what was done to them."""

    events: list[Event] = field(default_factory=list)
    kills: int = 0
    stops: int = 0
    unfinished: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def worst_s(self) -> float:
        began = {(e.process, e.serial): e.at_s for e in self.events if e.kind == INVOKE}
        ends = [e for e in self.events if e.kind != INVOKE and e.what != "read"]
        return max((e.at_s - began[(e.process, e.serial)] for e in ends), default=0.0)

    def of(self, kind: str, what: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind and event.what == what]


def run_together(
    root: str,
    jobs: Mapping[str, Job],
    *,
    env: Mapping[str, str] | None = None,
    kill_every_s: float = 0.0,
    stop_every_s: float = 0.0,
    stop_for_s: float = 0.5,
    seed: int = 0,
    limit_s: float = 120.0,
) -> Told:
    """Start a process per job and hear them out. A killed worker is started again for what it had left to do."""
    rng = random.Random(seed)
    told = Told()
    started = time.monotonic()
    children = {name: Child(work, name, root, job, env=env) for name, job in jobs.items()}
    left = {name: job.count for name, job in jobs.items()}
    lives = dict.fromkeys(jobs, 0)
    next_kill = started + kill_every_s if kill_every_s else float("inf")
    next_stop = started + stop_every_s if stop_every_s else float("inf")
    stopped: dict[str, float] = {}
    at_work: set[str] = set()  # have said something in their present life
    try:
        while children:
            now = time.monotonic()
            if now - started > limit_s:
                told.unfinished = sorted(children)
                break
            for name in [name for name, since in stopped.items() if now >= since + stop_for_s]:
                del stopped[name]
                if name in children:
                    children[name].resume()
            if now >= next_stop:
                next_stop = now + stop_every_s
                name = rng.choice(sorted(children))
                if name not in stopped:
                    children[name].stop()
                    stopped[name] = now
                    told.stops += 1
            if now >= next_kill:
                next_kill = now + kill_every_s
                # Mostly those at work: on a slow machine no other process would ever get as far as that.
                young = rng.random() < YOUNG_KILLS
                if met := sorted(children if young else at_work & children.keys()):
                    name = rng.choice(met)
                    stopped.pop(name, None)
                    children[name].kill()
                    told.kills += 1
            for name, child in list(children.items()):
                heard = len(told.events)
                if not _hear(child, told, left, name, wait_s=0.002):
                    if len(told.events) > heard:
                        at_work.add(name)
                    continue
                at_work.discard(name)
                child.join()
                del children[name]
                if left[name] > 0:
                    lives[name] += 1
                    job = jobs[name]
                    again = Job(**{**vars(job), "count": left[name], "seed": job.seed + lives[name]})
                    children[name] = Child(work, f"{_first(name)}.{lives[name]}", root, again, env=env)
    finally:
        for child in children.values():
            child.kill()
    told.seconds = time.monotonic() - started
    return told


def _first(name: str) -> str:
    return name.partition(".")[0]


def _hear(child: Child, told: Told, left: dict[str, int], name: str, *, wait_s: float) -> bool:
    """Take in what the child has said so far. True: it has ended."""
    try:
        while True:
            event = child.hear(wait_s)
            if event is None:
                return True
            told.events.append(event)
            if event.kind == INVOKE and event.what != "read":
                left[name] -= 1
            wait_s = 0.0
    except TimeoutError:
        return False
