"""What a write does beside its table commits and after its publish: the manifest's files written for the state that it should
lead to, and its own rows noted in the key cache. All of it may be lost without harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omnigraph.commit.builder import Planned
from omnigraph.commit.engine import Engine
from omnigraph.commit.pins import stats_of_pin, with_stats
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol import newest_rows
from omnigraph.commit.protocol.apply import Applied, Landing
from omnigraph.commit.protocol.publish import on_state, publish_change
from omnigraph.commit.steps import Staged
from omnigraph.commit.txn import Txn
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Written
from omnigraph.table.dataset import TableRef
from omnigraph.table.stats import predict_stats


def predicted_pins(
    plan: PublishPlan, txn: Txn, handles: Mapping[str, Any], staged: Mapping[str, Staged]
) -> Mapping[str, Pin] | None:
    """The pins that this plan publishes if every table lands at its place. None where they cannot be told ahead."""
    if not plan.delta.is_empty or plan.merge is not None:  # what a merge carries along is read when it is published
        return None
    pins = {}
    for chain in plan.chains:
        pin = txn.pin(chain.key) if chain.key in handles else None
        if pin is None or len(chain.effects) != 1 or pin.bases:
            return None
        stats = predict_stats(stats_of_pin(pin), handles[chain.key], staged[chain.key].transaction)
        if stats is None:
            return None
        made = with_stats(pin, chain.version, stats)
        pins[chain.key] = replace(made, recent=newest_rows.expected(pin, handles[chain.key], staged[chain.key]))
    return pins


def confirm(
    pins: Mapping[str, Pin] | None,
    written: Written | None,
    txn: Txn,
    plan: PublishPlan,
    handles: Mapping[str, Any],
    results: Mapping[str, Applied],
) -> tuple[Mapping[str, Pin] | None, Written | None]:
    """The predicted pins and the file that was written of them, once the tables have landed. A file that says what has not come
    true is not used."""
    if pins is None or any(result.landing is not Landing.EXACT for result in results.values()):
        return pins, written
    found = newest_rows.confirmed(pins, txn.state, plan, handles, results)
    return found, written if found is pins else None


def write_ahead(engine: Engine, planned: Planned, txn: Txn, pins: Mapping[str, Pin], meter: Meter) -> Written:
    """The manifest's data file for the state that this plan should lead to."""
    change = on_state(publish_change(planned.plan, pins, planned.counts), txn.state, planned.plan)
    stamped = engine.durable.stamp(txn.state, change)
    assert isinstance(stamped, Change)
    return engine.manifest.write(txn.held, stamped, meter)


def remember_own_rows(engine: Engine, txn: Txn, plan: PublishPlan, results: Mapping[str, Applied]) -> None:
    """Tell the key cache what this write has put into its tables, so that the next look-up need not read it."""
    for chain in plan.landing:
        result = results.get(chain.key)
        forks = chain.effects[0].kind == "fork"
        if result is None or result.landing is not Landing.EXACT or chain.base is None:
            continue
        if len(chain.effects) != (2 if forks else 1) or not result.staged[-1].cacheable:
            continue
        staged, target = result.staged[-1], chain.effects[-1].target
        assert staged.transaction is not None and target is not None, "what has landed was sent, to a planned place"
        pin = txn.pin(chain.key)
        ref = TableRef(pin.location, pin.ref)
        if pin.rows == 0 and not forks:
            # Nothing has asked an empty table anything; told its layout, the cache can follow what becomes of it.
            engine.keys.put_layout(ref.relative, txn.pinned(pin.key).layout)
        engine.keys.note_commit(
            ref.location,
            TableRef(target.path, target.ref).relative,
            pin.version,
            result.handle,
            staged.transaction.operation,
            staged.rows,
            staged.deleted,
            base_line=ref.relative,
        )
