"""All cuts of one recorded operation, each with every image that it may leave, judged."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.content import Content, content_of, stays_put
from omnigraph.testing.operations import create, opened
from omnigraph.testing.powercut.disk import IMAGES, MIXED, Disk, Image, read_folder, write_image
from omnigraph.testing.powercut.judge import Said, Sides, judge
from omnigraph.testing.powercut.record import Event, NotUnderstood, record
from omnigraph.testing.powercut.workload import ROWS, environment

GRAPH = "graph"
NAMES = (*ROWS, *OPERATIONS)
_SILENT = ("sync-begins", "sync-all-begins")


@dataclass(frozen=True)
class Cell:
    """All cuts of one operation that leave one kind of image: ``append/2/default/torn``."""

    operation: str
    width: int
    how: str
    image: str

    def __str__(self) -> str:
        return f"{self.operation}/{self.width}/{self.how}/{self.image}"

    @staticmethod
    def parse(text: str) -> Cell:
        operation, width, how, image = text.split("/")
        if operation not in NAMES or image not in IMAGES:
            raise ValueError(f"not a cell: {text}")
        return Cell(operation, int(width), how, image)


@dataclass(frozen=True)
class Recording:
    """One run: the folder it began with, what it did, what it acknowledged, and the content on both sides. ``between``: the content with
    the write of the operation's rival alone, if it has one. ``place``: the folder of the run, where its images have to lie, or None where
    they can be read anywhere."""

    start: str
    place: str | None
    events: tuple[Event, ...]
    before: Content | None
    after: Content | None
    between: Content | None
    never_synced: int
    files: int


@dataclass
class Result:
    """What became of one cell. ``findings``: what was found, and after how many cuts."""

    cell: Cell
    cuts: int = 0
    judged: int = 0
    bad_cuts: int = 0
    never_synced: int = 0
    files: int = 0
    findings: Counter[str] = field(default_factory=Counter)


class PowerCuts:
    """Records each operation once and judges its cuts, in a folder of its own."""

    def __init__(self, scratch: Path | None = None) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="powercut-", dir=scratch))
        self._recordings: dict[tuple[str, int, str], Recording] = {}
        self._serial = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, cell: Cell, *, every: int = 1, seed: int = 0) -> Result:
        """Judge every cut, or one of ``every``, beginning with the last."""
        taken = self._recording(cell.operation, cell.width, cell.how)
        result = Result(cell, never_synced=taken.never_synced, files=taken.files)
        rng = random.Random(f"{seed}/{cell}")
        known: dict[bytes, list[str]] = {}
        for number, (said, disk) in enumerate(self._cuts(taken)):
            if (len(taken.events) - number) % every and number + 1 < len(taken.events):
                continue
            for image in [disk.after_cut(cell.image, rng) for _ in range(3 if cell.image == MIXED else 1)]:
                result.cuts += 1
                digest = _digest(image, said)
                if digest not in known:
                    known[digest] = self._judged(cell, taken, image, said)
                    result.judged += 1
                result.findings.update(set(map(_kind_of, known[digest])))
                result.bad_cuts += bool(known[digest])
        return result

    # --- recording ----------------------------------------------------------------------------------------------------

    def _recording(self, name: str, width: int, how: str) -> Recording:
        key = (name, width, how)
        if key not in self._recordings:
            self._recordings[key] = self._record(name, width, how)
        return self._recordings[key]

    def _record(self, name: str, width: int, how: str) -> Recording:
        start, base = self._folder(), self._folder()
        os.mkdir(base)
        root = os.path.join(base, GRAPH)
        held_by = content_of if name in ROWS else OPERATIONS[name].content_of
        if name in ROWS:
            create(root, width)
        else:
            OPERATIONS[name].prepare(root, width)
        with opened(root) as engine:
            before = held_by(engine)
        shutil.copytree(base, start)
        disk = Disk(base)
        marks = self._folder()
        command = [sys.executable, "-m", "omnigraph.testing.powercut.workload", marks, name, str(width), root, how]
        events = tuple(record(command, base, marks, environment(how)))
        for event in events:
            disk.apply(event)
        different = _differences(disk.now(), read_folder(base))
        if different:
            raise NotUnderstood(f"the replay of {name} is not what the run has left: {different[:5]}")
        with opened(root) as engine:
            after = held_by(engine)
        never, files = disk.never_synced()
        place = base if stays_put(root) else None
        return Recording(start, place, events, before, after, self._between(name, width), never, files)

    def _between(self, name: str, width: int) -> Content | None:
        """The content with the write of the rival alone; None for an operation that has none."""
        if name in ROWS or (rival := OPERATIONS[name].rival) is None:
            return None
        folder = self._folder()
        os.mkdir(folder)
        root = os.path.join(folder, GRAPH)
        OPERATIONS[name].prepare(root, width)
        rival(root)
        with opened(root) as engine:
            return OPERATIONS[name].content_of(engine)

    def _cuts(self, taken: Recording) -> Iterator[tuple[Said, Disk]]:
        """The disk after each call, and what was acknowledged until then."""
        disk = Disk(taken.start)
        said: list[tuple[Any, ...]] = []
        for event in taken.events:
            disk.apply(event)
            if event.kind == "mark":
                said += [tuple(json.loads(line)) for line in event.data.splitlines()]
            yield tuple(said), disk

    # --- judging ------------------------------------------------------------------------------------------------------

    def _judged(self, cell: Cell, taken: Recording, image: Image, said: Said) -> list[str]:
        folder = taken.place or self._folder()
        shutil.rmtree(folder, ignore_errors=True)
        write_image(image, folder)
        try:
            root = os.path.join(folder, GRAPH)
            return judge(cell.operation, cell.width, root, Sides(taken.before, taken.after, taken.between), said)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _folder(self) -> str:
        self._serial += 1
        return str(self._scratch / f"f{self._serial}")


def _digest(image: Image, said: Said) -> bytes:
    return hashlib.blake2b(repr((sorted(image.items()), said)).encode(), digest_size=16).digest()


def _differences(one: Image, other: Image) -> Sequence[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path, 0) != other.get(path, 0))


def _kind_of(finding: str) -> str:
    """A finding without the names that are minted anew for every image."""
    return " ".join(word for word in finding.split() if not any(letter.isdigit() for letter in word))[:160]
