"""A committed side held in memory, and short ways to say what is loaded."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.schema import parse_schema, table_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.write.base.changes import Mode, TypeChange
from omnigraph.write.rules.validate import Verdict, validate
from omnigraph.write.sources.input import Input, read_source

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mail: String? @unique
  level: enum(low, high)?
  zip: String?
  @range(age, 0..150)
  @check(zip, "^[0-9]{5}$")
}
node Item { sku: I64 @key  title: String? }
node Note { text: String? }
edge Knows: Person -> Person { since: I32? }
edge Owns: Person -> Item { n: I32?  @unique(src, dst) }
edge Wrote: Person -> Note @card(1..2)
edge Likes: Person -> Item @card(0..2)
"""


class MemoryView:
    """The protocol of a pinned view over plain tables; notes every question."""

    def __init__(self, catalog: Catalog, tables: Mapping[str, pa.Table] | None = None) -> None:
        self.tables = {t.table_key: table_schema(t).empty_table() for t in catalog.types()}
        self.tables.update(tables or {})
        self.asked: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def _note(self, what: str, table_key: str) -> None:
        with self._lock:
            self.asked.append((what, table_key))

    def rows(self, table_key: str) -> int:
        return self.tables[table_key].num_rows

    def contains(self, table_key: str, ids: pa.Array) -> pa.BooleanArray:
        self._note("contains", table_key)
        return pc.is_in(ids, value_set=self.tables[table_key]["id"].combine_chunks())

    def fetch(self, table_key: str, column: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        self._note(f"fetch {column}", table_key)
        table = self.tables[table_key]
        return table.filter(pc.is_in(table[column], value_set=values)).select(list(columns))

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self._note("scan", table_key)
        yield from self.tables[table_key].select(list(columns)).to_batches(max_chunksize=3)


def catalog_of(text: str = SCHEMA) -> Catalog:
    return parse_schema(text)


def person(name: Any, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def item(sku: Any, **data: Any) -> dict[str, Any]:
    return {"type": "Item", "data": {"sku": sku, **data}}


def edge(kind: str, source: Any, target: Any, **data: Any) -> dict[str, Any]:
    return {"edge": kind, "from": source, "to": target, "data": data}


def read(catalog: Catalog, records: Iterable[Any] | str, mode: Mode = "append", **more: Any) -> Input:
    return read_source(records, catalog, mode=mode, **more)


def committed(catalog: Catalog, records: Iterable[Any]) -> MemoryView:
    """A view that holds exactly these records."""
    given = read(catalog, list(records))
    assert not given.malformed, given.malformed.shown
    return MemoryView(catalog, {key: table.rows for key, table in given.tables.items()})


def judge(
    catalog: Catalog,
    records: Iterable[Any],
    mode: Mode = "append",
    view: MemoryView | None = None,
    deleted: Mapping[str, Sequence[str]] | None = None,
) -> Verdict:
    given = read(catalog, list(records), mode)
    changes = {change.table_key: change for change in given.changes(mode)}
    for key, ids in (deleted or {}).items():
        declared = catalog.by_table_key(key)
        change = changes.get(key) or TypeChange(declared, table_schema(declared).empty_table(), mode)
        changes[key] = replace(change, deleted_ids=pa.array(list(ids), pa.utf8()))
    return validate(changes.values(), catalog, view or MemoryView(catalog), malformed=given.malformed)


def codes(verdict: Verdict) -> list[tuple[str, int | None]]:
    return [(violation.code, violation.record) for violation in verdict.violations]
