"""The row counts that a writer has left in its table transactions, for who publishes its plan in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    # A table that is dropped has no place to look at.
    notes = (
        engine.tables.transaction_at(TableRef(chain.path, chain.ref), landed, version, meter)
        for version, _uuid in chain.places()
    )
    return added_up(plan, ({} if note is None else note.properties for note in notes))


def added_up(plan: PublishPlan, properties: Iterable[Mapping[str, str]]) -> tuple[Counts, ...] | None:
    """The counts of each request over the transactions with these properties; None where one does not tell them."""
    total = tuple(Counts() for _ in plan.requests)
    for one in properties:
        told = counts_in(one, len(plan.requests))
        if told is None:
            return None
        total = tuple(sum_.plus(more) for sum_, more in zip(total, told, strict=True))
    return total
