"""Many processes beside each other for as long as wanted: ``python -m omnigraph.testing soak``.

    python -m omnigraph.testing soak [--seconds N] [--seed S] [--store local|s3] [--only KIND] [--json FILE]
    python -m omnigraph.testing soak ROUND...                      repeat these rounds, e.g. bank/local/17

A round is one history (list-append, apart, set, bank or ring) on a fresh graph: writers that read as well, a killer (SIGKILL) and a
stopper (SIGSTOP, SIGCONT), then recovery, the checker of the history, and the checks of the graph. In apart every other process appends to
a list of its own. The seed of a round repeats the requests and the kills, not their timing. OMNIGRAPH_COMMIT_COMBINE=1 and
OMNIGRAPH_COMMIT_OFFERS=1 are those of all processes; the ledger says how many commits came along with the swap of another process, and how
many another process carried out. Progress goes to standard error. A ledger is printed, also after Ctrl-C;
the exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.commit.engine import MAIN
from omnigraph.core.errors import OmnigraphError
from omnigraph.testing.content import commits_of, faults_of
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.histories import (
    FAIL,
    OK,
    UNKNOWN,
    check_bank,
    check_bank_end,
    check_list_append,
    check_ring,
    check_set,
)
from omnigraph.testing.operations import TYPES, create, keys_of, opened, recover
from omnigraph.testing.pulse import Pulse
from omnigraph.testing.sharing import sharing_of
from omnigraph.testing.workloads import (
    ACCOUNT_START,
    ACCOUNTS,
    LIST_KEYS,
    Job,
    Told,
    balances_of,
    open_accounts,
    open_ring,
    run_together,
)
from omnigraph.upkeep.verify import GARBAGE, verify

KINDS = ("list-append", "apart", "set", "bank", "ring")
STORES = ("local", "s3")
LIMIT_S = 300.0
APART_TABLES = 8


@dataclass
class RoundCounts:
    """What the rounds of one kind of history on one store came to: one line of the ledger."""

    rounds: int = 0
    acknowledged: int = 0
    unknown: int = 0
    failed: int = 0
    reads: int = 0
    kills: int = 0
    stops: int = 0
    worst_s: float = 0.0
    seconds: float = 0.0
    helped: int = 0
    carried: int = 0
    findings: list[str] = field(default_factory=list)


def play(kind: str, root: str, seed: int, line: RoundCounts) -> list[str]:
    """Play one round and return its findings."""
    rng = random.Random(f"{kind}/{seed}")
    create(root, APART_TABLES if kind == "apart" else len(TYPES))
    if kind in ("bank", "ring"):
        with opened(root) as engine:
            (open_accounts if kind == "bank" else open_ring)(engine)
    slow = root.startswith("s3://")
    count = rng.randint(3, 6) if slow else rng.randint(10, 40)
    jobs = {
        f"p{number}": Job(kind, count, _keys(kind, number), reads=0.4, seed=seed)
        for number in range(rng.randint(2, 4 if slow else 6))
    }
    told = run_together(
        root,
        jobs,
        kill_every_s=rng.choice((0.0, 0.5, 1.5)) * (4 if slow else 1),
        stop_every_s=rng.choice((0.0, 0.3)) * (4 if slow else 1),
        stop_for_s=rng.choice((0.2, 1.0)),
        seed=seed,
        limit_s=LIMIT_S,
    )
    _count(told, line)
    try:
        return _judge(kind, root, told, line)
    except OmnigraphError as error:
        return [f"{type(error).__name__}: {error}"]


def _keys(kind: str, number: int) -> tuple[str, ...]:
    """The tables of a process. In apart every second one has a table of its own, and loses swaps to those that share two."""
    return (
        tuple(keys_of(APART_TABLES)[len(LIST_KEYS) :][number : number + 1])
        if kind == "apart" and number % 2
        else LIST_KEYS
    )


def _count(told: Told, line: RoundCounts) -> None:
    writes = [event for event in told.events if event.what != "read"]
    line.rounds += 1
    line.acknowledged += sum(event.kind == OK for event in writes)
    line.unknown += sum(event.kind == UNKNOWN for event in writes)
    line.failed += sum(event.kind == FAIL for event in writes)
    line.reads += len(told.of(OK, "read"))
    line.kills += told.kills
    line.stops += told.stops
    line.worst_s = max(line.worst_s, told.worst_s)
    line.seconds += told.seconds


def _judge(kind: str, root: str, told: Told, line: RoundCounts) -> list[str]:
    found = [f"{name} was cut off after {LIMIT_S:.0f} s" for name in told.unfinished]
    recover(root)
    with opened(root) as engine:
        found += faults_of(engine)
        shared = sharing_of(engine)
        line.helped += shared.helped
        line.carried += shared.carried
        found += [problem.message for problem in verify(engine).problems if problem.severity != GARBAGE]
        lineage = {row.commit_id for row in commits_of(engine)}
        acknowledged = {e.value for e in told.events if e.kind == OK and e.what != "read" and e.value is not None}
        found += [f"acknowledged commit {one} is not there" for one in sorted(acknowledged - lineage)]
        end = balances_of(engine, engine.latest(MAIN)) if kind == "bank" else {}
    match kind:
        case "list-append" | "apart":
            found += check_list_append(told.events)
        case "set":
            found += check_set(told.events)
        case "ring":
            found += check_ring(told.events)
        case _:
            total = ACCOUNT_START * len(ACCOUNTS)
            found += check_bank(told.events, total=total, accounts=len(ACCOUNTS))
            found += check_bank_end(told.events, start=dict.fromkeys(ACCOUNTS, ACCOUNT_START), end=end)
    return found


# --- rounds, one after the other ----------------------------------------------------------------------------------------


@contextmanager
def places() -> Iterator[Callable[[str], str]]:
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    serial = itertools.count(1)
    with S3Emulator() as emulator:
        os.environ.update(environment(emulator.endpoint))

        def fresh(store: str) -> str:
            name = f"soak-{next(serial)}"
            if store == "local":
                return str(folder / name)
            emulator.create_bucket(name)
            return f"s3://{name}/graph"

        try:
            yield fresh
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def wanted(chosen: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    if chosen.rounds:
        for text in chosen.rounds:
            kind, store, seed = text.split("/")
            yield kind, store, int(seed)
        return
    for number in itertools.count(chosen.seed):
        for store in [chosen.store] if chosen.store else STORES:
            for kind in chosen.only or KINDS:
                yield kind, store, number


def findings_of(ledger: dict[str, RoundCounts]) -> int:
    return sum(len(line.findings) for line in ledger.values())


def print_ledger(ledger: dict[str, RoundCounts], seed: int, seconds: float) -> None:
    print(
        f"{'history/store':18} {'rounds':>6} {'landed':>7} {'unknown':>7} {'failed':>6} {'reads':>6} {'kills':>6} {'stops':>6} "
        f"{'helped':>7} {'carried':>7} {'worst s':>8} findings"
    )
    for name, line in sorted(ledger.items()):
        print(
            f"{name:18} {line.rounds:6} {line.acknowledged:7} {line.unknown:7} {line.failed:6} {line.reads:6} {line.kills:6} "
            f"{line.stops:6} {line.helped:7} {line.carried:7} {line.worst_s:8.2f} {len(line.findings)}"
        )
    findings = findings_of(ledger)
    rounds = sum(line.rounds for line in ledger.values())
    print(f"soak: {rounds} rounds, from seed {seed}, {seconds:.0f} s, {findings} findings")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m omnigraph.testing soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("rounds", nargs="*", help="rounds to repeat")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=STORES)
    parser.add_argument("--only", action="append", choices=KINDS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    ledger: dict[str, RoundCounts] = defaultdict(RoundCounts)
    pulse = Pulse("soak", "rounds", chosen.seconds)
    with places() as fresh, pulse.running():
        for kind, store, seed in wanted(chosen):
            if not chosen.rounds and time.monotonic() - started > chosen.seconds:
                break
            line = ledger[f"{kind}/{store}"]
            root = fresh(store)
            found = play(kind, root, seed, line)
            line.findings += found
            if found:
                pulse.clear()
                print(
                    f"FINDING {'; '.join(found)}\n    repeat with: python -m omnigraph.testing soak {kind}/{store}/{seed}",
                    flush=True,
                )
            pulse.beat(f"{kind}/{store}", findings_of(ledger))
            if store == "local":
                shutil.rmtree(root, ignore_errors=True)
    seconds = time.monotonic() - started
    print_ledger(ledger, chosen.seed, seconds)
    if chosen.json is not None:
        body = {"seed": chosen.seed, "seconds": seconds, "lines": {name: vars(line) for name, line in ledger.items()}}
        chosen.json.write_text(json.dumps(body, indent=2, sort_keys=True) + "\n")
    return pulse.exit_code(findings_of(ledger))
