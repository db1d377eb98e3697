"""Loads as drivers of the crash matrix: every mode, nodes with edges, and bytes that were staged by others.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import pyarrow as pa
from lance.fragment import write_fragments

from omnigraph import graph as graphs
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.options import LoadOptions
from omnigraph.schema import table_schema
from omnigraph.testing.operations import TYPES, Operation, register, schema_of

_OPEN: dict[str, Any] = {"actor": "writer"}


def _records(width: int, *rows: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"type": name, "data": {"name": key, "n": n}} for name in TYPES[:width] for key, n in rows]


def _seeded(root: str, width: int) -> None:
    with graphs.init(root, schema_of(width), actor="creator") as graph:
        graph.load(_records(width, ("first", 1), ("second", 2)), mode="append")


def _linked(root: str, width: int) -> None:
    """``width`` tables in all, the last of them edges between the rows of the first."""
    schema = schema_of(max(1, width - 1)) + "edge L: T1 -> T1 { n: I32? }\n"
    with graphs.init(root, schema, actor="creator") as graph:
        graph.load(_records(max(1, width - 1), ("first", 1), ("second", 2)), mode="append")


def _load(root: str, mode: str, records: list[dict[str, Any]]) -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        commit_id: str | None = graph.load(records, mode=mode).commit_id
        return commit_id


def _append(root: str, width: int) -> str | None:
    return _load(root, "append", _records(width, ("a", 3), ("b", 4)))


def _append_ahead(root: str, width: int) -> str | None:
    """As if the rows were many: their files are written before there is a verdict, and that before there is an intent."""
    with (
        mock.patch("omnigraph.write.staging_plan.AHEAD_ROWS_MIN", 1),
        mock.patch("omnigraph.write.load.STAGE_FIRST_BYTES", 1),
    ):
        return _append(root, width)


def _merge(root: str, width: int) -> str | None:
    """A row that changes, one that does not, one that is new."""
    return _load(root, "merge", _records(width, ("first", 9), ("second", 2), ("c", 5)))


def _overwrite(root: str, width: int) -> str | None:
    return _load(root, "overwrite", _records(width, ("x", 6)))


def _patch(root: str, width: int) -> str | None:
    """A row of which a property is named, one that stays, one that is new."""
    named = [{"type": name, "data": {"name": "first", "n": 9}} for name in TYPES[:width]]
    rest = [{"type": name, "data": {"name": key}} for name in TYPES[:width] for key in ("second", "c")]
    return _load(root, "patch", [*named, *rest])


def _stubbable(root: str, width: int) -> None:
    """``width`` tables in all, the last of them edges whose missing ends may be made."""
    nodes = "".join(f"node {name} @stub(s) {{ name: String @key n: I32? s: Bool? }}\n" for name in TYPES[: width - 1])
    with graphs.init(root, nodes + f"edge L: T1 -> {TYPES[width - 2]} {{ n: I32? }}\n", actor="creator") as graph:
        graph.load(_records(width - 1, ("first", 1), ("second", 2)), mode="append")


_LINKS = [
    {"edge": "L", "from": "first", "to": "new", "data": {"id": "l1"}},
    {"edge": "L", "from": "gone", "to": "first", "data": {"id": "l2"}},
]


def _load_with_stubs(root: str, width: int) -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        commit_id: str | None = graph.load(_LINKS, mode="merge", on_missing_endpoint="stub").commit_id
        return commit_id


def _append_edges(root: str, width: int) -> str | None:
    links = [{"edge": "L", "from": "first", "to": "second"}, {"edge": "L", "from": "a", "to": "first"}]
    return _load(root, "append", [*_records(max(1, width - 1), ("a", 3)), *links])


def _stage(graph: graphs.Graph, txn: StagingTxn, width: int) -> None:
    for name in TYPES[:width]:
        table = txn.table(name)
        rows: dict[str, Any] = {"id": ["s1", "s2"], "n": [1, 2], "name": ["s1", "s2"]}
        schema = table_schema(graph.catalog.node(name))
        data = pa.table({column: rows[column] for column in schema.names}, schema=schema)
        options = graph._engine.store.lance_options()
        txn.add(table.describe(write_fragments(data, table.uri, storage_options=options), "append"))


def _staged(root: str, width: int) -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        txn = graph.begin()
        _stage(graph, txn, width)
        commit_id: str | None = txn.load_staged(mode="append").commit_id
        return commit_id


def _in_parts(root: str, width: int, mode: str) -> str | None:
    """A batch that executors stage in two parts, each of all tables."""
    from omnigraph.distributed.stage_task import RecordRows
    from omnigraph.distributed.staged_part import Split

    with graphs.open(root, **_OPEN) as graph:
        txn = graph.begin()
        task = txn.task(mode)
        new = [_records(width, ("p1", 1)), _records(width, ("p2", 2), *([("first", 9)] if mode != "append" else []))]
        if mode == "patch":
            new[1].append({"type": "T1", "data": {"name": "second"}})
        parts = [task.stage_records([RecordRows(Split(0, number), [rows])], number) for number, rows in enumerate(new)]
        txn.add_parts(parts)
        commit_id: str | None = txn.load_parts(parts, TYPES[:width], options=LoadOptions(mode=mode)).commit_id
        return commit_id


def _parts_with_stubs(root: str, width: int) -> str | None:
    from omnigraph.distributed.stage_task import RecordRows
    from omnigraph.distributed.staged_part import Split

    with graphs.open(root, **_OPEN) as graph:
        txn = graph.begin()
        part = txn.task("merge").stage_records([RecordRows(Split(0, 0), [list(_LINKS)])], 0)
        txn.add_parts([part])
        options = LoadOptions(mode="merge", on_missing_endpoint="stub")
        commit_id: str | None = txn.load_parts([part], ["L"], options=options).commit_id
        return commit_id


def _parts_append(root: str, width: int) -> str | None:
    return _in_parts(root, width, "append")


def _parts_patch(root: str, width: int) -> str | None:
    return _in_parts(root, width, "patch")


def _parts_merge(root: str, width: int) -> str | None:
    return _in_parts(root, width, "merge")


def _abandoned(root: str, width: int) -> str | None:
    """Bytes are staged and given up: nothing of the graph changes."""
    with graphs.open(root, **_OPEN) as graph:
        txn = graph.begin()
        _stage(graph, txn, width)
        txn.abort()
    return None


register(Operation("load-append", frozenset({"load:append"}), _seeded, _append))
register(Operation("load-ahead", frozenset({"load:append"}), _seeded, _append_ahead))
register(Operation("load-merge", frozenset({"load:merge"}), _seeded, _merge))
register(Operation("load-overwrite", frozenset({"load:overwrite"}), _seeded, _overwrite))
register(Operation("load-patch", frozenset({"load:patch"}), _seeded, _patch))
register(Operation("load-stubs", frozenset({"load:merge"}), _stubbable, _load_with_stubs, widths=(2, 3)))
register(Operation("load-edges", frozenset({"load:append"}), _linked, _append_edges, widths=(2, 4)))
register(
    Operation("staged-append", frozenset({"begin", "load_staged"}), _seeded, _staged, (1, 2), leaves=("__staging/",))
)
register(
    Operation(
        "staged-abort",
        frozenset({"begin", "abort"}),
        _seeded,
        _abandoned,
        (1,),
        leaves=("__staging/",),
        keeps_content=True,
    )
)
register(Operation("parts-append", frozenset({"load_parts"}), _seeded, _parts_append, (1,), leaves=("__staging/",)))
register(Operation("parts-patch", frozenset({"load_parts"}), _seeded, _parts_patch, (1,), leaves=("__staging/",)))
register(
    Operation("parts-stubs", frozenset({"load_parts"}), _stubbable, _parts_with_stubs, (2,), leaves=("__staging/",))
)
register(Operation("parts-merge", frozenset({"load_parts"}), _seeded, _parts_merge, (1,), leaves=("__staging/",)))
