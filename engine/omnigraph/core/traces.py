"""One span an operation: handed to OpenTelemetry's API where it is installed, nowhere else.

A span is made when its operation has ended, with the times of its beginning and its end, so that nothing is held open in a
context and a read that a generator holds has its span too. Its parent is the span that the caller is in. Attributes hold no type, row
or commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from omnigraph.core.meter import StorageCost

PREFIX: Final = "omnigraph."
ATTRIBUTES: Final = ("outcome", "storage.ops", "storage.stages", "storage.bytes_read", "storage.bytes_written")


@lru_cache(maxsize=1)
def _tracer() -> Any | None:
    """The tracer, or None without OpenTelemetry. A provider set later is followed by its API."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    from omnigraph.core.version import VERSION

    return trace.get_tracer("omnigraph", VERSION)


def record(
    operation: str, outcome: str, ended_us: int, took_s: float, cost: StorageCost | None, notes: Mapping[str, int]
) -> None:
    """The span of one operation that has ended at ``ended_us``."""
    tracer = _tracer()
    if tracer is None:
        return
    from opentelemetry.trace import Status, StatusCode

    began_us = ended_us - int(took_s * 1e6)
    facts: dict[str, Any] = {"outcome": outcome, **notes}
    if cost is not None:
        figures = (cost.requests, cost.hops, cost.bytes_read, cost.bytes_written)
        facts |= dict(zip(ATTRIBUTES[1:], figures, strict=True))
    span = tracer.start_span(PREFIX + operation, start_time=began_us * 1000, attributes=facts)
    if outcome != "ok":
        span.set_status(Status(StatusCode.ERROR, outcome))
    span.end(end_time=ended_us * 1000)
