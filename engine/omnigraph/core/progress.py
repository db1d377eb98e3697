"""How far an operation has come, reported to listeners while it runs.

Owns the events, how often they are sent, and how a phase is found from below without being handed down. It counts what it
is given and decides nothing: without a listener nothing is counted, and a listener that fails is not asked again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.shown import Shown

# A listener redraws or writes; more often than this cannot be read, and a load of small batches would pay for it.
INTERVAL_S: Final = 0.1

T = TypeVar("T")

_log = logging.getLogger("omnigraph.progress")
# A library says nothing by itself: records go where the program sends them.
logging.getLogger("omnigraph").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Progress(Shown):
    """Where one phase of an operation stands. ``done`` and ``total`` count ``unit``s; a total may not be known."""

    operation: str  # load, export, optimize, …
    phase: str  # reading, checking, writing, publishing, …
    unit: str  # rows, tables, versions
    done: int
    total: int | None
    bytes: int
    bytes_total: int | None
    subject: str | None  # the table or the file that it is at
    elapsed_s: float
    state: str  # running, done, failed

    @property
    def fraction(self) -> float | None:
        """From 0 to 1, by bytes or else by units; None where neither total is known."""
        for done, total in ((self.bytes, self.bytes_total), (self.done, self.total)):
            if total is not None:
                return min(1.0, done / total) if total else 1.0
        return None

    @property
    def rate(self) -> float:
        """Units a second since the phase began."""
        return self.done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """At the pace so far; None where that cannot be said."""
        part = self.fraction
        if part is None or not part or self.elapsed_s <= 0:
            return None
        return self.elapsed_s * (1 - part) / part

    def to_dict(self) -> dict[str, Any]:
        part, remaining = self.fraction, self.remaining_s
        return {
            "operation": self.operation,
            "phase": self.phase,
            "state": self.state,
            "unit": self.unit,
            "done": self.done,
            "total": self.total,
            "bytes": self.bytes,
            "bytes_total": self.bytes_total,
            "subject": self.subject,
            "elapsed_s": round(self.elapsed_s, 3),
            "fraction": None if part is None else round(part, 4),
            "rate": round(self.rate, 1),
            "remaining_s": None if remaining is None else round(remaining, 1),
        }


Listener = Callable[[Progress], object]


class _Audience:
    """One listener. Events come to it one at a time, whichever threads they are from."""

    def __init__(self, listener: Listener, clock: Clock, interval_s: float) -> None:
        self.clock = clock
        self.interval_s = interval_s
        self._listener: Listener | None = listener
        self._lock = threading.Lock()

    def tell(self, event: Progress) -> None:
        with self._lock:
            if self._listener is None:
                return
            try:
                self._listener(event)
            except Exception:  # noqa: BLE001 - the caller's code, reported in the log
                # A write may be half-way: it must not fail because of who watches it.
                self._listener = None
                _log.exception("the progress listener failed; it is not called again")


class _Phase:
    """Counts of one phase. Shared by the threads that work on it."""

    def __init__(
        self, audience: _Audience, operation: str, name: str, unit: str, total: int | None, bytes_total: int | None
    ) -> None:
        self._audience = audience
        self._operation = operation
        self._name = name
        self._unit = unit
        self._total = total
        self._bytes_total = bytes_total
        self._done = 0
        self._bytes = 0
        self._subject: str | None = None
        self._lock = threading.Lock()
        self._started = self._told = audience.clock.monotonic()
        audience.tell(self._event(self._started, "running"))

    def add(self, n: int, bytes_: int, subject: str | None) -> None:
        with self._lock:
            self._done += n
            self._bytes += bytes_
            if subject is not None:
                self._subject = subject
            now = self._audience.clock.monotonic()
            if now - self._told < self._audience.interval_s:
                return
            self._told = now
            event = self._event(now, "running")
        self._audience.tell(event)

    def expect(self, total: int | None, bytes_total: int | None) -> None:
        with self._lock:
            if total is not None:
                self._total = (self._total or 0) + total
            if bytes_total is not None:
                self._bytes_total = (self._bytes_total or 0) + bytes_total

    def end(self, state: str) -> None:
        with self._lock:
            event = self._event(self._audience.clock.monotonic(), state)
        self._audience.tell(event)

    def _event(self, now: float, state: str) -> Progress:
        return Progress(
            self._operation,
            self._name,
            self._unit,
            self._done,
            self._total,
            self._bytes,
            self._bytes_total,
            self._subject,
            now - self._started,
            state,
        )


_audience: ContextVar[_Audience | None] = ContextVar("omnigraph-progress-audience", default=None)
_operation: ContextVar[str] = ContextVar("omnigraph-progress-operation", default="")
_phase: ContextVar[_Phase | None] = ContextVar("omnigraph-progress-phase", default=None)


@contextlib.contextmanager
def listen(listener: Listener | None, *, clock: Clock | None = None, interval_s: float = INTERVAL_S) -> Iterator[None]:
    """Tell ``listener`` of everything that this thread starts within the block. None changes nothing."""
    if listener is None:
        yield
        return
    token = _audience.set(_Audience(listener, clock or SYSTEM_CLOCK, interval_s))
    try:
        yield
    finally:
        _audience.reset(token)


@contextlib.contextmanager
def named(operation: str) -> Iterator[None]:
    """Phases within the block belong to the operation; one inside another keeps the outer name."""
    if _operation.get():
        yield
        return
    token = _operation.set(operation)
    try:
        yield
    finally:
        _operation.reset(token)


def listening() -> bool:
    """Whether anybody would be told: for what costs something to find out."""
    return _audience.get() is not None


@contextlib.contextmanager
def phase(name: str, *, unit: str = "rows", total: int | None = None, bytes_total: int | None = None) -> Iterator[None]:
    """A stretch of the operation. ``advance`` from anywhere below, in threads of the engine too, counts for it."""
    audience = _audience.get()
    if audience is None:
        yield
        return
    begun = _Phase(audience, _operation.get(), name, unit, total, bytes_total)
    token = _phase.set(begun)
    state = "failed"
    try:
        yield
        state = "done"
    finally:
        _phase.reset(token)
        begun.end(state)


def advance(n: int = 1, *, bytes: int = 0, subject: str | None = None) -> None:
    """So much more of the present phase is done."""
    current = _phase.get()
    if current is not None:
        current.add(n, bytes, subject)


def counter() -> Callable[[int, int], None]:
    """``advance`` by (units, bytes) for code that others call from threads of their own: bound to the phase of now."""
    current = _phase.get()
    if current is None:
        return lambda n, bytes_: None
    return lambda n, bytes_: current.add(n, bytes_, None)


def carried(items: Iterator[T]) -> Iterator[T]:
    """The same items, each made as part of the operation of now, whichever thread draws them."""
    context = copy_context()
    end = object()
    while (item := context.run(next, items, end)) is not end:
        yield item  # type: ignore[misc]  # not the end


def expect(total: int | None = None, *, bytes: int | None = None) -> None:
    """So much more is to come in the present phase than was known."""
    current = _phase.get()
    if current is not None:
        current.expect(total, bytes)
