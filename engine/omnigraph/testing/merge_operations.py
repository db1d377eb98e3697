"""Merges as drivers of the crash matrix: by adopting versions, by rows that are forked, compared and written, by changes of the
schema, and with the deletion of the source behind.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from typing import Any

from omnigraph import graph as graphs
from omnigraph.testing.content import Content
from omnigraph.testing.operations import TYPES, Operation, register, schema_of

FEATURE = "feature"


def _rows(width: int, *names: str, n: int = 1) -> list[dict[str, Any]]:
    return [{"type": type_, "data": {"name": name, "n": n}} for type_ in TYPES[:width] for name in names]


def _parted(root: str, width: int) -> None:
    """Two rows in each table of main, and a branch that changed one and added one."""
    with graphs.init(root, schema_of(width), actor="creator") as graph:
        graph.load(_rows(width, "a", "b"), mode="append")
        graph.branches.create(FEATURE)
        graph.load(_rows(width, "b", "c", n=2), mode="merge", branch=FEATURE)


def _both_moved(root: str, width: int) -> None:
    """The same, and rows that main has changed since."""
    _parted(root, width)
    with graphs.open(root) as graph:
        graph.load(_rows(width, "a", "d", n=3), mode="merge")


def _behind(root: str, width: int) -> None:
    """A branch without a commit of its own, and rows that main has changed since."""
    with graphs.init(root, schema_of(width), actor="creator") as graph:
        graph.load(_rows(width, "a", "b"), mode="append")
        graph.branches.create(FEATURE)
        graph.load(_rows(width, "b", "c", n=2), mode="merge")


def _schema_moved(root: str, width: int) -> None:
    """A branch that has renamed a column, added one with values, and made a type; and rows of both sides since."""
    _parted(root, width)
    columns = 'name: String @key m: I64? @rename_from("n") more: String'
    text = "".join(f"node {name} {{ {columns} }}\n" for name in TYPES[:width]) + "node Made { name: String @key }\n"
    fill: dict[str, object] = {f"{name}.more": {"sql": "upper(name)"} for name in TYPES[:width]}
    with graphs.open(root) as graph:
        graph.schema.apply(text, branch=FEATURE, fill=fill)
        made = [{"type": name, "data": {"name": "e", "m": 5, "more": "own"}} for name in TYPES[:width]]
        graph.load([*made, {"type": "Made", "data": {"name": "x"}}], mode="append", branch=FEATURE)
        graph.load(_rows(width, "a", "d", n=3), mode="merge")


def _merge(root: str, source: str, into: str, *, delete_source: bool = False) -> str | None:
    with graphs.open(root, actor="writer") as graph:
        return graph.branches.merge(source, into=into, delete_source=delete_source).commit_id


def _by_rows(root: str, width: int) -> str | None:
    return _merge(root, FEATURE, "main")


def _by_adoption(root: str, width: int) -> str | None:
    return _merge(root, "main", FEATURE)


def _and_delete(root: str, width: int) -> str | None:
    return _merge(root, FEATURE, "main", delete_source=True)


def _merged_alone(content: Content) -> Content:
    """Once main has the rows of the source, the branch may be there or not: its deletion is a step of its own, and a merge whose
    deletion fails says so by a warning. Before that, a source that is gone is a loss."""
    if not any(dict(row)["name"] == "c" for row in content.tables["node:T1"]):
        return content
    return Content({key: rows for key, rows in content.tables.items() if not key.startswith(f"{FEATURE} ")})


_ENTRY = frozenset({"branches"})
register(Operation("merge-rows", _ENTRY, _parted, _by_rows, widths=(1, 2)))
register(Operation("merge-both", _ENTRY, _both_moved, _by_rows, widths=(1, 2)))
register(Operation("merge-adopt", _ENTRY, _behind, _by_adoption, widths=(1, 2)))
register(Operation("merge-schema", _ENTRY, _schema_moved, _by_rows, widths=(1, 2), leaves=("nodes/",)))
register(Operation("merge-delete", _ENTRY, _both_moved, _and_delete, widths=(1, 2), judged=_merged_alone))
