"""Every write of the engine as a driver that a crash matrix can run: what it starts from, what it does, how wide it is.

One entry an operation. A driver runs in a process that may be killed at any request, so it prints nothing and keeps
nothing; what it did is read from the graph afterwards. ``entries`` names the public write entry points that it covers, and
a test compares these with what the façade offers. Here are the drivers of the protocol alone; ``all_operations`` has them all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph import graph as graphs
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.genesis import create_graph
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Outcome, Prepared, Request
from omnigraph.commit.steps import AppendRows, OverwriteRows
from omnigraph.commit.txn import Txn, open_txn
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.durable import Durability
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.schema_id import schema_id
from omnigraph.options import check_commit
from omnigraph.schema import canonical_text, parse_schema
from omnigraph.schema.arrow import table_schema
from omnigraph.store import open_store
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import Content, content_of

TYPES = ("T1", "T2", "T3", "T4")


def schema_of(width: int = len(TYPES)) -> str:
    return "".join(f"node T{number} {{ name: String @key n: I32? }}\n" for number in range(1, width + 1))


@dataclass(frozen=True)
class Operation:
    """``prepare`` makes the graph, ``act`` does the write under test on ``width`` tables and returns its commit id."""

    name: str
    entries: frozenset[str]
    prepare: Callable[[str, int], None]
    act: Callable[[str, int], str | None]
    widths: tuple[int, ...] = (1, 2, 4)
    creates_graph: bool = False
    keeps_content: bool = False  # before and after read the same: no cut can be told from another by what is there
    leaves: tuple[str, ...] = ()  # what else may lie about afterwards: prefixes of keys
    # A write of its own that ``act`` lets in first. A cut after it finds the graph with that write alone.
    rival: Callable[[str], None] | None = None
    # What of a content decides. For an act of several steps of which the first alone is to be there whole or not at all.
    judged: Callable[[Content], Content] = lambda content: content

    def content_of(self, engine: Engine) -> Content | None:
        """What the graph holds, as far as it decides."""
        found = content_of(engine)
        return None if found is None else self.judged(found)


OPERATIONS: dict[str, Operation] = {}


def register(operation: Operation) -> Operation:
    if operation.name in OPERATIONS:
        raise ValueError(f"two drivers are named {operation.name}")
    OPERATIONS[operation.name] = operation
    return operation


# --- pieces of drivers --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(root: str, *, combine: bool | None = None, offers: bool | None = None) -> Iterator[Engine]:
    """``combine``: with syncs, because without them no plan is called applied. ``offers``: with syncs, so that both may be compared.
    None: as for a program, what the environment says."""
    durability = Durability.COMMIT if combine or offers else None
    given = {"combine": combine, "offers": offers}
    said = check_commit({name: value for name, value in given.items() if value is not None})
    engine = Engine(open_store(root), combine=said.combine, offers=said.offers, durability=durability)
    try:
        yield engine
    finally:
        engine.close()


def create(root: str, width: int = len(TYPES)) -> None:
    """A graph of the first ``width`` node types, without rows."""
    source = schema_of(width)
    with opened(root) as engine:
        catalog = parse_schema(source, mint=new_ulid)
        canonical = canonical_text(catalog)
        row = SchemaRow(source, canonical, catalog.hash, schema_id(canonical))
        create_graph(engine, catalog, row, actor="creator", meter=Meter())


def keys_of(width: int) -> list[str]:
    return [f"node:T{number}" for number in range(1, width + 1)]


def rows_for(txn: Txn, key: str, names: Sequence[str]) -> pa.Table:
    schema = table_schema(txn.catalog.by_table_key(key))
    values: dict[str, list[Any]] = {"id": list(names), "n": list(range(len(names))), "name": list(names)}
    for field in schema:  # columns that a change of the schema has added
        given = None if field.nullable else "x" if pa.types.is_string(field.type) else 0
        values.setdefault(field.name, [given] * len(names))
    return pa.table({name: values[name] for name in schema.names}, schema=schema)


def append(
    engine: Engine,
    keys: Sequence[str],
    names: Sequence[str],
    *,
    actor: str | None = "writer",
    idempotency_key: str | None = None,
    expect_head: str | None = None,
    reads: Sequence[str] = (),
    deadline_s: float = 60.0,
    branch: str = MAIN,
    stage_first: bool = False,
) -> Outcome:
    """Append the same rows to each table, in one commit. ``stage_first``: as if staging took long."""

    def prepare(txn: Txn) -> Prepared:
        counts = (Counts(inserted=len(names)),)
        steps = tuple(AppendRows(key, counts, rows_for(txn, key, names)) for key in keys)
        return Prepared(steps, reads=frozenset(reads), stage_first=stage_first)

    request = Request(
        "load", branch, frozenset(keys), actor, idempotency_key, expect_head=expect_head, deadline_s=deadline_s
    )
    return run(engine, request, prepare, Meter())


def overwrite(engine: Engine, keys: Sequence[str], names: Sequence[str]) -> Outcome:
    def prepare(txn: Txn) -> Prepared:
        return Prepared(
            tuple(
                OverwriteRows(key, (Counts(inserted=len(names), deleted=txn.rows(key)),), rows_for(txn, key, names))
                for key in keys
            )
        )

    return run(engine, Request("load", MAIN, frozenset(keys), "writer"), prepare, Meter())


def commit_id(outcome: Outcome) -> str | None:
    return None if outcome.row is None else outcome.row.commit_id


def displace(engine: Engine, key: str) -> None:
    """A foreign version above the pin, with rows that will never be published: what a dead writer leaves behind."""
    txn = open_txn(engine, MAIN, deadline=Deadline(engine.clock, 60), meter=Meter())
    pin = txn.pin(key)
    handle = txn.handle(key)
    transaction = engine.tables.stage_append(handle, rows_for(txn, key, ["stray"]))
    transaction.uuid = new_uuid()
    engine.tables.commit(TableRef(pin.location, pin.ref), handle, transaction)


# --- drivers ------------------------------------------------------------------------------------------------------------


def _seeded(root: str, width: int) -> None:
    create(root, width)
    with opened(root) as engine:
        append(engine, keys_of(width), ["first", "second"], actor="seed")


def _nothing(root: str, width: int) -> None:
    """The operation makes its graph itself."""


def _create(root: str, width: int) -> str | None:
    create(root, width)
    return None


def _append(root: str, width: int) -> str | None:
    with opened(root) as engine:
        return commit_id(append(engine, keys_of(width), ["a", "b"]))


def _overwrite(root: str, width: int) -> str | None:
    with opened(root) as engine:
        return commit_id(overwrite(engine, keys_of(width), ["x"]))


def _append_displaced(root: str, width: int) -> str | None:
    """A write that has to compensate: a foreign version comes between its look and its table commits."""
    with opened(root) as engine:
        with failpoints.armed("arm.before", lambda **_: displace(engine, keys_of(width)[0])):
            return commit_id(append(engine, keys_of(width), ["a", "b"]))


def _append_under_lease(root: str, width: int) -> str | None:
    """A write under a lease that the one before it has left. That one commits no rows."""
    with opened(root) as engine:
        engine.timing.note_contention()
        with engine.timing.writing():
            pass  # a write has just ended: the next is taken for one of a row
        with contextlib.suppress(OmnigraphError):  # what is under test is the second
            append(engine, keys_of(width), [])
        return commit_id(append(engine, keys_of(width), ["a", "b"]))


def recover(root: str, width: int = 0) -> str | None:
    """Recovery by a process that takes every owner for gone."""
    with graphs.open(root) as graph:
        graph.recover(grace_s=0)
    return None


register(Operation("init", frozenset({"init"}), _nothing, _create, creates_graph=True))
register(Operation("append", frozenset(), _seeded, _append))
register(Operation("overwrite", frozenset(), _seeded, _overwrite))
register(Operation("lease", frozenset(), _seeded, _append_under_lease))
register(Operation("compensation", frozenset(), _seeded, _append_displaced, widths=(1, 2)))
