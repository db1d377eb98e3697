"""Pins made from table versions: the facts that the manifest repeats about them. Pure but for reading open handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omnigraph.commit.plan import PublishPlan
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.swap import Held
from omnigraph.table.dataset import TableStats, stats_of


def stats_of_pin(pin: Pin) -> TableStats:
    return TableStats(pin.rows, pin.fragments, pin.bytes, pin.deleted_rows, pin.unindexed_fragments)


def with_stats(pin: Pin, version: int, stats: TableStats) -> Pin:
    return replace(
        pin,
        version=version,
        rows=stats.rows,
        fragments=stats.fragments,
        bytes=stats.bytes,
        deleted_rows=stats.deleted_rows,
        unindexed_fragments=stats.unindexed_fragments,
    )


def landed_pins(held: Held, plan: PublishPlan, landed: Mapping[str, Any]) -> dict[str, Pin]:
    """The pins that publishing these handles makes; their facts come from the handles, without a request."""
    pins = {}
    for table in plan.tables:
        handle = landed[table.key]
        base = held.state.tables.get(table.key) or next(p for p in plan.delta.register if p.key == table.key)
        pins[table.key] = with_stats(replace(base, ref=table.ref), handle.version, stats_of(handle))
    return pins
