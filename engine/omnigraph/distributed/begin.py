"""``graph.begin``: open a staging transaction, on lines that the branch owns, or take one up again."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol.own_lines import inherited, own_lines
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import InvalidInput, NotFound
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.distributed.fragments import schema_id_of
from omnigraph.distributed.staging_record import Record, RecordBase, RecordBranch, Records, RecordTable
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.manifest.state import State
from omnigraph.options import CommitOptions


def begin(
    engine: Engine, options: CommitOptions, *, tables: Iterable[str] | None = None, resume: str | None = None
) -> StagingTxn:
    """Open a staging transaction, or take one up again."""
    records = Records(engine.store)
    if resume is not None:
        if tables is not None:
            raise InvalidInput("a staging that is resumed has its tables already", hint="leave tables out")
        record = records.read(resume)
        if record.graph != engine.graph_id:
            raise InvalidInput(f"the staging record {resume} belongs to another graph", staging_id=resume)
        return StagingTxn(engine, record)
    meter = Meter()
    held = read_current(engine, options.branch, meter=meter)
    keys = _keys(held.state, tables)
    if inherited(held.state, keys):
        with engine.writing(meter):
            held = own_lines(engine, options.branch, keys, Deadline(engine.clock, options.deadline_s), meter)
    state = held.state
    record = Record(
        id=new_ulid(engine.clock),
        graph=engine.graph_id,
        branch=RecordBranch(name=options.branch, identity=state.identity),
        base=RecordBase(
            manifest_version=state.version,
            head=state.head.commit_id,
            mark=state.head.mark,
            schema_id=schema_id_of(state),
        ),
        actor=options.actor,
        created_at_us=engine.clock.now_us(),
        tables=[
            RecordTable(key=pin.key, identity=pin.identity, path=pin.location, ref=pin.ref, pin=pin.version)
            for pin in state.tables.values()
            if pin.key in keys
        ],
        staged=[],
    )
    records.create(record)
    return StagingTxn(engine, record)


def _keys(state: State, tables: Iterable[str] | None) -> frozenset[str]:
    """The table keys that a transaction is begun for. Without names: all on main, and on a branch those that it owns."""
    if tables is None:
        owned = (key for key, pin in state.tables.items() if state.ref is None or pin.owner == state.identity)
        return frozenset(owned)
    if isinstance(tables, str):
        raise InvalidInput("tables is a list of names", hint=f"pass tables=[{tables[:80]!r}]")
    found = set()
    for name in tables:
        if not isinstance(name, str):
            raise InvalidInput(f"the name of a table is a text, not {str(name)[:80]!r}")
        key = next((key for key in (name, f"node:{name}", f"edge:{name}") if key in state.tables), None)
        if key is None:
            known = ", ".join(list(state.tables)[:20])
            raise NotFound(f"the branch has no type {name[:80]!r}", hint=f"it has {known}", table_key=name[:80])
        found.add(key)
    if not found:
        raise InvalidInput("tables names at least one table", hint="leave it out, or name the tables to stage")
    return frozenset(found)
