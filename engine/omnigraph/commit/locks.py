"""Locks between the threads of one open graph. They spare work inside a process; safety never rests on one."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.plan import BranchName

Branch = str | BranchName


class FairLock:
    """A lock that is given to those who wait for it in the order in which they came."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout_s: float) -> bool:
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        try:
            if gate.acquire(timeout=timeout_s):
                return True
        except BaseException:
            self._leave(gate)
            raise
        return not self._leave(gate, keep=True)

    def _leave(self, gate: threading.Lock, *, keep: bool = False) -> bool:
        """Stop waiting. False: the lock was given to this waiter meanwhile; it is passed on unless ``keep``."""
        with self._guard:
            if gate in self._waiting:
                self._waiting.remove(gate)
                return True
        if not keep:
            self.release()
        return False

    def release(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


class TableLocks:
    """A lock per (line of the manifest, table), taken in one order."""

    def __init__(self, ref_of: Callable[[Branch], str | None]) -> None:
        self._ref_of = ref_of
        self._guard = threading.Lock()
        self._locks: dict[tuple[str | None, str], FairLock] = {}

    @contextlib.contextmanager
    def holding(self, branch: Branch, keys: Iterable[str], deadline: Deadline) -> Iterator[None]:
        ref = self._ref_of(branch)
        held: list[FairLock] = []
        try:
            for key in sorted(set(keys)):
                with self._guard:
                    lock = self._locks.setdefault((ref, key), FairLock())
                if not lock.acquire(max(0.0, deadline.left())):
                    deadline.expire("waiting for another write of this process")
                held.append(lock)
            yield
        finally:
            for lock in reversed(held):
                lock.release()
