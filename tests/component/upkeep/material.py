"""A small graph for the tests of upkeep, and ways to put into it what no write of the engine would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Ticket as WaitingTicket
from omnigraph.commit.intent import encode_ticket
from omnigraph.commit.plan import BranchName, Counts, Owner
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Outcome, Prepared, Request
from omnigraph.commit.steps import AppendRows
from omnigraph.commit.txn import Txn
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import Change
from omnigraph.table.dataset import TableRef

SCHEMA = """
node Person { name: String @key age: I32? @index bio: String? @index }
node Place { title: String @unique(title) }
edge Knows: Person -> Person @card(0..3) { since: I32? }
edge LivesIn: Person -> Place { since: I32? }
"""


def engine_of(graph: Graph) -> Engine:
    return graph._engine


def people(*names: str, age: int = 1) -> list[dict[str, Any]]:
    return [{"type": "Person", "data": {"name": name, "age": age, "bio": f"the life of {name}"}} for name in names]


def knows(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"edge": "Knows", "from": a, "to": b, "data": {"since": 1}} for a, b in pairs]


def make(root: str, commits: int = 3) -> Graph:
    """People p0, p1, …, one a commit, each but the first knowing the one before."""
    graph = og.init(root, SCHEMA)
    for n in range(commits):
        records = people(f"p{n}") + (knows((f"p{n - 1}", f"p{n}")) if n else [])
        graph.load(records, mode="append")
    return graph


def pin_of(graph: Graph, key: str) -> Pin:
    return engine_of(graph).latest(MAIN).state.tables[key]


def ref_of(graph: Graph, key: str) -> TableRef:
    pin = pin_of(graph, key)
    return TableRef(pin.location, pin.ref)


def smuggle(graph: Graph, key: str, rows: Mapping[str, Sequence[Any]]) -> Outcome:
    """Commit rows that no validator has seen."""
    engine = engine_of(graph)

    def prepare(txn: Txn) -> Prepared:
        schema = txn.handle(key).schema
        filled = {name: rows.get(name, [None] * len(rows["id"])) for name in schema.names}
        table = pa.table(filled, schema=schema)
        return Prepared((AppendRows(key, (Counts(inserted=table.num_rows),), table),))

    return run(engine, Request("load", MAIN, frozenset({key})), prepare, Meter())


def displace(graph: Graph, key: str, name: str = "stray") -> int:
    """A version above the pin that nobody will ever publish, and no intent for it. Returns its number."""
    engine = engine_of(graph)
    pin = pin_of(graph, key)
    ref = TableRef(pin.location, pin.ref)
    latest = engine.tables.open_latest(ref)
    rows = {field.name: ["x" if field.name != "id" else name] for field in latest.schema if not field.nullable}
    filled = {field.name: rows.get(field.name, [None]) for field in latest.schema}
    transaction = engine.tables.stage_append(latest, pa.table(filled, schema=latest.schema))
    transaction.uuid = new_uuid()
    version: int = engine.tables.commit(ref, latest, transaction).version
    return version


def swap(graph: Graph, change: Change) -> None:
    """A version of the manifest that no operation of the engine would make."""
    engine = engine_of(graph)
    held = engine.latest(MAIN)
    after = engine.manifest.swap(held, engine.manifest.write(held, change), uuid=new_uuid())
    engine.drop(MAIN)
    engine.remember(MAIN, after)


def leave_ticket(graph: Graph, *keys: str, owner: Owner | None = None) -> str:
    """The intent of a writer that waits for its turn, and will for ever."""
    engine = engine_of(graph)
    op = new_ulid()
    identity = engine.latest(MAIN).state.identity
    somebody = owner or Owner("elsewhere", "another-boot", 1, 1)
    ticket = WaitingTicket(
        engine.graph_id, op, "load", BranchName(MAIN, identity), tuple((key, "") for key in keys), somebody
    )
    engine.intents.arm(op, encode_ticket(ticket))
    return op
