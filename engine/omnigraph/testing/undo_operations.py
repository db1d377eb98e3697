"""Undo as drivers of the crash matrix: old versions put back, and rows where the tables have moved since.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from typing import Any

from omnigraph import graph as graphs
from omnigraph.testing.operations import TYPES, Operation, register, schema_of

_OPEN: dict[str, Any] = {"actor": "writer"}


def _rows(width: int, *names: str, n: int = 1) -> list[dict[str, Any]]:
    return [{"type": type_, "data": {"name": name, "n": n}} for type_ in TYPES[:width] for name in names]


def _loaded(root: str, width: int) -> None:
    """Two rows in each table, then a commit that changes one and adds one."""
    with graphs.init(root, schema_of(width), actor="creator") as graph:
        graph.load(_rows(width, "a", "b"), mode="append")
        graph.load(_rows(width, "b", "c", n=2), mode="merge")


def _moved(root: str, width: int) -> None:
    """The same, and a later commit to the same tables."""
    _loaded(root, width)
    with graphs.open(root) as graph:
        graph.load(_rows(width, "d", n=3), mode="append")


def _revert(root: str, width: int) -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        bad = next(one for one in graph.commits() if any(change.updated for change in one.tables.values()))
        return graph.revert(bad.id).commit_id


def _restore(root: str, width: int) -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        first = [one for one in graph.commits() if one.kind == "load"][-1]
        return graph.restore(first.id).commit_id


register(Operation("revert", frozenset({"revert"}), _loaded, _revert, widths=(1, 2)))
register(Operation("revert-rows", frozenset({"revert"}), _moved, _revert, widths=(1, 2)))
register(Operation("restore", frozenset({"restore"}), _moved, _restore, widths=(1, 2)))
