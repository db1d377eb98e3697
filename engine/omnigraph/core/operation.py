"""One logical operation, from the façade's door to its end: what it took, and telling those who count and those who read logs.

Owns what belongs to an operation as a whole: its name, how long it took, the requests of every meter made under it, what
was noted on the way (attempts, conflicts, recoveries), and how it ended. It is reported once, at the end, to ``metrics``, to
``traces`` and to the log. An operation inside another is part of it. Nothing here sends a request or changes what the operation does.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.core import metrics, progress, traces
from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.interrupts import is_interrupt
from omnigraph.core.meter import Meter, StorageCost, watching
from omnigraph.core.redact import redact_text

# Notes that anybody below may take.
ATTEMPTS: Final = "publish_attempts"
CONFLICTS: Final = "conflicts"
RECOVERIES: Final = "recoveries"

_log = logging.getLogger("omnigraph.operation")


@dataclass
class Operation:
    """One operation under way. ``facts`` are for the log: plain values, never data of the graph."""

    name: str
    uri: str
    writes: bool
    started_s: float
    meters: list[Meter] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    over: bool = False
    _reads: Meter | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reads(self) -> Meter:
        """The one meter of all rows that the operation reads: scans beside each other are then counted once."""
        with self._lock:
            if self._reads is None:
                self._reads = Meter()
                if self._reads not in self.meters:  # one that is made in the operation's context is there already
                    self.meters.append(self._reads)
            return self._reads

    def cost(self) -> StorageCost | None:
        """What all meters of the operation counted; None where there was none: then nothing was counted."""
        total: StorageCost | None = None
        for meter in self.meters:
            total = meter.snapshot() if total is None else total + meter.snapshot()
        return total


_current: ContextVar[Operation | None] = ContextVar("omnigraph-operation", default=None)


def current() -> Operation | None:
    """The operation that the caller is in."""
    return _current.get()


def note(name: str, n: int = 1) -> None:
    """``n`` more of something that happened to the present operation."""
    current = _current.get()
    if current is not None:
        current.notes[name] = current.notes.get(name, 0) + n


@contextlib.contextmanager
def operating(
    name: str,
    uri: str,
    *,
    writes: bool = False,
    listener: progress.Listener | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Operation]:
    """Everything within the block is one operation."""
    outer = _current.get()
    if outer is not None:
        with progress.listen(listener, clock=clock):
            yield outer
        return
    operation = Operation(name, uri, writes, clock.monotonic())
    token = _current.set(operation)
    outcome = "error"
    try:
        with progress.listen(listener, clock=clock), progress.named(name), watching(operation.meters):
            yield operation
        outcome = "ok"
    except OmnigraphError as error:
        outcome = error.code
        raise
    except (KeyboardInterrupt, GeneratorExit):
        outcome = "interrupted"
        raise
    except Exception as error:
        if is_interrupt(error):
            outcome = "interrupted"
            raise KeyboardInterrupt from error
        raise
    finally:
        _current.reset(token)
        _tell(operation, outcome, clock)


@contextlib.contextmanager
def reading(name: str, uri: str, part_of: Operation | None, *, clock: Clock = SYSTEM_CLOCK) -> Iterator[Meter]:
    """A read of rows, as part of the operation that asked for it if that reads and still goes on, else as one of its own:
    what a write costs is what its receipt says.

    Unlike ``operating`` it may be held by a generator, whose steps are taken in anybody's context: nothing is put there.
    """
    if part_of is not None and not part_of.over and not part_of.writes:
        yield part_of.reads()
        return
    operation = Operation(name, uri, writes=False, started_s=clock.monotonic())
    outcome = "error"
    try:
        yield operation.reads()
        outcome = "ok"
    except GeneratorExit:
        outcome = "ok"  # a stream that is left early has given what was wanted
        raise
    except OmnigraphError as error:
        outcome = error.code
        raise
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        _tell(operation, outcome, clock)


def _tell(operation: Operation, outcome: str, clock: Clock) -> None:
    took_s = clock.monotonic() - operation.started_s
    operation.over = True
    cost = operation.cost()
    metrics.record(operation.name, outcome, took_s, cost, operation.notes)
    traces.record(operation.name, outcome, clock.now_us(), took_s, cost, operation.notes)
    level = logging.WARNING if outcome != "ok" else logging.INFO if operation.writes else logging.DEBUG
    if not _log.isEnabledFor(level):
        return
    facts: dict[str, Any] = {
        "operation": operation.name,
        "graph": redact_text(operation.uri),
        "outcome": outcome,
        "duration_s": round(took_s, 6),
        **_cost_facts(cost),
        **operation.notes,
        **operation.facts,
    }
    _log.log(level, "%s %s in %.3f s", operation.name, outcome, took_s, extra={"omnigraph": facts})


def _cost_facts(cost: StorageCost | None) -> Mapping[str, Any]:
    if cost is None:
        return {}
    found = cost.to_dict()
    return {
        "storage.ops": found["requests"],
        "storage.stages": found["hops"],
        "storage.by_class": found["by_class"],
        "storage.bytes_read": found["bytes_read"],
        "storage.bytes_written": found["bytes_written"],
        "storage.exact": found["exact"],
    }
