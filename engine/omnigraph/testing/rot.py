"""Flip one bit of one file, again and again, and see that it is named: ``python -m omnigraph.testing rot``.

    python -m omnigraph.testing rot [--flips N] [--seconds N] [--seed N]

Each flip hits any file that the newest state names (data, blobs, deletions, indexes, version and transaction files of tables and of
the manifest), an intent or a staging record. `verify --deep` has to name that file. Each call gets a copy of the damaged graph, and has
to refuse it or never use the file: what a reader that checks finds afterwards is damage, or the rows that the call leaves of a
sound graph. Reads, row writes and merges are opened with ``verify_reads``; optimize, settle, compaction tasks and fills are not,
because they check by themselves whatever they publish. The calls run in a process of its own, whose memory is bounded by twice that
of the undamaged run, and whose time is bounded as processor time: a loaded machine makes no finding. Prints a ledger with the
longest call; exit code 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from omnigraph import graph as graphs
from omnigraph.commit.engine import MAIN
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.table.files import live_files, version_files
from omnigraph.testing.bounds import Bounds, NeverEnds, hear
from omnigraph.testing.children import Child
from omnigraph.upkeep.distribute import CompactionTask

SCHEMA: Final = """
node Person { name: String @key  age: I32? @index  photo: Blob? }
edge Knows: Person -> Person
"""
SIDE: Final = "side"
BOUNDS: Final = Bounds()
_ROWS = 60
_BLOB_BYTES: Final = (10, 80_000, 5_000_000)


def make(root: Path) -> None:
    """A graph with every kind of file: data, blobs inside and outside of them, deletions, indexes, several versions."""
    blobs = [bytes([number]) * size for number, size in enumerate(_BLOB_BYTES)]
    rows: list[Any] = [
        {"type": "Person", "data": {"name": f"p{n}", "age": n, "photo": blobs[n] if n < len(blobs) else None}}
        for n in range(_ROWS)
    ]
    rows += [{"edge": "Knows", "from": f"p{n}", "to": f"p{n + 1}"} for n in range(_ROWS // 3)]
    with graphs.init(root, SCHEMA) as graph:
        graph.load(rows, mode="append")
        graph.optimize()
        graph.load([{"type": "Person", "data": {"name": "p5", "age": 7}}], mode="merge")
        graph.mutate('query q() { delete Person where name = "p50" }')
        graph.load([{"type": "Person", "data": {"name": f"late{n}"}} for n in range(3)], mode="append")


def branch_off(root: Path) -> None:
    """Make a branch that reads most of its rows from the files of main. Its tables name these by their path, so that the graph
    is whole at this place alone."""
    with graphs.open(root) as graph:
        graph.branches.create(SIDE)
        graph.load([{"type": "Person", "data": {"name": "p9", "age": 90}}], mode="merge", branch=SIDE)


def live(root: Path) -> list[str]:
    """Every file that the newest state names, below the root, those of the manifest's newest version included."""
    with graphs.open(root, read_only=True) as graph:
        engine = graph._engine
        held = engine.latest(MAIN)
        found = [f"{layout.MANIFEST}/{path}" for path in version_files(held.handle)]
        for pin in held.state.tables.values():
            handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
            found += [f"{pin.location}/{path}" for path in live_files(handle)]
    return sorted(found)


def flip(path: Path, *, at: int, bit: int) -> None:
    """Flip one bit; a second time puts it back."""
    with open(path, "r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))


@dataclass(frozen=True)
class Report:
    """What came of a row of flips. ``kinds``: how many hit each kind of file. ``longest``: the call that took the most processor
    time, with its seconds."""

    flips: int
    kinds: dict[str, int]
    findings: tuple[str, ...]
    longest: tuple[str, float] = ("none", 0.0)


@dataclass(frozen=True)
class Judged:
    """What a child said of one graph. ``took``: processor seconds of each call."""

    findings: tuple[str, ...]
    rows: dict[str, list[dict[str, Any]]]
    memory_kib: int
    took: dict[str, float]


# --- one flip -----------------------------------------------------------------------------------------------------------


def _interrupted(root: Path) -> str:
    """Leave an intent. Return its key."""
    with graphs.open(root) as graph, failpoints.armed("publish.before_swap", "raise"):
        try:
            graph.load([{"type": "Person", "data": {"name": "never"}}], mode="append")
        except OmnigraphError as error:
            return layout.intent_key(str(error.facts["operation_id"]))
    raise AssertionError("the write was to be interrupted")


def _staged(root: Path) -> str:
    """Leave a staging record. Return its key."""
    with graphs.open(root) as graph:
        return layout.staging_key(graph.begin(tables=["Person"]).id)


@dataclass(frozen=True)
class Call:
    """``checks``: whether it checks what it publishes by itself, so that its handle needs no ``verify_reads``."""

    name: str
    run: Callable[[Graph], Any]
    checks: bool = False


def calls() -> tuple[Call, ...]:
    wider = SCHEMA.replace("photo", "size: I32 photo")
    changed = [{"type": "Person", "data": {"name": "p7", "age": 99}}]
    return (
        Call("read", lambda graph: [graph.snapshot().to_arrow(one).num_rows for one in ("Person", "Knows")]),
        Call("merge", lambda graph: graph.load(changed, mode="merge")),
        Call("branch merge", lambda graph: graph.branches.merge(SIDE)),
        Call("compact", _compact, checks=True),
        Call("optimize", lambda graph: graph.optimize(), checks=True),
        Call("settle", lambda graph: graph.optimize(branches=[SIDE], settle=True), checks=True),
        Call("fill", lambda graph: graph.schema.apply(wider, fill={"Person.size": 1}), checks=True),
    )


def _compact(graph: Graph) -> None:
    """What executors do: a task has no handle, and knows the graph by its path and the lines of its input alone."""
    tasks = [CompactionTask.from_json(task.to_json()) for task in graph.plan_compaction().tasks]
    graph.commit_compaction([task.run() for task in tasks])


def _judge(
    say: Callable[[Any], None], source: str, root: str, path: str, expected: dict[str, list[dict[str, Any]]] | None
) -> None:
    """Say what is wrong, and how much memory it took. ``source``: the damaged graph, of which each call gets a copy at ``root``.
    ``expected``: the rows; None where they are to be said."""
    found: list[str] = []
    rows: dict[str, list[dict[str, Any]]] = {}
    took: dict[str, float] = {}
    say("verify")
    _copy(source, root)
    began = time.process_time()
    if expected is not None and not _named(root, path):
        found.append(f"verify does not name {path}")
    took["verify"] = time.process_time() - began
    for call in calls():
        say(call.name)
        _copy(source, root)
        began = time.process_time()
        try:
            with graphs.open(root, verify_reads=not call.checks) as graph:
                call.run(graph)
            with graphs.open(root, read_only=True, verify_reads=True) as graph:
                rows[call.name] = _rows(graph)
        except OmnigraphError:
            continue  # it says that something is damaged; what, the command above has said
        finally:
            took[call.name] = time.process_time() - began
        if expected is not None and rows[call.name] != expected[call.name]:
            found.append(f"{call.name} published what it read from {path}")
    say(Judged(tuple(found), rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, took))


def _copy(source: str | Path, root: str | Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root)


def _named(root: str, path: str) -> bool:
    try:
        with graphs.open(root, read_only=True) as graph:
            return any(path in problem.message for problem in graph.verify(deep=True).problems)
    except OmnigraphError as error:
        return path in error.message


def _rows(graph: Graph) -> list[dict[str, Any]]:
    """Every row of both branches, blobs by their digest."""
    found: list[dict[str, Any]] = []
    for branch in (MAIN, SIDE):
        snapshot = graph.snapshot(branch)
        people = snapshot.to_arrow("Person").to_pylist()
        for row in people:
            row["photo"] = None if row["photo"] is None else hashlib.sha256(row["photo"]).hexdigest()
        found += sorted(people, key=lambda row: str(row["name"]))
        found += sorted(snapshot.to_arrow("Knows").to_pylist(), key=lambda row: str(row["id"]))
    return found


def run(
    *,
    flips: int,
    seed: int = 0,
    seconds: float = 3600.0,
    scratch: Path | None = None,
    prepare: Callable[[Path], Any] = lambda root: None,
    told: Callable[[str], None] = lambda line: None,
) -> Report:
    """Flip so many bits, one at a time. ``prepare`` is called with the graph before."""
    base = Path(tempfile.mkdtemp(prefix="rot-", dir=scratch))
    try:
        return _run(base, flips, random.Random(seed), time.monotonic() + seconds, prepare, told)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _run(
    base: Path,
    flips: int,
    rng: random.Random,
    until: float,
    prepare: Callable[[Path], Any],
    told: Callable[[str], None],
) -> Report:
    place = base / "graph"  # where every copy lies when something is done to it
    sound, pending, staged = base / "sound", base / "pending", base / "staged"
    make(place)
    branch_off(place)
    shutil.copytree(place, sound)
    by_kind: dict[str, list[str]] = {}
    for path in live(sound):
        if (sound / path).stat().st_size:
            by_kind.setdefault(_kind(path), []).append(path)
    by_kind["intent"] = [_interrupted(place)]
    shutil.copytree(place, pending)
    _copy(sound, place)
    by_kind["staging record"] = [_staged(place)]
    shutil.copytree(place, staged)
    sources = {"intent": pending, "staging record": staged}
    prepare(sound)
    whole = _undamaged(sound, place)
    longest = max(whole.took.items(), key=lambda one: one[1])
    kinds: Counter[str] = Counter()
    findings: list[str] = []
    for number in range(flips):
        if time.monotonic() > until:
            break
        kind = sorted(by_kind)[number % len(by_kind)]
        path = rng.choice(by_kind[kind])
        source = sources.get(kind, sound)
        at, bit = rng.randrange((source / path).stat().st_size), rng.randrange(8)
        flip(source / path, at=at, bit=bit)
        kinds[kind] += 1
        judged = _judged(source, place, path, whole)
        flip(source / path, at=at, bit=bit)
        longest = max((longest, *judged.took.items()), key=lambda one: one[1])
        for finding in judged.findings:
            findings.append(f"{finding} (byte {at}, bit {bit})")
            told(findings[-1])
    return Report(sum(kinds.values()), dict(kinds), tuple(findings), longest)


def _kind(path: str) -> str:
    parts = path.split("/")
    return parts[1] if parts[0] == layout.MANIFEST else "blobs" if parts[2] == "data" and len(parts) > 4 else parts[2]


def _undamaged(sound: Path, place: Path) -> Judged:
    with Child(_judge, str(sound), str(place), "", None) as child:
        _, judged = _last_heard(child)
    missed = set() if judged is None else {call.name for call in calls()} - judged.rows.keys()
    assert judged is not None and not missed, f"the calls have to end on an undamaged graph: {missed or 'all'}"
    return judged


def _judged(source: Path, place: Path, path: str, whole: Judged) -> Judged:
    with Child(_judge, str(source), str(place), path, whole.rows) as child:
        try:
            call, judged = _last_heard(child)
        except NeverEnds as error:
            child.kill()
            return Judged((str(error).format(path=path),), {}, 0, {})
    if judged is None:
        return Judged((f"the process died in {call} over {path}",), {}, 0, {})
    if judged.memory_kib <= 2 * whole.memory_kib:
        return judged
    grown = f"{path} took {judged.memory_kib} KiB of memory, {whole.memory_kib} undamaged"
    return replace(judged, findings=(*judged.findings, grown))


def _last_heard(child: Child) -> tuple[str, Judged | None]:
    """The last call that a child began, and what it said in the end. Each call has its own time."""
    call = "its start"
    while True:
        try:
            heard = hear(child, BOUNDS)
        except NeverEnds as error:
            raise NeverEnds(f"{call} over {{path}} {error}") from None
        if heard is None or isinstance(heard, Judged):
            return call, heard
        call = heard


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m omnigraph.testing rot", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    report = run(
        flips=chosen.flips, seed=chosen.seed, seconds=chosen.seconds, told=lambda line: print(line, flush=True)
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.kinds.items()))
    seconds = time.monotonic() - started
    call, cpu_s = report.longest
    print(
        f"rot: {report.flips} flips ({kinds}), {len(report.findings)} findings, {seconds:.0f} s; "
        f"longest call {call}, {cpu_s:.1f} s of processor time"
    )
    return int(bool(report.findings))
