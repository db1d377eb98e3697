"""What durable state says about one intent: the manifest first, heads after.

The order matters: a head read before the manifest can look older than a pin, and that is no damage. An intent that is
gone between being listed and being read has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omnigraph.commit.decide import End, Evidence, Line, TableEvidence, forks_published, how_ended
from omnigraph.commit.effects import Chain
from omnigraph.commit.engine import MAIN, Engine, known_dead, rebooted_since
from omnigraph.commit.intent import Intent
from omnigraph.commit.intent_format import APPLIED, OFFERED, UNKNOWN
from omnigraph.commit.plan import MAINTENANCE, PublishPlan
from omnigraph.commit.protocol.publish import read_lineage
from omnigraph.commit.queue import local_operations
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import Corruption, NotFound
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.rows import CommitRow, HistoryRow
from omnigraph.manifest.swap import Held
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.table.torn import torn_version


def owner_gone(engine: Engine, intent: Intent) -> bool:
    """Whether the owner is known to be dead: its process is gone, or it is this one and has let go of the operation."""
    if intent.owner == engine.owner:
        return not local_operations.has(intent.op)
    return known_dead(intent.owner)


@dataclass(frozen=True)
class Found:
    """Evidence, with the state it was read on, the plan's records and the handles of effects that stand at their place."""

    held: Held | None
    evidence: Evidence
    landed: dict[str, Any] = field(default_factory=dict)
    records: tuple[HistoryRow, ...] = ()
    commits: tuple[CommitRow, ...] = ()


def collect_evidence(engine: Engine, intent: Intent, *, gone: bool, meter: Meter) -> Found:
    """Read durable state for one intent."""
    if intent.state == UNKNOWN:
        return Found(None, Evidence(Line.OPEN, known=False, owner_gone=gone))
    held, line = _resolve(engine, intent, meter)
    _check_belongs(engine, intent, held)
    if held is None or line is Line.UNRESOLVED:
        return Found(held, Evidence(line, ticket=intent.plan is None, owner_gone=gone))
    if intent.plan is None:
        return _look_for_ticket(engine, intent, held, line, gone, meter)
    plan = intent.plan
    lineage = read_lineage(engine, held, plan, meter)
    end = how_ended(plan, lineage)
    upkeep = plan.kind == MAINTENANCE
    forked = forks_published(held.state, plan)
    rebooted = _rebooted(engine, intent)
    basic = Evidence(line, maintenance=upkeep, published=forked, end=end, owner_gone=gone, rebooted=rebooted)
    records = tuple(lineage.rows.values())
    if end not in (End.OPEN, End.CARRIED) or line is Line.CLOSED or forked:
        return Found(held, basic, records=records, commits=lineage.commits(plan))
    tables: dict[str, TableEvidence] = {}
    landed: dict[str, Any] = {}
    for chain in plan.chains:
        tables[chain.key] = _look_at_table(engine, held, plan, chain, landed, meter)
    return Found(
        held,
        Evidence(line, maintenance=upkeep, end=end, owner_gone=gone, rebooted=basic.rebooted, tables=tables),
        landed,
    )


def _resolve(engine: Engine, intent: Intent, meter: Meter) -> tuple[Held | None, Line]:
    """The branch of the intent, by identity. A name that another branch has taken since says nothing about it."""
    try:
        main = engine.known(MAIN)
        if main is not None and main.state.identity == intent.branch.identity:
            held: Held | None = read_current(
                engine, MAIN, meter=meter
            )  # of many intents, only the first reads it whole
        else:
            held = engine.latest_of(intent.branch.identity, meter)
    except NotFound:
        held = None
    if held is not None:
        return held, Line.OPEN if held.state.head.closed is None else Line.CLOSED
    if engine.boundary.value(intent.branch.identity, repeated=0, meter=meter) >= ALL:
        return None, Line.CLOSED
    return None, Line.UNRESOLVED


def _look_for_ticket(engine: Engine, intent: Intent, held: Held, line: Line, gone: bool, meter: Meter) -> Found:
    """A ticket has no plan. An offer's request may have been carried out: it is looked for over the whole line."""
    if intent.state != OFFERED or intent.request is None:
        return Found(held, Evidence(line, ticket=True, owner_gone=gone))
    row = engine.history.find(held, intent.request.id, meter=meter)
    end = End.OPEN if row is None else End.PUBLISHED if isinstance(row, CommitRow) else End.ABORTED
    return Found(
        held,
        Evidence(line, offered=True, end=end, owner_gone=gone),
        records=() if row is None else (row,),
        commits=(row,) if isinstance(row, CommitRow) else (),
    )


def _rebooted(engine: Engine, intent: Intent) -> bool:
    """Whether the files of an armed plan may be torn: this host has been started again since, and the disk is its own."""
    return not engine.store.is_remote and intent.state != APPLIED and rebooted_since(intent.owner)


def _check_belongs(engine: Engine, intent: Intent, held: Held | None) -> None:
    """An intent of another graph, or one whose paths lead elsewhere, is refused and kept: to act on it, even to discard
    it, could destroy what it stands for."""
    name = layout.intent_key(intent.op)
    if intent.graph != engine.graph_id:
        raise _misplaced(
            f"the intent {name} belongs to another graph: {intent.graph}, not {engine.graph_id}",
            name,
            engine.graph_id,
            intent.graph,
        )
    for chain in () if held is None or intent.plan is None else intent.plan.landing:
        pin = held.state.tables.get(chain.key) if held is not None else None
        if pin is not None and pin.identity == chain.identity and pin.location != chain.path:
            raise _misplaced(
                f"the intent {name} names {chain.path} for table {chain.key}, which stands at {pin.location}",
                name,
                pin.location,
                chain.path,
            )


def _misplaced(message: str, name: str, expected: str, actual: str) -> Corruption:
    return Corruption(
        message,
        hint="find out how it came here, and move it out of __recovery/ by hand; the graph opens with read_only=True",
        object=name,
        expected=expected,
        actual=actual,
    )


def _look_at_table(
    engine: Engine, held: Held, plan: PublishPlan, chain: Chain, landed: dict[str, Any], meter: Meter
) -> TableEvidence:
    pin = held.state.tables.get(chain.key)
    if not chain.lands:
        base = chain.base
        same = pin is None if base is None else pin is not None and (pin.ref, pin.version) == (base.ref, base.pin)
        return TableEvidence(chain.key, None, None, exact=same, landed=False)
    if chain.begins_line:
        return _look_at_own_line(engine, held, chain, landed, meter)
    if pin is None or pin.identity != chain.identity or pin.ref != chain.ref:
        return TableEvidence(chain.key, None, None, exact=False, landed=False)
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version, meter)
    head = engine.tables.head_version(handle, meter)
    exact, stands = _places(engine, chain, handle, head, meter, far=len(plan.chains) + 8)
    exact = exact and pin.version == chain.pin
    if exact and not chain.is_upkeep:
        landed[chain.key] = engine.tables.open(TableRef(chain.path, chain.ref), chain.version, meter)
    return TableEvidence(chain.key, pin.version, head, exact=exact, landed=stands)


def _look_at_own_line(engine: Engine, held: Held, chain: Chain, landed: dict[str, Any], meter: Meter) -> TableEvidence:
    """A table or fork that the plan makes itself. It is absent, or stands at a path that no other plan uses."""
    pin, base = held.state.tables.get(chain.key), chain.base
    unmoved = pin is None if base is None else pin is not None and (pin.ref, pin.version) == (base.ref, base.pin)
    ref = TableRef(chain.path, chain.ref)
    first = chain.first.target
    version = (first.version if first is not None else None) or 1
    if torn_version(engine.store, ref, version) is not None:
        return TableEvidence(chain.key, None, None, exact=False, landed=False)
    try:
        handle = engine.tables.open(ref, version, meter)
    except NotFound:
        return TableEvidence(chain.key, None, None, exact=False, landed=False)
    head = engine.tables.head_version(handle, meter)
    exact, stands = _places(engine, chain, handle, head, meter, far=0)
    if exact and unmoved:
        landed[chain.key] = engine.tables.open(ref, chain.version, meter)
    return TableEvidence(chain.key, None, None, exact=exact and unmoved, landed=stands)


def _places(engine: Engine, chain: Chain, handle: Any, head: int, meter: Meter, *, far: int) -> tuple[bool, bool]:
    """Whether every planned transaction stands at its place, and whether any stands at all."""
    ref = TableRef(chain.path, chain.ref)
    planned = dict(chain.places())
    first = min(planned, default=chain.pin + 1)
    exact, stands = bool(planned) and head >= chain.version, False
    for version in range(first, min(head, max([chain.version, *planned]) + far) + 1):
        note = engine.tables.transaction_at(ref, handle, version, meter)
        stands = stands or (note is not None and note.uuid in chain.uuids)
        if version in planned and (note is None or note.uuid != planned[version]):
            exact = False
    return exact, stands


def contradiction(intent: Intent, found: Found) -> Corruption:
    """What is wrong where durable state contradicts the intent."""
    bad = next(
        (t for t in found.evidence.tables.values() if t.pin is not None and (t.head or 0) < t.pin),
        None,
    )
    if bad is None:
        return Corruption(
            f"the requests of intent {intent.op} have ended in different ways; it is kept",
            hint="keep the files and run `omnigraph verify --deep`",
            operation_id=intent.op,
        )
    return Corruption(
        f"table {bad.key} is published at version {bad.pin} but its newest version is {bad.head}; "
        f"intent {intent.op} is kept",
        operation_id=intent.op,
        table_key=bad.key,
        expected=bad.pin,
        actual=bad.head,
    )
