"""A power cut without a machine: what this process has synced stays, and of the rest what luck has kept."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from omnigraph.store import durability as syncing


class Power:
    """Follows every sync of this process below one folder."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._bytes: dict[int, bytes] = {}  # by inode: what was synced of a file, with or without its name
        self._kept: dict[str, bytes] = {}  # what a cut leaves, by path below the root
        self._lock = threading.Lock()
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            self._synced(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

        def syncfs(descriptor: int) -> int:
            with self._lock:
                self._kept = files(self.root)
            return 0

        patch.setattr(os, "fsync", fsync)
        patch.setattr(syncing, "_syncfs", lambda: syncfs)

    def _synced(self, path: Path) -> None:
        if not path.is_relative_to(self.root) or not path.exists():
            return
        with self._lock:
            if path.is_file():
                self._bytes[path.stat().st_ino] = path.read_bytes()
                return
            below = f"{path.relative_to(self.root)}/".removeprefix("./")
            gone = [one for one in self._kept if one.startswith(below) and "/" not in one[len(below) :]]
            for one in gone:
                del self._kept[one]
            for file in path.iterdir():
                if file.is_file() and file.stat().st_ino in self._bytes:
                    self._kept[str(file.relative_to(self.root))] = self._bytes[file.stat().st_ino]

    def cut(self, lucky: Iterable[str] = ()) -> None:
        """The power goes. ``lucky``: files that had reached the disk although nobody synced them."""
        left = dict(self._kept)
        left.update({one: (self.root / one).read_bytes() for one in lucky if (self.root / one).exists()})
        shutil.rmtree(self.root)
        for path, data in left.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(data)


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
