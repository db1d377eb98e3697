"""Lines of the manifest and forks of tables made by hand: what the verbs for branches will make, and what they never would."""

from __future__ import annotations

from dataclasses import replace

from lance import LanceDataset, LanceOperation, Transaction

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.refs import BranchSource, NameEntry, Written
from omnigraph.manifest.rows import BaseVersion, Head, Parent, Pin
from omnigraph.manifest.state import State
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef


def fork(engine: Engine, pin: Pin) -> Pin:
    """A fork of a table at its pin, on a ref of its own. ``make_line`` says whose it is."""
    ref = f"f-{new_ulid()}"
    clone = LanceOperation.Clone(True, None, pin.version, engine.tables.uri(TableRef(pin.location, pin.ref)), None)
    LanceDataset.commit(
        engine.tables.uri(TableRef(pin.location, ref)),
        Transaction(pin.version, clone),
        max_retries=0,
        storage_options=engine.tables.options,
    )
    bases = (BaseVersion(pin.ref, pin.version, needed=True), *pin.bases)
    return replace(pin, ref=ref, bases=bases, recent=None)


def make_line(engine: Engine, *pins: Pin) -> str:
    """A line with the state of main, but for these pins, and without a name. Return the identity of its branch. Forks among the
    pins are owned by it; what it has inherited keeps its owner."""
    main = engine.latest(MAIN).state
    identity = new_ulid()
    head = Head(
        identity,
        main.head.commit_id,
        name="feature",
        parent=Parent(main.identity, None, main.version, main.head.commit_id),
    )
    own = {pin.key: replace(pin, owner=identity) if pin.ref is not None else pin for pin in pins}
    state = State(
        version=1,
        ref=layout.branch_ref(identity),
        head=head,
        schema=main.schema,
        tables={**main.tables, **own},
    )
    engine.manifest.create(state, uuid=new_uuid())
    return identity


def claim(engine: Engine, name: str, identity: str, *, version: int | None = None) -> NameEntry:
    """``making``: the name is claimed for a branch made from main."""
    main = engine.latest(MAIN).state
    source = BranchSource(main.identity, None, version or main.version, main.head.commit_id)
    entry = NameEntry(0, "making", name, identity, source, "ada", engine.clock.now_us())
    done = engine.names.write(engine.names.highest(name), entry, Meter())
    assert isinstance(done, Written)
    return done.entry


def bind(engine: Engine, name: str, identity: str) -> NameEntry:
    """``making``, then ``bound``."""
    making = claim(engine, name, identity)
    done = engine.names.write(making, replace(making, state="bound", source=None), Meter())
    assert isinstance(done, Written)
    return done.entry


def release(engine: Engine, entry: NameEntry) -> None:
    """``free``: as a deleter does, after it has closed the line."""
    done = engine.names.write(entry, replace(entry, state="free"), Meter())
    assert isinstance(done, Written)
