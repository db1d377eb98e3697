"""The row counts that a writer has left in its table transactions, for who publishes its plan in its place."""

from __future__ import annotations

from typing import Any

from omnigraph.commit.effects import Chain
from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.properties import Counts, counts_in
from omnigraph.core.meter import Meter
from omnigraph.table.dataset import TableRef


def recorded_counts(
    engine: Engine, plan: PublishPlan, chain: Chain, landed: Any, meter: Meter
) -> tuple[Counts, ...] | None:
    """The counts of each request, added up over the chain; None where nothing was compared. ``landed``: a handle at the version
    that the chain reaches."""
    if any(effect.kind in ("adopt", "restore") for effect in chain.effects):
        return None
    total: tuple[Counts, ...] | None = tuple(Counts() for _ in plan.requests)
    for version, _uuid in chain.places():
        note = engine.tables.transaction_at(TableRef(chain.path, chain.ref), landed, version, meter)
        told = counts_in(note.properties if note is not None else {}, len(plan.requests))
        if told is None or total is None:
            return None
        total = tuple(one.plus(two) for one, two in zip(total, told, strict=True))
    return total
