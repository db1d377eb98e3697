"""Cells of the crash and fault matrices: interrupt one write at one place, recover, and judge what is left.

A cell is named by a short text that reproduces it (``append/2/s3/7/answer``). Judging looks at durable state only, with
clients that go straight to the store.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from omnigraph.commit.recovery.outcome import LANDED, PENDING, find_outcome
from omnigraph.core import failpoints
from omnigraph.core.errors import AlreadyExists, NotFound, OmnigraphError, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.calls import Call, CallWatch, give_notice
from omnigraph.testing.children import Child
from omnigraph.testing.content import Content, faults_of, stays_put
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import ANY, CATALOGUE, MUTATING, FaultProxy, Rule, kill
from omnigraph.testing.operations import Operation, create, opened, recover
from omnigraph.testing.rest import findings_at_rest

CHILD_S = 120.0  # no write takes longer, its own deadline of 60 s and four graces included
LOCAL, S3, CALLS = STORES = ("local", "s3", "calls")  # the last is a disk, cut between calls of the operating system
LOSSES = ("request", "answer")
FULL = "full"  # from this call on there is no room on the disk, until the process has ended
FAILURES = {
    "ENOSPC": errno.ENOSPC,
    "EIO": errno.EIO,
    FULL: errno.ENOSPC,
}  # what a call of the operating system may answer
READABLE = ("before", "after", "same")  # how a graph may read; "same" where the operation preserves content
SECOND_CUTS_MAX = 60  # no recovery has so many places; a bound on what would be a defect of the matrix
SECOND_CALLS_APART = 7  # a recovery makes about a hundred; cells that differ by one meet the others


@dataclass(frozen=True)
class Cell:
    """One interruption. ``cut``: on S3 the ordinal of the request (mutating ones for a kill, all for a fault), on a local
    disk ``failpoint:hit``, between system calls the ordinal of the call. ``what``: how it was killed, or a name of the fault
    catalogue, or of a failure of the disk. ``second``: the same for the recovery that follows, as ``cut~what``."""

    operation: str
    width: int
    store: str
    cut: str
    what: str
    second: str = ""

    def __str__(self) -> str:
        return "/".join(
            part for part in (self.operation, str(self.width), self.store, self.cut, self.what, self.second) if part
        )

    @staticmethod
    def parse(text: str) -> Cell:
        operation, width, store, cut, what, *second = text.split("/")
        return Cell(operation, int(width), store, cut, what, second[0] if second else "")


@dataclass
class Verdict:
    """What became of one cell. A cell without findings is a proof of one more place."""

    cell: Cell
    ended: str = ""  # what the interrupted process said last; "killed" where it could not
    was: str = ""  # what durable state showed before recovery: before, after
    now: str = ""  # ... and after it
    second_ended: str = ""  # what the interrupted recovery said
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def reached(self) -> bool:
        """Whether the cut was met at all; a write may make fewer requests than the run that was counted."""
        return self.ended == "killed"


class Matrix:
    """Runs cells, each on a graph of its own."""

    def __init__(self, emulator: S3Emulator, scratch: Path | None = None) -> None:
        self._emulator = emulator
        self._scratch = Path(tempfile.mkdtemp(prefix="cells-", dir=scratch))
        self.proxy = FaultProxy(emulator.endpoint)
        self._serial = 0
        self._after: dict[tuple[str, int, str], Content | None] = {}
        self._between: dict[tuple[str, int, str], Content | None] = {}  # with the write of the rival alone
        self._made: dict[tuple[str, int], str] = {}
        self.counted: dict[tuple[str, int, str], int] = {}
        self.passed: dict[tuple[str, int], list[str]] = {}
        self.called: dict[tuple[str, int], list[Call]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.proxy.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # --- places -------------------------------------------------------------------------------------------------------

    def root(self, store: str) -> str:
        self._serial += 1
        if store != S3:
            return str(self._scratch / f"g{self._serial}")
        bucket = f"{self._scratch.name.replace('_', '-').lower()}-{self._serial}"
        self._emulator.create_bucket(bucket)
        return f"s3://{bucket}/graph"

    def prepare(self, operation: Operation, width: int, root: str) -> None:
        """The graph that the operation starts from. On a disk it is made once, and copied where a copy can be read."""
        if root.startswith("s3://") or operation.creates_graph:
            operation.prepare(root, width)
            return
        made = self._made.get((operation.name, width))
        if made is None:
            made = self._made[(operation.name, width)] = self.root(LOCAL)
            operation.prepare(made, width)
        if stays_put(made):
            operation.prepare(root, width)
        else:
            shutil.copytree(made, root)

    def forget(self, root: str) -> None:
        if not root.startswith("s3://"):
            shutil.rmtree(root, ignore_errors=True)

    # --- counting -----------------------------------------------------------------------------------------------------

    def learn(self, operation: Operation, width: int, store: str) -> None:
        """Run the operation undisturbed: what it makes, and how many places it can be cut at."""
        key = (operation.name, width, store)
        if key in self._after:
            return
        root = self.root(store)
        self.prepare(operation, width, root)
        self.proxy.calm()
        self.proxy.reset()
        with Child(_act, operation.name, root, width, "", True, store == CALLS, env=self.reach(store)) as child:
            if store == CALLS:
                with CallWatch(child, root) as watch:
                    said = child.hear_all(CHILD_S)
                self.called[(operation.name, width)] = watch.calls
            else:
                said = child.hear_all(CHILD_S)
        ended = [line for line in said if line[0] != "passed"]
        if not ended or ended[-1][0] != "done":
            raise AssertionError(f"{operation.name} does not work undisturbed: {said}")
        self.passed[(operation.name, width)] = next(line[1] for line in said if line[0] == "passed")
        self.counted[(operation.name, width, "mutating")] = self.proxy.mutations
        self.counted[(operation.name, width, "all")] = len(self.proxy.log)
        with opened(root) as engine:
            self._after[key] = operation.content_of(engine)
            problems = faults_of(engine)
        if problems:
            raise AssertionError(f"{operation.name} does not work undisturbed: {problems}")
        self.forget(root)
        if operation.rival is not None:
            root = self.root(LOCAL)
            self.prepare(operation, width, root)
            operation.rival(root)
            with opened(root) as engine:
                self._between[key] = operation.content_of(engine)
            self.forget(root)

    def after(self, cell: Cell) -> Content | None:
        """What the graph holds after the cell's operation alone. ``learn`` comes first."""
        return self._after[(cell.operation, cell.width, cell.store)]

    def between(self, cell: Cell) -> Content | None:
        """What the graph holds with the write of the operation's rival alone; None for an operation without one."""
        return self._between.get((cell.operation, cell.width, cell.store))

    def crash_cells(self, name: str, width: int, store: str) -> Iterator[Cell]:
        self.learn(OPERATIONS[name], width, store)
        if store == LOCAL:
            for place in self.passed[(name, width)]:
                yield Cell(name, width, store, place, "kill")
        elif store == CALLS:
            for ordinal, call in enumerate(self.called[(name, width)], 1):
                if call.changes:
                    yield Cell(name, width, store, str(ordinal), "kill")
        else:
            for ordinal in range(1, self.counted[(name, width, "mutating")] + 1):
                for loss in LOSSES:
                    yield Cell(name, width, store, str(ordinal), loss)

    def fault_cells(self, name: str, width: int, kinds: tuple[str, ...] = tuple(CATALOGUE)) -> Iterator[Cell]:
        self.learn(OPERATIONS[name], width, S3)
        for ordinal in range(1, self.counted[(name, width, "all")] + 1):
            for kind in kinds:
                yield Cell(name, width, S3, str(ordinal), kind)

    def raise_cells(self, name: str, width: int) -> Iterator[Cell]:
        """A local disk: every failpoint raises once and the process lives on."""
        self.learn(OPERATIONS[name], width, LOCAL)
        for place in self.passed[(name, width)]:
            yield Cell(name, width, LOCAL, place, "raise")

    def failing_calls(self, name: str, width: int, kinds: tuple[str, ...] = ("ENOSPC", "EIO")) -> Iterator[Cell]:
        """A local disk that fails: every call that may change a file. ``FULL`` is for who has time: a writer that finds no
        room for the end of its plan waits for some until its deadline."""
        self.learn(OPERATIONS[name], width, CALLS)
        for ordinal in range(1, len(self.called[(name, width)]) + 1):
            for kind in kinds:
                yield Cell(name, width, CALLS, str(ordinal), kind)

    def double(self, cell: Cell) -> Iterator[Verdict]:
        """The cell, and then its recovery killed as well: at every place that the recovery has (of calls, at every few)."""
        for what in LOSSES if cell.store == S3 else ("kill",):
            for ordinal in itertools.count(1, SECOND_CALLS_APART if cell.store == CALLS else 1):
                cut = f"*:{ordinal}" if cell.store == LOCAL else str(ordinal)
                verdict = self.run(replace(cell, second=f"{cut}~{what}"))
                yield verdict
                if verdict.second_ended != "killed" or ordinal >= SECOND_CUTS_MAX:
                    break

    # --- one cell -----------------------------------------------------------------------------------------------------

    def run(self, cell: Cell) -> Verdict:
        started = time.monotonic()
        operation = OPERATIONS[cell.operation]
        self.learn(operation, cell.width, cell.store)
        verdict = Verdict(cell)
        root = self.root(cell.store)
        try:
            self.prepare(operation, cell.width, root)
            with opened(root) as engine:
                before = operation.content_of(engine)
            after = self._after[(operation.name, cell.width, cell.store)]
            said = self._interrupt(cell, operation.name, root, cell.cut, cell.what)
            verdict.ended = said[0] if said else "killed"
            self._judge(cell, operation, root, before, after, said, verdict)
        except Exception as error:  # noqa: BLE001 - a graph that cannot be read is a finding, whatever says so
            verdict.findings.append(f"{type(error).__name__}: {error}")
        finally:
            self.proxy.calm()
            self.forget(root)
        verdict.seconds = time.monotonic() - started
        return verdict

    def _interrupt(self, cell: Cell, name: str, root: str, cut: str, what: str) -> tuple[Any, ...]:
        """Run the driver with one interruption. What it said at its end; nothing if it was killed."""
        if cell.store == CALLS:
            return self._interrupt_call(cell, name, root, int(cut), what)
        self.proxy.calm()
        self.proxy.reset()
        arming = ""
        box: list[Child] = []
        there = threading.Event()

        def on_kill() -> None:
            there.wait(CHILD_S)
            box[0].kill()

        if cell.store == LOCAL:
            arming = f"{cut}={what}"
        elif what in LOSSES:
            self.proxy.rule(Rule(kill(after=what == "answer"), MUTATING, at=int(cut)), on_kill=on_kill)
        else:
            self.proxy.rule(Rule(CATALOGUE[what], ANY, at=int(cut)))
        with Child(_act, name, root, cell.width, arming, env=self.reach(cell.store)) as child:
            box.append(child)
            there.set()
            said = child.hear_all(CHILD_S)
        self.proxy.drain()
        self.proxy.calm()
        return said[-1] if said else ()

    def _interrupt_call(self, cell: Cell, name: str, root: str, ordinal: int, what: str) -> tuple[Any, ...]:
        """The same between two calls of the operating system, or with one that fails."""
        with Child(_act, name, root, cell.width, "", False, True) as child:

            def meet() -> int | None:
                if what in FAILURES:
                    return FAILURES[what]
                os.kill(child.pid, signal.SIGKILL)
                return None

            with CallWatch(child, root, at=ordinal, act=meet, lasts=lambda call: what == FULL and call.takes_space):
                said = child.hear_all(CHILD_S)
        return said[-1] if said else ()

    def reach(self, store: str) -> dict[str, str]:
        """The environment in which a child reaches the store through the proxy."""
        return environment(self.proxy.endpoint) if store == S3 else {}

    # --- the oracle ---------------------------------------------------------------------------------------------------

    def _judge(
        self,
        cell: Cell,
        operation: Operation,
        root: str,
        before: Content | None,
        after: Content | None,
        said: tuple[Any, ...],
        verdict: Verdict,
    ) -> None:
        between = self.between(cell)

        def name_of(content: Content | None) -> str:
            if before == after == content:
                return "same"
            if content == before or (between is not None and content == between):
                return "before"
            return "after" if content == after else f"neither: {content}"

        with opened(root) as engine:
            found = operation.content_of(engine)
            verdict.was = name_of(found)
            promised = promised_by(engine, said, verdict.findings) if verdict.was in ("before", "after") else None
        if cell.second:
            cut, _, what = cell.second.partition("~")
            told = self._interrupt(cell, "recovery", root, cut, what)
            verdict.second_ended = told[0] if told else "killed"
        if not operation.creates_graph or verdict.was == "after":
            recover(root)
        with opened(root) as engine:
            left = operation.content_of(engine)
            verdict.now = name_of(left)
        if between is not None and found == between and left == before:
            verdict.findings.append("recovery took the rival's write back")
        if verdict.was not in READABLE or verdict.now not in READABLE:
            verdict.findings.append(f"half a write is visible: {verdict.was} recovery, {verdict.now} after it")
            return
        if verdict.was == "after" and verdict.now != "after":
            verdict.findings.append("recovery took a published write back")
        if promised is not None and verdict.now != promised:
            verdict.findings.append(f"the caller got {said}, and the graph reads as {verdict.now}")
        if operation.creates_graph and verdict.now == "before":
            create(root, cell.width)
        verdict.findings.extend(findings_at_rest(root, operation.leaves, cell.width))


def promised_by(engine: Any, said: tuple[Any, ...], findings: list[str]) -> str | None:
    """How the graph must read in the end, by what the caller got. None: nothing was said."""
    if not said:
        return None
    if said[0] == "done":
        if said[1] is not None and find_outcome(engine, said[1], Meter()).state != LANDED:
            findings.append(f"acknowledged commit {said[1]} has not landed")
        return "after"
    _, code, commit_id, *rest = said
    branch = rest[0] if rest else None
    if code == "failpoint":
        return None  # a defect, not an answer
    if code != "outcome-unknown":
        return "before"
    if commit_id is None and branch is not None:
        return None  # whether a branch was made or deleted, or tables forked for it, the branch tells
    if commit_id is None:
        findings.append("an unknown outcome without a commit id")
        return None
    try:
        state = find_outcome(engine, commit_id, Meter()).state
    except NotFound:
        return "before"
    if state == PENDING:
        return None
    return "after" if state == LANDED else "before"


# --- the child ----------------------------------------------------------------------------------------------------------


def _refusal(place: str) -> Exception:
    """What a store says that does not do what it is asked for; a disk that cannot sync says it in its own way."""
    if place == "store.sync":
        return OSError(errno.EIO, os.strerror(errno.EIO))
    return StoreUnavailable("the store does not answer")


def _act(say: Any, name: str, root: str, width: int, arming: str, record: bool = False, watched: bool = False) -> None:
    """Run one driver. Says which failpoints it passed, and how it ended."""
    if watched:
        give_notice()
    place, _, word = arming.partition("=")
    if word == "raise" and place.startswith("store."):
        name_, _, hit = place.partition(":")
        failpoints.arm(name_, _refusal(name_), at=int(hit))
    else:
        failpoints.arm_from(arming)
    with failpoints.recording() as passed:
        try:
            act = recover if name == "recovery" else OPERATIONS[name].act
            ended: tuple[Any, ...] = ("done", act(root, width))
        except AlreadyExists as error:
            ended = ("error", error.code, None)
        except OmnigraphError as error:
            ended = ("error", error.code, error.facts.get("commit_id"), error.facts.get("branch"))
        except failpoints.FailpointHit:
            ended = ("error", "failpoint", None)
        places = list(passed)
    if record:
        hits: dict[str, int] = {}
        said = []
        for place, _ in places:
            hits[place] = hits.get(place, 0) + 1
            said.append(f"{place}:{hits[place]}")
        say(("passed", said))
    say(ended)
