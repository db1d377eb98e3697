"""Processes that sleep in the middle of what they do, while others take them for dead, clear up and write on, and then go on.

On a local disk the process is stopped (SIGSTOP) at a failpoint or before a system call; on a store one of its requests, or the
answer to it, is held on the wire. A cell's ``what`` is ``sleep`` or, on a store, ``sleep-after`` for the answer. ``second`` names a place at
which the operation was killed before: then the process that sleeps is the one that recovers it.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.recovery.outcome import ABORTED, LANDED, find_outcome
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.calls import CallWatch, give_notice
from omnigraph.testing.cells import CALLS, CHILD_S, LOCAL, S3, SECOND_CALLS_APART, Cell, Matrix, Verdict
from omnigraph.testing.children import Child
from omnigraph.testing.content import Content, branches_of, content_of, faults_of
from omnigraph.testing.faults import MUTATING, Rule, hold
from omnigraph.testing.operations import append, keys_of, opened, recover
from omnigraph.upkeep.verify import GARBAGE, verify

SLEEP, SLEEP_AFTER = "sleep", "sleep-after"
WOKE_UP, NOT_REACHED = "woke up", "not reached"
OTHERS = ("other1", "other2")
# Their effect, done again after the others, takes away the others' rows too.
REPLACING = ("overwrite", "load-overwrite", "mutate-delete", "restore")
REPLACING_ON_BRANCH = ("branch-restore",)


def sleepers(matrix: Matrix, name: str, width: int, store: str) -> Iterator[Cell]:
    """Every place at which the operation can be asleep."""
    matrix.learn(OPERATIONS[name], width, store)
    if store == LOCAL:
        for place in matrix.passed[(name, width)]:
            yield Cell(name, width, store, place, SLEEP)
        return
    if store == CALLS:
        for ordinal, call in enumerate(matrix.called[(name, width)], 1):
            if call.changes:
                yield Cell(name, width, store, str(ordinal), SLEEP)
        return
    for ordinal in range(1, matrix.counted[(name, width, "mutating")] + 1):
        for what in (SLEEP, SLEEP_AFTER):
            yield Cell(name, width, store, str(ordinal), what)


def sleeping_recoverers(matrix: Matrix, name: str, width: int, store: str, killed_at: str) -> Iterator[Verdict]:
    """The operation killed at a failpoint, and its recovery asleep: at every place that the recovery has."""
    for what in (SLEEP, SLEEP_AFTER) if store == S3 else (SLEEP,):
        for ordinal in itertools.count(1, SECOND_CALLS_APART if store == CALLS else 1):
            cut = f"*:{ordinal}" if store == LOCAL else str(ordinal)
            verdict = pause(matrix, Cell(name, width, store, cut, what, killed_at))
            yield verdict
            if verdict.ended != WOKE_UP:
                break


def deaths(matrix: Matrix, name: str, width: int) -> list[str]:
    """Two places to be killed at: what is left there is to be taken back, and to be published."""
    matrix.learn(OPERATIONS[name], width, "local")
    places = matrix.passed[(name, width)]
    found = []
    for prefix in ("apply.before_commit", "maintain.after_commit", "publish.before_swap"):
        there = [place for place in places if place.startswith(prefix)]
        found.extend(there[-1:])
    return found[:2]


@dataclass(frozen=True)
class _Before:
    """What the graph held, and would hold after the operation alone, or with the write of its rival alone."""

    before: Content | None
    after: Content | None
    between: Content | None


def pause(matrix: Matrix, cell: Cell) -> Verdict:
    """Stop the process of the cell at its place, recover and write on, let it go on, and judge what is there then."""
    started = time.monotonic()
    verdict = Verdict(cell)
    operation = OPERATIONS[cell.operation]
    matrix.learn(operation, cell.width, cell.store)
    root = matrix.root(cell.store)
    try:
        matrix.prepare(operation, cell.width, root)
        with opened(root) as engine:
            known = _Before(operation.content_of(engine), matrix.after(cell), matrix.between(cell))
        if cell.second:
            with Child(_act, cell.operation, root, cell.width, f"{cell.second}=kill") as child:
                child.hear_all(CHILD_S)
        said = _sleep_through(matrix, cell, root, verdict)
        _judge(cell, root, known, said, verdict)
    except Exception as error:  # noqa: BLE001 - a graph that cannot be read is a finding, whatever says so
        verdict.findings.append(f"{type(error).__name__}: {error}")
    finally:
        matrix.proxy.calm()
        matrix.forget(root)
    verdict.seconds = time.monotonic() - started
    return verdict


# --- sleeping -----------------------------------------------------------------------------------------------------------


def _sleep_through(matrix: Matrix, cell: Cell, root: str, verdict: Verdict) -> tuple[Any, ...]:
    """What the sleeper said in the end."""
    name = "recovery" if cell.second else cell.operation
    matrix.proxy.calm()
    matrix.proxy.reset()
    if cell.store == LOCAL:
        said = _stopped(cell, name, root, verdict)
    elif cell.store == CALLS:
        said = _stopped_at_call(cell, name, root, verdict)
    else:
        said = _held_back(matrix, cell, name, root, verdict)
    if not said:
        verdict.findings.append("the sleeper never answered")
    return said


def _stopped(cell: Cell, name: str, root: str, verdict: Verdict) -> tuple[Any, ...]:
    with Child(_act, name, root, cell.width, f"{cell.cut}=sleep") as child:
        first = child.hear(CHILD_S)
        if first is None or first[0] != "asleep":
            verdict.ended = NOT_REACHED
            return tuple(first or ())
        verdict.ended = WOKE_UP
        _wait_stopped(child.pid)
        _go_on_without(root, cell.width)
        child.resume()
        said = child.hear_all(CHILD_S)
    return tuple(said[-1]) if said else ()


def _stopped_at_call(cell: Cell, name: str, root: str, verdict: Verdict) -> tuple[Any, ...]:
    with Child(_act, name, root, cell.width, "", True) as child:

        def sleep() -> int:
            child.stop()
            _wait_stopped(child.pid)
            _go_on_without(root, cell.width)
            child.resume()
            return 0

        with CallWatch(child, root, at=int(cell.cut), act=sleep) as watch:
            said = child.hear_all(CHILD_S)
    verdict.ended = WOKE_UP if watch.reached else NOT_REACHED
    return tuple(said[-1]) if said else ()


def _held_back(matrix: Matrix, cell: Cell, name: str, root: str, verdict: Verdict) -> tuple[Any, ...]:
    held = matrix.proxy.rule(Rule(hold(after=cell.what == SLEEP_AFTER), MUTATING, at=int(cell.cut)))
    heard: list[Any] = []
    done = threading.Event()

    def listen() -> None:
        try:
            heard.extend(child.hear_all(CHILD_S))
        finally:
            done.set()

    with Child(_act, name, root, cell.width, "", env=matrix.reach(S3)) as child:
        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        while not held.fired and not done.wait(0.01):
            continue
        if held.fired:
            verdict.ended = WOKE_UP
            _go_on_without(root, cell.width)
        else:
            verdict.ended = NOT_REACHED
        held.release()
        listener.join(CHILD_S)
    return tuple(heard[-1]) if heard else ()


def _go_on_without(root: str, width: int) -> None:
    """Others take the sleeper for dead, and write into its tables, those of branches too."""
    recover(root)
    with opened(root) as engine:
        there = branches_of(engine)
        for name in OTHERS:
            append(engine, _written(engine.latest(MAIN), width), [name], actor="other")
            for branch, held in there.items():
                append(engine, _written(held, width), [name], actor="other", branch=branch)


def _written(held: Held, width: int) -> list[str]:
    return [key for key in keys_of(width) if key in held.state.tables]


def _wait_stopped(pid: int) -> None:
    """A stop is asynchronous: until the kernel says so, the process may still be at it."""
    end = time.monotonic() + CHILD_S
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        if time.monotonic() > end:
            raise TimeoutError(f"process {pid} did not stop")
        os.sched_yield()


# --- judging ------------------------------------------------------------------------------------------------------------


def _judge(cell: Cell, root: str, known: _Before, said: tuple[Any, ...], verdict: Verdict) -> None:
    recover(root)
    with opened(root) as engine:
        now, every = OPERATIONS[cell.operation].content_of(engine), content_of(engine)
        keys = _written(engine.latest(MAIN), cell.width)
        kept = [f"{name} {key}" for name in _kept_branches(engine) for key in keys]
        promised = _promised(engine, said, verdict)
    mine = _without_others(now)
    if mine == known.before == known.after:
        verdict.now = "same"
    elif mine == known.before or (known.between is not None and mine == known.between):
        verdict.now = "before"
    elif mine == known.after:
        verdict.now = "after"
    else:
        verdict.findings.append(f"the sleeper's effect is there in part, twice, or beside another's: {now}")
    if promised is not None and verdict.now not in (promised, "same"):
        verdict.findings.append(f"the sleeper got {said}, and the graph reads as {verdict.now}")
    if verdict.ended == WOKE_UP:
        verdict.findings.extend(_others_missing(every, keys, cell.operation in REPLACING and verdict.now == "after"))
        replaced = cell.operation in REPLACING_ON_BRANCH and verdict.now == "after"
        verdict.findings.extend(_others_missing(every, kept, replaced))
    with opened(root) as engine:
        verdict.findings.extend(faults_of(engine))
        verdict.findings.extend(p.message for p in verify(engine).problems if p.severity != GARBAGE)
        version = engine.latest(MAIN).version
        append(engine, keys, ["next"])
        if engine.latest(MAIN).version != version + 1:
            verdict.findings.append("the next write had to work around something")


def _promised(engine: Engine, said: tuple[Any, ...], verdict: Verdict) -> str | None:
    """How the graph must read by the answer that the sleeper got; None where that says nothing about content."""
    if not said or said[0] == "recovered":
        return None
    kind, code, commit_id = said
    if kind == "broken":
        verdict.findings.append(f"the sleeper broke: {code}")
        return None
    if kind == "done":
        if commit_id is not None and find_outcome(engine, commit_id, Meter()).state != LANDED:
            verdict.findings.append(f"acknowledged commit {commit_id} has not landed")
        return "after"
    if code != "outcome-unknown":
        return "before"
    state = find_outcome(engine, commit_id, Meter()).state if commit_id is not None else None
    return {LANDED: "after", ABORTED: "before"}.get(state or "")


def _kept_branches(engine: Engine) -> list[str]:
    """The branches that others have written to, and that are still the same."""
    found = []
    for name, held in branches_of(engine).items():
        if any(isinstance(row, CommitRow) and row.actor == "other" for row in engine.history.rows(held)):
            found.append(name)
    return found


def _others_missing(now: Content | None, keys: list[str], replaced: bool) -> list[str]:
    found = []
    for key in keys:
        names = [dict(row)["name"] for row in (now.tables.get(key, ()) if now is not None else ())]
        times = {names.count(name) for name in OTHERS}
        if times != {1} and not (replaced and times == {0}):
            found.append(f"{key}: rows of others are not there once: {times}")
    return found


def _without_others(content: Content | None) -> Content | None:
    if content is None:
        return None
    return Content(
        {key: tuple(row for row in rows if dict(row).get("name") not in OTHERS) for key, rows in content.tables.items()}
    )


# --- the child ----------------------------------------------------------------------------------------------------------


def _act(say: Any, name: str, root: str, width: int, arming: str, watched: bool = False) -> None:
    """Run the driver; at the place given it says so and stops itself."""
    if watched:
        give_notice()
    place, _, word = arming.partition("=")
    if word == "sleep":
        point, _, hit = place.partition(":")

        def sleep(**_: object) -> None:
            say(("asleep", place))
            os.kill(os.getpid(), signal.SIGSTOP)

        failpoints.arm(point, sleep, at=int(hit))
    else:
        failpoints.arm_from(arming)
    try:
        if name == "recovery":
            recover(root, width)
            say(("recovered", None, None))
        else:
            say(("done", None, OPERATIONS[name].act(root, width)))
    except OmnigraphError as error:
        say(("error", error.code, error.facts.get("commit_id")))
    except Exception as error:
        say(("broken", type(error).__name__, None))
        raise
