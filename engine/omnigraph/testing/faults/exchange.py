"""The log of a proxy: one line a request, and what can be told from the lines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.testing.faults.classify import CLASSES


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a client. Times are of one monotonic clock; ``status`` 0 means that it got no answer."""

    seq: int
    method: str
    operation: str
    bucket: str
    key: str
    cls: str
    mutating: bool
    ordinal: int  # the how-manieth mutating request since the log was reset; 0 for a reading one
    size_in: int
    size_out: int
    status: int
    started_s: float
    ended_s: float
    upstream_s: float  # the store's own time, injected latency and waiting for a slot left out
    fault: str  # "" when nothing was done to it

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def counts(log: Iterable[Exchange]) -> dict[str, int]:
    """Requests by class, every class named, and their total."""
    seen = Counter(line.cls for line in log)
    return {**{cls: seen[cls] for cls in CLASSES}, "total": seen.total()}


def operations(log: Iterable[Exchange]) -> dict[str, int]:
    """Requests by class and operation: ``{"manifest put": 2}``. What a golden file of costs holds."""
    return dict(sorted(Counter(f"{line.cls} {line.operation}" for line in log).items()))


def hops(log: Iterable[Exchange]) -> int:
    """Serial steps: the longest chain of requests of which each began after the one before it had ended."""
    steps, last_end = 0, float("-inf")
    for line in sorted(log, key=lambda line: line.ended_s):
        if line.started_s >= last_end:
            steps, last_end = steps + 1, line.ended_s
    return steps


def service_s(log: Iterable[Exchange]) -> float:
    """The store's own time, added up over all requests."""
    return sum(line.upstream_s for line in log)


def serial_service_s(log: Iterable[Exchange]) -> float:
    """The store's own time while it was the only thing that could be waited for: overlapping requests count once."""
    busy, frontier = 0.0, float("-inf")
    for line in sorted(log, key=lambda line: line.ended_s - line.upstream_s):
        begin = max(line.ended_s - line.upstream_s, frontier)
        busy += max(0.0, line.ended_s - begin)
        frontier = max(frontier, line.ended_s)
    return busy
