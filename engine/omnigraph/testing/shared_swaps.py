"""Processes that share plans and swaps beside a killer, a compactor and a cleaner: ``python -m omnigraph.testing share``.

    python -m omnigraph.testing share [--processes N] [--threads N] [--calls N] [--kill-every S] [--seconds S] [--seed S]
                                      [--store local|s3|slow] [--json FILE]

A round is one graph on one kind of store: a disk, an emulated store, or the same with 20 ms for each request. Combining and offers are on,
unless OMNIGRAPH_COMMIT_COMBINE or OMNIGRAPH_COMMIT_OFFERS says 0. Every other process has one thread, which offers its input while it waits.
Some calls are wrong and have to be refused, some have a deadline that they may not keep, some have one key in all processes. In the end every
acknowledged call is there once, under its commit; one of unknown outcome as its outcome says; a refused one is not there. A ledger is
printed, also after Ctrl-C. The exit code is 1 if there is a finding, or if no process has done anything for another.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from omnigraph.core.errors import OmnigraphError
from omnigraph.options import COMBINE, OFFERS, check_commit
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import FaultProxyProcess
from omnigraph.testing.group_workload import Heard, findings, run_grouped, start
from omnigraph.testing.pulse import Pulse
from omnigraph.testing.sharing import Sharing

LOCAL, S3, SLOW = STORES = ("local", "s3", "slow")
_SLOW_S: Final = 0.02
_LIMIT_S: Final = 1800.0


@dataclass
class ShareCounts:
    """What the rounds on one kind of store came to: one line of the ledger. ``refused``: offers that a writer ahead has refused."""

    rounds: int = 0
    seconds: float = 0.0
    kills: int = 0
    acknowledged: int = 0
    unknown: int = 0
    failed: int = 0
    applied: int = 0
    refused: int = 0
    sharing: Sharing = field(default_factory=Sharing)
    findings: list[str] = field(default_factory=list)

    def add(self, told: Heard, seconds: float, found: list[str]) -> None:
        self.rounds += 1
        self.seconds += seconds
        self.kills += told.kills
        self.acknowledged += len(told.of("wrote"))
        self.unknown += len(told.of("unknown"))
        self.failed += len(told.of("failed"))
        self.applied += len(told.of("applied"))
        self.refused += len(told.of("refused"))
        self.sharing += told.sharing
        self.findings += found

    def idle(self) -> Iterator[str]:
        """What was switched on and has not happened: then the rounds say nothing about it."""
        switched = check_commit(None)
        if switched.combine and not self.sharing.helped:
            yield "no plan came along with the swap of another one"
        if switched.offers and not self.sharing.carried:
            yield "no request was carried out by another process"
        if switched.offers and not self.refused:
            yield "no offer was refused"


def play(root: str, chosen: argparse.Namespace, seed: int, line: ShareCounts) -> list[str]:
    """Play one round and return its findings."""
    began = time.monotonic()
    told = Heard()
    try:
        start(root)
        told = run_grouped(
            root,
            chosen.processes,
            chosen.threads,
            chosen.calls,
            kill_every_s=chosen.kill_every,
            limit_s=_LIMIT_S,
            seed=seed,
        )
        lasted = time.monotonic() - began
        found = findings(root, told)
    except OmnigraphError as error:
        lasted, found = time.monotonic() - began, [f"{error.code}: {error.message}"]
    line.add(told, lasted, found)
    return found


@contextlib.contextmanager
def places() -> Iterator[Callable[[str], str]]:
    """Fresh places for graphs, by kind of store. The environment says how to reach the last one."""
    folder = Path(tempfile.mkdtemp(prefix="share-"))
    serial = itertools.count(1)
    with S3Emulator() as emulator, FaultProxyProcess(emulator.endpoint) as proxy:
        proxy.slow(_SLOW_S)

        def fresh(store: str) -> str:
            name = f"share-{next(serial)}"
            if store == LOCAL:
                return str(folder / name)
            emulator.create_bucket(name)
            proxy.reset()
            os.environ.update(environment(proxy.endpoint if store == SLOW else emulator.endpoint))
            return f"s3://{name}/graph"

        try:
            yield fresh
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _rounds(chosen: argparse.Namespace) -> Iterator[tuple[int, str]]:
    for seed in itertools.count(chosen.seed):
        for store in chosen.store or STORES:
            yield seed, store


def print_ledger(ledger: dict[str, ShareCounts], seed: int, seconds: float) -> None:
    print(
        f"{'store':6} {'rounds':>6} {'landed':>7} {'unknown':>7} {'failed':>6} {'kills':>6} {'commits':>8} {'swaps':>6} {'applied':>7} "
        f"{'helped':>7} {'carried':>7} {'refused':>7} findings"
    )
    for name, line in sorted(ledger.items()):
        shared = line.sharing
        print(
            f"{name:6} {line.rounds:6} {line.acknowledged:7} {line.unknown:7} {line.failed:6} {line.kills:6} {shared.commits:8} "
            f"{shared.swaps:6} {line.applied:7} {shared.helped:7} {shared.carried:7} {line.refused:7} {len(line.findings)}"
        )
    rounds = sum(line.rounds for line in ledger.values())
    findings = sum(len(line.findings) for line in ledger.values())
    print(f"share: {rounds} rounds, from seed {seed}, {seconds:.0f} s, {findings} findings")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m omnigraph.testing share", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--calls", type=int, default=22)
    parser.add_argument("--kill-every", type=float, default=1.5)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    for switch in (COMBINE, OFFERS):
        os.environ.setdefault(switch, "1")
    started = time.monotonic()
    ledger: dict[str, ShareCounts] = defaultdict(ShareCounts)
    pulse = Pulse("share", "rounds", chosen.seconds)
    with places() as fresh, pulse.running():
        for seed, store in _rounds(chosen):
            if time.monotonic() - started > chosen.seconds:
                break
            root = fresh(store)
            found = play(root, chosen, seed, ledger[store])
            for one in found:
                pulse.clear()
                print(f"FINDING {store} {seed}: {one}", flush=True)
            pulse.beat(f"{store}/{seed}", sum(len(line.findings) for line in ledger.values()))
            if store == LOCAL and not found:
                shutil.rmtree(root, ignore_errors=True)
    seconds = time.monotonic() - started
    print_ledger(ledger, chosen.seed, seconds)
    idle = [f"{store}: {what}" for store, line in ledger.items() for what in line.idle()]
    for one in idle:
        print(f"share: no evidence: {one}")
    if chosen.json is not None:
        body = {"seed": chosen.seed, "seconds": seconds, "lines": {name: asdict(line) for name, line in ledger.items()}}
        chosen.json.write_text(json.dumps(body, indent=2, sort_keys=True) + "\n")
    sys.stdout.flush()
    return pulse.exit_code(sum(len(line.findings) for line in ledger.values()) + len(idle))
