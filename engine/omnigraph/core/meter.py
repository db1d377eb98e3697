"""Accounting of storage requests. Owns the counters and their names; sends no request and knows no store.

A ``Meter`` belongs to one operation and is passed down to whatever talks to storage. Hops are the serial steps of the
protocol, counted where their order is known: requests side by side are one hop.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from omnigraph.core.shown import Shown

DATA: Final = "data"
VERSIONS: Final = "versions"
MANIFEST: Final = "manifest"
INTENT: Final = "intent"
BOUNDARY: Final = "boundary"
SCHEMA: Final = "schema"
INDEX: Final = "index"
OTHER: Final = "other"

# Every request has exactly one class, so that the classes add up to the total.
REQUEST_CLASSES: Final = (DATA, VERSIONS, MANIFEST, INTENT, BOUNDARY, SCHEMA, INDEX, OTHER)


@dataclass(frozen=True, slots=True)
class StorageCost(Shown):
    """What an operation asked of storage. ``exact`` is false if others may have been counted with it; ``shared_by``: so many
    commits share the cost."""

    requests: int = 0
    hops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    by_class: dict[str, int] = field(default_factory=dict)
    exact: bool = True
    shared_by: int = 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "hops": self.hops,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "by_class": dict(self.by_class),
            "exact": self.exact,
            "shared_by": self.shared_by,
        }

    def __add__(self, other: StorageCost) -> StorageCost:
        return StorageCost(
            requests=self.requests + other.requests,
            hops=self.hops + other.hops,
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
            by_class=_sum_classes((self.by_class, other.by_class)),
            exact=self.exact and other.exact,
        )


def _sum_classes(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, n in part.items():
            total[name] = total.get(name, 0) + n
    return {name: total[name] for name in REQUEST_CLASSES if total.get(name)}


class Traffic(Protocol):
    """What a counter has seen, as Lance says it."""

    @property
    def read_iops(self) -> int: ...
    @property
    def write_iops(self) -> int: ...
    @property
    def read_bytes(self) -> int: ...
    @property
    def written_bytes(self) -> int: ...


Drain = Callable[[], Traffic]
"""What a counter has seen since it was last asked. A ``RuntimeError`` says that it cannot be asked now (Lance lends out a
handle that it changes to no second caller): it is asked again by the next section that shares it."""


class Section:
    """A stretch of one operation whose requests another component counts, entered once. ``drain`` may be set late, once there
    is one."""

    __slots__ = ("_meter", "drain", "exactly", "request_class")

    def __init__(self, meter: Meter, request_class: str, drain: Drain | None, exactly: int | None) -> None:
        self._meter = meter
        self.request_class = request_class
        self.drain = drain
        self.exactly = exactly

    def __enter__(self) -> Section:
        meter = self._meter
        with meter._lock:
            if meter._open:
                meter._settle(None)
            elif self.drain is not None:
                with contextlib.suppress(RuntimeError):
                    self.drain()  # what came before belongs to no section; beside other sections it is theirs
            if self.exactly is not None:
                meter._by_class[self.request_class] += self.exactly
                meter._owed += self.exactly
            meter._open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        meter = self._meter
        with meter._lock:
            meter._settle(self)
            meter._open.remove(self)
            if not meter._open:
                meter._owed, meter._last = 0, None


_watched: ContextVar[list[Meter] | None] = ContextVar("omnigraph-meters", default=None)


@contextlib.contextmanager
def watching(made: list[Meter]) -> Iterator[None]:
    """Every meter that is made within the block is put on the list as well."""
    token = _watched.set(made)
    try:
        yield
    finally:
        _watched.reset(token)


class Meter:
    """Counts of one operation. May be shared by its threads."""

    def __init__(self) -> None:
        made = _watched.get()
        if made is not None:
            made.append(self)
        self._lock = threading.Lock()
        self._by_class = dict.fromkeys(REQUEST_CLASSES, 0)
        self._hops = 0
        self._bytes_read = 0
        self._bytes_written = 0
        self._exact = True
        self._open: list[Section] = []
        self._owed = 0  # requests of sections that know their number, counted but not seen by a counter yet
        self._last: str | None = None

    def count(self, request_class: str, n: int = 1, bytes_read: int = 0, bytes_written: int = 0) -> None:
        """``n`` requests of a class, with the bodies they moved."""
        with self._lock:
            self._by_class[request_class] += n  # an unknown class is a KeyError: it would be missing from the total
            self._bytes_read += bytes_read
            self._bytes_written += bytes_written

    def section(self, request_class: str, drain: Drain | None, exactly: int | None = None) -> Section:
        """Requests that a counter sees while this lasts belong to the class.

        Sections of one operation may overlap and share a counter: nothing is counted twice. Where their classes differ,
        one that knows its number (``exactly``) takes it, and the rest is the other's; between two that do not know, what
        is seen goes to the one that ends next.
        """
        return Section(self, request_class, drain, exactly)

    def _settle(self, leaving: Section | None) -> None:
        """Give out what the counters have seen since the last look."""
        requests = 0
        for section in self._open:
            if section.drain is not None:
                try:
                    seen = section.drain()
                except RuntimeError:
                    continue
                requests += seen.read_iops + seen.write_iops
                self._bytes_read += seen.read_bytes
                self._bytes_written += seen.written_bytes
        paid = min(self._owed, requests)
        self._owed -= paid
        unsure = [section.request_class for section in self._open if section.exactly is None]
        if leaving is not None and leaving.exactly is None:
            unsure.append(leaving.request_class)
        if unsure:
            self._last = unsure[-1]
        if requests > paid:
            owner = self._last or (leaving or self._open[-1]).request_class
            self._by_class[owner] += requests - paid

    def step(self, n: int = 1) -> None:
        """One more serial hop: something waited for the answer of what went before."""
        with self._lock:
            self._hops += n

    def inexact(self) -> None:
        """Say that something else may have been counted here, or something missed."""
        with self._lock:
            self._exact = False

    def add(self, cost: StorageCost) -> None:
        """Take over what was counted elsewhere, hops included."""
        with self._lock:
            for name, n in cost.by_class.items():
                self._by_class[name] += n
            self._hops += cost.hops
            self._bytes_read += cost.bytes_read
            self._bytes_written += cost.bytes_written
            self._exact = self._exact and cost.exact

    def snapshot(self) -> StorageCost:
        """The counts so far."""
        with self._lock:
            by_class = {name: n for name, n in self._by_class.items() if n}
            return StorageCost(
                requests=sum(by_class.values()),
                hops=self._hops,
                bytes_read=self._bytes_read,
                bytes_written=self._bytes_written,
                by_class=by_class,
                exact=self._exact,
            )
