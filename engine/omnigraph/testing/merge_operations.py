"""Merges as drivers of the crash matrix: by adopting versions, and by rows that are forked, compared and written.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from typing import Any

from omnigraph import graph as graphs
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


def _merge(root: str, source: str, into: str) -> str | None:
    with graphs.open(root, actor="writer") as graph:
        return graph.branches.merge(source, into=into).commit_id


def _by_rows(root: str, width: int) -> str | None:
    return _merge(root, FEATURE, "main")


def _by_adoption(root: str, width: int) -> str | None:
    return _merge(root, "main", FEATURE)


_ENTRY = frozenset({"branches"})
register(Operation("merge-rows", _ENTRY, _parted, _by_rows, widths=(1, 2)))
register(Operation("merge-both", _ENTRY, _both_moved, _by_rows, widths=(1, 2)))
register(Operation("merge-adopt", _ENTRY, _behind, _by_adoption, widths=(1, 2)))
