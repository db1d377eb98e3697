"""Figures for operators: handed to OpenTelemetry's API where it is installed, nowhere else.

Owns the instruments' names and units. A library brings the API only: without an SDK set up by the program around it, every
figure goes nowhere at no cost. Attributes have few values, so that no series grows with the data: no type, row or commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from omnigraph.core.meter import StorageCost


@dataclass(frozen=True, slots=True)
class Instrument:
    """One figure. ``kind`` is the instrument's kind in OpenTelemetry."""

    name: str
    kind: str  # histogram, counter, gauge
    unit: str
    attributes: tuple[str, ...]
    meaning: str


_OF_ALL: Final = ("operation", "outcome")

INSTRUMENTS: Final = (
    Instrument("storage.ops", "histogram", "{request}", (*_OF_ALL, "exact"), "Requests of one operation to the store."),
    Instrument(
        "storage.stages", "histogram", "{stage}", _OF_ALL, "Serial steps of one write: waits for an answer, in a row."
    ),
    Instrument(
        "storage.requests",
        "counter",
        "{request}",
        (*_OF_ALL, "class"),
        "The same requests by class; sums to storage.ops.",
    ),
    Instrument("storage.bytes_read", "counter", "By", _OF_ALL, "Bytes of answers."),
    Instrument("storage.bytes_written", "counter", "By", _OF_ALL, "Bytes of bodies sent."),
    Instrument("omnigraph.operation.duration", "histogram", "s", _OF_ALL, "How long one operation took."),
    Instrument(
        "omnigraph.publish.attempts", "counter", "{attempt}", _OF_ALL, "Plans that were armed; one is enough, alone."
    ),
    Instrument(
        "omnigraph.conflicts", "counter", "{conflict}", _OF_ALL, "Attempts that lost to another writer and were ended."
    ),
    Instrument(
        "omnigraph.recoveries", "counter", "{write}", _OF_ALL, "Interrupted writes that were brought to an end."
    ),
    Instrument("omnigraph.fragments", "gauge", "{fragment}", (), "Data fragments of all tables, at the last status."),
    Instrument(
        "omnigraph.versions", "gauge", "{version}", (), "Versions of the fullest table, at the last deep status."
    ),
    Instrument("omnigraph.intents", "gauge", "{write}", (), "Writes that have not ended, at the last status."),
)

_NOTES: Final = {
    "publish_attempts": "omnigraph.publish.attempts",
    "conflicts": "omnigraph.conflicts",
    "recoveries": "omnigraph.recoveries",
}


@lru_cache(maxsize=1)
def _instruments() -> Mapping[str, Any] | None:
    """The instruments by name, or None without OpenTelemetry. Providers set later are followed by its API."""
    try:
        from opentelemetry import metrics
    except ImportError:
        return None
    from omnigraph.core.version import VERSION

    meter = metrics.get_meter("omnigraph", VERSION)
    made: dict[str, Any] = {
        "histogram": meter.create_histogram,
        "counter": meter.create_counter,
        "gauge": meter.create_gauge,
    }
    return {one.name: made[one.kind](one.name, unit=one.unit, description=one.meaning) for one in INSTRUMENTS}


def record(operation: str, outcome: str, took_s: float, cost: StorageCost | None, notes: Mapping[str, int]) -> None:
    """The figures of one operation that has ended."""
    made = _instruments()
    if made is None:
        return
    about = {"operation": operation, "outcome": outcome}
    made["omnigraph.operation.duration"].record(took_s, about)
    for name, n in notes.items():
        made[_NOTES[name]].add(n, about)
    if cost is None:
        return
    made["storage.ops"].record(cost.requests, {**about, "exact": cost.exact})
    if cost.hops:
        made["storage.stages"].record(cost.hops, about)
    for request_class, n in cost.by_class.items():
        made["storage.requests"].add(n, {**about, "class": request_class})
    made["storage.bytes_read"].add(cost.bytes_read, about)
    made["storage.bytes_written"].add(cost.bytes_written, about)


def observe(figures: Mapping[str, int | None]) -> None:
    """Levels that were just looked up, by the names of gauges; None is not known."""
    made = _instruments()
    if made is None:
        return
    for name, value in figures.items():
        if value is not None:
            made[name].set(value)
