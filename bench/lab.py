"""Where the figures at the wire are taken: an emulated store, a proxy in front of it, and copies of histories on it.

Owns the processes and the folder, and ends them. Every world has a bucket of its own: the emulator's listings cost what
the whole bucket holds.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from bench.graphs import PEOPLE, History, World, upload
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import FaultProxyProcess


class Lab:
    """Use as a context manager. The environment of this process points at the proxy while it lasts."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
        self._emulator = S3Emulator()
        self.proxy = FaultProxyProcess(self._emulator.endpoint)
        self._before = {name: os.environ.get(name) for name in environment("")}
        self._serial = itertools.count(1)
        self._kept: dict[tuple[int, int], tuple[Path, tuple[str, ...]]] = {}
        os.environ.update(environment(self.proxy.endpoint))

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.proxy.stop()
        self._emulator.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def worlds(self, tables: int, depths: Sequence[int]) -> list[World]:
        """One history at each of these depths, copied for the caller alone. The history itself is made once."""
        absent = [depth for depth in sorted(depths) if (tables, depth) not in self._kept]
        if absent:
            with self.history(tables=tables) as history:
                for depth in absent:
                    history.grow_to(depth)
                    folder = self._folder / f"kept-{tables}-{depth}"
                    shutil.copytree(history.root, folder)
                    self._kept[tables, depth] = folder, tuple(history.commit_ids)
        found = []
        for depth in depths:
            folder, commit_ids = self._kept[tables, depth]
            found.append(self._copy(folder, depth, tables, commit_ids))
        return found

    @contextmanager
    def history(
        self, *, tables: int, people: int = PEOPLE, constrained: bool = False, indexed: bool = True
    ) -> Iterator[History]:
        root = self._folder / f"history-{next(self._serial)}"
        history = History(root, tables=tables, people=people, constrained=constrained, indexed=indexed)
        try:
            yield history
        finally:
            history.close()
            shutil.rmtree(root, ignore_errors=True)

    def copy(self, history: History) -> World:
        return self._copy(history.root, history.depth, history.tables, tuple(history.commit_ids))

    def _copy(self, root: Path, depth: int, tables: int, commit_ids: tuple[str, ...]) -> World:
        bucket = f"bench-{next(self._serial):03d}"
        self._emulator.create_bucket(bucket)
        uri = f"s3://{bucket}/graph"
        return World(uri, depth, tables, commit_ids, upload(root, uri, self._emulator.endpoint))
