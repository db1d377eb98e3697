"""What durable state says about one intent: the manifest first, heads after.

The order matters: a head read before the manifest can look older than a pin, and that is no damage. An intent that is
gone between being listed and being read has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.commit import live
from omnigraph.commit.decide import TableWitness, Witness
from omnigraph.commit.engine import Engine, known_dead
from omnigraph.commit.intent import Intent
from omnigraph.commit.plan import PublishPlan, TablePlan
from omnigraph.commit.publish import lineage
from omnigraph.core.errors import Corruption, NotFound
from omnigraph.core.meter import Meter
from omnigraph.manifest.swap import Held
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef


def owner_gone(engine: Engine, intent: Intent) -> bool:
    """Whether the owner is known to be dead: its process is gone, or it is this one and has let go of it."""
    if intent.owner == engine.owner:
        return not live.has(intent.op)
    return known_dead(intent.owner)


@dataclass(frozen=True)
class Seen:
    """A witness, with the state it was read on and the handles of effects that stand at their place."""

    held: Held | None
    witness: Witness
    landed: dict[str, Any]


def look(engine: Engine, intent: Intent, *, gone: bool, meter: Meter) -> Seen:
    """Read durable state for one intent."""
    try:
        held = engine.latest(intent.branch.name, meter)
    except NotFound:
        held = None
    _check_belongs(engine, intent, held)
    exists = held is not None and held.state.identity == intent.branch.identity
    if held is None or not exists or intent.plan is None:
        return Seen(held, Witness(intent.plan is None, False, exists, None, gone), {})
    plan = intent.plan
    own, _ = lineage(engine, held, plan, meter)
    if own is not None:
        return Seen(held, Witness(False, plan.kind == "maintenance", True, own, gone), {})
    tables: dict[str, TableWitness] = {}
    landed: dict[str, Any] = {}
    for table in plan.tables:
        tables[table.key] = _look_at_table(engine, held, plan, table, landed, meter)
    return Seen(held, Witness(False, plan.kind == "maintenance", True, None, gone, tables), landed)


def _check_belongs(engine: Engine, intent: Intent, held: Held | None) -> None:
    """An intent of another graph, or one whose paths lead elsewhere, is refused and kept: to act on it, even to discard
    it, could destroy what it stands for."""
    name = layout.intent_key(intent.op)
    ours = engine.graph_id if held is not None else intent.graph
    if intent.graph != ours:
        raise Corruption(
            f"the intent {name} belongs to another graph: {intent.graph}, not {ours}",
            hint="find out how it came here, and move it out of __recovery/ by hand; the graph opens with read_only=True",
            object=name,
            expected=ours,
            actual=intent.graph,
        )
    if held is None or intent.plan is None:
        return
    for table in intent.plan.tables:
        pin = held.state.tables.get(table.key)
        if pin is not None and pin.identity == table.identity and pin.location != table.path:
            raise Corruption(
                f"the intent {name} names {table.path} for table {table.key}, which stands at {pin.location}",
                hint="find out how it came here, and move it out of __recovery/ by hand; the graph opens with read_only=True",
                object=name,
                table_key=table.key,
                expected=pin.location,
                actual=table.path,
            )


def _look_at_table(
    engine: Engine, held: Held, plan: PublishPlan, table: TablePlan, landed: dict[str, Any], meter: Meter
) -> TableWitness:
    pin = held.state.tables.get(table.key)
    if pin is None or pin.identity != table.identity or pin.ref != table.ref:
        return TableWitness(table.key, None, None, exact=False, landed=False)
    ref = TableRef(table.path, table.ref)
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version, meter)
    head = engine.tables.head_version(handle, meter)
    exact = pin.version == table.pin and head >= table.target
    stands = False
    for version in range(table.pin + 1, min(head, table.target + len(plan.tables) + 8) + 1):
        note = engine.tables.transaction_at(ref, handle, version, meter)
        place = version - table.pin - 1
        if note is not None and note.uuid in table.uuids:
            stands = True
        if place < len(table.uuids) and (note is None or note.uuid != table.uuids[place]):
            exact = False
    if exact:
        landed[table.key] = engine.tables.open(ref, table.target, meter)
    return TableWitness(table.key, pin.version, head, exact=exact, landed=stands)
