"""Graphs to read from: made and filled through the commit protocol, without the loader."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.commit.engine import Engine
from omnigraph.commit.genesis import create_graph
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.steps import AppendRows
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.schema_id import schema_id
from omnigraph.schema import Catalog, canonical_text, parse_schema
from omnigraph.schema.arrow import table_schema
from omnigraph.store import open_store

SOCIAL = """
node Person { name: String @key age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
"""
EVERY_KIND = """
node Thing {
  name: String @key
  at: DateTime?  ats: [DateTime]?  b: Blob?  bs: [Bool]?  d: F64?  f: F32?  fs: [F32]?  i: I32?  kind: enum(a, b)?
  l: I64?  ns: [I64]?  on: Date?  ons: [Date]?  s: Bool?  tags: [String]?  u: U32?  ul: U64?  v: Vector(3)?
}
"""


def new_graph(root: str, source: str = SOCIAL) -> Engine:
    catalog = parse_schema(source, mint=new_ulid)
    engine = Engine(open_store(root))
    canonical = canonical_text(catalog)
    schema = SchemaRow(source, canonical, catalog.hash, schema_id(canonical))
    create_graph(engine, catalog, schema, actor="founder", meter=Meter())
    return engine


def cold(engine: Engine) -> Engine:
    """The same graph as another process finds it."""
    return Engine(open_store(engine.uri))


def catalog_of(engine: Engine) -> Catalog:
    held = engine.known("main") or engine.latest("main")
    return engine.catalog(held.state.schema)


def put(engine: Engine, name: str, rows: list[dict[str, Any]] | pa.Table, *, actor: str | None = "writer") -> str:
    """Append rows of one type in one commit; its id."""
    declared = catalog_of(engine).type(name)
    schema = table_schema(declared)
    table = rows.cast(schema) if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=schema)

    def prepare(txn: Any) -> Prepared:
        return Prepared((AppendRows(declared.table_key, (Counts(inserted=table.num_rows),), table),))

    request = Request("load", "main", frozenset([declared.table_key]), actor=actor)
    done = run(engine, request, prepare, Meter())
    assert done.row is not None
    return done.row.commit_id


def people(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "name": name, "age": 20 + k} for k, name in enumerate(names)]


def knows(edge_id: str, src: str, dst: str) -> dict[str, Any]:
    return {"id": edge_id, "src": src, "dst": dst}
