"""Create a graph: empty tables first, then one strict create of the manifest, which is the commit.

Three outcomes: created, not created (another graph is there), unknown. What a lost attempt leaves behind is
garbage that nothing refers to; nothing is cleaned up here, because a create that seemed to fail may have landed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from omnigraph.commit.engine import MAIN, Engine, gather
from omnigraph.core import failpoints
from omnigraph.core.errors import AlreadyExists, NotFound, OmnigraphError, OutcomeUnknown
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Pin, SchemaRow
from omnigraph.manifest.state import Change, State, genesis
from omnigraph.manifest.swap import Held, SwapLost, SwapUnknown
from omnigraph.schema import Catalog
from omnigraph.schema.arrow import table_schema
from omnigraph.store import layout
from omnigraph.store.durability import SyncFailed
from omnigraph.table.dataset import TableRef
from omnigraph.table.stats import stats_of

CREATE_ATTEMPTS = 3


def create_graph(engine: Engine, catalog: Catalog, schema: SchemaRow, *, actor: str | None, meter: Meter) -> Held:
    """Commit the first state of a graph at the engine's root."""
    engine.limits.check("types", len(list(catalog.types())))
    if actor is not None:
        engine.limits.check("actor_bytes", len(actor.encode()))
    _refuse_existing(engine, meter)
    engine.store.check_conditional_create(meter=meter)
    identity = new_ulid(engine.clock)
    pins = gather(
        [
            engine.spawn(
                _create_table, engine, declared.table_key, declared.type_id, table_schema(declared), identity, meter
            )
            for declared in catalog.types()
        ]
    )
    state = genesis(
        identity=identity,
        commit_id=new_ulid(engine.clock),
        actor=actor,
        created_at_us=engine.clock.now_us(),
        schema=schema,
        pins=pins,
    )
    state = engine.durable.stamped(state)
    failpoints.hit("init.before_create")
    for _ in range(CREATE_ATTEMPTS):
        try:
            held = engine.manifest.create(state, uuid=new_uuid(), written=engine.durable.before_genesis)
            failpoints.hit("init.after_create")
            with _unknown_if_not_synced(engine, state):
                engine.durable.after_swap(held, Change())
            return engine.remember(MAIN, held)
        except (SwapLost, SwapUnknown):
            found = _what_is_there(engine, meter)
            if found is None:
                continue
            if found.state.in_tail(state.head.commit_id) is None:
                raise _taken(engine) from None
            with _unknown_if_not_synced(engine, state):
                engine.durable.acknowledge(found.version, found)
            return engine.remember(MAIN, found)
    raise _unknown(engine, state)


@contextlib.contextmanager
def _unknown_if_not_synced(engine: Engine, state: State) -> Iterator[None]:
    """The graph is there, but whether it survives a power cut is not known."""
    try:
        yield
    except SyncFailed as error:
        raise _unknown(engine, state) from error


def _unknown(engine: Engine, state: State) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"whether the graph at {engine.uri} was created is not known",
        hint=f"open it: if it opens and its first commit is {state.head.commit_id}, it is yours; else init again",
        commit_id=state.head.commit_id,
    )


def _create_table(engine: Engine, key: str, type_id: str, schema: pa.Schema, owner: str, meter: Meter) -> Pin:
    location = layout.table_path(key, new_ulid(engine.clock))
    handle = engine.tables.create_empty(TableRef(location), schema, meter=meter)
    stats = stats_of(handle)
    return Pin(
        key=key,
        identity=new_ulid(engine.clock),
        incarnation=1,
        type_id=type_id,
        location=location,
        ref=None,
        version=handle.version,
        rows=stats.rows,
        owner=owner,
    )


def _refuse_existing(engine: Engine, meter: Meter) -> None:
    if _what_is_there(engine, meter) is not None:
        raise _taken(engine)


def _what_is_there(engine: Engine, meter: Meter) -> Held | None:
    try:
        return engine.manifest.open_latest(None, meter)
    except NotFound:
        return None
    except OmnigraphError as error:
        if error.code == "unsupported-storage":
            raise _taken(engine) from error
        raise


def _taken(engine: Engine) -> AlreadyExists:
    return AlreadyExists(
        f"there is a graph at {engine.uri} already", hint="open it, or choose another place", uri=engine.uri
    )
