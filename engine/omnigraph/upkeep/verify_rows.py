"""Laws that rows keep, checked over whole tables: ids stand once, endpoints exist, unique tuples and cardinalities hold.

Owns the questions and asks them of DuckDB, which spills where memory ends. Names of columns come from the catalog and
are quoted; values never become text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.schema import Catalog, EdgeType, NodeType

if TYPE_CHECKING:
    import duckdb

Scan = Callable[[str, Sequence[str]], pa.RecordBatchReader]
SHOWN = 5

# What was found: code, table, message.
Found = tuple[str, str, str]


def check_rows(catalog: Catalog, scan: Scan, *, deep: bool) -> Iterator[Found]:
    """Quick: duplicate ids and dangling endpoints. Deep: unique tuples and cardinalities as well."""
    import duckdb

    with duckdb.connect(":memory:") as db:
        for declared in catalog.types():
            yield from _duplicates(db, scan, declared.table_key, ("id",), "duplicate-id")
            if not deep:
                continue
            tuples = [*declared.uniques]
            if isinstance(declared, NodeType) and declared.key is not None:
                tuples.append(declared.key)
            for names in tuples:
                yield from _duplicates(db, scan, declared.table_key, names, "duplicate-unique")
        for edge in catalog.edges.values():
            yield from _dangling(db, scan, catalog, edge)
            if deep and edge.card.max is not None:
                yield from _too_many(db, scan, edge)


def _duplicates(
    db: duckdb.DuckDBPyConnection, scan: Scan, key: str, names: Sequence[str], code: str
) -> Iterator[Found]:
    columns = ", ".join(_quoted(name) for name in names)
    given = " and ".join(f"{_quoted(name)} is not null" for name in names)
    rows = _ask(
        db,
        f"select {columns}, count(*), count(*) over () from t where {given} group by {columns} having count(*) > 1 "
        f"order by {columns} limit {SHOWN}",
        t=scan(key, names),
    )
    if rows:
        shown = ", ".join(_shown(row[:-2]) for row in rows)
        what = "ids" if code == "duplicate-id" else f"values of {', '.join(names)}"
        yield code, key, f"{rows[0][-1]} {what} stand more than once: {shown}"


def _dangling(db: duckdb.DuckDBPyConnection, scan: Scan, catalog: Catalog, edge: EdgeType) -> Iterator[Found]:
    for column, node in (("src", edge.src_type), ("dst", edge.dst_type)):
        rows = _ask(
            db,
            f"select e.{column}, count(*) over () from e anti join n on e.{column} = n.id order by 1 limit {SHOWN}",
            e=scan(edge.table_key, [column]),
            n=scan(catalog.node(node).table_key, ["id"]),
        )
        if rows:
            shown = ", ".join(_shown(row[:1]) for row in rows)
            yield (
                "dangling-endpoint",
                edge.table_key,
                f"{rows[0][-1]} edges have a {column} that no {node} has: {shown}",
            )


def _too_many(db: duckdb.DuckDBPyConnection, scan: Scan, edge: EdgeType) -> Iterator[Found]:
    rows = _ask(
        db,
        f"select src, count(*), count(*) over () from e group by src having count(*) > {int(edge.card.max or 0)} "
        f"order by src limit {SHOWN}",
        e=scan(edge.table_key, ["src"]),
    )
    if rows:
        shown = ", ".join(_shown(row[:1]) for row in rows)
        yield "cardinality", edge.table_key, f"{rows[0][-1]} sources have more than {edge.card.max} edges: {shown}"


def _ask(db: duckdb.DuckDBPyConnection, query: str, **tables: Any) -> list[tuple[Any, ...]]:
    for name, reader in tables.items():
        db.register(name, reader)
    try:
        found: list[tuple[Any, ...]] = db.execute(query).fetchall()
        return found
    finally:
        for name in tables:
            db.unregister(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _shown(values: Sequence[Any]) -> str:
    text = repr(values[0]) if len(values) == 1 else repr(tuple(values))
    return text if len(text) <= 80 else text[:79] + "…"
