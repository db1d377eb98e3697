"""Which operations this process is executing. An intent of ours that is not among them has no owner any more."""

from __future__ import annotations

import threading

_lock = threading.Lock()
_live: set[str] = set()


def begin(op: str) -> None:
    with _lock:
        _live.add(op)


def end(op: str) -> None:
    with _lock:
        _live.discard(op)


def has(op: str) -> bool:
    with _lock:
        return op in _live
